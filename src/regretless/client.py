"""A client of `regretless serve`: the verbs of a study over HTTP.

It needs only numpy, scipy and the standard library.  A call without an answer is repeated until an
answer arrives or `patience` seconds have passed.  All attempts have the same key, by which the
service recognises a repetition.  So no trial is asked for twice, and no result is stored twice.
"""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast, overload
from urllib.parse import SplitResult, quote, urlencode, urlsplit
from weakref import WeakValueDictionary

from regretless import errors
from regretless._internal.retry import Patience
from regretless._internal.validate import (
    checked_key,
    checked_result,
    checked_time,
    fits_a_path,
    is_number,
    time_from_iso,
    whole,
    without_numpy,
)
from regretless.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    RegretlessError,
    ServiceError,
    SpaceError,
    StorageError,
)
from regretless.results import Best, Decision, Row, Trial, number_of
from regretless.space import Scalar, Space
from regretless.studies import until_spent

if TYPE_CHECKING:
    from regretless.asktell import AskTell
    from regretless.engine import Optimizer
    from regretless.studies import Study

__all__ = ["Client", "RemoteEvent", "RemoteStudy", "ServiceError"]

AGAIN = (408, 429, 502, 503, 504)  # statuses after which a request is repeated
PAGE = 1000
Page = list[dict[str, Any]]


@dataclass(frozen=True)
class RemoteEvent:
    """A stored event of a study.

    Attributes:
        seq: its number: 1, 2, 3, …
        time: when it was written.
        kind: "created", "asked", "told", "observed", "abandoned" or "extended".
        body: its content.
        version: the version of the body.

    Example:
        >>> from datetime import UTC, datetime
        >>> RemoteEvent(7, datetime(2026, 1, 31, tzinfo=UTC), "extended", {"budget": 300}).kind
        'extended'
    """

    seq: int
    time: datetime
    kind: str
    body: dict[str, Any]
    version: int = 1


