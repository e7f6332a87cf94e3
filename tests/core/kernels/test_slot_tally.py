"""Counts per slot and per time-to-live bucket."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.kernels.keys.slot_tally import SlotTally, TtlTally, TypeTally
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.slots.key_slot import key_slot
from tests.builders.key_batches import key_batch

KEYS = st.lists(st.tuples(st.binary(max_size=6), st.integers(-1, 1000), st.integers(-1, 1 << 42)), max_size=60)


@given(KEYS)
def test_slots_count_keys_bytes_and_expiring_keys(keys):
    tally = SlotTally()

    tally.add(key_batch(keys))

    expected: Counter[tuple[int, int]] = Counter()
    for key, size, expire_at_ms in keys:
        slot = key_slot(key)
        expected[slot, 0] += 1
        expected[slot, 1] += max(size, 0)
        expected[slot, 2] += expire_at_ms >= 0
    assert {place: int(tally.slots[place]) for place in expected} == dict(expected)
    assert tally.slots.sum() == sum(expected.values())


@given(KEYS, st.integers(0, 1 << 42))
def test_every_key_is_in_one_time_to_live_bucket(keys, taken_at_ms):
    tally = TtlTally(taken_at_ms)

    tally.add(key_batch(keys))

    never = [size for _, size, expire_at_ms in keys if expire_at_ms < 0]
    assert tally.buckets.sum(axis=0).tolist() == [len(keys), sum(max(size, 0) for _, size, _ in keys)]
    assert tally.buckets[0].tolist() == [len(never), sum(max(size, 0) for size in never)]


@given(KEYS, st.booleans(), st.data())
def test_types_count_keys_bytes_expiring_keys_and_memory(keys, measured, data):
    """A type beyond those that are known counts as unknown; a key that no model knows adds nothing to memory."""
    drawn = st.lists(st.integers(-1, 1 << 40), min_size=len(keys), max_size=len(keys))
    types = data.draw(st.lists(st.integers(0, 255), min_size=len(keys), max_size=len(keys)))
    memory = data.draw(drawn)
    batch = replace(
        key_batch(keys), type=np.array(types, np.uint8), memory_bytes=np.array(memory, np.int64) if measured else None
    )
    tally = TypeTally()

    tally.add(batch)

    expected = np.zeros((len(KEY_TYPES) + 1, 4), np.int64)
    for (_, size, expire_at_ms), type_, bytes_ in zip(keys, types, memory, strict=True):
        weight = max(bytes_, 0) if measured else 0
        expected[min(type_, len(KEY_TYPES))] += (1, max(size, 0), expire_at_ms >= 0, weight)
    assert (tally.counts == expected).all()


@given(KEYS)
def test_sizes_fall_into_ranges_of_powers_of_two(keys):
    """Every key with a size is in the range that its size begins with; sums are those of the range."""
    tally = TypeTally()

    tally.add(replace(key_batch(keys), memory_bytes=None))

    sizes = [size for _, size, _ in keys if size >= 0]
    expected = Counter(size.bit_length() for size in sizes)
    found = tally.ranges[0].sum(axis=0)
    assert {bits: int(count) for bits, count in enumerate(found[:, 0]) if count} == dict(expected)
    assert found[:, 1].sum() == sum(sizes)


def test_elements_are_counted_of_what_is_no_string():
    """A string has none; memory goes before bytes of the dump."""
    batch = key_batch([(b"s", 10, -1), (b"l", 20, -1)])
    batch = replace(
        batch,
        type=np.array([0, 1], batch.type.dtype),
        elements=np.array([1, 5], np.int64),
        memory_bytes=np.array([64, 4096], np.int64),
    )
    tally = TypeTally()

    tally.add(batch)

    assert tally.ranges[0, 0, 7].tolist() == [1, 64]
    assert tally.ranges[0, 1, 13].tolist() == [1, 4096]
    assert tally.ranges[1, :, :, 0].sum() == 1
    assert tally.ranges[1, 1, 3].tolist() == [1, 5]
