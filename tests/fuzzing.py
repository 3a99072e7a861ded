"""A grammar of hostile values, and the calls of the public API that get them.

A call either works or raises an error of the library, with a short message; after an error nothing
has changed.  `python tests/fuzzing.py 100000` makes so many calls.
"""

from __future__ import annotations

import decimal
import random
import resource
import signal
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

import regretless as rl
from regretless.client import Client
from regretless.client.study import RemoteStudy
from regretless.kernels import SE, Matern
from regretless.space import Space

LONGEST = 2000  # characters of a message
SECONDS = 5.0  # of processor time for one call, so that a busy machine makes no difference
BLOCKED = 60.0  # seconds for a call that needs no processor
MOST_MEMORY = 6 * 2**30  # bytes: a call that writes out `range(10**9)` must not take the machine's


class NoRepr:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NoLength:
    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __repr__(self) -> str:
        return "x" * 1_000_000


class Liar(dict[str, Any]):
    """A mapping whose values are not there."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)


ATOMS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 3,
    lambda: 0.5,
    lambda: -0.0,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: -float("inf"),
    lambda: 5e-324,
    lambda: 1.7e308,
    lambda: 10**400,
    lambda: 10**5000,
    lambda: -(10**5000),
    lambda: Fraction(1, 3),
    lambda: Fraction(10**5000, 3),
    lambda: Fraction(1, 10**5000),
    lambda: decimal.Decimal("0.5"),
    lambda: decimal.Decimal("sNaN"),
    lambda: 1 + 2j,
    lambda: complex("nan"),
    lambda: np.complex128(1 + 2j),
    lambda: np.float16(0.5),
    lambda: np.float32("nan"),
    lambda: np.longdouble("1e400"),
    lambda: np.int8(1),
    lambda: np.uint64(2**64 - 1),
    lambda: np.bool_(True),
    lambda: np.str_("x"),
    lambda: np.bytes_(b"x"),
    lambda: np.timedelta64(5, "D"),
    lambda: np.timedelta64("NaT"),
    lambda: np.datetime64("2026-01-01"),
    lambda: np.datetime64("NaT"),
    lambda: np.void(b"abc"),
    lambda: np.array(0.5),
    lambda: np.array([]),
    lambda: np.array([[]]),
    lambda: np.array([0.5]),
    lambda: np.array([0.1, 0.2]),
    lambda: np.array([np.nan]),
    lambda: np.array(["a", "b"]),
    lambda: np.array([None, "a"], dtype=object),
    lambda: np.array([1 + 2j]),
    lambda: np.array(["2026-01-01"], dtype="datetime64[D]"),
    lambda: np.array([5], dtype="timedelta64[s]"),
    lambda: np.zeros((3, 2)),
    lambda: np.ma.masked,
    lambda: np.ma.array([1.0], mask=[True]),
    lambda: "",
    lambda: "x",
    lambda: "a",
    lambda: "\ud800",
    lambda: "x\udfff",
    lambda: "\x00",
    lambda: "nul\x00in",
    lambda: "é" * 300,
    lambda: "x" * 1_000_000,
    lambda: "../..",
    lambda: "1" * 5000,
    lambda: b"bytes",
    lambda: bytearray(b"x"),
    lambda: memoryview(b"x"),
    lambda: [],
    lambda: (),
    lambda: {},
    lambda: set(),
    lambda: {"a", "b"},
    lambda: range(3),
    lambda: range(10**9),
    lambda: iter([1, 2]),
    lambda: (i for i in range(3)),
    lambda: [[[[[]]]]],
    lambda: [None] * 1000,
    lambda: list(range(2000)),
    lambda: {"x": 0.5},
    lambda: {"x": 0.5, "c": "a"},
    lambda: MappingProxyType({"x": 0.5, "c": "a"}),
    lambda: OrderedDict(x=0.5, c="a"),
    lambda: Liar(x=0.5, c="a"),
    lambda: {1: 2},
    lambda: {"\ud800": 0.5},
    lambda: {"x" * 1_000_000: 0.5},
    object,
    NoRepr,
    NoLength,
    lambda: [NoRepr()],
    lambda: {"x": NoRepr()},
    lambda: int,
    lambda: print,
    lambda: lambda params: 0.0,
    lambda: NotImplemented,
    lambda: ...,
    lambda: ValueError("an error"),
    lambda: datetime(2026, 1, 1),
    lambda: datetime(2026, 1, 1, tzinfo=UTC),
    lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    lambda: datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    lambda: date(2026, 1, 1),
    lambda: timedelta(days=-1),
    lambda: timedelta.max,
    lambda: rl.Float(0.0, 1.0),
    lambda: rl.Space({"x": rl.Float(0.0, 1.0)}),
    lambda: rl.Model(),
    lambda: rl.EIC(),
    lambda: SE((0.5,)),
    lambda: rl.Decision("given", "ids", 3),
    lambda: rl.Decision("nonsense", "ids", 3),
    lambda: rl.Trial(0, {"x": 0.5}, rl.Decision("given", "ids", 3)),
    lambda: rl.Trial(10**5000, {}, rl.Decision("given", "ids", 3)),
]


def value(rng: random.Random, depth: int = 0) -> Any:
    """A value of the grammar: an atom, or a container of values."""
    kind = rng.random()
    if depth > 2 or kind < 0.7:
        return rng.choice(ATOMS)()
    inner = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind < 0.78:
        return inner
    if kind < 0.82:
        return tuple(inner)
    if kind < 0.92:
        return {rng.choice(["x", "c", "name", "type", "low", "high"]): one for one in inner}
    if kind < 0.96:
        return {"x": value(rng, depth + 1), "c": value(rng, depth + 1)}
    return inner * 400


def parameter_json(rng: random.Random) -> dict[str, Any]:
    """An entry of a space's JSON of which some fields are as they should be."""
    good = {"name": "x", "type": "float", "low": 0.0, "high": 1.0}
    fields = ("name", "type", "low", "high", "log", "step", "choices", "values")
    for _ in range(rng.randrange(1, 4)):
        good[rng.choice(fields)] = value(rng)
    good["type"] = rng.choice(["float", "int", "categorical", "ordinal", good["type"]])
    return good


