"""The library's policies by name."""

from __future__ import annotations

from typing import Any

from regretless._internal.shown import shown
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


def stored_policy(policy: Policy) -> dict[str, Any]:
    """The JSON of a policy, by which it can be made again.

    Raises:
        ConfigError: the class has the name of one of the library's, which would be made instead.

    Example:
        >>> stored_policy(make_policy("random"))["name"]
        'random'
    """
    kind = type(policy)
    if POLICIES.get(policy.name, kind) is not kind:
        raise ConfigError(
            f"policy: {policy.name!r} is the name of {POLICIES[policy.name].__name__} here:"
            f" give {kind.__name__} a name of its own"
        )
    return policy.to_json()


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
        raise ConfigError(f"policy: need one of {', '.join(POLICIES)}, got {shown(name)}")
    try:
        return POLICIES[name](**options)
    except TypeError as error:
        raise ConfigError(f"policy {name}: {error}") from None
