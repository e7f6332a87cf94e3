"""Files that are no RDB, or lie: one error each, with offset and reason, from both skims."""

from __future__ import annotations

import tracemalloc

import pytest

from cluster_core.errors import DecodeError, TruncatedError
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import skim_all

EXABYTES = b"\x81" + (1 << 62).to_bytes(8, "big")
NEGATIVE = b"\x81" + b"\xff" * 8


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
        (b"hello, world", "this is not an RDB: it begins with 'hello, wo'"),
        (b"REDIS00x1\xff", "this is not an RDB"),
        (b"REDIS0016\xff", r"RDB version 16 is newer than this reader knows \(15\)"),
        (b"VALKEY081\xff", r"RDB version 81 is newer than this reader knows \(80\)"),
        (b"REDIS0000\xff", r"RDB version 0 is older than any that exists \(1\)"),
    ],
)
def test_other_files_than_rdb_are_named(data: bytes, reason: str):
    _, _, error = skim_all(data)

    assert isinstance(error, DecodeError)
    with pytest.raises(DecodeError, match=reason):
        raise error


def record(kind: int, value: bytes) -> bytes:
    return bytes([kind]) + build.string("k") + value


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


def test_a_crc_of_zero_is_no_checksum():
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
