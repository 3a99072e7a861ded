"""The studies of a service: `Client` finds and creates them, `RemoteStudy` has their verbs."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urlencode
from weakref import WeakValueDictionary

from regretless._internal.shown import shown
from regretless._internal.validate import (
    MAX_SAFE,
    checked_result,
    checked_time,
    fits_a_path,
    time_from_iso,
    whole,
)
from regretless.client.connection import Connection, written
from regretless.errors import ConfigError, SpaceError, UnknownTrialError
from regretless.results import Best, Decision, Row, Trial, number_of
from regretless.space import Parameter, Scalar, Space
from regretless.studies import until_spent

if TYPE_CHECKING:
    from regretless.asktell import AskTell
    from regretless.engine import Optimizer
    from regretless.studies import Study

PAGE = 1000  # rows or events of one answer
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


class Client(Connection):
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
        defaults: int | None = None,
    ) -> RemoteStudy:
        """Create a study, or open it if it exists with the same settings.

        Args:
            name: the name of the study.
            space, budget, policy, direction, seed, n0, defaults: the settings of `Optimizer`; None
                for its default.

        Returns:
            The study.

        Raises:
            ConfigError: a setting is not valid, or differs from that of the existing study.
            SpaceError: the space is not valid.
        """
        if not isinstance(space, Space):
            raise ConfigError(f"space: need a Space, got {shown(space)}")
        settings = {
            "policy": policy,
            "direction": direction,
            "seed": seed,
            "n0": n0,
            "defaults": defaults,
        }
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
            raise ConfigError(f"name: need the name of a study, got {shown(name)}")
        if not fits_a_path(name) or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ConfigError(f"name: must fit between two slashes of a URL, got {shown(name)}")
        self.name = name
        self._own: WeakValueDictionary[int, Trial] = WeakValueDictionary()  # by id
        self._client = client
        self._observing = threading.Lock()
        self._observed: Counter[str] = Counter()  # without a key, by this object; by content
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
        self._post(f"{_path_of(trial)}/tell", result, key)

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
        result = _params(params) | _result(value, sem, count, time)
        if key is not None:
            self._post("/observe", result, key)
            return
        content = written(dict(sorted(result.items())))
        with self._observing:
            nth = self._observed[content] + 1
            more = {"nth": nth} if nth > 1 else {}
            known = self._client.call("POST", f"{self._path}/observe", result | more)
            self._observed[content] = nth
        if known is not None and time is None:
            warnings.warn(known["detail"], stacklevel=2)

    def adopt(self, params: Mapping[str, Scalar], *, key: str | None = None) -> Trial:
        """Make a trial of a point that somebody else chose; see `Study.adopt`."""
        return self._trial(self._post("/adopt", _params(params), key))

    def abandon(self, trial: Trial | int, *, key: str | None = None) -> None:
        """Stop waiting for the result of a trial; see `Study.abandon`."""
        self._post(f"{_path_of(trial)}/abandon", self._asked(trial), key)

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

    def change_space(
        self,
        *,
        add: Mapping[str, tuple[Parameter, Scalar]] | None = None,
        freeze: Mapping[str, Scalar] | None = None,
        widen: Mapping[str, Parameter] | None = None,
        drop: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> None:
        """Change the space while the study goes on; see `Study.change_space`."""
        added = [
            {"name": name, **parameter.to_json(), "value": value}
            for name, (parameter, value) in (add or {}).items()
        ]
        wider = [{"name": name, **new.to_json()} for name, new in (widen or {}).items()]
        change = {"add": added, "widen": wider, "freeze": freeze or {}, "drop": drop or {}}
        self._post("/space", {verb: each for verb, each in change.items() if each}, key)

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
        first = whole("after", after, least=0, most=MAX_SAFE)
        found = self._pages("/events", after=first, last=lambda page, after: page[-1]["seq"])
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


def _result(value: float, sem: float | None, count: float, time: datetime | None) -> dict[str, Any]:
    """The result as plain types.  A result that is not valid is refused before it is sent."""
    value, sem, count = checked_result(value, sem, count)
    result: dict[str, Any] = {"value": value, "sem": sem, "count": count}
    moment = checked_time(time)  # None is left out, because older services do not know it
    return result if moment is None else result | {"time": moment.isoformat()}


def _path_of(trial: Trial | int) -> str:
    number = number_of(trial)
    if not 0 <= number <= MAX_SAFE:
        raise UnknownTrialError(f"trial {shown(number)} was never asked")
    return f"/trials/{number}"


def _params(params: object) -> dict[str, Any]:
    if not isinstance(params, Mapping):
        raise SpaceError(f"params: must map names to values, got {shown(params)}")
    return {"params": dict(params)}


def _trial(data: Mapping[str, Any]) -> Trial:
    return Trial(data["number"], data["params"], Decision.from_json(data["decision"]))


def _row(data: Mapping[str, Any]) -> Row:
    names = ("number", "status", "params", "value", "sem", "count")
    decision = data["decision"] and Decision.from_json(data["decision"])
    time = time_from_iso(data.get("time"))
    return Row(**{name: data[name] for name in names}, decision=decision, time=time)


if TYPE_CHECKING:

    def _all_have_the_verbs(
        optimizer: Optimizer, study: Study, remote: RemoteStudy
    ) -> tuple[AskTell, AskTell, AskTell]:
        """mypy checks here that the three classes keep to the protocol's signatures."""
        return optimizer, study, remote
