"""What the arguments of the command line mean."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regretless.errors import ConfigError


def names(text: str) -> tuple[str, ...]:
    """The names in a text such as "a, b,c"."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def from_json(what: str, text: str) -> Any:
    """The value of a JSON text, or of the file that "@FILE" names.

    Args:
        what: the name of the argument, for errors.
        text: the argument.

    Raises:
        ConfigError: the file cannot be read, or the text is not JSON.
    """
    try:
        return json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except OSError as error:
        raise ConfigError(f"{what}: can't read {text[1:]}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what}: not JSON ({error}): {text!r:.200}") from None


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
