"""Structured parameters: one contract for every kind, and what is special to each.

`SPACES` has the form that the contract of all kinds uses: a space, and what it must refuse.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import regretless as rl
from oracles import slopes
from regretless.cli.app import app
from regretless.defaults import defaults_of
from regretless.design import Start
from regretless.horizon import Horizon
from regretless.kernels import Kernel, Sums
from regretless.model import Data, Model
from regretless.model.fit import fit
from regretless.search import Slice
from regretless.service.page_data import page_data
from regretless.space import structured as inside

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Switches(rl.Structured, json="test-switches"):
    """A kind of a user's own, with the least that is needed."""

    count: int

    def draw(self, rng: np.random.Generator) -> list[int]:
        return rng.integers(2, size=self.count).tolist()

    def neighbours(self, value: list[int], rng: np.random.Generator) -> Iterator[list[int]]:
        for i in rng.permutation(self.count):
            yield [1 - on if j == i else on for j, on in enumerate(value)]

    def features(self, value: list[int]) -> dict[Any, float]:
        return {(i, on): 1 for i, on in enumerate(value)}


@dataclass(frozen=True)
class Case:
    """A space, and pairs of parameters that it refuses and a part of the message."""

    space: rl.Space
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    smooth: bool = False  # whether the kernel has slopes in some column


ORDER = rl.Permutation(["a", "b", "c", "d", "e", "f", "g", "h"])
TREE = rl.Tree({"+": 2, "neg": 1, "x": 0, "1": 0}, at_most=9)
CELL = rl.Graph(["conv", "pool"], 3, 6, directed=True, ends=("in", "out"), most_edges=7)

SPACES = {
    "permutation": Case(
        rl.Space({"v": ORDER}),
        [
            ({"v": ["a", "b"]}, "v: .*'c'.* is missing"),
            ({"v": list("aacdefgh")}, "v: an item is repeated"),
            ({"v": list("zbcdefgh")}, "v: 'z' is not one of the items"),
            ({"v": "abcdefgh"}, "v: need a list of items, got 'abcdefgh'"),
            ({"v": 3}, "v: need a list of items, got 3"),
        ],
    ),
    "few orders": Case(rl.Space({"v": rl.Permutation([1, 2, 3])})),
    "subset": Case(
        rl.Space({"v": rl.Subset(list(range(12)), at_least=2, at_most=5)}),
        [
            ({"v": [1]}, "v: need 2 to 5 items, got 1"),
            ({"v": [1, 1]}, "v: an item is repeated"),
            ({"v": [1, 99]}, "v: 99 is not one of the items"),
            ({"v": [1, [2]]}, r"v: \[2\] is not one of the items"),
        ],
    ),
    "few subsets": Case(rl.Space({"v": rl.Subset(["a", "b", "c"])})),
    "text": Case(
        rl.Space({"v": rl.Sequence("ACGT", 6)}),
        [({"v": "ACG"}, "v: need 6 to 6 letters, got 3"), ({"v": "ACGTXX"}, "v: need letters of")],
    ),
    "list": Case(
        rl.Space({"v": rl.Sequence(["up", "down", 3], 0, 5)}),
        [({"v": "up"}, "v: need a list of letters"), ({"v": None}, "v: .*None")],
    ),
    "tree": Case(
        rl.Space({"v": TREE}),
        [
            ({"v": ["+", ["x"]]}, "v: .*has 2 branches, got 1"),
            ({"v": ["sin", ["x"]]}, "v: need a label of .*'sin'"),
            ({"v": "x"}, "v: need a list of a label"),
            ({"v": ["neg"] * 1 + [["neg", ["x"]]] * 1 + [["x"]]}, "v: 'neg' has 1 branches, got 2"),
        ],
    ),
    "graph": Case(
        rl.Space({"v": CELL}),
        [
            ({"v": {"nodes": ["in", "out"], "edges": []}}, "v: need 3 to 6 nodes, got 2"),
            ({"v": {"nodes": ["in", "in", "out"], "edges": []}}, "v: need a label of .*'in'"),
            ({"v": {"nodes": ["in", "conv", "out"], "edges": [[1, 0]]}}, "v: an edge must lead"),
            ({"v": {"nodes": ["in", "conv", "out"], "edges": [[0, 9]]}}, "v: an edge must be two"),
            ({"v": ["in", "out"]}, "v: need a dict of 'nodes' and 'edges'"),
        ],
    ),
    "undirected graph": Case(rl.Space({"v": rl.Graph(["C", "N"], 1, 5)})),
    "own kind": Case(rl.Space({"v": Switches(9)})),
    "with numbers": Case(
        rl.Space({"x": rl.Float(0.0, 1.0), "v": ORDER, "c": rl.Categorical(["a", "b"]), "w": TREE}),
        [({"x": 0.5, "v": list("abcdefgh"), "c": "a"}, "no value for 'w'")],
        smooth=True,
    ),
}

