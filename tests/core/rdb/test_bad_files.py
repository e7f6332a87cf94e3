"""Files that are no RDB, or lie: one error each, with offset and reason, from both skims."""

from __future__ import annotations

import tracemalloc

import pytest

from cluster_core.errors import DecodeError, TruncatedError
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import skim_all

EXABYTES = b"\x81" + (1 << 62).to_bytes(8, "big")
NEGATIVE = b"\x81" + b"\xff" * 8
LISTPACK = build.listpack([b"a", b"b"])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"REDIS", "the file ends within its first 9 bytes"),
        (b"VALK", "the file ends within its first 9 bytes"),
        (b"*3\r\n$3\r\nSET\r\n", "this is an AOF, not an RDB"),
        (b"$5\r\nhello\r\n", "this is an AOF, not an RDB"),
        (b"\x1f\x8b\x08\x00", r"this is compressed data \(gzip\), not an RDB"),
        (b"\x28\xb5\x2f\xfd\x00", r"this is compressed data \(zstd\), not an RDB"),
        (b"hello, world", "this is not an RDB: it begins with b'hello, wo'"),
        (b"REDIS00x1\xff", "this is not an RDB"),
        (b"REDIS0016\xff", r"RDB version 16 is newer than this reader knows \(15\)"),
        (b"VALKEY081\xff", r"RDB version 81 is newer than this reader knows \(80\)"),
        (b"REDIS0000\xff", r"RDB version 0 is older than any that exists \(1\)"),
    ],
)
def test_what_is_no_rdb_is_named(data: bytes, reason: str):
    _, _, error = skim_all(data)

    assert isinstance(error, DecodeError)
    with pytest.raises(DecodeError, match=reason):
        raise error


def record(kind: int, value: bytes) -> bytes:
    return bytes([kind]) + build.string("k") + value


@pytest.mark.parametrize(
    ("records", "reason", "offset"),
    [
        (record(0, EXABYTES), "a string claims 4611686018427387904 bytes", 12),
        (record(0, NEGATIVE), "a string claims 18446744073709551615 bytes", 12),
        (b"\x00" + EXABYTES, "a string claims 4611686018427387904 bytes", 10),
        (b"\x00" + build.length(20 << 20), "a key name of 20971520 bytes is longer", 10),
        (b"\x00\xc3" + build.length(1 << 20) + build.length(20 << 20), "a key name of 20971520 bytes is longer", 10),
        (b"\x00" + build.compressed(b"n" * 900, claim=901), "does not give the 901 bytes that it claims", 10),
        (b"\x00\xc3" + EXABYTES, "a string claims 4611686018427387904 bytes", 10),
        (record(4, EXABYTES), "a count claims 4611686018427387904 elements", 12),
        (record(18, NEGATIVE), "a count claims 18446744073709551615 elements", 12),
        (record(0, b"\x82"), "length prefix 0x82 is not defined", 12),
        (record(0, b"\xc5"), "string encoding 0xc5 is not defined", 12),
        (record(1, b"\xc1"), "it announces an encoded string", 12),
        (record(0, build.compressed(b"a" * 900, claim=901)), "does not give the 901 bytes that it claims", 12),
        (record(0, build.compressed(b"a" * 900, claim=899)), "does not give the 899 bytes that it claims", 12),
        (record(0, build.compressed(b"a" * 90, claim=1 << 35)), "does not give the 34359738368 bytes", 12),
        (record(0, build.compressed(b"", claim=9, packed=b"\x20\x00")), "does not give the 9 bytes", 12),
        (record(0, build.compressed(b"", claim=9, packed=b"\x08abc")), "does not give the 9 bytes", 12),
        (record(6, b""), "module of a Redis 4.0 release candidate", 9),
        (record(8, b""), "value type 8 is unknown", 9),
        (record(26, b""), "value type 26 is unknown", 9),
        (b"\xc8", "opcode 200 is unknown", 9),
        (b"\xf3\x00", "opcode 243 is unknown", 9),
        (b"\xfc" + b"\xff" * 8 + record(0, b"\x00"), "an expiry of -1 lies before 1970", 9),
        (b"\xfc" + bytes(8) + b"\xfe\x00", "opcode 254 stands between a key's expiry", 18),
        (b"\xf8" + EXABYTES + record(0, b"\x00"), "an idle time of 4611686018427387904 s", 9),
        (b"\xfe" + build.length(1 << 30), "database number 1073741824 is not possible", 9),
        (record(16, build.string(LISTPACK[:-3])), "says that it has 13 bytes, but its string has 10", 12),
        (record(16, build.string(build.listpack([b"a", b"b"], count=9))), "of 13 bytes cannot hold 9 entries", 12),
        (record(16, build.string(build.listpack([b"a"]))), "1 packed entries do not make elements of 2", 12),
        (record(16, build.string(b"abc")), "a packed value of 3 bytes is too short", 12),
        (record(16, build.integer(5)), "a packed value of 1 bytes is too short", 12),
        (record(20, build.string(build.listpack([b"a"], count=65535)[:-1] + b"\0")), "runs past its end", 12),
        (record(11, build.string(build.intset([1, 2])[:-1])), "says that it has 12 bytes", 12),
        (record(11, build.string(b"\3" + build.intset([1, 2])[1:])), "an intset's width is 3", 12),
        (record(18, build.length(1) + b"\x07"), "quicklist container 7 is unknown", 13),
        (record(15, build.length(1) + build.string("short")), "not an id of 16 bytes", 13),
        (record(15, build.stream(15, 4, nodes=())), "it has 4 entries, but it has no node", 13),
        (record(3, build.length(1) + build.string("m") + b"\0"), "a score's length 0 is not possible", 15),
        (record(7, build.length(9) + b"\x09"), "module opcode 9 is unknown", 13),
        (b"\xf7\x01\x01\x01", "module aux data begins with opcode 1", 9),
        (build.slot_info(16384, 1), "slot info is not a slot", 9),
        (build.slot_info(5, 1, 2), "slot info is not a slot", 9),
        (build.aux("slot-info", "5,one,0"), "slot info is not a slot", 9),
        (build.aux("x" * 5000, "v"), "an aux field's name of 5000 bytes", 10),
    ],
)
def test_a_lie_is_named_with_its_offset(records: bytes, reason: str, offset: int):
    _, _, error = skim_all(build.rdb(records, bytes(40), magic="REDIS0012"))

    assert error is not None
    assert error.offset == offset
    assert reason in error.reason


