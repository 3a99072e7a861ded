"""The library's policies by name."""

from __future__ import annotations

from typing import Any

from regretless.errors import ConfigError
from regretless.policies.base import Policy
from regretless.policies.ei import AEI, EI, EIC, EINguyen
from regretless.policies.ids import IDS
from regretless.policies.simple import ExploreThenCommit, Random
from regretless.policies.thompson import GPTS
from regretless.policies.ucb import GPUCB

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (EIC, EI, AEI, EINguyen, IDS, GPUCB, GPTS, Random, ExploreThenCommit)
}


def make_policy(policy: str | Policy | dict[str, Any]) -> Policy:
    """A policy from its name or its JSON.

    Args:
        policy: a name such as "ids", a dict that `Policy.to_json` returned, or a policy.

    Returns:
        The policy; a policy that is given is returned unchanged.

    Raises:
        ConfigError: no policy has this name, or a setting is unknown or out of range.

    Example:
        >>> make_policy({"name": "gp-ucb", "beta": 4.0}).beta
        4.0
    """
    if isinstance(policy, Policy):
        return policy
    options = dict(policy) if isinstance(policy, dict) else {"name": policy}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in POLICIES:
        raise ConfigError(f"policy: need one of {', '.join(POLICIES)}, got {name!r}")
    try:
        return POLICIES[name](**options)
    except TypeError as error:
        raise ConfigError(f"policy {name}: {error}") from None
