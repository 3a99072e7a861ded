"""Pictures of a run: each function draws on the Axes that it is given, or on new ones.

matplotlib is imported when the first picture is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from regretless._internal.arrays import Array
from regretless._internal.validate import is_number
from regretless.engine import Optimizer
from regretless.errors import ConfigError, MissingExtraError, NoResultsError
from regretless.ledger import Ledger
from regretless.results import Landscape
from regretless.run import Result
from regretless.space import Float, Scalar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = {
    "design": "#999999",
    "explore": "#D55E00",
    "exploit": "#56B4E9",
    "resample": "#009E73",
    "exhausted": "#CC79A7",
    "given": "#000000",
}
_CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


@runtime_checkable
class _HasSnapshot(Protocol):
    """Anything with a snapshot of an optimiser, such as a `Study`."""

    def snapshot(self) -> Any: ...


Run: TypeAlias = Optimizer | Result | _HasSnapshot


def _axes(ax: Axes | None, **options: Any) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "matplotlib") from error
    return Figure(layout="constrained", **options).add_subplot()


def plot_regret(
    curves: Mapping[str, Array], ax: Axes | None = None, *, cumulative: bool = True
) -> Axes:
    """Plot the mean cumulative regret of several runs, with its 95 % region, one curve per label.

    Args:
        curves: for each label the regret of each step, as an array (steps,) for one run or
            (runs, steps) for several.  A single run has no region.
        ax: where to draw; None makes new Axes.
        cumulative: whether to sum the regrets of the steps; False if they are summed already.

    Returns:
        The Axes.  The legend has each label with its mean at the last step.

    Raises:
        ConfigError: the runs of a label differ in length, or have no steps.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> from regretless.plotting import plot_regret
        >>> ax = plot_regret({"ours": [[3.0, 1.0], [2.0, 0.0]], "random": [3.0, 3.0]})
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['ours  (3)', 'random  (6)']
    """
    ax = _axes(ax, figsize=(7, 4.5))
    for colour, (label, values) in zip(_CYCLE * 4, curves.items(), strict=False):
        runs = _curves(label, values)
        total = np.cumsum(runs, axis=1) if cumulative else runs
        steps = np.arange(1, total.shape[1] + 1)
        mean = total.mean(axis=0)
        ax.plot(steps, mean, color=colour, label=f"{label}  ({_amount(mean[-1])})")
        if len(total) > 1:
            wide = stdtrit(len(total) - 1, 0.975)  # Student's t: few runs estimate their sd badly
            half = wide * total.std(axis=0, ddof=1) / np.sqrt(len(total))
            ax.fill_between(steps, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
    ax.set(xlabel="evaluations", ylabel="cumulative regret", xlim=(1, None))
    ax.legend(loc="upper left", frameon=False)
    return ax


def _curves(label: str, values: object) -> Array:
    try:
        runs = np.atleast_2d(np.asarray(values, dtype=float))
    except (TypeError, ValueError) as error:  # runs of unequal length, say
        raise ConfigError(f"plot_regret: need runs of equal length of {label!r}: {error}") from None
    if not runs.size:
        raise ConfigError(f"plot_regret: {label!r} has no steps")
    if runs.ndim > 2:
        raise ConfigError(f"plot_regret: need (runs, steps) of {label!r}, got {runs.shape}")
    return runs


def _optimizer(run: Run, picture: str) -> Optimizer:
    """The optimiser of a run."""
    found = run.optimizer if isinstance(run, Result) else run
    if isinstance(found, _HasSnapshot):
        found = found.snapshot().optimizer
    if not isinstance(found, Optimizer):
        raise ConfigError(f"{picture}: need an Optimizer, a Result or a Study, got {run!r}")
    return found


def _amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plot_reward(
    optimizer: Run,
    ax: Axes | None = None,
    *,
    baseline: float | None = None,
) -> Axes:
    """Plot the total gain over a baseline, with a 95 % band for the observation noise.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`.
        ax: where to draw; None makes new Axes.
        baseline: what an evaluation would have returned without any tuning.  If it is None, the
            first result is the baseline; its noise then counts in every step, and the band is wide.

    Returns:
        The Axes.  A dotted line shows when exploration has paid for itself.

    Raises:
        ConfigError: `optimizer` is not a run, or `baseline` is not a finite number.
        NoResultsError: no trial was told yet.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_reward
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), space, budget=9)
        >>> ax = plot_reward(result, baseline=-0.25)  # then ax.figure.savefig("reward.png")
        >>> ax.get_ylabel()
        'total gain over the baseline (-0.25)'
    """
    optimizer = _optimizer(optimizer, "plot_reward")
    if not (baseline is None or is_number(baseline)):
        raise ConfigError(f"plot_reward: need a number as the baseline, got {baseline!r}")
    ledger = Ledger.of(optimizer)
    if not ledger.trials:
        raise NoResultsError("plot_reward: no result was told yet")
    ax = _axes(ax, figsize=(7, 4))
    gain = ledger.gain(baseline)
    gained, half = gain.mean, 1.96 * gain.sd
    steps = np.arange(1, len(gained) + 1)
    ax.axhline(0.0, color="#999999", lw=1)
    ax.plot(steps, gained, color=_CYCLE[0])
    ax.fill_between(steps, gained - half, gained + half, color=_CYCLE[0], alpha=0.2, lw=0)
    paid_back_after = gain.paid_back_after
    if paid_back_after is not None:
        ax.axvline(paid_back_after, color=_CYCLE[2], ls=":")
        ax.annotate(
            "exploration has paid for itself",
            (paid_back_after, 1.0),
            xycoords=ax.get_xaxis_transform(),  # at the top, which the curve has not reached yet
            xytext=(6, -6),
            textcoords="offset points",
            va="top",
            color=_CYCLE[2],
        )
    name = "the first result" if baseline is None else f"the baseline ({float(baseline):.4g})"
    ax.set(xlabel="evaluations", ylabel=f"total gain over {name}", xlim=(1, max(2, len(steps))))
    return ax


def plot_decisions(optimizer: Run, ax: Axes | None = None) -> Axes:
    """Plot the observed value of each trial, coloured by the reason for the trial.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`.
        ax: where to draw; None makes new Axes.

    Returns:
        The Axes.  A ribbon along the bottom shows the reasons over time, and a line with a band
        the best posterior mean as known now, with its 95 % interval.  Before the first result the
        Axes are empty.

    Raises:
        ConfigError: `optimizer` is not a run.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_decisions
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), space, budget=9)
        >>> ax = plot_decisions(result)  # then ax.figure.savefig("decisions.png")
        >>> ax.get_legend().get_texts()[-1].get_text()
        'best posterior mean now'
    """
    optimizer = _optimizer(optimizer, "plot_decisions")
    ax = _axes(ax, figsize=(8, 4))
    told: dict[str, list[tuple[float, float]]] = {reason: [] for reason in COLOURS}
    for row in optimizer.history():
        if row.decision is not None and row.number is not None and row.value is not None:
            told[row.decision.reason].append((row.number, row.value))
    for reason, points in told.items():
        if points:
            numbers, values = zip(*points, strict=True)
            label, colour = f"{reason} ({len(points)})", COLOURS[reason]
            ax.scatter(numbers, values, s=18, color=colour, label=label)
            # A ribbon along the bottom shows the reasons over time.
            ribbon = ax.get_xaxis_transform()
            ax.bar(numbers, 0.03, width=1.0, color=colour, transform=ribbon)
    if any(told.values()):
        best = optimizer.best()
        ax.axhspan(best.low, best.high, color=COLOURS["resample"], alpha=0.15, lw=0)
        ax.axhline(best.mean, color=COLOURS["resample"], lw=1, label="best posterior mean now")
    ax.set(xlabel="trial", ylabel="observed value", xlim=(-0.5, max(1, optimizer.asked) - 0.5))
    if any(told.values()):
        ax.legend(loc="best", frameon=False, fontsize="small", ncols=2)
    return ax


def plot_posterior(optimizer: Run, axes: Any = None, *, next_point: bool = True) -> Any:
    """Plot what the model believes and which points are worth their cost, in one or two dimensions.

    With one parameter the upper picture has the posterior and the results, the lower one the
    expected improvement and the evaluation cost.  With two parameters the left picture has the
    posterior mean and the points tried, the right one the expected improvement.  Points that are
    not worth their cost are grey.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`, over one or two `Float` parameters.
        axes: the two Axes to draw on; None makes new ones.
        next_point: whether to compute and mark the point that would be asked for next.

    Returns:
        The two Axes: above and below, or left and right.

    Raises:
        ConfigError: `optimizer` is not a run, or its space has other parameters.
        NoResultsError: no result was told yet.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_posterior
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), space, budget=9)
        >>> above, below = plot_posterior(result)  # then above.figure.savefig("posterior.png")
        >>> above.get_title()
        '0 evaluations left; grey: not worth its cost'
    """
    optimizer = _optimizer(optimizer, "plot_posterior")
    floats = [n for n, p in optimizer.space.parameters.items() if isinstance(p, Float)]
    if len(floats) != optimizer.space.dim or len(floats) > 2:
        raise ConfigError(
            "plot_posterior: need a space of one or two Float parameters, got"
            f" {', '.join(optimizer.space.names)}"
        )
    choice = optimizer.propose().params if next_point else None
    return (_posterior_1d if len(floats) == 1 else _posterior_2d)(optimizer, axes, choice)


def _two_axes(axes: Any, **options: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "matplotlib") from error
    size = options.pop("figsize")
    return Figure(layout="constrained", figsize=size).subplots(**options)


def _told_at(optimizer: Optimizer) -> dict[tuple[Scalar, ...], list[float]]:
    """The observed values by point."""
    out: dict[tuple[Scalar, ...], list[float]] = {}
    for row in optimizer.history():
        if row.value is not None:
            out.setdefault(tuple(row.params.values()), []).append(row.value)
    return out


def _line(optimizer: Optimizer, count: int) -> tuple[Array, Landscape]:
    (name,) = optimizer.space.names
    unit = np.linspace(0.0, 1.0, count)[:, None]
    points = [optimizer.space.decode(u) for u in unit]
    xs = np.array([p[name] for p in points], dtype=float)
    return xs, optimizer.landscape(points)


def _posterior_1d(optimizer: Optimizer, axes: Any, choice: Mapping[str, Scalar] | None) -> Any:
    above, below = _two_axes(
        axes, figsize=(7, 6), nrows=2, sharex=True, gridspec_kw={"height_ratios": [2, 1]}
    )
    (name,) = optimizer.space.names
    xs, land = _line(optimizer, 400)
    above.plot(xs, land.mean, color=_CYCLE[0], label="posterior mean")
    above.fill_between(
        xs,
        land.mean - 2 * land.sd,
        land.mean + 2 * land.sd,
        color=_CYCLE[0],
        alpha=0.15,
        lw=0,
        label="± 2 sd",
    )
    for (x,), values in _told_at(optimizer).items():
        above.scatter([x] * len(values), values, s=14, color="black", alpha=0.6, zorder=3)
    above.axhline(land.incumbent, color="#999999", ls="--", lw=1, label="incumbent ξ")
    below.plot(xs, land.expected_improvement, color=_CYCLE[2], label="expected improvement α")
    below.plot(xs, land.evaluation_cost, color=_CYCLE[1], label="evaluation cost L")
    for ax in (above, below):
        for left, right in _runs(xs, ~land.feasible):
            ax.axvspan(left, right, color="#dddddd", lw=0, zorder=0)
        if choice is not None:
            ax.axvline(choice[name], color=_CYCLE[3], lw=1.5, label="next evaluation")
    above.set(ylabel="value")
    below.set(xlabel=name, ylabel="gain or cost a step", yscale="log")
    top = max(land.expected_improvement.max(), land.evaluation_cost.max())
    below.set_ylim(top * 1e-5, top * 3)
    if isinstance(optimizer.space.parameters[name], Float) and getattr(
        optimizer.space.parameters[name], "log", False
    ):
        below.set_xscale("log")
    above.set_title(
        f"{optimizer.remaining} evaluations left; grey: not worth its cost", fontsize=10
    )
    above.legend(loc="best", frameon=False, fontsize="small")
    below.legend(loc="best", frameon=False, fontsize="small")
    return above, below


def _runs(xs: Array, mask: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """The intervals in which the mask holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(float(xs[a]), float(xs[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _posterior_2d(optimizer: Optimizer, axes: Any, choice: Mapping[str, Scalar] | None) -> Any:
    left, right = _two_axes(axes, figsize=(11, 4.6), ncols=2, sharex=True, sharey=True)
    first, second = optimizer.space.names
    side = 81
    unit = np.stack(np.meshgrid(*[np.linspace(0, 1, side)] * 2), axis=-1).reshape(-1, 2)
    points = [optimizer.space.decode(u) for u in unit]
    land = optimizer.landscape(points)
    xs, ys, mean, gain, ok = (
        np.asarray(v, dtype=float).reshape(side, side)
        for v in (
            [p[first] for p in points],
            [p[second] for p in points],
            land.mean,
            np.log10(np.maximum(land.expected_improvement, 1e-300)),
            land.feasible,
        )
    )
    told = _told_at(optimizer)
    sizes = [14 + 8 * len(values) for values in told.values()]
    shown = left.contourf(xs, ys, mean, levels=20, cmap="viridis")
    left.figure.colorbar(shown, ax=left, label="posterior mean")
    floor = max(float(gain.max()) - 6.0, float(gain.min()))
    shown = right.contourf(xs, ys, np.maximum(gain, floor), levels=20, cmap="magma")
    right.figure.colorbar(shown, ax=right, label="log10 expected improvement")
    right.contourf(xs, ys, ok, levels=[-0.5, 0.5], colors=["#dddddd"], alpha=0.85)
    for ax in (left, right):
        ax.scatter(*zip(*told, strict=True), s=sizes, c="white", edgecolors="black", lw=0.8)
        if choice is not None:
            ax.scatter(
                choice[first], choice[second], marker="*", s=260, c="#CC79A7", edgecolors="black"
            )
        for axis, name in (("x", first), ("y", second)):
            if getattr(optimizer.space.parameters[name], "log", False):
                getattr(ax, f"set_{axis}scale")("log")
        ax.set_xlabel(first)
    left.set_ylabel(second)
    left.set_title("posterior mean, points tried (size: how often)", fontsize=10)
    right.set_title(
        f"{optimizer.remaining} evaluations left; grey: not worth its cost; star: next", fontsize=10
    )
    return left, right
