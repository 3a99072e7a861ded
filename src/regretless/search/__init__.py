"""The search for the best feasible point of a score."""

from regretless.search.best_point import maximise
from regretless.search.merge import same_point
from regretless.search.pool import Found, candidates

__all__ = ["Found", "candidates", "maximise", "same_point"]
