"""The search for the feasible point with the largest score."""

from regretless.search.best_point import maximise
from regretless.search.box import Box
from regretless.search.limits import WithinLimit, constraints_of
from regretless.search.merge import same_point, same_setting
from regretless.search.pool import Found, candidates
from regretless.search.slice import Domain, Slice, structured
from regretless.search.sparse import fewest_changes

__all__ = [
    "Box",
    "Domain",
    "Found",
    "Slice",
    "WithinLimit",
    "candidates",
    "constraints_of",
    "fewest_changes",
    "maximise",
    "same_point",
    "same_setting",
    "structured",
]
