"""An extension of griffe, which reads the docstrings: our heading "Example:" is its "Examples:"."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Without it an example is read as text, and `>>>` as a quotation."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub("Examples:", obj.docstring.value)
