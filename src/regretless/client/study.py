"""The studies of a service: `Client` finds and creates them, `RemoteStudy` has their verbs."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from time import sleep
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urlencode
from weakref import WeakValueDictionary

from regretless._internal.frames import dataframe_of
from regretless._internal.shown import shown
from regretless._internal.validate import (
    MAX_SAFE,
    check_flag,
    checked_time,
    checked_why,
    fits_a_path,
    time_from_iso,
    whole,
)
from regretless.client.connection import Connection, written
from regretless.engine import check_automatic, check_no_contexts, increment_of, outcomes_of
from regretless.errors import ConfigError, ServiceError, SpaceError, UnknownTrialError
from regretless.model import Drift
from regretless.results import Allocation, Arm, Best, Decision, Row, Trial, number_of
from regretless.safety import (
    CONTROL,
    OBJECTIVE,
    Guardrail,
    Measured,
    Mode,
    Safety,
    Step,
)
from regretless.space import Contexts, Parameter, Scalar, Space, check_change
from regretless.studies import until_spent

if TYPE_CHECKING:
    from regretless.asktell import AskTell
    from regretless.engine import Optimizer
    from regretless.studies import Study

PAGE = 1000  # rows or events of one answer
_LOOK_SECONDS = 0.5  # between two looks at a forecast that is under way
Page = list[dict[str, Any]]


@dataclass(frozen=True)
class RemoteEvent:
    """A stored event of a study.

    Attributes:
        seq: its number: 1, 2, 3, …
        time: when it was written.
        kind: "created", "asked", "told", "observed", "abandoned", "extended", "approved",
            "rejected", "reconsidered", "retracted", "unobserved", "archived", "unarchived" or
            "renamed".
        body: its content.
        version: the version of the body.
        actor: the name of the token with which it was written; None if that is not known.

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
    actor: str | None = None


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
        budget: int | None = None,
        horizon: int | None = None,
        drift: str | Drift | None = None,
        policy: str | None = None,
        direction: str | None = None,
        seed: int | None = None,
        n0: int | None = None,
        noise: str | None = None,
        defaults: int | None = None,
        baseline: Mapping[str, Scalar] | None = None,
        loss_budget: float | None = None,
        confidence: float | None = None,
        guardrails: Sequence[Guardrail] | None = None,
        max_step: Mapping[str, Step] | None = None,
        change_cost: float | None = None,
        sparse_changes: bool | None = None,
        free_start: bool | None = None,
        mode: Mode | None = None,
        optimum: float | None = None,
        bound: float | None = None,
        contexts: Mapping[str, Parameter] | None = None,
        metric: str | None = None,
        unit: str | None = None,
    ) -> RemoteStudy:
        """Create a study, or open it if it exists with the same settings.

        All settings that are not listed here are those of `Optimizer`; None means its default.

        Args:
            name: the name of the study.
            space: the search space.

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
            "noise": noise,
            "defaults": defaults,
            "optimum": optimum,
            "bound": bound,
            "contexts": None if contexts is None else Contexts(contexts).to_json(),
            "horizon": horizon,
            "drift": drift.to_json() if isinstance(drift, Drift) else drift,
            "metric": metric,
            "unit": unit,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        limits = {
            "baseline": baseline,
            "loss_budget": loss_budget,
            "confidence": confidence,
            "guardrails": guardrails,
            "max_step": max_step,
            "change_cost": change_cost,
            "sparse_changes": sparse_changes,
            "free_start": free_start,
            "mode": mode,
        }
        safety = Safety.checked(space, limits).to_json()
        new = {"name": name, "space": space.to_json(), "budget": budget, **given, **safety}
        self.call("POST", "/api/studies", new)
        return RemoteStudy(self, name)

    def study(self, name: str) -> RemoteStudy:
        """Open a study that exists, and return it.

        Args:
            name: the name of the study.

        Raises:
            UnknownStudyError: there is no such study.
            ConfigError: the name is not valid.
        """
        found = RemoteStudy(self, name)
        found.info()
        return found

    def studies(self, *, archived: bool = False) -> list[dict[str, Any]]:
        """A summary of each study, as the service's `GET /api/studies` returns it.

        Args:
            archived: whether to list the archived ones, too.
        """
        check_flag("archived", archived)
        query = "?archived=true" if archived else ""
        found: list[dict[str, Any]] = self.call("GET", f"/api/studies{query}")
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
        check_name(name)
        self._called(name)
        self._own: WeakValueDictionary[int, Trial] = WeakValueDictionary()  # by id
        self._client = client
        self._observing = threading.Lock()
        self._observed: Counter[str] = Counter()  # without a key, by this object; by content

    def _called(self, name: str) -> None:
        self.name, self._path = name, f"/api/studies/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"RemoteStudy({self.name!r} of {self._client!r})"

    @overload
    def ask(
        self,
        *,
        key: str | None = None,
        within_budget: bool = False,
        context: Mapping[str, Scalar] | None = None,
    ) -> Trial: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        key: str | None = None,
        within_budget: bool = False,
        context: Mapping[str, Scalar] | None = None,
    ) -> list[Trial]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        key: str | None = None,
        within_budget: bool = False,
        context: Mapping[str, Scalar] | None = None,
    ) -> Trial | list[Trial]:
        """Choose the next trial, or a list of `n` trials; see `Study.ask`."""
        wish: dict[str, Any] = {"within_budget": within_budget, **_context(context)}
        if n is not None:
            wish["n"] = whole("n", n, least=1)
        answer = self._post("/ask", wish, key)
        return self._trial(answer) if n is None else [self._trial(each) for each in answer]

    def tell(
        self,
        trial: Trial | int,
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        control: Measured | None = None,
        context: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> None:
        """Take the result of a trial; see `Study.tell`.

        When the call returns, the result is on the disk of the service.

        Raises:
            SpaceError: the context does not map names to values, or is not valid.
        """
        result = _result(value, sem, count, time, metrics, control) | self._asked(trial)
        result |= _context(context)
        self._post(f"{_path_of(trial)}/tell", result, key)

    def report(
        self,
        trial: Trial | int,
        *,
        count: float = 1,
        sum: float | None = None,
        sum_squares: float | None = None,
        value: float | None = None,
        sem: float | None = None,
        time: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """Add results to the totals of a trial; see `Study.report`.

        For many results a second, use `Traffic`, which gathers them.
        """
        self._asked(trial)
        numbers = {"sum": sum, "sum_squares": sum_squares, "value": value, "sem": sem}
        increment_of(number_of(trial), count=count, **numbers)  # for its checks
        given = {name: value for name, value in numbers.items() if value is not None}
        body: dict[str, Any] = {"reports": [{"trial": number_of(trial), "count": count, **given}]}
        moment = checked_time(time)
        if moment is not None:
            body["time"] = moment.isoformat()
        self._post("/reports", body, key)

    def allocate(
        self,
        arms: int = 8,
        *,
        ttl: float = 600.0,
        delay: float = 0.0,
        end_early: float = 0.05,
    ) -> Allocation:
        """The table that splits the traffic among settings; see `Study.allocate`.

        `Traffic` holds such a table, and assigns units to its rows.

        Raises:
            DataError: the service sent a time that cannot be read.
        """
        settings = {"arms": arms, "ttl": ttl, "delay": delay, "end_early": end_early}
        found = self._get(f"/allocation?{urlencode(settings)}")
        rows = []
        for each in found["rows"]:
            # A table has the sentence of a decision and not its numbers.
            trial = Trial(each["trial"], each["params"], Decision("given", "", 0))
            slots = tuple((first, end) for first, end in each["slots"])
            rows.append(Arm(each["row"], trial, each["role"], each["share"], slots))
        made_at = time_from_iso(found["made_at"])
        assert made_at is not None
        kept = found["ttl"], rows, found["baseline"], found["valid_for"]
        return Allocation(found["version"], made_at, *kept)

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        context: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> None:
        """Take a result from before the run, which uses no budget; see `Study.observe`."""
        result = _params(params) | _result(value, sem, count, time, metrics) | _context(context)
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

    def adopt(
        self,
        params: Mapping[str, Scalar],
        *,
        context: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> Trial:
        """Make a trial of a point that somebody else chose; see `Study.adopt`."""
        return self._trial(self._post("/adopt", _params(params) | _context(context), key))

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

    def set_baseline(self, params: Mapping[str, Scalar], *, key: str | None = None) -> None:
        """Declare the setting that runs today, or change it; see `Study.set_baseline`."""
        self._post("/baseline", {"params": _params(params)}, key)

    def extend(
        self, budget: int | None = None, *, horizon: int | None = None, key: str | None = None
    ) -> None:
        """Set a new total budget, or a horizon for a run without an end; see `Study.extend`."""
        given = {"budget": budget, "horizon": horizon}
        self._post("/extend", {k: v for k, v in given.items() if v is not None}, key)

    def approve(
        self, trial: Trial | int, why: str | None = None, *, key: str | None = None
    ) -> None:
        """Allow a proposed trial to be tried; see `Study.approve`."""
        self._post(f"{_path_of(trial)}/approve", _said(why) | self._asked(trial), key)

    def reject(self, trial: Trial | int, why: str, *, key: str | None = None) -> None:
        """Refuse a proposed trial; see `Study.reject`."""
        said = {"why": checked_why(why)} | self._asked(trial)
        self._post(f"{_path_of(trial)}/reject", said, key)

    def reconsider(
        self, trial: Trial | int, why: str | None = None, *, key: str | None = None
    ) -> None:
        """End the reason for which a trial was rejected; see `Study.reconsider`."""
        self._post(f"{_path_of(trial)}/reconsider", _said(why) | self._asked(trial), key)

    def retract(
        self, trial: Trial | int, why: str | None = None, *, key: str | None = None
    ) -> None:
        """Take a wrong result back; see `Study.retract`."""
        self._post(f"{_path_of(trial)}/retract", _said(why) | self._asked(trial), key)

    def retract_observation(self, index: int, why: str | None = None) -> None:
        """Take a wrong result from before the run back; see `Study.retract_observation`."""
        number = whole("index", index, least=0, most=MAX_SAFE)
        self._post(f"/observations/{number}/retract", _said(why))

    def archive(self) -> None:
        """End the study for now; see `Study.archive`."""
        self._post("/archive", {})

    def unarchive(self) -> None:
        """Go on with an archived study; see `Study.unarchive`."""
        self._post("/unarchive", {})

    def rename(self, new: str) -> None:
        """Give the study a new name; see `Study.rename`."""
        check_name(new)
        if new != self.name:
            self._post("/rename", {"name": new})
            self._called(new)

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
        check_change({"add": add, "freeze": freeze, "widen": widen, "drop": drop})
        added = [
            {"name": name, **parameter.to_json(), "value": value}
            for name, (parameter, value) in (add or {}).items()
        ]
        wider = [{"name": name, **new.to_json()} for name, new in (widen or {}).items()]
        change = {"add": added, "widen": wider, "freeze": freeze or {}, "drop": drop or {}}
        self._post("/space", {verb: each for verb, each in change.items() if each}, key)

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent, or for ever without one.

        Other processes may ask at the same time.
        """
        settings = self.info()["settings"]
        check_automatic(str(settings.get("mode", "automatic")))
        check_no_contexts("contexts" in settings)
        return until_spent(lambda: self.ask(within_budget=True))

    @property
    def baseline(self) -> dict[str, Scalar] | None:
        """The setting that runs today, after the last `set_baseline`; None if it is not known."""
        found: dict[str, Scalar] | None = self.info()["baseline"]
        return found

    @property
    def budget(self) -> int | None:
        """The total number of evaluations, after the last `extend`; None if there is no end."""
        return _whole(self.info()["budget"])

    @property
    def horizon(self) -> int | None:
        """How many evaluations the run looks ahead at most; None for the whole budget."""
        return _whole(self.info().get("horizon"))

    @property
    def asked(self) -> int:
        """The number of trials that were asked for or adopted, without those that were rejected."""
        return int(self.info()["asked"])

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for; the horizon if there is no end."""
        return int(self.info()["remaining"])

    @property
    def pending(self) -> list[Trial]:
        """The trials that were neither told nor abandoned; see also `proposed`."""
        return self._with_status("pending", self.info()["waiting"])

    @property
    def proposed(self) -> list[Trial]:
        """The trials that wait to be approved or rejected."""
        return self._with_status("proposed", self.info().get("proposals", {}))

    @property
    def archived(self) -> bool:
        """Whether the study is archived."""
        return bool(self.info().get("archived", False))

    def best(self, *, context: Mapping[str, Scalar] | None = None) -> Best:
        """The visited point with the best posterior mean; see `AskTell.best`.

        Raises:
            SpaceError: the context does not map names to values, or is not valid.
            DataError: a value of the context cannot be written as JSON.
        """
        if context is None:
            return Best(**self._get("/best"))
        asked = urlencode({"context": written(_context(context)["context"])})
        return Best(**self._get(f"/best?{asked}"))

    def forecast(
        self,
        *,
        draws: int = 32,
        over: Mapping[str, Scalar] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, Any]:
        """What the rest of the run is expected to bring; see `Study.forecast`.

        The service simulates it, and this method waits.

        Returns:
            The figures of `Forecast.to_json`, and a `sentence`.

        Raises:
            NoResultsError: no result was told yet.
            ServiceError: the simulations failed.
        """
        wish = {"draws": draws} | ({} if over is None else {"over": dict(over)})
        answer, last = self._post("/forecast", wish), -1
        while True:
            state, done = answer["state"], answer["done"]
            if progress is not None and done > last:
                last = done
                progress(done, answer["draws"])
            if state == "done":
                found: dict[str, Any] = answer["forecast"]
                return found
            if state == "failed":
                raise ServiceError(500, f"forecast: {answer['detail']}")
            sleep(_LOOK_SECONDS)
            # After a restart, the service knows of none.
            answer = self._get("/forecast") if state != "none" else self._post("/forecast", wish)

    def info(self) -> dict[str, Any]:
        """The settings, the budget, the best point and the pending trials, as JSON."""
        found: dict[str, Any] = self._get("")
        return found

    def history(self) -> list[Row]:
        """The prior data and the trials, in order."""
        prior = self._pages("/observations", after=0, last=lambda page, after: after + len(page))
        own = self._pages("/trials", after=-1, last=lambda page, after: page[-1]["number"])
        return [_row(each) for each in (*prior, *own)]

    def to_dataframe(self) -> Any:
        """The history as a pandas DataFrame: a row for each trial and each result from before.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return dataframe_of(self.history())

    def events(self, after: int = 0) -> list[RemoteEvent]:
        """The stored events after number `after`.

        Raises:
            ConfigError: `after` is no whole number, or is negative.
        """
        first = whole("after", after, least=0, most=MAX_SAFE)
        found = self._pages("/events", after=first, last=lambda page, after: page[-1]["seq"])
        return [_event(each) for each in found]

    def _with_status(self, status: str, numbers: Iterable[str]) -> list[Trial]:
        rows = self._rows(sorted(map(int, numbers)))
        return [_trial(row) for row in rows if row["status"] == status]

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


