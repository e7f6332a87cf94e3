"""Keys that are in a dump twice are found, each of them and nothing else; collections without elements are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.rdb.key_twins import TwinSearch, key_hashes, repeated_hashes
from cluster_core.rdb.skim import RdbSkimmer
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import skim_all

NAMES = st.lists(st.tuples(st.integers(0, 2), st.binary(min_size=1, max_size=20)), max_size=40)


def batches_of(data: bytes, *, batch_keys: int = 7):
    skimmer = RdbSkimmer("test.rdb", batch_keys=batch_keys)
    found = []
    for piece in (data, b""):
        if not skimmer.done:
            skimmer.room()[: len(piece)] = piece
            skimmer.filled(len(piece))
            found += list(skimmer.batches())
    return found


def twins_of(batches, suspects=None):
    if suspects is None:
        suspects = repeated_hashes(map(key_hashes, batches))
    search = TwinSearch(suspects, 100)
    if len(suspects):
        for batch in batches:
            search.add(batch, "test.rdb")
    return search


@given(NAMES)
def test_the_keys_that_were_met_before_are_found_with_both_places(names):
    data = build.rdb(*(build.select(db) + build.key(key, 0, build.string("v")) for db, key in names))
    rows, _, error = skim_all(data)
    assert error is None
    first, expected = {}, []
    for row in rows:
        if (row[0], row[1]) in first:
            expected.append((row[0], row[1], ("test.rdb", first[row[0], row[1]]), ("test.rdb", row[11])))
        first.setdefault((row[0], row[1]), row[11])
    search = twins_of(batches_of(data))

    assert list(map(tuple, search.twins)) == expected
    assert search.count == len(expected)


def test_keys_whose_hashes_meet_are_no_twins():
    batches = batches_of(build.rdb(*(build.key(b"k%d" % n, 0, build.string("v")) for n in range(20))))
    everyone = np.unique(np.concatenate([key_hashes(batch) for batch in batches]))

    assert len(everyone) == 20
    assert twins_of(batches, everyone).count == 0


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_all_keys_of_a_large_dump_are_compared(count):
    hashes = np.random.default_rng(1).integers(1, 1 << 63, count, np.uint64) << np.uint64(1)
    again = hashes[:: count // 10 or 1]

    assert repeated_hashes([hashes]).tolist() == []
    assert repeated_hashes([hashes, again]).tolist() == sorted(again.tolist())


def test_hashes_that_crowd_one_bucket_are_all_suspected():
    crowd = np.arange(1, 80_001, dtype=np.uint64)

    assert len(repeated_hashes([crowd])) > 60_000


def test_hollow_keys_are_collections_without_elements():
    empty = {1: b"\0", 2: b"\0", 3: b"\0", 4: b"\0", 5: b"\0", 16: build.string(build.listpack([]))}
    full = [build.key("s", 0, b"\0"), build.key("l", 1, build.length(1) + build.string("e"))]
    data = build.rdb(*(build.key(b"%d" % kind, kind, value) for kind, value in empty.items()), *full)
    (batch,) = batches_of(data, batch_keys=100)
    kept = batch.where(~batch.hollow())

    assert batch.hollow().tolist() == [True] * 6 + [False] * 2
    assert [kept.key(row) for row in range(len(kept))] == [b"s", b"l"]
    assert kept.elements.tolist() == [0, 1]
