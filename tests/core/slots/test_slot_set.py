"""Sets of slots against Python's own sets (R4, R128)."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import WIRE_BYTES, SlotMap, SlotSet

SETS = st.one_of(
    st.frozensets(st.integers(0, SLOT_COUNT - 1), max_size=60),
    st.lists(st.tuples(st.integers(0, SLOT_COUNT - 1), st.integers(1, 900)), max_size=6).map(
        lambda runs: frozenset(s for first, size in runs for s in range(first, min(first + size, SLOT_COUNT)))
    ),
)


@given(SETS)
def test_a_set_has_its_slots(slots: frozenset[int]) -> None:
    made = SlotSet(slots)

    assert list(made) == sorted(slots)
    assert len(made) == len(slots)
    assert bool(made) == bool(slots)
    assert all(slot in made for slot in slots)


@given(SETS)
def test_every_form_returns_the_set(slots: frozenset[int]) -> None:
    """R4, R128: the bitmap, the ranges, the text and a pickle."""
    made = SlotSet(slots)

    assert SlotSet.from_wire(made.to_wire()) == made
    assert SlotSet.from_ranges(made.ranges()) == made
    assert SlotSet.parse(str(made)) == made
    assert pickle.loads(pickle.dumps(made)) == made


@given(SETS, SETS)
def test_the_algebra_is_that_of_frozensets(first: frozenset[int], second: frozenset[int]) -> None:
    left, right = SlotSet(first), SlotSet(second)

    assert set(left | right) == first | second
    assert set(left & right) == first & second
    assert set(left - right) == first - second
    assert set(left ^ right) == first ^ second
    assert set(~left) == set(range(SLOT_COUNT)) - first
    assert left.isdisjoint(right) == first.isdisjoint(second)
    assert left.issubset(right) == first.issubset(second)
    assert (left == right) == (first == second)
    assert hash(left | right) == hash(right | left)


def test_a_slot_is_bit_slot_modulo_8_of_byte_slot_over_8() -> None:
    """R4: counted from the least significant bit."""
    wire = SlotSet([0, 9, 16383]).to_wire()

    assert (wire[0], wire[1], wire[-1]) == (0b1, 0b10, 0b1000_0000)
    assert len(wire) == WIRE_BYTES


def test_text_is_in_the_form_of_cluster_nodes() -> None:
    """R128: a range or a single slot, ascending, one space between."""
    assert str(SlotSet.parse("5500 0-3 4-5460 7000-7001")) == "0-5460 5500 7000-7001"
    assert SlotSet.parse("") == SlotSet()
    assert str(~SlotSet()) == "0-16383"


@pytest.mark.parametrize("slot", [-1, SLOT_COUNT, 10**30])
def test_a_slot_out_of_range_is_refused(slot: int) -> None:
    with pytest.raises(ValueError, match="slot"):
        SlotSet([slot])
    with pytest.raises(ValueError, match="slot"):
        SlotSet.from_ranges([(0, slot)])
    assert slot not in ~SlotSet()


@pytest.mark.parametrize(
    ("text", "offset"),
    [("0-1 x", 4), ("5-4", 0), ("1 16384", 2), ("-1", 0), ("1-", 0), ("1-2-3", 0), ("9" * 5000, 0), ("٣", 0)],
)
def test_invalid_slot_text_is_refused_with_its_place(text: str, offset: int) -> None:
    """Bytes from outside raise a DecodeError with the offset."""
    with pytest.raises(DecodeError) as caught:
        SlotSet.parse(text)

    assert caught.value.offset == offset


def test_a_bitmap_of_another_length_is_refused() -> None:
    """R4: 2048 bytes, no fewer and no more."""
    with pytest.raises(TruncatedError):
        SlotSet.from_wire(bytes(WIRE_BYTES - 1))
    with pytest.raises(DecodeError, match="1 bytes after"):
        SlotSet.from_wire(bytes(WIRE_BYTES + 1))


def test_a_set_does_not_change() -> None:
    """Sets are keys of dicts and fields of frozen values."""
    with pytest.raises(AttributeError):
        SlotSet()._bits = 1


def test_coverage_follows_every_change() -> None:
    slots = SlotMap()
    for slot in (*range(10), 20):
        slots.assign(slot, "a")
    slots.assign(5, "b")
    slots.assign(20, None)

    assert str(slots.covered()) == "0-9"
    assert str(slots.slots_of("a")) == "0-4 6-9"
    assert (slots[5], slots[20]) == ("b", None)


def test_two_nodes_cannot_start_with_the_same_slot() -> None:
    with pytest.raises(ValueError, match="slot 7 belongs to a and to b"):
        SlotMap({"a": SlotSet([7]), "b": SlotSet([7])})


def test_slots_out_of_range_have_no_owner() -> None:
    with pytest.raises(IndexError):
        SlotMap()[SLOT_COUNT]
    with pytest.raises(IndexError):
        SlotMap()[-1]
