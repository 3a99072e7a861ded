"""Take the pictures of the live page: docs/images/page*.png.

    python docs/draw_page.py

A simulated gateway is tuned for 90 of 150 trials, one trial is left pending, and headless chromium
photographs the page: wide in the light, narrow in the dark, with its details, and beside a study
of the same gateway with another policy.  It needs chromium, chromedriver and the extra `dev`.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from PIL import Image
from selenium import webdriver

import regretless as rl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from serving import serving  # noqa: E402  (the tests' own service)

IMAGES = ROOT / "docs" / "images"
STUDY, OTHER = "gateway", "gateway, EIC"
SPACE = rl.Space(
    {
        "cache_mb": rl.Int(16, 2048, log=True),
        "timeout_s": rl.Float(0.5, 20.0, step=0.1),
        "codec": rl.Categorical(["none", "gzip", "zstd"]),
    }
)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en")
TODAY = {"cache_mb": 64, "timeout_s": 3.0, "codec": "gzip"}


class Picture(NamedTuple):
    """What is on a picture: from the top of one card to the bottom of another."""

    file: str
    width: int
    last: str  # the heading of the last card
    first: str | None = None  # and of the first one; None for the top of the page
    density: float = 1.0  # pixels per point
    scheme: str = "light"
    address: str = f"#/studies/{quote(STUDY, safe='')}"


PICTURES = (
    Picture("page.png", 1280, "What you can do"),
    Picture("page-phone.png", 390, "Results", density=2.0, scheme="dark"),
    Picture("page-details.png", 1280, "What each parameter does", first="Explore or exploit"),
    Picture(
        "page-compare.png",
        1280,
        "Best setting so far",
        address=f"#/compare/{quote(STUDY, safe='')}/{quote(OTHER, safe='')}",
    ),
)
BELOW = 15  # points of margin under the last card


def latency(params: dict[str, Any], rng: np.random.Generator) -> float:
    """The 95th percentile of the gateway's latency in milliseconds, with noise."""
    cache = np.log(params["cache_mb"] / 700.0)
    timeout = (params["timeout_s"] - 8.0) / 4.0
    codec = {"none": 22.0, "gzip": 9.0, "zstd": 0.0}[params["codec"]]
    return float(117.0 + 9.0 * cache**2 + 14.0 * timeout**2 + codec + rng.normal(0.0, 3.0))


def tune(storage: Path, name: str, **more: Any) -> None:
    """90 results, and a trial whose result is waited for."""
    rng = np.random.default_rng(1)
    settings: dict[str, Any] = {"space": SPACE, "budget": 150, "direction": "minimize"}
    settings |= {"metric": "p95 latency", "unit": "ms", "baseline": TODAY, "seed": 1}
    with rl.Study.open(storage, name, **settings, **more) as study:
        for _ in range(90):
            trial = study.ask()
            study.tell(trial, latency(trial.params, rng))
        study.ask()


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def photograph(driver: webdriver.Chrome, url: str, wanted: Picture) -> None:
    size = {"width": wanted.width, "height": 1600, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": wanted.scheme}]
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", size | {"deviceScaleFactor": wanted.density}
    )
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get("about:blank")  # an address that differs in its hash loads nothing
    driver.get(f"{url}/{wanted.address}")
    deadline = time.monotonic() + 60
    while not driver.execute_script("return document.querySelector('main svg[role=img]')"):
        assert time.monotonic() < deadline, driver.page_source
        time.sleep(0.1)
    if wanted.first is not None:
        driver.execute_script("document.querySelector('details.more').open = true")
    time.sleep(2.0)  # the page lays out its charts
    top = 0 if wanted.first is None else round(edges(driver, wanted.first)[0]) - BELOW
    bottom = round(edges(driver, wanted.last)[1]) + BELOW
    clip = {"x": 0, "y": top, "width": wanted.width, "height": bottom - top, "scale": 1}
    how = {"format": "png", "clip": clip, "captureBeyondViewport": True}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", how)
    picture = Image.open(BytesIO(base64.b64decode(taken["data"])))
    picture.convert("RGB").quantize(64).save(IMAGES / wanted.file, optimize=True)
    print(f"wrote docs/images/{wanted.file}")


def edges(driver: webdriver.Chrome, title: str) -> tuple[float, float]:
    """The top and the bottom of the lowest card with this heading."""
    cards = driver.find_elements("xpath", f"//section[h2='{title}']")
    ask = "const r = arguments[0].getBoundingClientRect(); return [r.top, r.bottom]"
    found = [driver.execute_script(ask, card) for card in cards]
    return min(top for top, _ in found), max(bottom for _, bottom in found)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = Path(folder) / "gateway.sqlite"
        tune(storage, STUDY)
        tune(storage, OTHER, policy="eic")
        with serving(str(storage), folder=Path(folder)) as service:
            driver = browser()
            try:
                for wanted in PICTURES:
                    photograph(driver, service.url, wanted)
            finally:
                driver.quit()


if __name__ == "__main__":
    main()
