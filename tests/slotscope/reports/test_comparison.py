"""Growth between two snapshots: grown, new and unknown figures."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.slots.key_slot import key_slot
from slotscope.reports.keyspace.comparison import (
    ComparisonReport,
    Growth,
    Load,
    compare_reports,
    growth_table,
    status_text,
)
from slotscope.reports.records import Row
from tests.benches.reports import terminal_of
from tests.builders.reports_builder import key_group, keyspace_report


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
        prefixes=[*before.prefixes[1:], key_group(b"\x1b[31mnew:", keys=5, size=500)],
    )
    return compare_reports(before, after)


def changes(growth: Growth) -> list[object]:
    """The changes of keys and bytes, each with its ratio, and the status."""
    pairs = [(growth.delta(figure), growth.ratio(figure)) for figure in ("keys", "serialized_bytes")]
    return [*pairs, growth.status]


def test_growth_has_deltas_and_ratios_of_keys_and_bytes_unless_one_side_is_missing() -> None:
    load = Load(3, 30)

    assert changes(Growth(b"a", Load(100, 1000), Load(150, 500))) == [(50, 1.5), (-500, 0.5), "shrunk"]
    assert changes(Growth(b"a", None, load)) == [(3, None), (30, None), "new"]
    assert changes(Growth(b"a", load, None)) == [(-3, None), (-30, None), "vanished"]
    assert changes(Growth(b"a", load, Load(4, None))) == [(1, 4 / 3), (None, None), "grown"]


def test_the_largest_change_comes_first_and_the_unchanged_is_left_out() -> None:
    """Losses count as much as gains; equal changes are in the order of their names."""
    before = {b"a": Load(1, 10), b"b": Load(9, 900), b"c": Load(1, 1), b"same": Load(2, 2)}
    after = {b"a": Load(2, 20), b"c": Load(2, 11), b"same": Load(2, 2)}

    assert [row.name for row in growth_table("slots", before, after).rows] == [b"b", b"a", b"c"]
    assert len(growth_table("masters", before, after).rows) == 4


def test_reports_are_compared_by_every_kind() -> None:
    """One slot grew, a prefix came and one went, the tags stayed."""
    report = grown()
    rows = {table.kind: [(row.name, row.delta("serialized_bytes")) for row in table.rows] for table in report.tables}

    assert tuple(rows) == ("masters", "slots", "prefixes", "hash_tags")
    assert [report.total.delta(figure) for figure in ("keys", "serialized_bytes")] == [1, 1000]
    assert rows["slots"] == [(str(key_slot(b"big:list")).encode(), 1000)]
    assert rows["prefixes"] == [(b"cache:", -41_200_000), (b"\x1b[31mnew:", 500)]
    assert rows["hash_tags"] == []


def test_a_promoted_replica_is_no_growth_of_its_master() -> None:
    masters = growth_table("masters", {b"a": Load(9, 900), b"b": Load(1, 1)}, {b"c": Load(9, 900), b"b": Load(2, 2)})
    report = ComparisonReport("x", "y", None, None, Growth(b"", Load(10, 901), Load(11, 902)), [masters])

    assert "most on" not in report.verdict


def test_sizes_unknown_in_either_snapshot_are_unknown_for_every_row() -> None:
    """Compared with a key list a prefix that is gone has no known change of bytes, and a snapshot without topology no empty name."""
    after = replace(
        keyspace_report(sizes=False),
        prefixes=[],
        nodes=[Row(node_id=None, address="", keys=5, serialized_bytes=None, memory_bytes=None)],
    )
    report = compare_reports(keyspace_report(), after)

    assert {row.delta("serialized_bytes") for table in report.tables for row in table.rows} == {None}
    assert "no node" in terminal_of(report)
    assert "Bytes" not in terminal_of(report)


def test_a_new_entry_in_a_list_of_the_heaviest_is_not_called_new() -> None:
    """It may have been there below the cut."""
    prefixes = next(table for table in grown().tables if table.kind == "prefixes")

    assert [status_text(row, prefixes) for row in prefixes.rows] == ["left list", "new in list"]
