"""A system that changes: what drift="auto" costs where nothing moves, and saves elsewhere.

    python -m benchmarks.drift --seeds 0:20              # regret, resumable
    python -m benchmarks.drift --what jumps --seeds 0:20 # false alarms, and delays
    python -m benchmarks.drift --what endless --seeds 0:4
    python -m benchmarks.drift --report                  # docs/results/drift.md and its picture

Every seed has functions of its own: draws of a smooth random function of two parameters, with a
spread of about 1 and noise of sd 0.3.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl
from regretless._internal.arrays import Array
from regretless.defaults import defaults_of
from regretless.model import JumpTest

RECORDS = Path("docs/results/drift.jsonl")
PAGE = Path("docs/results/drift.md")
PICTURE = Path("docs/results/drift.png")
SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
TRIALS, NOISE = 160, 0.3
FAMILIES = ("none", "slow", "jumps", "level")
METHODS = ("default", "auto", "tv-gp-ucb", "window", "restarts")
WINDOW, STRIDE = 50, 10
GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 31)] * 2), -1).reshape(-1, 2)

System = Callable[[int, Array], Array]  # f at a time, at the rows of x


def smooth(rng: np.random.Generator, length: float = 0.25, waves: int = 150) -> Any:
    """A draw of a Gaussian process with the SE kernel."""
    w = rng.standard_normal((waves, 2)) / length
    b, c = rng.uniform(0, 2 * np.pi, waves), rng.standard_normal(waves) * np.sqrt(2 / waves)
    return lambda x: np.cos(x @ w.T + b) @ c


def system(family: str, seed: int, trials: int = TRIALS) -> tuple[System, list[int]]:
    """f as a function of time, and the times of its jumps."""
    rng = np.random.default_rng([20261118, FAMILIES.index(family), seed])
    fs = [smooth(rng) for _ in range(trials // 160 + 3)]
    cuts = [int(rng.integers(50, 90))]
    if family == "none":
        return lambda t, x: fs[0](x), []
    if family == "slow":  # one function turns into the next; after 160 trials it is another one

        def turning(t: int, x: Array) -> Array:
            k, part = divmod(t / 160, 1.0)
            angle, i = part * np.pi / 2, int(k)
            return np.cos(angle) * fs[i](x) + np.sin(angle) * fs[i + 1](x)

        return turning, []
    if family == "jumps":
        return lambda t, x: fs[sum(t >= cut for cut in cuts)](x), cuts
    shifts = np.array([0.0, rng.choice([-2.0, 2.0])])
    return lambda t, x: fs[0](x) + shifts[sum(t >= cut for cut in cuts)], cuts


class Window:
    """The default on the last results only, which are renewed every few trials."""

    def __init__(self, seed: int) -> None:
        self.seed, self.asked = seed, 0
        self.told: list[tuple[dict[str, Any], float]] = []
        self.now = rl.Optimizer(SPACE, TRIALS, seed=seed)

    def ask(self) -> rl.Trial:
        if self.asked > WINDOW and self.asked % STRIDE == 0:
            self.now = rl.Optimizer(SPACE, TRIALS - self.asked, seed=self.seed)
            for params, value in self.told[-WINDOW:]:
                self.now.observe(params, value)
        self.asked += 1
        return self.now.ask()

    def tell(self, trial: rl.Trial, value: float) -> None:
        self.told.append((trial.params, value))
        self.now.tell(trial, value)


class Restarts:
    """The default, begun anew at each jump, which it is told about."""

    def __init__(self, seed: int, cuts: list[int]) -> None:
        self.seed, self.cuts, self.asked = seed, cuts, 0
        self.now = rl.Optimizer(SPACE, TRIALS, seed=seed)

    def ask(self) -> rl.Trial:
        if self.asked in self.cuts:
            self.now = rl.Optimizer(SPACE, TRIALS - self.asked, seed=self.seed + self.asked)
        self.asked += 1
        return self.now.ask()

    def tell(self, trial: rl.Trial, value: float) -> None:
        self.now.tell(trial, value)


def tuner(method: str, seed: int, cuts: list[int]) -> Any:
    if method == "window":
        return Window(seed)
    if method == "restarts":
        return Restarts(seed, cuts)
    if method == "tv-gp-ucb":  # Bogunovic and others 2016, with a rate that suits a slow drift
        drift = rl.Drift(half_life=100.0, jumps=False)
        return rl.Optimizer(SPACE, TRIALS, seed=seed, policy="gp-ucb", drift=drift)
    return rl.Optimizer(SPACE, TRIALS, seed=seed, drift="auto" if method == "auto" else None)


def run(family: str, method: str, seed: int) -> dict[str, Any]:
    """One run, as a record."""
    f, cuts = system(family, seed)
    rng, mine = np.random.default_rng([7, seed]), tuner(method, seed, cuts)
    regret, used, top = [], 0.0, 0.0
    for t in range(TRIALS):
        begun = time.process_time()
        trial = mine.ask()
        used += time.process_time() - begun
        x = np.array([[trial.params["x"], trial.params["y"]]])
        value = float(f(t, x)[0])
        if t == 0 or t in cuts or family == "slow":
            top = float(f(t, GRID).max())
        regret.append(max(top - value, 0.0))
        mine.tell(trial, value + NOISE * rng.standard_normal())
    used /= TRIALS
    found = {"regret": np.round(regret, 4).tolist(), "cuts": cuts, "ms": round(1e3 * used, 2)}
    if method == "auto":
        found["jumps"] = [(jump.number, jump.noticed) for jump in mine.jumps]
    return found


# -- the test for jumps ----------------------------------------------------------------------------


def watch(seed: int, size: float) -> dict[str, Any]:
    """A run of 500 trials; after trial 200 or so, f at the incumbent falls by `size` noise sds."""
    trials, rng = 500, np.random.default_rng([8, seed])
    f, _ = system("none", seed)
    optimizer = rl.Optimizer(SPACE, trials, seed=seed, drift="auto")
    cut = int(rng.integers(150, 250))
    centre, after, soon = None, 0, None
    for t in range(trials if size == 0.0 else cut + 120):
        trial = optimizer.ask()
        x = np.array([trial.params["x"], trial.params["y"]])
        value = float(f(0, x[None, :])[0])
        if size and t >= cut:
            if centre is None:
                best = optimizer.best().params
                centre = np.array([best["x"], best["y"]])
            value -= size * NOISE * np.exp(-0.5 * ((x - centre) ** 2).sum() / 0.15**2)
            after += bool((x == centre).all())
        optimizer.tell(trial, value + NOISE * rng.standard_normal())
        if optimizer.jumps and optimizer.jumps[-1].noticed >= cut and soon is None:
            soon = after
            if size:
                break
    jumps = [(jump.number, jump.noticed) for jump in optimizer.jumps]
    return {"cut": cut, "after": soon, "of": after, "jumps": jumps}


def stream(seed: int, cut: int | None) -> dict[str, Any]:
    """500 results, four of five at one point, which shifts by 2 noise sds; no policy, no model."""
    rng, test, after = np.random.default_rng([10, seed]), JumpTest(defaults_of().drift), 0
    for t in range(500):
        point = 0 if t > 10 and rng.random() < 0.8 else int(rng.integers(1, 40))
        y = rng.standard_normal() + point % 7
        if cut is not None and t >= cut and point == 0:
            y, after = y + 2.0, after + 1
        place = test.add(t, (np.array([float(point)]), y, 1.0, None))
        if place is not None:
            return {"cut": cut, "noticed": t, "place": place, "after": after}
    return {"cut": cut, "noticed": None, "place": None, "after": after}


# -- no end ----------------------------------------------------------------------------------------


def endless(seed: int, drift: bool) -> dict[str, Any]:
    """2000 trials with a horizon of 100, in a system that stays the same, or that turns."""
    f, _ = system("slow" if drift else "none", seed, 2400)
    rng = np.random.default_rng([9, seed])
    optimizer = rl.Optimizer(SPACE, horizon=100, seed=seed, drift="auto" if drift else None)
    regret, cost, rows = [], [], []
    for t in range(2000):
        begun = time.process_time()
        trial = optimizer.ask()
        cost.append(time.process_time() - begun)
        x = np.array([[trial.params["x"], trial.params["y"]]])
        value = float(f(t, x)[0])
        regret.append(max(float(f(t, GRID).max()) - value, 0.0))
        optimizer.tell(trial, value + NOISE * rng.standard_normal())
        posterior = optimizer._belief.posterior
        rows.append(0 if posterior is None else len(posterior.points))
    blocks = range(0, 2000, 100)
    mean = lambda values: [round(float(np.mean(values[i : i + 100])), 5) for i in blocks]  # noqa: E731
    return {"regret": mean(regret), "ms": mean(1e3 * np.array(cost)), "rows": mean(rows)}


def restarted(seed: int) -> dict[str, Any]:
    """Budgeted runs of 100 trials one after the other, each knowing all results so far."""
    f, _ = system("none", seed, 2400)
    rng, regret = np.random.default_rng([9, seed]), []
    told: list[tuple[dict[str, Any], float]] = []
    for block in range(20):
        optimizer = rl.Optimizer(SPACE, 100, seed=seed + block)
        for params, value in told:
            optimizer.observe(params, value)
        for trial in optimizer:
            x = np.array([[trial.params["x"], trial.params["y"]]])
            value = float(f(0, x)[0])
            regret.append(max(float(f(0, GRID).max()) - value, 0.0))
            optimizer.tell(trial, value + NOISE * rng.standard_normal())
            told.append((trial.params, optimizer.history()[-1].value))
    return {"regret": [round(float(np.mean(regret[i : i + 100])), 5) for i in range(0, 2000, 100)]}


# -- records ---------------------------------------------------------------------------------------


def records() -> list[dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines]


def jobs(what: str, seeds: range, methods: list[str]) -> Iterator[tuple[str, str, int, Any]]:
    for seed in seeds:
        if what == "regret":
            for family in FAMILIES:
                for method in methods:
                    if method == "restarts" and family in ("none", "slow"):
                        continue
                    yield family, method, seed, lambda f=family, m=method, s=seed: run(f, m, s)
        elif what == "stream":
            yield "stream", "still", seed, lambda s=seed: stream(s, None)
            yield "stream", "jump", seed, lambda s=seed: stream(s, 150)
        elif what == "jumps":
            yield "watch", "still", seed, lambda s=seed: watch(s, 0.0)
            yield "watch", "jump", seed, lambda s=seed: watch(s, 2.0)
        else:
            yield "endless", "still", seed, lambda s=seed: endless(s, False)
            yield "endless", "restarted", seed, lambda s=seed: restarted(s)
            yield "endless", "moving", seed, lambda s=seed: endless(s, True)


# -- the page --------------------------------------------------------------------------------------


def report() -> None:
    """Write the page and its picture from the records."""
    found = records()
    own = [r for r in found if r["family"] in FAMILIES]
    lines = [
        "# A system that changes: results",
        "",
        "`python -m benchmarks.drift` makes the records (`drift.jsonl`), and with `--report`"
        " this page. It measures `drift=`, see [a system that changes, and no end"
        " date](../drift.md).",
        "",
        f"The problems are random smooth functions of two parameters, with {TRIALS} trials and"
        f" noise of {NOISE} of the spread of f. Every seed has its own functions. There are four"
        " families. `none`: nothing changes. `slow`: one function slowly turns into another."
        " `jumps`: at a random trial, f is replaced by another function. `level`: all settings"
        " shift by 2 spreads of f. The tools: `tv-gp-ucb` has a half-life of 100 results."
        f" `window` is the default on the last {WINDOW} results. `restarts` knows when the jump"
        " happens, and starts again.",
        "",
        "## Total regret",
        "",
        "Mean over the instances, with the standard error of the mean. The last column is the mean"
        " regret of `auto`, divided by that of the default.",
        "",
        "| family | instances | " + " | ".join(METHODS) + " | auto / default |",
        "|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    for family in FAMILIES:
        lines.append(_row(family, own, lambda r: sum(r["regret"])))
    after = [r for r in own if r["family"] == "jumps"]
    lines.append(
        _row("jumps", after, lambda r: sum(r["regret"][r["cuts"][0] :]), "jumps, after it")
    )
    watched = [r for r in found if r["family"] == "watch"]
    still = [r for r in watched if r["method"] == "still"]
    alarms = sum(bool(r["jumps"]) for r in still)
    jumps = [r for r in watched if r["method"] == "jump"]
    soon = sum(r["after"] is not None and r["after"] <= 15 for r in jumps)
    early = sum(any(noticed < r["cut"] for _, noticed in r["jumps"]) for r in jumps)
    lines += ["", "## The test for jumps", "", *_streams(found)]
    lines += (
        []
        if not watched
        else [
            f"- {alarms} of {len(still)} runs of 500 trials without a change had an alarm.",
            "- f near the incumbent fell by 2 noise sds at a random trial between 150 and 250:"
            f" noticed within 15 trials of the incumbent in {soon} of {len(jumps)} runs, with"
            f" {early} alarms before.",
        ]
    )
    lines += _endless([r for r in found if r["family"] == "endless"])
    PAGE.write_text("\n".join(lines) + "\n")
    _picture(own)


def _streams(found: list[dict[str, Any]]) -> list[str]:
    own = [r for r in found if r["family"] == "stream"]
    still = [r["noticed"] is not None for r in own if r["method"] == "still"]
    jumps = [r for r in own if r["method"] == "jump"]
    soon = [r["noticed"] is not None and r["noticed"] >= 150 and r["after"] <= 15 for r in jumps]
    return [
        "The test alone, on 500 results with normal noise of unknown size, most of one point:",
        "",
        f"- without a change, {sum(still)} of {len(still)} series had an alarm;",
        "- a shift of that point by 2 noise sds at result 150 was noticed within 15 of its results"
        f" in {sum(soon)} of {len(soon)} series.",
    ]


def _row(family: str, own: list[dict[str, Any]], value: Any, name: str = "") -> str:
    cells, means = [], {}
    by = {
        m: {r["seed"]: value(r) for r in own if (r["family"], r["method"]) == (family, m)}
        for m in METHODS
    }
    for method in METHODS:
        values = np.array(list(by[method].values()))
        if len(values) < 1:
            cells.append("–")
            continue
        means[method] = values.mean()
        cell = f"{values.mean():.1f} ± {values.std() / max(1, len(values) - 1) ** 0.5:.1f}"
        if method not in ("default", "auto"):  # on fewer instances
            same = [by["auto"][seed] for seed in by[method] if seed in by["auto"]]
            cell += f" (n = {len(values)}; auto there {np.mean(same):.1f})"
        cells.append(cell)
    both = sorted(by["default"].keys() & by["auto"].keys())
    ratio = sum(by["auto"][s] for s in both) / max(sum(by["default"][s] for s in both), 1e-9)
    return f"| {name or family} | {len(both)} | " + " | ".join(cells) + f" | {ratio:.2f} |"


def _endless(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return []
    lines = [
        "",
        "## No end",
        "",
        "2000 trials with a horizon of 100. `restarted`: budgeted runs of 100 trials, one after the"
        " other, each of which observes all results so far. Means over 100 trials from … on.",
        "",
        "| run | instances | what | 0 | 100 | 500 | 1000 | 1500 | 1900 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for method in ("still", "restarted", "moving"):
        own = [r for r in found if r["method"] == method]
        for what, name in (("regret", "regret a trial"), ("ms", "ms an ask"), ("rows", "rows")):
            if not own or what not in own[0]:
                continue
            mean = np.mean([r[what] for r in own], axis=0)
            cells = " | ".join(f"{mean[i]:.3g}" for i in (0, 1, 5, 10, 15, 19))
            lines.append(f"| {method} | {len(own)} | {name} | {cells} |")
    return lines


def _picture(own: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, every = plt.subplots(1, len(FAMILIES), figsize=(13, 3.2))
    for axes, family in zip(every, FAMILIES, strict=True):
        for method in METHODS:
            runs = [r["regret"] for r in own if (r["family"], r["method"]) == (family, method)]
            if runs:
                axes.plot(np.cumsum(np.mean(runs, axis=0)), label=method)
        axes.set(title=family, xlabel="trial")
    every[0].set_ylabel("total regret")
    every[-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20")
    parser.add_argument(
        "--what", default="regret", choices=("regret", "jumps", "stream", "endless")
    )
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.report:
        report()
        return
    warnings.simplefilter("ignore")
    seeds = range(*map(int, given.seeds.split(":")))
    done = {(r["family"], r["method"], r["seed"]) for r in records()}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    for family, method, seed, job in jobs(given.what, seeds, given.methods.split(",")):
        if (family, method, seed) in done:
            continue
        record = {"family": family, "method": method, "seed": seed, "commit": commit, **job()}
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(family, method, seed, np.round(np.sum(record.get("regret", 0.0)), 2), flush=True)


if __name__ == "__main__":
    main()
