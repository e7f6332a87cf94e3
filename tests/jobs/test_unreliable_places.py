"""A job with a full disk or a failing store, as a user sees it: one line, the old rows, and nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.gold import NODE_LOAD
from schemas.runs import RUNS
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.object_store import object_store
from tests.benches.program import slotscope, without_progress
from tests.benches.small_disk import filled, mounted
from tests.benches.unreliable_store import failing_store
from tests.conftest import DATA

RECORDED = DATA / "valkey-9.1"
NODES = RECORDED / "topology" / "nodes.txt"


def loads(root: Path | str, snapshot: str) -> list[tuple[Any, ...]]:
    """What each node holds; raises where a row is there twice."""
    rows = read_rows(str(root), NODE_LOAD, columns=("node_id", "keys", "serialized_bytes"), snapshot_id=snapshot)
    result = sorted(tuple(row.values()) for row in rows)
    assert len({node for node, *_ in result}) == len(result)
    return result


@pytest.mark.slow
@pytest.mark.spark
def test_a_full_disk_leaves_each_table_old_or_new_until_there_is_room(spark, recorded_root, tmp_path, capfd):
    """Whether it is full at the door, or only when some tables are written."""
    arguments = ["key-slots", "--snapshot", "night", "--topology", NODES]
    before, after = loads(recorded_root, "before"), loads(recorded_root, "after")
    with mounted(tmp_path / "disk", 8 << 10) as disk:
        root = disk / "root"
        assert slotscope(*arguments, "--root", root, "--rdb", RECORDED / "before" / "*.rdb") == 0
        capfd.readouterr()
        codes = []
        for free_bytes in (0, 80 << 10, 160 << 10, 240 << 10):
            with filled(disk / "ballast", free_bytes):
                codes.append(slotscope(*arguments, "--root", root, "--rdb", RECORDED / "after" / "*.rdb"))
            (line,) = without_progress(capfd.readouterr().err)
            assert "No space left on device" in line
            assert loads(root, "night") in (before, after)
        assert slotscope(*arguments, "--root", root, "--rdb", RECORDED / "after" / "*.rdb") == 0
        assert loads(root, "night") == after
        assert [run["state"] for run in read_rows(str(root), RUNS, state="complete")] == ["complete"]
    assert set(codes) <= {1, 2, 75}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.processes
def test_a_store_that_fails_one_request_in_ten_gives_a_job_the_same_rows_once(
    spark, recorded_root, monkeypatch, capsys
):
    pytest.importorskip("moto", reason="moto is not installed")
    with object_store("lake") as store, failing_store(store, every=10) as failing:
        for name, value in failing.environment().items():
            monkeypatch.setenv(name, value)
        for name in ("before", "after"):
            for dump in sorted((RECORDED / name).glob("*.rdb")):
                store.put(f"lake/dumps/{name}/{dump.name}", dump)
        for name in ("before", "after"):
            arguments = ["--root", "s3://lake/root", "--rdb", f"s3://lake/dumps/{name}/*.rdb", "--topology", NODES]
            assert slotscope("key-slots", "--snapshot", "night", *arguments) == 0, capsys.readouterr().err
            assert loads("s3://lake/root", "night") == loads(recorded_root, name)
        assert failing.troubles() > 20
        assert [run["state"] for run in read_rows("s3://lake/root", RUNS)] == ["complete"]
