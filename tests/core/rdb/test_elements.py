"""Values of dumps, element by element, against what the server answered."""

from __future__ import annotations

from cluster_core.errors import DecodeError
from cluster_core.rdb.values import NO_EXPIRY, decode_record, decode_value


def test_packed_forms_give_their_entries():
    """A ziplist, an intset and a listpack with integers of every width."""
    intset = b"\x04\0\0\0\x02\0\0\0" + (-70000).to_bytes(4, "little", signed=True) + (5).to_bytes(4, "little")
    listpack = b"\x01\x02" + b"\xc0\x64\x02" + b"\xf1\x10\x27\x03" + b"\x82hi\x03" + b"\xff"
    listpack = (len(listpack) + 6).to_bytes(4, "little") + (4).to_bytes(2, "little") + listpack

    assert decode_value(b"\x0b" + bytes([len(intset)]) + intset, "REDIS") == ("set", [b"-70000", b"5"])
    assert decode_value(b"\x14" + bytes([len(listpack)]) + listpack, "REDIS") == (
        "set",
        [b"1", b"100", b"10000", b"hi"],
    )


def test_a_record_that_ends_early_is_an_error_at_every_byte():
    """No prefix crashes or hangs."""
    data = b"\xfc" + (4_000_000_000_000).to_bytes(8, "little") + b"\x16\x01h\x01\x01f\x01v" + bytes(8)
    record = decode_record(data, "VALKEY")

    assert record.expire_at_ms == 4_000_000_000_000
    assert record.value[0].expire_at_ms == 0 != NO_EXPIRY
    for size in range(len(data)):
        try:
            decode_record(data[:size], "VALKEY")
        except DecodeError:
            continue
        assert size >= len(data) - 8  # the field's expiry is a number of up to eight bytes
