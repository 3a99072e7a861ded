"""Clients that serve requests from a table: the hash, the split, outcomes, and every failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import assignment_vectors as vectors
from regretless.client import Traffic, slot_of
from regretless.client import traffic as module
from regretless.engine.slots import assign_slots
from regretless.errors import ConfigError, DataError, ServiceError, StorageError, UnknownTrialError
from traffic_service import FakeService, table, until

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "src" / "regretless" / "service" / "static" / "traffic.mjs"
NODE, CHROMIUM = shutil.which("node"), shutil.which("chromium")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")
NEVER = 1e6  # seconds: the test sends outcomes itself
AWAY = "hang up before"


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService().running() as running:
        yield running


@pytest.fixture
def traffic(service: FakeService) -> Iterator[Traffic]:
    with Traffic(service.url, "shop", flush_seconds=NEVER) as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the client is the only element, which the test changes."""
    time = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: time[0])
    return time


def p_of_counts(counts: np.ndarray, shares: np.ndarray) -> float:
    """The p-value of Pearson's chi-square test."""
    expected = counts.sum() * shares
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


# --- the hash -------------------------------------------------------------------------------------


def stored() -> dict:
    return json.loads(vectors.PATH.read_text())


def test_the_stored_vectors_are_those_of_the_definition() -> None:
    assert stored() == vectors.vectors()
    assert len(stored()["hashes"]) >= 200


def test_the_vectors_in_python(service: FakeService) -> None:
    for each in stored()["hashes"]:
        assert slot_of(each["unit"], each["salt"], each["slots"]) == each["slot"], each
    for case in stored()["tables"]:
        service.table = case["table"]
        with Traffic(service.url, "shop") as traffic:
            found = [traffic.assign(each["unit"]) for each in case["assigned"]]
        assert [seen.trial for seen in found] == [each["trial"] for each in case["assigned"]]
        params = {row["trial"]: (row["params"], row["row"]) for row in case["table"]["rows"]}
        assert all((seen.params, seen.row) == params[seen.trial] for seen in found)


CHECK_VECTORS = """
async function wrong(vectors, url, setTable) {
  let count = 0;
  for (const each of vectors.hashes) {
    count += slotOf(each.unit, each.salt, each.slots) !== each.slot;
  }
  for (const { table, assigned } of vectors.tables) {
    await setTable(table);
    const traffic = await Traffic.open(url, "shop");
    for (const { unit, trial } of assigned) count += traffic.assign(unit).trial !== trial;
    await traffic.close();
  }
  return count;
}
"""


