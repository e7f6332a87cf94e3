"""Prefixes as a tree by weight, on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotscope.reports.keyspace.document import prefix_branches, prefix_tree
from tests.benches.browser import open_page
from tests.benches.reports import page_of, terminal_of
from tests.builders.reports_builder import full_report, keyspace_report

REPORT = keyspace_report()


def test_a_prefix_lies_below_the_longest_one_that_it_extends():
    tree = prefix_tree(REPORT)

    assert tree is not None
    root = tree["root"]
    assert [child["name"] for child in root["children"]] == ["cache:", "session:"]
    assert [child["name"] for child in root["children"][0]["children"]] == ["cache:page:"]
    assert root["weight"] >= sum(child["weight"] for child in root["children"])


def test_hostile_names_are_no_markup_in_use_and_savings():
    page = page_of(full_report())

    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


@pytest.mark.browser
def test_a_click_zooms_into_a_prefix_and_the_first_bar_out(chromium: Any, tmp_path: Path):
    path = tmp_path / "report.html"
    path.write_text(page_of(replace(REPORT, use=full_report().use)), encoding="utf-8")
    page = open_page(chromium, path)
    click = (
        "document.querySelectorAll('#icicle g')[arguments[0]].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    labels = page.texts("#icicle text")
    page.run("document.querySelector('#icicle g').focus()")
    walked = []
    for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):
        page.run(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))",
            key,
        )
        walked.append(page.run("return document.activeElement.querySelector('text').textContent"))
    stops = page.run("return document.querySelectorAll('#icicle [tabindex=\"0\"]').length")

    page.run(click, 1)
    zoomed = page.texts("#icicle text")
    page.choose("icicle-colour", "heat")
    page.run(click, 0)

    assert labels[:2] == ["all keys", "cache:"]
    assert (walked[0], walked[2:], stops) == ("cache:", ["cache:", "all keys"], 1)
    assert walked[1] not in ("cache:", "all keys")
    assert zoomed[0] == "cache:"
    assert "session:" not in zoomed
    assert page.texts("#icicle text") == labels
    assert page.console() == []


def test_the_heaviest_prefixes_stand_below_those_that_they_extend():
    assert [(group.name, depth) for group, depth in prefix_branches(REPORT, 2)] == [(b"cache:", 0), (b"cache:page:", 1)]
    assert [depth for _, depth in prefix_branches(REPORT, 9)] == [0, 1, 0]
    lines = terminal_of(REPORT, width=100).splitlines()
    at = next(at for at, line in enumerate(lines) if "Heaviest prefixes" in line)

    assert lines[at + 2].startswith("  cache: ")
    assert lines[at + 3].startswith("    cache:page: ")
