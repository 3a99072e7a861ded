"""The verbs of a study over HTTP.  Each endpoint calls the verb of the same name.

The docstrings of the endpoints are shown to users, at /docs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from io import StringIO
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response

import regretless
from regretless.results import Best, Decision, Row, Trial
from regretless.service import schema
from regretless.service.open_studies import OpenStudies, OpenStudy
from regretless.service.problems import Json
from regretless.service.schema import (
    After,
    AfterTrial,
    Archived,
    Arms,
    Delay,
    EndEarly,
    InContext,
    Index,
    Key,
    Limit,
    Name,
    Number,
    ProblemOut,
    Seconds,
    context_from_json,
)
from regretless.space import Contexts, Space, change_from_json
from regretless.studies import Snapshot, Study, known_before, observe_nth, write_csv

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What went wrong.",
        "content": {"application/problem+json": {"schema": ProblemOut.model_json_schema()}},
    }
}
NO_CONTENT = HTTPStatus.NO_CONTENT

router = APIRouter(prefix="/api/studies", tags=["studies"], responses=PROBLEMS)
checks = APIRouter(tags=["service"], responses=PROBLEMS)


# FastAPI calls a dependency that is not `async` in a thread, which takes longer than all the rest.
async def _studies(request: Request) -> OpenStudies:
    studies: OpenStudies = request.app.state.studies
    return studies


async def _study(name: Name, studies: All) -> OpenStudy:
    return await studies.study(name)


All = Annotated[OpenStudies, Depends(_studies)]
This = Annotated[OpenStudy, Depends(_study)]

# --- all studies ----------------------------------------------------------------------------------


@router.get("")
async def list_studies(studies: All, archived: Archived = False) -> list[schema.Summary]:
    """Every study of the storage, by name; the archived ones only if they are asked for."""
    return await studies.summaries(archived)


@router.post("", status_code=HTTPStatus.CREATED)
async def create_study(new: schema.NewStudy, studies: All, response: Response) -> schema.Summary:
    """Create a study; the same settings again are fine (200), other ones are an error."""
    settings = new.model_dump(exclude={"name", "space"}, exclude_none=True)
    # A choice may be None, which `exclude_none` would leave out of the baseline.
    settings |= {} if new.baseline is None else {"baseline": new.baseline}
    settings["space"] = Space.from_json(new.space.model_dump(exclude_unset=True))
    if new.contexts is not None:
        listed = [each.model_dump(exclude_unset=True) for each in new.contexts]
        settings["contexts"] = Contexts.from_json(listed).parameters
    if not await studies.create(new.name, settings):
        response.status_code = HTTPStatus.OK
    this = await studies.study(new.name)
    return await this.read(schema.Summary.of)


# --- one study ------------------------------------------------------------------------------------


@router.get("/{name}")
async def get_study(this: This) -> schema.Detail:
    """The settings of a study, how far it is, its best point, and its pending trials."""
    return await this.read(schema.Detail.of)


@router.post("/{name}/ask")
async def ask(
    this: This, wish: schema.Ask | None = None, key: Key = None
) -> schema.TrialOut | list[schema.TrialOut]:
    """Choose the next trial, or with `n` a list of trials.

    A request that is repeated with the same Idempotency-Key returns the same trials.
    """
    wish = wish or schema.Ask()
    trials = await this.ask(
        wish.n or 1, key=key, within_budget=wish.within_budget, context=wish.context
    )
    answers = [schema.TrialOut.of(trial) for trial in trials]
    return answers[0] if wish.n is None else answers


@router.post("/{name}/trials/{number}/tell", status_code=NO_CONTENT)
async def tell(this: This, number: Number, result: schema.Told, key: Key = None) -> None:
    """Store the result of a trial.  When the service answers, the result is on disk.

    Telling the same value again changes nothing, with or without a key.  Telling another value is
    an error.
    """
    await this.learn(this.study.tell, _named(number, result.params), **result.measured(), key=key)


@router.post("/{name}/trials/{number}/abandon", status_code=NO_CONTENT)
async def abandon(
    this: This, number: Number, which: schema.Abandon | None = None, key: Key = None
) -> None:
    """Stop waiting for the result of a trial.  If the result arrives, it may still be told."""
    trial = _named(number, None if which is None else which.params)
    await this.change(this.study.abandon, trial, key=key)


@router.post("/{name}/abandon")
async def abandon_older_than(this: This, limit: schema.OlderThan) -> schema.Abandoned:
    """Abandon all trials that have been pending for longer than so many seconds."""
    gone = await this.change(this.study.abandon_older_than, limit.older_than)
    return schema.Abandoned(numbers=[trial.number for trial in gone])


@router.post("/{name}/adopt")
async def adopt(this: This, chosen: schema.Adoption, key: Key = None) -> schema.TrialOut:
    """Add a trial that was chosen elsewhere.  It costs budget, and is pending until it is told.

    A request that is repeated with the same Idempotency-Key adds no further trial.
    """
    made = await this.change(this.study.adopt, chosen.params, context=chosen.context, key=key)
    return schema.TrialOut.of(made)


@router.post(
    "/{name}/observe",
    status_code=NO_CONTENT,
    response_class=Response,
    responses={200: {"description": "Not stored: the study has it.", "model": schema.NotStored}},
)
async def observe(this: This, known: schema.Observation, key: Key = None) -> Response:
    """Add a result that was known before.  It costs no budget.

    A request that is repeated with the same Idempotency-Key adds no further result.  Without a key,
    a result that the study has already (the same point, value, standard error, count and time) is
    not added again, and the answer says so.
    """
    measured, study = known.measured(), this.study
    if key is not None:
        await this.change(study.observe, known.params, **measured, key=key)
    elif not await this.change(observe_nth, study, known.params, **measured, nth=known.nth):
        return Json(schema.NotStored(detail=known_before(study.name)).model_dump())
    return Response(status_code=NO_CONTENT)


@router.get("/{name}/allocation")
async def allocation(
    this: This,
    arms: Arms = 8,
    ttl: Seconds = 600.0,
    delay: Delay = 0.0,
    end_early: EndEarly = 0.05,
) -> schema.AllocationOut:
    """The table that splits the traffic among settings.

    It is made if there is none.  A new one is made when half of `ttl` has passed and results have
    come in.  Clients hold it, and need no request for each unit: see docs/traffic.md.
    """
    table = await this.allocate(arms, ttl=ttl, delay=delay, end_early=end_early)
    return schema.AllocationOut.of(this.study.name, table)


@router.post("/{name}/reports", status_code=NO_CONTENT)
async def report(this: This, flush: schema.Reports, key: Key = None) -> None:
    """Add results to the totals of trials.  When the service answers, they are on disk.

    A request that is repeated with the same Idempotency-Key adds nothing.
    """
    increments = tuple(each.increment() for each in flush.reports)
    await this.report(increments, key, flush.time)


@router.post("/{name}/baseline", status_code=NO_CONTENT)
async def set_baseline(this: This, now: schema.BaselineIn, key: Key = None) -> None:
    """Declare the setting that runs today, or change it.

    A request that is repeated with the same Idempotency-Key changes nothing, even if the baseline
    was changed in between.
    """
    await this.change(this.study.set_baseline, now.params, key=key)


@router.post("/{name}/extend", status_code=NO_CONTENT)
async def extend(this: This, extension: schema.Extension, key: Key = None) -> None:
    """Set a new total budget, or a horizon instead: then the run has no end.

    A request that is repeated with the same Idempotency-Key changes nothing, even if the budget
    was changed in between.
    """
    await this.change(this.study.extend, extension.budget, horizon=extension.horizon, key=key)


@router.post("/{name}/trials/{number}/approve", status_code=NO_CONTENT)
async def approve(
    this: This, number: Number, verdict: schema.Said | None = None, key: Key = None
) -> None:
    """Allow a proposed trial to be tried.  The same verdict again changes nothing.

    If another verdict came first, the answer is an error (409).
    """
    said = verdict or schema.Said()
    await this.change(this.study.approve, _named(number, said.params), said.why, key=key)


@router.post("/{name}/trials/{number}/reject", status_code=NO_CONTENT)
async def reject(this: This, number: Number, verdict: schema.Rejection, key: Key = None) -> None:
    """Refuse a proposed trial.  While the reason stands, neither it nor a near point is proposed.

    It uses no budget.  If another verdict came first, the answer is an error (409).
    """
    await this.change(this.study.reject, _named(number, verdict.params), verdict.why, key=key)


@router.post("/{name}/trials/{number}/reconsider", status_code=NO_CONTENT)
async def reconsider(
    this: This, number: Number, verdict: schema.Said | None = None, key: Key = None
) -> None:
    """End the reason for which a trial was rejected."""
    said = verdict or schema.Said()
    await this.change(this.study.reconsider, _named(number, said.params), said.why, key=key)


@router.post("/{name}/trials/{number}/retract", status_code=NO_CONTENT)
async def retract(
    this: This, number: Number, correction: schema.Said | None = None, key: Key = None
) -> None:
    """Take a wrong result back.  The trial is pending again, and may be told anew.

    A request that is repeated with the same Idempotency-Key does not take back a newer result.
    """
    said = correction or schema.Said()
    await this.change(this.study.retract, _named(number, said.params), said.why, key=key)


@router.post("/{name}/observations/{index}/retract", status_code=NO_CONTENT)
async def retract_observation(
    this: This, index: Index, correction: schema.Reason | None = None
) -> None:
    """Take a wrong result back that was known before.  `index` counts them from 0."""
    why = None if correction is None else correction.why
    await this.change(this.study.retract_observation, index, why)


@router.post("/{name}/archive", status_code=NO_CONTENT)
async def archive(this: This) -> None:
    """End a study for now: the list leaves it out, and there are no new trials."""
    await this.change(this.study.archive)


@router.post("/{name}/unarchive", status_code=NO_CONTENT)
async def unarchive(this: This) -> None:
    """Go on with an archived study."""
    await this.change(this.study.unarchive)


@router.post("/{name}/rename", status_code=NO_CONTENT)
async def rename(name: Name, studies: All, wish: schema.NewNameOf) -> None:
    """Give a study a new name.  Requests with the old one get an error (404) with the new one."""
    await studies.rename(name, wish.name)


@router.post("/{name}/link")
async def share(this: This, request: Request, wish: schema.LinkIn | None = None) -> schema.LinkOut:
    """A token for a link to the page, by which others can read this study and change nothing.

    It is signed with the token of this request, and ends with that one, too.  Without tokens
    everybody who reaches the service can read it, so the answer has none.
    """
    days = (wish or schema.LinkIn()).days
    header = request.headers.get("authorization", "")
    token = request.app.state.tokens.link_by(header, this.study.name, days)
    until = None if token is None else datetime.now(UTC) + timedelta(days=days)
    return schema.LinkOut(token=token, until=until)


@router.post("/{name}/space", status_code=NO_CONTENT)
async def change_space(this: This, change: schema.Change, key: Key = None) -> None:
    """Add, freeze, widen or drop parameters.  All results stay.

    A request that is repeated with the same Idempotency-Key changes nothing.
    """
    given = change_from_json(change.model_dump(exclude_unset=True))
    await this.change(this.study.change_space, **given, key=key)


@router.get("/{name}/best")
async def best(this: This, context: InContext = None) -> schema.BestOut:
    """The visited point with the best posterior mean, not the point of the luckiest result.

    In a study with contexts, it is the best one on average, or the best one in `context`.
    """
    if context is None:
        return await this.read(_best)
    found = await this.do(_best_in, this.study, context_from_json(context))
    return schema.BestOut.of(found)


@router.post("/{name}/forecast", status_code=HTTPStatus.ACCEPTED)
async def start_forecast(this: This, wish: schema.ForecastIn | None = None) -> schema.ForecastOut:
    """Simulate the rest of the run.  It takes a while: read `GET …/forecast` until it is done.

    A forecast is computed once for each state of the study.  While one is under way, there is no
    second one.
    """
    wish = wish or schema.ForecastIn()
    ahead = await this.start_forecast(wish.draws, wish.over)
    return schema.ForecastOut.of(ahead, await this.do(this.study.refresh))


@router.get("/{name}/forecast")
async def read_forecast(this: This) -> schema.ForecastOut:
    """The last forecast and how far it is: what the rest of the run is expected to bring."""
    return schema.ForecastOut.of(this.ahead, await this.do(this.study.refresh))


@router.get("/{name}/trials")
async def trials(this: This, after: AfterTrial = -1, limit: Limit = 100) -> list[schema.RowOut]:
    """Trials in order; for the next page, `after` is the number of the last one."""
    return await this.do(_rows, this.study, lambda row: row.number is not None, after + 1, limit)


@router.get("/{name}/export", response_class=Response)
async def export(this: This) -> Response:
    """All trials and results as CSV, as `regretless export` writes them."""
    text = await this.do(_csv, this.study)
    headers = {"Content-Disposition": 'attachment; filename="study.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/{name}/observations")
async def observations(this: This, after: After = 0, limit: Limit = 100) -> list[schema.RowOut]:
    """Results that were known before, in order; for the next page, `after` is how many you have."""
    return await this.do(_rows, this.study, lambda row: row.number is None, after, limit)


@router.get("/{name}/events", response_model_exclude_unset=True)
async def events(this: This, after: After = 0, limit: Limit = 100) -> list[schema.EventOut]:
    """The events of a study, in order; for the next page, `after` is the `seq` of the last one."""
    found = await this.do(this.study.events, after, limit)
    return [schema.EventOut.of(event) for event in found]


@router.get("/{name}/panels", response_class=Json, responses={304: {"description": "No news."}})
async def panels(this: This, request: Request) -> Response:
    """The data of the live page.  Its ETag changes with each event of the study."""
    tag, answer = await this.read(_page_data, shared=True)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(answer, media_type="application/json", headers=headers)


def _named(number: int, params: Mapping[str, Any] | None) -> Trial | int:
    """The trial with the caller's parameters, if they were sent; otherwise its number."""
    if params is None:
        return number
    return Trial(number, dict(params), Decision("given", "", 0))