every = pytest.mark.parametrize("case", SPACES.values(), ids=list(SPACES))
both_kernels = pytest.mark.parametrize("version", [2, 5])  # without and with sums over parts


def draws(case: Case, count: int, seed: int = 0) -> Array:
    return case.space.spread(np.random.default_rng(seed).random((count, case.space.dim)))


def length(params: dict[str, Any]) -> float:
    """Something that depends on all of the value."""
    text = json.dumps(params, sort_keys=True)
    return sum(i * ord(letter) for i, letter in enumerate(text)) % 997 / 997


def kernel_of(case: Case, seed: int = 0, version: int = 2) -> Kernel:
    kernel = Model().start(case.space.columns, defaults_of(version).fit).kernel
    theta = kernel.theta + 0.7 * np.random.default_rng(seed).standard_normal(len(kernel.theta))
    return kernel.with_theta(theta)


# --- the contract ---------------------------------------------------------------------------------


@every
def test_points_and_parameters_are_the_same_in_both_directions(case: Case) -> None:
    space = case.space
    for x in draws(case, 100):
        params = space.decode(x)
        np.testing.assert_array_equal(space.encode(params), x)
        assert space.validate(params) == params
        assert space.validate(json.loads(json.dumps(params))) == params


@every
def test_every_source_of_points_makes_canonical_ones(case: Case) -> None:
    space, rng = case.space, np.random.default_rng(1)
    near = draws(case, 50) + 0.1 * rng.standard_normal((50, space.dim))
    sources = [draws(case, 50), space.canonical(near), *map(space.neighbours, draws(case, 10))]
    if space.size is not None:
        sources.append(space.grid())
        assert len(space.grid()) == space.size == len(np.unique(space.grid(), axis=0))
    for points in sources:
        np.testing.assert_array_equal(space.canonical(points), points)
        for x in points[:20]:
            np.testing.assert_array_equal(space.encode(space.decode(x)), x)


@every
def test_neighbours_are_other_points(case: Case) -> None:
    for x in draws(case, 20):
        around = case.space.neighbours(x)
        assert len(around)
        assert (around != x).any(axis=1).all()
        assert len(np.unique(around, axis=0)) == len(around)


@every
def test_json(case: Case) -> None:
    again = rl.Space.from_json(json.loads(json.dumps(case.space.to_json())))
    assert again == case.space
    assert repr(again) == repr(case.space)
    assert eval(repr(case.space), {**vars(rl), "Switches": Switches}) == case.space


