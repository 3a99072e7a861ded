"""Structured parameters against random local search and a genetic algorithm.

    python -m benchmarks.structured --seeds 0:10     # resumable
    python -m benchmarks.structured --report         # the page, from the records

Every seed draws a new instance of each task.  Noise is a fifth of the *spread*, the standard
deviation of f over values drawn at random.  Regret is counted in spreads.  All tools have the same
budget and meet the same noise.  `tasks` has the problems, `rivals` the other two tools.
"""
