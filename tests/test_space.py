"""Spaces: round trips bit for bit, bad input with a message that names it."""

import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regretless import Categorical, Float, Int, Ordinal, Space, SpaceError
from regretless._internal.arrays import Array
from regretless.space import Parameter

# ---------------------------------------------------------------------------------------------
# Strategies

finite = st.floats(-1e12, 1e12)
scalars = st.one_of(st.text(max_size=5), st.integers(-5, 5), finite, st.booleans(), st.none())
unit = st.floats(0.0, 1.0)


def distinct(values: list) -> bool:
    return len({(isinstance(v, bool), v) for v in values}) == len(values)


choices = st.lists(scalars, min_size=1, max_size=6).filter(distinct)


@st.composite
def lines(draw: st.DrawFn) -> Float:
    low, high = sorted((draw(finite), draw(finite)))
    assume(high - low > 1e-9 * max(abs(low), abs(high), 1e-290))
    return Float(low, high)


@st.composite
def log_lines(draw: st.DrawFn) -> Float:
    low = draw(st.floats(1e-290, 1e290))
    high = low * draw(st.floats(1.001, 1e12))
    return Float(low, high, log=True)


@st.composite
def stepped(draw: st.DrawFn) -> Float:
    low = draw(st.floats(-1e3, 1e3))
    step = draw(st.sampled_from([0.1, 0.25, 1 / 3, 1e-3, 7.0]))
    return Float(low, low + draw(st.floats(0, 50)), step=step)


@st.composite
def ints(draw: st.DrawFn) -> Int:
    low = draw(st.integers(-(10**6), 10**6))
    return Int(low, low + draw(st.integers(0, 10**5)))


@st.composite
def log_ints(draw: st.DrawFn) -> Int:
    low = draw(st.integers(1, 10**4))
    return Int(low, low + draw(st.integers(0, 10**6)), log=True)


discrete = st.one_of(
    stepped(), ints(), log_ints(), st.builds(Categorical, choices), st.builds(Ordinal, choices)
)
parameters = st.one_of(lines(), log_lines(), discrete)


def named(parameter: st.SearchStrategy[Parameter]) -> st.SearchStrategy[Space]:
    names = st.text(min_size=1, max_size=4)
    return st.builds(Space, st.dictionaries(names, parameter, min_size=1, max_size=4))


def points(space: Space) -> st.SearchStrategy[Array]:
    return st.lists(unit, min_size=space.dim, max_size=space.dim).map(np.array)


def same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def mixed() -> Space:
    return Space(
        {
            "dose": Float(0.1, 10.0, log=True),
            "share": Float(0.0, 1.0, step=0.25),
            "visits": Int(1, 12),
            "drug": Categorical(["A", "B", "C"]),
            "size": Ordinal(["S", "M", "L"]),
        }
    )


POINT = {"dose": 1.0, "share": 0.5, "visits": 4, "drug": "B", "size": "S"}


# ---------------------------------------------------------------------------------------------
# Round trips


@given(st.one_of(lines(), log_lines()), st.floats(-0.5, 1.5))
def test_one_coordinate_is_rounded_as_those_of_an_array(line: Float, u: float) -> None:
    scale = line.scale
    assert scale._snapped(u).hex() == scale.snap(np.asarray(u)).item().hex()


@given(st.data())
def test_canonical_is_encode_of_decode_bit_for_bit(data: st.DataObject) -> None:
    space = data.draw(named(parameters))
    x = data.draw(points(space))
    canonical = space.canonical(x[None])
    assert same_bits(canonical[0], space.encode(space.decode(x)))
    assert same_bits(canonical, space.canonical(canonical))
    assert ((canonical >= 0) & (canonical <= 1)).all()


@given(st.data())
def test_a_point_told_back_is_the_same_point(data: st.DataObject) -> None:
    space = data.draw(named(parameters))
    params = space.decode(data.draw(points(space)))
    assert space.validate(params) == params
    again = space.decode(space.encode(params))
    assert same_bits(space.encode(again), space.encode(params))


