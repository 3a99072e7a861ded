"""Policies (acquisition functions): rules that choose the next point to try."""

from regretless.policies.base import (
    Ceiling,
    Change,
    Incumbent,
    Policy,
    PolicyInput,
    incumbent_value,
)
from regretless.policies.ei import AEI, EI, EIC, EINguyen
from regretless.policies.ids import IDS
from regretless.policies.limits import Limit, MostLikely, Unknown, log_cdf
from regretless.policies.scores import (
    FEASIBLE,
    STEEP,
    Candidates,
    ChangePays,
    Constraint,
    Gate,
    PathScore,
    PosteriorScore,
    Predicted,
    Rows,
    Score,
    upper_score,
)
from regretless.policies.simple import ExploreThenCommit, Random
from regretless.policies.table import POLICIES, make_policy, stored_policy
from regretless.policies.thompson import GPTS
from regretless.policies.ucb import GPUCB

__all__ = [
    "AEI",
    "EI",
    "EIC",
    "FEASIBLE",
    "GPTS",
    "GPUCB",
    "IDS",
    "POLICIES",
    "STEEP",
    "Candidates",
    "Ceiling",
    "Change",
    "ChangePays",
    "Constraint",
    "EINguyen",
    "ExploreThenCommit",
    "Gate",
    "Incumbent",
    "Limit",
    "MostLikely",
    "PathScore",
    "Policy",
    "PolicyInput",
    "PosteriorScore",
    "Predicted",
    "Random",
    "Rows",
    "Score",
    "Unknown",
    "incumbent_value",
    "log_cdf",
    "make_policy",
    "stored_policy",
    "upper_score",
]
