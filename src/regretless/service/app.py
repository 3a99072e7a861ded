"""The service as an ASGI application, and `regretless serve`."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import regretless
from regretless._internal.blas import blas_libraries
from regretless._internal.shown import shown
from regretless._internal.validate import is_number, whole
from regretless.errors import ConfigError, CorruptJournalError, MissingExtraError

try:
    import uvicorn
    from fastapi import FastAPI
    from fastapi.staticfiles import StaticFiles
    from starlette.requests import Request
    from starlette.responses import FileResponse, HTMLResponse, Response

    from regretless.service import api, problems, reference
    from regretless.service.connections import (
        ACCEPTED_AT_ONCE,
        MOST_OF_ONE,
        QUEUE,
        Connection,
        Crowd,
        Listening,
        Sparing,
        most_connections,
    )
    from regretless.service.guard import Guard
    from regretless.service.metrics import Measured, Metrics
    from regretless.service.open_studies import OpenStudies
    from regretless.service.rate import CHANGES_PER_SECOND, Rate
except ModuleNotFoundError as error:
    if (error.name or "").startswith("regretless"):
        raise
    raise MissingExtraError("serve", error.name or "fastapi") from error

from regretless.service.auth import Tokens, is_loopback
from regretless.studies.journal import Journal

STATIC = Path(__file__).parent / "static"
# A thread that computes gives way to others after this time.  A request changes threads a few
# times, and would wait for the usual 5 ms each time.
SWITCH_SECONDS = 0.0005
GRACE_SECONDS = 10  # for requests under way when the service is stopped
# Whoever floods the service must not fill the disk with its log.
SPARED_LOGGERS = (
    "uvicorn.error",
    "asyncio",
    "regretless.service.auth",
    "regretless.service.connections",
    "regretless.service.open_studies",
)


def create_app(
    storage: str | Path,
    *,
    tokens: Tokens | None = None,
    host: str = "127.0.0.1",
    changes_per_second: float = CHANGES_PER_SECOND,
) -> FastAPI:
    """The service as an ASGI application, for uvicorn or another server.

    Args:
        storage: a file of SQLite or the URL of a database.  It is created if there is none.
        tokens: who may read and who may write.  Without tokens, everybody who can reach the
            service may do everything.
        host: a host name under which the service answers if there are no tokens, besides
            `localhost` and plain addresses.
        changes_per_second: how many changes one token, or one address where there are no tokens,
            may make in a second on average; 0 for no limit.

    Returns:
        The application.  It closes the storage when the server stops it.

    Raises:
        ConfigError: `changes_per_second` is negative or not finite.
        StorageError: the storage cannot be opened.
        MissingExtraError: FastAPI or uvicorn is not installed (when the module is imported).

    Example:
        app = create_app("tuning.sqlite")  # then: uvicorn --host 127.0.0.1 module:app
    """
    if not (is_number(changes_per_second) and changes_per_second >= 0):
        raise ConfigError(f"changes_per_second: need at least 0, got {shown(changes_per_second)}")
    journal = Journal.open(storage)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        studies.stop()
        journal.close()

    app = FastAPI(
        title="regretless",
        version=regretless.__version__,
        summary="Tune a noisy system while it is live.",
        docs_url=None,  # these two load scripts from elsewhere
        redoc_url=None,
        default_response_class=problems.Json,
        generate_unique_id_function=lambda route: route.name,
        lifespan=life,
    )
    studies = app.state.studies = OpenStudies(journal)
    tokens = app.state.tokens = tokens or Tokens()
    metrics = Metrics(studies)
    problems.install(app)
    app.add_exception_handler(CorruptJournalError, _reopen)
    app.include_router(api.router)
    app.include_router(api.checks)
    app.add_route("/metrics", metrics.page, include_in_schema=False)
    _add_pages(app)
    _describe_tokens(app)
    rate = Rate(float(changes_per_second))
    app.add_middleware(Guard, tokens=tokens, host=host, rate=rate)
    app.add_middleware(Measured, metrics=metrics)  # the last one is the outermost
    return app


def serve(
    storage: str,
    host: str,
    port: int,
    tokens: Tokens,
    insecure: bool,
    peer_connections: int = MOST_OF_ONE,
    changes_per_second: float = CHANGES_PER_SECOND,
) -> None:
    """Run the service until Ctrl-C or SIGTERM.

    Args:
        storage: a file of SQLite or the URL of a database.
        host: the address or the name to listen at.
        port: the port to listen at; 0 takes a free one.  The address is printed.
        tokens: who may read and who may write.
        insecure: whether to serve without tokens, although other machines can reach `host`.
        peer_connections: how many connections one address may have at a time.
        changes_per_second: see `create_app`.

    Raises:
        ConfigError: other machines can reach `host`, and there are neither tokens nor `insecure`;
            or the address is taken or does not exist; or `peer_connections` is less than 1, or
            `changes_per_second` less than 0.
        StorageError: the storage cannot be opened.
    """
    whole("peer_connections", peer_connections, least=1)
    if not (tokens or insecure or is_loopback(host)):
        raise ConfigError(
            f"host: without tokens everybody who reaches {host!r} could change everything;"
            " give --token-file, or say --insecure"
        )
    with _bound(host, port) as listening:
        app = create_app(storage, tokens=tokens, host=host, changes_per_second=changes_per_second)
        crowd = Crowd(most_connections(), peer_connections)
        config = uvicorn.Config(
            app,
            http=type("OurConnection", (Connection,), {"crowd": crowd}),
            backlog=ACCEPTED_AT_ONCE,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        for name in SPARED_LOGGERS:
            logging.getLogger(name).addFilter(Sparing())
        # Flushed, because the program that started the service may wait for this line in a pipe.
        print(f"serving {app.state.studies.journal.label} at {_address(listening)}", flush=True)
        sys.setswitchinterval(SWITCH_SECONDS)
        blas_libraries()  # before there are threads
        # What was imported stays.  A garbage collection that went through it would stop all
        # requests for 50 ms.
        gc.collect()
        gc.freeze()
        uvicorn.Server(config).run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        plain = socket.create_server((host, port), family=family, backlog=QUEUE)
        return Listening(plain.family, plain.type, plain.proto, plain.detach())
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"can't listen at {host!r}, port {port}: {reason}") from None


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _add_pages(app: FastAPI) -> None:
    async def index(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def docs(request: Request) -> Response:
        return HTMLResponse(reference.page(app.openapi()))

    app.add_route("/", index, include_in_schema=False)
    app.add_route("/docs", docs, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))


def _describe_tokens(app: FastAPI) -> None:
    """Add the tokens to the OpenAPI description.

    FastAPI does not know of them, because `Guard` checks them before a request reaches it.
    """
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            components = plain().setdefault("components", {})
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            plain()["security"] = [{"token": []}, {}]  # {}: none is needed if none is set
        return plain()

    app.openapi = described  # type: ignore[method-assign]


async def _reopen(request: Request, error: Exception) -> Response:
    """Read the study again next time: if a backup was restored, what is in memory is wrong."""
    request.app.state.studies.forget(request.path_params.get("name"))
    return await problems.answer(request, error)