def _rows(
    study: Study, wanted: Callable[[Row], bool], skip: int, limit: int
) -> list[schema.RowOut]:
    view = study.snapshot()
    rows = [row for row in view.optimizer.history() if wanted(row)]
    return [schema.RowOut.of(row, view) for row in rows[skip : skip + limit]]


def _csv(study: Study) -> str:
    out = StringIO()
    write_csv(out, study.space, study.history())
    return out.getvalue()


def _best(view: Snapshot) -> schema.BestOut:
    return schema.BestOut.of(view.optimizer.best())


def _best_in(study: Study, context: Mapping[str, Any]) -> Best:
    """The best point in a context, computed on a copy: the study stays free for others."""
    view = study.snapshot()
    best = view.optimizer.best(context=context)
    study.take_posterior_of(view)
    return best


def _page_data(view: Snapshot) -> tuple[str, bytes]:
    """The ETag of the page's data, and the data as text, because it is sent more often than made.

    The tag has the time of the last event as well as its number: after a backup was restored,
    another event may have the same number.
    """
    from regretless.service.page_data import page_data

    return f'"{view.seq}-{view.time.timestamp():.6f}"', bytes(Json(page_data(view)).body)


# --- the service itself ---------------------------------------------------------------------------


@checks.get("/healthz")
async def healthy() -> schema.Health:
    """200 if the process answers."""
    return schema.Health(version=regretless.__version__)


@checks.get("/readyz")
async def ready(studies: All) -> schema.Health:
    """200 if the process and its storage answer, 503 if the storage does not."""
    if not await studies.ready():
        # This endpoint needs no token, so it must not show the storage's name.
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the storage cannot be reached")
    return schema.Health(version=regretless.__version__)
