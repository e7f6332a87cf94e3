"""Replays whose disk is full, or whose store fails: one line, what was there before, and in the end every row once."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import history as history_job
from jobs.history import Request as Replay
from schemas.history import NODE_VIEWS
from schemas.runs import RUNS
from slotscope.runtime import stores
from slotscope.runtime.storage.delta_files import exists, read_rows
from tests.benches.object_store import object_store
from tests.benches.program import slotscope, without_progress
from tests.benches.small_disk import filled, mounted
from tests.benches.unreliable_store import failing_store
from tests.builders.landings import CLUSTER, landing_files
from tests.jobs.test_follow import Replayed, differences, put

WORDS = ("--node-timeout-ms", "1000")
PACKETS = 2_000
FREE_BYTES = (0, 60 << 10, 200 << 10, 400 << 10)


@pytest.fixture(scope="module")
def replayed(spark, tmp_path_factory) -> Replayed:
    """The replay of all files at once, on a disk with room."""
    root, landing = tmp_path_factory.mktemp("replayed"), tmp_path_factory.mktemp("landing")
    put(landing_files(landing, packets_max=PACKETS))
    history_job.run(
        spark, Replay(root=str(root), snapshot=CLUSTER, pcap=(f"{landing}/*/*/bus/*",), node_timeout_ms=1000)
    )
    return Replayed(root, landing)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("job", ["history", "follow"])
def test_a_full_disk_takes_nothing_away_and_what_had_no_room_comes_when_there_is(
    spark, replayed, tmp_path, monkeypatch, capfd, job
) -> None:
    """Whether it is full at the door, where Spark notes what it has seen, or only when some tables are written."""
    monkeypatch.setattr(stores, "PROBE_BYTES", 4096)
    landing, files = tmp_path / "landing", landing_files(tmp_path / "landing", packets_max=PACKETS)
    with mounted(tmp_path / "disk", 16 << 10) as disk:
        root = disk / "root"
        words = {
            "history": ["history", "--snapshot", CLUSTER, "--pcap", f"{landing}/*/*/bus/*"],
            "follow": ["follow", "--once", "--landing", landing, "--lateness", "12s"],
        }[job]
        codes = []
        for half in (files[: len(files) // 2], files[len(files) // 2 :]):
            put(half)
            before = views(root)
            for free_bytes in FREE_BYTES:
                with filled(disk / "ballast", free_bytes):
                    codes.append(slotscope(*words, *WORDS, "--root", root))
                    told = without_progress(capfd.readouterr().err)
                assert len(told) == 1, told
                assert "No space left on device" in told[0]
                assert views(root) == before
            assert slotscope(*words, *WORDS, "--root", root) == 0, capfd.readouterr().err
            capfd.readouterr()
        assert differences(root, landing, replayed) == {}
    assert set(codes) <= ({2, 75} if job == "follow" else {1, 2, 75})


def views(root: Path | str) -> int:
    """How many beliefs the snapshot holds."""
    there = exists(str(root), NODE_VIEWS) and exists(str(root), RUNS)
    return len(read_rows(str(root), NODE_VIEWS, columns=("observer",), snapshot_id=CLUSTER)) if there else 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.xdist_group("object store spark")
def test_a_store_that_fails_one_request_in_ten_gives_a_replay_the_same_rows_once(
    spark, replayed, tmp_path, monkeypatch, capsys
) -> None:
    pytest.importorskip("moto", reason="moto is not installed")
    with object_store("lake") as store, failing_store(store, every=10) as failing:
        for name, value in failing.environment().items():
            monkeypatch.setenv(name, value)
        files = landing_files(tmp_path, packets_max=PACKETS)
        put(files)
        words = ["--pcap", "s3://lake/landing/*/*/bus/*", "--root", "s3://lake/root", "--snapshot", CLUSTER, *WORDS]
        for half in (files[: len(files) // 2], files[len(files) // 2 :]):
            for file in half:
                store.put(f"lake/landing/{file.path.relative_to(tmp_path)}", file.path)
            assert slotscope("history", *words) == 0, capsys.readouterr().err
        assert failing.troubles() > 20
        assert differences("s3://lake/root", "s3://lake/landing", replayed) == {}
