"""What would save memory, from dumps to tables, terminal and page."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from jobs import advise
from jobs.key_slots import Request
from schemas.advice import MEMORY_CONDITIONS, SAVING_CURVES, SAVINGS
from schemas.silver import SLOT_LOAD
from slotscope.reports.keyspace.parts import savings_document
from slotscope.reports.terminal import print_document
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.sources.rdb import files as rdb_files
from tests.benches.reports import page_of
from tests.builders import rdb_builder as build
from tests.conftest import DATA

HASH = 4


@pytest.fixture(scope="module")
def advised(spark, tmp_path_factory):
    """A root and the report of a dump with a large hash, small strings under one prefix, equal texts."""
    folder = tmp_path_factory.mktemp("advise")
    field = [build.string(b"field-%04d" % i) + build.string(b"value") for i in range(600)]
    records = [build.key(b"h:%d" % i, HASH, build.length(600) + b"".join(field)) for i in range(5)]
    records += [build.key(b"a-long-prefix:%d" % i, 0, build.string(b"%d-x" % i)) for i in range(2000)]
    records += [build.key(b"page:%d" % i, 0, build.string(b"the same text " * 20)) for i in range(300)]
    path = folder / "dump.rdb"
    path.write_bytes(
        build.rdb(build.aux("redis-ver", "7.0.15"), build.aux("ctime", 1_700_000_000), build.select(0), *records)
    )
    request = Request(root=str(folder / "root"), snapshot="s", rdb=(str(path),))
    return request.root, advise.run(spark, request)


def test_every_scope_adds_up_to_the_memory_of_the_snapshot(advised):
    root, _ = advised
    rows = read_rows(root, MEMORY_CONDITIONS, snapshot_id="s")
    known = sum(row["memory_bytes"] for row in read_rows(root, SLOT_LOAD, snapshot_id="s") if row["memory_bytes"])

    sums: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        of = sums.setdefault((row["server"], row["allocator"], row["scope"]), [0, 0])
        of[0] += row["now_bytes"]
        of[1] += row["memory_bytes"]
    for (server, allocator, scope), (now, then) in sums.items():
        assert now == known
        assert then == sums[server, allocator, "cluster"][1], scope
    assert {server for server, _, _ in sums} >= {"redis 6.2", "redis 8.0", "valkey 8.0", "valkey 9.1"}


def test_large_hashes_are_listed_with_how_risk_and_undo(advised):
    root, report = advised
    rows = read_rows(root, SAVINGS, snapshot_id="s", order_by="rank")
    actual = {(row["kind"], bytes(row["subject"])): row for row in rows}

    assert actual["setting", b"hash-max-listpack-entries"]["keys"] == 5
    assert "CONFIG SET hash-max-listpack-entries 1024" in actual["setting", b"hash-max-listpack-entries"]["how"]
    assert ("expire", b"page:") in actual
    assert all(row["how"] and row["risk"] and row["undo"] for row in rows)
    assert 0 < report.savings.saved_bytes < report.savings.now_bytes


def test_the_terminal_and_the_page_show_the_waterfall(advised):
    report, stream = advised[1], io.StringIO()
    print_document(savings_document("s", report.savings), Console(file=stream, width=110))

    assert "could be saved" in stream.getvalue()
    assert "hash-max-listpack-entries" in stream.getvalue()
    assert "Memory savings" in page_of(report)


@pytest.mark.slow
def test_a_dump_is_measured_whole_where_a_range_cannot_be_read_alone(spark, tmp_path, monkeypatch):
    """Each scope has the bytes that the snapshot has."""
    dump, cuts = tmp_path / "plain.rdb", []
    keys = [build.key(b"key:%06d" % number, 0, build.string(b"v" * 20)) for number in range(20_000)]
    dump.write_bytes(build.rdb(build.aux("redis-ver", "7.0.15"), build.select(0), *keys))
    guess = rdb_files.find_splits

    def guessing(*asked):
        cuts.append([at - 3 for at in guess(*asked)])
        return cuts[-1]

    monkeypatch.setattr(rdb_files, "PART_BYTES_MIN", 1 << 18)
    monkeypatch.setattr(rdb_files, "find_splits", guessing)
    advise.run(spark, Request(root=str(tmp_path / "root"), snapshot="s", rdb=(str(dump),)))
    rows = read_rows(str(tmp_path / "root"), MEMORY_CONDITIONS, snapshot_id="s")
    loads = read_rows(str(tmp_path / "root"), SLOT_LOAD, snapshot_id="s")

    assert len(cuts) == 1
    assert cuts[0]
    assert {row["now_bytes"] for row in rows if row["scope"] == "cluster"} == {
        sum(row["memory_bytes"] for row in loads if row["memory_bytes"])
    }


def test_a_stored_snapshot_is_measured_like_a_new_one(spark, advised):
    """Its dumps are read once more, and the rows are the same."""
    root, _ = advised
    before = rows_of_advice(root)
    advise.run(spark, Request(root=root, snapshot="s"))

    assert all(map(len, before))
    assert rows_of_advice(root) == before


def rows_of_advice(root):
    """The rows of each table, but for the run that wrote them."""
    tables = (SAVINGS, SAVING_CURVES, MEMORY_CONDITIONS)
    return [sorted(str(row | {"run_id": None}) for row in read_rows(root, table, snapshot_id="s")) for table in tables]


def test_a_missing_snapshot_is_one_line(spark, tmp_path):
    with pytest.raises(InputError, match="name dumps with --rdb"):
        advise.run(spark, Request(root=str(tmp_path), snapshot="x"))


def test_dumps_of_different_servers_need_a_name_for_one(spark, tmp_path):
    paths = (str(DATA / "redis-7.0" / "dump.rdb"), str(DATA / "valkey-9.1" / "before" / "node-7001.rdb"))
    with pytest.raises(InputError, match="give --server"):
        advise.run(spark, Request(root=str(tmp_path), rdb=paths))
