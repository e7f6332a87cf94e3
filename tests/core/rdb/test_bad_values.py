"""Values of damaged records: an error or a value, never a crash."""

from __future__ import annotations

import json
import random
import tracemalloc

import numpy as np
import pytest

from cluster_core.errors import DecodeError
from cluster_core.rdb.export import ValueWriter
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.value_state import JSON
from cluster_core.rdb.writer import length_bytes
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import batches_of
from tests.builders.rdb_values import read_rows

MAGIC = {"REDIS": "REDIS0012", "VALKEY": "VALKEY080"}
RECORDS = [
    *((build.key(name, kind, value, expire_ms=5, freq=7), "REDIS") for name, kind, value, *_ in build.SAMPLES if len(value) < 400),
    (build.key("h", 22, build.VALKEY_HASH_2, idle=70), "VALKEY"),
]  # fmt: skip


def keys_of(record: bytes, dialect: str) -> int:
    """The keys that a dump of *record* gives, each a line of JSON that can be read."""
    dump = build.rdb(build.select(0), record, magic=MAGIC[dialect], checksum=False)
    skimmer, data = RdbSkimmer("d.rdb", check_crc=False), np.frombuffer(bytearray(dump), np.uint8)
    lines = b""
    try:
        for batch in batches_of(skimmer, dump):
            writer = ValueWriter(skimmer.head, JSON, source="d.rdb", permissive=True)
            lines += b"".join(bytes(piece) for piece in writer.pieces(data, batch, np.arange(len(batch))))
    except DecodeError:
        pass
    return len([json.loads(line) for line in lines.splitlines()])


@pytest.mark.long
def test_mutations_are_errors_or_values():
    chance = random.Random(20_261_122)
    values = 0
    for number in range(4_000):
        record, dialect = RECORDS[number % len(RECORDS)]
        data = bytearray(record)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(9, len(data))
            how = chance.random()
            if how < 0.6:
                data[place] = chance.randrange(256)
            elif how < 0.8:
                del data[place : place + chance.randint(1, 9)]
            else:
                data[place:place] = length_bytes(chance.choice([1 << 13, 1 << 31, 1 << 40, (1 << 64) - 1]))
            if len(data) < 12:
                break
        values += keys_of(bytes(data), dialect)

    assert 200 < values < 3_800


@pytest.mark.parametrize("kind", range(26))
def test_a_count_that_lies_takes_no_memory(kind):
    """A hundred billion elements, announced in a record of thirty bytes."""
    keys_of(build.key("k", 0, build.string("v")), "REDIS")
    tracemalloc.start()
    for claim in (99_999_999_999, (1 << 64) - 1, 1 << 40):
        for body in (
            length_bytes(claim),
            bytes(8) + length_bytes(claim),
            b"\xc3" + length_bytes(claim) + length_bytes(claim),
        ):
            keys_of(build.key("k", kind, body + b"\x01\x02\x03"), "REDIS")
            keys_of(build.key("k", kind, body + b"\x01\x02\x03"), "VALKEY")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1_000_000_000


def test_an_empty_stream_with_groups_is_a_value():
    """XGROUP CREATE … MKSTREAM makes one."""
    record = build.key("s", 21, build.stream(21, 0, nodes=(), groups=2, consumers=2))
    ((_, read),) = read_rows(build.rdb(build.select(0), record, magic="REDIS0012"))[1]

    assert [group["name"] for group in read.value["groups"]] == ["group-0", "group-1"]
    assert [consumer["name"] for consumer in read.value["groups"][0]["consumers"]] == ["consumer-0", "consumer-1"]
