"""Ask and tell, without any input or output."""

from regretless.engine.events import (
    OBJECTIVE,
    Abandoned,
    Asked,
    Changed,
    Created,
    Event,
    Extended,
    Observed,
    Outcome,
    Told,
    Written,
    read,
    write,
)
from regretless.engine.optimizer import Direction, Optimizer
from regretless.engine.records import Records
from regretless.engine.situation import Situation

__all__ = [
    "OBJECTIVE",
    "Abandoned",
    "Asked",
    "Changed",
    "Created",
    "Direction",
    "Event",
    "Extended",
    "Observed",
    "Optimizer",
    "Outcome",
    "Records",
    "Situation",
    "Told",
    "Written",
    "read",
    "write",
]