class Client:
    """A connection to a service that `regretless serve` runs.

    Each method raises StorageError if the service or its storage cannot be reached, and
    ServiceError if the service refuses the request, for example because of a wrong token.

    Args:
        url: the address of the service.
        token: the token, if the service needs one.
        timeout: how many seconds to wait for one answer.
        patience: for how many seconds to repeat a request while the service or its storage cannot
            be reached.

    Raises:
        ConfigError: an argument is not valid.

    Example:
        >>> client = Client("http://127.0.0.1:8080", token="a-token-of-20-letters-or-more")
        >>> client
        Client(127.0.0.1:8080)

        study = client.create("prices", space=space, budget=200)
        for trial in study:
            study.tell(trial, measure(trial.params))
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
        self._timeout = _checked_seconds("timeout", timeout)
        self._patience = _checked_seconds("patience", patience, least=0.0)
        self._headers = {"Authorization": f"Bearer {_checked_token(token)}"} if token else {}

    def __repr__(self) -> str:
        return f"Client({self._place}{self._base})"

    def create(
        self,
        name: str,
        *,
        space: Space,
        budget: int,
        policy: str | None = None,
        direction: str | None = None,
        seed: int | None = None,
        n0: int | None = None,
    ) -> RemoteStudy:
        """Create a study, or open it if it exists with the same settings.

        Args:
            name: the name of the study.
            space, budget, policy, direction, seed, n0: the settings of `Optimizer`; None for its
                default.

        Returns:
            The study.

        Raises:
            ConfigError: a setting is not valid, or differs from that of the existing study.
            SpaceError: the space is not valid.
        """
        if not isinstance(space, Space):
            raise ConfigError(f"space: need a Space, got {space!r}")
        settings = {"policy": policy, "direction": direction, "seed": seed, "n0": n0}
        given = {key: value for key, value in settings.items() if value is not None}
        new = {"name": name, "space": space.to_json(), "budget": budget, **given}
        self.call("POST", "/api/studies", new)
        return RemoteStudy(self, name)

    def study(self, name: str) -> RemoteStudy:
        """Open a study that exists.

        Raises:
            UnknownStudyError: there is no such study.
            ConfigError: the name is not valid.
        """
        found = RemoteStudy(self, name)
        found.info()
        return found

    def studies(self) -> list[dict[str, Any]]:
        """A summary of each study, as the service's `GET /api/studies` returns it."""
        found: list[dict[str, Any]] = self.call("GET", "/api/studies")
        return found

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
            try:
                status, answer = self._once(method, path, body, key)
                if 200 <= status < 300:
                    return answer
                error = _error(status, answer)
                lasting = status not in AGAIN
            except (OSError, http.client.HTTPException) as failed:
                reason = str(failed) or type(failed).__name__
                error, lasting = StorageError(f"{self._place}: {reason}"), False
            if lasting or not patience.pause():
                raise error

    def _once(self, method: str, path: str, body: object, key: str | None) -> tuple[int, Any]:
        headers = dict(self._headers)
        if method == "POST":
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = checked_key(key, in_header=True)
        data = None if method == "GET" else _written(body or {})
        connection = self._kind(self._place, timeout=self._timeout)
        try:
            connection.request(method, self._base + path, data, headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return response.status, _read(response, text)


class RemoteStudy:
    """A study of a service, with the verbs of `Study`.

    `Client.study` and `Client.create` return one.  Each verb is repeated while the service cannot
    be reached, and happens once.  The errors are those of `Study` and `Client`.

    A `key` makes a call safe to repeat even from another process.

    Args:
        client: the service.
        name: the name of the study.

    Raises:
        ConfigError: the name is not valid.

    Example:
        >>> RemoteStudy(Client("http://127.0.0.1:8080"), "prices")
        RemoteStudy('prices' of Client(127.0.0.1:8080))

        trial = study.ask()
        study.tell(trial, measure(trial.params))
    """

    def __init__(self, client: Client, name: str) -> None:
        """Use `Client.study` or `Client.create`."""
        if not isinstance(name, str) or not name:
            raise ConfigError(f"name: need the name of a study, got {name!r}")
        if not fits_a_path(name):
            raise ConfigError(f"name: must fit between two slashes of a URL, got {name!r}")
        self.name = name
        self._own: WeakValueDictionary[int, Trial] = WeakValueDictionary()  # by id
        self._client = client
        self._path = f"/api/studies/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"RemoteStudy({self.name!r} of {self._client!r})"

    @overload
    def ask(self, *, key: str | None = None, within_budget: bool = False) -> Trial: ...
    @overload
    def ask(
        self, n: int, *, key: str | None = None, within_budget: bool = False
    ) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, key: str | None = None, within_budget: bool = False
    ) -> Trial | list[Trial]:
        """Choose the next trial, or a list of `n` trials; see `Study.ask`."""
        wish: dict[str, Any] = {"within_budget": within_budget}
        if n is not None:
            wish["n"] = whole("n", n, least=1)
        answer = self._post("/ask", wish, key)
        return self._trial(answer) if n is None else [self._trial(each) for each in answer]

    def tell(
        self,
        trial: Trial | int,
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """Take the result of a trial; see `Study.tell`.

        When the call returns, the result is on the disk of the service.
        """
        result = _result(value, sem, count, time) | self._asked(trial)
        self._post(f"/trials/{number_of(trial)}/tell", result, key)

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """Take a result from before the run, which uses no budget; see `Study.observe`."""
        self._post("/observe", _params(params) | _result(value, sem, count, time), key)

    def adopt(self, params: Mapping[str, Scalar], *, key: str | None = None) -> Trial:
        """Make a trial of a point that somebody else chose; see `Study.adopt`."""
        return self._trial(self._post("/adopt", _params(params), key))

    def abandon(self, trial: Trial | int, *, key: str | None = None) -> None:
        """Stop waiting for the result of a trial; see `Study.abandon`."""
        self._post(f"/trials/{number_of(trial)}/abandon", self._asked(trial), key)

    def abandon_older_than(self, age: timedelta | float) -> list[Trial]:
        """Abandon the trials that have been pending for longer than `age`, and return them.

        `age` is in seconds, or a timedelta.
        """
        seconds = age.total_seconds() if isinstance(age, timedelta) else age
        gone = self._post("/abandon", {"older_than": seconds})
        return [_trial(row) for row in self._rows(gone["numbers"])]

    def extend(self, budget: int, *, key: str | None = None) -> None:
        """Set a new total budget; see `Study.extend`."""
        self._post("/extend", {"budget": budget}, key)

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent.  Other processes may ask at the same time."""
        return until_spent(lambda: self.ask(within_budget=True))

    @property
    def budget(self) -> int:
        """The total number of evaluations, after the last `extend`."""
        return int(self.info()["budget"])

    @property
    def asked(self) -> int:
        """The number of trials that were asked for or adopted."""
        return int(self.info()["asked"])

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for; at least 0."""
        return int(self.info()["remaining"])

    @property
    def pending(self) -> list[Trial]:
        """The trials that were neither told nor abandoned."""
        rows = self._rows(sorted(map(int, self.info()["waiting"])))
        return [_trial(row) for row in rows if row["status"] == "pending"]

    def best(self) -> Best:
        """The visited point with the best posterior mean; see `AskTell.best`."""
        return Best(**self._get("/best"))

    def info(self) -> dict[str, Any]:
        """The settings, the budget, the best point and the pending trials, as JSON."""
        found: dict[str, Any] = self._get("")
        return found

    def history(self) -> list[Row]:
        """The prior data and the trials, in order."""
        prior = self._pages("/observations", after=0, last=lambda page, after: after + len(page))
        own = self._pages("/trials", after=-1, last=lambda page, after: page[-1]["number"])
        return [_row(each) for each in (*prior, *own)]

    def events(self, after: int = 0) -> list[RemoteEvent]:
        """The stored events after number `after`."""
        found = self._pages("/events", after=after, last=lambda page, after: page[-1]["seq"])
        return [
            RemoteEvent(**each | {"time": datetime.fromisoformat(each["time"])}) for each in found
        ]

    def _trial(self, data: Mapping[str, Any]) -> Trial:
        trial = _trial(data)
        self._own[id(trial)] = trial
        return trial

    def _asked(self, trial: Trial | int) -> dict[str, Any]:
        """The trial's parameters, by which the service refuses a trial of another study.

        Nothing is sent for a trial given by number.  Nothing is sent for a trial that this object
        returned, because the caller may have changed the dict.
        """
        if not isinstance(trial, Trial) or self._own.get(id(trial)) is trial:
            return {}
        return _params(trial.params)

    def _rows(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The trials with these numbers, as the service describes them."""
        for number in numbers:
            yield from self._get(f"/trials?{urlencode({'after': number - 1, 'limit': 1})}")

    def _get(self, path: str) -> Any:
        return self._client.call("GET", self._path + path)

    def _post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Any:
        own = uuid.uuid4().hex if key is None else key
        return self._client.call("POST", self._path + path, body, own)

    def _pages(
        self, path: str, after: int, last: Callable[[Page, int], int]
    ) -> Iterator[dict[str, Any]]:
        while True:
            page: Page = self._get(f"{path}?{urlencode({'after': after, 'limit': PAGE})}")
            yield from page
            if len(page) < PAGE:
                return
            after = last(page, after)


def _checked_url(url: str) -> SplitResult:
    # urlsplit accepts more, but http.client would refuse it at each call or change it silently.
    plain = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
    try:
        parts = urlsplit(url if plain else "")
        well = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if well and not parts.username:
            return parts
    except ValueError:  # the port is not a number
        pass
    encoded = "a path percent-encoded, a name in punycode"
    raise ConfigError(f"url: need http://host:port in ASCII ({encoded}), got {url!r}")


def _checked_seconds(name: str, value: float, least: float | None = None) -> float:
    if not (is_number(value) and (value > 0 if least is None else value >= least)):
        wanted = "positive" if least is None else f"at least {least:g}"
        raise ConfigError(f"{name}: need seconds, {wanted} and finite, got {value!r}")
    return float(value)


def _checked_token(token: str) -> str:
    """The token without the line break of the file that it was read from.

    Error messages never show the token.
    """
    bare = token.strip() if isinstance(token, str) else ""
    if not (bare and bare.isascii() and bare.isprintable()):
        raise ConfigError("token: need printable ASCII, as it travels in a header")
    return bare


def _result(value: float, sem: float | None, count: float, time: datetime | None) -> dict[str, Any]:
    """The result as plain types.  A result that is not valid is refused before it is sent."""
    value, sem, count = checked_result(value, sem, count)
    result: dict[str, Any] = {"value": value, "sem": sem, "count": count}
    moment = checked_time(time)  # None is left out, because older services do not know it
    return result if moment is None else result | {"time": moment.isoformat()}


def _params(params: object) -> dict[str, Any]:
    if not isinstance(params, Mapping):
        raise SpaceError(f"params: must map names to values, got {params!r}")
    return {"params": dict(params)}


def _written(body: object) -> str:
    try:
        return json.dumps(body, allow_nan=False, default=without_numpy)
    except (TypeError, ValueError) as error:
        raise DataError(f"can't be written as JSON: {error}, in {body!r}") from None


def _read(response: http.client.HTTPResponse, text: bytes) -> Any:
    """The answer's JSON.

    Raises:
        ServiceError: the answer is not JSON, for example because a proxy answered instead.
    """
    if response.status == http.HTTPStatus.NO_CONTENT:
        return None
    if 300 <= response.status < 400:
        return {"detail": f"it has moved to {response.getheader('Location')!r}; use that address"}
    try:
        return json.loads(text)
    except ValueError:
        if response.status < 300:
            raise ServiceError(
                response.status, f"not an answer of regretless: {text[:80]!r}"
            ) from None
        return None


def _trial(data: Mapping[str, Any]) -> Trial:
    return Trial(data["number"], data["params"], Decision.from_json(data["decision"]))


def _row(data: Mapping[str, Any]) -> Row:
    names = ("number", "status", "params", "value", "sem", "count")
    decision = data["decision"] and Decision.from_json(data["decision"])
    time = time_from_iso(data.get("time"))
    return Row(**{name: data[name] for name in names}, decision=decision, time=time)


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


if TYPE_CHECKING:

    def _all_have_the_verbs(
        optimizer: Optimizer, study: Study, remote: RemoteStudy
    ) -> tuple[AskTell, AskTell, AskTell]:
        """mypy checks here that the three classes keep to the protocol's signatures."""
        return optimizer, study, remote
