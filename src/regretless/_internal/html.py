"""Small pieces of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def short(value: object) -> str:
    """A value as text, with four digits if it is a float."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def paragraph(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def table(rows: Mapping[str, object], title: str = "") -> str:
    """A table with a name and a value in each row."""
    head = f"<caption><b>{escape(title)}</b></caption>" if title else ""
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(short(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table>{head}{body}</table>"


def grid(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a header."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(short(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
