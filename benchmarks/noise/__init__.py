"""What a model of noise that differs from place to place saves, and what it costs where it doesn't.

A family is a way in which the sd of the noise depends on the point; every seed draws a new
instance. The functions are those of benchmarks/families that may be used to choose a default,
except the two that are slow or have twenty parameters. Budgets and the size of the noise were
raised once after a first look, because the noise hardly mattered before:

- place: log sd is a smooth function of the point, drawn at random, and unrelated to f;
- level: the sd grows with f, in proportion, as revenue does; the best points scatter most;
- quiet: the sd falls with f, in proportion, as latency does; the worst points scatter most;
- constant: the sd is the same everywhere.

In the first three, the largest sd over the space is 10 times the smallest. The mean of the sd over
the space is 0.3 to 2 times the spread of f (log-uniform), so that noise matters, and the budget is
50 to 200.
"""
