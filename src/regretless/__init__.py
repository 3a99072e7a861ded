"""Tune a noisy system while it is live: every evaluation counts."""

from regretless.engine import Optimizer, Result, maximize, minimize
from regretless.errors import (
    BudgetError,
    ConfigError,
    CorruptJournalError,
    DataError,
    MissingExtraError,
    NoResultsError,
    RegretlessError,
    ServiceError,
    SpaceError,
    StorageError,
    TrialError,
    UnknownStudyError,
    UnknownTrialError,
)
from regretless.model import Model
from regretless.policies import (
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
from regretless.results import Best, Decision, Landscape, Row, Trial
from regretless.space import Categorical, Float, Int, Ordinal, Scalar, Space
from regretless.studies.study import Study

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
    "CorruptJournalError",
    "DataError",
    "Decision",
    "EINguyen",
    "ExploreThenCommit",
    "Float",
    "Int",
    "Landscape",
    "MissingExtraError",
    "Model",
    "NoResultsError",
    "Optimizer",
    "Ordinal",
    "Policy",
    "Random",
    "RegretlessError",
    "Result",
    "Row",
    "Scalar",
    "ServiceError",
    "Space",
    "SpaceError",
    "StorageError",
    "Study",
    "Trial",
    "TrialError",
    "UnknownStudyError",
    "UnknownTrialError",
    "__version__",
    "maximize",
    "minimize",
]
