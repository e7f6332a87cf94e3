"""What is derived from a report: names of nodes, skew, and the causes of heavy slots."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.slots.key_slot import key_slot
from slotscope.reports.keyspace.document import to_document
from slotscope.reports.keyspace.report import Cause, Weight, heavy_slots, node_names, verdict, weighed_by
from tests.builders.reports_builder import changed, keyspace_report


def test_slots_tags_and_keys_weigh_by_known_memory() -> None:
    """A slot of few bytes in the dump can hold most in memory."""
    report = keyspace_report()
    slot = key_slot(b"user1")
    slots = [replace(slot, memory_bytes=slot.keys) for slot in report.slots]
    slots[slot] = replace(slots[slot], memory_bytes=10_000_000, top_key=b"{user1}:set", top_key_memory=9_000_000)

    heaviest = heavy_slots(replace(report, slots=slots), 1)[0]

    assert heaviest.load.slot == slot
    assert heaviest.cause == Cause("key", b"{user1}:set", 1, 9_000_000, 0.9, Weight.MEMORY)


def test_unknown_memory_of_some_keys_makes_slots_weigh_by_bytes() -> None:
    """A sum that lacks some would rank wrongly."""
    report = keyspace_report()
    slots = [replace(slot, memory_bytes=slot.keys if slot.slot % 2 else None) for slot in report.slots]

    assert weighed_by(replace(report, slots=slots)) is Weight.BYTES


def test_names_of_nodes_are_the_shortest_unique_ones() -> None:
    """Eight digits of the id, more where two ids begin alike, the address where there is no id."""
    nodes = keyspace_report().nodes
    twins = [changed(nodes[0], node_id="ab" * 5 + "0" * 30), changed(nodes[1], node_id="ab" * 5 + "1" * 30)]

    assert [len(name) for name in node_names(nodes)] == [8, 8, 8]
    assert node_names(twins) == ["ab" * 5 + "00", "ab" * 5 + "11"]
    assert node_names([changed(nodes[0], node_id=None)]) == ["10.0.0.1:6379"]


def test_a_report_without_topology_names_no_master() -> None:
    report = keyspace_report(masters=1)
    (master,) = report.nodes
    unowned = replace(report, nodes=(changed(master, node_id=None, address=""),))

    assert verdict(report).endswith(" on one master.")
    assert verdict(unowned).endswith("; owners of slots are unknown without --topology.")


def test_a_failed_master_without_slots_and_keys_is_listed_but_counts_in_no_mean() -> None:
    report = keyspace_report()
    gone = changed(report.nodes[0], node_id="f" * 40, slots=0, keys=0, serialized_bytes=None, memory_bytes=None)
    before, after = (to_document(each) for each in (report, replace(report, nodes=(*report.nodes, gone))))

    masters = next(section for section in after.sections if section.id == "masters").blocks[0]
    assert [tile.note for tile in after.tiles] == [tile.note for tile in before.tiles]
    assert after.verdict == before.verdict
    assert len(masters.rows) == len(report.nodes) + 1
