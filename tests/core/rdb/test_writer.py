"""The writer of RDB files: values as DUMP answers them, lengths, the order of calls."""

from __future__ import annotations

import pytest

from cluster_core.errors import ProtocolError
from cluster_core.rdb.strings import length_at
from cluster_core.rdb.writer import RdbWriter, Target, length_bytes, target_of_dump
from tests.builders.rdb_values import read_rows

DUMPED = b"\x00\x05hello"


def test_the_version_of_a_payload_selects_its_file():
    """Valkey 9 counts from 80 on; all below is Redis, and Valkey before."""
    assert target_of_dump(DUMPED + b"\x0b\x00" + bytes(8)) == Target("REDIS", 11)
    assert target_of_dump(DUMPED + b"\x50\x00" + bytes(8)) == Target("VALKEY", 80)


def test_a_dumped_value_is_a_record_of_a_file():
    """Its key and expiry before it, its version and checksum gone."""
    payload = DUMPED + b"\x0b\x00" + bytes(8)
    writer = RdbWriter(target_of_dump(payload))
    file = writer.head() + writer.database(0) + writer.dumped(b"greeting", payload, 77) + writer.end()
    ((_, record),) = read_rows(file)[1]

    assert (record.key, record.type, record.value, record.expire_at_ms) == (b"greeting", "string", b"hello", 77)


def test_calls_out_of_order_are_errors():
    writer = RdbWriter(Target("REDIS", 10))
    with pytest.raises(ProtocolError, match="head"):
        writer.end()
    writer.head()
    with pytest.raises(ProtocolError, match="once"):
        writer.head()
    with pytest.raises(ProtocolError, match="database"):
        writer.raw(b"x")
    writer.database(0)
    writer.end()
    with pytest.raises(ProtocolError, match="end"):
        writer.end()


@pytest.mark.parametrize("value", [0, 63, 64, 16383, 16384, (1 << 32) - 1, 1 << 32, (1 << 64) - 1])
def test_lengths_take_the_shortest_form(value):
    """`rdbSaveLen`: one byte, two, five or nine."""
    size = 1 if value < 64 else 2 if value < 16384 else 5 if value < 1 << 32 else 9

    assert length_at(length_bytes(value), 0) == (value, size)
    assert len(length_bytes(value)) == size
