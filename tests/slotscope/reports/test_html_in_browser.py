"""The page in a real browser has the figures of the report, for pointer, keyboard and screen reader."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster_core.slots.key_slot import key_slot
from slotscope.runtime import text
from tests.benches.browser import Page, open_page
from tests.benches.reports import page_of
from tests.builders.reports_builder import HOSTILE_KEYS, keyspace_report

report = partial(keyspace_report, hostile=True)
LEFT, TOP, RIGHT = 46, 20, 76
"""Margins of the map in a wide window, in pixels: numbers of slots, of columns, names of masters."""


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(report()), encoding="utf-8")
    return path


@pytest.fixture
def page(chromium: Any, page_path: Path) -> Page:
    return open_page(chromium, page_path)


def digits(text: str) -> int:
    """Read a number that is written with separators."""
    return int("".join(character for character in text if character.isdigit()))


def readout(page: Page) -> dict[str, str]:
    """Return the shown facts of the current slot, by field."""
    return dict(
        page.run(
            "return Object.fromEntries([...document.querySelectorAll('#readout [data-field]')]"
            ".map((element) => [element.dataset.field, element.textContent]))"
        )
    )


def assert_says(page: Page, slot: int) -> None:
    """The readout holds all that the report knows of *slot*."""
    load, shown = report().slots[slot], readout(page)
    owner = None if load.owner is None else report().nodes[load.owner]
    assert shown["slot"] == str(slot)
    assert shown["owner"].endswith(f"({owner.address})" if owner else "none")
    assert (digits(shown["keys"]), digits(shown["expires"])) == (load.keys, load.expires)
    assert shown["bytes"] == text.size(load.serialized_bytes)
    tags = [tag for tag in report().hash_tags if tag.slot == slot]
    assert shown["topTag"] == (
        f"{{{text.shown(tags[0].name, 40)}}}: {text.plural(tags[0].keys, 'key')}" if tags else "—"
    )
    assert shown["topKey"] == ("—" if load.top_key is None else text.shown(load.top_key))


def press(page: Page, *keys: str) -> None:
    """Send keys to whatever has the focus."""
    from selenium.webdriver import ActionChains

    chain = ActionChains(page.driver)
    for key in keys:
        chain.send_keys(key)
    chain.perform()


def test_the_pointer_over_a_slot_shows_its_figures(page: Page) -> None:
    from selenium.webdriver import ActionChains

    canvas = page.driver.find_element("css selector", "#slot-cells")
    page.run(
        "document.documentElement.style.scrollBehavior = 'auto'; arguments[0].scrollIntoView({block: 'center'})",
        canvas,
    )
    width, height = page.run("const box = arguments[0].getBoundingClientRect(); return [box.width, box.height]", canvas)
    cell = (width - LEFT - RIGHT) / 128
    for slot in (0, 127, 5460, 8106, 16383):
        x, y = LEFT + (slot % 128 + 0.5) * cell, TOP + (slot // 128 + 0.5) * cell
        pointer = ActionChains(page.driver)
        pointer.move_to_element_with_offset(canvas, round(x - width / 2), round(y - height / 2)).perform()

        assert_says(page, slot)


def test_the_keyboard_walks_the_map(page: Page) -> None:
    from selenium.webdriver import ActionChains, Keys

    page.run("document.getElementById('slot-map').focus()")
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys(Keys.HOME).key_up(Keys.CONTROL).perform()
    for keys, slot in [
        ((Keys.ARROW_LEFT,), 0),
        ((Keys.ARROW_UP,), 0),
        ((Keys.ARROW_RIGHT, Keys.ARROW_DOWN), 129),
        ((Keys.END,), 255),
        ((Keys.HOME,), 128),
        ((Keys.PAGE_DOWN,), 2176),
        ((Keys.PAGE_UP, Keys.PAGE_UP), 0),
    ]:
        press(page, *keys)
        assert_says(page, slot)
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert_says(page, 16383)


def test_the_map_shows_another_figure(page: Page) -> None:
    picture = "return document.getElementById('slot-cells').toDataURL()"
    seen = [page.run(picture)]
    for value in ("keys", "expires", "owner"):
        page.choose("metric", value)
        seen.append(page.run(picture))
        if value == "keys":
            assert digits(page.texts("#legend-ticks li")[-1]) == max(slot.keys for slot in report().slots)

    assert len(set(seen)) == len(seen)
    assert sorted(page.texts("#legend-owners li")) == sorted(page.texts("#master-table tbody th"))


@pytest.mark.parametrize("column", [3, 4])
def test_a_table_sorts_by_its_heading_from_the_keyboard(page: Page, column: int) -> None:
    from selenium.webdriver import Keys

    button = page.driver.find_element("css selector", f"#master-table thead th:nth-child({column + 1}) button")
    values = [node.keys if column == 3 else node.serialized_bytes or 0 for node in report().nodes]
    read = (
        "return [...document.querySelectorAll('#master-table tbody tr')]"
        ".map((row) => Number(row.cells[arguments[0]].querySelector('data').value))"
    )
    for order, expected in [("descending", sorted(values, reverse=True)), ("ascending", sorted(values))]:
        page.run("arguments[0].focus()", button)
        press(page, Keys.ENTER)
        assert page.run(read, column) == expected
        assert page.run("return arguments[0].closest('th').getAttribute('aria-sort')", button) == order
    assert page.run("return document.querySelectorAll('#master-table [aria-sort$=ending]').length") == 1


def test_a_typed_key_leads_to_its_slot(page: Page) -> None:
    """R112 and R113: the same slot as a server's."""
    field = page.driver.find_element("css selector", "#find-input")
    for key in ("{user1}:cart", "big:list", "user:{a}{b}", "{}empty", "größe:日本", "12345x", "a{b", "}a{c}"):
        field.clear()
        field.send_keys(key + "\n")

        assert_says(page, key_slot(key.encode()))
        assert f"slot {key_slot(key.encode())}" in page.text("#find-result")


