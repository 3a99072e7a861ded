"""What the arguments of the command line mean."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from regretless.errors import ConfigError, MissingExtraError


def names(text: str) -> tuple[str, ...]:
    """The names in a text such as "a, b,c"."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def from_json(what: str, text: str) -> Any:
    """The value of a JSON text, or of the file that "@FILE" names: JSON, TOML or YAML.

    Args:
        what: the name of the argument, for errors.
        text: the argument.

    Raises:
        ConfigError: the file cannot be read, or the text is not JSON, TOML or YAML.
        MissingExtraError: the file is YAML, and PyYAML is not installed.
    """
    suffix = Path(text[1:]).suffix.lower() if text.startswith("@") else ""
    form, load = _FORMS.get(suffix, ("JSON", json.loads))
    try:
        return load(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise ConfigError(f"{what}: can't read {text[1:]}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what}: not {form} ({error}): {text!r:.200}") from None


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("cli", "yaml") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


_FORMS: dict[str, tuple[str, Callable[[str], Any]]] = {
    ".toml": ("TOML", tomllib.loads),
    ".yaml": ("YAML", _yaml),
    ".yml": ("YAML", _yaml),
}


def listed_parameters(space: Any) -> Any:
    """A space in the form of `Space.to_json`.

    For a person it is easier to write {"x": {"type": "float", …}} than a list under "parameters".
    """
    if not isinstance(space, Mapping) or "parameters" in space:
        return space
    if not all(isinstance(entry, Mapping) for entry in space.values()):
        return space
    return {"parameters": [{"name": name, **entry} for name, entry in space.items()]}


def pair(what: str, text: str) -> tuple[float, float | None]:
    """The value and the standard error in a text such as "240" or "240,3".

    Args:
        what: the name of the argument, for errors.
        text: the argument.

    Raises:
        ConfigError: the text is not a number or two numbers.
    """
    try:
        value, *error = map(float, text.split(","))
        if len(error) > 1:
            raise ValueError
    except ValueError:
        raise ConfigError(f"{what}: need VALUE or VALUE,SEM, got {text!r:.200}") from None
    return value, error[0] if error else None


def pairs(what: str, texts: Iterable[str] | None) -> dict[str, tuple[float, float | None]] | None:
    """The numbers in texts such as "p99_ms=240" or "p99_ms=240,3", by name; None for None.

    Raises:
        ConfigError: a text is of another form, or a name occurs twice.
    """
    found: dict[str, tuple[float, float | None]] = {}
    for text in texts or ():
        name, equals, numbers = text.rpartition("=")
        if not (equals and name):
            raise ConfigError(f"{what}: need NAME=VALUE or NAME=VALUE,SEM, got {text!r:.200}")
        if name in found:
            raise ConfigError(f"{what}: {name} was given twice")
        found[name] = pair(f"{what} {name}", numbers)
    return found or None


def drift_of(text: str | None) -> str | dict[str, float] | None:
    """The setting `drift`: "auto", or the half-life of results.

    Raises:
        ConfigError: it is neither.
    """
    if text is None or text == "auto":
        return text
    try:
        return {"half_life": float(text)}
    except ValueError:
        raise ConfigError(f"drift: need auto or a number of results, got {text!r}") from None
