"""Tune a noisy system while it is live: every evaluation counts."""

from noregret.decision import Best, Decision, Landscape, Row, Trial
from noregret.errors import (
    BudgetError,
    ConfigError,
    DataError,
    MissingExtraError,
    NoRegretError,
    NoResultsError,
    SpaceError,
    StorageError,
    TrialError,
    UnknownTrialError,
)
from noregret.fit import Model
from noregret.loop import Result, maximize, minimize
from noregret.optimizer import Optimizer
from noregret.policies import (
    AEI,
    EI,
    EIC,
    GPTS,
    GPUCB,
    IDS,
    EINguyen,
    ExploreThenCommit,
    Policy,
    Random,
)
from noregret.space import Categorical, Float, Int, Ordinal, Scalar, Space
from noregret.study import Study

__version__ = "0.1.0"

__all__ = [
    "AEI",
    "EI",
    "EIC",
    "GPTS",
    "GPUCB",
    "IDS",
    "Best",
    "BudgetError",
    "Categorical",
    "ConfigError",
    "DataError",
    "Decision",
    "EINguyen",
    "ExploreThenCommit",
    "Float",
    "Int",
    "Landscape",
    "MissingExtraError",
    "Model",
    "NoRegretError",
    "NoResultsError",
    "Optimizer",
    "Ordinal",
    "Policy",
    "Random",
    "Result",
    "Row",
    "Scalar",
    "Space",
    "SpaceError",
    "StorageError",
    "Study",
    "Trial",
    "TrialError",
    "UnknownTrialError",
    "__version__",
    "maximize",
    "minimize",
]
