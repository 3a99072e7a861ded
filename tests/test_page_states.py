"""The live page in every state that a study can be in: right, readable, and nothing cut off."""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("selenium")

import regretless as rl
from pages import CHROMIUM, DRIVER, Page, assert_shows, is_shown, quiet
from regretless.studies.study import Study
from regretless.verdict import STATES as TITLES
from regretless.verdict import verdict
from serving import Service, serving
from test_large_studies import write_study

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no chromium and chromedriver on this machine"
)

AXE = Path(__file__).parent / "assets" / "axe.min.js"  # axe-core 4.14.0, as npm has it
SPACE = rl.Space(
    {
        "cache_mb": rl.Int(16, 2048, log=True),
        "timeout_s": rl.Float(0.5, 20.0),
        "codec": rl.Categorical(["none", "gzip", "zstd"]),
    }
)
TODAY: dict[str, Any] = {"cache_mb": 64, "timeout_s": 3.0, "codec": "gzip"}
NAMED: dict[str, Any] = {"metric": "p95 latency", "unit": "ms", "direction": "minimize"}
WIDTHS = (360, 768, 1440)
PHONE = (360, 800)
SCREENS = 3  # of a phone, before the details
GENEROUS = 10  # times as long as it may take: the machine may be busy


def latency(params: dict[str, Any], rng: np.random.Generator) -> float:
    cache = np.log(params["cache_mb"] / 700.0)
    codec = {"none": 22.0, "gzip": 9.0, "zstd": 0.0}[params["codec"]]
    timeout = (params["timeout_s"] - 8.0) / 4.0
    return float(117.0 + 9.0 * cache**2 + 14.0 * timeout**2 + codec + rng.normal(0.0, 3.0))


def some_point(rng: np.random.Generator) -> dict[str, Any]:
    return SPACE.decode(SPACE.spread(rng.random((1, SPACE.dim)))[0])


def tuned(storage: str, name: str, asks: int, adopted: int = 0, **settings: Any) -> None:
    """A study with results of trials that were asked for, and of others that were chosen here."""
    rng = np.random.default_rng(1)
    given = {"space": SPACE, "budget": 150, "seed": 1, **NAMED} | settings
    with Study.open(storage, name, **given) as study:
        for _ in range(asks):
            trial = study.ask()
            study.tell(trial, latency(trial.params, rng))
        for _ in range(adopted):
            trial = study.adopt(some_point(rng))
            study.tell(trial, latency(trial.params, rng))


def with_pending(storage: str) -> None:
    tuned(storage, "pending", 12)
    rng = np.random.default_rng(2)
    with Study.open(storage, "pending") as study:
        for _ in range(30):
            study.adopt(some_point(rng))


def archived(storage: str) -> None:
    tuned(storage, "archived", 8)
    with Study.open(storage, "archived") as study:
        study.archive()


def maximised(storage: str) -> None:
    """Without a name or a unit, but with what was known before."""
    rng = np.random.default_rng(3)
    with Study.open(storage, "maximise", space=SPACE, budget=40) as study:
        study.observe(TODAY, -200.0)
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, -latency(trial.params, rng))


def in_contexts(storage: str) -> None:
    rng = np.random.default_rng(4)
    hours = {"hour": rl.Cyclic(0.0, 24.0), "day": rl.Categorical(["work", "weekend"])}
    with Study.open(storage, "contexts", space=SPACE, budget=60, contexts=hours, **NAMED) as study:
        for i in range(14):
            seen = {"hour": float(rng.uniform(0, 24)), "day": ("work", "weekend")[i % 2]}
            trial = study.ask(context=seen)
            study.tell(trial, latency(trial.params, rng) + 0.2 * seen["hour"])


def changed(storage: str) -> None:
    rng = np.random.default_rng(5)
    settings = {"space": SPACE, "horizon": 60, "drift": "auto", **NAMED}
    with Study.open(storage, "changed", **settings) as study, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that something changed
        for i in range(46):
            trial = study.adopt({"cache_mb": 700, "timeout_s": 8.0, "codec": "zstd"})
            study.tell(trial, (117.0 if i < 40 else 170.0) + rng.normal(0.0, 2.0))


