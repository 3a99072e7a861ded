"""The API on one plain page, from its own description: nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any


def page(description: dict[str, Any]) -> str:
    """The page as HTML, from what `FastAPI.openapi()` returns."""
    title = escape(description["info"]["title"])
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="static/icon.svg" type="image/svg+xml">',
            '<link rel="stylesheet" href="static/style.css"></head><body class="reference">',
            '<header class="top"><nav aria-label="Site"><a class="brand" href="./">regretless</a>',
            '<a href="./">Studies</a></nav></header><main>',
            f"<h1>The HTTP interface of {title}</h1>",
            '<p>For programs, the same as OpenAPI: <a href="openapi.json">openapi.json</a>.',
            "Every error is problem JSON: status, title, detail, and the name of the error.</p>",
            *_operations(description["paths"]),
            "<h2>Shapes</h2>",
            *_shapes(description["components"]["schemas"]),
            "</main></body></html>",
        ]
    )


def _operations(paths: dict[str, Any]) -> Iterator[str]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('description', ''))}</p>"
            yield from _table(_inputs(operation))


def _inputs(operation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for parameter in operation.get("parameters", []):
        about = parameter.get("description", "")
        yield parameter["name"], f"{parameter['in']}: {_type(parameter['schema'])}", about
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield "body", _type(content["schema"]), ""
    for status, response in operation["responses"].items():
        for content in response.get("content", {}).values():
            if status != "default":  # the errors are alike everywhere
                yield f"answer {status}", _type(content.get("schema", {})), ""


def _shapes(schemas: dict[str, Any]) -> Iterator[str]:
    for name, shape in schemas.items():
        yield f'<h3 id="{escape(name)}"><code>{escape(name)}</code></h3>'
        yield f"<p>{escape(shape.get('description', ''))}</p>"
        needed = shape.get("required", [])
        fields = shape.get("properties", {}).items()
        yield from _table(
            (f, _type(of) + ("" if f in needed else ", optional"), of.get("description", ""))
            for f, of in fields
        )


def _table(rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    """A table with rows of a name, a type (already HTML) and a remark."""
    lines = [
        f"<td>{escape(name)}</td><td>{kind}</td><td>{escape(about)}</td>"
        for name, kind, about in rows
    ]
    if lines:
        yield "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _type(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words, as HTML."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if alternatives := schema.get("anyOf"):
        return " or ".join(_type(each) for each in alternatives)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return escape(" or ".join(map(repr, schema["enum"])))
    return escape(str(schema.get("type", "anything")))
