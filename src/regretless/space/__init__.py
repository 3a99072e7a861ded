"""What a person tunes, in their own units, and its image in the unit cube."""

from regretless.space.parameters import Categorical, Float, Int, Ordinal, Parameter, Scalar
from regretless.space.space import Space, product

__all__ = ["Categorical", "Float", "Int", "Ordinal", "Parameter", "Scalar", "Space", "product"]
