"""Owners of slots."""

from __future__ import annotations

import pytest

from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_map import SlotMap
from cluster_core.slots.slot_set import SlotSet


def test_coverage_follows_every_change() -> None:
    """Coverage is what the owners say."""
    slots = SlotMap()
    for slot in (*range(10), 20):
        slots.assign(slot, "a")
    slots.assign(5, "b")
    slots.assign(20, None)

    assert str(slots.covered()) == "0-9"
    assert str(slots.slots_of("a")) == "0-4 6-9"
    assert (slots[5], slots[20]) == ("b", None)


def test_two_nodes_cannot_start_with_the_same_slot() -> None:
    """A map has one owner per slot."""
    with pytest.raises(ValueError, match="slot 7 belongs to a and to b"):
        SlotMap({"a": SlotSet([7]), "b": SlotSet([7])})


def test_slots_out_of_range_have_no_owner() -> None:
    """There are 16384 slots."""
    with pytest.raises(IndexError):
        SlotMap()[SLOT_COUNT]
    with pytest.raises(IndexError):
        SlotMap()[-1]
