"""Policies: what to try next."""

from regretless.policies.base import Policy, PolicyInput, incumbent
from regretless.policies.ei import AEI, EI, EIC, EINguyen
from regretless.policies.ids import IDS
from regretless.policies.scores import (
    FEASIBLE,
    STEEP,
    Candidates,
    PathScore,
    PosteriorScore,
    Score,
    upper_score,
)
from regretless.policies.simple import ExploreThenCommit, Random
from regretless.policies.table import POLICIES, make_policy
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
    "EINguyen",
    "ExploreThenCommit",
    "PathScore",
    "Policy",
    "PolicyInput",
    "PosteriorScore",
    "Random",
    "Score",
    "incumbent",
    "make_policy",
    "upper_score",
]
