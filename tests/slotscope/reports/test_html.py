"""The page as text: self-contained, deterministic, closed by its policy, safe against names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from slotscope.reports.keyspace.document import slot_data
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.reports.page import embedded_json
from tests.benches.reports import page_of
from tests.builders.reports_builder import empty_report, keyspace_report

SIZE_MAX = 1_500_000
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Structure(HTMLParser):
    """Collects the elements of a page, their attributes and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.raw: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.raw.append((self.open[-1], data))


@pytest.fixture(scope="module")
def hostile_page() -> str:
    """A page in which every name is hostile."""
    return page_of(keyspace_report(hostile=True))


REPORTS: dict[str, Callable[[], KeyspaceReport]] = {
    "plain": keyspace_report,
    "hostile": lambda: keyspace_report(hostile=True),
    "no sizes": lambda: keyspace_report(sizes=False),
    "400 masters": lambda: keyspace_report(masters=400),
    "empty": empty_report,
}
"""One report of each shape."""


@pytest.mark.long
@pytest.mark.parametrize("shape", REPORTS)
def test_every_page_is_well_formed_small_and_without_addresses(shape: str) -> None:
    """Works offline: no address but fragments of its own and an empty icon."""
    page = page_of(REPORTS[shape]())
    structure = Structure(page)
    links = [attrs[name] for _, attrs in structure.elements for name in ("src", "href", "action") if name in attrs]

    assert structure.open == []
    assert len(page.encode()) < SIZE_MAX
    assert not re.search(
        r"\b(https?:)?//\w",
        re.sub(r"//[^\n]*\n", "\n", page.split("<script>")[-1]) + page.split("<script>")[0],
    )
    assert {link for link in links if link and not link.startswith("#")} == {"data:,"}
    assert "{{" not in re.sub(r"\{\{ 7\*7 \}\}", "", page.split("<style>")[0])


@pytest.mark.long
def test_the_policy_names_the_one_script_and_the_one_style_sheet(hostile_page: str) -> None:
    """CSP 3: with ``default-src 'none'`` and digests nothing else runs, and no style attribute works."""
    structure = Structure(hostile_page)
    policy = next(
        attrs["content"] for tag, attrs in structure.elements if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    style, data, script = (content for _, content in structure.raw)

    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for name, content in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert json.loads(data)["snapshot"] == r"2026-09-21<b>\x1b[1m"


def test_hostile_names_make_no_elements_and_no_attributes(hostile_page: str) -> None:
    structure = Structure(hostile_page)
    attributes = {name for _, attrs in structure.elements for name in attrs}

    assert [tag for tag, _ in structure.elements].count("script") == 2
    assert not [tag for tag, _ in structure.elements if tag in ("img", "b", "iframe", "object", "embed")]
    assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert "49" not in re.findall(r">\s*(\d+)% raw", hostile_page)
    assert "{{ 7*7 }}" in hostile_page


def test_embedded_data_cannot_leave_its_script() -> None:
    """``</script``, ``<!--`` and line separators are escaped; the value stays the same."""
    value = {"names": ["</script><!--", "a\u2028b\u2029c", "<script>", "]]>&"]}
    raw = embedded_json(value)

    assert not re.search("[<>&\u2028\u2029]", raw)
    assert json.loads(raw) == value


def test_the_map_has_the_figures_of_every_slot() -> None:
    report = keyspace_report()
    data = slot_data(report)

    assert data["keys"] == [slot.keys for slot in report.slots]
    assert data["bytes"] == [slot.serialized_bytes for slot in report.slots]
    assert data["owner"] == [slot.owner for slot in report.slots]
    assert slot_data(keyspace_report(sizes=False))["bytes"] is None
    assert set(slot_data(empty_report())["owner"]) == {-1}


@pytest.mark.long
def test_a_page_stays_small_whatever_the_keys_are_called() -> None:
    """Names of the largest keys are cut; fully escaped names take twice the room."""
    report = keyspace_report()
    slots = [replace(slot, top_key=b"<" * 5_000, top_key_bytes=5_000) for slot in report.slots]

    assert len(page_of(replace(report, slots=slots)).encode()) < 2 * SIZE_MAX


def test_the_verdict_and_its_reliability_come_before_all_figures(hostile_page: str) -> None:
    """In the order of the file, which is that of a screen reader: the sentence, how many warnings, figures, then the warnings."""
    places = ['id="verdict"', 'href="#warnings"><span class="severity', 'id="total-keys"', 'id="map"', 'id="warnings"']

    assert sorted(places, key=hostile_page.index) == places
