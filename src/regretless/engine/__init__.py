"""Ask and tell, without any input or output."""

from regretless.engine.asktell import AskTell
from regretless.engine.ledger import Ledger
from regretless.engine.optimizer import Direction, Optimizer
from regretless.engine.run import Result, maximize, minimize
from regretless.engine.situation import Situation

__all__ = [
    "AskTell",
    "Direction",
    "Ledger",
    "Optimizer",
    "Result",
    "Situation",
    "maximize",
    "minimize",
]
