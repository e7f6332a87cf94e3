"""A job that fails at any of its commits: every reader of a table sees its old rows or its new ones, and never a mix."""

from __future__ import annotations

import errno
import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import slotscope
from jobs.history import Request as ReplayRequest
from jobs.history import run as replay
from jobs.key_slots import Request
from schemas.catalogue import WRITTEN_BY
from schemas.history import BUS_MESSAGES, REPLAY_STATE
from schemas.runs import RUNS
from slotscope.pipelines.keys.snapshot import KeySnapshot
from slotscope.reports.history.tables import load_history
from slotscope.reports.keyspace.report import load_report
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.runs import running
from tests.builders.bus_folding import cut, packet_ends
from tests.builders.stored_rows import stored_frame
from tests.conftest import DATA

VALKEY = DATA / "valkey-9.1"
CAPTURE = DATA / "bus-redis-7.0" / "bus.pcap.gz"


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, commit: int) -> Iterator[list[int]]:
    """A disk that is full from the commit of that number on; the list grows by one with every commit that is tried."""
    real, tried, lock = delta_files.write_deltalake, [], threading.Lock()

    def write(*arguments: Any, **more: Any) -> None:
        with lock:
            tried.append(1)
            is_full = len(tried) >= commit
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(delta_files, "write_deltalake", write)
        yield tried


def shown(spark: Any, root: str, job: str, snapshot: str) -> dict[str, list[str]]:
    """What SQL of DuckDB, Spark and delta-rs say of the rows of each table."""
    result = {}
    connection = slotscope.connect(root)
    for table in WRITTEN_BY[job]:
        if not delta_files.exists(root, table):
            continue
        columns = [name for name in table.columns if name not in ("written_at", "run_id")]
        rows = delta_files.read_rows(root, table, columns=columns, snapshot_id=snapshot)
        result[table.name] = sorted(map(repr, rows))
        noun = table.name.rpartition("/")[2]
        (counted,) = connection.execute(f"SELECT count(*) FROM {noun} WHERE snapshot_id = '{snapshot}'").fetchone()
        assert counted == len(rows), table.name
    table = WRITTEN_BY[job][0]
    by_spark = stored_frame(spark, table, root).where(F.col("snapshot_id") == snapshot).count()
    assert by_spark == len(result[table.name])
    return result


def assert_old_or_new(
    write: Callable[[], None], read: Callable[[], dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch, commits: range
) -> dict[str, list[str]]:
    """Let *write* fail at each of *commits* in turn, then end well; return the rows at the end.

    After each failure a table has all of its rows of before, or all of those at the end; at the first commits none has changed.
    """
    before = read()
    states = []
    for commit in commits:
        with failing(monkeypatch, commit) as tried:
            error = error_of(write)
            assert ("No space left on device" in error) is (len(tried) >= commit)
        if not error:
            break
        states.append(read())
    write()
    after = read()
    assert states[0] == before != after
    for commit, state in zip(commits, states, strict=False):
        for name in sorted(
            {*before, *after} - {REPLAY_STATE.name}
        ):  # a fold without news writes its state in other bytes
            assert state.get(name, []) in (before.get(name, []), after.get(name, [])), f"commit {commit}: {name}"
    return after


def error_of(write: Callable[[], None]) -> str:
    """What *write* says where it fails."""
    try:
        write()
    except InputError as error:
        return str(error)
    return ""


def key_snapshot(spark: Any, root: Path, dumps: str) -> Callable[[], None]:
    """What writes the tables of those dumps; they are read once."""
    nodes = str(VALKEY / "topology" / "nodes.txt")
    request = Request(root=str(root), snapshot="f", rdb=(str(VALKEY / dumps / "*.rdb"),), topology=nodes)
    made = KeySnapshot.read(spark, request)

    def write() -> None:
        with running(str(root), "key-slots", "f") as run:
            made.write(spark, run)

    return write


@pytest.mark.slow
def test_a_snapshot_of_keys_is_the_old_or_the_new_whichever_commit_fails(spark, tmp_path, monkeypatch) -> None:
    root = str(tmp_path)
    key_snapshot(spark, tmp_path, "before")()
    before = load_report(root, "f").keys

    assert_old_or_new(
        key_snapshot(spark, tmp_path, "after"),
        lambda: shown(spark, root, "key-slots", "f"),
        monkeypatch,
        range(1, 40, 4),
    )

    assert (before, load_report(root, "f").keys) == (6002, 6693)
    assert {row["state"] for row in delta_files.read_rows(root, RUNS)} == {"complete"}


@pytest.mark.slow
def test_a_continued_replay_is_the_old_or_the_new_whichever_commit_fails(spark, tmp_path, monkeypatch) -> None:
    """A fold replaces the open tail of each table; one that failed is repeated from the same state, and loses or doubles no row."""
    root = str(tmp_path / "root")
    raw = gzip.decompress(CAPTURE.read_bytes())
    ends = packet_ends(raw)
    first, *_ = cut(raw, [ends[len(ends) // 3]], tmp_path)
    replay(spark, ReplayRequest(root=root, snapshot="f", pcap=(str(first),), node_timeout_ms=1000))
    more = ReplayRequest(root=root, snapshot="f", pcap=(f"{tmp_path}/part-*.pcap",), node_timeout_ms=1000)

    actual = assert_old_or_new(
        lambda: replay(spark, more) and None,
        lambda: shown(spark, root, "history", "f"),
        monkeypatch,
        range(2, 50, 9),
    )

    whole = str(tmp_path / "whole")
    replay(spark, ReplayRequest(root=whole, snapshot="f", pcap=(f"{tmp_path}/part-*.pcap",), node_timeout_ms=1000))
    messages = [len(delta_files.read_rows(folder, BUS_MESSAGES, snapshot_id="f")) for folder in (root, whole)]
    assert messages[0] == messages[1] == len(actual[BUS_MESSAGES.name]) > 0
    assert load_history(root, "f").incidents == load_history(whole, "f").incidents