EXPRESSION = ("x", "x", "y", "1", "1e999", "(", ")", "+", "-", "*", "/", "**", "<=", ">=", "==")
EXPRESSION += ("%", "//", "and", "not", "if", "lambda", "__import__('os')", "x.real", "[", "]", ",")
EXPRESSION += ("abs", "min", "max", "exp(", "log(", "9" * 5000, "\x00", "\ud800", "\n", "#", "=")


def expression(rng: random.Random) -> str:
    """A limit of a space, or what looks like one."""
    words = [rng.choice(EXPRESSION) for _ in range(rng.randrange(8))]
    if rng.random() < 0.3:
        words += [rng.choice(["<=", ">="]), rng.choice(["1", "0", "x", "1/0", "2**9999"])]
    return rng.choice(["", " "]).join(words) * rng.choice([1, 1, 1, 1, 1, 300])


# -- the calls -------------------------------------------------------------------------------------

SPACE = Space({"x": rl.Float(0.0, 1.0), "c": rl.Categorical(["a", "b", 3])})


STRUCTURED = Space(
    {
        "order": rl.Permutation(["a", "b", "c"]),
        "words": rl.Sequence("ab", 1, 3),
        "some": rl.Subset(["a", "b", "c"]),
    }
)
GOOD = {"x": 0.5, "c": "a"}
CHANGES = ("add", "freeze", "widen", "drop")
SAFETY = (
    *("baseline", "loss_budget", "confidence", "guardrails", "max_step", "change_cost"),
    *("sparse_changes", "mode", "optimum", "bound"),
)


