"""The list of the largest keys of each group."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.kernels.keys.slot_tally import TopKeys
from cluster_core.slots.key_slot import key_slot
from tests.builders.key_batches import key_batch

OFFERS = st.lists(
    st.tuples(st.binary(max_size=8), st.integers(0, 20), st.integers(-1, 20), st.integers(0, 3)), max_size=120
)


@given(OFFERS, st.integers(1, 5), st.integers(1, 7))
def test_the_list_is_the_largest_of_each_group_however_the_input_is_cut(offers, count, cut):
    """Of equally large ones those that came first."""
    tops = TopKeys(4, count)

    for first in range(0, len(offers), cut):
        part = offers[first : first + cut]
        batch = key_batch([(key, size, -1) for key, size, *_ in part], first, [memory for _, _, memory, _ in part])
        tops.add(batch, np.array([group for *_, group in part], np.int64))

    weighed = [
        (group, -(memory if memory >= 0 else size), at, key, size)
        for at, (key, size, memory, group) in enumerate(offers)
    ]
    expected = [row for group in range(4) for row in sorted(row for row in weighed if row[0] == group)[:count]]
    assert [(row.group, row.offset, row.key, row.serialized_bytes) for row in tops.rows()] == [
        (group, at, key, size) for group, _, at, key, size in expected
    ]
    assert all(row.slot == key_slot(row.key) for row in tops.rows())


def test_long_keys_that_come_and_go_do_not_fill_the_memory():
    tops = TopKeys(1, 1)

    for size in range(1, 200):
        tops.add(key_batch([(b"k" * 100_000, size, -1)]), np.zeros(1, np.int64))

    assert len(tops.rows()[0].key) == 100_000
    assert tops._arena.nbytes <= 1 << 20