@given(named(discrete), st.data())
def test_discrete_values_return_exactly(space: Space, data: st.DataObject) -> None:
    params = space.decode(data.draw(points(space)))
    again = space.decode(space.encode(params))
    assert again == params
    assert [type(v) for v in again.values()] == [type(v) for v in params.values()]


@given(st.one_of(lines(), log_lines()), unit)
def test_any_float_is_stable_and_returns_closely(parameter: Float, t: float) -> None:
    value = min(
        max(parameter.low + t * (parameter.high - parameter.low), parameter.low), parameter.high
    )
    space = Space({"x": parameter})
    x = space.encode({"x": value})
    back = space.decode(x)["x"]
    assert same_bits(space.encode({"x": back}), x)
    magnitude = value if parameter.log else max(abs(parameter.low), abs(parameter.high))
    assert abs(back - value) <= 1e-12 * magnitude
    assert parameter.low <= back <= parameter.high


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_short_decimals_return_as_written(digits: int, places: int) -> None:
    value = float(Fraction(digits, 10**places))
    for parameter in (Float(-1.0, 2e6), Float(1e-7, 2e6, log=True)):
        if value >= parameter.low:
            assert parameter.decode(parameter.encode(value)) == value


@given(st.data())
def test_decode_is_monotone_and_reaches_both_ends(data: st.DataObject) -> None:
    parameter = data.draw(st.one_of(lines(), log_lines(), stepped(), ints(), log_ints()))
    a, b = sorted((data.draw(unit), data.draw(unit)))
    assert parameter.decode(a) <= parameter.decode(b)
    if parameter.low < parameter.high:
        assert (parameter.decode(0.0), parameter.decode(1.0)) == (parameter.low, parameter.high)


@given(named(parameters))
def test_json_there_and_back(space: Space) -> None:
    copy = Space.from_json(json.loads(json.dumps(space.to_json(), allow_nan=False)))
    assert copy == space
    assert hash(copy) == hash(space)
    assert repr(copy) == repr(space)
    assert copy.to_json() == space.to_json()


@given(named(parameters))
def test_repr_is_the_code_that_builds_it(space: Space) -> None:
    assert eval(repr(space)) == space


@given(named(parameters), st.integers(0, 2**32))
def test_levels_are_canonical_ascending_and_complete(space: Space, seed: int) -> None:
    U = np.random.default_rng(seed).random((64, space.dim))
    for j, levels in enumerate(space.levels):
        parameter = space.parameters[space.names[j]]
        if levels is None:
            assert parameter.scale.count is None or parameter.scale.count > 1000
            continue
        assert (np.diff(levels) > 0).all()
        assert len(levels) == parameter.scale.count
        assert not levels.flags.writeable
        assert [parameter.encode(parameter.decode(u)) for u in levels] == levels.tolist()
        assert np.isin(space.canonical(U)[:, j], levels).all()
        assert np.isin(space.spread(U)[:, j], levels).all()


@given(named(parameters), st.integers(0, 2**32))
def test_spread_is_canonical(space: Space, seed: int) -> None:
    X = space.spread(np.random.default_rng(seed).random((16, space.dim)))
    assert same_bits(X, space.canonical(X))


@given(st.data())
def test_neighbours_differ_in_one_discrete_column(data: st.DataObject) -> None:
    space = data.draw(named(parameters))
    x = data.draw(points(space))
    here, around = space.canonical(x[None])[0], space.neighbours(x)
    assert around.shape[1:] == (space.dim,)
    assert same_bits(around, space.canonical(around))
    assert len(np.unique(around, axis=0)) == len(around)
    changed = around != here
    assert (changed.sum(axis=1) == 1).all()
    for j, parameter in enumerate(space.columns):
        kind = parameter.kind
        moves = int(changed[:, j].sum())
        if kind == "continuous":
            assert moves == 0
        elif kind == "categorical":
            assert moves == parameter.scale.count - 1
        else:
            inner = int(here[j] > 0) + int(here[j] < 1)
            assert moves == (inner if parameter.scale.count > 1 else 0)


# ---------------------------------------------------------------------------------------------
# What is known by hand


