"""The checks that every request must pass before FastAPI sees it.

Without tokens everybody on this machine may do everything.  A page of a foreign site, open in a
browser on this machine, must not.  Two checks refuse its requests:

- The Host header must be an address or `localhost`.  A foreign site whose name was made to point
  to this machine (DNS rebinding) sends its own name.
- A request that changes something must be JSON, and its Origin, if there is one, must be this
  service.  A browser does not send JSON to another site unless that site allows it; this one never
  does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regretless.service.auth import WRITE, Bearer, Tokens, is_address
from regretless.service.problems import HEADERS, Problem
from regretless.service.rate import Rate, network
from regretless.studies import acting_as

MAX_BODY = 2**20  # bytes
BODY_SECONDS = 20.0  # in which the whole body must have arrived
SAFE = ("GET", "HEAD")
# These need no token: they say nothing about any study.
OPEN = ("/", "/docs", "/openapi.json", "/healthz", "/readyz")


class Refused(Exception):
    """The request is refused."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.problem = Problem(status, detail, headers=headers)


class Guard:
    """ASGI middleware that checks every request: host, origin, token, rate, content type and size.

    It adds the security headers to every answer.  What a request writes to the journal has the name
    of its token.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, host: str, rate: Rate) -> None:
        self._app, self._tokens, self._host, self._rate = app, tokens, host.lower(), rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message), scope["path"])
            await send(message)

        try:
            name = self._check(scope)
            if scope["method"] not in SAFE:
                receive = _replay(await _body(receive))
        except Refused as refused:
            await refused.problem(scope, receive, answer)
        else:
            with acting_as(name):
                await self._app(scope, receive, answer)

    def _check(self, scope: Scope) -> str | None:
        """Raise Refused, or return the name of the request's token; None if it has none."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        bearer = None
        if not self._tokens:
            self._check_host(host)
        elif not _is_open(scope["path"]):
            bearer = self._check_token(headers.get("authorization", ""), scope)
        if scope["method"] in SAFE:
            return None
        self._check_rate(bearer.who if bearer else network((scope.get("client") or ("",))[0]))
        if (origin := headers.get("origin")) is not None and _split(origin).netloc != host:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                f"Origin: a page of another site may not send this, got {origin[:100]!r}",
            )
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            kind = headers.get("content-type", "")[:100]
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"Content-Type: need application/json, got {kind!r}",
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > MAX_BODY:
            raise _too_large()
        return bearer.name if bearer else None

    def _check_rate(self, who: str | bytes) -> None:
        if seconds := self._rate.wait(who):
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"more than {self._rate.per_second:g} changes a second",
                {"Retry-After": str(ceil(seconds))},
            )

    def _check_host(self, host: str) -> None:
        name = _split(f"//{host}").hostname or ""
        if not (name in ("localhost", self._host) or is_address(name)):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"Host: without tokens, need localhost or an IP address, got {host[:100]!r}",
            )

    def _check_token(self, authorization: str, scope: Scope) -> Bearer:
        bearer = self._tokens.bearer(authorization)
        if bearer is None:
            what = "unknown" if authorization else "missing"
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                f"the token is {what}: send 'Authorization: Bearer TOKEN'",
                {"WWW-Authenticate": "Bearer"},
            )
        if bearer.right != WRITE and scope["method"] not in SAFE:
            raise Refused(HTTPStatus.FORBIDDEN, "the token is read-only")
        if bearer.study is not None and not _is_of(bearer.study, scope["path"]):
            raise Refused(HTTPStatus.FORBIDDEN, "this link gives access to one study only")
        return bearer


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/static/")


def _is_of(study: str, path: str) -> bool:
    return f"{path}/".startswith(f"/api/studies/{study}/")


def _split(url: str) -> SplitResult:
    """The parts of a URL; empty ones if the text is not a URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _add_headers(headers: MutableHeaders, path: str) -> None:
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    # Answers with study data must not be cached.  Static files must be revalidated.
    headers.setdefault("Cache-Control", "no-store" if path.startswith("/api/") else "no-cache")


def _too_large() -> Refused:
    detail = f"the body has more than {MAX_BODY} bytes"
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, {"Connection": "close"})


async def _body(receive: Receive) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(HTTPStatus.BAD_REQUEST, "the client closed the connection")
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                if size > MAX_BODY:
                    raise _too_large()
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        detail = f"the body took longer than {BODY_SECONDS:g} s"
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, detail, {"Connection": "close"}) from None


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
