"""Prefixes as bars by weight, on the page."""

from __future__ import annotations

from slotscope.reports.keyspace.document import prefix_bars, prefix_branches
from tests.benches.reports import page_of, terminal_of
from tests.builders.reports_builder import full_report, keyspace_report


def test_a_prefix_is_drawn_below_the_longest_one_that_it_extends():
    whole, cache, page, session = prefix_bars(keyspace_report())

    assert (whole.row, whole.start, whole.width) == (0, 0.0, 1.0)
    assert [(bar.name, bar.row) for bar in (cache, page, session)] == [
        ("cache:", 1),
        ("cache:page:", 2),
        ("session:", 1),
    ]
    assert (cache.start, page.start, session.start) == (0.0, 0.0, cache.width)
    assert page.width < cache.width
    assert cache.label.startswith("cache:: 90,000 keys, 41.2 MB of bytes, ")


def test_hostile_names_are_no_markup_in_use_and_savings():
    page = page_of(full_report())

    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_the_heaviest_prefixes_stand_below_those_that_they_extend():
    assert [(group.name, depth) for group, depth in prefix_branches(keyspace_report(), 2)] == [
        (b"cache:", 0),
        (b"cache:page:", 1),
    ]
    assert [depth for _, depth in prefix_branches(keyspace_report(), 9)] == [0, 1, 0]
    lines = terminal_of(keyspace_report(), width=100).splitlines()
    at = next(at for at, line in enumerate(lines) if "Heaviest prefixes" in line)

    assert lines[at + 2].startswith("  cache: ")
    assert lines[at + 3].startswith("    cache:page: ")
