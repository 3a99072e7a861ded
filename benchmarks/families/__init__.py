"""Families of live-like problems: every seed draws a new instance.

    python -m benchmarks.families --tools optuna-tpe random --seeds 0:20   # resumable
    python -m benchmarks.families --report                                 # the page, from records

A family is a distribution over problems. Shape, dimension, noise and budget of an instance are
drawn from `default_rng([number of the family, seed])`. The rules, written before any run:

- The standard deviation of the noise is log-uniform in 0.05 to 1 of the *spread*. The spread is the
  standard deviation of f over points that are uniform in the space. `learner` has natural noise.
- The budget N is log-uniform in 30 to 200, a whole number; on sparse50 in 100 to 200.
- Regret is counted in spreads, so that instances can be compared.
- The families `CHOOSE` may be used to choose a default: queue, price, control, learner, gp-smooth,
  hills, sparse20, mixed.
- The families `KEEP` are for the end: inventory, bids, yields, gp-rough, database, latency, ridge,
  sparse50, many-hills. Nothing may be chosen by them. Our own tool runs on them once, when its
  default is finished. The peers may run at any time, as nothing of them is changed afterwards.
- Seeds 0 to 19 of `KEEP` met the first candidate for version 3, which failed. The next one is
  confirmed by seeds 20 to 39; docs/results/default.md has the conditions.

`choose` and `keep` hold the generators, `table` names them all, `search` finds the best value of an
instance, `runs` makes records, `report` reads them.
"""