@every
@pytest.mark.parametrize("design", ["auto", "sobol", "lhs", "grid"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_start_has_no_repeats(case: Case, design: str, version: int) -> None:
    start = Start(case.space, Horizon(80), design, None, 0, defaults_of(version).start)
    points = start.points
    np.testing.assert_array_equal(case.space.canonical(points), points)
    assert len(np.unique(points, axis=0)) == len(points)
    assert 1 <= start.size <= start.longest


@every
@both_kernels
def test_the_kernel_is_positive_definite(case: Case, version: int) -> None:
    """10,000 random pairs of points, and several random parameters of the kernel."""
    for seed in range(3):
        points = draws(case, 142, seed)
        kernel = kernel_of(case, seed, version)
        gram = kernel.gram(points)
        np.testing.assert_allclose(gram, gram.T, atol=1e-12)
        np.testing.assert_allclose(np.diag(gram), 1.0, atol=1e-9)
        assert np.linalg.eigvalsh(gram).min() > -1e-8
        np.testing.assert_allclose(kernel.gram(points, points.copy()), gram, atol=1e-9)


@every
@both_kernels
def test_the_kernel_s_slopes(case: Case, version: int) -> None:
    rng = np.random.default_rng(3)
    kernel, x = kernel_of(case, 0, version), draws(case, 12, 4)
    weights = rng.standard_normal((12, 12))
    weights += weights.T
    pulled = kernel.gram_vjp(x)[1](weights)
    numeric = slopes(lambda t: float((weights * kernel.with_theta(t).gram(x)).sum()), kernel.theta)
    np.testing.assert_allclose(pulled, numeric, rtol=2e-5, atol=2e-6)
    assert case.space.ordered.any() == case.smooth


@every
@both_kernels
def test_random_functions_have_the_kernel_s_covariance(case: Case, version: int) -> None:
    kernel, points = kernel_of(case, 0, version), draws(case, 6)
    phi, pull = kernel.features(np.random.default_rng(6), 20_000)(points)
    np.testing.assert_allclose(phi @ phi.T / 20_000, kernel.gram(points), atol=0.07)
    assert pull(np.ones_like(phi)).shape == points.shape


@every
@pytest.mark.parametrize("version", [2, 3, 5])
def test_a_run_keeps_to_the_space_and_replays(case: Case, version: int) -> None:
    space = case.space
    optimizer = rl.Optimizer(space, 30, defaults=version, seed=3)
    for _ in range(12):
        trial = optimizer.ask()
        assert space.validate(trial.params) == trial.params
        optimizer.tell(trial, length(trial.params))
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.ask() == optimizer.ask()
    assert again.best() == optimizer.best()


@every
def test_what_is_wrong_is_named_and_changes_nothing(case: Case) -> None:
    optimizer = rl.Optimizer(case.space, 10)
    for params, message in case.refused:
        with pytest.raises(rl.SpaceError, match=message):
            case.space.validate(params)
        with pytest.raises(rl.SpaceError, match=message):
            optimizer.observe(params, 1.0)
        with pytest.raises(rl.SpaceError, match=message):
            optimizer.adopt(params)
    assert optimizer.events == []


@every
def test_a_fixed_column_stays(case: Case) -> None:
    for j in range(case.space.dim):
        place = draws(case, 1)[0][j]
        part = Slice(case.space, {j: place})
        points = part.spread(np.random.default_rng(0).random((30, case.space.dim)))
        assert (points[:, j] == place).all()


@pytest.mark.parametrize(
    "policy",
    ["ids", "eic", *(pytest.param(p, marks=pytest.mark.slow) for p in ("ei", "gp-ucb", "gp-ts"))],
)
def test_every_policy_finds_better_values(policy: str) -> None:
    space = rl.Space({"v": rl.Subset(list(range(14)))})
    optimizer = rl.Optimizer(space, 40, policy=policy)
    for trial in optimizer:
        optimizer.tell(trial, sum(1.0 if k % 3 else -1.0 for k in trial.params["v"]))
    assert optimizer.best().mean > 6.5  # 9 is the best, and 2 the mean


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rl.Permutation([]), "Permutation: items must be a non-empty list"),
        (lambda: rl.Permutation([1, 1]), "Permutation: items must be distinct"),
        (lambda: rl.Permutation(list(range(999))), "at most 300 items, got 999"),
        (lambda: rl.Subset([1, 2], at_least=3), "Subset: need 0 <= at_least <= at_most <= 2"),
        (lambda: rl.Subset([1, 2], at_most=1.5), "Subset: at_most must be a whole number, got 1.5"),
        (lambda: rl.Sequence("aa", 3), "Sequence: alphabet must be distinct"),
        (lambda: rl.Sequence("ab", 0), "Sequence: at_most must be at least 1, got 0"),
        (lambda: rl.Tree({"+": 2}, 5), "Tree: need a label without branches"),
        (lambda: rl.Tree({"x": -1}, 5), "Tree: 'x' must have 0 to 20 branches, got -1"),
        (lambda: rl.Tree({"x": 0}, 0), "Tree: at_most must be 1 to 1000, got 0"),
        (lambda: rl.Graph(["a"], 5, 3), "Graph: need 0 <= at_least <= at_most <= 200"),
        (lambda: rl.Graph(["a"], 1, ends=("in", "out")), "Graph: at_least is too small"),
        (lambda: rl.Graph(["a"], 1, directed=1), "Graph: directed must be True or False, got 1"),
        (lambda: rl.Graph(["a"], 1, most_edges=-1), "Graph: most_edges must be"),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises(rl.SpaceError, match=message):
        make()


def test_mallows_kernel_counts_the_pairs_that_two_orders_disagree_on() -> None:
    rng = np.random.default_rng(0)
    orders = [ORDER.draw(rng) for _ in range(6)]
    u = np.array([ORDER.encode(order) for order in orders])
    distance = ORDER.distances(u, u)[0]

    def kendall(a: list[Any], b: list[Any]) -> int:
        pairs = [(p, q) for p in a for q in a if p < q]
        return sum((a.index(p) < a.index(q)) != (b.index(p) < b.index(q)) for p, q in pairs)

    want = np.array([[kendall(a, b) for b in orders] for a in orders], dtype=float)
    np.testing.assert_allclose(distance * want[0, 1], want * distance[0, 1], atol=1e-9)


def test_sums_over_parts_are_cosines_of_features() -> None:
    items = list(range(6))
    kind = rl.Subset(items)
    team, crew, nobody = [0, 1, 2, 3], [2, 3, 4], []
    x = np.array([[kind.encode(value)] for value in (team, crew, nobody)])
    sizes, shared = np.array([4.0, 3.0, 0.0]), np.array([[4, 2, 0], [2, 3, 0], [0, 0, 0]])
    whole = kind.kernel_part({0: kind})
    cosine = np.eye(3)
    cosine[:2, :2] = (shared / np.sqrt(np.outer(sizes, sizes) + 1e-300))[:2, :2]
    by_size = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    expected = (whole.gram(x) + 0.5 * cosine + 2.0 * by_size) / 3.5
    np.testing.assert_allclose(Sums(whole, (0.5, 2.0)).gram(x), expected, atol=1e-12)
    with pytest.raises(rl.ConfigError, match="odds: need one for each of 2 views, got 1"):
        Sums(whole, (0.5,))
    with pytest.raises(rl.ConfigError, match="odds: need positive finite numbers, got -1"):
        Sums(whole, (0.5, -1.0))


def test_what_is_learnt_about_a_part_holds_in_all_values() -> None:
    """The value of a sum over neighbours, at tours that share few pairs with those that were tried:
    the kernel with sums predicts it better."""
    rng = np.random.default_rng(0)
    kind = rl.Permutation(list(range(10)))
    far = rng.random((10, 10))
    far += far.T

    def tours(count: int) -> tuple[Array, Array]:
        orders = [rng.permutation(10) for _ in range(count)]
        lengths = [far[order, np.roll(order, -1)].sum() for order in orders]
        return np.array([[kind.encode(order.tolist())] for order in orders]), np.array(lengths)

    (x, y), (others, truth) = tours(60), tours(200)
    errors = []
    for version in (4, 5):
        rules = defaults_of(version).fit
        data = Data.of(x=x, y=(y - y.mean()) / y.std())
        model = Model()
        found = fit(data, model.start((kind,), rules), model, rules).hyper
        mu = model.posterior(data, found).predict(others)[0]
        errors.append(float(np.mean((mu * y.std() + y.mean() - truth) ** 2)))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize(("version", "parameters"), [(4, 4), (5, 8)])
def test_a_stored_study_keeps_the_kernel_of_its_version(version: int, parameters: int) -> None:
    space = rl.Space({"v": ORDER})
    optimizer = rl.Optimizer(space, 30, defaults=version, seed=3)
    for _ in range(12):
        trial = optimizer.ask()
        optimizer.tell(trial, length(trial.params))
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.ask() == optimizer.ask()
    fitted = again._belief.fitted
    assert fitted is not None
    assert len(fitted.hyper.kernel.theta) == parameters


def test_spectrum_and_subtree_counts() -> None:
    start, _, runs = rl.Sequence("ab", 0, 5).features("abab")
    assert sorted(Counter(runs).values()) == [1, 1, 1, 2, 2, 2]  # a, b, ab twice; ba, aba, bab once
    assert len(start) == 4
    _, parts, subtrees = TREE.features(["+", ["neg", ["x"]], ["neg", ["x"]]])
    assert parts["neg", ("x",)] == 2
    assert sorted(subtrees.values()) == [1, 2, 2]


def test_the_numbers_of_nodes_do_not_matter() -> None:
    molecule = rl.Graph(["C", "O"], 3)
    one = molecule.encode({"nodes": ["C", "C", "O"], "edges": [[0, 1], [1, 2]]})
    same = molecule.encode({"nodes": ["O", "C", "C"], "edges": [[0, 1], [1, 2]]})
    other = molecule.encode({"nodes": ["C", "O", "C"], "edges": [[0, 1], [1, 2]]})
    u = np.array([one, same, other])
    apart = sum(molecule.distances(u, u))
    assert apart[0, 1] == pytest.approx(0.0)
    assert apart[0, 2] > 0.1


def test_walks_of_a_graph() -> None:
    *_, walks = CELL.features(
        {"nodes": ["in", "conv", "conv", "out"], "edges": [[0, 1], [0, 2], [1, 3], [2, 3]]}
    )
    conv, first, last = repr("conv"), repr("in"), repr("out")
    both = {(first, conv): 2, (conv, last): 2, (first, conv, last): 1}
    assert dict(walks) == both  # edges are counted, and longer walks are there or not


def test_a_large_graph_has_short_walks() -> None:
    small, large = (rl.Graph([*range(9)], n)._longest_walk for n in (5, 150))
    assert (small, large) == (5, 2)


@pytest.mark.parametrize("kind", [ORDER, TREE, CELL, rl.Sequence("abc", 1, 4), rl.Subset([1, 2])])
def test_what_is_drawn_and_moved_is_valid(kind: rl.Structured) -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        value = kind.draw(rng)
        assert kind.check(value) == value
        for near in islice(kind.neighbours(value, rng), 10):
            assert kind.check(near) == near


def test_a_changed_list_changes_nothing_inside() -> None:
    optimizer = rl.Optimizer(rl.Space({"v": ORDER}), 10)
    trial = optimizer.ask()
    order = list(trial.params["v"])
    trial.params["v"].reverse()
    optimizer.trials[0].params["v"].clear()
    optimizer.tell(trial, 1.0)
    assert optimizer.history()[0].params["v"] == order
    assert optimizer.best().params["v"] == order


def test_values_that_were_drawn_are_forgotten_and_used_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inside, "_DRAWN", 50)
    order = rl.Permutation(list(range(10)))
    space = rl.Space({"v": order})
    start = Start(space, Horizon(80), "auto", None, 0, defaults_of().start).points
    first = [space.decode(x) for x in start]
    space.spread(np.random.default_rng(0).random((500, 1)))
    assert len(order._known._drawn) <= 100
    assert [space.decode(x) for x in start] == first


