"""What tasks say of inputs that they could not read in full: dumps, lists of every format, logs; no Spark."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.interim import UNIT
from slotscope.reports.unread import unread_lines
from slotscope.sources.aof.files import find_logs, plan_units
from slotscope.sources.aof.state import AofStateUnit
from slotscope.sources.keys.lists import KeyListOptions, KeyListTask, KeyListUnit
from slotscope.sources.keys.tally import TallyOptions, tally_units
from slotscope.sources.rdb.files import RdbTask, RdbUnit
from slotscope.transforms.snapshot_warnings import UnitFacts, find_unread
from tests.builders import rdb_builder as build
from tests.conftest import DATA

GOOD = (DATA / "valkey-9.1" / "before" / "node-7002.rdb").read_bytes()


def unread(*units):
    """What could not be read of *units* in permissive mode."""
    kinds = {RdbUnit: RdbTask, KeyListUnit: KeyListTask}
    tasks = [kinds[type(unit)]((unit,)) if type(unit) in kinds else unit for unit in units]
    numbers = iter([pa.RecordBatch.from_pydict({"id": list(range(len(tasks)))})])
    rows = [
        row
        for batch in tally_units(numbers, tasks, TallyOptions(permissive=True, lists=KeyListOptions(quoted=True)))
        for row in batch.to_pylist()
    ]
    told = [row for row in rows if row["kind"] == UNIT]
    return find_unread(
        [
            UnitFacts(
                source=row["source"],
                kind=row["text"],
                keys=row["keys"],
                file_bytes=row["serialized_bytes"],
                **{**row["facts"], "aux": dict(row["facts"]["aux"])},
            )
            for row in told
        ]
    )


def written(folder, name, data, kind=None):
    """A unit of one file."""
    path = folder / name
    path.write_bytes(data)
    return RdbUnit(str(path), len(data)) if kind is None else KeyListUnit(str(path), kind, len(data))


def test_a_cut_dump_lacks_the_keys_that_it_announced(tmp_path):
    """Also where it is compressed, and bytes tell nothing."""
    cut = unread(written(tmp_path, "cut.rdb", GOOD[: len(GOOD) // 2])).files[0]
    packed = unread(written(tmp_path, "cut.rdb.gz", gzip.compress(GOOD[: len(GOOD) // 2]))).files[0]

    assert cut.is_cut
    assert cut.records > cut.unread_records > cut.records // 4
    assert (packed.records, packed.unread_records) == (cut.records, cut.unread_records)
    assert packed.share == pytest.approx(cut.unread_records / cut.records)


def test_a_dump_that_is_damaged_inside_lacks_the_bytes_behind_it(tmp_path):
    """From the damage to its end."""
    bad = build.rdb(build.select(0), build.key("a", 0, build.string("v")), build.key("k", 201, b"x" * 1000))
    file = unread(written(tmp_path, "bad.rdb", bad)).files[0]

    assert file.unread_bytes > 1000
    assert 0.9 < file.share < 1


def test_what_is_no_dump_at_all_was_not_read_at_all(tmp_path):
    """Plain or packed."""
    for name, data in (("text.rdb", b"hello, this is no dump\n" * 20), ("text.rdb.gz", gzip.compress(b"no dump" * 90))):
        assert unread(written(tmp_path, name, data)).files[0].share == 1


def test_rows_of_a_list_that_are_no_keys_are_counted_against_all_rows(tmp_path):
    """Text, CSV with another number of columns, Parquet without a key or with a size that cannot be."""
    text = written(tmp_path, "a.txt", b'"ok"\n"torn\n"fine"\n"\\q"\n', "text")
    table = written(tmp_path, "a.csv", b"key,size\na,1\nb\nc,3\n", "csv")
    pq.write_table(pa.table({"key": ["a", None, "c", "d"], "size": [1, 2, -3, 4]}), tmp_path / "a.parquet")
    parquet = KeyListUnit(str(tmp_path / "a.parquet"), "parquet", 100)

    found = {
        file.source.rpartition(".")[2]: (file.unread_records, file.records)
        for file in unread(text, table, parquet).files
    }

    assert found["csv"] == (1, 3)
    assert found["parquet"] == (2, 4)
    assert found["txt"][1] == 4
    assert 1 <= found["txt"][0] <= 2


@pytest.mark.long
def test_a_list_that_breaks_off_lacks_what_it_says_it_holds_or_nobody_knows(tmp_path):
    """Of JSON lines nobody says how many there are."""
    rows = b"".join(json.dumps({"key": f"k{n}"}).encode() + b"\n" for n in range(200_000))
    broken = unread(written(tmp_path, "a.jsonl", rows + b'{"key": torn\n', "jsonl"))
    empty = unread(written(tmp_path, "b.jsonl", b'{"key": torn\n' * 9, "jsonl"))

    assert empty.files[0].share == 1
    assert broken.files[0].share in (None, 1)
    assert broken.whole.share in (None, 1)


def test_a_log_with_a_torn_middle_lacks_everything_behind_it(tmp_path):
    """For its keys as well as for its load."""
    good = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
    path = tmp_path / "appendonly.aof"
    path.write_bytes(good * 10 + b"*3\r\nxx" + good * 30)
    (log,) = find_logs([str(path)])

    found = unread(AofStateUnit(log), *plan_units([log], parallelism=1, split=False))

    assert len(good) * 30 <= found.files[0].unread_bytes <= len(good) * 30 + 6
    assert found.files[0].file_bytes == len(good) * 40 + 6
    assert "75 % of its bytes" in unread_lines(found)[0]
