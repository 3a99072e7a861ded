"""Parameters that are orders, texts, graphs and trees: four examples, each with noisy results.

    python examples/structured_values.py route      # the order in which a van visits its customers
    python examples/structured_values.py peptide    # a peptide that binds to a target
    python examples/structured_values.py cell       # the cell of a small neural network
    python examples/structured_values.py pattern    # a regular expression that tells texts apart

Each prints the best value that it found, and what the search has cost.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import regretless as rl

Objective = Callable[[dict[str, Any]], float]


def route(seed: int) -> tuple[rl.Space, Objective, str]:
    """Minutes on the road, which differ from day to day, for a van that returns to its depot."""
    rng = np.random.default_rng(seed)
    names = [
        "depot",
        "Ahrens",
        "Berg",
        "Conrad",
        "Dahl",
        "Ehlers",
        "Funk",
        "Groth",
        "Hahn",
        "Iwers",
    ]
    places = dict(zip(names, 20.0 * rng.random((len(names), 2)), strict=True))

    def minutes(params: dict[str, Any]) -> float:
        stops = params["order"]
        legs = zip(stops, [*stops[1:], stops[0]], strict=True)
        driven = sum(float(np.linalg.norm(places[a] - places[b])) for a, b in legs)
        return 2.0 * driven + 4.0 * float(rng.standard_normal())

    return rl.Space({"order": rl.Permutation(names)}), minutes, "minimize"


def peptide(seed: int) -> tuple[rl.Space, Objective, str]:
    """How well a peptide of nine residues binds: anchors at two places, and no charge inside."""
    rng = np.random.default_rng(seed)
    anchors, wanted = {1: "LMIV", 8: "VLI"}, rng.choice(list("AFGKSTY"), size=9)

    def binding(params: dict[str, Any]) -> float:
        residues = params["peptide"]
        score = sum(2.0 for place, good in anchors.items() if residues[place] in good)
        score += sum(0.5 for have, want in zip(residues, wanted, strict=True) if have == want)
        score -= 0.7 * sum(residue in "DEKR" for residue in residues[2:8])
        return score + 0.3 * float(rng.standard_normal())

    amino_acids = "ACDEFGHIKLMNPQRSTVWY"
    return rl.Space({"peptide": rl.Sequence(amino_acids, 9)}), binding, "maximize"


def cell(seed: int) -> tuple[rl.Space, Objective, str]:
    """The accuracy of a network of such cells, after a short training; the width is tuned too."""
    rng = np.random.default_rng(seed)

    def accuracy(params: dict[str, Any]) -> float:
        nodes, edges = params["cell"]["nodes"], params["cell"]["edges"]
        depth = [0] + [-9] * (len(nodes) - 1)  # the most convolutions on a way to each node
        for j in range(1, len(nodes)):
            depth[j] = max(
                (depth[i] + ("conv" in nodes[j]) for i, to in edges if to == j), default=-9
            )
        shortcut = [0, len(nodes) - 1] in edges
        reached = min(max(depth[-1], -1), 3)
        score = 0.70 + 0.06 * reached + 0.03 * shortcut - 0.005 * len(edges)
        score -= 0.02 * (np.log2(params["width"]) - 5.0) ** 2
        return float(score) + 0.01 * float(rng.standard_normal())

    operations = ["conv3x3", "conv1x1", "maxpool"]
    graph = rl.Graph(operations, 3, 6, directed=True, ends=("in", "out"), most_edges=9)
    return rl.Space({"cell": graph, "width": rl.Int(8, 128, log=True)}), accuracy, "maximize"


def written(tree: list[Any]) -> str:
    """The regular expression of a tree."""
    label, *branches = tree
    parts = [written(branch) for branch in branches]
    if label == "then":
        return "".join(parts)
    if label == "or":
        return f"(?:{'|'.join(parts)})"
    return f"(?:{parts[0]})+" if label == "more" else label


def pattern(seed: int) -> tuple[rl.Space, Objective, str]:
    """The share of a day's texts that the pattern sorts as people did: letters, then digits."""
    rng = np.random.default_rng(seed)
    letters = list("ab01")

    def sorted_well(params: dict[str, Any]) -> float:
        expression = re.compile(written(params["pattern"]))
        right = 0
        for _ in range(60):
            text = "".join(rng.choice(letters, size=int(rng.integers(1, 6))))
            if rng.random() < 0.5:
                text = "".join(sorted(text, reverse=True))
            wanted = re.fullmatch("[ab]+[01]+", text) is not None
            right += (expression.fullmatch(text) is not None) == wanted
        return right / 60

    labels = {"then": 2, "or": 2, "more": 1, "a": 0, "b": 0, "0": 0, "1": 0}
    return rl.Space({"pattern": rl.Tree(labels, at_most=12)}), sorted_well, "maximize"


EXAMPLES = {"route": route, "peptide": peptide, "cell": cell, "pattern": pattern}


def run(name: str, budget: int = 80, seed: int = 0) -> rl.Best:
    """Tune one of the examples, and print what came out."""
    space, objective, direction = EXAMPLES[name](seed)
    tune = rl.maximize if direction == "maximize" else rl.minimize
    result = tune(objective, space, budget=budget, seed=seed)
    best = result.best
    for key, value in best.params.items():
        print(f"{key}: {written(value) if name == 'pattern' else value}")
    print(
        f"expected {best.mean:.4g} (95 %: {best.low:.4g} to {best.high:.4g}), tried {best.count}x"
    )
    first, last = result.values[: budget // 5].mean(), result.values[-budget // 5 :].mean()
    print(
        f"the first fifth of {budget} evaluations had {first:.4g} on average, the last {last:.4g}"
    )
    return best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*EXAMPLES])
    parser.add_argument("--budget", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    run(options.name, options.budget, options.seed)