class Target:
    """Something with a state, and calls of it by name; `state` changes if anything does."""

    def __init__(self, subject: Any, state: Callable[[], Any]) -> None:
        self.subject, self.state = subject, state
        self.seen: Any = None  # the state after the last call, if that failed

    def call(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.subject, verb)(*args, **kwargs)


def optimizer() -> Target:
    subject = rl.Optimizer(SPACE, budget=10**6, seed=1)
    for trial in subject.ask(4):
        subject.tell(trial, float(trial.number))
    subject.ask()
    return Target(subject, subject.to_json)


STUDIED = optimizer().subject


def study(journal: Any) -> Target:
    subject = rl.Study.open(journal, "fuzz", space=SPACE, budget=10**6, seed=1)
    for trial in subject.ask(4):
        subject.tell(trial, float(trial.number))
    subject.ask()
    subject.extend(10**6 + 1, key="extended")
    return Target(subject, subject.refresh)


def _unreachable(*args: object, **kwargs: object) -> Any:
    raise OSError("there is no service")


def client() -> Client:
    """A client that writes its requests, but does not send them."""
    made = Client("http://127.0.0.1:1", patience=0.0)
    made._kind = _unreachable  # type: ignore[assignment]
    return made


def remote() -> Target:
    """A study of a service that is not there: all that can be refused before a request is."""
    subject = RemoteStudy(client(), "fuzz")
    return Target(subject, lambda: None)


def verbs(rng: random.Random, target: Target) -> tuple[str, Callable[[], Any]]:
    """A call that changes the state, or would; with at least one hostile value."""
    v, number = lambda: value(rng), rng.randrange(6)
    is_study = not isinstance(target.subject, rl.Optimizer)

    def more(*names: str) -> dict[str, Any]:
        beside = ("sem", "count", "time", "metrics", *names)
        made = {rng.choice(beside): v() for _ in range(rng.randrange(3))}
        if rng.random() < 0.1:
            made["metrics"] = _named(v(), v())
        return made | ({"key": v()} if is_study and rng.random() < 0.3 else {})

    choices: list[tuple[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]]] = [
        ("tell", lambda: ((v(), 1.0), more("control"))),
        ("tell", lambda: ((number, v()), more("control"))),
        ("observe", lambda: ((v(), 1.0), more())),
        ("observe", lambda: ((GOOD, v()), more())),
        ("observe", lambda: (({"x": v(), "c": "a"}, 1.0), more())),
        ("observe", lambda: (({"x": 0.5, "c": v()}, 1.0), more())),
        ("observe", lambda: (({**GOOD, **_named(v(), v())}, 1.0), more())),
        ("adopt", lambda: ((v(),), {})),
        ("adopt", lambda: (({"x": v(), "c": v()},), {})),
        ("adopt", lambda: ((GOOD, v()), {})),
        ("abandon", lambda: ((v(),), {})),
        ("extend", lambda: ((v(),), {})),
        ("approve", lambda: ((v(),), {})),
        ("approve", lambda: ((number, v()), {})),
        ("reject", lambda: ((v(), v()), {})),
        ("reject", lambda: ((number, v()), {})),
        ("reconsider", lambda: ((v(), v()), {})),
        ("retract", lambda: ((v(),), {})),
        ("retract", lambda: ((number, v()), {})),
        ("retract_observation", lambda: ((v(),), {})),
        ("retract_observation", lambda: ((number, v()), {})),
        ("predict", lambda: ((v(),), {})),
        ("landscape", lambda: ((v(),), {})),
        ("landscape", lambda: (([v()],), {})),
        ("set_baseline", lambda: ((v(),), {})),
        ("set_baseline", lambda: (({"x": v(), "c": v()},), {})),
        ("change_space", lambda: ((), {rng.choice(CHANGES): v()})),
        ("change_space", lambda: ((), {"add": _named(v(), (v(), v()))})),
        ("change_space", lambda: ((), {"add": {"y": (rl.Float(0.0, 1.0), v())}})),
        ("change_space", lambda: ((), {rng.choice(CHANGES[1:]): _named(v(), v())})),
        ("change_space", lambda: ((), {rng.choice(CHANGES[1:]): {rng.choice("xc"): v()}})),
    ]
    if isinstance(target.subject, RemoteStudy):
        choices = [choice for choice in choices if hasattr(target.subject, choice[0])]
        choices.append(("ask", lambda: ((v(),), {"key": v()})))
    if is_study:
        choices += [
            ("abandon_older_than", lambda: ((v(),), {})),
            ("events", lambda: ((v(),), {})),
            ("events", lambda: ((0, v()) if isinstance(target.subject, rl.Study) else (v(),), {})),
            ("ask", lambda: ((), {"within_budget": v()})),
            ("extend", lambda: ((v(),), {"key": "extended"})),
            ("retract", lambda: ((number,), {"key": v()})),
            ("reject", lambda: ((number, "no"), {"key": v()})),
            ("rename", lambda: ((v(),), {})),
            ("observe", lambda: ((GOOD, 2.0), {"key": v()})),
        ]
    verb, made = rng.choice(choices)
    args, kwargs = made()
    if verb == "adopt" and isinstance(target.subject, RemoteStudy):
        args = args[:1]
    return verb, lambda: target.call(verb, *args, **kwargs)


