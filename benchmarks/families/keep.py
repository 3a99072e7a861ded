"""The families that are kept for the end: nothing may be chosen by them."""

from __future__ import annotations

import numpy as np
from benchmarks.families.base import Blueprint, Columns, cube, log_uniform, stacked
from benchmarks.families.choose import sparse
from benchmarks.families.shapes import gp_draw, hills
from benchmarks.peers.problems import Array
from numpy.random import Generator
from scipy.special import gammaln, ndtr

from regretless import Categorical, Float, Int, Space


def inventory(rng: Generator) -> Blueprint:
    """How much to keep: one product reordered day by day, or several for one season."""
    return _reordering(rng) if rng.random() < 0.5 else _season(rng)


def _reordering(rng: Generator) -> Blueprint:
    """Order up to s + lot whenever less than s is left: fixed cost, storage, lost sales, spoilage.

    Demand is Poisson. With a price, demand falls as it rises. The mean cost per day comes from
    renewal theory: m(j) is the expected number of days that begin with j fewer than the largest
    stock.
    """
    mean = log_uniform(rng, 2.0, 12.0)
    most_lot, most_s = int(mean * rng.uniform(4, 8)), int(mean * rng.uniform(2.5, 4))
    fixed, keep = log_uniform(rng, 3, 60), log_uniform(rng, 0.05, 1.0)
    worth, cost, lost = rng.uniform(5, 10), rng.uniform(1, 4), rng.uniform(0, 10)
    elastic = rng.uniform(1.2, 3.0)
    priced = rng.random() < 0.5
    parameters: dict[str, Float | Int] = {"reorder_at": Int(0, most_s), "lot": Int(1, most_lot)}
    if priced:
        low = cost * rng.uniform(1.0, 1.4)
        parameters["price"] = Float(float(low), float(low * rng.uniform(2.5, 6.0)), log=True)
    demand = np.arange(most_lot + most_s + 1)

    def formula(values: Columns) -> Array:
        s, lot = values["reorder_at"].astype(int), values["lot"].astype(int)
        paid = values["price"] if priced else np.full(len(s), worth)
        rate = mean * (paid / worth) ** -elastic if priced else np.full(len(s), mean)
        rate = rate / (1 + rate / (4 * mean))  # there are only so many customers
        logs = demand * np.log(rate)[:, None] - rate[:, None] - gammaln(demand + 1)
        p = np.exp(logs)
        # Sold on a day that begins with y: E min(D, y).
        tail = 1 - np.cumsum(p, axis=1)
        sells = np.concatenate([np.zeros((len(s), 1)), np.cumsum(tail.clip(0), axis=1)], axis=1)
        m = np.zeros((len(s), most_lot))
        m[:, 0] = 1 / (1 - p[:, 0]).clip(1e-9)
        for j in range(1, most_lot):
            earlier = (m[:, :j] * p[:, j:0:-1]).sum(axis=1)
            m[:, j] = earlier / (1 - p[:, 0]).clip(1e-9)
        j = np.arange(most_lot)
        m = np.where(j < lot[:, None], m, 0.0)
        stock = (s + lot)[:, None] - j
        sold = np.take_along_axis(sells, stock.clip(0), axis=1)
        day = (paid - cost)[:, None] * sold - keep * (stock - sold)
        day = day - lost * (rate[:, None] - sold)
        return ((m * day).sum(axis=1) - fixed) / m.sum(axis=1)

    return Blueprint(Space(parameters), formula)


