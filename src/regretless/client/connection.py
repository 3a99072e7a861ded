"""Requests to a service: sent as JSON, repeated if there is no answer, and errors as exceptions."""

from __future__ import annotations

import http.client
import json
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from regretless import errors
from regretless._internal.retry import Patience
from regretless._internal.shown import shown
from regretless._internal.validate import checked_key, is_number, without_numpy
from regretless.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    RegretlessError,
    ServiceError,
    StorageError,
)

AGAIN = (408, 429, 502, 503, 504)  # statuses after which a request is repeated


class Connection:
    """Sends requests to a service; `Client` adds the studies.

    Args:
        url: the address of the service.
        token: the token, if the service needs one.
        timeout: how many seconds to wait for one answer.
        patience: for how many seconds to repeat a request while the service or its storage cannot
            be reached.

    Raises:
        ConfigError: an argument is not valid.

    Example:
        >>> Connection("http://127.0.0.1:8080", token="a-token-of-20-letters-or-more")
        Connection(127.0.0.1:8080)
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, patience: float = 120.0
    ) -> None:
        parts = _checked_url(url)
        self._kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._place = parts.netloc
        self._base = parts.path.rstrip("/")
        self._timeout = checked_seconds("timeout", timeout)
        self._patience = checked_seconds("patience", patience, least=0.0)
        self._headers = {"Authorization": f"Bearer {_checked_token(token)}"} if token else {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place}{self._base})"

    def call(self, method: str, path: str, body: object = None, key: str | None = None) -> Any:
        """Send a request, and repeat it while the service or its storage cannot be reached.

        Args:
            method: "GET" or "POST".
            path: the path, for example "/api/studies".
            body: the body, which is sent as JSON.
            key: the Idempotency-Key, by which the service recognises a repetition.

        Returns:
            The JSON of the answer; None if the answer is empty.

        Raises:
            RegretlessError: the error that the library raised in the service.
            ServiceError: the service refused the request for another reason.
            StorageError: the service or its storage cannot be reached.
            DataError: the body cannot be written as JSON.
        """
        patience = Patience(first=0.05, longest=2.0, seconds=self._patience, jitter=0.5)
        while True:
            wished = 0.0  # seconds that the service asks for
            try:
                status, answer, wished = self._once(method, path, body, key)
                if 200 <= status < 300:
                    return answer
                error = _error(status, answer)
                lasting = status not in AGAIN
            except (OSError, http.client.HTTPException) as failed:
                reason = str(failed) or type(failed).__name__
                error, lasting = StorageError(f"{self._place}: {reason}"), False
            if lasting or not patience.pause(at_least=wished):
                raise error

    def _once(
        self, method: str, path: str, body: object, key: str | None
    ) -> tuple[int, Any, float]:
        """The status, the JSON, and after how many seconds another try is welcome."""
        headers = dict(self._headers)
        if method == "POST":
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = checked_key(key, in_header=True)
        data = None if method == "GET" else written(body or {})
        connection = self._kind(self._place, timeout=self._timeout)
        try:
            connection.request(method, self._base + path, data, headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return response.status, _read(response, text), _seconds(response.getheader("Retry-After"))


def _checked_url(url: str) -> SplitResult:
    # urlsplit accepts more, but http.client would refuse it at each call or change it silently.
    url = str.__str__(url) if isinstance(url, str) else url  # also of a subclass
    plain = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
    try:
        parts = urlsplit(url if plain else "")
        well = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if well and not parts.username:
            return parts
    except ValueError:  # the port is not a number
        pass
    encoded = "a path percent-encoded, a name in punycode"
    raise ConfigError(f"url: need http://host:port in ASCII ({encoded}), got {shown(url)}")


def checked_seconds(name: str, value: float, least: float | None = None) -> float:
    if not (is_number(value) and (value > 0 if least is None else value >= least)):
        wanted = "positive" if least is None else f"at least {least:g}"
        raise ConfigError(f"{name}: need seconds, {wanted} and finite, got {shown(value)}")
    return float(value)


def _checked_token(token: str) -> str:
    """The token without the line break of the file that it was read from.

    Error messages never show the token.
    """
    bare = token.strip() if isinstance(token, str) else ""
    if not (bare and bare.isascii() and bare.isprintable()):
        raise ConfigError("token: need printable ASCII, because a header carries it")
    return bare


def written(body: object) -> str:
    try:
        return json.dumps(body, allow_nan=False, default=without_numpy)
    except (TypeError, ValueError) as error:
        raise DataError(f"can't be written as JSON: {error}, in {shown(body)}") from None


def _seconds(text: str | None) -> float:
    """The seconds of a Retry-After; 0 if it is missing or is a date."""
    return float(text) if text and text.isascii() and text.isdecimal() else 0.0


def _read(response: http.client.HTTPResponse, text: bytes) -> Any:
    """The answer's JSON.

    Raises:
        ServiceError: the answer is not JSON, for example because a proxy answered instead.
    """
    if response.status == http.HTTPStatus.NO_CONTENT:
        return None
    if 300 <= response.status < 400:
        return {
            "detail": f"it has moved to {shown(response.getheader('Location'))}; use that address"
        }
    try:
        return json.loads(text)
    except ValueError:
        if response.status < 300:
            raise ServiceError(
                response.status,
                f"the answer is not from regretless, check the address: {text[:80]!r}",
            ) from None
        return None


def _error(status: int, answer: object) -> RegretlessError:
    """The exception that the library raised in the service, or a `ServiceError`."""
    problem = answer if isinstance(answer, dict) else {}
    message = str(problem.get("detail", http.client.responses.get(status, "no reason given")))
    kind = getattr(errors, str(problem.get("error")), None)
    ours = isinstance(kind, type) and issubclass(kind, RegretlessError)
    # If a package is missing in the service, it is not missing in this process.
    if kind is None or not ours or kind in (MissingExtraError, ServiceError):
        return ServiceError(status, message)
    return cast(RegretlessError, kind(message))