def run_node(program: str, *arguments: str, timeout: float = 120) -> str:
    code = f"import {{ Traffic, slotOf }} from {json.dumps(SCRIPT.as_uri())};\n{program}"
    command = [NODE, "--input-type=module", "--eval", code, "--", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert run.returncode == 0, run.stderr
    return run.stdout


@needs_node
def test_the_vectors_in_node(service: FakeService) -> None:
    program = (
        CHECK_VECTORS
        + """
import { readFileSync } from "node:fs";
const vectors = JSON.parse(readFileSync(process.argv[1], "utf8"));
let table;
globalThis.fetch = async () => new Response(JSON.stringify(table));
console.log(await wrong(vectors, "http://x", (each) => { table = each; }));
"""
    )
    assert run_node(program, str(vectors.PATH)).strip() == "0"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_the_vectors_in_a_browser(tmp_path: Path) -> None:
    page = f"""<script type="module">
{SCRIPT.read_text().replace("export ", "")}
{CHECK_VECTORS}
const vectors = {vectors.PATH.read_text()};
let table;
globalThis.fetch = async () => new Response(JSON.stringify(table));
const found = await wrong(vectors, "http://x", (each) => {{ table = each; }});
document.body.textContent = `${{found}} of ${{vectors.hashes.length}} are wrong`;
</script><body></body>"""
    (tmp_path / "page.html").write_text(page)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    address = (tmp_path / "page.html").as_uri()
    run = subprocess.run(
        [CHROMIUM, *flags, profile, "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"0 of {len(stored()['hashes'])} are wrong" in run.stdout, run.stderr[-2000:]


@given(st.text(alphabet=st.characters(exclude_categories=[])), st.text(max_size=5))
def test_any_text_is_hashed_as_defined(unit: str, salt: str) -> None:
    halves = unit.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins pairs
    assert slot_of(unit, salt) == vectors.slot_of(halves, salt, 10_000)


def test_a_whole_number_is_its_text() -> None:
    assert slot_of(17, "shop") == slot_of("17", "shop") == slot_of(np.int64(17), "shop")


@pytest.mark.parametrize("unit", [None, 1.5, True, b"a", ["a"], nan])
def test_what_no_unit_can_be(unit: object, traffic: Traffic) -> None:
    with pytest.raises(DataError, match="unit"):
        traffic.assign(unit)  # type: ignore[arg-type]


UNITS = 1_000_000


def test_the_split_is_right_on_a_million_units(service: FakeService) -> None:
    shares = {1: 0.6, 2: 0.2, 3: 0.1, 4: 0.05, 5: 0.03, 6: 0.01, 7: 0.005, 8: 0.005}
    service.table = table(shares)
    with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
        counts = Counter(traffic.assign(f"user-{i}").row for i in range(UNITS))
    found = np.array([counts[row] for row in shares])
    assert p_of_counts(found, np.array(list(shares.values()))) > 1e-3


def slots_of(units: list[str], salt: str) -> np.ndarray:
    return np.array([slot_of(unit, salt) for unit in units])


def test_the_slots_of_two_studies_are_independent() -> None:
    units = [str(i) for i in range(200_000)]
    slots = {salt: slots_of(units, salt) for salt in ("shop", "shop2", "prices")}
    for one in slots.values():
        assert p_of_counts(np.bincount(one, minlength=10_000), np.full(10_000, 1e-4)) > 1e-4
    for a, b in [("shop", "shop2"), ("shop", "prices"), ("shop2", "prices")]:
        cells = slots[a] // 200 * 50 + slots[b] // 200
        assert p_of_counts(np.bincount(cells, minlength=2500), np.full(2500, 1 / 2500)) > 1e-4


def test_units_stay_while_their_row_lives(service: FakeService) -> None:
    """Three rows end and three begin; the kept ones keep their shares."""
    kept = {1: 0.62, 2: 0.11, 3: 0.09, 4: 0.06, 5: 0.05}
    first = kept | {6: 0.03, 7: 0.03, 8: 0.01}
    second = kept | {9: 0.05, 10: 0.01, 11: 0.01}
    before = assign_slots(first, {})
    tables = [before, assign_slots(second, before)]
    units = [f"user-{i}" for i in range(100_000)]
    seen = []
    for version, (shares, slots) in enumerate(zip([first, second], tables, strict=True), start=1):
        service.table = table(shares, version)
        for row in service.table["rows"]:
            row["slots"] = [list(each) for each in slots[row["row"]]]
        with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
            seen.append([traffic.assign(unit).row for unit in units])
    of_kept = [(a, b) for a, b in zip(*seen, strict=True) if a in kept]
    assert sum(a == b for a, b in of_kept) >= 0.999 * len(of_kept)
    assert len(of_kept) > 90_000


# --- the table ------------------------------------------------------------------------------------


def test_what_a_unit_gets_is_its_own(traffic: Traffic) -> None:
    params, trial, row = traffic.assign("a")
    assert trial == 100 + row
    assert params == {"price": float(row)}
    params["price"] = -1.0
    assert traffic.assign("a").params == {"price": float(row)}


def test_the_last_table_serves_until_it_expires(
    service: FakeService, clock: list[float], traffic: Traffic
) -> None:
    trial = traffic.assign("a").trial
    service.fails = lambda method, body: AWAY
    clock[0] += 599.0
    assert not traffic.refresh()
    assert (traffic.assign("a").trial, traffic.expired) == (trial, False)
    clock[0] += 1.0
    assert traffic.expired
    assert traffic.assign("a") == ({"price": 10.0}, None, None)
    traffic.record(traffic.assign("a"), 5.0)  # belongs to no trial
    assert traffic.unsent == 0
    traffic.record(trial, 5.0)  # an order of a customer who saw the old table
    service.fails = lambda method, body: None
    assert traffic.flush()
    assert service.totals() == {trial: (1, 5.0, 25.0)}
    assert traffic.refresh()
    assert traffic.assign("a").trial == trial


def test_the_time_of_a_slow_answer_counts(service: FakeService, clock: list[float]) -> None:
    def slow(method: str, body: dict) -> None:
        clock[0] += 400.0

    service.fails = slow
    with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
        assert not traffic.expired
        clock[0] += 200.0
        assert traffic.expired


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        ({"price": 7.0}, {"price": 10.0}, {"price": 7.0}),
        (None, {"price": 10.0}, {"price": 10.0}),
        (None, None, {"price": 1.0}),  # row 1 has the largest share
    ],
)
def test_which_setting_serves_without_a_table(
    service: FakeService, clock: list[float], given: dict, known: dict, expected: dict
) -> None:
    service.table["baseline"] = known
    with Traffic(service.url, "shop", baseline=given, flush_seconds=NEVER) as traffic:
        clock[0] += 1000.0
        service.fails = lambda method, body: AWAY
        assert traffic.assign("a").params == expected


def test_a_start_without_the_service_needs_a_baseline(service: FakeService) -> None:
    service.fails = lambda method, body: AWAY
    with pytest.raises(StorageError):
        Traffic(service.url, "shop")
    with Traffic(service.url, "shop", baseline={"price": 8.0}, flush_seconds=NEVER) as traffic:
        assert traffic.assign("a") == ({"price": 8.0}, None, None)
        assert traffic.version is None
        service.fails = lambda method, body: None
        assert traffic.refresh()
        assert traffic.assign("a").trial is not None


def test_the_table_is_fetched_in_the_background(service: FakeService) -> None:
    service.table = table({1: 1.0}, ttl=1.0, valid_for=1.0)
    with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
        service.table = table({2: 1.0}, version=2, ttl=1.0, valid_for=1.0)
        until(lambda: traffic.assign("a").row == 2)
        assert traffic.version == 2


def test_an_older_table_is_not_taken_while_the_newer_one_is_valid(
    service: FakeService, clock: list[float]
) -> None:
    service.table = table({1: 1.0}, version=5)
    with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
        service.table = table({2: 1.0}, version=4)
        traffic.refresh()
        assert (traffic.version, traffic.assign("a").row) == (5, 1)
        clock[0] += 1000.0
        traffic.refresh()
        assert (traffic.version, traffic.assign("a").row) == (4, 2)


BROKEN = [
    [],
    {},
    {"rows": []},
    table({1: 1.0}) | {"slots": 20_000},
    table({1: 1.0}) | {"valid_for": None},
    table({1: 1.0}) | {"salt": None},
    table({1: 1.0, 2: 1.0}) | {"rows": table({1: 1.0})["rows"] * 2},
]


@pytest.mark.parametrize("broken", BROKEN)
def test_an_answer_that_is_no_table_changes_nothing(
    service: FakeService, traffic: Traffic, broken: object
) -> None:
    trial, service.table = traffic.assign("a").trial, broken
    assert not traffic.refresh()
    assert traffic.assign("a").trial == trial
    with pytest.raises(ServiceError, match="table"):
        Traffic(service.url, "shop")


def test_what_the_service_is_asked_for(service: FakeService) -> None:
    with Traffic(service.url, "a shop", arms=4, ttl=60, flush_seconds=NEVER):
        assert service.asked == ["/api/studies/a%20shop/allocation?arms=4&ttl=60"]


# --- outcomes -------------------------------------------------------------------------------------


def test_many_outcomes_are_one_report(service: FakeService, traffic: Traffic) -> None:
    expected: dict = {}
    for i in range(300):
        seen, value = traffic.assign(f"user-{i}"), float(i % 7)
        traffic.record(seen, value)
        count, total, squares = expected.get(seen.trial, (0, 0.0, 0.0))
        expected[seen.trial] = (count + 1, total + value, squares + value**2)
    assert traffic.unsent == 300
    assert traffic.flush()
    assert (service.totals(), len(service.posts()), traffic.unsent) == (expected, 1, 0)
    assert traffic.flush()
    assert len(service.posts()) == 1  # nothing is sent if there is nothing


@pytest.mark.parametrize(
    "wrong", [AWAY, "hang up after", (503, {"detail": "busy"}), (429, {}), (401, {}), (500, {})]
)
def test_a_report_is_repeated_as_it_was_until_it_is_acknowledged(
    service: FakeService, traffic: Traffic, wrong: object
) -> None:
    service.fails = lambda method, body: wrong
    traffic.record(101, 1.0)
    assert not traffic.flush()
    traffic.record(101, 2.0)  # must not change what was sent
    assert not traffic.flush()
    assert traffic.unsent == 2
    service.fails = lambda method, body: None
    assert traffic.flush()
    assert service.totals() == {101: (2, 3.0, 5.0)}
    first, second, third, other = service.posts()
    assert first == second == third
    assert other[1] != first[1]


@pytest.mark.parametrize(
    "refusal",
    [
        (404, {"error": "UnknownTrialError", "detail": "trial 7 was never asked"}),
        (409, {"error": "TrialError", "detail": "trial 7 was rejected"}),
        (422, {"detail": "reports"}),
    ],
)
def test_a_refused_report_does_not_hold_up_the_others(
    service: FakeService,
    traffic: Traffic,
    refusal: tuple,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(method: str, body: dict) -> object:
        wrong = any(each["trial"] == 7 for each in body.get("reports", []))
        return refusal if wrong else None

    service.fails = fails
    for trial in (101, 7, 102):
        traffic.record(trial, 1.0)
    assert traffic.flush()
    assert service.totals() == {101: (1, 1.0, 1.0), 102: (1, 1.0, 1.0)}
    assert "refused the outcomes {'trial': 7" in caplog.text


def test_very_many_trials_go_in_several_calls(service: FakeService, traffic: Traffic) -> None:
    for trial in range(1200):
        traffic.record(trial, 1.0)
    assert traffic.flush()
    assert len(service.totals()) == 1200
    assert len(service.posts()) == 3


def test_outcomes_are_sent_in_the_background_also_after_an_outage(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    with Traffic(service.url, "shop", flush_seconds=0.05) as traffic:
        service.fails = lambda method, body: AWAY
        traffic.record(101, 1.0)
        until(lambda: len(service.posts()) >= 2)
        service.fails = lambda method, body: None
        until(lambda: traffic.unsent == 0)
    assert service.totals() == {101: (1, 1.0, 1.0)}
    assert len({key for _, key, _ in service.posts()}) == 1
    assert "can't send outcomes" in caplog.text
    assert "can send outcomes again" in caplog.text


def test_closing_sends_the_rest(service: FakeService) -> None:
    with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
        traffic.record(101, 1.0)
    assert service.totals() == {101: (1, 1.0, 1.0)}
    with pytest.raises(ConfigError, match="closed"):
        traffic.record(101, 1.0)
    assert traffic.assign("a").trial is not None
    traffic.close()  # a second time does no harm


def test_closing_gives_up_and_says_so(
    service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    traffic = Traffic(service.url, "shop", flush_seconds=NEVER)
    traffic.record(101, 1.0)
    service.fails = lambda method, body: AWAY
    traffic.close(patience=0.0)
    assert "1 outcomes were not sent" in caplog.text


@pytest.mark.parametrize("value", [nan, inf, 1e200, "1", None, True])
def test_what_no_outcome_can_be(traffic: Traffic, value: object) -> None:
    with pytest.raises(DataError, match="value"):
        traffic.record(101, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trial", "error"),
    [
        ("101", UnknownTrialError),
        (True, UnknownTrialError),
        (1.0, UnknownTrialError),
        (-1, ConfigError),
    ],
)
def test_what_no_trial_can_be(traffic: Traffic, trial: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="trial"):
        traffic.record(trial, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"url": "ftp://x"}, {"study": ""}, {"flush_seconds": 0}, {"baseline": 3}, {"timeout": -1}],
)
def test_arguments_that_are_not_valid(service: FakeService, wrong: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong)).replace("study", "name")):
        Traffic(**{"url": service.url, "study": "shop"} | wrong)


