"""The history page in a real browser: the numbers of the report, by keyboard and for screen readers, without network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slotscope.reports.history.html import render_history
from tests.benches.browser import Page, open_page
from tests.builders.history_builder import NODES, A
from tests.builders.history_report import history_report


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Page:
    """The report of the failover, freshly opened."""
    path = tmp_path / "history.html"
    path.write_text(render_history(history_report()), encoding="utf-8")
    return open_page(chromium, path)


def test_a_page_begins_with_its_verdict_then_figures_then_notes(page: Page) -> None:
    order = page.run("return [...document.querySelectorAll('main > section[id]')].map((node) => node.id)")

    assert order == ["verdict", "timelines", "incidents", "findings", "reading"]
    assert page.text("#verdict h2").startswith("1 failover and 1 outage in 30.00 s: ")


def lane_of(page: Page, node: str) -> list[list[Any]]:
    """What a lane draws: class, place and width in percent, hidden or not."""
    return list(
        page.run(
            "return [...document.querySelectorAll(`.lane-row[data-node='${arguments[0]}'] svg rect:not(.mark)`)].map((node) => "
            "[node.getAttribute('class').split(' ')[0], parseFloat(node.getAttribute('x')), parseFloat(node.getAttribute('width')),"
            " node.hasAttribute('hidden')])",
            node,
        )
    )


def settled(page: Page) -> None:
    """Wait until the page is drawn."""
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def test_keys_zoom_to_a_millisecond_and_back(page: Page) -> None:
    from selenium.webdriver.common.by import By

    axis = page.driver.find_element(By.ID, "axis")
    whole = page.texts(".time-axis text")
    axis.send_keys("n")
    settled(page)
    near = axis.get_attribute("aria-valuetext")
    chosen = page.run("return document.querySelector('.story.chosen').id")
    axis.send_keys("+" * 40)
    settled(page)
    deepest = page.texts(".time-axis text")
    hidden = [bar for bar in lane_of(page, A) if bar[3]]
    page.choose("zone", "start")
    settled(page)
    relative = page.texts(".time-axis text")
    axis.send_keys("0")
    settled(page)

    assert chosen == "incident-1"
    assert near.endswith("UTC")
    assert whole[0].count(":") == 2
    assert any("." in label and len(label.split(".")[1]) == 6 for label in deepest)
    assert hidden
    assert any(label.startswith("+") and label.endswith(" s") for label in relative)
    assert [bar[3] for bar in lane_of(page, A)] == [False] * len(lane_of(page, A))


def test_a_step_points_at_its_time_and_its_lanes(page: Page) -> None:
    page.run("document.querySelector('.story details').open = true; document.querySelector('.steps > li').focus()")
    marked = page.run("return [...document.querySelectorAll('.lane-row.highlighted')].map((node) => node.dataset.node)")

    assert marked == [A]
    assert page.run("return document.querySelectorAll('.mark.highlighted').length") == 1
    assert page.run("return document.querySelector('.time-cursor').hidden") is False


def test_keys_open_stories_and_sort_the_incidents(chromium: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    first_one = history_report().incidents[0]
    path = tmp_path / "two.html"
    path.write_text(
        render_history(replace(history_report(), incidents=(first_one, replace(first_one, number=2)))), encoding="utf-8"
    )
    page = open_page(chromium, path)

    page.driver.find_element(By.CSS_SELECTOR, "#incident-table tbody tr:nth-child(2) a").send_keys(Keys.ENTER)
    target = page.run("return document.querySelector(':target').id")
    open_before = page.run("return document.querySelector('#incident-1 details').open")
    page.driver.find_element(By.CSS_SELECTOR, "#incident-1 summary").send_keys(Keys.ENTER)
    open_after = page.run("return document.querySelector('#incident-1 details').open")
    page.driver.find_element(By.CSS_SELECTOR, "#incident-table thead th:first-child button").send_keys(Keys.ENTER)
    first = page.texts("#incident-table tbody th")[0]

    assert (target, open_after, first) == ("incident-2", not open_before, "2")


def test_a_screen_reader_has_texts_for_lanes_and_regions(page: Page) -> None:
    labels = page.run(
        "return [...document.querySelectorAll('svg[role=img]')].map((node) => node.getAttribute('aria-label'))"
    )
    unnamed = page.run(
        "return [...document.querySelectorAll('[role=region], section, article')].filter((node) => "
        "!node.getAttribute('aria-label') && !document.getElementById(node.getAttribute('aria-labelledby'))).length"
    )
    captions = page.run("return [...document.querySelectorAll('table')].filter((node) => !node.caption).length")
    levels = page.run("return [...document.querySelectorAll('h1, h2, h3, h4')].map((node) => Number(node.tagName[1]))")

    assert len(labels) == len(NODES)
    assert all(labels)
    assert (unnamed, captions) == (0, 0)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_hostile_names_stay_text_and_nothing_is_loaded(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    report = history_report(hostile=True)
    path.write_text(render_history(report), encoding="utf-8")
    page = open_page(chromium, path)

    assert page.run("return document.querySelectorAll('img, iframe').length") == 0
    assert page.run("return document.querySelectorAll('script:not([type])').length") == 1
    assert page.texts("#incident-table tbody td:nth-child(4)")[0].startswith("<script>alert(1)")
    assert page.remote_requests() == []
    assert page.console() == []
