"""A dump whose file was made larger than what was written to it: zeros, which read as keys without name or value."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.errors import TruncatedError
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from tests.builders import rdb_builder as build

DUMP = build.rdb(*(build.key(f"k{number}", 0, build.string(b"v\0" * 40)) for number in range(50)))
ZEROS = bytes(9000)


def read(path: Path, data: bytes) -> RdbUnitReader:
    path.write_bytes(data)
    return RdbUnitReader(RdbUnit(str(path), len(data)))


def test_zeros_after_a_cut_are_no_keys(tmp_path):
    half = DUMP[: len(DUMP) // 2].rstrip(b"\0")
    reader = read(tmp_path / "d.rdb", half + ZEROS)

    with pytest.raises(TruncatedError, match="9000 zero bytes follow") as caught:
        list(reader)

    assert 0 < reader.skimmer.keys < 50
    assert caught.value.offset == len(half)


@pytest.mark.parametrize("crc", [DUMP[-8:], bytes(8)])
def test_zeros_after_the_end_of_a_dump_are_counted_as_what_follows_it(tmp_path, crc):
    reader = read(tmp_path / "d.rdb", DUMP[:-8] + crc + ZEROS)

    assert sum(map(len, reader)) == 50
    assert reader.trailing_bytes == 9000


def test_a_dump_without_checksum_ends_with_zeros_and_is_whole(tmp_path):
    reader = read(tmp_path / "d.rdb", DUMP[:-8] + bytes(8))

    assert sum(map(len, reader)) == 50
    assert reader.trailing_bytes == 0


def test_a_file_of_zeros_holds_nothing(tmp_path):
    with pytest.raises(TruncatedError, match="the file is empty; 9000 zero bytes follow"):
        list(read(tmp_path / "d.rdb", ZEROS))
