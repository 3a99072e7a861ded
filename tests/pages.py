"""The live page in a real Chromium, as a person sees it; for the tests."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from selenium import webdriver

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

FLAGS = (
    "--headless",
    "--no-sandbox",  # root, as in a container, has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 60.0  # seconds, for a busy machine; the page looks for news every 2


@dataclass
class Page:
    """The page as a person sees it."""

    driver: Any
    url: str
    forgiven: list[str] = field(default_factory=list)  # what the console may say in this test

    def open(self, study: str | None = None, ready: str = "h1") -> None:
        self.driver.get("about:blank")  # an address that differs in its hash loads nothing
        self.driver.get(f"{self.url}/#/" + (f"studies/{quote(study, safe='')}" if study else ""))
        self.wait(lambda: self.all(ready) and self.text("#connection") == "Live")

    def details(self) -> None:
        """Open what is for experts."""
        if not self.run("document.querySelector('details.more').open"):
            self.run("document.querySelector('details.more > summary').click()")
            self.wait(lambda: self.run("document.querySelector('details.more').open"))
            self.wait(lambda: self.texts("#model dd"))

    def all(self, css: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", css))

    def one(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def texts(self, css: str) -> list[str]:
        """In one look: the page may change between two."""
        found = self.run(
            f"[...document.querySelectorAll({json.dumps(css)})].map(e => e.textContent)"
        )
        return list(found)

    def text(self, css: str) -> str:
        return next(iter(self.texts(css)), "")

    def card(self, title: str) -> Any:
        """The section with this heading."""
        return self.driver.find_element("xpath", f"//section[h2='{title}']")

    def button(self, name: str, within: Any = None) -> Any:
        return (within or self.driver).find_element("xpath", f".//button[.='{name}']")

    def facts(self, css: str) -> dict[str, str]:
        return dict(zip(self.texts(f"{css} dt"), self.texts(f"{css} dd"), strict=True))

    def type(self, css: str, text: str) -> None:
        self.one(css).clear()
        self.one(css).send_keys(text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(f"return {script}")

    def wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.text("body")
            time.sleep(0.05)

    def look(self, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def complaints(self) -> list[str]:
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        return [text for text in said if not any(known in text for known in self.forgiven)]

    def requests(self) -> list[str]:
        events = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        sent = [e["message"] for e in events if "requestWillBeSent" in e["message"]["method"]]
        urls = [m["params"]["request"]["url"] for m in sent if "request" in m["params"]]
        return [url for url in urls if not url.startswith("data:")]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, whose console and requests can be read."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield running
    finally:
        running.quit()


@contextmanager
def quiet(driver: Any, url: str) -> Iterator[Page]:
    """A page; afterwards the console was silent, and nobody else was asked for anything."""
    shown = Page(driver, url)
    shown.look()
    shown.complaints(), shown.requests()
    yield shown
    assert shown.complaints() == []
    assert [url for url in shown.requests() if not url.startswith((shown.url, "about:"))] == []
    driver.execute_script("sessionStorage.clear(), localStorage.clear()")


def numbers(text: str) -> list[str]:
    return re.findall(r"[−-]?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?", text)


def is_shown(text: str, value: float) -> bool:
    """Is this text the value, up to its own rounding?"""
    plain = text.replace(",", "").replace("−", "-")
    mantissa, _, power = plain.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return abs(float(plain) - value) <= 0.5001 * 10.0 ** (int(power or 0) - decimals)


def assert_shows(text: str, *values: float) -> None:
    """Each of the values is among the numbers of the text, in this order."""
    left = iter(numbers(text))
    for value in values:
        assert any(is_shown(number, value) for number in left), (value, text)
