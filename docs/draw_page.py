"""Take the pictures of the live page: docs/images/page.png and docs/images/page-phone.png.

    python docs/draw_page.py

A simulated gateway is tuned for 90 of 150 evaluations, one trial is left pending, and headless
chromium photographs the page: wide in the light, narrow in the dark.  It needs chromium,
chromedriver and the extra `dev`.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from PIL import Image
from selenium import webdriver

import regretless as rl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from serving import serving  # noqa: E402  (the tests' own service)

IMAGES = ROOT / "docs" / "images"
STUDY = "gateway: 95th percentile, ms"
SPACE = rl.Space(
    {
        "cache_mb": rl.Int(16, 2048, log=True),
        "timeout_s": rl.Float(0.5, 20.0, step=0.1),
        "codec": rl.Categorical(["none", "gzip", "zstd"]),
    }
)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en")
# Of each picture: file, width, pixels per point, colour scheme, and the last card that is on it.
PICTURES = (
    ("page.png", 1280, 1, "light", "The gate"),
    ("page-phone.png", 390, 2, "dark", "Explore or exploit"),
)
BELOW = 15  # points of margin under the last card


def latency(params: dict[str, Any], rng: np.random.Generator) -> float:
    """The 95th percentile of the gateway's latency in milliseconds, with noise."""
    cache = np.log(params["cache_mb"] / 700.0)
    timeout = (params["timeout_s"] - 8.0) / 4.0
    codec = {"none": 22.0, "gzip": 9.0, "zstd": 0.0}[params["codec"]]
    return float(117.0 + 9.0 * cache**2 + 14.0 * timeout**2 + codec + rng.normal(0.0, 3.0))


def tune(storage: Path) -> None:
    """90 results, and a trial whose result is waited for."""
    rng = np.random.default_rng(1)
    settings: dict[str, Any] = {"space": SPACE, "budget": 150, "direction": "minimize"}
    with rl.Study.open(storage, STUDY, seed=1, **settings) as study:
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


def photograph(driver: webdriver.Chrome, url: str) -> None:
    for file, width, density, scheme, last in PICTURES:
        size = {"width": width, "height": 1600, "deviceScaleFactor": density, "mobile": False}
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get("about:blank")  # an address that differs in its hash loads nothing
        driver.get(f"{url}/#/studies/{quote(STUDY, safe='')}")
        deadline = time.monotonic() + 30
        while not driver.execute_script("return document.querySelectorAll('svg').length >= 4"):
            assert time.monotonic() < deadline, driver.page_source
            time.sleep(0.1)
        time.sleep(1.0)  # the page lays out its charts
        card = driver.find_element("xpath", f"//section[h2='{last}']")
        bottom = driver.execute_script("return arguments[0].getBoundingClientRect().bottom", card)
        clip = {"x": 0, "y": 0, "width": width, "height": round(bottom) + BELOW, "scale": 1}
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
        picture = Image.open(BytesIO(base64.b64decode(taken["data"])))
        picture.convert("RGB").quantize(256).save(IMAGES / file, optimize=True)
        print(f"wrote docs/images/{file}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = Path(folder) / "gateway.sqlite"
        tune(storage)
        with serving(str(storage), folder=Path(folder)) as service:
            driver = browser()
            try:
                photograph(driver, service.url)
            finally:
                driver.quit()


if __name__ == "__main__":
    main()
