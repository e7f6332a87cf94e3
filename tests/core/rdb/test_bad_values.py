"""Values of damaged records: an error or a value, never a crash."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from cluster_core.errors import DecodeError
from cluster_core.rdb.values import Record, StreamValue, decode_record
from cluster_core.rdb.writer import length_bytes
from tests.builders import rdb_builder as build

RECORDS = [
    *((build.key(name, kind, value, expire_ms=5, freq=7), "REDIS") for name, kind, value, *_ in build.SAMPLES if len(value) < 400),
    (build.key("h", 22, build.VALKEY_HASH_2, idle=70), "VALKEY"),
]  # fmt: skip


def told(data: bytes, dialect: str) -> Record | None:
    """The record that *data* stands for, None if it stands for none."""
    try:
        return decode_record(data, dialect)
    except DecodeError:
        return None


@pytest.mark.parametrize(("data", "dialect"), RECORDS, ids=[record[:20].hex() for record, _ in RECORDS])
def test_every_prefix_of_a_record_is_an_error_or_a_value(data, dialect):
    """Nothing is read past the end."""
    whole = told(data, dialect)
    found = [one for one in (told(data[:size], dialect) for size in range(len(data))) if one is not None]

    assert {one.key for one in found} <= ({whole.key} if whole else {one.key for one in found})


@pytest.mark.long
def test_ten_thousand_mutations_are_errors_or_values():
    """Seeded; a changed byte, a removed piece, a length that lies."""
    chance = random.Random(20_261_122)
    values = 0
    for number in range(10_000):
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
        values += told(bytes(data), dialect) is not None

    assert 500 < values < 9_500


@pytest.mark.parametrize("kind", range(26))
def test_a_count_that_lies_takes_no_memory(kind):
    """A hundred billion elements, announced in a record of thirty bytes."""
    tracemalloc.start()
    for claim in (99_999_999_999, (1 << 64) - 1, 1 << 40):
        for body in (
            length_bytes(claim),
            bytes(8) + length_bytes(claim),
            b"\xc3" + length_bytes(claim) + length_bytes(claim),
        ):
            told(build.key("k", kind, body + b"\x01\x02\x03"), "REDIS")
            told(build.key("k", kind, body + b"\x01\x02\x03"), "VALKEY")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 2_000_000


def test_an_empty_stream_with_groups_is_a_value():
    """XGROUP CREATE … MKSTREAM makes one."""
    record = told(build.key("s", 21, build.stream(21, 0, nodes=(), groups=2, consumers=2)), "REDIS")

    assert record is not None
    assert isinstance(record.value, StreamValue)
    assert [group.name for group in record.value.groups] == [b"group-0", b"group-1"]
    assert [consumer.name for consumer in record.value.groups[0].consumers] == [b"consumer-0", b"consumer-1"]
