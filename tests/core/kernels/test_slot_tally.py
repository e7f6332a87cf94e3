"""Counts per slot and per time-to-live bucket."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.kernels.keys.slot_tally import KeyTally
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.slots.key_slot import key_slot
from tests.builders.key_batches import key_batch

KEYS = st.lists(st.tuples(st.binary(max_size=6), st.integers(-1, 1000), st.integers(-1, 1 << 42)), max_size=60)


@given(KEYS)
def test_slots_count_keys_bytes_and_expiring_keys(keys):
    tally = KeyTally()

    tally.add(key_batch(keys))

    expected: Counter[tuple[int, int]] = Counter()
    for key, size, expire_at_ms in keys:
        slot = key_slot(key)
        expected[slot, 0] += 1
        expected[slot, 1] += max(size, 0)
        expected[slot, 2] += expire_at_ms >= 0
    assert {place: int(tally.slots[place]) for place in expected} == dict(expected)
    assert tally.slots[:, :3].sum() == sum(expected.values())


@given(KEYS, st.booleans(), st.data())
def test_types_count_keys_bytes_expiring_keys_and_memory(keys, measured, data):
    """A type beyond those that are known counts as unknown; a key that no model knows adds nothing to memory."""
    drawn = st.lists(st.integers(-1, 1 << 40), min_size=len(keys), max_size=len(keys))
    types = data.draw(st.lists(st.integers(0, 255), min_size=len(keys), max_size=len(keys)))
    memory = data.draw(drawn)
    batch = replace(
        key_batch(keys), type=np.array(types, np.uint8), memory_bytes=np.array(memory, np.int64) if measured else None
    )
    tally = KeyTally()

    tally.add(batch)

    expected = np.zeros((len(KEY_TYPES) + 1, 4), np.int64)
    for (_, size, expire_at_ms), type_, bytes_ in zip(keys, types, memory, strict=True):
        weight = max(bytes_, 0) if measured else 0
        expected[min(type_, len(KEY_TYPES))] += (1, max(size, 0), expire_at_ms >= 0, weight)
    assert (tally.types == expected).all()


@given(KEYS)
def test_sizes_fall_into_ranges_of_powers_of_two(keys):
    """Every key with a size is in the range that its size begins with; sums are those of the range."""
    tally = KeyTally()

    tally.add(replace(key_batch(keys), memory_bytes=None))

    sizes = [size for _, size, _ in keys if size >= 0]
    expected = Counter(size.bit_length() for size in sizes)
    counts = tally.ranges[0].sum(axis=0)
    assert {bits: int(count) for bits, count in enumerate(counts[:, 0]) if count} == dict(expected)
    assert counts[:, 1].sum() == sum(sizes)
