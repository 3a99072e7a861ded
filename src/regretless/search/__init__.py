"""The search for the best feasible point of a score."""

from regretless.search.candidates import Found, candidates
from regretless.search.maximise import maximise
from regretless.search.merge import same_point

__all__ = ["Found", "candidates", "maximise", "same_point"]
