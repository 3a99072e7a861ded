"""Metrics for Prometheus.

Study names are not used as labels: their number is unlimited, and /metrics should not reveal them.
"""

from __future__ import annotations

import time

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regretless.service.open_studies import OpenStudies

# Upper ends of the histogram's classes.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = {"GET", "HEAD", "POST"}


class Metrics:
    """Requests by route, method and status, how long they took, and the asks under way."""

    def __init__(self, studies: OpenStudies) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "regretless_http_requests",
            "Requests answered.",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "regretless_http_request_seconds",
            "Time from a request to its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        asking = Gauge(
            "regretless_asks_in_progress", "Asks under way or waiting.", registry=self._registry
        )
        asking.set_function(lambda: studies.asking)

    async def page(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Measured:
    """ASGI middleware that counts requests and takes their time."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            # The route's pattern, not the path: each label takes memory, and there are any number
            # of paths.
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.requests.labels(route, method, status).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)
