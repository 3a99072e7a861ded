"""Does the loss budget hold, and what does it cost?

    python -m benchmarks.harm --part right            # functions drawn from the model's own prior
    python -m benchmarks.harm --part wrong            # families of problems, other noise
    python -m benchmarks.harm --part cost             # regret, against summed confidence bounds
    python -m benchmarks.harm --part speed            # a step against a plain step
    python -m benchmarks.harm --report                # docs/results/harm.md, from the records

Runs that have a record are skipped.  `problems` makes the problems, `rivals` has the method of
summed bounds, `runs` makes records, and `report` reads them.
"""