def test_encodings_by_hand() -> None:
    assert mixed().encode(POINT).tolist() == [0.5, 0.5, 3 / 11, 0.5, 0.0]
    assert Space({"n": Int(1, 100, log=True)}).encode({"n": 10}).tolist() == [0.5]
    assert Space({"c": Categorical(list("abcd"))}).levels[0].tolist() == [
        0.125,
        0.375,
        0.625,
        0.875,
    ]
    assert Space({"o": Ordinal([1, 10, 100])}).levels[0].tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "parameter",
    [Int(3, 3), Int(3, 3, log=True), Categorical(["a"]), Ordinal([2]), Float(1, 1.5, step=2)],
)
def test_a_single_value_sits_in_the_middle(parameter: Parameter) -> None:
    space = Space({"x": parameter})
    assert space.grid().tolist() == [[0.5]]
    assert space.neighbours([0.1]).shape == (0, 1)
    assert space.canonical([[0.0], [1.0]]).tolist() == [[0.5], [0.5]]
    assert space.encode(space.decode([0.9])).tolist() == [0.5]


def test_shape_of_a_space() -> None:
    space = mixed()
    assert space.names == ("dose", "share", "visits", "drug", "size")
    kinds = ["continuous", "ordered", "ordered", "categorical", "ordered"]
    assert [parameter.kind for parameter in space.columns] == kinds
    assert len(space) == space.dim == 5
    assert space.size is None
    assert list(space.parameters) == list(space.names)
    assert [None if u is None else len(u) for u in space.levels] == [None, 5, 12, 3, 3]


def test_order_of_columns_is_part_of_a_space() -> None:
    a, b = Int(0, 1), Int(0, 2)
    assert Space({"a": a, "b": b}) != Space({"b": b, "a": a})


def test_stepped_values_are_the_decimals_that_were_meant() -> None:
    parameter = Float(0.0, 1.0, step=0.1)
    assert [parameter.decode(u) for u in parameter.scale.levels] == [k / 10 for k in range(11)]
    assert Float(0.0, 1.0, step=0.3).high == 0.9
    assert Float(0.0, 1.0, step=0.3) == Float(0.0, 0.9, step=0.3)
    assert parameter.validate(0.26) == 0.3


def test_levels_of_a_wide_int_are_not_listed_but_rounded() -> None:
    space = Space({"n": Int(0, 10**15), "m": Int(1, 10**12, log=True)})
    assert space.levels == (None, None)
    assert space.size == (10**15 + 1) * 10**12
    for n, m in [
        (0, 1),
        (1, 2),
        (10**15 - 1, 10**12 - 1),
        (10**15, 10**12),
        (123456789012345, 98765432109),
    ]:
        assert space.decode(space.encode({"n": n, "m": m})) == {"n": n, "m": m}


def test_every_log_int_returns() -> None:
    space = Space({"n": Int(7, 3000, log=True)})
    X = space.grid()
    assert [space.decode(x)["n"] for x in X] == list(range(7, 3001))
    assert same_bits(space.canonical(X), X)


def test_grid_of_a_finite_space() -> None:
    space = Space({"n": Int(1, 3), "c": Categorical(["ab", "b"])})
    assert space.size == 6
    assert [tuple(space.decode(x).values()) for x in space.grid()] == [
        (n, c) for n in (1, 2, 3) for c in ("ab", "b")
    ]


def test_neighbours_by_hand() -> None:
    space = Space({"x": Float(0, 1), "n": Int(1, 3), "c": Categorical(list("abc"))})
    found = [space.decode(x) for x in space.neighbours(space.encode({"x": 0.5, "n": 1, "c": "b"}))]
    assert found == [
        {"x": 0.5, "n": 2, "c": "b"},
        {"x": 0.5, "n": 1, "c": "a"},
        {"x": 0.5, "n": 1, "c": "c"},
    ]


def test_spread_is_fair_to_the_ends_of_a_range() -> None:
    space = Space({"n": Int(0, 4), "c": Categorical(list("abcde")), "m": Int(1, 2, log=True)})
    U = np.repeat((np.arange(1000) + 0.5)[:, None] / 1000, 3, axis=1)
    for j in (0, 1):
        assert np.unique(space.spread(U)[:, j], return_counts=True)[1].tolist() == [200] * 5
    assert np.unique(space.canonical(U)[:, 0], return_counts=True)[1].tolist() == [
        125,
        250,
        250,
        250,
        125,
    ]


