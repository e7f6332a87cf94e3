"""Opens a page in a real headless Chromium and asks it questions; without one the test is skipped."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1600",
)
_LOCAL_SCHEMES = ("file:", "data:", "blob:", "about:", "chrome:", "devtools:")


@dataclass(frozen=True, slots=True)
class Page:
    """One open page: *driver* is selenium's, for keys and the pointer."""

    driver: Any

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches."""
        return str(self.run("return document.querySelector(arguments[0]).textContent.trim()", selector))

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent.trim())"
        return list(self.run(script, selector))

    def value(self, selector: str) -> int:
        return int(self.run("return document.querySelector(arguments[0]).querySelector('data').value", selector))

    def choose(self, name: str, value: str) -> None:
        script = "document.querySelector(`input[name=${arguments[0]}][value=${arguments[1]}]`).click()"
        self.run(script, name, value)

    def console(self) -> list[str]:
        """Return the warnings and errors of the page's console since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Return the addresses asked for since it was last asked, of whatever scheme."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def remote_requests(self) -> list[str]:
        """Return the addresses asked for that lie outside this machine's files."""
        return [address for address in self.requests() if not address.startswith(_LOCAL_SCHEMES)]


def find_chromium() -> tuple[str | None, str | None]:
    """Return the paths of the browser and its driver; None for a missing one."""
    browsers = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    drivers = map(
        shutil.which, ("chromedriver", "/usr/lib/chromium/chromedriver", "/usr/lib/chromium-browser/chromedriver")
    )
    return next(filter(None, browsers), None), next(filter(None, drivers), None)


def what_is_missing() -> str:
    """Return why no page can be opened here, or ``""``."""
    browser, driver = find_chromium()
    if find_spec("selenium") is None:
        return "selenium is not installed"
    return (
        "chromium is not installed"
        if browser is None
        else ""
        if driver
        else "chromium is there, its driver is not installed"
    )


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start the system's Chromium with a profile of its own."""
    from selenium import webdriver

    browser, driver_path = find_chromium()
    options = webdriver.ChromeOptions()
    options.binary_location = str(browser)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    options.set_capability("unhandledPromptBehavior", "ignore")
    with tempfile.TemporaryDirectory(prefix="slotscope-chromium-", ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": profile})
        from selenium.webdriver.chrome.service import Service

        driver = webdriver.Chrome(options=options, service=Service(driver_path))
        try:
            yield driver
        finally:
            driver.quit()


def open_page(driver: Any, path: Path) -> Page:
    driver.get(path.resolve().as_uri())
    return Page(driver)
