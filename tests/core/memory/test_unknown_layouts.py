"""Where the layout of a value is not known, nothing is called its size in memory; an unknown version is measured by the nearest, and says so."""

from __future__ import annotations

import pytest

from cluster_core.memory.layouts import nearest_layout
from cluster_core.memory.model import ESTIMATES, UNMEASURED, MemorySettings
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import Row, skim_all

VALUES = {name: (kind, value) for name, kind, value, *_ in build.SAMPLES}


def rows_of(server: str, *names: str, magic: str = "REDIS0010", bits: int = 64, layout: str = "") -> list[Row]:
    family, _, version = server.partition(" ")
    records = [build.key(name, *VALUES[name]) for name in names]
    lead = build.aux(f"{family}-ver", version) + build.aux("redis-bits", bits) if server else b""
    data = build.rdb(lead, build.select(0), *records, magic=magic)
    rows, _, error = skim_all(data, memory=MemorySettings(server=layout))
    assert error is None
    return rows


def kinds(rows: list[Row]) -> list[str]:
    return ["none" if row.memory_bytes == UNMEASURED else ESTIMATES[row.estimate] for row in rows]


@pytest.mark.parametrize(
    "name", ["module", "zipmap", "linkedlist", "list-ziplist", "zset-1", "hash-ziplist", "quicklist", "stream-1"]
)
def test_encodings_that_the_server_no_longer_holds_have_no_size_in_memory(name: str):
    """Redis 7.0 holds no ziplists, and writes other types for sorted sets and streams: these came from elsewhere."""
    assert kinds(rows_of("redis 7.0.15", name, "hash-listpack")) == ["none", "model"]


@pytest.mark.parametrize("server", ["", "keydb 6.3.4", "redis df-v1.30.0", "redis ", "redis 8"])
def test_no_key_of_a_server_that_names_no_version_has_a_size_in_memory(server: str):
    assert kinds(rows_of(server, "embstr", "set", "hash-listpack")) == ["none"] * 3


@pytest.mark.parametrize(
    ("server", "nearest"),
    [("redis 8.2.1", "redis-8.0"), ("redis 8.4.0", "redis-8.0"), ("redis 7.1.240", "redis-7.0"), ("valkey 11.0.0", "valkey-9.1")],
)  # fmt: skip
def test_an_unknown_version_is_measured_by_the_nearest_with_a_note(server: str, nearest: str):
    names = ("embstr", "set", "hash-listpack", "raw")
    rows, named = (rows_of(server, *names, layout=layout) for layout in ("", nearest))

    assert kinds(rows) == ["nearest"] * 4
    assert [row.memory_bytes for row in rows] == [row.memory_bytes for row in named]
    assert kinds(named) == ["named"] * 4


@pytest.mark.parametrize(
    ("server", "rdb_version", "nearest"),
    [
        *(("redis 255.255.255", 9, "redis 6.2"), ("redis 255.255.255", 11, "redis 7.2")),
        *(("redis 255.255.255", 12, "redis 8.0"), ("redis 8.10.0", 15, "redis 8.0")),
        *(("valkey 255.255.255", 11, "valkey 8.0"), ("valkey 255.255.255", 80, "valkey 9.1"), ("redis 5.0.3", 9, "redis 6.2")),
    ],
)  # fmt: skip
def test_the_rdb_version_dates_an_unreleased_build(server: str, rdb_version: int, nearest: str):
    layout = nearest_layout(server, rdb_version)

    assert layout is not None
    assert layout.name == nearest


def test_a_32_bit_server_has_other_layouts():
    assert kinds(rows_of("redis 7.0.15", "embstr", "set", bits=32)) == ["none"] * 2
    assert kinds(rows_of("redis 7.0.15", "embstr", "set")) == ["model"] * 2
