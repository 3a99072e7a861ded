"""The search space: parameters to tune in the user's units, and their encoding in [0, 1]^d."""

from regretless.space.graphs import Graph
from regretless.space.lists import Categorical, Ordinal
from regretless.space.numbers import Float, Int
from regretless.space.orders import Permutation, Subset
from regretless.space.parameter import Parameter, Scalar
from regretless.space.scales import Levels, Line
from regretless.space.sequences import Sequence
from regretless.space.space import Space, product
from regretless.space.structured import Structured, has_structure
from regretless.space.trees import Tree

__all__ = [
    "Categorical",
    "Float",
    "Graph",
    "Int",
    "Levels",
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
    "has_structure",
    "product",
]
