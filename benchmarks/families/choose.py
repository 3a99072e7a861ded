"""The families by which a default may be chosen, except `learner`, which has a file of its own."""

from __future__ import annotations

import numpy as np
from benchmarks.families.base import Blueprint, Columns, columns, cube, log_uniform, stacked
from benchmarks.families.shapes import gp_draw, hills
from benchmarks.peers.problems import Array
from numpy.random import Generator

from regretless import Categorical, Float, Int, Space


def queue(rng: Generator) -> Blueprint:
    """Servers that follow the load of a day: rent, waiting, and the price of a change.

    Load goes up and down. There are always `servers` of them. Above a target of use, more are
    added. A long cool-down makes them late, a short one makes them flap.
    """
    most = int(rng.integers(12, 60))
    peak = most * rng.uniform(0.35, 0.85)
    night = peak * rng.uniform(0.1, 0.6)
    phase = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    load = night + (peak - night) * (0.5 - 0.5 * np.cos(phase)) ** rng.uniform(0.6, 2.5)
    rent, wait = rng.uniform(0.5, 2.0), log_uniform(rng, 0.5, 20.0)
    worst = log_uniform(rng, 0.3, 4.0)
    flap, slow = log_uniform(rng, 0.02, 0.5) * most, rng.uniform(0.05, 0.35)
    adding = rng.random() < 0.8
    cooling = adding and rng.random() < 0.6
    parameters: dict[str, Float | Int] = {"servers": Int(1, most)}
    if adding:
        parameters["target"] = Float(0.2, 1.2)
    if cooling:
        parameters["cooldown"] = Float(0.1, 30.0, log=True)
    parameters["cpu_share"] = Float(0.25, 4.0, log=True)
    dear, gain = rng.uniform(0.5, 1.3), rng.uniform(0.4, 0.95)

    def formula(values: Columns) -> Array:
        speed = values["cpu_share"] ** gain  # a larger machine is faster, and costs more
        cooldown = values["cooldown"] if cooling else np.full(len(speed), 1.0)
        lag = slow * cooldown / (1 + 0.2 * cooldown)
        cost = np.zeros(len(speed))
        for k, now in enumerate(load):
            seen = now + np.clip(lag, 0, 3) * (load[k - 1] - now)
            wanted = np.maximum(seen, 0) / (values["target"] * speed) if adding else 0.0
            c = np.minimum(np.maximum(values["servers"], wanted), most)
            use = np.minimum(now / (c * speed), 0.9995)
            # Sakasegawa's approximation of the waiting time in a queue with c servers.
            waiting = use ** (np.sqrt(2 * (c + 1)) - 1) / (c * (1 - use) * speed)
            # Above capacity nobody waits for ever: customers leave.
            lost = worst * np.tanh(waiting / worst + np.maximum(now / (c * speed) - 1, 0))
            cost += rent * c * values["cpu_share"] ** dear + wait * now * lost
        if cooling:
            cost += len(load) * flap / cooldown
        return -cost / len(load)

    return Blueprint(Space(parameters), formula)


