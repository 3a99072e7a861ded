"""The tables of all runs: figures, functions, policies and their settings.

A run is a figure, a function, a policy and a seed; everything else follows from the tables here.
The settings are those of the paper (section 5: zero mean, SE kernel, maximum likelihood, the
centred grid as the initial design, n_0 and N of Table 1), unless an entry says otherwise.

The paper does not say everything.  These are the choices of the figures; each has ablations:

- **EI's incumbent.** The paper does not say it.  The figures use EIC's ξ_n = max_i μ_n(x_i),
  because the paper defines α_n with it, and calls EI the special case of EIC without evaluation
  cost.
- **EI-Nguyen's incumbent.** Nguyen et al. use max y_i.  The paper describes the variant as a
  threshold on its own α_n and finds it identical to EI, so it has EI's incumbent here.
- **GP-UCB's β_n.** The paper does not say it.  A remark that was commented out in the paper's
  source says that one figure used "a bad beta" with which GP-UCB lost to EI, and considers tuning.
  In the published text GP-UCB beats EI.  That rules out the schedules of the theory, which explore
  far too much.  The schedule most used in practice is 0.2 d log(2n) (Kandasamy et al. 2015).
- **GP-TS's draws.** Draws from the posterior as continuous functions.  Chowdhury and Gopalan, whom
  the paper cites, widen the posterior by v_n; that is an ablation.
- **The mean in Figure 3.** An accuracy is far from 0 and its mean is not known beforehand, so it
  can't be standardised as the functions are.  A fitted constant mean has the same effect.
- **Replicates.** EIC tries a visited point again if the posterior can't tell the new one from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType

from regretless.engine import Optimizer
from regretless.errors import ConfigError
from regretless.experiments.mlp import MLP, Mlp
from regretless.experiments.problems import PROBLEMS, Problem
from regretless.model import Model
from regretless.policies import EI, EIC, GPTS, GPUCB, EINguyen, Policy

FUNCTIONS = tuple(PROBLEMS)
_SMOKE = ("schwefel-2", "levy-4")
MAIN = ("eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts")
_DEFAULTS = 1  # the version that the records were made with: the paper's runs stay the same


@dataclass(frozen=True)
class Setting:
    """The settings of the optimiser for one name in the tables."""

    policy: Policy
    about: str  # the settings in words, for the results page
    model: Model = field(default_factory=Model.paper)
    start: str | None = "grid"  # the initial design; None for the default of the optimiser


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "eic": Setting(EIC(), "EIC: ξ = max μ(x_i), gate, replicates merged"),
        "ei": Setting(EI(), "EI: ξ = max μ(x_i)"),
        "ei-nguyen": Setting(EINguyen(), "EI-Nguyen: ξ = max μ(x_i), κ = 1e-4"),
        "gp-ucb": Setting(GPUCB(beta="log"), "GP-UCB: β = 0.2 d log(2n)"),
        "gp-ts": Setting(GPTS(), "GP-TS: draws from the posterior"),
        # EI's incumbent.  The quantile at level 0.5 would be the mean.
        "ei-observation": Setting(EI(incumbent="observation"), "EI: ξ = max y_i"),
        "ei-domain": Setting(EI(incumbent="domain"), "EI: ξ = max μ over the domain"),
        "ei-quantile": Setting(
            EI(incumbent="quantile", beta=0.9), "EI: ξ = max μ(x_i) − Φ⁻¹(0.9) σ(x_i)"
        ),
        "ei-nguyen-observation": Setting(
            EINguyen(incumbent="observation"), "EI-Nguyen: ξ = max y_i, κ = 1e-4"
        ),
        # The gate with each incumbent (EIC without a gate is EI); replicates with and without it.
        "eic-observation": Setting(EIC(incumbent="observation"), "EIC: ξ = max y_i"),
        "eic-domain": Setting(EIC(incumbent="domain"), "EIC: ξ = max μ over the domain"),
        "eic-quantile": Setting(
            EIC(incumbent="quantile", beta=0.9), "EIC: ξ = max μ(x_i) − Φ⁻¹(0.9) σ(x_i)"
        ),
        "eic-unmerged": Setting(EIC(merge=False), "EIC: replicates not merged"),
        "ei-merged": Setting(EI(merge=True), "EI: replicates merged"),
        "gp-ucb-srinivas": Setting(GPUCB(beta="srinivas"), "GP-UCB: β of Srinivas et al."),
        "gp-ucb-cg": Setting(GPUCB(beta="chowdhury-gopalan"), "GP-UCB: β of Chowdhury and Gopalan"),
        "gp-ucb-4": Setting(GPUCB(beta=4.0), "GP-UCB: β = 4"),
        "gp-ucb-9": Setting(GPUCB(beta=9.0), "GP-UCB: β = 9"),
        "gp-ts-scaled": Setting(GPTS(scale="chowdhury-gopalan"), "GP-TS: posterior widened by v_n"),
        "eic-defaults": Setting(
            EIC(), "EIC: this library's own start and model", model=Model(), start=None
        ),
    }
)


@dataclass(frozen=True)
class Figure:
    """The functions and policies of a figure."""

    functions: tuple[str, ...]
    policies: tuple[str, ...]
    runs: str  # the figure that has the records


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        # Figure 1 is a part of Figure 2, so it uses the same runs.
        "fig1": Figure(("ackley-2",), ("eic", "ei", "gp-ucb"), "fig2"),
        "fig2": Figure(FUNCTIONS, MAIN, "fig2"),
        "fig3": Figure(("mlp",), MAIN, "fig3"),
        "ablations": Figure(FUNCTIONS, tuple(s for s in SETTINGS if s not in MAIN), "ablations"),
    }
)


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    figure: str
    function: str
    policy: str
    seed: int
    smoke: bool = False  # whether to do only a few evaluations, to test the whole pipeline

    @property
    def id(self) -> str:
        return f"{self.figure}/{self.function}/{self.policy}/{self.seed}"

    @property
    def problem(self) -> Problem | Mlp:
        problem = MLP if self.function == "mlp" else PROBLEMS[self.function]
        if not self.smoke:
            return problem
        n0 = 2 * problem.dim
        return replace(problem, n0=n0, budget=n0 + 12)

    def optimizer(self) -> Optimizer:
        """A new optimiser with the settings of the run."""
        setting, problem = SETTINGS[self.policy], self.problem
        model = setting.model
        if self.function == "mlp" and model.mean == "zero":
            model = replace(model, mean="constant")
        return Optimizer(
            problem.space(),
            problem.budget,
            seed=self.seed,
            policy=setting.policy,
            design=setting.start or "auto",
            n0=problem.n0 if setting.start else None,
            model=model,
            defaults=_DEFAULTS,
        )


def specs(
    figure: str,
    *,
    trials: int = 100,
    functions: Sequence[str] = (),
    policies: Sequence[str] = (),
    smoke: bool = False,
) -> list[RunSpec]:
    """The runs of a figure, ordered by seed, so that the first runs have all cells equally often.

    Args:
        figure: "fig1", "fig2", "fig3", "ablations" or "all".
        trials: the number of seeds for each function and policy.
        functions: only these functions; all of the figure if it is empty.
        policies: only these policies; all of the figure if it is empty.
        smoke: whether to make tiny runs.

    Raises:
        ConfigError: an argument is unknown or out of range.
    """
    if figure != "all" and figure not in FIGURES:
        raise ConfigError(f"figure: need one of {', '.join([*FIGURES, 'all'])}, got {figure!r}")
    if trials < 1:
        raise ConfigError(f"trials: need at least 1, got {trials!r}")
    chosen = FIGURES.values() if figure == "all" else (FIGURES[figure],)
    cells = [(f.runs, *cell) for f in chosen for cell in product(f.functions, f.policies)]
    _check_known("functions", functions, (cell[1] for cell in cells))
    _check_known("policies", policies, (cell[2] for cell in cells))
    wanted = [
        cell
        for cell in dict.fromkeys(cells)
        if (not functions or cell[1] in functions) and (not policies or cell[2] in policies)
    ]
    if smoke and not functions:  # two functions are enough to try the ablations
        wanted = [cell for cell in wanted if cell[0] != "ablations" or cell[1] in _SMOKE]
    return [RunSpec(*cell, seed, smoke) for seed in range(trials) for cell in wanted]


def _check_known(name: str, wanted: Iterable[str], known: Iterable[str]) -> None:
    there = dict.fromkeys(known)
    for one in wanted:
        if one not in there:
            raise ConfigError(f"{name}: need some of {', '.join(there)}, got {one!r}")
