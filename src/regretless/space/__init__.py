"""The search space: parameters to tune in the user's units, and their encoding in [0, 1]^d."""

from regretless.space.changes import (
    Added,
    Values,
    carried,
    change_from_json,
    changed,
    check_change,
    parameters_from_json,
)
from regretless.space.conditional import Conditional, rules_of
from regretless.space.contexts import Contexts
from regretless.space.graphs import Graph
from regretless.space.limits import Limit
from regretless.space.lists import Categorical, Ordinal
from regretless.space.numbers import Cyclic, Float, Int
from regretless.space.orders import Permutation, Subset
from regretless.space.parameter import Parameter, Scalar
from regretless.space.scales import Levels, Line
from regretless.space.sequences import Sequence
from regretless.space.space import MAX_GRID_POINTS, Space, product
from regretless.space.structured import Structured, has_structure
from regretless.space.trees import Tree

__all__ = [
    "MAX_GRID_POINTS",
    "Added",
    "Categorical",
    "Conditional",
    "Contexts",
    "Cyclic",
    "Float",
    "Graph",
    "Int",
    "Levels",
    "Limit",
    "Line",
    "Ordinal",
    "Parameter",
    "Permutation",
    "Scalar",
    "Sequence",
    "Space",
    "Structured",
    "Subset",
    "Tree",
    "Values",
    "carried",
    "change_from_json",
    "changed",
    "check_change",
    "has_structure",
    "parameters_from_json",
    "product",
    "rules_of",
]
