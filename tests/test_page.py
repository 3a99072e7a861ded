"""The live page in a real Chromium, on a real service: right numbers, no surprises."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("selenium")

from selenium.webdriver.common.keys import Keys

import regretless as rl
from pages import CHROMIUM, DRIVER, Page, assert_shows, is_shown, quiet
from regretless.service.auth import Tokens
from regretless.studies.journal import Journal
from regretless.studies.study import Study
from regretless.verdict import verdict
from serving import Service, serving

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no chromium and chromedriver on this machine"
)

SPACE = rl.Space(
    {
        "dose": rl.Float(0.1, 10.0, log=True),
        "visits": rl.Int(1, 12),
        "drug": rl.Categorical(["A", "B", "C"]),
    }
)
EVIL = "<img src=x onerror=document.title='hacked'>"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("page")
    with serving(str(folder / "s.db"), folder=folder) as running:
        yield running


@pytest.fixture
def page(driver: Any, service: Service) -> Iterator[Page]:
    with quiet(driver, service.url) as shown:
        yield shown


def f(params: dict[str, Any]) -> float:
    bonus = {"A": 0.0, "B": 0.6, "C": 0.3}[params["drug"]]
    return float(40 - np.log(params["dose"]) ** 2 - ((params["visits"] - 7) / 5) ** 2 + bonus)


@pytest.fixture(scope="module", params=["maximize", "minimize"])
def study(request: pytest.FixtureRequest, service: Service) -> Iterator[Study]:
    with known_study(service, request.param) as study:
        yield study


@pytest.fixture(scope="module")
def one_study(service: Service) -> Iterator[Study]:
    """Where the direction does not matter."""
    with known_study(service, "maximize") as study:
        yield study


@contextmanager
def known_study(service: Service, direction: Any) -> Iterator[Study]:
    """Something of everything; a mirror image if minimised."""
    sign = 1.0 if direction == "maximize" else -1.0
    settings: dict[str, Any] = {"space": SPACE, "budget": 60, "seed": 2}
    rng = np.random.default_rng(0)
    with Study.open(service.storage, direction, direction=direction, **settings) as study:
        if not study.asked:
            study.observe({"dose": 1.0, "visits": 4, "drug": "A"}, sign * 39.0)
        while study.asked < 24:
            trial = study.ask()
            if trial.number == 5:
                study.abandon(trial)
            else:
                study.tell(trial, sign * (f(trial.params) + 0.2 * rng.standard_normal()))
        if not study.pending:
            study.ask()
        yield study


# -- numbers on the page --------------------------------------------------------------------------


def told_means(study: Study) -> np.ndarray[Any, Any]:
    rows = [row for row in study.history() if row.status == "told"]
    return np.array([study.predict(row.params)[0] for row in rows])


def test_the_incumbent_and_the_budget(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    best = study.best()
    assert is_shown(page.text("#best-mean"), best.mean)
    assert_shows(page.text("#best-mean + small"), 95, best.low, best.high)
    tried = page.text("#best-count").replace("once", "1 time")
    assert_shows(tried, best.count, best.sample_mean, best.luckiest)
    shown = page.facts(".params")
    assert float(shown["dose"]) == best.params["dose"]  # in full digits
    assert (shown["visits"], shown["drug"]) == (str(best.params["visits"]), best.params["drug"])
    assert (page.text("#budget"), page.text("#budget + small")) == ("35", "of 60; 23 results told")
    page.details()
    facts = page.facts("#model")
    assert (facts["Told"], facts["Pending"], facts["Abandoned"]) == ("23", "1", "1")
    noise = study.trials[-1].decision.noise_sd
    assert noise is not None
    assert is_shown(facts["Noise sd of a result"], noise)
    assert study.direction in page.text(".subtitle")
    (waiting,) = study.pending
    assert str(waiting.decision) in page.card("Pending trials").get_property("textContent")


def test_the_ribbon_and_the_table(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    page.details()
    cells = [cell.get_attribute("class") for cell in page.all(".ribbon .cell")]
    own = [row for row in study.history() if row.decision]
    assert cells == [f"cell {row.decision.reason} {row.status}" for row in own if row.decision]
    page.button("Show all 26").click()
    cells = page.texts(".trials tbody :is(th, td)")
    rows = [cells[i : i + 6] for i in range(0, len(cells), 6)]
    assert len(rows) == 26
    for (number, date, result, params, why, _), row in zip(
        rows, reversed(study.history()), strict=True
    ):
        assert number == ("prior 0" if row.number is None else str(row.number))
        assert re.match(r"\d+ \w+,? ", date)
        assert why == (str(row.decision) if row.decision else "known before the study")
        assert f"drug = {row.params['drug']}" in params.replace("\xa0", " ")
        assert result == row.status if row.value is None else is_shown(result, row.value)


def test_gain_and_regret(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    page.details()
    mean, best = told_means(study), study.best().mean
    sign = 1.0 if study.direction == "maximize" else -1.0
    regret = page.card("Cumulative regret")
    assert_shows(regret.text.split("Estimated regret:")[1], np.sum(sign * (best - mean)))
    gain = page.card("Total gain")
    before = study.predict({"dose": 1.0, "visits": 4, "drug": "A"})[0]
    assert_shows(gain.text.split("observed before:")[1], np.sum(sign * (mean - before)))
    page.type("#optimum", str(sign * 45))
    page.wait(lambda: "Regret against the optimum" in regret.text)
    known = regret.text.split("Regret against the optimum")[1]
    assert_shows(known, sign * 45, np.sum(sign * (sign * 45 - mean)))
    page.type("#optimum", "many")
    page.wait(lambda: "not a number" in regret.text)


def test_the_gain_over_today(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    found = verdict(study.snapshot().optimizer)
    assert found.over == "observed setting"
    assert found.percent is not None
    assert page.text("#state") == {"exploring": "Exploring", "settling": "Settling"}[found.state]
    assert_shows(page.text("#gain"), abs(found.percent))
    assert "than the setting observed before the study" in page.text("#gain")
    assert found.expected_end is not None
    assert is_shown(page.text("#end"), found.expected_end)
    assert page.text("#next") == "Next: tell the result of the pending trial, or ask for a trial."


def test_the_baseline_is_kept_with_the_study(page: Page, service: Service) -> None:
    with Study.open(service.storage, "no baseline", space=SPACE, budget=30, seed=1) as study:
        for _ in range(8):
            trial = study.ask()
            study.tell(trial, f(trial.params))
        page.open("no baseline", "#best-mean")
        assert "the first point" in page.text("#gain")
        page.button("Set the baseline…").click()
        page.type("#answer", "{")
        page.button("Set the baseline", page.one("dialog")).click()
        page.wait(lambda: "Not JSON" in page.text("dialog .problem"))
        today = {"dose": 0.2, "visits": 2, "drug": "C"}
        page.type("#answer", json.dumps(today))
        page.button("Set the baseline", page.one("dialog")).click()
        page.wait(lambda: "today" in page.text("#gain"))
        assert study.baseline == today
        found = verdict(study.snapshot().optimizer)
        assert found.over == "baseline"
        assert_shows(page.text("#gain"), abs(found.percent or 0.0))


def test_what_the_rest_is_expected_to_bring(page: Page, service: Service) -> None:
    with Study.open(service.storage, "ahead", space=SPACE, budget=12, seed=1) as study:
        for _ in range(9):
            trial = study.ask()
            study.tell(trial, f(trial.params))
    page.open("ahead", "#best-mean")
    page.details()
    card = page.card("What the rest is expected to bring")
    assert "16 times" in page.text("#forecast")
    page.button("Simulate the rest", card).click()
    page.wait(lambda: "Expected gain of the whole run" in page.text("#forecast"))
    with Study.open(service.storage, "ahead") as study:
        wanted = study.forecast(draws=16)
        assert_shows(page.text("#forecast"), wanted.expected, 80, *wanted.band())
        assert f"{round(100 * wanted.change_prob)} %" in page.text("#forecast")
        assert card.find_element("css selector", "svg[role=img]").get_attribute("aria-label")
        study.extend(13)
    page.wait(lambda: "simulate again" in page.text("#forecast"))
    assert page.button("Simulate again", card).is_enabled()


def test_what_the_policy_weighed(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    page.details()
    last = study.trials[-1].decision
    assert last.expected_improvement is not None
    assert last.evaluation_cost is not None
    assert last.gate is not None
    readout = page.card("Expected gain against its cost").find_element("css selector", ".readout")
    assert_shows(readout.text, 24, last.expected_improvement, last.evaluation_cost)
    readout = page.card("The gate").find_element("css selector", ".readout")
    assert_shows(readout.text, 24, last.z or 0.0, last.gate)


def test_what_each_parameter_does(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    page.details()
    best = study.best()
    for chart, name, first in zip(
        page.all(".slices > div"), SPACE.names, [0.1, 1, "A"], strict=True
    ):
        assert chart.find_element("css selector", "h3").text == name
        chart.find_element("css selector", ".canvas").send_keys(Keys.HOME)
        mean, sd = study.predict(best.params | {name: first})
        text = chart.find_element("css selector", ".readout").text
        assert text.startswith(f"At {first}:")
        assert_shows(text.partition(":")[2], mean, 95, mean - 1.96 * sd, mean + 1.96 * sd)
        assert chart.find_elements("css selector", "circle.told")  # what was told there


def test_calibration(page: Page, study: Study) -> None:
    page.open(study.name, "#best-mean")
    page.details()
    told = [(r.value, r.decision) for r in study.history() if r.status == "told"]
    known = [(v, d) for v, d in told if d and d.mean is not None]
    z = np.array([(v - d.mean) / np.hypot(d.sd, d.noise_sd) for v, d in known])
    caption = page.card("Were the predictions right").find_element("css selector", "figcaption")
    inside = 100 * np.mean(np.abs(z) <= 1.96)
    assert_shows(caption.text, len(z), z.mean(), z.std(ddof=1), inside)


# -- what a person does ---------------------------------------------------------------------------


def test_create_a_study_and_watch_it(page: Page, service: Service) -> None:
    page.open()
    if not page.one("#new-name").is_displayed():
        page.one("summary").click()
    page.type("#new-name", "from the page")
    page.type("#new-budget", "12")
    page.type("#new-space", "[{")
    page.button("Create").click()
    page.wait(lambda: "The space is not JSON" in page.text(".create .problem"))
    page.type("#new-space", json.dumps(SPACE.to_json()["parameters"]))
    page.one("#new-direction").send_keys("minimize")
    page.type("#new-settings", "[]")
    page.button("Create").click()
    page.wait(lambda: "The settings must be a JSON object" in page.text(".create .problem"))
    page.type("#new-settings", '{"guardrails": [{"metric": "p99_ms", "at_most": 250}]}')
    page.button("Create").click()
    page.wait(lambda: page.text("h1") == "from the page" and page.all("#budget"))
    page.wait(lambda: page.text("#budget") == "12")
    with Study.open(service.storage, "from the page") as study:
        assert (study.space, study.direction, study.budget) == (SPACE, "minimize", 12)
        page.type("#extend-to", "2")  # news must not take away what is being typed
        for value in (3.0, 1.0, 2.0):
            study.tell(study.ask(), value, metrics={"p99_ms": 100 + value})
        page.wait(lambda: page.text("#budget") == "9")
        page.wait(lambda: "3 results told" in page.text("#budget + small"))
        assert is_shown(page.text("#best-mean"), study.best().mean)
        assert page.one("#extend-to").get_property("value") == "2"
        assert "Best mean" in page.text("#news")
        with pytest.raises(rl.ConfigError):
            study.extend(2)
        page.one("#extend-to").send_keys("0")
        page.button("Extend").click()
        page.wait(lambda: study.budget == 20)
        page.button("Ask for a trial").click()
        page.wait(lambda: len(study.pending) == 1)
        page.wait(lambda: page.all("#tell-3"))
        page.type("#tell-3", "0.5")
        page.type("#tell-3-0", "fast")
        page.button("Tell").click()
        page.wait(lambda: "p99_ms must be a number" in page.card("Pending trials").text)
        page.type("#tell-3-0", "120.5")
        page.button("Tell").click()
        page.wait(lambda: study.history()[-1].value == 0.5)
        assert study.history()[-1].metrics == {"p99_ms": 120.5}
        page.button("Ask for a trial").click()
        page.wait(lambda: page.all("#tell-4"))
        page.type("#tell-4", "half")
        page.button("Tell").click()
        page.wait(lambda: "must be a number" in page.card("Pending trials").text)
        page.button("Abandon…").click()
        assert "Abandon trial 4?" in page.one("dialog").text
        page.button("Abandon", page.one("dialog")).click()
        page.wait(lambda: study.history()[-1].status == "abandoned")
        page.wait(lambda: not page.all("#tell-4"))
    page.open()
    assert "5 of 20 asked" in page.text("table")


def test_what_the_service_says_is_shown(page: Page, service: Service) -> None:
    page.forgiven = ["Failed to load resource"]  # Chromium's own remark on any 4xx
    Study.open(service.storage, "taken", space=SPACE, budget=5).close()
    page.open()
    page.wait(lambda: page.all("table a"))
    page.one("summary").click()
    page.type("#new-name", "taken")
    page.button("Create").click()
    page.wait(lambda: "taken" in page.text(".create .problem"))
    page.open("taken", "#budget")
    page.driver.get(f"{page.url}/#/studies/nobody")
    page.wait(lambda: "404: there is no such study" in page.text("main"))
    assert "nobody" in page.text("main .lost")
    assert page.one("main .lost a").get_attribute("href").endswith("#/")


def test_what_is_to_be_tried_is_shown_in_full(page: Page, service: Service) -> None:
    large = 2**60 + 1  # which a browser's numbers do not hold
    space = rl.Space(
        {
            "n": rl.Int(16384, 99999),
            "x": rl.Float(1e9, 1e9 + 1),
            "id": rl.Categorical([large, large + 2]),
        }
    )
    with Study.open(service.storage, "in full", space=space, budget=20) as study:
        for _ in range(6):
            trial = study.ask()
            study.tell(trial, trial.params["n"] / 1e4 - 9 * (trial.params["x"] - 1e9 - 0.4) ** 2)
        trial, best = study.ask(), study.best()
    page.open("in full", f"#tell-{trial.number}")
    pending = page.card("Pending trials").get_property("textContent")
    for name, value in trial.params.items():
        assert f"{name}\u00a0=\u00a0{value!r}" in pending
    shown = page.facts(".params")
    assert (shown["n"], float(shown["x"])) == (str(best.params["n"]), best.params["x"])
    assert shown["id"] == str(best.params["id"])
    page.details()
    along_x = page.card("What each parameter does").get_property("textContent")
    assert f"The best point has {best.params['x']:.2e}".replace("e+09", "") in along_x


def test_a_picture_that_fails_is_said_and_tried_again(page: Page) -> None:
    page.open()
    said = page.driver.execute_async_script(
        """
        const done = arguments[0], said = [];
        const { Poll } = await import("/static/tools.js");
        const show = () => {
          if (said.length < 2) throw new Error("no picture");
        };
        const report = (error) => {
          said.push(error ? error.message : "fine");
          if (said.length < 3) setTimeout(() => poll.now());
          else poll.stop(), done(said);
        };
        const poll = new Poll("/studies", show, report);
        """
    )
    assert said == ["no picture", "no picture", "fine"]


def test_numbers_are_read_as_they_are_written(page: Page) -> None:
    page.open()
    script = """
        const { number, typed } = await import("/static/tools.js");
        arguments[0]([-1e-5, -1234, 0.5].map((x) => typed(number(x).replaceAll(",", ""))));
    """
    assert page.driver.execute_async_script(script) == [-1e-5, -1234, 0.5]


def test_names_are_only_text(page: Page, service: Service) -> None:
    space = rl.Space({EVIL: rl.Float(0.0, 1.0), "k": rl.Categorical([EVIL, "<script>1</script>"])})
    with Study.open(service.storage, EVIL, space=space, budget=9) as study:
        for _ in range(6):
            study.tell(study.ask(), 1.0)
        study.ask()
    page.open()
    page.wait(lambda: EVIL in page.texts("table a"))
    page.open(EVIL, "#best-mean")
    assert page.text("h1") == EVIL
    assert page.driver.title == f"{EVIL} – regretless"
    assert EVIL in page.facts(".params")
    assert page.run("document.querySelectorAll('main img, main script').length") == 0


def test_only_the_keyboard(page: Page, one_study: Study) -> None:
    page.open()
    page.wait(lambda: page.all("table a"))
    page.press(Keys.TAB)
    assert page.driver.switch_to.active_element.text == "Skip to the content"
    page.press(Keys.ENTER)
    while page.driver.switch_to.active_element.text != one_study.name:
        page.press(Keys.TAB)
    page.press(Keys.ENTER)
    page.wait(lambda: page.all("#best-mean"))
    assert page.run("document.activeElement.tagName") == "H1"
    for _ in range(30):
        page.press(Keys.TAB)
        if page.run("document.activeElement.className") == "canvas":
            break
    page.press(Keys.HOME, Keys.ARROW_RIGHT)
    second = [row.number for row in one_study.history() if row.status == "told"][1]
    figure = page.driver.switch_to.active_element.find_element("xpath", "..")
    assert f"Trial {second} (" in figure.text
    outline = page.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # one sees where one is


def test_for_those_who_listen(page: Page, one_study: Study) -> None:
    page.open(one_study.name, "#best-mean")
    assert page.run("document.documentElement.lang") == "en"
    for landmark in ("header", "nav[aria-label]", "main"):
        assert len(page.all(landmark)) == 1
    page.details()
    charts = page.all("main svg[role=img], .ribbon[role=img]")
    assert len(charts) == 1 + 6 + 3
    assert all(chart.get_attribute("aria-label") for chart in charts)
    captions = [caption for caption in page.all("figcaption") if caption.is_displayed()]
    assert captions
    assert all(caption.text for caption in captions)
    titles = [caption for caption in page.all("table caption") if caption.is_displayed()]
    assert titles
    assert all(caption.text for caption in titles)
    unnamed = (
        "[...document.querySelectorAll('input, select, textarea')].filter(i => !i.labels.length)"
    )
    assert page.run(f"{unnamed}.length") == 0
    ids = page.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_dark(page: Page, one_study: Study, scheme: str) -> None:
    page.look(390, 800, scheme)
    for name in (None, one_study.name):
        page.open(name, "table a" if name is None else "#best-mean")
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
        assert brightness(page) < 60 if scheme == "dark" else brightness(page) > 200
    for theme in ("light", "dark"):  # from auto, whatever the system says
        page.one("#theme").click()
        assert page.text("#theme") == f"Theme: {theme}"
        assert brightness(page) < 60 if theme == "dark" else brightness(page) > 200


def brightness(page: Page) -> float:
    colour = page.run("getComputedStyle(document.body).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


# -- the connection -------------------------------------------------------------------------------


def test_polling_costs_nothing_without_news(page: Page, one_study: Study) -> None:
    page.open(one_study.name, "#best-mean")
    page.driver.execute_script("""
        const real = fetch;
        window.answers = [];
        window.fetch = async (...what) => {
            const answer = await real(...what);
            answers.push(answer.status);
            return answer;
        };""")
    page.wait(lambda: page.run("answers"))
    assert set(page.run("answers")) == {304}
    page.driver.execute_script("""
        Object.defineProperty(document, "hidden", { get: () => true });
        document.dispatchEvent(new Event("visibilitychange"));""")
    page.wait(lambda: len(page.run("answers")) >= 2)
    time.sleep(2.5)
    assert len(page.run("answers")) == 2  # nobody looks


def test_a_lost_connection_is_said_and_mended(driver: Any, tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        Study.open(service.storage, "s", space=SPACE, budget=5).close()
        page = Page(driver, service.url)
        page.open("s", "#budget")
        service.kill()
        page.wait(lambda: page.text("#connection") == "Connection lost")
        assert "does not answer" in page.text("#lost")
        assert page.text("#budget") == "5"  # what was true stays
        service.start()
        page.button("Try now").click()
        page.wait(lambda: page.text("#connection") == "Live")
        assert not page.one("#lost").is_displayed()


def test_a_study_that_is_gone_is_missed_and_found_again(driver: Any, tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        page = Page(driver, service.url)
        driver.get("about:blank")
        driver.get(f"{service.url}/#/studies/late")
        page.wait(lambda: "there is no study 'late'" in page.text("main"))
        assert page.text("#connection") == "Not connected"
        Study.open(service.storage, "late", space=SPACE, budget=5).close()
        page.wait(lambda: page.text("#budget") == "5")
        with Journal.open(service.storage) as journal:
            rows = "DELETE FROM regretless_events WHERE study = 'late'"
            journal._run(lambda conn: conn.exec_driver_sql(rows))
        page.wait(lambda: "there is no study 'late'" in page.text("main"))
        page.complaints()


def test_a_token_is_asked_for(driver: Any, tmp_path: Path) -> None:
    token = "a-token-of-the-tests-0123456789"
    (tmp_path / "tokens").write_text(f"read-write {token}\n")
    with serving(str(tmp_path / "s.db"), "--token-file", "tokens", folder=tmp_path) as service:
        Study.open(service.storage, "secret", space=SPACE, budget=5).close()
        page = Page(driver, service.url)
        driver.get(service.url)
        page.wait(lambda: page.one("#token").is_displayed())
        assert "secret" not in page.text("main")
        page.type("#token", "another" + Keys.ENTER)
        page.wait(lambda: "does not know" in page.text("#token-problem"))
        page.type("#token", token + Keys.ENTER)
        page.wait(lambda: "secret" in page.text("main"))
        assert not page.one("#token").is_displayed()
        assert token not in driver.current_url
        page.complaints()


def test_a_link_shows_one_study(driver: Any, tmp_path: Path) -> None:
    token = "a-token-of-the-tests-0123456789"
    (tmp_path / "tokens").write_text(f"read-write {token} ann\n")
    with serving(str(tmp_path / "s.db"), "--token-file", "tokens", folder=tmp_path) as service:
        Study.open(service.storage, "sh?own", space=SPACE, budget=5).close()
        Study.open(service.storage, "hidden", space=SPACE, budget=5).close()
        link = Tokens.from_file(tmp_path / "tokens").link("sh?own", days=1)
        page = Page(driver, service.url)
        driver.get(f"{service.url}/#/studies/sh%3Fown?token={link}")
        page.wait(lambda: page.text("#budget") == "5")
        assert driver.current_url == f"{service.url}/#/studies/sh%3Fown"  # the token does not stay
        driver.get(f"{service.url}/#/")
        page.wait(lambda: "this link gives access to one study only" in page.text("main"))
        assert "hidden" not in page.text("main")
        assert page.text("#connection") == "Not connected"
        driver.get(f"{service.url}/#/studies/hidden")
        page.wait(lambda: "this link gives access to one study only" in page.text("main"))


# -- approval, corrections, names -----------------------------------------------------------------


def test_proposals_are_approved_and_rejected(page: Page, service: Service) -> None:
    settings: dict[str, Any] = {"space": SPACE, "budget": 9, "mode": "recommend"}
    with Study.open(service.storage, "approval", **settings) as study:
        study.ask(2)
        page.open("approval", "#ask")
        page.wait(lambda: "Trial 1" in page.card("Proposals").text)
        assert "trials need approval" in page.text(".subtitle")
        page.button("Approve", page.card("Proposals")).click()
        page.wait(lambda: "Trial 0" in page.card("Pending trials").text)
        page.button("Reject…", page.card("Proposals")).click()
        assert page.run("document.activeElement.id") == "answer"
        page.button("Cancel").click()
        page.wait(lambda: page.all("dialog") == [])
        assert [trial.number for trial in study.proposed] == [1]
        page.button("Reject…", page.card("Proposals")).click()
        page.type("#answer", f"{EVIL} is too slow")
        study.tell(0, 38.0)  # news come in while somebody is typing
        page.wait(lambda: "1 result told" in page.text("#budget + small"))
        assert page.one("#answer").get_attribute("value") == f"{EVIL} is too slow"
        page.button("Reject").click()
        page.details()
        page.wait(lambda: page.facts("#model")["Rejected"] == "1")
        assert study.history()[1].note == f"{EVIL} is too slow"
        page.wait(lambda: f"{EVIL} is too slow" in page.text("table.trials"))
        assert page.driver.title != "hacked"
        page.button("Reconsider…").click()
        page.button("Reconsider", page.one("dialog")).click()
        page.wait(lambda: study.history()[1].status == "reconsidered")


def test_results_are_retracted(page: Page, service: Service) -> None:
    with Study.open(service.storage, "corrections", space=SPACE, budget=9) as study:
        study.observe({"dose": 1.0, "visits": 4, "drug": "A"}, 39.0)
        study.tell(study.ask(), 3e4)
        page.open("corrections", "#best-mean")
        page.details()
        page.wait(lambda: len(page.all("table.trials tbody tr")) == 2)
        page.button("Retract…").click()  # the newest first
        page.type("#answer", "grams")
        page.press(Keys.ENTER)
        page.wait(lambda: "retracted: grams" in page.card("Pending trials").text)
        page.button("Retract…").click()
        page.button("Retract", page.one("dialog")).click()
        page.wait(lambda: "retracted" in page.text("table.trials tbody tr:last-child"))
        assert study.observations == 0
        assert [event.kind for event in study.events()][-2:] == ["retracted", "unobserved"]


def test_archive_and_rename(page: Page, service: Service) -> None:
    page.forgiven.append("404")  # of the old name, until the page has gone to the new one
    with Study.open(service.storage, "to archive", space=SPACE, budget=9) as study:
        page.open("to archive", "#ask")
        page.button("Archive…").click()
        page.button("Archive", page.one("dialog")).click()
        page.wait(lambda: "archived" in page.text(".subtitle"))
        assert study.archived
        assert not page.one("#ask").is_enabled()
        page.open(None, "table tbody tr")
        rows = {row.text.split(" m")[0]: row for row in page.all("table tbody tr")}
        assert "to archive" not in rows
        page.one("#show-archived").click()
        page.wait(lambda: "to archive" in page.one("table").text)
        page.open("to archive", "#ask")
        page.button("Unarchive…").click()
        page.button("Unarchive", page.one("dialog")).click()
        page.wait(lambda: "archived" not in page.text(".subtitle"))
        page.button("Rename…").click()
        page.type("#answer", "new name")
        page.button("Rename", page.one("dialog")).click()
        page.wait(lambda: page.text("h1") == "new name" and page.text("#connection") == "Live")
    with Study.open(service.storage, "new name") as study:
        assert [event.kind for event in study.events()][-1] == "renamed"
