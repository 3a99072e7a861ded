"""The default settings and constants of the optimiser, in numbered versions.

An optimiser uses these numbers where the user gives no setting for the initial design, the fit, the
policy or the search.  A study stores the version that it was created with, and keeps it.  A release
with other numbers adds a version here; it never changes an old one.  tests/test_defaults.py pins
the next suggestion of stored optimisers for each version.

The comment on a constant says what it does and why it has this value.  "Measured" means that
experiments chose the value: docs/results/default-appendix.md has them, in the section that it
quotes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Literal, NamedTuple

from regretless._internal.shown import shown
from regretless._internal.validate import check_amount, is_number
from regretless.errors import ConfigError

Method = Literal["ensemble", "map", "ml", "fixed"]  # how hyper-parameters are found, see `Model`
Noise = Literal["constant", "auto"]  # whether the noise is the same everywhere, see `Model`


@dataclass(frozen=True)
class Prior:
    """The bounds of one kernel parameter, and the normal prior of its logarithm.

    `Kernel.priors` returns one `Prior` for each entry of the kernel's `theta`.

    Args:
        low: the smallest value that a fit may choose.
        high: the largest value that a fit may choose.
        center: the mean of the parameter's logarithm under the prior.
        sd: the standard deviation of the parameter's logarithm under the prior.
        is_length: whether the parameter is a length-scale.  `Model.length_prior` then replaces
            `center` and `sd`.
        hidden_by_noise: whether noise can hide the effect of the parameter.  The prior then expects
            smaller values where the noise is larger (see `PriorRules.hiding`).

    Raises:
        ConfigError: not 0 < low < high, or not sd > 0.

    Example:
        >>> from math import log
        >>> Prior(low=0.1, high=10.0, center=log(1.0), sd=1.0)
        Prior(low=0.1, high=10.0, center=0.0, sd=1.0, is_length=False, hidden_by_noise=False)
    """

    low: float
    high: float
    center: float
    sd: float
    is_length: bool = False
    hidden_by_noise: bool = False

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        if not (is_number(low) and is_number(high) and 0.0 < float(low) < float(high)):
            raise ConfigError(f"Prior: need 0 < low < high, got {shown(low)} and {shown(high)}")
        if not is_number(self.center):
            raise ConfigError(f"Prior: need a number as center, got {shown(self.center)}")
        check_amount("Prior: sd", self.sd, positive=True)


class StartRules(NamedTuple):
    """The initial design of `design="auto"`.

    d is the number of parameters with more than one value.
    """

    beyond_dim: int = 2  # the design has d + 2 points; measured: "A thrifty start"
    longest: tuple[int, int] = (2, 2)  # (a, b): a d + b points if the noise is large; measured
    budget_share: int = 4  # the design takes at most 1/4 of the budget
    grid_dims: tuple[int, ...] = (1, 2)  # so many numbers: a grid of sqrt(budget) points; measured
    structured_points: int = 8  # at least so many if there are structured parameters; measured
    choices_first: bool = True  # begin with each choice once, other columns at 1/2; measured
    blind_noise: float = 0.25  # the noise is large if the fitted noise ratio lam^2 reaches this
    # If the space has limits: so many points around the middle of what they allow.  None: as
    # without limits.
    within_limits: int | None = None  # measured: docs/results/limits.md
    # The middle and so many pairs that mirror each other in it, or with choices each choice once in
    # the middle of the others; then the policy decides.  None: Sobol points; measured.
    pairs: int | None = None
    # The largest d that the number of points grows with.  In larger spaces, a point of the start
    # tells little about each parameter, and a point that the policy chooses loses less.  None: no
    # largest d.  Measured: docs/results/dimensions.md.
    most_dims: int | None = None


class ContextRules(NamedTuple):
    """The priors of what contexts do, see `kernels.Contextual`."""

    length: Prior = Prior(0.05, 50.0, log(0.5), 1.0)  # in units of the range of a context
    weight: Prior = Prior(1e-3, 20.0, 0.0, 1.5)  # of a context without an order
    # The common effect has a third of the variance of the settings, within a factor of about 5.
    level: Prior = Prior(1e-4, 1e4, log(0.3), 1.5)
    # The interaction has odds of 0.2 within a factor of about 4, less if noise can hide it.
    odds: Prior = Prior(1e-3, 1e3, log(0.2), 1.5, hidden_by_noise=True)


class PriorRules(NamedTuple):
    """The weak priors of `Model(method="map")`, for outcomes of unit spread on the unit cube."""

    # Only the bounds are used: `Model.length_prior` gives log h ~ N(log 0.25 + log(d)/2, 1).
    length: Prior = Prior(0.005, 100.0, 0.0, 1.0, is_length=True)
    # For the weights of a Hamming kernel, and for parameters of kernels without their own priors.
    weight: Prior = Prior(1e-3, 20.0, 0.0, 1.0)
    # The ripple of `Rippled` has odds of 0.1 within a factor of about 4 (one sd), less if noise
    # can hide it ...
    ripple_odds: Prior = Prior(1e-3, 100.0, log(0.1), 1.5, hidden_by_noise=True)
    # ... and is clearly shorter than the trend; measured: "Two scales".
    ripple_ratio: Prior = Prior(0.02, 0.7, log(0.1), 0.5)
    hiding: float = 0.05  # priors with `hidden_by_noise` have their median / (1 + lam^2 / hiding)
    noise_bounds: tuple[float, float] = (1e-8, 1e3)  # of the noise ratio lam^2
    signal: tuple[float, float] = (1.0, 1.0)  # omega^2 ~ inverse gamma, so it has a closed form
    mean_precision: float = 0.25  # mean ~ N(0, 4 omega^2), so that it can't absorb a trend
    contexts: ContextRules = ContextRules()


class ModelRules(NamedTuple):
    """The default settings of `Model`.  A study stores each of them by its value."""

    kernel: str = "rippled"  # a trend and a ripple; measured: "Two scales"
    method: Method = "map"
    length_prior: tuple[float, float] = (log(0.25), 1.0)  # of log h - log(d)/2; see `Model`
    noise_prior: tuple[float, float] = (
        log(0.01),
        2.0,
    )  # of log lam^2: a noise sd of 0.1 signal sds, within a factor of about 3
    growth: float = 0.1  # fit again when the data have grown by this share
    lam2: float = 0.01  # the noise ratio before the first fit
    omega2: float = 1.0  # the signal variance before the first fit


class EnsembleRules(NamedTuple):
    """How hyper-parameters are drawn by `Model(method="ensemble")`."""

    sizes: tuple[int, int] = (4, 16)  # fewest and most draws
    work: int = 400  # with n points, about work / n draws, within `sizes`
    steps: int = 1  # steps of each chain whenever the model is due for new draws
    first_steps: int = 5  # steps of each chain for the first draws, and after a surprise
    prior_results: int = 3  # up to so many results, chains begin at draws from the prior
    log_signal: tuple[float, float] = (0.5, 1.25)  # mean and sd of log omega^2, unit spread
    # If the visited points are in a small part of the space, f varies more over the whole of it.
    # Shares of a range count as at least this; 1: nothing is concluded from the part.
    least_extent: float = 1.0
    mean_variance: float = 4.0  # prior variance of the constant mean, in units of omega^2


class ManyRules(NamedTuple):
    """The fit to many points, see model/fit_many.py; measured: docs/results/large_studies.md."""

    points: float = inf  # with more points, the search is made on a subset ...
    subset: int = 400  # ... of so many
    most: int = 3000  # with more points, the fit is to so many of them
    # The first fit also starts at this length-scale, in units of sqrt(d), and this noise ratio.  On
    # a smooth function with little noise, other starts ended where a ripple passes for noise.
    smooth_start: tuple[float, float] = (3.0, 1e-5)
    block: int = 1500  # with more points, the evidence is the sum over blocks of at most so many
    evaluations: int = 8  # of the evidence of all points, at most
    # A step is left out if its expected gain of log evidence, divided by the number of points, is
    # less.  With 1e-3, fits hardly followed what few new points said, and runs on Ackley-2 lost
    # more than version 4.
    tolerance: float = 1e-5

    def applies_to(self, points: int) -> bool:
        """Whether there are so many points."""
        return points > self.points


class LocalRules(NamedTuple):
    """The rows of the posterior of very many points, see model/local.py; measured:
    docs/results/large_studies.md."""

    exact: float = inf  # with more rows, the posterior is made of some of them ...
    rows: int = 2000  # ... of so many


class FitRules(NamedTuple):
    """When and how the hyper-parameters are fitted."""

    priors: PriorRules = PriorRules()
    ensemble: EnsembleRules = EnsembleRules()
    many: ManyRules = ManyRules()
    local: LocalRules = LocalRules()
    # If all results have a standard error, the noise of the next one is theirs.  The likelihood
    # says nothing about lam^2 then.
    known_noise: bool = False
    free_points: int = 50  # up to about here, a fit costs no more than a search for the next point
    surprise_sds: float = 3.0  # fit at once if the squared prediction errors are so many sds high
    widening: float = 2.0  # signal variance times 1 + 2p/n; measured: "A wider posterior"
    # With priors, the evidence seldom has a second optimum.  In 3 of 281 fits, the second or third
    # descent was better by more than 0.1.  All of these had at most 25 points.  The second and
    # third descents took two thirds of the time.
    sure_points: int = 25  # with more points, most fits descend from the last parameters only;
    sure_every: int = 5  # one fit in 5 tries other starts as well
    descents: tuple[int, int] = (3, 2)  # number of descents up to `free_points` points, and beyond
    # Structured values: whether the kernel has sums over the parts of a value, see `kernels.Sums`.
    sums_over_parts: bool = False
    first_length: float = 0.5  # the length-scale before the first fit, in units of sqrt(d)
    start_lengths: tuple[float, ...] = (0.05, 0.15, 0.4, 1.2)  # starts of a fit, units of sqrt(d)
    start_noises: tuple[float, ...] = (1e-3, 1e-1)  # starts of a fit: noise ratios lam^2
    iterations: int = 60  # at most, for each descent
    tolerance: float = 1e-6  # ends within a thousandth of the best log evidence
    flat_slope: float = 1e-3  # a descent ends where the gradient is smaller


class TailRules(NamedTuple):
    """Which outcomes count as disasters (`Model(tail="log")`, `Scaling.with_knee`); measured."""

    far: float = 3.0  # a disaster is so many widths below the median of the first results
    least_results: int = 3  # so many results are needed, or nothing is a disaster
    first_results: int | None = None  # the first so many results; None: those of the design
    lower_half: bool = False  # the usual outcome: the median of the lower half of these, or of all
    median_to_sd: float = 1.5  # the sd of a normal is 1.48 times its median absolute deviation


class NoiseRules(NamedTuple):
    """The model of noise that differs from place to place, `Model(noise="auto")`."""

    # Prior sds of the coefficients of the logarithm of the variance.  If the sd of the noise grows
    # tenfold over the space, the logarithm of its variance grows by 4.6.
    typical_sd: float = 3.0  # of a change of the typical variance
    level: float = 1.0  # by the level of the outcome, per unit of its spread
    line: float = 1.5  # by place, from the middle of the space to its border, over sqrt(d)
    curve: float = 1.0
    step: float = 1.0  # of a choice
    odds: tuple[float, float, float] = (0.5, 0.5, 0.25)  # prior odds: level, place, both
    least_results: int = 6  # with fewer results, the noise is the same everywhere
    clear: float = 2.0  # reports name it if the sd differs by this factor over the space


class PeriodRules(NamedTuple):
    """How the effect of periods is estimated from controls, see `model/periods.py`."""

    grid: int = 321  # variances at which its posterior is computed
    range: float = 1e6  # by how much it may exceed the scatter of the controls, or stay below
    least_error: float = 1e-4  # their usual error, as a share of their scatter, is at least this
    first_noise: float = 0.1  # before the first estimate: the share of the noise without the effect
    least_noise: float = 0.05  # later on, it is at least this share


class DriftRules(NamedTuple):
    """How results fade in a system that changes, see `model/drift.py` and `model/jumps.py`."""

    half_lives: tuple[float, ...] = (25.0, 50.0, 100.0, 200.0, 400.0, 800.0)
    levels: tuple[float, ...] = (0.0, 1e-3, 1e-2, 1e-1)
    keeps: tuple[float, ...] = (1.0, 0.5, 0.05)
    first_keep: float = 0.05  # of a jump, before the results after it say more
    noise_factors: tuple[float, ...] = (1.5, 0.7, 0.25)
    # Log odds against no change, which is the first of each list.
    drift_prior: float = -5.0
    level_prior: float = -5.0
    window: int = 150  # results that the choice is made by
    least_results: int = 25  # before, nothing is said to change
    results: int = 1000  # results that the model looks at, at most
    most_rows: int = 250  # rows of its data, at most
    faded: float = 0.1  # results of which no more correlation is left are not looked at
    bin_share: float = 1 / 40  # replicates within this share of a half-life are of one time
    level_bin: float = 0.02  # or as long as the level changes by this variance
    widest_bin: float = 50.0
    jump_level: float = 4.0  # variance of the change of the level at a jump, in units of omega^2
    refit_every: int = 20  # results, at the latest
    # Of the test for jumps: there is a false alarm in so many results, on average.
    false_alarm_every: float = 10_000.0
    sizes: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.5)  # of jumps, in sds of the noise
    surprise_sds: tuple[float, ...] = (1.8, 3.0)  # of prediction errors after a jump
    known_share: float = 1.0  # f is known well where its sd is at most this share of the noise's
    least_scatter: int = 6  # replicates to know the noise by, before the test begins
    test_window: int = 120  # results in which a jump is looked for


class IDSRules(NamedTuple):
    """The settings of `IDS` that depend on the space; measured: "Payback"."""

    payback: float = 0.3  # for spaces without choices
    payback_with_choices: float = 1.0  # a choice tells nothing about the others, so try more
    directed_with_choices: bool = True
    # Structured values have many neighbours, and an improvement of one leads on to others.
    payback_with_structure: float = 1.0  # measured: docs/results/structured.md
    caution_with_structure: float = 0.0
    payback_in_context: float = (
        0.1  # contexts that vary explore; measured: docs/results/contexts.md
    )
    resolution: float = 0.1  # the noise variance counts as at least this share of the signal's
    caution: float = 1.0  # regret is measured from mu - caution b s, see `IDS`
    inside: float = (
        0.0  # how much less a look near a border tells, see `ids._insideness`; 0: no less
    )


class SearchRules(NamedTuple):
    """The size of the search for the next point, as tests/test_maximise.py found it necessary.

    The work of a point is `Score.width`, the number of terms in its score.  A climb has stages; a
    stage is a tuple of the number of points that climb, the strength of the barrier, and the number
    of iterations.
    """

    enumerate_points: int = 2048  # a finite space with so many points is searched completely,
    enumerate_work: int = 400_000  # and so is one whose points take this much work together
    global_points: tuple[int, int] = (256, 2048)  # fewest and most points over the cube ...
    global_work: int = 40_000  # ... and the work that they may take together
    around_points: tuple[int, int] = (128, 1024)  # fewest and most points near visited ones ...
    around_work: int = 15_000  # ... and the work that they may take together
    around_distance: tuple[float, float] = (0.1, 1.0)  # how near, in length-scales
    centers: int = 8  # number of best points whose surroundings and neighbours are tried
    cells: int = 8  # cells per side of the coarse grid that keeps the starts of a climb apart
    stages: tuple[tuple[int, float, int], ...] = ((24, 1e-2, 3), (4, 6e-4, 6))
    brief_stages: tuple[tuple[int, float, int], ...] = ((8, 6e-4, 4),)  # if only the value matters
    touch_stages: tuple[tuple[int, float, int], ...] = ((4, 6e-4, 5),)  # after a discrete move
    jumps: int = 128  # number of points with some discrete columns drawn at random
    jump_shares: tuple[float, float] = (0.2, 0.5)  # share of the discrete columns that are drawn
    drawn_points: int = 128  # at most so many points over the cube if there are structured columns
    walks: int = 256  # number of points a few moves away from visited ones, in structured columns
    rounds: int = 12  # at most so many rounds of moves to neighbours
    # `centers` and `rounds` if there are structured columns.  There, one improvement often leads to
    # others.
    structured_centers: int = 8
    structured_rounds: int = 12
    believed_scales: tuple[float, float] = (0.02, 1.0)  # length-scales are clipped to this range
    first_step: float = 0.15  # the first step of a climb, in length-scales
    longest_step: float = 0.25  # the longest step of a climb, as a share of a range
    flat: float = 1e-7  # a climb ends if a step can gain no more than this
    # From so many visited points on, the search computes variances in single precision.
    single_points: float = inf
    global_of_many: int = 256  # fewest points over the cube from so many visited points on


class MergeRules(NamedTuple):
    """When a new point counts as a visited one (see `search.same_point`)."""

    close: float = 0.05  # points differ in each column by at most this share of its range


class RevisitRules(NamedTuple):
    """How a long run keeps the number of its points, and the time for a decision, small.

    A search for a new point takes O(m^2) for each candidate, with m visited points.  In a long run
    the score of the best new point is hardly better than that of the best visited one.
    """

    points: int = 300  # with fewer visited points, a search is cheap, and nothing is different
    gain: float = 0.05  # the score of a new point must be better by this, in units of `Score.unit`
    # After so many repeats in a row, most trials are chosen among the visited points without a
    # search.  One search is made while the number of trials grows by 1/100.
    repeats: int = 3
    share: int = 100

    def due(self, trials: int, repeats: int) -> bool:
        """Whether the next trial is chosen without a search.

        Args:
            trials: the number of trials so far.
            repeats: how many of the last ones were repeats of visited points, without a gap.
        """
        return repeats >= self.repeats and trials % max(1, trials // self.share) != 0


class LossRules(NamedTuple):
    """How a loss budget is kept, see engine/loss.py; measured: docs/results/harm.md."""

    share: float = 0.2  # of the risk that is left, which one step may use
    # While few distinct points are known, nobody knows how much f varies.  Its sd counts as at
    # least this share of the budget then, so that the first steps are short.
    doubt: float = 1.0
    # Its trials stay near the baseline at first, see `EnsembleRules.least_extent`.  On 20 bowls in
    # one dimension, L = 0.1 and 0.3 were exceeded in 5 and 2 runs without this, in 1 and 0 with it.
    least_extent: float = 0.05
    # The default model of a run with a loss budget: a single fit is too sure of itself at first.
    model: ModelRules = ModelRules(method="ensemble", noise_prior=(log(0.08), 1.75))

    def applied_to(self, fit: FitRules) -> FitRules:
        """The rules of the fit of a run with a loss budget."""
        return fit._replace(ensemble=fit.ensemble._replace(least_extent=self.least_extent))


class MetricRules(NamedTuple):
    """The models of metrics that have a guardrail."""

    method: Method = "map"
    # A ripple, or noise that is thought to be small, makes length-scales short while data are few;
    # then trials hardly leave the baseline.  On 30 instances of each of 4 families, this kernel and
    # a noise sd of 0.3 signal sds lost 0.87 times as much as the model of f; measured:
    # docs/results/guardrails.md.
    kernel: str = "matern52"
    noise_prior: tuple[float, float] = (log(0.08), 1.75)
    # Beyond so many points, a fit is due when they have grown by a tenth, and most fits descend
    # from the last parameters only.
    free_points: int = 10
    widening: float = 0.5  # see `FitRules`: 2 is so wide that trials hardly leave the baseline

    def applied_to(self, fit: FitRules) -> FitRules:
        """The rules of the fit of a metric."""
        few = self.free_points
        return fit._replace(free_points=few, sure_points=few, widening=self.widening)

    def model(self, usual: ModelRules) -> ModelRules:
        """The settings of the model of a metric."""
        return usual._replace(method=self.method, kernel=self.kernel, noise_prior=self.noise_prior)


class KnownRules(NamedTuple):
    """How a known optimum or bound is used, and when results contradict it."""

    sure_sds: float = 4.0  # contradicted if f at a visited point is above it by so many sds ...
    sure_results: int = 6  # ... and so many results were told for the point ...
    clear: float = 1e-3  # ... and by this share of the spread of the results
    # With a known optimum, a grid is tried in the order of promise, and this share of it.
    start_share: float = 0.4  # measured: docs/results/known_optimum.md
    caution: float = 0.0  # with a known optimum, in place of `IDSRules.caution`


class TrafficRules(NamedTuple):
    """How a table splits the traffic, see engine/traffic.py; measured: docs/results/shop.md."""

    least_share: float = 0.005  # of a row
    usual_share: float = 0.03  # of a row that explores, before its own is known
    most_explored: float = 0.3  # of all rows that explore together
    baseline_share: float = 0.02  # of the baseline, beside a better setting
    # The main row is the one with the best mu - caution s.  A row of few units may look good by
    # luck, and most of the traffic must not follow luck.
    caution: float = 1.0
    pooled_units: float = 1000.0  # the scatter of all units counts like that of so many
    # The model, if the user gave none.  A row has few units, so its noise hides a ripple, and what
    # is known comes from many rows: f is expected to be smoother than in a plain run.
    kernel: str = "matern52"
    length_prior: tuple[float, float] = (0.0, 0.7)

    def model(self, usual: ModelRules) -> ModelRules:
        """The settings of the model of a run that splits its traffic."""
        return usual._replace(kernel=self.kernel, length_prior=self.length_prior)


class Defaults(NamedTuple):
    """One version of all default settings and constants."""

    version: int
    start: StartRules = StartRules()
    model: ModelRules = ModelRules()
    fit: FitRules = FitRules()
    tail: TailRules = TailRules()
    # With a loss budget, guardrails or limited steps, the start stays near the baseline.  Its few
    # results differ little, so they do not say which outcomes are usual.
    tail_near_baseline: TailRules = TailRules(far=5.0, first_results=8, lower_half=True)
    noise: NoiseRules = NoiseRules()
    periods: PeriodRules = PeriodRules()
    drift: DriftRules = DriftRules()
    ids: IDSRules = IDSRules()
    search: SearchRules = SearchRules()
    merge: MergeRules = MergeRules()
    revisit: RevisitRules | None = None  # None: the same rules for runs of any length
    loss: LossRules = LossRules()
    metrics: MetricRules = MetricRules()
    known: KnownRules = KnownRules()
    traffic: TrafficRules = TrafficRules()
    # With `sparse_changes`: how much of the score may be lost in all, in units of `Score.unit`.  On
    # four runs with two idle parameters of four, 0.2 changed 3.1 parameters at a time instead of 4,
    # for the same regret; 0.5 changed 2.7 for 5 % more.
    sparse_tolerance: float = 0.2
    pending_draws: int = 256  # pairs of opposite draws of the results of pending trials
    # Pending points are added to the posterior together, and not one by one: the same up to
    # rounding, in a tenth of the time.
    pending_together: bool = False


VERSIONS = {
    1: Defaults(version=1),
    2: Defaults(version=2, fit=FitRules(known_noise=True)),
}
# Version 2, but most repeats of a long run need no search.  Measured: docs/results/resampling.md.
VERSIONS[4] = VERSIONS[2]._replace(version=4, revisit=RevisitRules())
# Version 4, but with rules for many points and parameters, for limits and for structured values.
# Measured: docs/results/large_studies.md, dimensions.md, limits.md and structured.md there.
VERSIONS[5] = VERSIONS[4]._replace(
    version=5,
    start=StartRules(most_dims=12, within_limits=3),
    fit=FitRules(
        known_noise=True,
        many=ManyRules(points=400),
        local=LocalRules(exact=3000),
        sums_over_parts=True,
    ),
    search=SearchRules(
        walks=512,
        structured_centers=4,
        structured_rounds=40,
        single_points=600,
        global_of_many=128,
    ),
    pending_together=True,
)
NEWEST = VERSIONS[max(VERSIONS)]

# A candidate can be tried by its number.  It may still change, until a release makes it a version.
CANDIDATES = {
    3: Defaults(
        version=3,
        start=StartRules(pairs=1, grid_dims=(2,), blind_noise=inf),
        # A noise sd of 0.3 signal sds, within a factor of about 2.4: honest intervals need it.
        model=ModelRules(method="ensemble", noise_prior=(log(0.08), 1.75)),
        fit=FitRules(known_noise=True),
        # Most of the first results are at points that were chosen to be good.
        tail=TailRules(far=5.0, first_results=8, lower_half=True),
        ids=IDSRules(caution=0.0, inside=2.0),
        revisit=RevisitRules(),
    ),
}


def defaults_of(version: object = None) -> Defaults:
    """The defaults of a version.

    Args:
        version: the number of the version; None for the newest.

    Raises:
        ConfigError: this release has no such version.

    Example:
        >>> defaults_of(1).start.beyond_dim
        2
    """
    if version is None:
        return VERSIONS[max(VERSIONS)]
    every = VERSIONS | CANDIDATES
    if isinstance(version, bool) or not isinstance(version, int) or version not in every:
        known = ", ".join(map(str, sorted(every)))
        raise ConfigError(
            f"defaults: this release knows version {known}, got {shown(version)};"
            " upgrade regretless for a newer one"
        )
    return every[version]
