"""Hostile input: to the public API, over HTTP, and as names on the page in Chromium."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from benchmarks.campaign import places
from benchmarks.campaign.ledger import SPACE, Tally

import fuzzing
import regretless as rl
from regretless.client import Client
from regretless.studies.journal import Journal
from serving import Service, serving

FREE = ("--changes-per-second", "0")  # no limit: here the requests themselves are the matter


def api(seed: int, size: int) -> Tally:
    """`size` calls of the public API with values of the grammar; a tenth of them with a journal."""
    tally = Tally()
    for wrong in fuzzing.inputs(seed, size - size // 10):
        tally.fault("uncaught", wrong)
    with places.folder() as made, Journal.open(made / "s.db") as journal:
        for wrong in fuzzing.inputs(seed + 10**6, size // 10, journal):
            tally.fault("uncaught", wrong)
    tally.counts["hostile calls of the API"] += size
    return tally


# -- over HTTP -------------------------------------------------------------------------------------

WORDS = [
    "",
    "s",
    "none",
    "x",
    "kind",
    "a" * 201,
    "\u0000",
    "\ud800",
    "..",
    "<script>",
    "%2e%2e",
    "ß\u202e",
    "objective",
    "number",
    "read-only",
]
NUMBERS = [0, 1, -1, 0.5, 1e308, -1e308, 5e-324, 2**31, 2**53, 2**63, 10**30, True, False, None]
RAW = ["NaN", "1e999", "1" * 5000, "[" * 3000, '{"a":' * 2000, '"\\ud800"', "", "\x00", "}", "nul"]
FIELDS = (
    *("name", "space", "budget", "policy", "direction", "seed", "n0", "defaults", "n"),
    *("within_budget", "value", "sem", "count", "time", "params", "nth", "older_than"),
    *("parameters", "type", "low", "high", "log", "step", "choices", "values", "x", "kind", "zz"),
)
PATHS = (
    "",
    "/s",
    "/s/ask",
    "/s/adopt",
    "/s/observe",
    "/s/extend",
    "/s/abandon",
    "/s/best",
    "/s/trials",
    "/s/observations",
    "/s/events",
    "/s/panels",
    "/s/trials/0/tell",
    "/s/trials/1/abandon",
    "/s/trials/{}/tell",
    "/{}/ask",
    "/{}",
    "/s/{}",
)


def http(seed: int, size: int) -> Tally:
    """`size` requests of our own grammar: right shapes with wrong values, and no shapes at all."""
    tally, rng = Tally(), random.Random(seed)
    with _service() as service:
        for _ in range(size):
            _request(service, rng, tally)
        tally.counts["hostile requests"] += size
        _check_still_well(service, tally)
    return tally


def schema(seed: int, size: int) -> Tally:
    """`size` requests by schemathesis, right ones and wrong ones, for all operations."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as with_seed
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode

    from test_service_schema import BEYOND_SHAPES

    tally = Tally()
    with _service() as service:
        found = schemathesis.openapi.from_url(f"{service.url}/openapi.json").get_all_operations()
        operations = [each.ok() for each in found]
        each = max(1, size // (2 * len(operations)))
        for operation in operations:
            for mode in GenerationMode:

                @settings(
                    max_examples=each,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                @with_seed(seed)
                @given(case=operation.as_strategy(generation_mode=mode))
                def check(case: Any) -> None:
                    if "name" in case.path_parameters:
                        case.path_parameters["name"] = "s"
                    if isinstance(case.body, dict) and case.body.get("n") in range(3, 101):
                        case.body["n"] = 2
                    tally.counts["requests by schemathesis"] += 1
                    case.call_and_validate(excluded_checks=BEYOND_SHAPES)

                try:
                    check()
                except Unsatisfiable:  # nothing can be wrong where nothing can be sent
                    pass
                except Exception as error:  # noqa: BLE001 (counted)
                    tally.fault("bad answers", f"{operation.label}: {error}")
        _check_still_well(service, tally)
    return tally


@contextmanager
def _service() -> Iterator[Service]:
    with (
        places.folder() as made,
        serving(str(made / "s.db"), *FREE, folder=made) as service,
    ):
        # Random decisions, so that the time goes into requests.
        study = Client(service.url).create("s", space=SPACE, budget=1_000_000, policy="random")
        study.tell(study.ask(3)[0], 1.0)
        yield service


def _request(service: Service, rng: random.Random, tally: Tally) -> None:
    path = rng.choice(PATHS).replace("{}", quote(_word(rng), safe="", errors="surrogatepass"))
    query = f"?after={quote(str(rng.choice(NUMBERS)))}" if rng.random() < 0.1 else ""
    method = rng.choice(["GET", "POST", "POST", "POST", "PUT", "HEAD"])
    headers = {"Content-Type": rng.choice(["application/json"] * 9 + ["text/plain"])}
    if rng.random() < 0.2:
        word = _word(rng).encode("ascii", "ignore").decode().replace("\x00", "")
        headers["Idempotency-Key"] = word
    body = None if method in ("GET", "HEAD") else _body(rng)
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
    try:
        connection.request(method, f"/api/studies{path}{query}", body, headers)
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, HTTPException) as error:
        tally.fault("bad answers", f"{method} {path}: {type(error).__name__}: {error}")
        return
    finally:
        connection.close()
    tally.counts[f"answers {answer.status // 100}xx"] += 1
    fine = answer.status < 500 or (answer.status == 503 and answer.getheader("Retry-After"))
    if fine and answer.status >= 400 and method != "HEAD":
        fine = len(json.loads(text)["detail"]) <= 1001
    if not fine:
        tally.fault("bad answers", f"{answer.status} {method} {path} {body!r:.100} {text!r:.100}")


def _body(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(RAW).encode("utf-8", "surrogatepass")
    if kind < 0.2:
        return rng.randbytes(rng.randrange(100))
    return json.dumps(_object(rng)).encode()


def _object(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 3 or (kind < 0.35 and depth):
        return rng.choice([rng.choice(NUMBERS), rng.random(), _word(rng)])
    if kind < 0.5 and depth:
        return [_object(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = [rng.choice(FIELDS) for _ in range(rng.randrange(6))]
    return {name: _object(rng, depth + 1) for name in names}


def _word(rng: random.Random) -> str:
    return rng.choice(WORDS)


def _check_still_well(service: Service, tally: Tally) -> None:
    # A new study: the requests may have renamed, archived or spent the other one.
    client = Client(service.url, patience=10)
    study = client.create("still well", space=SPACE, budget=1, policy="random")
    study.tell(study.ask(), 1.0)
    if "Traceback" in service.log:
        tally.fault("uncaught", service.log[service.log.index("Traceback") :])


# -- on the page -----------------------------------------------------------------------------------


def page(seed: int, size: int) -> Tally:
    """`size` studies with hostile names of studies, parameters and choices, in Chromium."""
    from selenium import webdriver

    from test_page import CHROMIUM, DRIVER, FLAGS, Page

    if CHROMIUM is None or DRIVER is None:
        raise places.Skipped("no chromium and chromedriver")
    tally, rng = Tally(), random.Random(seed)
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    with places.folder() as made:
        storage = str(made / "s.db")
        # A slash, and the names "." and "..", cannot be in an address: the service refuses them.
        names = [f"{_evil(rng).replace('/', '⁄')} {i}"[-200:] for i in range(size)]
        for name in names:
            _evil_study(storage, name, rng)
        with serving(storage, folder=made) as service:
            seen = Page(driver, service.url)
            for name in [None, *names]:  # None: the list of all
                seen.open(name)
                tally.counts["pages with hostile names"] += 1
                shown = seen.text("body")
                if name is not None and name not in shown:
                    tally.fault("bad answers", f"the page does not show {name!r}")
                for text in seen.complaints():
                    tally.fault("uncaught", f"{name!r}: {text}")
                markup = "document.querySelectorAll('main img, main script, main iframe').length"
                if seen.run(markup) or seen.run("window.hacked") or "hacked" in driver.title[:6]:
                    tally.fault("uncaught", f"{name!r} is markup")
    driver.quit()
    return tally


EVIL = [
    "<img src=x onerror=window.hacked=1>",
    "<script>window.hacked=1</script>",
    "javascript:window.hacked=1",
    '"><svg onload=window.hacked=1>',
    "${window.hacked=1}",
    "{{7*7}}",
    "'; DROP TABLE regretless_events; --",
    "%00%2e%2e",
    "#?&=+ %",
    "__proto__",
    "constructor",
    "toString",
    "ل‎‏abc",
    "𝕳𝖆𝖑𝖑𝖔 👩‍👩‍👧",
    "a\u0300\u0301\u0302" * 8,
    "NaN",
    "null",
    "0",
    "..",
    "W" * 150,
]


def _evil(rng: random.Random) -> str:
    return "".join(c for c in " ".join(rng.sample(EVIL, rng.randint(1, 2))) if c.isprintable())[
        :200
    ]


def _evil_study(storage: str, name: str, rng: random.Random) -> None:
    space = rl.Space(
        {
            _evil(rng): rl.Float(0.0, 1.0),
            f"{_evil(rng)[:150]} 2": rl.Categorical([_evil(rng), "b", f"c {_evil(rng)}"]),
            f"{_evil(rng)[:150]} 3": rl.Int(0, 2**49),
        }
    )
    with rl.Study.open(storage, name, space=space, budget=9, policy="random") as study:
        for _ in range(6):
            study.tell(study.ask(), rng.choice([1e90, -1e-300, 0.0, rng.gauss(0, 1)]))
        study.ask()