def guarded(storage: str) -> None:
    """All cards at once: a baseline, a loss budget, guardrails and approval."""
    rng = np.random.default_rng(6)
    limits = {"guardrails": [rl.AtMost("errors", 5.0)], "loss_budget": 500.0, "baseline": TODAY}
    settings = {"space": SPACE, "budget": 40, "mode": "recommend", **limits, **NAMED}
    with Study.open(storage, "guarded", **settings) as study:
        for _ in range(8):
            trial = study.ask()
            study.approve(trial)
            study.tell(trial, latency(trial.params, rng), metrics={"errors": rng.uniform(1, 3)})
        study.ask(2)


def split(storage: str) -> None:
    """Traffic is split among settings, and clients report results."""
    rng = np.random.default_rng(7)
    settings = {"space": SPACE, "budget": 400, "baseline": TODAY, **NAMED}
    with Study.open(storage, "split", **settings) as study:
        for turn in range(3):
            for arm in study.allocate(arms=6, ttl=600.0, renew=True).rows:
                values = np.array([latency(arm.trial.params, rng) for _ in range(8)])
                numbers = {"sum": float(values.sum()), "sum_squares": float((values**2).sum())}
                key = f"{turn} {arm.trial.number}"
                study.report(arm.trial.number, **numbers, count=8, key=key)


