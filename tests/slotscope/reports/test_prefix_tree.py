"""Prefixes as bars by weight, on the page."""

from __future__ import annotations

from slotscope.reports.keyspace.document import prefix_branches
from tests.benches.reports import page_of, terminal_of
from tests.builders.reports_builder import full_report, keyspace_report

REPORT = keyspace_report()


def test_hostile_names_are_no_markup_in_use_and_savings():
    page = page_of(full_report())

    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_the_heaviest_prefixes_stand_below_those_that_they_extend():
    assert [(group.name, depth) for group, depth in prefix_branches(REPORT, 2)] == [(b"cache:", 0), (b"cache:page:", 1)]
    assert [depth for _, depth in prefix_branches(REPORT, 9)] == [0, 1, 0]
    lines = terminal_of(REPORT, width=100).splitlines()
    at = next(at for at, line in enumerate(lines) if "Heaviest prefixes" in line)

    assert lines[at + 2].startswith("  cache: ")
    assert lines[at + 3].startswith("    cache:page: ")