def _season(rng: Generator) -> Blueprint:
    """Stocks of two to four products for a season, in a store of limited size.

    Customers who find their product sold out take another one, in part.
    """
    d = int(rng.integers(2, 5))
    mean = log_uniform(rng, 20, 200, d)
    sd = mean * rng.uniform(0.15, 0.5, d)
    cost = rng.uniform(1, 5, d)
    margin = cost * rng.uniform(0.3, 2.5, d)
    salvage = cost * rng.uniform(0.0, 0.7, d)
    spill = rng.uniform(0.0, 0.5) / d
    room = float((mean * rng.uniform(0.8, 1.5)).sum())
    crowd = rng.uniform(0.5, 3.0)
    whole = rng.random() < 0.5
    names = tuple(f"stock_{j}" for j in range(1, d + 1))
    highs = mean * rng.uniform(1.6, 3.0, d)
    space = Space(
        {
            n: Int(0, int(h)) if whole else Float(0.0, float(h))
            for n, h in zip(names, highs, strict=True)
        }
    )

    def sold(q: Array, wanted: Array) -> Array:
        z = (q - wanted) / sd
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        short = sd * (density - z * ndtr(-z))
        return np.maximum(wanted - short, 0.0)

    def formula(values: Columns) -> Array:
        q = stacked(values, names)
        missed = np.maximum(mean - sold(q, mean), 0.0)
        wanted = mean + spill * (missed.sum(axis=1, keepdims=True) - missed)
        sales = np.minimum(sold(q, wanted), q)
        profit = margin * sales - (cost - salvage) * (q - sales)
        over = np.logaddexp(0.0, 20 * (q.sum(axis=1) / room - 1)) / 20
        return profit.sum(axis=1) - crowd * room * over

    return Blueprint(space, formula)


def bids(rng: Generator) -> Blueprint:
    """Bids on two to five channels: what is won is worth less and less, what is paid is not."""
    d = int(rng.integers(2, 6))
    usual = log_uniform(rng, 0.1, 10, d)
    names = tuple(f"bid_{j}" for j in range(1, d + 1))
    lows, highs = (
        usual * np.exp(-rng.uniform(1.0, 3.5, d)),
        usual * np.exp(rng.uniform(0.7, 2.0, d)),
    )
    space = Space(
        {n: Float(float(a), float(b), log=True) for n, a, b in zip(names, lows, highs, strict=True)}
    )
    steep, volume = rng.uniform(1.2, 5.0, d), log_uniform(rng, 0.2, 2.0, d)
    worth = usual * rng.uniform(0.6, 3.0, d)
    first_price = rng.uniform(0.4, 1.0, d)
    most = float((worth * volume).sum() * rng.uniform(0.3, 1.5))
    purse = float((usual * volume).sum() * rng.uniform(0.4, 1.5))
    strict_ = rng.uniform(0.0, 2.0)

    def formula(values: Columns) -> Array:
        b = stacked(values, names)
        won = volume / (1 + (usual / b) ** steep)
        value = most * -np.expm1(-(worth * won).sum(axis=1) / most)
        spend = (won * b * first_price).sum(axis=1)
        return value - spend - strict_ * np.maximum(spend - purse, 0.0)

    return Blueprint(space, formula)


def yields(rng: Generator) -> Blueprint:
    """A becomes B, and B becomes C if it is too hot or takes too long; only B is sold."""
    kinds = int(rng.integers(2, 5))
    low_t = rng.uniform(290, 320)
    high_t = low_t + rng.uniform(60, 140)
    middle = low_t + (high_t - low_t) * rng.uniform(0.3, 0.7)
    minutes = log_uniform(rng, 10, 100)
    low_time, high_time = (
        minutes / 10 ** rng.uniform(0.7, 1.5),
        minutes * 10 ** rng.uniform(0.5, 1.2),
    )
    parameters: dict[str, Float | Categorical] = {
        "temperature": Float(float(low_t), float(high_t)),
        "minutes": Float(float(low_time), float(high_time), log=True),
    }
    dilute = rng.random() < 0.6
    if dilute:
        parameters["concentration"] = Float(0.01, float(10 ** rng.uniform(-0.5, 1.0)), log=True)
    catalysed = rng.random() < 0.7
    if catalysed:
        parameters["catalyst"] = Categorical([f"cat_{i}" for i in range(kinds)])
    energy = np.stack([rng.uniform(40e3, 90e3, kinds), rng.uniform(50e3, 130e3, kinds)])
    speed = (
        np.stack([log_uniform(rng, 0.5, 4.0, kinds), log_uniform(rng, 0.03, 0.8, kinds)]) / minutes
    )
    order1, order2 = rng.uniform(0.0, 0.7), rng.uniform(0.0, 1.3)
    heat, hour, feed = rng.uniform(0, 0.3), rng.uniform(0, 0.3), rng.uniform(0.0, 0.1)

    def formula(values: Columns) -> Array:
        kelvin, time = values["temperature"], values["minutes"]
        i = values["catalyst"].astype(int) if catalysed else np.zeros(len(time), dtype=int)
        c = values["concentration"] if dilute else np.ones(len(time))
        turn = (1 / middle - 1 / kelvin) / 8.314
        k1 = speed[0][i] * np.exp(energy[0][i] * turn) * c**order1
        k2 = speed[1][i] * np.exp(energy[1][i] * turn) * c**order2
        gap = np.where(np.abs(k2 - k1) < 1e-9 * k1, 1e-9 * k1, k2 - k1)
        made = k1 / gap * (np.exp(-k1 * time) - np.exp(-k2 * time))
        warm = heat * (kelvin - low_t) / (high_t - low_t)
        return made * (1 + 0.3 * np.log10(c) * dilute) - warm - hour * time / high_time - feed * c

    return Blueprint(Space(parameters), formula)


