"""Collections without elements."""

from __future__ import annotations

from cluster_core.rdb.skim import RdbSkimmer
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import batches_of


def test_hollow_keys_are_collections_without_elements():
    empty = {1: b"\0", 2: b"\0", 3: b"\0", 4: b"\0", 5: b"\0", 16: build.string(build.listpack([]))}
    full = [build.key("s", 0, b"\0"), build.key("l", 1, build.length(1) + build.string("e"))]
    data = build.rdb(*(build.key(b"%d" % kind, kind, value) for kind, value in empty.items()), *full)
    (batch,) = batches_of(RdbSkimmer("test.rdb"), data)
    kept = batch.where(~batch.hollow())

    assert batch.hollow().tolist() == [True] * 6 + [False] * 2
    assert [kept.key(row) for row in range(len(kept))] == [b"s", b"l"]
    assert kept.elements.tolist() == [0, 1]
