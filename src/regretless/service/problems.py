"""Errors as answers of the service: problem JSON (RFC 9457), with the error's own status."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from regretless.errors import RegretlessError

MAX_DETAIL = 1000  # characters; a message may repeat what it complains about
RETRY_SECONDS = 1
BUG = "a bug of the service; its log has more"

# What somebody sees who follows a wrong address in a browser.
NOT_FOUND = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>404</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/style.css"></head><body><main>
<h1>404: there is no such page</h1>
<p>See <a href="/">all studies</a>, or the <a href="/docs">HTTP interface</a>.</p>
</main></body></html>
"""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Json(JSONResponse):
    """JSON without NaN, in ASCII, because a name may contain lone surrogates."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class Problem(Json):
    """An answer that says what went wrong; `error` is the name of an exception of regretless."""

    media_type = "application/problem+json"

    def __init__(
        self, status: int, detail: str, error: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
        more = {"detail": _clipped(detail)} | ({"error": error} if error else {})
        # The answer to a bug is made outside of `Guard`, which adds these headers to all others.
        super().__init__(body | more, status, HEADERS | dict(headers or {}))


def install(app: FastAPI) -> None:
    """Answer every error with a problem."""
    app.add_exception_handler(RegretlessError, answer)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


async def answer(request: Request, error: Exception) -> Response:
    """The answer to a `RegretlessError`; a client may try again soon if the status is 503."""
    assert isinstance(error, RegretlessError)
    status = error.http_status
    headers = (
        {"Retry-After": str(RETRY_SECONDS)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    )
    return Problem(status, str(error), type(error).__name__, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    malformed = any(fault["type"] == "json_invalid" for fault in faults)
    status = HTTPStatus.BAD_REQUEST if malformed else HTTPStatus.UNPROCESSABLE_ENTITY
    return Problem(status, "; ".join(_fault(fault) for fault in faults[:5]))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    for_people = "text/html" in request.headers.get("accept", "")
    if error.status_code == HTTPStatus.NOT_FOUND and for_people:
        return HTMLResponse(NOT_FOUND, HTTPStatus.NOT_FOUND, HEADERS)
    return Problem(error.status_code, str(error.detail), headers=error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    """The traceback goes to the log, not to the client."""
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, BUG)


def _fault(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "json_invalid":
        return f"not JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}"
    if fault["type"] == "missing":
        return f"{_place(fault['loc'])}: missing"
    return f"{_place(fault['loc'])}: {fault['msg']}, got {_shown(fault['input'])}"


def _place(loc: Sequence[object]) -> str:
    return ".".join(map(str, loc[1:] or loc))


def _shown(value: object) -> str:
    """The value as text.  Objects and lists only by size: repr fails on very deep ones."""
    if isinstance(value, Mapping | list):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    return _clipped(repr(value), 80)


def _clipped(text: str, most: int = MAX_DETAIL) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
