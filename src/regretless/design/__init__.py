"""Initial designs: the points that a run tries before the policy decides."""

from regretless.design.plan import Start, checked_design, checked_n0, farthest
from regretless.design.points import (
    branch_points,
    branches_first,
    budget_levels,
    central,
    centred_grid,
    choices_first,
    grid,
    grid_levels,
    latin_hypercube,
    mirrored,
    sobol,
)

__all__ = [
    "Start",
    "branch_points",
    "branches_first",
    "budget_levels",
    "central",
    "centred_grid",
    "checked_design",
    "checked_n0",
    "choices_first",
    "farthest",
    "grid",
    "grid_levels",
    "latin_hypercube",
    "mirrored",
    "sobol",
]
