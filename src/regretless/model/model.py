"""`Model`: how the surrogate is built and fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log, sqrt
from typing import Any, Literal

import numpy as np

from regretless._internal.validate import check_amount, is_number, plain, with_plain_numbers
from regretless.errors import ConfigError
from regretless.kernels import (
    SE,
    Hamming,
    Kernel,
    Matern,
    Product,
    Rippled,
    kernel_from_json,
    kernel_to_json,
)
from regretless.model.hyper import Hyper

KERNELS = ("rippled", "se", "matern12", "matern32", "matern52")


@dataclass(frozen=True)
class Model:
    """How the surrogate is built and fitted; `Model.paper()` is the paper's own setting."""

    kernel: str | Kernel = "rippled"
    mean: Literal["constant", "zero"] = "constant"
    method: Literal["map", "ml", "fixed"] = "map"
    length_prior: tuple[float, float] = (log(0.25), 1.0)  # of log h - log(d)/2
    noise_prior: tuple[float, float] = (log(0.01), 2.0)  # of log lam2
    growth: float = 0.1  # fit again when the data have grown by this share
    lam2: float = 0.01  # the noise ratio and the signal before any fit; for good if fixed
    omega2: float = 1.0
    tail: Literal["log", "linear"] = "log"  # how disasters count, see `outcomes`

    def __post_init__(self) -> None:
        with_plain_numbers(self)
        if not isinstance(self.kernel, Kernel) and self.kernel not in KERNELS:
            raise ConfigError(f"kernel: need one of {', '.join(KERNELS)}, got {self.kernel!r}")
        if self.mean not in ("constant", "zero"):
            raise ConfigError(f"mean: need 'constant' or 'zero', got {self.mean!r}")
        if self.method not in ("map", "ml", "fixed"):
            raise ConfigError(f"method: need 'map', 'ml' or 'fixed', got {self.method!r}")
        if self.tail not in ("log", "linear"):
            raise ConfigError(f"tail: need 'log' or 'linear', got {self.tail!r}")
        check_amount("growth", self.growth)
        check_amount("lam2", self.lam2, positive=True)
        check_amount("omega2", self.omega2, positive=True)
        for name in ("length_prior", "noise_prior"):
            prior = getattr(self, name)
            numbers = isinstance(prior, tuple | list) and all(map(is_number, prior))
            if not (numbers and len(prior) == 2 and prior[1] > 0):
                raise ConfigError(
                    f"{name}: need (center, sd), sd > 0, of a logarithm, got {prior!r}"
                )
            object.__setattr__(self, name, plain(tuple(prior)))

    @classmethod
    def paper(cls) -> Model:
        """Zero mean, SE kernel, maximum likelihood (section 5)."""
        return cls(kernel="se", mean="zero", method="ml", tail="linear")

    @classmethod
    def fixed(cls, kernel: str | Kernel, lam2: float, omega2: float = 1.0) -> Model:
        """Zero mean and these parameters, for outcomes as they are: no fit, no rescaling."""
        return cls(kernel, mean="zero", method="fixed", lam2=lam2, omega2=omega2, tail="linear")

    @property
    def mean_precision(self) -> float | None:
        if self.mean == "zero":
            return None
        return 0.25 if self.method == "map" else 0.0

    @property
    def omega_prior(self) -> tuple[float, float]:
        return (1.0, 1.0) if self.method == "map" else (0.0, 0.0)

    def start(self, kinds: Sequence[str]) -> Hyper:
        """Hyper-parameters before any data."""
        return Hyper(self._kernel_for(kinds), self.lam2, self.omega2, self.mean_precision)

    def to_json(self) -> dict[str, Any]:
        kernel = self.kernel if isinstance(self.kernel, str) else kernel_to_json(self.kernel)
        return asdict(self) | {"kernel": kernel}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        given: dict[str, Any] = {"tail": "linear"} | _with_tuples(data)  # older ones have no tail
        if not isinstance(given["kernel"], str):
            given["kernel"] = kernel_from_json(given["kernel"])
        return cls(**given)

    def _kernel_for(self, kinds: Sequence[str]) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        choices = tuple(i for i, kind in enumerate(kinds) if kind == "categorical")
        others = tuple(i for i, kind in enumerate(kinds) if kind != "categorical")
        parts: list[Kernel] = []
        if others:
            scales = (0.5 * sqrt(len(others)),) * len(others)
            columns = None if not choices else others
            if self.kernel == "rippled":
                parts.append(Rippled(scales, columns))
            elif self.kernel == "se":
                parts.append(SE(scales, columns))
            else:
                nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[str(self.kernel)]
                parts.append(Matern(scales, columns, nu))
        if choices:
            parts.append(Hamming((1.0,) * len(choices), choices))
        return parts[0] if len(parts) == 1 else Product(tuple(parts))


def _with_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}


def checked_model(kinds: tuple[str, ...], model: object) -> Model:
    """Once it has been tried: a study that could be created must also be able to go on."""
    if not isinstance(model, Model):
        raise ConfigError(f"model: need a Model, got {model!r}")
    kernel = model.start(kinds).kernel
    try:
        kernel.gram(np.full((1, len(kinds)), 0.5))
    except IndexError:
        raise ConfigError(
            f"model: {kernel!r} has columns beyond the {len(kinds)} there are"
        ) from None
    return model
