"""What is derived from a report: names of nodes, skew, and the causes of heavy slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.kinds import Severity
from cluster_core.slots.key_slot import key_slot
from slotscope.reports.keyspace.figures import (
    Cause,
    Weight,
    heavy_slots,
    max_over_mean,
    node_names,
    totals,
    weighed_by,
)
from slotscope.reports.keyspace.report import KeyGroup
from slotscope.reports.severities import count_by_severity
from tests.builders.reports_builder import empty_report, keyspace_report, without_sizes


@pytest.mark.long
def test_the_total_is_the_sum_of_the_slots() -> None:
    """Every key is in one slot."""
    report = keyspace_report()
    whole = totals(report)

    assert whole.keys == sum(slot.keys for slot in report.slots) == sum(node.keys for node in report.nodes)
    assert whole.serialized_bytes == sum(slot.serialized_bytes or 0 for slot in report.slots)
    assert (whole.owned_slots, whole.used_slots) == (16384, sum(slot.keys > 0 for slot in report.slots))


@pytest.mark.long
def test_a_total_without_sizes_is_not_nothing() -> None:
    """Unknown bytes are None, never 0."""
    assert totals(keyspace_report(sizes=False)).serialized_bytes is None
    assert totals(empty_report()).serialized_bytes is None


def test_a_slot_is_explained_by_the_key_that_holds_most_of_it() -> None:
    """``big:list`` is 14.2 of the 14.6 MB of its slot."""
    heaviest = heavy_slots(keyspace_report(), 1)[0]

    assert heaviest.load.slot == key_slot(b"big:list")
    assert heaviest.cause is not None
    assert (heaviest.cause.kind, heaviest.cause.name, round(heaviest.cause.share, 2)) == (
        "key",
        b"big:list",
        0.97,
    )


def test_a_slot_is_explained_by_its_tag_where_no_key_holds_half() -> None:
    """``{user1}`` holds four fifths of its slot, its largest key next to nothing."""
    second = heavy_slots(keyspace_report(), 2)[1]

    assert second.cause is not None
    assert (second.cause.kind, second.cause.name, second.cause.keys) == ("tag", b"user1", 9_876)
    assert second.cause.share == 0.8


@pytest.mark.long
def test_without_sizes_slots_and_tags_weigh_by_keys() -> None:
    """A key list knows no sizes."""
    heaviest = heavy_slots(keyspace_report(sizes=False), 1)[0]

    assert heaviest.load.slot == key_slot(b"user1")
    assert heaviest.cause is not None
    assert heaviest.cause.by == "keys"


def test_where_memory_is_known_slots_tags_and_keys_weigh_by_it() -> None:
    """A slot of few bytes in the dump can hold most in memory."""
    report = keyspace_report()
    slot = key_slot(b"user1")
    slots = [replace(one, memory_bytes=one.keys) for one in report.slots]
    slots[slot] = replace(slots[slot], memory_bytes=10_000_000, top_key=b"{user1}:set", top_key_memory=9_000_000)

    heaviest = heavy_slots(replace(report, slots=slots), 1)[0]

    assert heaviest.load.slot == slot
    assert heaviest.cause == Cause("key", b"{user1}:set", 1, 9_000_000, 0.9, Weight.MEMORY)


def test_where_memory_of_some_keys_is_not_known_slots_weigh_by_bytes() -> None:
    """A sum that lacks some would rank wrongly."""
    report = keyspace_report()
    slots = [replace(one, memory_bytes=one.keys if one.slot % 2 else None) for one in report.slots]

    assert weighed_by(replace(report, slots=slots)) is Weight.BYTES


def test_an_even_slot_has_no_cause() -> None:
    """A tag with a tenth of nothing explains nothing."""
    report = keyspace_report()
    slots = [replace(slot, top_key=None, top_key_bytes=None) for slot in report.slots]
    tag = KeyGroup(b"user1", key_slot(b"user1"), 3, 10)

    assert [heavy.cause for heavy in heavy_slots(replace(report, slots=slots, hash_tags=[tag]), 3)] == [
        None,
        None,
        None,
    ]


def test_slots_without_keys_are_never_heavy() -> None:
    """An empty snapshot has no heaviest slot."""
    assert heavy_slots(empty_report(), 5) == []


def test_max_over_mean_is_one_for_an_even_spread() -> None:
    """Nothing, or nothing known, has no skew."""
    assert max_over_mean([5, 5, 5]) == 1
    assert max_over_mean([3, 0, 0]) == 3
    assert max_over_mean([0, 0]) is None
    assert max_over_mean([None, None]) is None


def test_names_of_nodes_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    """Eight digits of the id, more where two ids begin alike, the address where there is no id."""
    nodes = keyspace_report().nodes
    twins = [replace(nodes[0], node_id="ab" * 5 + "0" * 30), replace(nodes[1], node_id="ab" * 5 + "1" * 30)]

    assert [len(name) for name in node_names(nodes)] == [8, 8, 8]
    assert node_names(twins) == ["ab" * 5 + "00", "ab" * 5 + "11"]
    assert node_names([replace(nodes[0], node_id=None)]) == ["10.0.0.1:6379"]


@pytest.mark.long
def test_warnings_are_counted_gravest_first() -> None:
    """Severities that none has are left out."""
    report = keyspace_report()
    note = report.warnings[0]._replace(severity=Severity.NOTE)

    assert list(count_by_severity(report.warnings).items()) == [("error", 1), ("warning", 1), ("note", 1)]
    assert count_by_severity([note, note]) == {"note": 2}


def test_dropping_sizes_keeps_the_keys() -> None:
    """The builder's own promise."""
    report = keyspace_report()

    assert without_sizes(report).keys == report.keys
