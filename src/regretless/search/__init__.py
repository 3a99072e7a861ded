"""The search for the feasible point with the largest score."""

from regretless.search.best_point import maximise
from regretless.search.merge import same_point
from regretless.search.pool import Found, candidates
from regretless.search.slice import Domain, Slice, structured

__all__ = ["Domain", "Found", "Slice", "candidates", "maximise", "same_point", "structured"]
