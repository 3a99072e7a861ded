"""Ax proposes, EIC decides: every trial counts, so a trial that isn't worth its cost isn't run.

pip install '.[botorch]' ax-platform  # in a checkout
"""

import logging
import warnings

import numpy as np
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.generation_strategy.generation_node import GenerationStep
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.logger import set_stderr_log_level

from regretless.integrations.botorch import LogExpectedImprovementCost

BUDGET = 16

set_stderr_log_level(logging.ERROR)


def served(params: dict[str, float], rng: np.random.Generator) -> float:
    """A noisy system, at its best at (0.3, 0.7)."""
    loss = (params["x"] - 0.3) ** 2 + (params["y"] - 0.7) ** 2
    return float(-loss + 0.02 * rng.standard_normal())


strategy = GenerationStrategy(
    name="EIC",
    nodes=[
        GenerationStep(generator=Generators.SOBOL, num_trials=6),
        GenerationStep(
            generator=Generators.BOTORCH_MODULAR,
            num_trials=-1,
            generator_kwargs={
                "botorch_acqf_class": LogExpectedImprovementCost,
                "botorch_acqf_options": {"budget": BUDGET},
            },
            # EIC tries the same arm again where nothing else is worth its cost: let it.
            should_deduplicate=False,
        ),
    ],
)

client = Client(random_seed=1)
client.configure_experiment(
    name="live",
    parameters=[
        RangeParameterConfig(name=name, bounds=(0.0, 1.0), parameter_type="float")
        for name in ("x", "y")
    ],
)
client.configure_optimization(objective="served")
client.set_generation_strategy(strategy)

rng = np.random.default_rng(1)
lost = 0.0
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ax and BoTorch have much to say
    for _ in range(BUDGET):
        for index, params in client.get_next_trials(max_trials=1).items():
            client.complete_trial(trial_index=index, raw_data={"served": served(params, rng)})
            lost += (params["x"] - 0.3) ** 2 + (params["y"] - 0.7) ** 2
    best, *_ = client.get_best_parameterization(use_model_predictions=True)
print(f"best arm {best}, lost on the way {lost:.3f}")
