"""Every constant of the default, in one place and with a version.

Whoever creates an optimiser without saying how it should start, fit, decide and search gets these
numbers.  A study stores the version that it was created with and keeps it: a later release with
other numbers adds a version here, and never changes an old one.  Tests pin the next suggestion of
a stored study for each version (tests/test_defaults.py).

Each constant has its reason beside it, or "measured": docs/results/default.md then says on what.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

from regretless.errors import ConfigError


@dataclass(frozen=True)
class Prior:
    """What a kernel's parameter may be: its bounds, and the normal prior of its logarithm.

    A kernel gives one for each entry of its `theta` (see `Kernel.priors`).

    is_length        it is a length-scale: `Model.length_prior` says where, not `center` and `sd`
    hidden_by_noise  it is a share of the signal that noise would hide (see `PriorRules.hiding`)

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
        if not 0.0 < self.low < self.high:
            raise ConfigError(f"Prior: need 0 < low < high, got {self.low!r} and {self.high!r}")
        if not self.sd > 0.0:
            raise ConfigError(f"Prior: need sd > 0, got {self.sd!r}")


class StartRules(NamedTuple):
    """How a run starts that is given neither points nor their number (`design="auto"`).

    d is the number of parameters that vary.
    """

    beyond_dim: int = 2  # d + 2 points; measured: "A thrifty start"
    longest: tuple[int, int] = (2, 2)  # (a, b): a d + b points while only noise is seen; measured
    budget_share: int = 4  # a start takes at most a quarter of the budget
    grid_dims: int = 2  # up to so many numbers get a grid of about sqrt(budget) points; measured
    choices_first: bool = True  # each choice once in the middle of the rest; measured
    blind_noise: float = 0.25  # noise ratio lam^2 from which on only noise is seen


class PriorRules(NamedTuple):
    """The weak priors of `Model(method="map")`, for outcomes of unit spread on the unit cube."""

    # The centre and sd of a length-scale are the model's: log h ~ N(log 0.25 + log(d)/2, 1).
    length: Prior = Prior(0.005, 100.0, 0.0, 1.0, is_length=True)
    # Of a Hamming kernel, and of any parameter whose kernel says nothing else.
    weight: Prior = Prior(1e-3, 20.0, 0.0, 1.0)
    # A ripple has a tenth of the signal, give or take 4 times, less where noise would hide it ...
    ripple_odds: Prior = Prior(1e-3, 100.0, log(0.1), 1.5, hidden_by_noise=True)
    # ... and is clearly shorter than the trend; measured: "Two scales".
    ripple_ratio: Prior = Prior(0.02, 0.7, log(0.1), 0.5)
    hiding: float = 0.05  # the noise ratio that hides half of what a ripple is believed to be
    noise_bounds: tuple[float, float] = (1e-8, 1e3)  # of the noise ratio lam^2
    signal: tuple[float, float] = (1.0, 1.0)  # omega^2 ~ inverse gamma(1, 1): stays closed
    mean_precision: float = 0.25  # mean ~ N(0, 4 omega^2), or a trend could be read as a mean


class ModelRules(NamedTuple):
    """The settings of a `Model` that is made without any; a study stores them one by one."""

    kernel: str = "rippled"  # a trend and a ripple; measured: "Two scales"
    length_prior: tuple[float, float] = (log(0.25), 1.0)  # of log h - log(d)/2: distances grow so
    noise_prior: tuple[float, float] = (
        log(0.01),
        2.0,
    )  # an sd of 0.1 signals, or 3 times that
    growth: float = 0.1  # fit again when the data have grown by this share
    lam2: float = 0.01  # before any fit
    omega2: float = 1.0