def test_nothing_is_loaded_no_error_is_logged_and_no_name_runs(chromium: Any, page_path: Path) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    chromium.get("about:blank")
    chromium.get_log("performance")
    chromium.get_log("browser")
    page = open_page(chromium, page_path)
    requested = page.requests()
    for metric in ("keys", "expires", "owner"):
        page.choose("metric", metric)

    assert [address for address in requested if address.startswith("file:")] == [page_path.resolve().as_uri()]
    assert page.remote_requests() == []
    assert {address for address in requested if not address.startswith(("file:", "data:,"))} == set()
    assert page.console() == []
    with pytest.raises(NoAlertPresentException):
        page.driver.switch_to.alert.dismiss()
    assert page.texts("#big-keys-table tbody th")[: len(HOSTILE_KEYS)] == [text.shown(key) for key in HOSTILE_KEYS]


def test_the_focus_can_be_seen_wherever_tab_leads(page: Page) -> None:
    """WCAG 2.4.7: an outline, on the element or on the label that stands for it."""
    from selenium.webdriver import Keys

    page.run("document.body.focus()")
    seen = []
    for _ in range(40):
        press(page, Keys.TAB)
        seen.append(
            page.run(
                "const element = document.activeElement;"
                "const drawn = element.matches('.choice input') ? element.nextElementSibling : element;"
                "const style = getComputedStyle(drawn);"
                "const name = element.id || element.name || element.textContent.trim().slice(0, 20);"
                "return [name, style.outlineStyle, parseFloat(style.outlineWidth)]"
            )
        )

    assert seen[0][0] == "Skip to content"
    assert {"slot-map", "metric"} <= {name for name, _, _ in seen}
    assert [name for name, style, width in seen if style == "none" or width < 1] == []
