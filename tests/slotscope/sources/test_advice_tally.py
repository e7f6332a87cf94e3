"""What the tasks of `slotscope advise` add up: no byte of a key is offered to two changes that both count."""

from __future__ import annotations

import random

import pytest

from cluster_core.advice.changes import BUCKET_KEYS, LIST_SETTING, Kind, rank_changes
from cluster_core.advice.totals import Totals
from cluster_core.memory.model import MemoryModel, MemorySettings
from tests.builders import rdb_builder as build
from tests.builders.advice_totals import advice_totals

QUICKLIST2 = 18
PACKED_NODE = 2


def measured(*records: bytes, allocator: str = "jemalloc") -> tuple[MemoryModel, Totals]:
    """The sums of a dump of Redis 7.0 with *records*."""
    data = build.rdb(build.aux("redis-ver", "7.0.15"), build.select(0), *records)
    return advice_totals(data, MemorySettings(allocator))


def string(name: bytes, value: bytes) -> bytes:
    return build.key(name, 0, build.string(value))


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 200])
def test_a_value_is_for_a_bucket_or_to_be_compressed_never_both(length: int):
    """64 characters are what SHA-256 gives, so this length is met in earnest."""
    model, totals = measured(*(string(b"digest:%d" % i, b"x" * length) for i in range(BUCKET_KEYS)))
    (prefix,) = (one for one in totals.sums(model).prefixes if one.name)

    assert (prefix.bucket_keys, prefix.texts.texts) == ((BUCKET_KEYS, 0) if length <= 64 else (0, BUCKET_KEYS))


@pytest.mark.parametrize("seed", range(4))
def test_all_that_counts_of_any_strings_saves_less_than_they_take(seed: int):
    rng = random.Random(seed)
    names = [rng.randbytes(rng.randrange(2, 30)).hex().encode() + rng.choice((b":", b"")) for _ in range(4)]
    records = [
        string(rng.choice(names) + b"%d" % i, bytes([rng.randrange(97, 100)]) * rng.choice((3, 44, 64, 65, 300)))
        for i in range(3000)
    ]
    model, totals = measured(*records, allocator=rng.choice(("jemalloc", "jemalloc-16", "libc")))
    counted = [one for one in rank_changes(totals.sums(model)) if one.counted]

    assert totals.keys == len(records)
    assert Kind.COMPRESS in {one.kind for one in counted}
    assert sum(one.saved_bytes for one in counted) < totals.memory[0]


def test_what_an_upgrade_saves_of_lists_is_not_counted_beside_larger_nodes():
    """Each of these lists is of many small nodes, which another version or allocator would round otherwise."""
    node = build.length(PACKED_NODE) + build.string(build.listpack([b"e" * 50] * 8))
    model, totals = measured(*(build.key(b"q:%d" % i, QUICKLIST2, build.length(38) + node * 38) for i in range(200)))
    sums = totals.sums(model)
    setting = next(one for one in rank_changes(sums) if one.subject == LIST_SETTING.encode())

    assert setting.counted
    assert list(sums.setting_saved[LIST_SETTING]) == [totals.memory[0] - then for then in sums.memory]
    assert {one.kind for one in rank_changes(sums) if one.counted} == {Kind.SETTING}


def test_another_allocator_counts_only_where_nothing_that_it_rounds_is_changed():
    few = measured(*(string(b"k%d" % i, bytes([97 + i % 26]) * 20) for i in range(200)), allocator="jemalloc")
    texts = measured(*(string(b"k%d" % i, b"%d " % i * 200) for i in range(200)), allocator="jemalloc")
    counts = [
        [one.counted for one in rank_changes(totals.sums(model)) if one.kind is Kind.ALLOCATOR]
        for model, totals in (few, texts)
    ]

    assert any(one.kind is Kind.COMPRESS and one.counted for one in rank_changes(texts[1].sums(texts[0])))
    assert not any(counts[1])
    assert counts[1]
