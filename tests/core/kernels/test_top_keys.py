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
    names, facts = tops.keys().to_pylist(), tops.facts()
    assert [(*row, name) for row, name in zip(facts[:, [0, 12, 8]].tolist(), names, strict=True)] == [
        (group, at, size, key) for group, _, at, key, size in expected
    ]
    assert facts[:, 2].tolist() == [key_slot(name) for name in names]


def test_long_keys_that_come_and_go_do_not_fill_the_memory():
    tops = TopKeys(1, 1)

    for size in range(1, 200):
        tops.add(key_batch([(b"k" * 100_000, size, -1)]), np.zeros(1, np.int64))

    assert len(tops.keys()[0].as_py()) == 100_000
    assert tops._arena.nbytes <= 1 << 20