def price(rng: Generator) -> Blueprint:
    """Prices of one to four products that share their customers; a busy day varies more."""
    d = int(rng.integers(1, 5))
    base = log_uniform(rng, 1.0, 300.0, d)
    lows = base * np.exp(-rng.uniform(0.4, 1.8, d))
    highs = base * np.exp(rng.uniform(0.4, 1.8, d))
    names = tuple(f"price_{j}" for j in range(1, d + 1))
    space = Space(
        {n: Float(float(a), float(b), log=True) for n, a, b in zip(names, lows, highs, strict=True)}
    )
    cost = base * rng.uniform(0.0, 0.6, d)
    market = log_uniform(rng, 50, 5000)
    logit = rng.random() < 0.5
    taste, slope = rng.uniform(-0.5, 2.5, d), rng.uniform(1.5, 5.0, d) / base
    elastic = rng.uniform(1.1, 3.5, d)
    cross = rng.uniform(-0.2, 0.5, (d, d)) * (1 - np.eye(d)) / max(1, d - 1)
    share = rng.dirichlet(np.full(d, 3.0))
    full = rng.uniform(0.5, 2.0, d)

    def sold(p: Array) -> Array:
        if logit:
            attraction = np.exp(taste - slope * (p - 0.5 * base))
            return market * attraction / (1 + attraction.sum(axis=1, keepdims=True))
        away = np.log(p / base)
        wish = np.exp(-elastic * away + away @ cross.T)
        return market * share * wish / (1 + wish * full)  # nobody sells more than there are buyers

    def formula(values: Columns) -> Array:
        p = stacked(values, names)
        return ((p - cost) * sold(p)).sum(axis=1)

    def level(values: Columns) -> Array:
        p = stacked(values, names)
        return (p * sold(p)).sum(axis=1)

    return Blueprint(space, formula, level=level)