def gp_rough(rng: Generator) -> Blueprint:
    """Draws from a GP with length-scales of 0.05 to 0.5 of the range, and few derivatives.

    The roughest ones have one or two dimensions: in more of them nobody could say what is best.
    """
    nu = (0.5, 1.5, 2.5)[int(rng.integers(3))]
    d = int(rng.integers(1, {0.5: 3, 1.5: 4, 2.5: 5}[nu]))
    draw = gp_draw(rng, log_uniform(rng, 0.05, 0.5, d), nu)
    return Blueprint(cube(d), lambda values: draw(stacked(values)), effort=4)


def database(rng: Generator) -> Blueprint:
    """Transactions per second: a cache, workers that get in each other's way, switches.

    Memory that is not there is swapped: a cliff. Switches change what a cache and a worker are
    worth.
    """
    ram = log_uniform(rng, 2e3, 32e3)
    data = ram * log_uniform(rng, 0.1, 3.0)
    per_worker = ram * log_uniform(rng, 0.002, 0.02)
    most = int(rng.integers(16, 97))
    contention, chatter = log_uniform(rng, 0.005, 0.2), log_uniform(rng, 1e-5, 3e-3)
    hit_power, miss = rng.uniform(0.4, 1.2), log_uniform(rng, 2.0, 20.0)
    cliff, fall = rng.uniform(8, 40), rng.uniform(0.4, 0.95)
    switches = int(rng.integers(1, 4))
    parameters: dict[str, Float | Int | Categorical] = {
        "buffer_mb": Int(
            int(ram * rng.uniform(0.004, 0.02)) + 1, int(ram * rng.uniform(0.8, 1.3)), log=True
        ),
        "workers": Int(1, most),
    }
    batching = rng.random() < 0.5
    if batching:
        parameters["batch"] = Int(1, int(rng.integers(64, 512)), log=True)
    best_batch, batch_gain = log_uniform(rng, 3, 80), rng.uniform(0.1, 0.5)
    options = [int(rng.integers(2, 4)) for _ in range(switches)]
    for j, k in enumerate(options):
        parameters[f"switch_{j}"] = Categorical([f"o{i}" for i in range(k)])
    fast = [np.exp(rng.normal(0, 0.15, k)) for k in options]
    smaller = [np.exp(rng.normal(0, 0.4, k)) for k in options]
    calmer = [np.exp(rng.normal(0, 0.5, k)) for k in options]

    def formula(values: Columns) -> Array:
        buffer, w = values["buffer_mb"], values["workers"]
        speed, size, locks = np.ones(len(w)), np.full(len(w), data), np.ones(len(w))
        for j in range(switches):
            i = values[f"switch_{j}"].astype(int)
            speed, size, locks = speed * fast[j][i], size * smaller[j][i], locks * calmer[j][i]
        hit = -np.expm1(-2 * (buffer / size) ** hit_power)
        work = w / (1 + contention * locks * (w - 1) + chatter * locks * w * (w - 1))
        full = (buffer + w * per_worker) / (0.9 * ram)
        swap = 1 - fall / (1 + np.exp(-cliff * (full - 1)))
        if batching:
            away = np.log(values["batch"] / best_batch)
            speed = speed * (1 - batch_gain * -np.expm1(-0.3 * away**2))
        return speed * work / (1 + miss * (1 - hit)) * swap

    return Blueprint(Space(parameters), formula)