# --- threads, forks and the end of a process ------------------------------------------------------


def test_no_outcome_of_many_threads_is_lost_or_doubled(service: FakeService) -> None:
    answers = iter([AWAY, "hang up after", None] * 10_000)
    service.fails = lambda method, body: next(answers) if method == "POST" else None
    with Traffic(service.url, "shop", flush_seconds=0.01) as traffic:

        def visit(first: int) -> None:
            for i in range(3000):
                traffic.record(traffic.assign(f"{first}-{i}"), 1.0)

        threads = [threading.Thread(target=visit, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        service.fails = lambda method, body: None
    counts = [total[0] for total in service.totals().values()]
    assert sum(counts) == 4 * 3000


FORK = """
import os, sys
from regretless.client import Traffic
traffic = Traffic(sys.argv[1], "shop", flush_seconds=1e6)
traffic.record(1, 1.0)             # of the parent
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        assert traffic.unsent == 0
        assert traffic.assign("a").trial is not None
        traffic.record(2, 10.0)
        traffic.close()
        os._exit(0 if traffic.unsent == 0 and not traffic.expired else 1)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
traffic.record(1, 1.0)             # sent at the end, because nobody closes it
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_each_process_sends_what_it_recorded(service: FakeService) -> None:
    subprocess.run([sys.executable, "-c", FORK, service.url], check=True, timeout=120)
    assert service.totals() == {1: (2, 2.0, 2.0), 2: (3, 30.0, 300.0)}


# --- the page of the documentation ----------------------------------------------------------------


def test_the_slots_of_the_page_are_right() -> None:
    page = (ROOT / "docs" / "traffic.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|$", page, flags=re.MULTILINE)
    assert len(rows) == 5
    for unit, slot in rows:
        assert slot_of("" if unit == "(empty)" else unit, "shop") == int(slot)


# --- node -----------------------------------------------------------------------------------------

NODE_RUN = """
const [url] = process.argv.slice(1);
const traffic = await Traffic.open(url, "shop", { flushSeconds: 0.05 });
const seen = [];
for (let i = 0; i < 1000; i++) {
  const each = traffic.assign(`user-${i}`);
  seen.push(each.trial);
  traffic.record(each, i % 7);
  if (i % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 30));
}
for (const wrong of [NaN, Infinity, 1e200, "1", null]) {
  try { traffic.record(101, wrong); console.log("taken:", wrong); } catch {}
}
for (const wrong of [null, 1.5, true, undefined, {}]) {
  try { traffic.assign(wrong); console.log("assigned:", wrong); } catch {}
}
console.log(JSON.stringify(seen));
"""


@needs_node
def test_node_loses_nothing_and_doubles_nothing(service: FakeService) -> None:
    """Two of three reports fail; the process ends without `close`."""
    answers = iter([AWAY, "hang up after", None] * 10_000)
    service.fails = lambda method, body: next(answers) if method == "POST" else None
    end = "\nwhile (!(await traffic.flush()));"
    trials = json.loads(run_node(NODE_RUN + end, service.url).strip())
    with Traffic(service.url, "shop", flush_seconds=NEVER) as traffic:
        assert [traffic.assign(f"user-{i}").trial for i in range(1000)] == trials
    expected: dict = {}
    for i, trial in enumerate(trials):
        count, total, squares = expected.get(trial, (0, 0.0, 0.0))
        expected[trial] = (count + 1, total + i % 7, squares + (i % 7) ** 2)
    assert service.totals() == expected


@needs_node
def test_node_sends_the_rest_when_it_ends(service: FakeService) -> None:
    program = """
const traffic = await Traffic.open(process.argv[1], "shop", { flushSeconds: 1e6 });
traffic.record(101, 2);
"""
    run_node(program, service.url)
    assert service.totals() == {101: (1, 2.0, 4.0)}
    service.fails = lambda method, body: AWAY if method == "POST" else None
    run_node(program, service.url)  # ends, although the service is away


@needs_node
def test_node_without_a_valid_table(service: FakeService) -> None:
    service.table = table({1: 1.0})
    program = """
const url = process.argv[1];
const now = performance.now();
let later = 0; // ms
performance.now = () => now + later;
const traffic = await Traffic.open(url, "shop", { flushSeconds: 1e6 });
const first = traffic.assign("a");
globalThis.fetch = async () => { throw new Error("away"); };
later = 599_999;
if (traffic.expired) throw new Error("too early");
later = 600_001;
const second = traffic.assign("a");
traffic.record(second, 1);
traffic.record(first, 3);
const other = await Traffic.open(url, "shop", { baseline: { price: 8 } });
const error = await Traffic.open(url, "shop").catch((each) => each.message);
console.log(JSON.stringify([first, second, traffic.unsent, other.assign("b"), error]));
process.exit();
"""
    first, second, unsent, other, error = json.loads(run_node(program, service.url))
    assert first == {"params": {"price": 1.0}, "trial": 101, "row": 1}
    assert second == {"params": {"price": 10.0}, "trial": None, "row": None}
    assert unsent == 1
    assert other == {"params": {"price": 8.0}, "trial": None, "row": None}
    assert error == "away"
