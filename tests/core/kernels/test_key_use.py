"""Amounts of keys: untouched memory, memory that expires, accesses."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.kernels.keys.slot_tally import PER_S, USES, KeyUses, add_by_group
from cluster_core.load.key_use import LfuSettings, accesses_per_s
from cluster_core.slots.key_slot import SLOT_COUNT
from tests.builders.key_batches import key_batch

TAKEN_MS = 1_000_000_000_000
DAY_S = 86_400
KEYS = st.lists(
    st.tuples(
        st.sampled_from([b"a:1", b"a:b:2", b"c:3", b"d"]),
        st.integers(0, 1000),
        st.none() | st.integers(-10, 40 * DAY_S),
        st.none() | st.integers(0, 40 * DAY_S),
        st.none() | st.integers(0, 255),
    ),
    max_size=40,
)


def plain_amounts(size, ttl_s, idle_s, freq, rates):
    untouched = [size if idle_s is not None and idle_s >= days * DAY_S else 0 for days in (1, 7, 30)]
    expiring = [size if ttl_s is not None and ttl_s < limit else 0 for limit in (3600, DAY_S, 7 * DAY_S, 1 << 40)]
    rate = 0 if freq is None else round(rates[freq] * PER_S)
    return [*untouched, *expiring, *((rate, 0) if freq is not None and freq > 5 else (0, rate))]


@given(KEYS)
def test_amounts_of_slots_and_prefixes_are_the_sums_of_those_of_their_keys(keys):
    rates = accesses_per_s(LfuSettings())
    batch = key_batch([(key, size, -1 if ttl is None else TAKEN_MS + ttl * 1000) for key, size, ttl, _, _ in keys])
    batch.idle_s = np.array([-1 if idle is None else idle for *_, idle, _ in keys], np.int64)
    batch.freq = np.array([-1 if freq is None else freq for *_, freq in keys], np.int16)
    uses, slots, prefixes = (
        KeyUses(TAKEN_MS, rates),
        np.zeros((SLOT_COUNT, len(USES)), np.int64),
        GroupTally(64, len(USES)),
    )

    amounts = uses.amounts(batch)
    prefixes.add_prefixes(batch, b":", 3, amounts)
    if amounts is not None:
        add_by_group(batch.slot, amounts, slots)

    expected = [plain_amounts(size, ttl, idle, freq, rates) for _, size, ttl, idle, freq in keys]
    assert amounts is None or amounts.tolist() == expected
    assert (amounts is None) == all(ttl is idle is freq is None for _, _, ttl, idle, freq in keys)
    assert slots.sum(axis=0).tolist() == [sum(row[at] for row in expected) for at in range(len(USES))]
    rows = dict(zip(prefixes.names().to_pylist(), prefixes.amounts().tolist(), strict=True))
    for name, sums in rows.items():
        below = [row for row, (key, *_) in zip(expected, keys, strict=True) if key.startswith(name)]
        assert sums == [sum(row[at] for row in below) for at in range(len(USES))]
    assert uses.knows_idle == any(idle is not None for *_, idle, _ in keys)
    assert uses.knows_counters == any(freq is not None for *_, freq in keys)