def control(rng: Generator) -> Blueprint:
    """Gains of a controller: a step of the set-point, then a disturbance.

    Two or three lags and a delay. The loss is squared error, overshoot and wear; it saturates, as
    a loop that swings is stopped.
    """
    lags = log_uniform(rng, 0.3, 3.0, int(rng.integers(2, 4)))
    gain, dt, steps = log_uniform(rng, 0.3, 3.0), 0.2, 120
    delay = int(rng.integers(1, 9))
    limit = rng.uniform(2.0, 8.0) / gain
    bump, over, wear = rng.uniform(-0.8, 0.8), rng.uniform(0.0, 4.0), log_uniform(rng, 1e-3, 0.1)
    # Roughly where a rule of thumb puts the gains; the box is not centred there.
    rule = float(lags.sum() / (delay * dt + lags.min()) / gain)
    guess = {"kp": 0.6 * rule, "ki": 0.6 * rule / float(lags.sum()), "kd": 0.3 * rule}
    kinds = [("kp", "ki"), ("kp", "ki", "kd"), ("kp", "ki", "kd")][int(rng.integers(3))]
    parameters = {
        k: Float(
            guess[k] / 10 ** rng.uniform(0.5, 2.0), guess[k] * 10 ** rng.uniform(0.3, 1.5), True
        )
        for k in kinds
    }
    if rng.random() < 0.4:
        parameters["setpoint_weight"] = Float(0.0, 1.5)

    def raw(values: Columns) -> Array:
        kp, ki = values["kp"], values["ki"]
        kd = values.get("kd", 0.0)
        weight = values.get("setpoint_weight", 1.0)
        n = len(kp)
        x = np.zeros((len(lags), n))
        pipe = np.zeros((delay, n))
        total = drive = before = top = wearing = squared = np.zeros(n)
        for k in range(steps):
            y = x[-1]
            error = 1.0 - y
            wanted = kp * (weight - y) + total - kd * (y - before) / dt
            action = np.minimum(np.maximum(wanted, -limit), limit)
            total = total + np.where(wanted == action, ki * error * dt, 0.0)
            wearing = wearing + (action - drive) ** 2
            before, drive = y, action
            inflow = pipe[k % delay] + (bump * limit if k > steps // 2 else 0.0)
            pipe[k % delay] = action
            x[0] += dt / (lags[0] + dt) * (gain * inflow - x[0])
            for j in range(1, len(lags)):
                x[j] += dt / (lags[j] + dt) * (x[j - 1] - x[j])
            squared = squared + error**2
            top = np.maximum(top, y - 1.0)
        return squared / steps * 3 + over * top**2 * 0.3 + wear * wearing

    space = Space(parameters)
    typical = float(np.median(raw(columns(space, space.spread(rng.random((256, space.dim)))))))
    worst = typical * log_uniform(rng, 0.6, 3.0)

    def formula(values: Columns) -> Array:
        return -worst * np.tanh(raw(values) / worst)

    return Blueprint(space, formula)


def gp_smooth(rng: Generator) -> Blueprint:
    """Draws from a GP with length-scales of 0.3 to 1 of the range."""
    d = int(rng.integers(1, 4))
    nu = np.inf if rng.random() < 0.5 else 2.5
    draw = gp_draw(rng, log_uniform(rng, 0.3, 1.0, d), nu)
    return Blueprint(cube(d), lambda values: draw(stacked(values)))


def one_to_six_hills(rng: Generator) -> Blueprint:
    """One to six hills in one to six dimensions, on a slope."""
    d, count = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    shape, centres = hills(rng, d, count, (0.08, 0.4))
    tilt = rng.normal(0, 0.15, d)

    def formula(values: Columns) -> Array:
        u = stacked(values)
        return shape(u) + u @ tilt

    return Blueprint(cube(d), formula, hints=centres)


def sparse(rng: Generator, d: int, active: int) -> Blueprint:
    """A smooth function of a few parameters among many."""
    names = tuple(f"x{j + 1}" for j in sorted(rng.choice(d, active, replace=False).tolist()))
    if rng.random() < 0.5:
        shape, _ = hills(rng, active, int(rng.integers(1, 4)), (0.2, 0.5))
    else:
        shape = gp_draw(rng, log_uniform(rng, 0.4, 1.2, active), 2.5)
    return Blueprint(cube(d), lambda values: shape(stacked(values, names)), active=names)


def sparse20(rng: Generator) -> Blueprint:
    """Three to five of twenty parameters matter."""
    return sparse(rng, 20, int(rng.integers(3, 6)))


def mixed(rng: Generator) -> Blueprint:
    """Numbers, whole numbers and choices; a choice lifts the hill, and moves it."""
    parameters: dict[str, Float | Int | Categorical] = {}
    for j in range(int(rng.integers(1, 5))):
        if rng.random() < 0.4:
            low = float(log_uniform(rng, 1e-3, 10.0))
            parameters[f"number_{j}"] = Float(low, low * 10 ** rng.uniform(1, 4), log=True)
        else:
            parameters[f"number_{j}"] = Float(0.0, float(log_uniform(rng, 0.1, 100.0)))
    for j in range(int(rng.integers(0, 3))):
        low = int(rng.integers(0, 5))
        parameters[f"count_{j}"] = Int(low, low + int(rng.integers(3, 40)))
    ordered = tuple(parameters)
    levels = rng.integers(2, 7, int(rng.integers(1, 4)))
    for j, k in enumerate(levels):
        parameters[f"choice_{j}"] = Categorical([f"c{i}" for i in range(k)])
    space = Space(parameters)
    width = log_uniform(rng, 0.2, 0.6, len(ordered)) * np.sqrt(len(ordered))
    centre = rng.uniform(0.2, 0.8, len(ordered))
    lifts = [rng.normal(0, log_uniform(rng, 0.05, 0.4), k) for k in levels]
    scales = [rng.uniform(0.4, 1.0, k) for k in levels]
    moves = [rng.normal(0, log_uniform(rng, 0.03, 0.25), (k, len(ordered))) for k in levels]

    def formula(values: Columns) -> Array:
        u = np.stack([_unit(parameters[n], values[n]) for n in ordered], axis=1)
        top, lift, height = np.tile(centre, (len(u), 1)), np.zeros(len(u)), np.ones(len(u))
        for j in range(len(levels)):
            i = values[f"choice_{j}"].astype(int)
            top, lift, height = top + moves[j][i], lift + lifts[j][i], height * scales[j][i]
        top = np.clip(top, 0.05, 0.95)
        return lift + height * np.exp(-0.5 * (((u - top) / width) ** 2).sum(axis=1))

    return Blueprint(space, formula)


def _unit(parameter: Float | Int, value: Array) -> Array:
    low, high = float(parameter.low), float(parameter.high)
    if parameter.log:
        return np.log(value / low) / np.log(high / low)
    return (value - low) / (high - low)