def _result(
    value: float | None,
    sem: float | None,
    count: float,
    time: datetime | None,
    metrics: Mapping[str, Measured] | None = None,
    control: Measured | None = None,
) -> dict[str, Any]:
    """The result as plain types.  A result that is not valid is refused before it is sent."""
    told = outcomes_of(value, sem, count, metrics, control)
    objective = told.pop(OBJECTIVE, None)
    result: dict[str, Any] = {"value": None} if objective is None else asdict(objective)
    moment = checked_time(time)  # None is left out, because older services do not know it
    if moment is not None:
        result["time"] = moment.isoformat()
    others = {name: {"value": each.value, "sem": each.sem} for name, each in told.items()}
    beside = others.pop(CONTROL, None)
    result |= {} if beside is None else {"control": beside}
    return result | {"metrics": others} if others else result


def _whole(number: object) -> int | None:
    return None if number is None else int(str(number))


def _said(why: str | None) -> dict[str, Any]:
    """What somebody says, if anything."""
    return {} if why is None else {"why": checked_why(why)}


def check_name(name: object) -> None:
    """Raise ConfigError for a name that no study of a service can have."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"name: need the name of a study, got {shown(name)}")
    if not fits_a_path(name) or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ConfigError(f"name: must fit between two slashes of a URL, got {shown(name)}")


def _path_of(trial: Trial | int) -> str:
    number = number_of(trial)
    if not 0 <= number <= MAX_SAFE:
        raise UnknownTrialError(f"trial {shown(number)} was never asked")
    return f"/trials/{number}"


def _params(params: object) -> dict[str, Any]:
    if not isinstance(params, Mapping):
        raise SpaceError(f"params: must map names to values, got {shown(params)}")
    return {"params": dict(params)}


def _context(context: object) -> dict[str, Any]:
    """The context, if there is one; older services do not know it."""
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        raise SpaceError(f"context: must map names to values, got {shown(context)}")
    return {"context": dict(context)}


def _trial(data: Mapping[str, Any]) -> Trial:
    proposed = data.get("proposed", data.get("status") == "proposed")
    why, context = Decision.from_json(data["decision"]), data.get("context")
    return Trial(data["number"], data["params"], why, proposed, context)


def _event(data: Mapping[str, Any]) -> RemoteEvent:
    known = {field.name: data[field.name] for field in fields(RemoteEvent) if field.name in data}
    return RemoteEvent(**known | {"time": datetime.fromisoformat(data["time"])})


def _row(data: Mapping[str, Any]) -> Row:
    names = ("number", "status", "params", "value", "sem", "count")
    decision = data["decision"] and Decision.from_json(data["decision"])
    time = time_from_iso(data.get("time"))
    told = {name: data[name] for name in names}
    beside = {"metrics": data.get("metrics", {}), "control": data.get("control")}
    beside |= {"note": data.get("note"), "context": data.get("context")}
    return Row(**told, decision=decision, time=time, **beside)


if TYPE_CHECKING:

    def _all_have_the_verbs(
        optimizer: Optimizer, study: Study, remote: RemoteStudy
    ) -> tuple[AskTell, AskTell, AskTell]:
        """mypy checks here that the three classes keep to the protocol's signatures."""
        return optimizer, study, remote
