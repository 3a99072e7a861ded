"""What the arguments of the command line mean."""

from __future__ import annotations

import json
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
