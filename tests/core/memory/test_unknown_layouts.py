"""Where the layout of a value is not known, its size in memory is that in the dump, and the row says so."""

from __future__ import annotations

import pytest

from cluster_core.memory.model import ESTIMATES, MemorySettings
from tests import rdb_builder as build
from tests.memory_truth import ESTIMATE, MEMORY
from tests.rdb_skimming import Row, skim_all

SIZE = 7
VALUES = {name: (kind, value) for name, kind, value, *_ in build.SAMPLES}


def rows_of(server: str, *names: str, compiled: bool = True, magic: str = "REDIS0010", bits: int = 64) -> list[Row]:
    family, _, version = server.partition(" ")
    records = [build.key(name, *VALUES[name]) for name in names]
    lead = build.aux(f"{family}-ver", version) + build.aux("redis-bits", bits) if server else b""
    data = build.rdb(lead, build.select(0), *records, magic=magic)
    rows, _, error = skim_all(data, compiled=compiled, memory=MemorySettings())
    assert error is None
    return rows


def kinds(rows: list[Row]) -> list[str]:
    return [ESTIMATES[row[ESTIMATE]] for row in rows]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "name", ["module", "zipmap", "linkedlist", "list-ziplist", "zset-1", "hash-ziplist", "quicklist", "stream-1"]
)
def test_encodings_that_the_server_no_longer_holds_count_as_in_the_dump(name: str, compiled: bool):
    """Redis 7.0 holds no ziplists, and writes other types for sorted sets and streams: these came from elsewhere."""
    row, known = rows_of("redis 7.0.15", name, "hash-listpack", compiled=compiled)

    assert row[MEMORY] == row[SIZE]
    assert kinds([row, known]) == ["serialized", "model"]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("server", ["", "redis 5.0.3", "redis 9.9.9", "valkey 11.0.0", "keydb 6.3.4"])
def test_every_key_of_an_unknown_version_counts_as_in_the_dump(server: str, compiled: bool):
    rows = rows_of(server, "embstr", "set", "hash-listpack", compiled=compiled)

    assert kinds(rows) == ["serialized"] * 3
    assert [row[MEMORY] for row in rows] == [row[SIZE] for row in rows]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_32_bit_server_has_other_layouts(compiled: bool):
    assert kinds(rows_of("redis 7.0.15", "embstr", "set", compiled=compiled, bits=32)) == ["serialized"] * 2
    assert kinds(rows_of("redis 7.0.15", "embstr", "set", compiled=compiled)) == ["model"] * 2


def test_ziplists_are_known_to_redis_6():
    rows = rows_of("redis 6.2.14", "hash-ziplist", "zset-ziplist", "quicklist", "stream-1", "intset", magic="REDIS0009")

    assert kinds(rows) == ["model"] * 5


def test_nothing_is_measured_unless_it_is_asked_for():
    rows, _, _ = skim_all(build.rdb(build.key("k", *VALUES["embstr"])))

    assert len(rows[0]) == MEMORY
