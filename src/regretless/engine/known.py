"""What the user knows about the best value: the optimum itself, or a bound that f can't exceed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regretless._internal.shown import shown
from regretless._internal.validate import MAX_RESULT, is_number
from regretless.defaults import KnownRules
from regretless.errors import ConfigError
from regretless.model import Data, Posterior


class Known(NamedTuple):
    """The value that no point is better than, in the user's units and direction."""

    value: float
    exact: bool  # whether some point has this value, or only none is better

    @classmethod
    def of(cls, optimum: object, bound: object) -> Known | None:
        """What the user gave; None if neither is given.

        Raises:
            ConfigError: both are given, or one is not a finite number.
        """
        if optimum is not None and bound is not None:
            raise ConfigError(
                f"bound: need either an optimum or a bound, got {shown(optimum)} and {shown(bound)}"
            )
        name, given = ("optimum", optimum) if bound is None else ("bound", bound)
        if given is None:
            return None
        if not (is_number(given) and abs(float(given)) <= MAX_RESULT):
            raise ConfigError(f"{name}: need a finite number, got {shown(given)}")
        return cls(float(given), bound is None)

    def to_json(self) -> dict[str, Any]:
        """The argument of `Optimizer` that the user gave."""
        return {"optimum" if self.exact else "bound": self.value}


def is_contradicted(value: float, posterior: Posterior, data: Data, rules: KnownRules) -> bool:
    """Whether f at a visited point is clearly above a value that it can't exceed.

    A fit to few results may take noise for signal.  So only points with several results count, or
    with a standard error that was told.  A point that seems to exceed the value is soon tried
    again, because the gate allows no other.

    Args:
        value: the value, in the units of the model.
        posterior: the posterior given all results.
        data: the results, with one row for each point.
        rules: what "clearly" means.
    """
    # Controls are results at the baseline, so the posterior may have a point more than the data.
    alike = len(posterior.points) == len(data)
    mu, sigma = posterior.at_data if alike else posterior.predict(data.x)
    surely = mu - rules.sure_sds * posterior.omega * sigma
    counts = (data.count >= rules.sure_results) | data.known
    return bool(np.any(counts & (surely > value + rules.clear)))