STATES: dict[str, Callable[[str], None]] = {
    "empty": lambda storage: tuned(storage, "empty", 0),
    "one": lambda storage: tuned(storage, "one", 1),
    "five": lambda storage: tuned(storage, "five", 5),
    "sixty": lambda storage: tuned(storage, "sixty", 20, 40),
    "hundreds": lambda storage: write_study(Path(storage), 500, 80, "hundreds"),
    "pending": with_pending,
    "spent": lambda storage: tuned(storage, "spent", 12, budget=12),
    "archived": archived,
    "maximise": maximised,
    "contexts": in_contexts,
    "changed": changed,
    "guarded": guarded,
    "split": split,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("states")
    shutil.copy(all_states(tmp_path_factory.getbasetemp()), folder / "s.db")
    with serving(str(folder / "s.db"), folder=folder) as running:
        yield running


def all_states(base: Path) -> Path:
    """A journal with all states.  The first of the processes that share the tests makes it."""
    import fcntl

    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "states.db"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            making = place.with_name("new-states.db")
            for make in STATES.values():
                make(str(making))
            making.rename(place)
    return place


@pytest.fixture
def page(driver: Any, service: Service) -> Iterator[Page]:
    with quiet(driver, service.url) as shown:
        yield shown


# -- right ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATES)
def test_the_cards_are_the_study_s_own_answers(page: Page, service: Service, name: str) -> None:
    page.open(name, "#budget")
    with Study.open(service.storage, name, read_only=True) as study:
        view = study.snapshot()
        optimizer, found = view.optimizer, verdict(view.optimizer)
        rows, pending = optimizer.history(), optimizer.pending
    assert page.text("#state") == TITLES[found.state]
    told = [row for row in rows if row.status == "told"]
    left = found.left if found.left is not None else optimizer.asked
    assert page.text("#budget").replace(",", "") == str(left)
    assert is_visible(page, "How to begin") == (not rows)
    assert is_visible(page, "Results") == bool(told)
    table = optimizer.allocation
    assert is_visible(page, "Pending trials") == (bool(pending) and table is None)
    assert is_visible(page, "Traffic") == (table is not None)
    if table is not None:
        assert len(page.all("#traffic tbody tr")) == len(table.rows)
        largest = max(arm.share for arm in table.rows)
        assert page.text("#traffic tbody td:nth-child(3)") == f"{100 * largest:.0f} %"
    if found.best is None:
        assert not page.all("#best-mean")
        return
    seen = optimizer._records.last_context
    best = optimizer.best(context=seen) if seen else found.best
    unit = "" if optimizer.unit is None else f"\u00a0{optimizer.unit}"
    assert is_shown(page.text("#best-mean").removesuffix(unit), best.mean)
    assert page.text("#best-mean").endswith(unit)
    assert page.facts("#incumbent .params") == {k: shown(v) for k, v in best.params.items()}
    assert dots(page, "Results") == len(told)
    check_gain(page.text("#gain"), found)
    page.details()
    assert page.facts("#model")["Told"] == str(len(told))
    assert page.facts("#model")["Pending"] == str(len(pending))
    assert len(page.all(".ribbon .cell")) == sum(row.decision is not None for row in rows)
    assert is_visible(page, "Guardrails") == bool(optimizer.safety.guardrails)
    assert is_visible(page, "Best setting by context") == bool(optimizer.contexts)


def shown(value: Any) -> str:
    """As a browser writes a value in full."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def check_gain(text: str, found: Any) -> None:
    if found.gain_low == found.gain_high:
        assert "is the best so far" in text
        return
    amount = found.gain if found.percent is None else found.percent
    assert_shows(text, abs(amount))
    clear = found.gain_low > 0 or found.gain_high < 0
    assert ("Not clearly better" in text) != clear
    than = {"baseline": "today", "observed setting": "observed before", "first point": "first"}
    assert than[found.over] in text


def is_visible(page: Page, title: str) -> bool:
    found = page.driver.find_elements("xpath", f"//section[h2='{title}']")
    return bool(found) and bool(found[0].is_displayed())


def dots(page: Page, title: str) -> int:
    """How many results a chart shows: one by one, or as one path."""
    picture = page.card(title).find_element("css selector", "svg[role=img]")
    single = picture.find_elements("css selector", "circle.told")
    spots = picture.find_elements("css selector", "path.spots.told")
    return len(single) + sum(path.get_attribute("d").count("M") for path in spots)


def test_only_what_is_possible_can_be_done(page: Page) -> None:
    for name, why in {
        "spent": "All 12 trials were asked for",
        "archived": "archived",
        "contexts": "only programs can ask",
    }.items():
        page.open(name, "#ask-off")
        assert not page.one("#ask").is_enabled()
        assert why in page.text("#ask-off")
    page.open("sixty", "#ask")
    assert page.one("#ask").is_enabled()
    assert not page.one("#ask-off").is_displayed()


def test_what_to_do_next(page: Page) -> None:
    for name, words in {
        "empty": "ask for the first trial",
        "pending": "tell the results of 30 pending trials",
        "spent": "run the best setting, or extend",
        "archived": "archived",
        "guarded": "2 proposals to approve or reject",
    }.items():
        page.open(name, "#next")
        assert words in page.text("#next")


def test_many_pending_trials_are_folded(page: Page) -> None:
    page.open("pending", ".waiting li")
    rows = page.all(".waiting li")
    assert [row.is_displayed() for row in rows] == [True] * 2 + [False] * 28
    page.button("Show all 30").click()
    assert all(row.is_displayed() for row in rows)
    for button in page.all(".waiting button"):  # none is cut off, or under another one
        box = button.rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280


def test_how_to_begin_can_be_copied(page: Page, service: Service) -> None:
    page.open("empty", ".way pre")
    programs = page.texts(".way pre")
    assert len(programs) == 3
    assert all("empty" in program for program in programs)
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    page.one(".way button").click()
    page.wait(lambda: "Copied" in page.text(".way button"))
    assert clipboard(page) == programs[0]
    page.open("sixty", "#best-mean")
    for label, wanted in {
        "Copy as JSON": lambda best: json.dumps(best, separators=(",", ":")),
        "as environment": lambda best: "CACHE_MB=",
        "as flags": lambda best: "--cache-mb ",
    }.items():
        page.driver.find_element("xpath", f"//button[starts-with(., '{label}')]").click()
        with Study.open(service.storage, "sixty", read_only=True) as study:
            best = study.best().params
        page.wait(lambda wanted=wanted, best=best: wanted(best) in clipboard(page))
        if label == "Copy as JSON":
            assert json.loads(clipboard(page)) == best  # to the last digit


def clipboard(page: Page) -> str:
    text = page.driver.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], () => arguments[0](''))"
    )
    return str(text)


def test_charts_and_tables_are_saved(page: Page, service: Service, tmp_path: Path) -> None:
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.open("sixty", "#best-mean")
    page.button("PNG", page.card("Results")).click()
    page.wait(lambda: list(tmp_path.glob("*.png")))
    picture = next(tmp_path.glob("*.png"))
    page.wait(lambda: picture.read_bytes()[:4] == b"\x89PNG")
    page.button("Download CSV").click()
    page.wait(lambda: list(tmp_path.glob("*.csv")))
    table = next(tmp_path.glob("*.csv"))
    page.wait(lambda: len(table.read_text().splitlines()) == 61)
    header = table.read_text().splitlines()[0]
    assert "time" in header
    assert "params_cache_mb" in header


def test_two_studies_side_by_side(page: Page, service: Service) -> None:
    page.driver.get("about:blank")
    page.driver.get(f"{page.url}/#/compare/sixty/guarded")
    page.wait(lambda: page.all("#compared tbody tr"))
    cells = page.texts("#compared tbody tr:nth-child(4) td")
    for name, text in zip(("sixty", "guarded"), cells, strict=True):
        with Study.open(service.storage, name, read_only=True) as study:
            assert_shows(text, study.best().mean)
    ids = page.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


# -- readable -------------------------------------------------------------------------------------

# What sticks out to the right of the window, and text of a chart that leaves its picture.
CUT_OFF = """
    const out = [];
    const wide = document.documentElement.clientWidth;
    for (const each of document.querySelectorAll("main *, header *")) {
      const box = each.getBoundingClientRect();
      if (!box.width || each.closest(".unseen, clipPath, g[clip-path]")) continue;
      const style = getComputedStyle(each);
      if (style.position === "absolute" && style.clipPath !== "none") continue;
      if (box.right > wide + 1 || box.left < -1) out.push(each.outerHTML.slice(0, 120));
      if (each.scrollWidth > each.clientWidth + 1 && /hidden|clip/.test(style.overflowX))
        out.push("cut: " + each.outerHTML.slice(0, 120));
    }
    for (const text of document.querySelectorAll("svg[role=img] text")) {
      const box = text.getBoundingClientRect();
      const around = text.closest("svg").getBoundingClientRect();
      if (box.left < around.left - 1 || box.right > around.right + 1 || box.top < around.top - 1)
        out.push(`axis: ${text.textContent}`);
    }
    if (document.documentElement.scrollWidth > wide) out.push("the page scrolls sideways");
    return out;
"""


@pytest.mark.parametrize("name", STATES)
def test_it_is_readable(page: Page, name: str) -> None:
    """A phone needs three screens, nothing is cut off at any width, and axe finds nothing."""
    page.look(*PHONE)
    page.open(name, "#budget")
    time.sleep(0.2)
    above = page.run("document.querySelector('details.more').getBoundingClientRect().top")
    assert above <= SCREENS * PHONE[1]
    assert not page.run("document.querySelector('details.more').open")
    page.details()
    for width in WIDTHS:
        page.look(width, 800)
        page.wait(lambda: not page.all(".card svg[role=img][width='0']"))
        time.sleep(0.2)  # the charts are drawn at the new width
        assert page.driver.execute_script(CUT_OFF) == [], width
    for scheme in ("light", "dark"):
        page.look(1280, 900, scheme)
        time.sleep(0.2)
        assert violations(page) == [], scheme


@pytest.mark.parametrize("where", ["", "docs", "#/compare/sixty/guarded", "#/studies/nobody"])
def test_nothing_is_cut_off_elsewhere(page: Page, where: str) -> None:
    page.forgiven = ["404"]  # Chromium's own remark on the study that is not there
    for width in WIDTHS:
        page.look(width, 800)
        page.driver.get("about:blank")
        page.driver.get(f"{page.url}/{where}")
        page.wait(lambda: len(page.text("main")) > 40)
        time.sleep(0.5)
        assert page.driver.execute_script(CUT_OFF) == [], width


def test_a_reader_of_a_phone_gets_the_reference_at_its_width(page: Page) -> None:
    size = {"width": 360, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.driver.get(f"{page.url}/docs")
    assert page.run("window.innerWidth") == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_list(page: Page, scheme: str) -> None:
    page.look(1280, 900, scheme)
    page.open(None, "table a")
    assert violations(page) == []


def test_axe_finds_nothing_elsewhere(page: Page) -> None:
    page.forgiven = ["404"]
    for where in ("docs", "#/compare/sixty/guarded", "#/studies/nobody"):
        page.driver.get("about:blank")
        page.driver.get(f"{page.url}/{where}")
        page.wait(lambda: len(page.text("main")) > 40)
        assert violations(page) == []
    page.open("sixty", "#best-mean")
    page.button("Archive…").click()
    assert violations(page) == []


def violations(page: Page) -> list[str]:
    if not page.run("Boolean(window.axe)"):
        page.driver.execute_script(AXE.read_text())
    script = "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
    found = page.driver.execute_async_script(script)["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:150]}" for each in found]


def test_a_few_results_are_not_at_the_edge(page: Page) -> None:
    for name in ("one", "five"):
        page.open(name, "#best-mean")
        picture = page.card("Results").find_element("css selector", "svg[role=img]")
        box = picture.rect
        for dot in picture.find_elements("css selector", "circle.told"):
            place = dot.rect["x"] - box["x"]
            assert 30 < place < box["width"] - 30
        ticks = page.texts("svg[role=img] .axes text")
        assert "0" in ticks


def test_log_axes_have_ticks_that_can_be_read(page: Page) -> None:
    page.open("sixty", "#best-mean")
    ask = """
        const { ticksOf } = await import("/static/charts.js");
        arguments[0]([[16, 2048], [0.1, 10], [1e-6, 0.1], [3, 4], [1e-9, 1e9]].map(
          ([low, high]) => ticksOf(low, high, 6)));
    """
    ranges = page.driver.execute_async_script(ask)
    assert ranges[0] == ["20", "50", "100", "200", "500", "1,000", "2,000"]
    assert ranges[1] == ["0.1", "0.2", "0.5", "1", "2", "5", "10"]
    assert ranges[2] == ["10⁻⁶", "10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1"]
    assert len(ranges[3]) >= 2
    assert 3 <= len(ranges[4]) <= 7


# -- quick ----------------------------------------------------------------------------------------


def test_a_large_study_is_there_at_once(driver: Any, tmp_path: Path) -> None:
    write_study(tmp_path / "s.db", 5000, 400, "large")
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        page = Page(driver, service.url)
        page.look()
        for _ in range(2):  # at first the service reads the journal
            page.driver.get("about:blank")
            page.driver.get(f"{service.url}/#/studies/large")
            page.wait(lambda: page.all("#best-mean"))
            waited = page.run("performance.getEntriesByName('study-shown')[0].startTime")
            assert waited < 1000 * GENEROUS


def test_the_cards_of_500_trials_are_drawn_quickly(page: Page) -> None:
    """In the time of the browser's main thread, which is the same on a busy machine."""
    page.open("hundreds", "#best-mean")
    page.details()
    page.driver.execute_async_script(
        """
        const { studyView } = await import("/static/study.js");
        window.data = await (await fetch("/api/studies/hundreds/panels")).json();
        window.view = studyView("hundreds", () => {}, () => {});
        document.querySelector("main").replaceChildren(view.element);
        view.update(data);
        arguments[0]();
        """
    )
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    before = spent(page)
    page.driver.execute_script("view.update({ ...data, seq: 0 }); document.body.offsetHeight")
    took = spent(page) - before
    page.driver.execute_cdp_cmd("Performance.disable", {})
    assert 0.001 < took < 0.1 * 3  # 0.05 as a rule, with the details open


def spent(page: Page) -> float:
    metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")
