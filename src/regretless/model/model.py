"""`Model`: the settings of the Gaussian process and of its fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any, Literal, cast, get_args

import numpy as np

from regretless._internal.shown import shown
from regretless._internal.validate import (
    check_amount,
    is_number,
    is_one_of,
    plain,
    with_plain_numbers,
)
from regretless.defaults import NEWEST, FitRules, Method, ModelRules, Noise, Prior
from regretless.errors import ConfigError
from regretless.kernels import (
    NAMED,
    BesideMiddle,
    CentredHamming,
    Contextual,
    Hamming,
    Kernel,
    Lifted,
    Product,
    Rule,
    Switched,
    most_at_once,
    with_sums,
)
from regretless.model.data import Data
from regretless.model.gp import GP
from regretless.model.hyper import Hyper
from regretless.model.posterior import Posterior
from regretless.space import Parameter, rules_of


@dataclass(frozen=True)
class Model:
    """The settings of the Gaussian process and of its fit.

    The defaults suit most runs.  `Model.paper()` has the settings of the paper.

    Args:
        kernel: "rippled", "se", "matern12", "matern32" or "matern52", or a `Kernel` over all
            encoded columns.  A name stands for a kernel over the ordered columns, times a Hamming
            kernel over the categorical ones.
        mean: whether the prior mean of f is a fitted constant or zero.
        method: how the hyper-parameters are found: "ensemble" (several draws from their posterior,
            over which everything is averaged), "map" (maximum a posteriori, with weak priors), "ml"
            (maximum likelihood) or "fixed" (not fitted).
        length_prior: mean and sd of log h - log(d)/2, for a length-scale h and d columns.  The term
            log(d)/2 is there because distances in a cube grow with sqrt(d).
        noise_prior: mean and sd of log lam^2.
        growth: fit again when the data have grown by this share.
        lam2: the noise ratio lam^2 before the first fit, or always with "fixed".
        omega2: the signal variance omega^2 before the first fit, or always with "fixed".
        tail: how the model counts disasters, which are outcomes far worse than usual.  "log" counts
            them by their logarithm, so that one of them can't spoil the fit.  "linear" counts them
            as they are.
        noise_sd: the sd of the noise of one evaluation, in the user's units, if it is known.  It
            counts for each result that is told without a standard error.  None to estimate it.
        noise: "constant" if the noise has the same size everywhere, or "auto" to find out from
            the results where they scatter more, by their level and by their place.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> import regretless as rl
        >>> model = rl.Model(kernel="matern52", growth=0.2)
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, model=model)
    """

    kernel: str | Kernel = NEWEST.model.kernel
    mean: Literal["constant", "zero"] = "constant"
    method: Method = NEWEST.model.method
    length_prior: tuple[float, float] = NEWEST.model.length_prior
    noise_prior: tuple[float, float] = NEWEST.model.noise_prior
    growth: float = NEWEST.model.growth
    lam2: float = NEWEST.model.lam2
    omega2: float = NEWEST.model.omega2
    tail: Literal["log", "linear"] = "log"
    noise_sd: float | None = None
    noise: Noise = "constant"

    def __post_init__(self) -> None:
        with_plain_numbers(self)
        if not isinstance(self.kernel, Kernel) and not is_one_of(self.kernel, NAMED):
            raise ConfigError(f"kernel: need one of {', '.join(NAMED)}, got {shown(self.kernel)}")
        if not is_one_of(self.mean, ("constant", "zero")):
            raise ConfigError(f"mean: need 'constant' or 'zero', got {shown(self.mean)}")
        if not is_one_of(self.method, get_args(Method)):
            names = ", ".join(map(repr, get_args(Method)))
            raise ConfigError(f"method: need one of {names}, got {shown(self.method)}")
        if not is_one_of(self.tail, ("log", "linear")):
            raise ConfigError(f"tail: need 'log' or 'linear', got {shown(self.tail)}")
        if not is_one_of(self.noise, get_args(Noise)):
            raise ConfigError(f"noise: need 'constant' or 'auto', got {shown(self.noise)}")
        check_amount("growth", self.growth)
        check_amount("lam2", self.lam2, positive=True)
        check_amount("omega2", self.omega2, positive=True)
        if self.noise_sd is not None:
            check_amount("noise_sd", self.noise_sd, positive=True)
        for name in ("length_prior", "noise_prior"):
            prior = getattr(self, name)
            numbers = isinstance(prior, tuple | list) and all(map(is_number, prior))
            if not (numbers and len(prior) == 2 and prior[1] > 0):
                raise ConfigError(
                    f"{name}: need (center, sd), sd > 0, of a logarithm, got {shown(prior)}"
                )
            object.__setattr__(self, name, plain(tuple(prior)))

    @classmethod
    def default(cls, rules: ModelRules) -> Model:
        """The default model of a version of the defaults.

        Args:
            rules: the settings of the model in that version.
        """
        return cls(**rules._asdict())

    @classmethod
    def paper(cls) -> Model:
        """The settings of the paper's experiments: zero mean, SE kernel, maximum likelihood.

        Example:
            >>> Model.paper().kernel
            'se'
        """
        return cls(kernel="se", mean="zero", method="ml", tail="linear")

    @classmethod
    def fixed(cls, kernel: str | Kernel, lam2: float, omega2: float = 1.0) -> Model:
        """A model with zero mean and known hyper-parameters.  Outcomes are not rescaled.

        Args:
            kernel: a name or a `Kernel`, see `Model`.
            lam2: the noise ratio lam^2: the noise variance divided by the signal variance.
            omega2: the signal variance omega^2.

        Raises:
            ConfigError: the kernel is unknown, or a number is not positive.

        Example:
            >>> from regretless.kernels import SE
            >>> Model.fixed(SE((0.2, 0.2)), lam2=0.01).method
            'fixed'
        """
        return cls(kernel, mean="zero", method="fixed", lam2=lam2, omega2=omega2, tail="linear")

    def start(self, columns: Sequence[Parameter], rules: FitRules) -> Hyper:
        """The hyper-parameters before the first fit.

        Args:
            columns: the parameters of the space, in order.
            rules: the constants of the fit.
        """
        kernel = self._kernel_for(columns, rules)
        if self.method == "ensemble" and self.mean == "constant":
            kernel = Lifted(kernel, rules.ensemble.mean_variance)
        return Hyper(kernel, self.lam2, self.omega2, self._mean_precision(rules))

    def posterior(self, data: Data, hyper: Hyper) -> Posterior:
        """The posterior given data.  A subclass may return another kind of `Posterior`.

        Args:
            data: the results, in the units of the model.
            hyper: the fitted kernel and noise.
        """
        return GP.of(data, hyper)

    def _mean_precision(self, rules: FitRules) -> float | None:
        if self.mean == "zero" or self.method == "ensemble":
            return None
        return rules.priors.mean_precision if self.method == "map" else 0.0

    def signal_prior(self, rules: FitRules) -> tuple[float, float]:
        """The pair (a, b) of the inverse-gamma prior of omega^2; (0, 0) if there is none.

        Args:
            rules: the constants of the fit.
        """
        return rules.priors.signal if self.method == "map" else (0.0, 0.0)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON.

        Raises:
            ConfigError: the class of the kernel has no name for JSON, see `Kernel`.
        """
        kernel = self.kernel if isinstance(self.kernel, str) else self.kernel.to_json()
        settings = asdict(self) | {"kernel": kernel}
        if self.noise == "constant":  # as studies were stored before this setting existed
            del settings["noise"]
        return settings

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        """The model that `to_json` wrote.

        Args:
            data: what `to_json` returned.

        Raises:
            ConfigError: the kernel is unknown, or a setting is out of range.
        """
        # Old studies have no `tail` and no `noise_sd` in their JSON.
        given: dict[str, Any] = {"tail": "linear"} | _with_tuples(data)
        if not isinstance(given["kernel"], str):
            given["kernel"] = Kernel.from_json(given["kernel"])
        return cls(**given)

    def _kernel_for(self, columns: Sequence[Parameter], rules: FitRules) -> Kernel:
        """The kernel over all columns; with contexts it is `Contextual`."""
        if isinstance(self.kernel, Kernel):
            return self.kernel
        each = dict(enumerate(columns))
        contexts = {j: p for j, p in each.items() if p.is_context}
        settings = {j: p for j, p in each.items() if not p.is_context}
        kernel = self._named_kernel(settings, rules_of(columns), bool(contexts), rules)
        if not contexts:
            return kernel
        around = replace(self, kernel="matern52")._named_kernel(contexts, (), True, rules)
        return Contextual(kernel, around, around)

    def _named_kernel(
        self,
        columns: Mapping[int, Parameter],
        when: tuple[Rule, ...],
        beside: bool,
        rules: FitRules,
    ) -> Kernel:
        """The named kernel over the ordered columns, times each kind's `kernel_part`.

        `beside` says whether there are other columns.
        """
        switched = {column for column, *_ in when}
        kinds: dict[type[Parameter], dict[int, Parameter]] = {}
        factors: list[Kernel] = []
        for column, parameter in columns.items():
            kinds.setdefault(type(parameter.plain), {})[column] = parameter.plain
        near: list[int] = []
        for kind, mine in kinds.items():
            part = _part(kind, mine, rules)
            if part is None:
                near += mine
            elif not switched.intersection(mine):
                factors.append(part)
            elif type(part) is Hamming:
                factors.append(CentredHamming(part.weights, part.columns, when))
            else:
                factors += _switched_parts(kind, mine, when, rules)
        if near:
            beside = beside or bool(factors)
            factors.insert(0, self._near_kernel(tuple(sorted(near)), beside, when, rules))
        return factors[0] if len(factors) == 1 else Product(tuple(factors))

    def _near_kernel(
        self, near: tuple[int, ...], beside: bool, when: Sequence[Rule], rules: FitRules
    ) -> Kernel:
        """The named kernel over the columns `near`; `beside` says whether there are others."""
        named = NAMED[cast(str, self.kernel)]
        if not any(column in near for column, *_ in when):
            scales = (rules.first_length * sqrt(len(near)),) * len(near)
            return named(scales, near if beside else None)
        at_once = most_at_once(near, when)
        scales = (rules.first_length * sqrt(at_once),) * len(near)
        return BesideMiddle(named(scales), near, tuple(when), at_once)