def _named(name: Any, what: Any) -> dict[Any, Any]:
    try:
        return {name: what}
    except TypeError:  # not hashable
        return {}


def constructors(rng: random.Random) -> tuple[str, Callable[[], Any]]:
    """A call without a state."""
    v = lambda: value(rng)  # noqa: E731
    flags = {rng.choice(["log", "step"]): v() for _ in range(rng.randrange(2))}
    settings = {
        rng.choice(["seed", "policy", "direction", "design", "n0", "model", "defaults"]): v()
        for _ in range(rng.randrange(1, 3))
    }
    safe = {rng.choice(SAFETY): v() for _ in range(rng.randrange(1, 3))}
    fields = {
        rng.choice(
            ["kernel", "mean", "method", "tail", "noise_prior", "length_prior", "growth", "lam2"]
        ): v()
    }
    calls: dict[str, Callable[[], Any]] = {
        "Float": lambda: rl.Float(v(), v(), **flags),
        "Float low": lambda: rl.Float(v(), 1.0, **flags),
        "Int": lambda: rl.Int(v(), v()),
        "Int high": lambda: rl.Int(0, v(), v()),
        "Categorical": lambda: rl.Categorical(v()),
        "Categorical choices": lambda: rl.Categorical([v(), v()]),
        "Ordinal": lambda: rl.Ordinal(v()),
        "Ordinal values": lambda: rl.Ordinal([v(), "b"]),
        "Space": lambda: Space(v()),
        "Space names": lambda: Space(_named(v(), rl.Float(0.0, 1.0))),
        "Space parameter": lambda: Space({"x": v()}),
        "Space.from_json": lambda: Space.from_json(v()),
        "Space.from_json entries": lambda: Space.from_json({"parameters": [parameter_json(rng)]}),
        "validate": lambda: SPACE.validate(v()),
        "encode": lambda: SPACE.encode({"x": v(), "c": v()}),
        "decode": lambda: SPACE.decode(v()),
        "canonical": lambda: SPACE.canonical(v()),
        "spread": lambda: SPACE.spread(v()),
        "neighbours": lambda: SPACE.neighbours(v()),
        "Optimizer": lambda: rl.Optimizer(v(), v()),
        "Optimizer settings": lambda: rl.Optimizer(SPACE, 20, **settings),
        "Optimizer safety": lambda: rl.Optimizer(SPACE, 20, **{"baseline": GOOD, **safe}),
        "Optimizer max_step": lambda: rl.Optimizer(
            SPACE, 20, baseline=GOOD, max_step=_named(rng.choice(["x", "c", v()]), v())
        ),
        "Optimizer guardrails": lambda: rl.Optimizer(SPACE, 20, guardrails=[v(), v()]),
        "AtMost": lambda: rl.AtMost(v(), v(), prob=v(), of=v()),
        "AtLeast": lambda: rl.AtLeast("m", v(), **{rng.choice(["prob", "of"]): v()}),
        "Sequence": lambda: rl.Sequence(v(), v(), v()),
        "Sequence alphabet": lambda: rl.Sequence(v(), 1, 3),
        "Sequence lengths": lambda: rl.Sequence("ab", v(), v()),
        "Subset": lambda: rl.Subset(v(), v(), v()),
        "Subset items": lambda: rl.Subset([v(), v(), "b"]),
        "Permutation": lambda: rl.Permutation(v()),
        "Permutation items": lambda: rl.Permutation([v(), v()]),
        "Tree": lambda: rl.Tree(v(), v()),
        "Tree labels": lambda: rl.Tree(_named(v(), v()), 3),
        "Graph": lambda: rl.Graph(v(), v(), v()),
        "Graph more": lambda: rl.Graph(["a", "b"], 1, 2, v(), v(), v()),
        "when": lambda: rl.Float(0.0, 1.0).when(v(), v(), at_least=v()),
        "Space when": lambda: Space({"c": rl.Int(0, 3), "x": rl.Float(0.0, 1.0).when("c", v())}),
        "Space where": lambda: Space({"x": rl.Float(0.0, 1.0)}, where=v()),
        "Space where text": lambda: Space({"x": rl.Float(0.0, 1.0)}, where=[expression(rng)]),
        "structured value": lambda: STRUCTURED.validate({"order": v(), "words": v(), "some": v()}),
        "structured encode": lambda: STRUCTURED.encode(
            {"order": [v(), v(), v()], "words": [v()], "some": [v()]}
        ),
        "Optimizer design": lambda: rl.Optimizer(SPACE, 20, design=[v(), v()]),
        "Optimizer.from_json": lambda: rl.Optimizer.from_json(v()),
        "Optimizer.theorem1": lambda: rl.Optimizer.theorem1(
            SPACE, v(), v(), B=v(), R=v(), delta=v()
        ),
        "Model": lambda: rl.Model(**fields),
        "IDS": lambda: rl.IDS(v(), v()),
        "Random": lambda: rl.Random(merge=v()),
        "Model.fixed": lambda: rl.Model.fixed(v(), v()),
        "Prior": lambda: rl.Prior(v(), v(), v(), v()),
        "SE": lambda: SE(v()),
        "Matern": lambda: Matern(v(), v(), v()),
        "Matern nu": lambda: Matern((0.5,), None, v()),
        "EIC": lambda: rl.EIC(omega_scale=v(), delta=v()),
        "EIC gamma": lambda: rl.EIC(gamma=v(), payback=v()),
        "EI": lambda: rl.EI(v()),
        "GPUCB": lambda: rl.GPUCB(v()),
        "GPTS": lambda: rl.GPTS(v()),
        "EINguyen": lambda: rl.EINguyen(v()),
        "AEI": lambda: rl.AEI(factor=v()),
        "ExploreThenCommit": lambda: rl.ExploreThenCommit(v()),
        "Decision.from_json": lambda: rl.Decision.from_json(v()),
        "Ledger": lambda: rl.Ledger.of(STUDIED).gain(v(), sem=v()),
        "Ledger.regret": lambda: rl.Ledger.of(STUDIED).regret(v()),
        "Ledger.total": lambda: rl.Ledger.of(STUDIED).total(v(), v()),
        "Ledger.total weights": lambda: rl.Ledger.of(STUDIED).total([GOOD, GOOD], [v(), v()]),
        "Client.create": lambda: client().create(
            v(), space=SPACE, budget=v(), policy=v(), seed=v()
        ),
        "Client.create space": lambda: client().create("fuzz", space=v(), budget=3),
        "maximize": lambda: rl.maximize(v(), v(), v()),
        "maximize f": lambda: rl.maximize(lambda p: v(), SPACE, 1),
        "maximize more": lambda: rl.maximize(
            lambda p: 1.0, SPACE, 1, workers=v(), callbacks=v(), f_star=v()
        ),
        "Client": lambda: Client(v(), token=v()),
        "Client times": lambda: Client("http://127.0.0.1:1", timeout=v(), patience=v()),
        "Client.study": lambda: client().study(v()),
    }
    name = rng.choice(list(calls))
    return name, calls[name]


