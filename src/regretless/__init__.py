"""Tune a noisy system while it is live: every evaluation counts."""

from typing import TYPE_CHECKING, Any

from regretless.engine import Optimizer
from regretless.errors import (
    ArchivedError,
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
from regretless.kernels import SE, Kernel, Matern, Prior
from regretless.model import Drift, Model
from regretless.policies import (
    AEI,
    EI,
    EIC,
    GPTS,
    GPUCB,
    IDS,
    Constraint,
    EINguyen,
    ExploreThenCommit,
    Policy,
    PolicyInput,
    PosteriorScore,
    Random,
    Score,
)
from regretless.results import Allocation, Arm, Best, Decision, Landscape, Row, Trial
from regretless.safety import AtLeast, AtMost
from regretless.space import (
    Categorical,
    Cyclic,
    Float,
    Graph,
    Int,
    Ordinal,
    Parameter,
    Permutation,
    Scalar,
    Sequence,
    Space,
    Structured,
    Subset,
    Tree,
)

if TYPE_CHECKING:
    from regretless.asktell import AskTell
    from regretless.ledger import Ledger
    from regretless.run import Result, maximize, minimize
    from regretless.studies import Study

__version__ = "0.1.0"

__all__ = [
    "AEI",
    "EI",
    "EIC",
    "GPTS",
    "GPUCB",
    "IDS",
    "SE",
    "Allocation",
    "ArchivedError",
    "Arm",
    "AskTell",
    "AtLeast",
    "AtMost",
    "Best",
    "BudgetError",
    "Categorical",
    "ConfigError",
    "Constraint",
    "CorruptJournalError",
    "Cyclic",
    "DataError",
    "Decision",
    "Drift",
    "EINguyen",
    "ExploreThenCommit",
    "Float",
    "Graph",
    "Int",
    "Kernel",
    "Landscape",
    "Ledger",
    "Matern",
    "MissingExtraError",
    "Model",
    "NoResultsError",
    "Optimizer",
    "Ordinal",
    "Parameter",
    "Permutation",
    "Policy",
    "PolicyInput",
    "PosteriorScore",
    "Prior",
    "Random",
    "RegretlessError",
    "Result",
    "Row",
    "Scalar",
    "Score",
    "Sequence",
    "ServiceError",
    "Space",
    "SpaceError",
    "StorageError",
    "Structured",
    "Study",
    "Subset",
    "Tree",
    "Trial",
    "TrialError",
    "UnknownStudyError",
    "UnknownTrialError",
    "__version__",
    "maximize",
    "minimize",
]

# Imported when they are asked for: `import regretless` stays quick.
_LATER = {
    "AskTell": "regretless.asktell",
    "Ledger": "regretless.ledger",
    "Result": "regretless.run",
    "Study": "regretless.studies",
    "maximize": "regretless.run",
    "minimize": "regretless.run",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    globals()[name] = found = getattr(import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
