#!/usr/bin/python3 -B
"""Takes the pictures of docs/monitoring.md: what `sluice ui` shows of a simulated
run of 8 workers, on light and dark ground and as narrow as a phone, and of one
of 1,000 workers. Needs Chromium: ./sluice install --with=browser."""

import argparse
import contextlib
import pathlib
import re
import shutil
import subprocess
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

ROOT = pathlib.Path(__file__).absolute().parent.parent
JOB = ROOT / "configs/linear_regression.textproto"
EXPONENTIAL = "delays.compute.exponential.mean_ms=50"
PATIENCE_S = 30
# Run -> what is set for it.
RUNS = {
    "eight": (8, ["sync={policy: K_SYNC k: 6}", "stop.epochs=12", EXPONENTIAL]),
    "thousand": (1000, ["sync={policy: K_ASYNC k: 600}", "stop.epochs=150",
                        "evaluation.every_epochs=10", EXPONENTIAL]),
}
# Picture -> run, width in pixels, scheme of colours.
PICTURES = {
    "page_light": ("eight", 1000, "light"),
    "page_dark": ("eight", 1000, "dark"),
    "page_narrow": ("eight", 400, "light"),
    "page_thousand": ("thousand", 1000, "light"),
}
TALLEST = 1300  # Pixels.


def simulate(tool, name, folder):
    workers, sets = RUNS[name]
    subprocess.run(
        [tool, "simulate", JOB, f"--workers={workers}",
         f"--run-dir={folder / name}", *(w for s in sets for w in ("--set", s))],
        check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def shown(tool, run):
    """The address of the run's page."""
    with subprocess.Popen([tool, "ui", run], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            yield re.search(r"http://\S+", process.stdout.readline()).group()
        finally:
            process.terminate()


@contextlib.contextmanager
def browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options,
                              service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def take(driver, url, width, scheme, file):
    def resize(height):
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": False})
    resize(TALLEST)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    driver.get(url)
    driver.refresh()  # Where the last address differed behind the # alone.
    WebDriverWait(driver, PATIENCE_S).until(
        lambda d: "goodput" in d.find_element("id", "goodput").text)
    height = driver.execute_script("return document.body.scrollHeight")
    resize(min(height, TALLEST))
    # What has been resized is drawn anew with the next answer.
    seen = driver.execute_script("return performance.getEntries().length")
    WebDriverWait(driver, PATIENCE_S).until(lambda d: d.execute_script(
        "return performance.getEntries().length") > seen + 1)
    driver.save_screenshot(str(file))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--tool", default=str(ROOT / "sluice"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name in RUNS:
            simulate(args.tool, name, folder)
        with browser(folder / "profile") as driver:
            for picture, (name, width, scheme) in PICTURES.items():
                with shown(args.tool, folder / name) as url:
                    take(driver, url, width, scheme,
                         args.out / f"{picture}.png")


if __name__ == "__main__":
    main()