def openings(rng: random.Random, journal: Any) -> tuple[str, Callable[[], Any]]:
    """Opening a study that should not be there afterwards."""
    v = lambda: value(rng)  # noqa: E731
    names = ("seed", "policy", "direction", "design", "n0", "model", *SAFETY)
    settings = {rng.choice(names): v()}
    calls: dict[str, Callable[[], Any]] = {
        "Study.open name": lambda: rl.Study.open(journal, v()),
        "Study.open settings": lambda: rl.Study.open(journal, "fuzz", **settings),
        "Study.open space": lambda: rl.Study.open(journal, "fuzz", space=v(), budget=v()),
    }
    name = rng.choice(list(calls))
    return name, calls[name]


# -- the check -------------------------------------------------------------------------------------


def complaint(call: Callable[[], Any]) -> str | None:
    """What is wrong with the way in which a call ended; None if nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, BLOCKED)
        try:
            call()
        except rl.RegretlessError as error:
            text = str(error)
            if len(text) > LONGEST:
                return f"a message of {len(text)} characters: {text[:200]}"
            if error.__cause__ is None and not text:
                return "an error without a message"
            return None
        except Exception as error:  # noqa: BLE001 (this is what we look for)
            return f"{type(error).__name__}: {str(error)[:200]}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
    return None


class Endless(Exception):
    """A call takes too long."""


def _end(*args: object) -> None:
    raise Endless


def inputs(seed: int, number: int, journal: Any = None) -> Iterator[str]:
    """Make so many calls; yields what is wrong, with the name of the call and its seed."""
    signal.signal(signal.SIGALRM, _end)
    signal.signal(signal.SIGPROF, _end)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, before[1]))
    try:
        yield from _inputs(seed, number, journal)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _inputs(seed: int, number: int, journal: Any) -> Iterator[str]:
    memory, far = optimizer(), remote()
    stored = None if journal is None else study(journal)
    for n in range(number):
        rng = random.Random(f"{seed}/{n}")
        kind = rng.random()
        target = None
        if kind < 0.5:
            name, call = constructors(rng)
        elif journal is not None and kind < 0.52:
            name, call = openings(rng, journal)
        else:
            target = stored if stored is not None and kind < 0.7 else memory
            target = far if kind > 0.95 else target
            name, call = verbs(rng, target)
        if target is not None and target.seen is None:
            target.seen = target.state()
        failed = False

        def noted(call: Callable[[], Any] = call) -> Any:
            nonlocal failed
            try:
                return call()
            except BaseException:
                failed = True
                raise

        wrong = complaint(noted)
        if target is not None:
            before, target.seen = target.seen, target.state() if failed else None
            if wrong is None and failed and target.seen != before:
                wrong = "the state has changed"
        if wrong is not None:
            yield f"{name}, seed {seed}/{n}: {wrong}"
        if target is memory and (memory.subject.asked > 40 or memory.subject.observations > 60):
            memory = optimizer()


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds: dict[str, tuple[int, str]] = {}
    for wrong in inputs(seed, number):
        place, _, what = wrong.partition(": ")
        key = f"{place.partition(',')[0]}: {what[:80]}"
        count, _ = kinds.get(key, (0, ""))
        kinds[key] = (count + 1, wrong)
    for _, (count, wrong) in sorted(kinds.items()):
        print(count, wrong[:300])
    print(f"{number} calls, {sum(count for count, _ in kinds.values())} wrong")


if __name__ == "__main__":
    main()
