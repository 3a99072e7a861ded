"""Values of users in messages: short, and without an error of their own."""

from __future__ import annotations

import reprlib
from itertools import islice
from typing import Any

LONGEST = 200  # characters of one value
_PLAIN = (str, int, float, complex, bool, bytes, type(None), tuple, list, dict, set, frozenset)


class _Short(reprlib.Repr):
    """`repr` with limits; an object whose `repr` fails is named by its type."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxstring = self.maxother = self.maxlong = LONGEST
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = 20

    def repr1(self, x: Any, level: int) -> str:
        # By the type itself: reprlib goes by its name, which any class may have.
        return super().repr1(x, level) if type(x) in _PLAIN else self.repr_instance(x, level)

    def repr_int(self, x: int, level: int) -> str:
        digits = x.bit_length()  # Python refuses to write out what has more than 4,300 digits
        return repr(x) if digits < 400 else f"a number of {digits} binary digits"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """In the order of the dict; reprlib would sort it."""
        if not x or level <= 0:
            return "{…}" if x else "{}"
        first = islice(x.items(), self.maxdict)
        parts = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in first]
        more = [f"… {len(x) - self.maxdict} more"] if len(x) > self.maxdict else []
        return "{" + ", ".join(parts + more) + "}"


_SHORT = _Short()


def shown(value: object) -> str:
    """The value as `repr` shows it, in at most about 200 characters.

    Example:
        >>> shown({"x": 0.5})
        "{'x': 0.5}"
        >>> shown(10**5000)
        'a number of 16610 binary digits'
        >>> len(shown("x" * 1_000_000)) <= 201
        True
    """
    text = _SHORT.repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
