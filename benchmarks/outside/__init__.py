"""Problems that nobody of this project wrote: simoptlib's simulations and COCO's functions.

    python -m benchmarks.outside --tools regretless@1 optuna-tpe random --seeds 0:5   # resumable
    python -m benchmarks.families --report                                 # the page, from records

Both packages are needed, in an environment of their own, as simoptlib 1.2.4 needs numpy < 2.4:
`make bench-outside` sets it up. The rules, written before any run:

- **simopt**: every problem of simoptlib 1.2.4 whose constraint type is BOX, with its default
  factors: twelve of them. f is the mean of R replications, each with random streams of its own (R
  is in `simulations.py`: 10 for the slowest, 1000 for the fastest). An observation is the mean of
  r of them, drawn anew each time, so that f is exact and the noise is the simulation's. r is the
  smallest of 1, 2, 4, ..., 64 for which the standard deviation of the noise is at most the spread
  of f. A seed draws other noise. f* is the best value that a search finds (`--facts`, kept in
  `facts.json`); a run that finds a better point has a negative regret there.
- A box that is not bounded ends at the 5 % and 95 % quantiles of 2000 of the problem's own random
  solutions. It has a logarithmic scale if these are a factor of 10 apart or more and the median is
  nearer to their geometric middle than to their arithmetic one.
- **bbob**: the 24 functions of the suite. Seed s takes instance s + 1 in 2, 3 or 5 dimensions, in
  turn. Normal noise is added; its standard deviation is log-uniform in 0.05 to 1 of the spread.
  f and f* are exact.
- **bbob-noisy**: the 30 functions of the suite, the same instances and dimensions, its own noise.
  f is the value without noise, which is exact: see `coco.py`. (The mean of an observation rises
  with it; Cauchy's noise has no mean, but does not depend on the point.)
- **bbob-mixint**: the first function of each of the suite's five groups (f1, f6, f10, f15, f20)
  in 5 dimensions, with added noise as above. f* is found by listing the whole numbers.
- The budget N is log-uniform in 50 to 100, a whole number. Regret is counted in spreads. Seeds
  are 0 to 19, from 0 on; how many were run is on the page. No problem is left out.

Nothing may be chosen by these problems.
"""
