"""The search space: parameters to tune in the user's units, and their encoding in [0, 1]^d."""

from regretless.space.changes import (
    Added,
    Values,
    carried,
    change_from_json,
    changed,
    parameters_from_json,
)
from regretless.space.conditional import Conditional, rules_of
from regretless.space.limits import Limit
from regretless.space.lists import Categorical, Ordinal
from regretless.space.numbers import Float, Int
from regretless.space.parameter import Parameter, Scalar
from regretless.space.space import MAX_GRID_POINTS, Space, product

__all__ = [
    "MAX_GRID_POINTS",
    "Added",
    "Categorical",
    "Conditional",
    "Float",
    "Int",
    "Limit",
    "Ordinal",
    "Parameter",
    "Scalar",
    "Space",
    "Values",
    "carried",
    "change_from_json",
    "changed",
    "parameters_from_json",
    "product",
    "rules_of",
]