def latency(rng: Generator) -> Blueprint:
    """A V in the logarithm of a timeout, and a price for each retry: the corner is sharp.

    More retries suit a shorter timeout, and save requests that fail.
    """
    low = log_uniform(rng, 1, 50)
    high = low * 10 ** rng.uniform(1.0, 2.5)
    corner = low * (high / low) ** rng.uniform(0.15, 0.85)
    most = int(rng.integers(3, 9))
    parameters: dict[str, Float | Int | Categorical] = {
        "timeout_ms": Float(float(low), float(high), log=True),
        "retries": Int(0, most),
    }
    short, long_ = log_uniform(rng, 1.0, 8.0), log_uniform(rng, 1.0, 8.0)
    each, failing, fails = (
        rng.uniform(0.3, 2.0),
        log_uniform(rng, 0.5, 30.0),
        rng.uniform(0.05, 0.6),
    )
    pull = rng.uniform(0.0, 0.3)
    waiting = rng.random() < 0.4
    pause = float(log_uniform(rng, 3, 30))
    if waiting:
        parameters["pause_ms"] = Float(1.0, 100.0, log=True)
    choosing = rng.random() < 0.6
    kinds = int(rng.integers(2, 4))
    if choosing:
        parameters["strategy"] = Categorical([f"way_{i}" for i in range(kinds)])
    extra = np.append(0.0, rng.uniform(0.2, 3.0, kinds - 1))[rng.permutation(kinds)]
    turn = rng.normal(0, 0.3, kinds)

    def formula(values: Columns) -> Array:
        r = values["retries"]
        where = np.log(values["timeout_ms"] / corner) + pull * r
        cost = each * r + failing * fails ** (r + 1)
        if choosing:
            i = values["strategy"].astype(int)
            where, cost = where + turn[i], cost + extra[i]
        if waiting:
            cost = cost + np.abs(np.log(values["pause_ms"] / pause)) * (0.5 + 0.3 * r)
        return -(cost + np.where(where < 0, -short * where, long_ * where))

    return Blueprint(Space(parameters), formula)


def ridge(rng: Generator) -> Blueprint:
    """A curved ridge that rises along its length, or a plateau with a hill at its end."""
    d = int(rng.integers(2, 6))
    along = int(rng.integers(d))
    others = [j for j in range(d) if j != along]
    middle, swing = rng.uniform(0.3, 0.7, d - 1), rng.uniform(0.1, 0.3, d - 1)
    waves, phase = rng.uniform(1.0, 5.0, d - 1), rng.uniform(0, 2 * np.pi, d - 1)
    width = log_uniform(rng, 0.1, 0.4, d - 1) * np.sqrt(d - 1)
    top, reach = rng.uniform(0.1, 0.9), log_uniform(rng, 0.15, 0.6)
    foot = rng.uniform(0.2, 0.8)
    kind = ("smooth", "sharp", "plateau")[int(rng.integers(3))]
    edge = rng.uniform(1.5, 4.0)

    def formula(values: Columns) -> Array:
        u = stacked(values)
        t, rest = u[:, along], u[:, others]
        path = middle + swing * np.sin(waves * t[:, None] + phase)
        away = (((rest - path) / width) ** 2).sum(axis=1)
        rise = foot + (1 - foot) * np.exp(-0.5 * ((t - top) / reach) ** 2)
        if kind == "smooth":
            return rise * np.exp(-0.5 * away)
        if kind == "sharp":
            return rise / (1 + np.sqrt(away))
        return rise * np.maximum(0.0, 1 - away / edge**2)

    path = middle + swing * np.sin(waves * top + phase)
    hint = np.insert(path, along, top).clip(0, 1)
    return Blueprint(cube(d), formula, hints=[hint])


def sparse50(rng: Generator) -> Blueprint:
    """Five of fifty parameters matter."""
    drawn = sparse(rng, 50, 5)
    return Blueprint(drawn.space, drawn.formula, budgets=(100.0, 200.0), active=drawn.active)


def many_hills(rng: Generator) -> Blueprint:
    """Six to thirty hills in two to four dimensions."""
    d, count = int(rng.integers(2, 5)), int(rng.integers(6, 31))
    shape, centres = hills(rng, d, count, (0.03, 0.15))
    return Blueprint(cube(d), lambda values: shape(stacked(values)), hints=centres)