def test_spread_is_fair_to_the_ends_of_a_logarithmic_range() -> None:
    """Each integer k gets what lies between k - 1/2 and k + 1/2, at both ends as well."""
    U = (np.arange(20_000) + 0.5)[:, None] / 20_000
    counts = np.unique(Space({"n": Int(1, 4, log=True)}).spread(U), return_counts=True)[1]
    edges = np.log([0.5, 1.5, 2.5, 3.5, 4.5])
    np.testing.assert_allclose(counts / 20_000, np.diff(edges) / np.ptp(edges), atol=1e-3)


def test_true_and_one_are_two_choices_but_one_and_one_point_zero_are_not() -> None:
    parameter = Categorical([True, 1, "1", None])
    assert [parameter.validate(v) for v in (True, 1, 1.0, "1", None)] == [True, 1, 1, "1", None]
    assert type(parameter.validate(True)) is bool
    assert type(parameter.validate(1.0)) is int
    assert Categorical([True]) != Categorical([1])
    assert Categorical([1]) == Categorical([1.0])
    assert hash(Categorical([1])) == hash(Categorical([1.0]))
    with pytest.raises(SpaceError, match="must be one of"):
        Categorical([False, "x"]).validate(0)


def test_numpy_scalars_become_native() -> None:
    space = mixed()
    told = {
        "dose": np.float32(1.0),
        "share": np.float64(0.5),
        "visits": np.int64(4),
        "drug": np.str_("B"),
        "size": "S",
    }
    assert space.validate(told) == POINT
    assert [type(v) for v in space.validate(told).values()] == [float, float, int, str, str]
    assert Categorical(np.array([1, 2])) == Categorical([1, 2])
    assert type(Categorical([np.bool_(True)]).choices[0]) is bool
    assert Int(1, 5).validate(4.0) == 4


def test_validate_keeps_the_order_of_the_space() -> None:
    assert list(mixed().validate(dict(reversed(POINT.items())))) == list(POINT)


def test_rounding_at_a_bound_is_forgiven() -> None:
    assert Float(0.0, 0.3).validate(0.1 + 0.2) == 0.3
    assert Float(1e-9, 1.0, log=True).validate(1e-9 * (1 - 1e-12)) == 1e-9
    for value in (0.0, 5e-10):
        with pytest.raises(SpaceError):
            Float(1e-9, 1.0, log=True).validate(value)
    for parameter in (Float(-2.0, 3.0), Float(1.0, 3.0, log=True)):
        for value in (parameter.low - 1e-6, parameter.high + 1e-6):  # that is no rounding
            with pytest.raises(SpaceError):
                parameter.validate(value)


def test_a_space_is_frozen_and_travels() -> None:
    space = mixed()
    assert space.levels  # what is cached must not get in the way
    assert pickle.loads(pickle.dumps(space)) == space
    with pytest.raises(AttributeError):
        space.names = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        space.parameters["x"] = Int(0, 1)  # type: ignore[index]


def test_minus_zero_is_zero() -> None:
    assert math.copysign(1.0, Space({"x": Float(-1, 1)}).canonical([[-0.0]])[0, 0]) == 1.0


