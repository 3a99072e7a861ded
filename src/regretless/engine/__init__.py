"""Ask and tell, without any input or output."""

from regretless.engine.optimizer import Direction, Optimizer
from regretless.engine.situation import Situation

__all__ = ["Direction", "Optimizer", "Situation"]