class FitRules(NamedTuple):
    """When and how the model is fitted."""

    priors: PriorRules = PriorRules()
    free_points: int = 50  # up to about here a fit costs no more than a search for the next point
    surprise_sds: float = 3.0  # fit at once if prediction errors exceed what is usual by so many sd
    widening: float = 2.0  # posterior variance times 1 + 2p/n; measured: "A wider posterior"
    # With priors there is hardly a second optimum: in 3 of 281 fits the second or third descent
    # ended better by more than 0.1, all with up to 25 points, and took two thirds of the time.
    sure_points: int = 25  # beyond so many points only one fit in `sure_every` follows others
    sure_every: int = 5
    descents: tuple[int, int] = (3, 2)  # up to `free_points` points, and beyond
    first_length: float = 0.5  # length-scale before any fit, times sqrt(d)
    start_lengths: tuple[float, ...] = (0.05, 0.15, 0.4, 1.2)  # from rough to smooth, sqrt(d) times
    start_noises: tuple[float, ...] = (1e-3, 1e-1)  # quiet and noisy
    iterations: int = 60
    tolerance: float = 1e-6  # within a thousandth of the best evidence
    flat_slope: float = 1e-3


class TailRules(NamedTuple):
    """How far below the usual outcome disasters begin (`Model(tail="log")`); measured."""

    far: float = 3.0  # widths
    least_results: int = 3  # of the start, to know what is usual
    median_to_sd: float = 1.5  # the sd of a normal is 1.48 times its median absolute deviation


class IDSRules(NamedTuple):
    """The settings of `IDS` that are left to the space; measured: "Payback"."""

    payback: float = 0.3
    payback_with_choices: float = 1.0  # what is not looked at is never found there
    directed_with_choices: bool = True
    resolution: float = 0.1  # the least noise variance, as a share of the signal's


class SearchRules(NamedTuple):
    """Sizes of the search; a measurement of many random states asked for them (test_maximise.py).

    "Work" is points times the terms that one costs.  A stage of a climb is how many climb, the
    strength of the barrier, and the iterations.
    """

    enumerate_points: int = 2048  # finite spaces of either size are searched completely
    enumerate_work: int = 400_000
    global_points: tuple[int, int] = (256, 2048)  # over the cube: fewer where each costs more
    global_work: int = 40_000
    around_points: tuple[int, int] = (128, 1024)  # around the best: fewer where each costs more
    around_work: int = 15_000
    around_distance: tuple[float, float] = (0.1, 1.0)  # in length-scales
    centers: int = 8  # points to look around, and to move from
    cells: int = 8  # a side of the grid that tells starts of a climb apart
    stages: tuple[tuple[int, float, int], ...] = ((24, 1e-2, 3), (4, 6e-4, 6))
    brief_stages: tuple[tuple[int, float, int], ...] = ((8, 6e-4, 4),)  # only the height is asked
    touch_stages: tuple[tuple[int, float, int], ...] = ((4, 6e-4, 5),)  # after a discrete move
    jumps: int = 128  # discrete columns drawn anew
    jump_shares: tuple[float, float] = (0.2, 0.5)  # of the discrete columns, in each jump
    rounds: int = 12  # of moves to neighbours
    believed_scales: tuple[float, float] = (0.02, 1.0)  # length-scales outside are clipped
    first_step: float = 0.15  # of a climb, in length-scales
    longest_step: float = 0.25  # of a range
    flat: float = 1e-7  # a gain (of log EI, as a rule) that is not worth another step


class MergeRules(NamedTuple):
    """When a new point counts as one that was tried."""

    close: float = 0.05  # no column further apart than this share of its range


class Defaults(NamedTuple):
    """One version of the default."""

    version: int
    start: StartRules = StartRules()
    model: ModelRules = ModelRules()
    fit: FitRules = FitRules()
    tail: TailRules = TailRules()
    ids: IDSRules = IDSRules()
    search: SearchRules = SearchRules()
    merge: MergeRules = MergeRules()
    pending_draws: int = 256  # and their opposites, to see how results under way may turn out


VERSIONS = {1: Defaults(version=1)}
NEWEST = VERSIONS[max(VERSIONS)]


def defaults_of(version: object = None) -> Defaults:
    """The defaults of a version; the newest if none is named.

    >>> defaults_of(1).start.beyond_dim
    2
    """
    if version is None:
        return VERSIONS[max(VERSIONS)]
    if isinstance(version, bool) or not isinstance(version, int) or version not in VERSIONS:
        known = ", ".join(map(str, VERSIONS))
        raise ConfigError(
            f"defaults: this release knows version {known}, got {version!r}: a newer one needs a"
            " newer release"
        )
    return VERSIONS[version]