# ---------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Float(3.0, 1.0), r"need low < high, got low=3\.0, high=1\.0"),
        (lambda: Float(1.0, 1.0), r"need low < high, got low=1\.0, high=1\.0"),
        (lambda: Float(math.nan, 1.0), "low must be a finite number, got nan"),
        (lambda: Float(0.0, math.inf), "high must be a finite number, got inf"),
        (lambda: Float(0, 10**400), "high must be a finite number"),
        (lambda: Float("0", 1.0), "low must be a finite number, got '0'"),
        (lambda: Float(True, 2.0), "low must be a finite number, got True"),
        (lambda: Float(-1e308, 1.7e308), r"the range overflows, got low=-1e\+308"),
        (lambda: Float(-1e308, 1.7e308, step=1e307), "the range overflows"),
        (lambda: Float(1e-200, 1e200, log=True), "the range overflows, got low=1e-200"),
        (lambda: Float(1.0, 1.0 + 1e-14), "the range is too narrow, got low=1.0"),
        (lambda: Float(0.0, 1e-310), "the range is too narrow"),
        (lambda: Float(0.0, 1.0, log=True), r"log=True needs low > 0, got low=0\.0"),
        (lambda: Float(-1.0, 1.0, log=True), r"got low=-1\.0"),
        (lambda: Float(0.0, 1.0, log="yes"), "log: need True or False, got 'yes'"),
        (lambda: Float(0.1, 1.0, log=True, step=0.1), r"exclude each other, got step=0\.1"),
        (lambda: Float(1.0, 0.0, step=0.1), r"need low <= high, got low=1\.0, high=0\.0"),
        (lambda: Float(0.0, 1.0, step=0.0), r"got step=0\.0"),
        (lambda: Float(0.0, 1.0, step=-0.5), r"got step=-0\.5"),
        (lambda: Float(0.0, 1e16, step=0.5), r"got step=0\.5"),
        (lambda: Float(0.0, 1.0, step=math.nan), "step must be a finite number, got nan"),
        (lambda: Float(0.0, 1.0, step=1e-16), "got step=1e-16"),
        (lambda: Int(5, 3), "need low <= high, got low=5, high=3"),
        (lambda: Int(0.5, 3), r"low must be an integer, got 0\.5"),
        (lambda: Int(0, True), "high must be an integer, got True"),
        (lambda: Int(0, math.inf), "high must be an integer, got inf"),
        (lambda: Int(0, 3, log=True), "log=True needs low >= 1, got low=0"),
        (lambda: Int(1, 10**15, log=True), "got high=1000000000000000"),
        (lambda: Int(0, 10**18), "levels are more than"),
        (lambda: Int(1, 3, log=1), "log: need True or False, got 1"),
        (lambda: Categorical([]), "choices must be a non-empty list"),
        (lambda: Categorical("abc"), "choices must be a non-empty list, got 'abc'"),
        (lambda: Categorical({"a", "b"}), "choices must be a non-empty list"),
        (lambda: Categorical(3), "choices must be a non-empty list, got 3"),
        (lambda: Categorical(["a", "a"]), r"choices must be distinct, got \['a', 'a'\]"),
        (lambda: Categorical([1, 1.0]), "choices must be distinct"),
        (lambda: Categorical(["\ud800"]), r"'\\ud800' of choices is no valid text"),
        (lambda: Categorical([[1], [2]]), r"each of choices must be .*, got \[1\]"),
        (lambda: Categorical([math.nan]), "each of choices must be .*, got nan"),
        (lambda: Ordinal([1, 2, 1]), "values must be distinct"),
        (lambda: Ordinal([b"x"]), "each of values must be .*, got b'x'"),
        (lambda: Space({}), "need a mapping of names to parameters, got {}"),
        (lambda: Space([("a", Int(0, 1))]), "need a mapping"),
        (lambda: Space({"": Int(0, 1)}), "a name must be a text of 1 to 1000 characters, got ''"),
        (lambda: Space({1: Int(0, 1)}), "a name must be a text of 1 to 1000 characters, got 1"),
        (lambda: Space({"dose": (0, 1)}), r"dose: must be a Float, .*, got \(0, 1\)"),
    ],
)
def test_what_cannot_exist_is_refused_at_birth(build, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        build()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dose", math.nan, r"dose: must be a number in \[0.1, 10.0\], got nan"),
        ("dose", -math.inf, "dose: .* got -inf"),
        ("dose", 10.1, r"dose: .* got 10\.1"),
        ("dose", 10**400, "dose: must be a number"),
        ("dose", "1.0", "dose: .* got '1.0'"),
        ("dose", True, "dose: .* got True"),
        ("dose", None, "dose: .* got None"),
        ("dose", np.array([1.0]), "dose: must be a number"),
        ("share", 1.1, r"share: .* got 1\.1"),
        ("visits", 0, r"visits: must be in \[1, 12\], got 0"),
        ("visits", 13, "visits: .* got 13"),
        ("visits", 2.5, "visits: must be an integer, got 2.5"),
        ("visits", math.nan, "visits: must be an integer, got nan"),
        ("visits", math.inf, "visits: must be an integer, got inf"),
        ("visits", True, "visits: must be an integer, got True"),
        ("visits", "3", "visits: must be an integer, got '3'"),
        ("drug", "D", r"drug: must be one of \['A', 'B', 'C'\], got 'D'"),
        ("drug", ["A"], r"drug: must be one of .*, got \['A'\]"),
        ("drug", math.nan, "drug: must be one of .*, got nan"),
        ("size", 0, "size: must be one of .*, got 0"),
    ],
)
def test_bad_values_are_named(name: str, value: object, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        mixed().validate(POINT | {name: value})


def test_bad_params_are_named() -> None:
    space = mixed()
    with pytest.raises(SpaceError, match="no value for 'dose', 'drug'"):
        space.validate({k: v for k, v in POINT.items() if k not in ("dose", "drug")})
    with pytest.raises(SpaceError, match="unknown 'doze'; known: 'dose'"):
        space.validate(POINT | {"doze": 1})
    with pytest.raises(SpaceError, match="must map names to values"):
        space.validate([1.0])  # type: ignore[arg-type]


def test_many_choices_are_not_all_printed() -> None:
    with pytest.raises(SpaceError, match=r"0, 1, .* 9, … 90 more\], got 'x'"):
        Categorical(range(100)).validate("x")


def test_bad_encoded_points_are_refused() -> None:
    space = mixed()
    with pytest.raises(SpaceError, match=r"need the shape \(5,\), got \(4,\)"):
        space.decode(np.zeros(4))
    with pytest.raises(SpaceError, match=r"need the shape \(q, 5\), got \(5,\)"):
        space.canonical(np.zeros(5))
    with pytest.raises(SpaceError, match="NaN"):
        space.canonical(np.full((1, 5), np.nan))
    inside = space.canonical(np.array([[-np.inf] * 5, [np.inf] * 5]))
    assert ((inside >= 0) & (inside <= 1)).all()


def test_no_grid_of_what_is_too_large() -> None:
    with pytest.raises(SpaceError, match="values of continuous parameters: 'dose'"):
        mixed().grid()
    with pytest.raises(SpaceError, match="1002001 points are more than 1000000"):
        Space({"a": Int(0, 1000), "b": Int(0, 1000)}).grid()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "need a list under 'parameters', got {}"),
        ([], "need a list under 'parameters'"),
        ({"parameters": []}, "need a mapping"),
        ({"parameters": [{"type": "int"}]}, "must have a name"),
        ({"parameters": [{"name": "n", "type": "real"}]}, "n: type must be one of .*, got 'real'"),
        ({"parameters": [{"name": "n", "type": "int", "low": 1}]}, "n: a int needs 'high'"),
        ({"parameters": [{"name": "n", "type": "ordinal", "choices": [1]}]}, "has no 'choices'"),
        ({"parameters": [{"name": "n", "type": "int", "low": 2, "high": 1}]}, "n: Int: need low"),
        ({"parameters": [{"name": "n", "type": "int", "low": 1, "high": 2}] * 2}, "distinct"),
    ],
)
def test_bad_json_is_named(data, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space.from_json(data)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_infinity_is_out_of_bounds_in_any_precision(kind: type[np.floating]) -> None:
    much, none = kind("inf"), kind("nan")
    for number in (much, -much, none):
        with pytest.raises(SpaceError, match="must be"):
            Float(0, 1e5).validate(number)
        with pytest.raises(SpaceError, match="must be an integer"):
            Int(0, 10).validate(number)
        with pytest.raises(SpaceError, match="finite"):
            Categorical([number, 1])
        with pytest.raises(SpaceError, match="finite"):
            Float(0, 1, step=number)
    assert Float(0, 1e5).validate(kind(0.5)) == 0.5
    assert Int(0, 10).validate(kind(3.0)) == 3
    assert Float(0, 0.3).validate(kind(0.3)) == pytest.approx(0.3, rel=1e-3)  # rounded beyond it