def _part(kind: type[Parameter], mine: Mapping[int, Parameter], rules: FitRules) -> Kernel | None:
    """The kernel of the columns of a kind; None if the named kernel has them."""
    part = kind.kernel_part(mine)
    return with_sums(part) if part is not None and rules.sums_over_parts else part


def _switched_parts(
    kind: type[Parameter],
    mine: Mapping[int, Parameter],
    when: tuple[Rule, ...],
    rules: FitRules,
) -> list[Kernel]:
    """The kernel of the columns of a kind that are always active, and one for each other column."""
    switched = {column for column, *_ in when}
    together = {j: p for j, p in mine.items() if j not in switched}
    parts = [_part(kind, together, rules)] if together else []
    for j in sorted(mine.keys() & switched):
        alone = _part(kind, {j: mine[j]}, rules)
        assert alone is not None
        parts.append(Switched(alone, j, when))
    return [part for part in parts if part is not None]


def _with_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}


def checked_model(columns: Sequence[Parameter], model: object, rules: FitRules) -> Model:
    """The model, after a check that its kernel works on these columns.

    An optimiser checks this when it is created, so that it does not fail after the first results.

    Raises:
        ConfigError: it is not a `Model`, or its kernel does not suit the columns.
    """
    if not isinstance(model, Model):
        raise ConfigError(f"model: need a Model, got {shown(model)}")
    kernel = model.start(columns, rules).kernel.varying
    try:
        kernel.gram(np.full((1, len(columns)), 0.5))
    except IndexError:
        raise ConfigError(
            f"model: {shown(kernel)} uses more columns than the space has ({len(columns)})"
        ) from None
    priors, parameters = kernel.priors(rules.priors), len(kernel.theta)
    if len(priors) != parameters or not all(isinstance(prior, Prior) for prior in priors):
        raise ConfigError(
            f"model: {shown(kernel)} has {parameters} parameters and needs a Prior for each, got"
            f" {shown(priors)}"
        )
    return model
