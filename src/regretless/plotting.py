"""Pictures of a run: each function draws on the Axes that it is given, or on new ones.

matplotlib is imported when the first picture is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import is_number, whole
from regretless.engine import Optimizer
from regretless.errors import ConfigError, MissingExtraError, NoResultsError
from regretless.forecast import Forecast
from regretless.importance import importances
from regretless.ledger import Ledger, today
from regretless.results import Best, Landscape, Trial, axis_label
from regretless.run import Result
from regretless.space import Float, Int, Scalar

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
    figure = _figure(options.pop("figsize"))
    return cast("Axes", figure.add_subplot(axes_class=_axes_class(), **options))


def _figure(figsize: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "matplotlib") from error
    return Figure(layout="constrained", figsize=figsize)


@cache
def _axes_class() -> type:
    """Axes that a notebook shows as a picture if they are the value of a cell."""
    from matplotlib.axes import Axes

    class PictureAxes(Axes):
        def _repr_png_(self) -> bytes:
            return _png(self.figure)

    return PictureAxes


class Panels(tuple[Any, ...]):
    """Several Axes of one figure.  A notebook shows them as one picture.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_slices
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda p: -((p["x"] - 0.3) ** 2), space, budget=8)
        >>> panels = plot_slices(result)
        >>> panels[0].figure is panels[1].figure
        True
    """

    def _repr_png_(self) -> bytes:
        return _png(self[0].figure)


def _png(figure: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def _panels(axes: Any, figsize: tuple[float, float], **options: Any) -> Panels:
    """The Axes to draw on: the given ones, or new ones."""
    if axes is None:
        figure = _figure(figsize)
        kind = {"axes_class": _axes_class()}
        axes = figure.subplots(squeeze=False, subplot_kw=kind, **options).ravel()
    return Panels(np.ravel(np.asarray(axes, dtype=object)).tolist())


def plot_regret(
    curves: Mapping[str, Any] | Run,
    ax: Axes | None = None,
    *,
    f_star: float | None = None,
    per_step: bool = False,
) -> Axes:
    """Plot the mean cumulative regret of several runs, with its 95 % region, one curve per label.

    Args:
        curves: for each label one run or a list of runs; or a single run.  A run is the regret
            after 1, 2, … steps (what `Result.regret` returns), or an `Optimizer`, a `Result` or a
            `Study` if `f_star` is given.  A single run has no region.
        ax: where to draw; None makes new Axes.
        f_star: the best value that f can take, for runs that are given as objects.
        per_step: whether the numbers are the regrets of single steps, which are then summed.

    Returns:
        The Axes.  The legend has each label with its mean at the last step.

    Raises:
        ConfigError: the runs of a label differ in length or have no steps, or `f_star` is missing.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> from regretless.plotting import plot_regret
        >>> ax = plot_regret({"ours": [[3.0, 4.0], [2.0, 2.0]], "random": [3.0, 6.0]})
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['ours  (3)', 'random  (6)']
    """
    ax = _axes(ax, figsize=(7, 4.5))
    given = curves if isinstance(curves, Mapping) else {"regret": curves}
    for colour, (label, values) in zip(_CYCLE * 4, given.items(), strict=False):
        runs = _curves(label, _regrets(values, f_star))
        total = np.cumsum(runs, axis=1) if per_step else runs
        steps = np.arange(1, total.shape[1] + 1)
        mean = total.mean(axis=0)
        ax.plot(steps, mean, color=colour, label=f"{label}  ({_amount(mean[-1])})")
        if len(total) > 1:
            wide = stdtrit(len(total) - 1, 0.975)  # Student's t: few runs estimate their sd badly
            half = wide * total.std(axis=0, ddof=1) / np.sqrt(len(total))
            ax.fill_between(steps, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
    ax.set(xlabel="trials", ylabel="cumulative regret", xlim=(1, None))
    ax.legend(loc="upper left", frameon=False)
    return ax


def _regrets(values: Any, f_star: float | None) -> Any:
    """The cumulative regret of runs that are objects; numbers are returned as they are."""
    if isinstance(values, list | tuple):
        return [_regrets(value, f_star) for value in values]
    if not isinstance(values, Optimizer | Result | _HasSnapshot):
        return values
    if f_star is None:
        raise ConfigError("plot_regret: need f_star, the best value that f can take")
    return Ledger.of(_optimizer(values, "plot_regret")).regret(f_star)


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


_TODAY = {
    "baseline": "the baseline",
    "observed setting": "the setting observed before",
    "first point": "the first result",
}


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
        baseline: what an evaluation would have returned without any tuning.  If it is None, it is
            what the model expects of the baseline of the run, or else of the setting that was
            observed before the run.  If there is neither, the first result is the baseline; its
            noise then counts in every step, and the band is wide.

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
    if baseline is not None:
        name = f"the baseline ({float(baseline):.4g})"
    else:
        found = today(optimizer)
        name = _TODAY[found.kind] if found else "the first result"
    unit = "" if optimizer.unit is None else f" ({optimizer.unit})"
    ends = 1, max(2, len(steps))
    ax.set(xlabel="trials", ylabel=f"total gain over {name}{unit}", xlim=ends)
    return ax


def plot_forecast(ahead: Forecast, ax: Axes | None = None) -> Axes:
    """Plot the total gain that a run is expected to make, with its 80 % band.

    Args:
        ahead: the forecast, see `Study.forecast` and `forecast.forecast`.
        ax: where to draw; None makes new Axes.

    Returns:
        The Axes.  The first point of the curve is what the trials so far have gained.

    Raises:
        ConfigError: `ahead` is not a forecast.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.forecast import forecast
        >>> from regretless.plotting import plot_forecast
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=12)
        >>> optimizer.observe({"x": 0.5}, 3.0)
        >>> ax = plot_forecast(forecast(optimizer, draws=2))
        >>> ax.get_xlabel()
        'trials'
    """
    if not isinstance(ahead, Forecast):
        raise ConfigError(f"plot_forecast: need a Forecast, got {shown(ahead)}")
    ax = _axes(ax, figsize=(7, 4))
    steps = ahead.told + np.arange(ahead.steps + 1)
    low, high = ahead.curve(0.8)
    ax.axhline(0.0, color="#999999", lw=1)
    ax.fill_between(steps, low, high, color=_CYCLE[0], alpha=0.2, lw=0, label="80 %")
    ax.plot(steps, ahead.gain.mean(axis=0), color=_CYCLE[0], label="expected")
    if ahead.pays_after is not None and ahead.pays_after > ahead.told:
        ax.axvline(ahead.pays_after, color=_CYCLE[2], ls=":", label="exploration has paid")
    ax.set(xlabel="trials", ylabel="total gain over the reference", xlim=(steps[0], steps[-1] or 1))
    ax.legend(loc="upper left", frameon=False)
    return ax


def plot_decisions(optimizer: Run, ax: Axes | None = None) -> Axes:
    """Plot the observed value of each trial, coloured by the reason for the trial.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`.
        ax: where to draw; None makes new Axes.

    Returns:
        The Axes.  A ribbon along the bottom shows the reasons over time, and a line with a band
        the best posterior mean as known now, with its 95 % interval.  Results from before the run
        are crosses, left of trial 0.  Before the first result the Axes are empty.

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
    rows = optimizer.history()
    for row in rows:
        if row.decision is not None and row.number is not None and row.value is not None:
            told[row.decision.reason].append((row.number, row.value))
    prior = [row.value for row in rows if row.number is None and row.value is not None]
    if prior:
        label = f"from before ({len(prior)})"
        ax.scatter(np.arange(-len(prior), 0), prior, s=22, marker="x", c="#555555", label=label)
    for reason, points in told.items():
        if points:
            numbers, values = zip(*points, strict=True)
            label, colour = f"{reason} ({len(points)})", COLOURS[reason]
            ax.scatter(numbers, values, s=18, color=colour, label=label)
            # A ribbon along the bottom shows the reasons over time.
            ribbon = ax.get_xaxis_transform()
            ax.bar(numbers, 0.03, width=1.0, color=colour, transform=ribbon)
    anything = bool(prior) or any(told.values())
    if anything:
        best = optimizer.best()
        ax.axhspan(best.low, best.high, color=COLOURS["resample"], alpha=0.15, lw=0)
        ax.axhline(best.mean, color=COLOURS["resample"], lw=1, label="best posterior mean now")
    ends = (-len(prior) - 0.5, max(1, optimizer.asked) - 0.5)
    ax.set(xlabel="trial", ylabel=_label(optimizer, "observed value"), xlim=ends)
    ax.locator_params(axis="x", integer=True)  # there is no trial 2.5
    if anything:
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

    If the budget is spent, nothing pays any more and all points would be grey.  The picture is then
    that of the last decision for a new point, before its result was told.

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
        'trial 6, 3 trials left; grey: not worth its cost'
    """
    optimizer = _optimizer(optimizer, "plot_posterior")
    floats = [n for n, p in optimizer.space.parameters.items() if isinstance(p, Float)]
    if len(floats) != optimizer.space.dim or len(floats) > 2:
        raise ConfigError(
            "plot_posterior: need a space of one or two Float parameters, got"
            f" {', '.join(optimizer.space.names)}"
        )
    last = None if optimizer.remaining else _last_decision(optimizer)
    when = ""
    if last is not None:
        optimizer, when = optimizer.as_of(last), f"trial {last.number}, "
        choice = last.params if next_point else None
    else:
        choice = optimizer.propose().params if next_point else None
    left = optimizer.remaining
    left_or_ahead = "ahead" if optimizer.budget is None else "left"
    title = f"{when}{left} trial{'' if left == 1 else 's'} {left_or_ahead}"
    title += "; grey: not worth its cost"
    return (_posterior_1d if len(floats) == 1 else _posterior_2d)(optimizer, axes, choice, title)


def _last_decision(optimizer: Optimizer) -> Trial | None:
    """The last trial at which the policy moved to a new point; None if there is none."""
    last = reversed(optimizer.trials)
    return next((t for t in last if t.decision.reason in ("explore", "exploit")), None)


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


def _posterior_1d(
    optimizer: Optimizer, axes: Any, choice: Mapping[str, Scalar] | None, title: str
) -> Panels:
    panels = _panels(axes, (7, 6), nrows=2, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    above, below = panels
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
            ax.axvline(choice[name], color=_CYCLE[3], lw=1.5, label="next trial")
    above.set(ylabel=_label(optimizer, "value"))
    below.set(xlabel=name, ylabel="gain or cost a trial", yscale="log")
    top = max(land.expected_improvement.max(), land.evaluation_cost.max())
    below.set_ylim(top * 1e-5, top * 3)
    if isinstance(optimizer.space.parameters[name], Float) and getattr(
        optimizer.space.parameters[name], "log", False
    ):
        below.set_xscale("log")
    above.set_title(title, fontsize=10)
    above.legend(loc="best", frameon=False, fontsize="small")
    below.legend(loc="best", frameon=False, fontsize="small")
    return panels


def _runs(xs: Array, mask: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """The intervals in which the mask holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(float(xs[a]), float(xs[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _posterior_2d(
    optimizer: Optimizer, axes: Any, choice: Mapping[str, Scalar] | None, title: str
) -> Panels:
    panels = _panels(axes, (11, 4.6), ncols=2, sharex=True, sharey=True)
    left, right = panels
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
    left.figure.colorbar(shown, ax=left, label=_label(optimizer, "posterior mean"))
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
    right.set_title(f"{title}; star: next", fontsize=10)
    return panels


def plot_importances(optimizer: Run, ax: Axes | None = None) -> Axes:
    """Plot how much each parameter matters, with 95 % intervals; see `importance.importances`.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`.
        ax: where to draw; None makes new Axes.

    Returns:
        The Axes.

    Raises:
        ConfigError: `optimizer` is not a run.
        NoResultsError: no result was told yet.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_importances
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0), "idle": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), space, budget=15)
        >>> ax = plot_importances(result)  # then ax.figure.savefig("importances.png")
        >>> [label.get_text() for label in ax.get_yticklabels()]  # the most important one on top
        ['idle', 'x']
    """
    found = importances(_optimizer(optimizer, "plot_importances"))
    order = sorted(found, key=lambda name: found[name].mean)
    mean = np.array([found[name].mean for name in order])
    half = 1.96 * np.array([found[name].sd for name in order])
    ax = _axes(ax, figsize=(6, 1.2 + 0.32 * len(order)))
    reach = np.vstack([np.minimum(half, mean), np.minimum(half, 1.0 - mean)])
    ax.barh(order, mean, xerr=reach, color=_CYCLE[0], ecolor="#555555", height=0.7)
    ax.set(xlabel="share of the variance that the parameter is involved in", xlim=(0.0, 1.0))
    return ax


def plot_slices(optimizer: Run, axes: Any = None, *, most: int = 6) -> Panels:
    """Plot the posterior along each parameter, with all others as they are at the best point.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`.
        axes: one Axes for each parameter that is drawn; None makes new ones.
        most: how many parameters are drawn at most: the most important ones.

    Returns:
        The Axes.  A band is the 95 % interval, and a dotted line is at the best point.

    Raises:
        ConfigError: `optimizer` is not a run, or `most` is not a whole number of at least 1.
        NoResultsError: no result was told yet.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_slices
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(1, 4), "y": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda p: p["n"] - 8 * (p["x"] - 0.3) ** 2, space, budget=15)
        >>> panels = plot_slices(result, most=2)  # then panels[0].figure.savefig("slices.png")
        >>> sorted(ax.get_xlabel() for ax in panels)
        ['n', 'x']
    """
    run, count = _optimizer(optimizer, "plot_slices"), whole("most", most, least=1)
    names, best = _most_important(run, count), run.best().params
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    panels = _panels(axes, (3.6 * columns, 2.9 * rows), nrows=rows, ncols=columns, sharey=True)
    for ax, name in zip(panels, names, strict=False):
        values = _values_of(run, name)
        land = run.landscape([{**best, name: value} for value in values])
        _draw_slice(ax, run.space.parameters[name], values, land, best[name])
        ax.set_xlabel(name)
    for ax in panels[len(names) :]:
        ax.set_visible(False)
    for ax in panels[::columns]:
        ax.set_ylabel(_label(run, "posterior mean"))
    return panels


def _draw_slice(
    ax: Any, parameter: Any, values: list[Scalar], land: Landscape, best: Scalar
) -> None:
    half = 1.96 * land.sd
    if isinstance(parameter, Float | Int):
        xs = np.array(values, dtype=float)
        ax.plot(xs, land.mean, color=_CYCLE[0])
        ax.fill_between(xs, land.mean - half, land.mean + half, color=_CYCLE[0], alpha=0.2, lw=0)
        ax.axvline(float(cast("float", best)), color=_CYCLE[1], ls=":")
        if parameter.log:
            ax.set_xscale("log")
        return
    names = [str(value) for value in values]
    ax.errorbar(names, land.mean, yerr=half, fmt="o", color=_CYCLE[0], capsize=3)
    ax.axvline(values.index(best), color=_CYCLE[1], ls=":")


def plot_pairs(optimizer: Run, axes: Any = None, *, most: int = 3) -> Panels:
    """Plot the posterior mean over pairs of numeric parameters, with all others at the best point.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study`, with two or more numeric parameters.
        axes: one Axes for each pair; None makes new ones.
        most: how many parameters are paired at most: the most important ones.

    Returns:
        The Axes.  White dots are the points tried, and the star is the best one.

    Raises:
        ConfigError: `optimizer` is not a run, `most` is not a whole number of at least 2, or there
            are fewer than two numeric parameters.
        NoResultsError: no result was told yet.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_pairs
        >>> space = rl.Space({name: rl.Float(0.0, 1.0) for name in "abc"})
        >>> result = rl.maximize(lambda p: -((p["a"] - p["b"]) ** 2), space, budget=15)
        >>> len(plot_pairs(result))  # a and b, a and c, b and c
        3
    """
    run, count = _optimizer(optimizer, "plot_pairs"), whole("most", most, least=2)
    numeric = [n for n, p in run.space.parameters.items() if isinstance(p, Float | Int)]
    if len(numeric) < 2:
        raise ConfigError("plot_pairs: need at least two numeric parameters")
    names = [name for name in _most_important(run, run.space.dim) if name in numeric][:count]
    pairs, best = list(combinations(names, 2)), run.best().params
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    panels = _panels(axes, (4.2 * columns, 3.6 * rows), nrows=rows, ncols=columns)
    for ax, pair in zip(panels, pairs, strict=False):
        _draw_pair(ax, run, *pair, best)
    for ax in panels[len(pairs) :]:
        ax.set_visible(False)
    return panels


def _draw_pair(
    ax: Any, run: Optimizer, first: str, second: str, best: Mapping[str, Scalar]
) -> None:
    across, up = _values_of(run, first, 41), _values_of(run, second, 41)
    points = [{**best, first: a, second: b} for b in up for a in across]
    mean = run.landscape(points).mean.reshape(len(up), len(across))
    shown = ax.contourf(across, up, mean, levels=20, cmap="viridis")
    ax.figure.colorbar(shown, ax=ax, label=_label(run, ""))
    rows = [row.params for row in run.history() if row.value is not None]
    tried = {(p[first], p[second]) for p in rows if first in p and second in p}
    ax.scatter(*zip(*sorted(tried), strict=True), s=16, c="white", edgecolors="black", lw=0.6)
    ax.scatter(best[first], best[second], marker="*", s=200, c="#CC79A7", edgecolors="black")
    for axis, name in (("x", first), ("y", second)):
        getattr(ax, f"set_{axis}label")(name)
        if getattr(run.space.parameters[name], "log", False):
            getattr(ax, f"set_{axis}scale")("log")


def plot_contexts(optimizer: Run, axes: Any = None) -> Panels:
    """Plot what the best setting of each context is expected to bring, for each kind of context.

    A panel has the values of one context; the others are as they were seen last.  It also has the
    setting that is best on average, to show what is gained by a setting for each context.

    Args:
        optimizer: an `Optimizer`, a `Result` or a `Study` with contexts.
        axes: one Axes for each context; None makes new ones.

    Returns:
        The Axes.  A band is the 95 % interval of the best setting.

    Raises:
        ConfigError: `optimizer` is not a run, or has no contexts.
        NoResultsError: no result was told yet.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import regretless as rl
        >>> from regretless.plotting import plot_contexts
        >>> space, hours = rl.Space({"x": rl.Float(0.0, 1.0)}), {"hour": rl.Cyclic(0, 24)}
        >>> optimizer = rl.Optimizer(space, budget=20, contexts=hours)
        >>> for hour in range(8):
        ...     trial = optimizer.ask(context={"hour": 3 * hour})
        ...     optimizer.tell(trial, -((trial.params["x"] - hour / 8) ** 2))
        >>> panels = plot_contexts(optimizer)  # then panels[0].figure.savefig("contexts.png")
        >>> panels[0].get_xlabel()
        'hour'
    """
    run = _optimizer(optimizer, "plot_contexts")
    last = run._records.last_context
    if run.contexts is None or last is None:
        raise ConfigError("plot_contexts: need a run with contexts and a result")
    usual, count = run.best().params, len(run.contexts)
    panels = _panels(axes, (4.2 * count, 3.2), ncols=count, sharey=True)
    for ax, (name, parameter) in zip(panels, run.contexts.items(), strict=True):
        places = np.linspace(0.0, 1.0, 25)
        values = list(dict.fromkeys(parameter.decode(u) for u in parameter.scale.snap(places)))
        seen = [{**last, name: value} for value in values]
        best = [run.best(context=each) for each in seen]
        kept = [run.predict(usual, context=each)[0] for each in seen]
        _draw_contexts(ax, values, best, kept)
        ax.set_xlabel(name)
    panels[0].set_ylabel(_label(run, "posterior mean"))
    panels[0].legend(fontsize="small")
    return panels


def _draw_contexts(ax: Any, values: list[Scalar], best: list[Best], kept: list[float]) -> None:
    mean, low, high = ([getattr(each, part) for each in best] for part in ("mean", "low", "high"))
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        ax.fill_between(values, low, high, color=_CYCLE[0], alpha=0.2, lw=0)
        ax.plot(values, mean, color=_CYCLE[0], label="best setting of each context")
        ax.plot(values, kept, color=_CYCLE[1], ls="--", label="best setting on average")
        return
    names = [str(value) for value in values]
    half = [each.high - each.mean for each in best]
    ax.errorbar(names, mean, yerr=half, fmt="o", capsize=3, label="best setting of each context")
    ax.plot(names, kept, "s", color=_CYCLE[1], label="best setting on average")


def _label(optimizer: Optimizer, otherwise: str) -> str:
    """What the results are, for an axis."""
    return axis_label(optimizer.metric, optimizer.unit, otherwise)


def _most_important(optimizer: Optimizer, count: int) -> list[str]:
    """The most important parameters, in the order of the space."""
    names = list(optimizer.space.names)
    if len(names) > count:
        found = importances(optimizer)
        kept = sorted(names, key=lambda name: -found[name].mean)[:count]
        names = [name for name in names if name in kept]
    return names


def _values_of(optimizer: Optimizer, name: str, count: int = 121) -> list[Scalar]:
    """Values of a parameter over its range, without repeats."""
    space = optimizer.space
    column = list(space.names).index(name)
    unit = np.full((count, space.dim), 0.5)
    unit[:, column] = np.linspace(0.0, 1.0, count)
    values = [space.decode(u)[name] for u in space.spread(unit)]
    return list(dict.fromkeys(values))