def test_an_optimiser_can_be_pickled_and_shared_by_threads() -> None:
    optimizer = rl.Optimizer(rl.Space({"v": CELL}), 60)
    for _ in range(10):
        trial = optimizer.ask()
        optimizer.tell(trial, length(trial.params))
    again = pickle.loads(pickle.dumps(optimizer))
    assert again.ask() == optimizer.copy().ask()
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            CELL.distances(*[draws(SPACES["graph"], 60, seed + k)[:, 0] for k in range(2)])
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_step_is_quick_at_200_points() -> None:
    """CPU time, the median of a few asks; docs/results/structured.md has all kinds."""
    space = rl.Space({"v": rl.Permutation(list(range(20)))})
    optimizer = rl.Optimizer(space, 260, n0=1)
    rng = np.random.default_rng(0)
    for x in space.spread(rng.random((200, 1))):
        params = space.decode(x)
        optimizer.observe(params, length(params))
    optimizer.tell(optimizer.ask(), 0.5)  # the first ask fits from scratch
    seconds = []
    for _ in range(5):
        began = time.process_time()
        trial = optimizer.ask()
        seconds.append(time.process_time() - began)
        optimizer.tell(trial, length(trial.params))
    assert np.median(seconds) < 0.4  # twice the limit: other processes share the caches


