"""The theory of section 4 as functions: information gain, confidence widths, regret bounds, rates.

Everything holds for a GP with zero mean, a kernel with k(x, x) = 1 and k >= 0, and a noise ratio
lam^2, which is 1 + 2/N in Theorem 1.  The symbols are those of the paper:

- B bounds the norm of f in the kernel's RKHS (A2);
- R is the scale of the noise, which is R-sub-Gaussian: E exp(t eps) <= exp(t^2 R^2 / 2) (A3);
- delta is the probability with which a statement may fail;
- gamma_n is the largest information that n points can have, and I_n that of the points visited;
- omega_n = c sqrt(gamma_n + 1 + log(1/delta)).

I_n may replace gamma_n everywhere.  The proof of Lemma 1 uses I_n (Chowdhury & Gopalan 2017,
Theorem 2), and Lemma 5 is an inequality for I_n.  The rest of the proof needs only that gamma_n
grows with n, and so does I_n.  I_n is at most gamma_n and is known at run time.  So the policies
use it, and `run_bound` is the bound that follows.
"""

from regretless.theory.bounds import (
    improvement_constant,
    regret_bound,
    run_bound,
    variance_constant,
)
from regretless.theory.confidence import beta_n, noise_ratio, omega_n, omega_scale
from regretless.theory.information import (
    GREEDY,
    greedy_information_gain,
    information_bound,
    information_path,
    information_upper,
    mutual_information,
    sequential_sd,
)
from regretless.theory.rates import Rate, information_rate, lower_rate, regret_rate

__all__ = [
    "GREEDY",
    "Rate",
    "beta_n",
    "greedy_information_gain",
    "improvement_constant",
    "information_bound",
    "information_path",
    "information_rate",
    "information_upper",
    "lower_rate",
    "mutual_information",
    "noise_ratio",
    "omega_n",
    "omega_scale",
    "regret_bound",
    "regret_rate",
    "run_bound",
    "sequential_sd",
    "variance_constant",
]
