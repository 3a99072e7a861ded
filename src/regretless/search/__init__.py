"""The search for the feasible point with the largest score."""

from regretless.search.best_point import maximise
from regretless.search.box import Box
from regretless.search.merge import same_point
from regretless.search.pool import Found, candidates
from regretless.search.slice import Domain, Slice, structured
from regretless.search.sparse import fewest_changes

__all__ = [
    "Box",
    "Domain",
    "Found",
    "Slice",
    "candidates",
    "fewest_changes",
    "maximise",
    "same_point",
    "structured",
]