# --- front ends -----------------------------------------------------------------------------------


def test_studies_and_the_command_line(tmp_path: Path) -> None:
    url, runner = str(tmp_path / "s.db"), CliRunner()
    space = rl.Space({"route": ORDER, "speed": rl.Float(0.0, 1.0)})
    made = ["create", "s", "--space", json.dumps(space.to_json()), "--budget", "40"]
    assert runner.invoke(app, [*made, "--storage", url]).exit_code == 0
    with rl.Study.open(url, "s", space=space, budget=40) as study:
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, length(trial.params))
        best, page = study.best(), page_data(study.snapshot())
        assert [one["name"] for one in page["slices"]] == ["speed"]
        json.dumps(page, allow_nan=False)
    with rl.Study.open(url, "s") as again:
        assert again.best() == best
    asked = json.loads(runner.invoke(app, ["ask", "s", "--json", "--storage", url]).stdout)
    assert sorted(asked["params"]["route"]) == list("abcdefgh")
    observed = json.dumps({"route": list("hgfedcba"), "speed": 0.5})
    told = runner.invoke(app, ["observe", "s", observed, "0.7", "--storage", url])
    assert told.exit_code == 0
    table = runner.invoke(app, ["export", "s", "--storage", url]).stdout
    assert '"[""h"", ""g"", ""f"", ""e"", ""d"", ""c"", ""b"", ""a""]"' in table
    assert "hgfedcba"[0] in runner.invoke(app, ["show", "s", "--storage", url]).stdout


@pytest.mark.parametrize("name", ["route", "peptide", "cell", "pattern"])
def test_the_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[1] / "examples" / "structured_values.py"
    spec = importlib.util.spec_from_file_location("structured_values", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    best = module.run(name, budget=12)
    assert best.low < best.mean < best.high
    assert "expected" in capsys.readouterr().out
