"""Ask and tell, without any input or output."""

from regretless.engine.events import (
    Abandoned,
    Asked,
    Created,
    Event,
    Extended,
    Observed,
    Outcome,
    Told,
    Written,
    outcomes_of,
    read,
    write,
)
from regretless.engine.optimizer import Direction, Optimizer, html_of
from regretless.engine.records import Records
from regretless.engine.situation import Situation

__all__ = [
    "Abandoned",
    "Asked",
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
    "html_of",
    "outcomes_of",
    "read",
    "write",
]
