"""Find the best price for each hour and kind of customer, while the shop sells.

    python examples/prices.py [--trials 300] [--picture prices.png]

The shop can choose the price. It can't choose the hour or who comes: these are contexts. New
customers accept less than regular ones, and everybody pays more in the evening. One trial is one
hour of sales at one price to one kind of customer. It needs the extra `plot`.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import regretless as rl

SPACE = rl.Space({"price": rl.Float(5.0, 30.0)})
CONTEXTS = {"hour": rl.Cyclic(0, 24), "customer": rl.Categorical(["new", "regular"])}
KINDS = {"new": "#D55E00", "regular": "#0072B2"}


def accepted(hour: float, customer: str) -> float:
    """The price at which half of the customers buy; nobody gets to see it."""
    evening = np.cos(2 * np.pi * (hour - 20.0) / 24.0)
    return (14.0 if customer == "new" else 20.0) + 3.0 * evening


def profit(price: float, hour: float, customer: str) -> float:
    """The mean profit of an hour: fewer buy if the price is high."""
    share = 1.0 / (1.0 + np.exp((price - accepted(hour, customer)) / 1.5))
    return 10.0 * share * (price - 4.0)


def ideal(hour: float, customer: str) -> float:
    prices = np.linspace(5.0, 30.0, 501)
    return float(prices[np.argmax([profit(p, hour, customer) for p in prices])])


def run(trials: int, seed: int) -> tuple[rl.Optimizer, float]:
    rng = np.random.default_rng(seed)
    optimizer = rl.Optimizer(SPACE, trials, seed=seed, contexts=CONTEXTS)
    lost = 0.0
    for _ in range(trials):
        now = {"hour": float(rng.uniform(0, 24)), "customer": str(rng.choice(list(KINDS)))}
        trial = optimizer.ask(context=now)
        price = float(trial.params["price"])
        optimizer.tell(trial, profit(price, **now) + 4.0 * rng.standard_normal())
        lost += profit(ideal(**now), **now) - profit(price, **now)
    return optimizer, lost


def draw(optimizer: rl.Optimizer, path: str) -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.add_subplot()
    hours = np.linspace(0.0, 24.0, 49)
    for customer, colour in KINDS.items():
        ax.plot(hours, [ideal(h, customer) for h in hours], "--", color=colour, lw=1)
        at = [{"hour": float(h) % 24.0, "customer": customer} for h in hours]
        found = [optimizer.best(context=context).params["price"] for context in at]
        ax.plot(hours, found, color=colour, drawstyle="steps-mid", label=customer)
    ax.plot([], [], "--", color="black", lw=1, label="the best price, which nobody knows")
    ax.set(xlabel="hour", ylabel="price", title="Best price for each hour and kind of customer")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Prices that depend on the hour and the customer.")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="prices.png")
    options = parser.parse_args()
    optimizer, lost = run(options.trials, options.seed)
    print(f"lost {lost / options.trials:.1f} a trial against the best price of each hour")
    for customer in KINDS:
        for hour in (8.0, 20.0):
            best = optimizer.best(context={"hour": hour, "customer": customer})
            print(f"{customer} customers at {hour:.0f} h: {best.params['price']:.2f}", end="; ")
            print(f"best is {ideal(hour, customer):.2f}")
    draw(optimizer, options.picture)


if __name__ == "__main__":
    main()
