"""Compare the settings that a study is opened with to those that it was created with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regretless._internal.shown import shown
from regretless._internal.validate import without_numpy
from regretless.engine import Created, Optimizer
from regretless.errors import ConfigError
from regretless.policies import POLICIES, Policy


def through_json(value: Any) -> Any:
    """The value after it was written as JSON and read again."""
    return json.loads(json.dumps(value, allow_nan=False, default=without_numpy))


def policy_of_ones_own(study: str, created: Created, given: object) -> Policy | None:
    """The given policy, if the study was created with a policy class of the user's own.

    Raises:
        ConfigError: such a policy is needed, and none was given.
    """
    stored = created.settings["policy"]
    if not isinstance(stored, Mapping) or stored.get("name") in POLICIES:
        return None
    if not isinstance(given, Policy):
        raise ConfigError(
            f"study {shown(study)} was created with a policy of your own,"
            f" {shown(stored.get('name'))}: give an instance of it as `policy`"
        )
    return given


def differences(created: Created, optimizer: Optimizer, given: Mapping[str, Any]) -> list[str]:
    """A sentence for each given setting that differs from the stored one."""
    if not given:
        return []
    # The optimiser has all settings, but an older release may have stored fewer.
    there = through_json(optimizer.spec())
    stored = created.settings
    if stored["policy"]["name"] not in POLICIES:
        there["policy"] = stored["policy"]
    # A setting may need another one that was not given again, as a loss budget needs a baseline.
    settings = {"space": optimizer.space, **vars(optimizer.safety)}
    settings |= {"budget": optimizer.budget, "horizon": optimizer.horizon}
    settings |= {"contexts": optimizer.contexts}
    settings |= given
    here = through_json(Optimizer(**settings).spec())
    if "tail" not in stored["model"]:  # stored before this setting existed
        here["model"]["tail"] = there["model"]["tail"]
    if "noise" in given:  # it is a setting of the model
        here["noise"], there["noise"] = (
            each["model"].get("noise", "constant") for each in (here, there)
        )
    out = []
    for key in (key for key in given if not alike(here.get(key), there.get(key))):
        if key == "space" and alike(here[key], through_json(optimizer.space.to_json())):
            continue  # the space as it is after its changes
        if key == "space":
            out += _space_differences(there[key], here[key])
        elif key == "baseline":
            continue
        elif key not in ("budget", "horizon"):
            out.append(f"{key}: {shown(there.get(key))} there, {shown(here.get(key))} here")
        elif here[key] != (now := getattr(optimizer, key)):
            out.append(f"{key}: {now} there, {here[key]} here (see extend)")
    return out + _baseline_difference(optimizer, here.get("baseline"), given)


def _baseline_difference(optimizer: Optimizer, here: object, given: Mapping[str, Any]) -> list[str]:
    """A sentence if the given baseline differs from the present one."""
    there = through_json(optimizer.baseline)
    if "baseline" not in given or alike(here, there):
        return []
    if optimizer.space is not optimizer._first_space and isinstance(here, dict) and there:
        # The space has changed since, and the baseline with it: parameters came or went.
        both = here.keys() & there.keys()
        if both and all(alike(here[name], there[name]) for name in both):
            return []
    return [f"baseline: {shown(there)} there, {shown(here)} here (see set_baseline)"]


def alike(here: object, there: object) -> bool:
    """Equality that tells True from 1, because a Categorical may have both."""
    return here == there and _kinds(here) == _kinds(there)


def _kinds(value: object) -> object:
    """The value with True for each bool in it and False for everything else."""
    if isinstance(value, dict):
        return {key: _kinds(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_kinds(each) for each in value]
    return isinstance(value, bool)


def _space_differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    old, new = ({p["name"]: p for p in space["parameters"]} for space in (there, here))
    out = [f"space: {shown(name)} only there" for name in old if name not in new]
    out += [f"space: {shown(name)} only here" for name in new if name not in old]
    for name in (name for name in old if name in new):
        fields = sorted(
            k for k in old[name] | new[name] if not alike(old[name].get(k), new[name].get(k))
        )
        out += [
            f"space: {name}: {k} {shown(old[name].get(k))} there, {shown(new[name].get(k))} here"
            for k in fields
        ]
    limits = there.get("where", []), here.get("where", [])
    if not alike(*limits):
        out.append(f"space: where {shown(limits[0])} there, {shown(limits[1])} here")
    return out or [f"space: the order is {', '.join(old)} there, {', '.join(new)} here"]
