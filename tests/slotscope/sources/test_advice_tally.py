"""What the tasks of `slotscope advise` add up: no byte of a key is offered to two changes that both count."""

from __future__ import annotations

import random

import pytest

from cluster_core.advice.changes import Kind, rank_changes
from cluster_core.memory.model import MemorySettings
from tests.builders import rdb_builder as build
from tests.builders.advice_totals import advice_totals

HASH = 4


@pytest.mark.parametrize("seed", range(4))
def test_counted_changes_save_less_than_the_keys_take(seed: int):
    rng = random.Random(seed)
    records = [build.key(b"k:%d" % i, 0, build.string(b"x" * rng.choice((3, 44, 64, 300)))) for i in range(1000)]
    fields = b"".join(build.string(b"field-%04d" % i) + build.string(b"value") for i in range(600))
    records += [build.key(b"h:%d" % i, HASH, build.length(600) + fields) for i in range(5)]
    data = build.rdb(build.aux("redis-ver", "7.0.15"), build.select(0), *records)
    model, totals = advice_totals(data, MemorySettings(rng.choice(("jemalloc", "jemalloc-16", "libc"))))
    counted = [change for change in rank_changes(totals.sums(model)) if change.counted]

    assert totals.keys == len(records)
    assert {change.kind for change in counted} >= {Kind.SETTING}
    assert 0 < sum(change.saved_bytes for change in counted) < totals.memory[0]
