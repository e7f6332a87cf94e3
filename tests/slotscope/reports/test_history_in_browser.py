"""The history page in a real browser: the numbers of the report, by keyboard and for screen readers, without network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slotscope.reports.history.html import render_history
from tests.benches.browser import Page, open_page
from tests.builders.history_builder import NODES, A, B
from tests.builders.history_report import history_report

REPORT = history_report()


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Page:
    """The report of the failover, freshly opened."""
    path = tmp_path / "history.html"
    path.write_text(render_history(REPORT), encoding="utf-8")
    return open_page(chromium, path)


def test_the_page_says_what_the_report_holds(page: Page) -> None:
    """Totals, findings, incidents, steps."""
    assert page.value("#total-incidents") == len(REPORT.incidents)
    assert page.value("#total-nodes") == len(NODES)
    assert page.value("#total-messages") == REPORT.messages
    assert page.run("return Number(document.querySelector('#findings .tally').dataset.count)") == len(REPORT.troubles)
    assert page.texts("#findings .warning-text") == [one.text for one in REPORT.troubles]
    assert page.texts("#incident-table tbody .cause") == [one.summary for one in REPORT.incidents]
    counts = page.run(
        "return [...document.querySelectorAll('.story')].map((one) => one.querySelectorAll('.steps li').length)"
    )
    assert counts == [one.step_count for one in REPORT.incidents]


def test_a_page_begins_with_its_verdict_then_figures_then_notes(page: Page) -> None:
    """One sentence, the time axis with the stories, the table, and what is to be known beside it."""
    order = page.run("return [...document.querySelectorAll('main > section[id]')].map((one) => one.id)")

    assert order == ["verdict", "timelines", "incidents", "findings", "silence", "costs", "reading"]
    assert page.text("#verdict h2").startswith("1 failover and 1 outage in 30.00 s: ")


def test_a_story_has_the_figures_of_its_incident(page: Page) -> None:
    """Exact behind the rounded."""
    failover = next(one for one in REPORT.incidents if one.kind == "failover")
    figures = page.run(
        "return Object.fromEntries([...document.querySelectorAll(`#incident-${arguments[0]} [data-figure]`)]"
        ".map((one) => [one.dataset.figure, Number(one.querySelector('data').value)]))",
        failover.number,
    )

    assert figures == {name: value for name, value in failover.figures.items() if value is not None}
    assert page.texts(f"#incident-{failover.number} .steps .offset")[0] == "+0.000 s"


def lane_of(page: Page, node: str) -> list[list[Any]]:
    """What a lane draws: class, place and width in percent, hidden or not."""
    return list(
        page.run(
            "return [...document.querySelectorAll(`.lane-row[data-node='${arguments[0]}'] svg rect:not(.mark)`)].map((one) => "
            "[one.getAttribute('class').split(' ')[0], parseFloat(one.getAttribute('x')), parseFloat(one.getAttribute('width')),"
            " one.hasAttribute('hidden')])",
            node,
        )
    )


def settled(page: Page) -> None:
    """Wait until the page has drawn what it was asked for."""
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def test_a_lane_draws_roles_and_health_where_they_were(page: Page) -> None:
    """A is a master until 20.05 s of 30; held for failed from 12.5 to 20.1 s."""
    bars = lane_of(page, A)

    assert bars[0] == ["band-master", 0, pytest.approx(100 * 20.05 / 30, abs=0.1), False]
    assert bars[1][0] == "band-replica"
    assert bars[-1] == [
        "band-failed",
        pytest.approx(100 * 12.5 / 30, abs=0.1),
        pytest.approx(100 * 7.6 / 30, abs=0.1),
        False,
    ]


def test_keys_zoom_to_a_millisecond_and_back(page: Page) -> None:
    """The axis takes + and 0, N goes to the next incident; what lies outside is hidden, ticks are in the chosen zone."""
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
    assert any("." in words and len(words.split(".")[1]) == 6 for words in deepest)
    assert hidden
    assert any(words.startswith("+") and words.endswith(" s") for words in relative)
    assert [bar[3] for bar in lane_of(page, A)] == [False] * len(lane_of(page, A))


def test_the_wheel_zooms_over_the_axis_and_scrolls_over_the_lanes(page: Page) -> None:
    """A page of three hundred lanes must still scroll; with Ctrl the lanes zoom, too."""
    turn = (
        "const target = document.querySelector(arguments[0]);"
        "const event = new WheelEvent('wheel', {deltaY: -240, ctrlKey: arguments[1], clientX: 300, bubbles: true, cancelable: true});"
        "target.dispatchEvent(event); return event.defaultPrevented;"
    )

    taken = [page.run(turn, where, ctrl) for where, ctrl in [("#axis", False), (".lane", False), (".lane", True)]]

    assert taken == [True, False, True]


def test_a_step_points_at_its_time_and_its_lanes(page: Page) -> None:
    """The cursor stands where it happened, the lanes of those who did it are marked, and its marks on them."""
    page.run("document.querySelector('.story details').open = true; document.querySelector('.steps > li').focus()")
    told = page.run("return [...document.querySelectorAll('.lane-row.told')].map((one) => one.dataset.node)")

    assert told == [A]
    assert page.run("return document.querySelectorAll('.mark.told').length") == 1
    assert page.run("return document.querySelector('.time-cursor').hidden") is False


def test_nodes_without_a_part_are_folded(page: Page) -> None:
    """Those of an incident come first."""
    first = page.run("return document.querySelector('.lane-row').dataset.node")
    folded = page.run("return document.querySelectorAll('.other-lanes .lane-row').length")
    shown = page.run("return document.querySelectorAll('.lane-list > ol > .lane-row').length")

    assert first == REPORT.incidents[0].subject
    assert folded + shown == len(NODES)


def test_a_phone_shows_cards_that_are_not_cut(chromium: Any, tmp_path: Path) -> None:
    """At 420 px nothing lies beside the page."""
    path = tmp_path / "history.html"
    path.write_text(render_history(REPORT), encoding="utf-8")
    metrics = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = open_page(chromium, path)
        beside = page.run(
            "return [...document.querySelectorAll('#incident-table *, .lane-list *, .story *')]"
            ".filter((one) => one.getBoundingClientRect().right > 421).length"
        )
        label = page.run(
            "return getComputedStyle(document.querySelector('#incident-table [data-label]'), '::before').content"
        )
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert beside == 0
    assert label == '"Since start: "'


def test_silence_is_a_matrix_of_observers_and_nodes(page: Page) -> None:
    """The one that died was not heard by any of the others."""
    values = page.run(
        "return [...document.querySelectorAll(`tr[data-observer='${arguments[0]}'] td`)].map((one) => "
        "[one.className.match(/silence-\\d/)[0], one.querySelector('data') ? Number(one.querySelector('data').value) : null])",
        B,
    )

    assert values == [["silence-4", 10_500], ["silence-0", None], ["silence-0", 700], ["silence-0", 700]]


def test_keys_open_stories_and_sort_the_incidents(chromium: Any, tmp_path: Path) -> None:
    """Enter on a number leads to its story, Enter on a summary opens or closes it, headings sort."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    first_one = REPORT.incidents[0]
    path = tmp_path / "two.html"
    path.write_text(
        render_history(replace(REPORT, incidents=(first_one, replace(first_one, number=2)))), encoding="utf-8"
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


def test_a_screen_reader_is_told_what_is_drawn(page: Page) -> None:
    """Every lane has words, every table a caption, every heading its level, every region a name."""
    words = page.run(
        "return [...document.querySelectorAll('svg[role=img]')].map((one) => one.getAttribute('aria-label'))"
    )
    unnamed = page.run(
        "return [...document.querySelectorAll('[role=region], section, article')].filter((one) => "
        "!one.getAttribute('aria-label') && !document.getElementById(one.getAttribute('aria-labelledby'))).length"
    )
    captions = page.run("return [...document.querySelectorAll('table')].filter((one) => !one.caption).length")
    levels = page.run("return [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))")

    assert len(words) == len(NODES)
    assert all(words)
    assert (unnamed, captions) == (0, 0)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_have_ink_that_stands_out(page: Page, theme: str) -> None:
    """WCAG contrast of body text and of every shade of the matrix."""
    page.choose("theme", theme)
    contrast = page.run(
        """
        const lum = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255)
          .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
          return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
        const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
        const cell = document.querySelector('.matrix td');
        const found = [];
        for (const level of [1, 2, 3, 4]) {
          cell.className = `number silence-${level}`;
          const style = getComputedStyle(cell);
          found.push(ratio(style.color, style.backgroundColor));
        }
        const step = getComputedStyle(document.querySelector('.steps .offset'));
        found.push(ratio(step.color, getComputedStyle(document.querySelector('.story')).backgroundColor));
        return found;
        """
    )

    assert all(value >= 4.5 for value in contrast), contrast


def test_hostile_names_stay_text_and_nothing_is_loaded(chromium: Any, tmp_path: Path) -> None:
    """No script runs, no element appears, no request leaves, the console is quiet."""
    path = tmp_path / "hostile.html"
    report = history_report(hostile=True)
    path.write_text(render_history(report), encoding="utf-8")
    page = open_page(chromium, path)

    assert page.run("return document.querySelectorAll('img, iframe').length") == 0
    assert page.run("return document.querySelectorAll('script:not([type])').length") == 1
    assert page.texts("#incident-table tbody td:nth-child(4)")[0].startswith("<script>alert(1)")
    assert page.remote_requests() == []
    assert page.console() == []
