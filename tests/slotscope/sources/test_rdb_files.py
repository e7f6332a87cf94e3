"""A dump in a file larger than its data: zeros, which read as keys without name or value."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.errors import TruncatedError
from cluster_core.rdb.head import SplitError
from schemas.interim import UNIT
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.rdb.files import RdbTask, RdbUnit, RdbUnitReader
from slotscope.sources.rdb.tally import tally_dumps
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
def test_zeros_after_the_end_of_a_dump_are_counted_as_trailing_bytes(tmp_path, crc):
    reader = read(tmp_path / "d.rdb", DUMP[:-8] + crc + ZEROS)

    assert sum(map(len, reader)) == 50
    assert reader.trailing_bytes == 9000


def test_a_fault_in_a_guessed_range_asks_for_the_whole_file(tmp_path):
    """Bytes after a wrong guess are no damage of the file; a read of the whole file finds its faults."""
    path = tmp_path / "d.rdb"
    path.write_bytes(DUMP)
    wrong = len(DUMP) // 2 + 1
    ranges = [
        RdbUnit(str(path), len(DUMP), 0, wrong, 0, 2),
        RdbUnit(str(path), len(DUMP), wrong, None, 1, 2),
    ]

    actual = [_facts(RdbTask((unit,))) for unit in ranges]

    assert [facts["split_failed"] for facts in actual] == ["split point is inside a record", actual[1]["split_failed"]]
    assert actual[1]["split_failed"]
    assert _facts(RdbTask((RdbUnit(str(path), len(DUMP)),)))["split_failed"] is None


def test_right_guesses_give_the_keys_and_the_checksum_of_the_whole(tmp_path):
    path = tmp_path / "d.rdb"
    path.write_bytes(DUMP)
    whole = [key for batch in RdbUnitReader(RdbUnit(str(path), len(DUMP))) for key in batch.offset.tolist()]
    for cut in whole[1::7]:
        ranges = [
            RdbUnit(str(path), len(DUMP), 0, cut, 0, 2),
            RdbUnit(str(path), len(DUMP), cut, None, 1, 2),
        ]
        assert [key for unit in ranges for batch in RdbUnitReader(unit) for key in batch.offset.tolist()] == whole

    path.write_bytes(DUMP[:-1] + bytes([DUMP[-1] ^ 1]))
    with pytest.raises(SplitError, match="CRC64"):
        list(RdbUnitReader(RdbUnit(str(path), len(DUMP), whole[9], None, 1, 2)))


def _facts(task):
    rows = [row for batch in tally_dumps(task, 0, TallyOptions()) for row in batch.to_pylist()]
    return next(row["facts"] for row in rows if row["kind"] == UNIT)
