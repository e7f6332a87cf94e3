"""The page of a plan in a real browser: its numbers and drawings, by keyboard and for screen readers, without network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benches.browser import Page, open_page
from tests.benches.reports import page_of
from tests.builders.rebalance_report import rebalance_report

REPORT = rebalance_report()
AUDIT = Path(__file__).with_name("audit.js").read_text(encoding="utf-8")


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Page:
    """The report of six masters, freshly opened."""
    path = tmp_path / "plan.html"
    path.write_text(page_of(REPORT), encoding="utf-8")
    return open_page(chromium, path)


def test_the_page_says_what_the_report_holds(page: Page) -> None:
    """Totals, resources, masters, moves, tolerances, certificates, earlier plans."""
    assert page.value("#total-moved") == REPORT.moved
    assert page.value("#total-bound") == REPORT.bound
    assert page.value("#total-slots") == REPORT.moved_slots
    assert page.value("#total-ranges") == REPORT.ranges_after
    assert page.texts("#balance-table tbody th") == ["serialized bytes", "keys", "ops"]
    assert len(page.texts("#master-table tbody tr")) == len(REPORT.nodes)
    assert len(page.texts("#move-table tbody tr")) == len(REPORT.transfers)
    assert len(page.texts("#tolerance-table tbody tr")) == len(REPORT.tolerances)
    kept = page.texts("#history-table tbody td:last-child")
    assert kept == ["not executed", "kept", "broken", "not executed"]


def test_bars_are_as_long_as_the_loads(page: Page) -> None:
    """Before, after and limit of the first master in per cent of the longest bar."""
    node = max(REPORT.nodes, key=lambda one: one.ratio("serialized_bytes", after=False))
    share = node.shares["serialized_bytes"]
    longest = max(one.shares["serialized_bytes"].before for one in REPORT.nodes)
    drawn = page.run(
        "const svg = document.querySelector('#master-table tbody svg');"
        "return [svg.querySelector('.fill-over').getAttribute('width'), svg.querySelector('.bar-fill').getAttribute('width'),"
        "svg.querySelector('.bar-mark').getAttribute('x1')].map(Number)"
    )

    assert drawn == pytest.approx(
        [100 * value / longest for value in (share.before, share.after, share.limit)], abs=0.01
    )


def test_what_few_people_need_is_folded(page: Page) -> None:
    """Tolerances, ticket and the explanation; the command to type is not."""
    script = "return [...document.querySelectorAll('details')].map((one) => one.closest('section').id)"

    assert page.run(script) == ["tolerances", "ticket", "reading"]
    assert page.run("return document.querySelector('#verdict').nextElementSibling.id") == "next"


def test_tables_sort_by_keyboard(page: Page) -> None:
    """Enter on a heading sorts by the figure behind the words."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page.run("document.querySelector('#tolerances details').open = true")
    page.driver.find_element(By.CSS_SELECTOR, "#tolerance-table thead th:nth-child(2) button").send_keys(Keys.ENTER)
    script = "return [...document.querySelectorAll('#tolerance-table tbody td:nth-child(2)')].map((one) => +one.dataset.sort)"
    down = page.run(script)
    page.driver.find_element(By.CSS_SELECTOR, "#move-table thead th:nth-child(4) button").send_keys(Keys.ENTER)
    sizes = page.run(
        "return [...document.querySelectorAll('#move-table tbody td:nth-child(4)')].map((one) => +one.dataset.sort)"
    )

    assert down == sorted(down, reverse=True)
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("masters", [6, 100])
def test_the_basics_of_accessibility_hold(chromium: Any, tmp_path: Path, theme: str, masters: int) -> None:
    """Names, captions, heading levels, ids, contrast of text: what audit.js looks at."""
    path = tmp_path / "plan.html"
    path.write_text(page_of(rebalance_report(masters)), encoding="utf-8")
    page = open_page(chromium, path)
    page.choose("theme", theme)

    assert page.run(AUDIT) == []


@pytest.mark.parametrize("width", [380, 1280])
def test_the_page_is_as_wide_as_the_window(page: Page, width: int) -> None:
    """Wide tables scroll in their own frame, also on a small screen."""
    page.driver.set_window_size(width, 1600)
    try:
        overhang = page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    finally:
        page.driver.set_window_size(1280, 1600)

    assert overhang == 0


def test_hostile_names_stay_text_and_nothing_is_loaded(chromium: Any, tmp_path: Path) -> None:
    """No script runs, no element appears, no request leaves, the console is quiet."""
    path = tmp_path / "hostile.html"
    path.write_text(page_of(rebalance_report(hostile=True)), encoding="utf-8")
    page = open_page(chromium, path)

    assert page.run("return document.querySelectorAll('img, iframe').length") == 0
    assert page.run("return document.querySelectorAll('script:not([type])').length") == 1
    assert page.remote_requests() == []
    assert page.console() == []
