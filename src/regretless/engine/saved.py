"""The JSON document of an optimiser, which has a version: its settings and its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from regretless._internal.shown import shown
from regretless._internal.validate import without_numpy
from regretless.engine.events import Created, Event, read, write
from regretless.errors import ConfigError, StorageError
from regretless.horizon import Horizon
from regretless.model import Model
from regretless.policies import Policy, make_policy
from regretless.safety import SETTINGS as SAFETY
from regretless.space import Contexts, Space

VERSION = 2
_AS_THEY_ARE = (
    "seed",
    "direction",
    "design",
    "n0",
    "defaults",
    "optimum",
    "bound",
    *SAFETY,
    "drift",
    "metric",
    "unit",
)


def dump(created: Created, events: Iterable[Event]) -> str:
    """The document of these events."""
    written = [write(event)._asdict() for event in (created, *events)]
    document = {"version": VERSION, "events": written}
    return json.dumps(document, allow_nan=False, default=without_numpy)


def load(text: str) -> tuple[Created, list[Event]]:
    """The events of a document of this version or an older one.

    Raises:
        StorageError: the text is not such a document.
    """
    try:
        data = json.loads(text)
        version, events = data.get("version"), data["events"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(f"not the JSON of an Optimizer: {error}") from None
    if not (isinstance(events, list) and all(isinstance(event, dict) for event in events)):
        raise StorageError(f"not the JSON of an Optimizer: events are {shown(events)}")
    if version not in (1, VERSION):
        raise StorageError(f"version: need 1 or {VERSION}, got {shown(version)}")
    first, *others = _version_1(data) if version == 1 else map(_read, events or [{}])
    if not isinstance(first, Created):
        raise StorageError("not the JSON of an Optimizer: its first event is not 'created'")
    return first, others


def arguments(
    settings: Mapping[str, Any], policy: Policy | None, space: Space | None = None
) -> dict[str, Any]:
    """The arguments of `Optimizer` for the settings of this release or an older one.

    `policy` is the instance, if the settings are those of a policy class of the user's own.
    `space` is the space itself, if some of its limits are functions.
    """
    created = read("created", settings.get("version", 0), settings)
    assert isinstance(created, Created)
    known = {name: value for name, value in created.settings.items() if name in _AS_THEY_ARE}
    if "contexts" in created.settings:
        known["contexts"] = Contexts.from_json(created.settings["contexts"]).parameters
    horizon = Horizon.from_json(created.settings)
    return known | {
        "budget": horizon.budget,
        "horizon": horizon.ahead,
        "space": _space(created.settings["space"], space),
        "policy": policy or make_policy(created.settings["policy"]),
        "model": Model.from_json(created.settings["model"]),
    }


def _space(stored: Mapping[str, Any], given: Space | None) -> Space:
    """The stored space; the given one, if it is needed for limits that are functions.

    Raises:
        ConfigError: it is needed and was not given, or is another one.
    """
    where = stored.get("where") or []
    functions = [each["function"] for each in where if isinstance(each, Mapping)]
    if not functions:
        return Space.from_json(stored)
    names = ", ".join(map(shown, functions))
    if given is None:
        raise ConfigError(f"space: it has limits that are functions, {names}: give the same space")
    if given.to_json() != json.loads(json.dumps(stored)):
        raise ConfigError(f"space: need the one that was stored, with its limits {names}")
    return given


def _read(stored: Mapping[str, Any]) -> Event:
    return read(stored.get("kind", ""), stored.get("version", 0), stored.get("body"))


def _version_1(data: Mapping[str, Any]) -> list[Event]:
    """The events of a document of version 1.

    It has the settings at the top level, and events of version 1 with their kind as a field.
    """
    settings = {name: value for name, value in data.items() if name != "events"}
    events = []
    for stored in data["events"]:
        body = {name: value for name, value in stored.items() if name != "kind"}
        events.append(read(stored.get("kind", ""), 1, body))
    return [read("created", 1, settings), *events]
