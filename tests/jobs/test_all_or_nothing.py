"""A job that fails at any of its commits: every reader of a table sees its old rows or its new ones, and never a mix."""

from __future__ import annotations

import errno
import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import functions as F

import slotscope
from jobs.history import Request
from jobs.history import run as replay
from schemas.catalogue import WRITTEN_BY
from schemas.history import BUS_MESSAGES, REPLAY_STATE
from slotscope.reports.history.tables import load_history
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import delta_files
from tests.builders.bus_folding import cut, packet_ends
from tests.builders.stored_rows import stored_frame
from tests.conftest import DATA

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


def shown(spark: Any, root: str) -> dict[str, list[str]]:
    """What SQL of DuckDB, Spark and delta-rs say of the rows of each table of the snapshot ``f``."""
    result = {}
    connection = slotscope.connect(root)
    for table in WRITTEN_BY["history"]:
        if not delta_files.exists(root, table):
            continue
        columns = [name for name in table.columns if name not in ("written_at", "run_id")]
        rows = delta_files.read_rows(root, table, columns=columns, snapshot_id="f")
        result[table.name] = sorted(map(repr, rows))
        noun = table.name.rpartition("/")[2]
        (counted,) = connection.execute(f"SELECT count(*) FROM {noun} WHERE snapshot_id = 'f'").fetchone()
        assert counted == len(rows), table.name
    table = WRITTEN_BY["history"][0]
    by_spark = stored_frame(spark, table, root).where(F.col("snapshot_id") == "f").count()
    assert by_spark == len(result[table.name])
    return result


def error_of(write: Callable[[], object]) -> str:
    """What *write* says where it fails."""
    try:
        write()
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_a_continued_replay_is_the_old_or_the_new_whichever_commit_fails(spark, tmp_path, monkeypatch) -> None:
    """A fold replaces the open tail of each table; one that failed is repeated from the same state, and loses or doubles no row."""
    root = str(tmp_path / "root")
    raw = gzip.decompress(CAPTURE.read_bytes())
    ends = packet_ends(raw)
    first, *_ = cut(raw, [ends[len(ends) // 3]], tmp_path)
    replay(spark, Request(root=root, snapshot="f", pcap=(str(first),), node_timeout_ms=1000))
    more = Request(root=root, snapshot="f", pcap=(f"{tmp_path}/part-*.pcap",), node_timeout_ms=1000)

    before = shown(spark, root)
    states = []
    for commit in range(2, 50, 9):
        with failing(monkeypatch, commit) as tried:
            error = error_of(lambda: replay(spark, more))
            assert ("No space left on device" in error) is (len(tried) >= commit)
        if not error:
            break
        states.append(shown(spark, root))
    replay(spark, more)
    after = shown(spark, root)
    assert states[0] == before != after
    for name in {*before, *after} - {REPLAY_STATE.name}:  # a fold without news writes its state in other bytes
        assert all(state.get(name, []) in (before.get(name, []), after.get(name, [])) for state in states), name

    whole = str(tmp_path / "whole")
    replay(spark, Request(root=whole, snapshot="f", pcap=(f"{tmp_path}/part-*.pcap",), node_timeout_ms=1000))
    messages = [len(delta_files.read_rows(folder, BUS_MESSAGES, snapshot_id="f")) for folder in (root, whole)]
    assert messages[0] == messages[1] == len(after[BUS_MESSAGES.name]) > 0
    assert load_history(root, "f").incidents == load_history(whole, "f").incidents
