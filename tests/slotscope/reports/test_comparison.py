"""Growth between two snapshots: what grew, what is new, and what cannot be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.slots.key_slot import key_slot
from slotscope.reports.keyspace.comparison import (
    ComparisonReport,
    Growth,
    Load,
    compare_reports,
    growth_table,
    status_words,
)
from slotscope.reports.keyspace.report import KeyGroup
from tests.benches.reports import terminal_of
from tests.builders.reports_builder import keyspace_report


def grown() -> ComparisonReport:
    """``big:list`` gains 1000 bytes and a key, one tag and one prefix come, one goes."""
    before = keyspace_report()
    slot = key_slot(b"big:list")
    slots = list(before.slots)
    slots[slot] = replace(
        slots[slot], keys=slots[slot].keys + 1, serialized_bytes=(slots[slot].serialized_bytes or 0) + 1000
    )
    after = replace(
        before,
        snapshot_id="2026-09-22\x1b[1m",
        slots=slots,
        prefixes=[*before.prefixes[1:], KeyGroup(b"\x1b[31mnew:", None, 5, 500)],
    )
    return compare_reports(before, after)


def test_growth_has_deltas_and_ratios() -> None:
    """Of keys and of bytes."""
    growth = Growth(b"a", Load(100, 1000), Load(150, 500))

    assert (growth.keys_delta, growth.bytes_delta, growth.keys_ratio, growth.bytes_ratio) == (
        50,
        -500,
        1.5,
        0.5,
    )
    assert growth.status == "shrunk"


def test_what_is_new_or_gone_has_no_ratio() -> None:
    """Nothing to divide by, or nothing left."""
    new, gone = Growth(b"a", None, Load(3, 30)), Growth(b"a", Load(3, 30), None)

    assert (new.status, new.keys_delta, new.bytes_delta, new.keys_ratio, new.bytes_ratio) == (
        "new",
        3,
        30,
        None,
        None,
    )
    assert (gone.status, gone.keys_delta, gone.bytes_delta, gone.bytes_ratio) == ("vanished", -3, -30, None)


def test_the_largest_change_comes_first_and_the_unchanged_is_left_out() -> None:
    """Losses count as much as gains; equal changes are in the order of their names."""
    before = {b"a": Load(1, 10), b"b": Load(9, 900), b"c": Load(1, 1), b"same": Load(2, 2)}
    after = {b"a": Load(2, 20), b"c": Load(2, 11), b"same": Load(2, 2)}

    assert [row.name for row in growth_table("slots", before, after).rows] == [b"b", b"a", b"c"]
    assert len(growth_table("masters", before, after).rows) == 4


def test_reports_are_compared_by_every_kind() -> None:
    """One slot grew, a prefix came and one went, the tags stayed."""
    report = grown()
    rows = {table.kind: [(row.name, row.bytes_delta) for row in table.rows] for table in report.tables}

    assert tuple(rows) == ("masters", "slots", "prefixes", "hash_tags")
    assert (report.total.keys_delta, report.total.bytes_delta) == (1, 1000)
    assert rows["slots"] == [(str(key_slot(b"big:list")).encode(), 1000)]
    assert rows["prefixes"] == [(b"cache:", -41_200_000), (b"\x1b[31mnew:", 500)]
    assert rows["hash_tags"] == []


def test_new_in_a_list_of_the_heaviest_is_not_called_new() -> None:
    """It may have been there below the cut."""
    prefixes = next(table for table in grown().tables if table.kind == "prefixes")

    assert [status_words(row, prefixes) for row in prefixes.rows] == ["left list", "new in list"]


@pytest.mark.long
def test_the_terminal_shows_the_total_and_the_changes() -> None:
    """Within 80 columns, without a control character."""
    said = terminal_of(grown(), html_path="growth.html")

    assert "+1 keys (1.00×) · +1.00 kB serialized" in said
    assert r"\x1b[31mnew:" in said
    assert "left list" in said
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) <= 80