def test_a_wrong_crc_is_an_error_at_its_place_with_both_values():
    data = build.rdb(build.key("k", 0, build.string("v")))
    bad = data[:-8] + b"\x01" * 8

    rows, skimmer, error = skim_all(bad)

    assert len(rows) == 1
    assert skimmer.crc_ok is False
    assert error is not None
    assert error.offset == len(data) - 8
    assert error.reason == f"CRC64 is {skimmer.crc:016x}, but the file says 0101010101010101"
    assert skim_all(bad, check_crc=False)[2] is None


def test_a_crc_of_zero_says_that_there_is_none():
    _, skimmer, error = skim_all(build.rdb(build.key("k", 0, build.string("v")), checksum=False))

    assert error is None
    assert skimmer.stored_crc == 0
    assert skimmer.crc_ok is None


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_versions_before_five_have_no_crc(version: int):
    """`rdbLoadRioWithLoadingCtx`: the checksum came with version 5."""
    records = [build.key("k", 0, build.string("v"), expire_s=1_700_000_000), build.key("i", 0, build.integer(-12))]
    data = build.rdb(build.select(0), *records, magic=f"REDIS000{version}")

    rows, skimmer, error = skim_all(data)

    assert error is None
    assert [(row[1], row[5], row[6], row[8]) for row in rows] == [
        (b"k", "raw", 1, 1_700_000_000_000),
        (b"i", "int", 3, -1),
    ]
    assert skimmer.done
    assert (skimmer.stored_crc, skimmer.crc_ok, skimmer.trailing_bytes) == (None, None, 0)
    assert skim_all(data + b"tail")[1].trailing_bytes == 4
    assert isinstance(skim_all(data[:-1])[2], TruncatedError)


def test_bytes_after_the_end_are_counted():
    _, skimmer, error = skim_all(build.rdb() + bytes(3_000_000))

    assert error is None
    assert skimmer.trailing_bytes == 3_000_000


@pytest.mark.parametrize("missing", [1, 8, 9])
def test_a_file_without_its_end_is_truncated(missing: int):
    data = build.rdb(build.key("k", 0, build.string("v")))[:-missing]

    error = skim_all(data)[2]

    assert isinstance(error, TruncatedError)
    assert error.offset == len(data)


@pytest.mark.parametrize(
    "claim", [EXABYTES, NEGATIVE, build.length(1 << 39)], ids=["exabytes", "negative", "terabytes"]
)
def test_no_claim_makes_the_reader_take_memory(claim: bytes):
    lies = [
        record(0, claim),
        record(0, b"\xc3" + build.length(9) + claim),
        b"\x00" + claim,
        b"\x00\xc3" + build.length(1 << 20) + claim,
        *(
            record(kind, (b"" if kind not in (24, 25) else bytes(8)) + claim)
            for kind in range(1, 26)
            if kind not in (7, 8)
        ),
        record(18, build.length(1) + build.length(2) + claim),
        record(19, build.stream(19, 3)[:-1] + claim),
        record(7, build.length(9) + b"\5" + claim),
        b"\xf5" + claim,
        b"\xfa" + build.string("a") + claim,
        b"\xfb" + claim + claim,
    ]

    assert len(lies) > 30
    for lie in lies:
        data = build.rdb(lie, bytes(40), magic="REDIS0012")
        tracemalloc.start()
        try:
            error = skim_all(data, batch_keys=64)[2]
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert isinstance(error, DecodeError)
        assert peak_bytes < 16 << 20  # a window and a batch's key names
