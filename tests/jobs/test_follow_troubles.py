"""A follower with a full disk or a failing store reports it, retries, loses nothing, and does not grow."""

from __future__ import annotations

import errno
import gzip
import threading
from datetime import timedelta
from typing import Any

import pytest

from cluster_core.formats.landing import RecordedFile
from jobs.follow import Request
from schemas.caveats import Code
from slotscope.pipelines.bus import following
from slotscope.pipelines.bus.following import ClusterBatch, Follower
from slotscope.runtime.errors import TryAgainError
from slotscope.runtime.storage import delta_files
from tests.benches.object_store import object_store
from tests.benches.program import Program
from tests.benches.servers import wait_for
from tests.benches.small_disk import filled, mounted
from tests.benches.unreliable_store import failing_store
from tests.builders.edited_captures import as_pcap
from tests.builders.landings import CLUSTER, SECOND, landing_files
from tests.jobs.test_follow import LATENESS, Replayed, differences, follow, put, replay

WAIT_S = 300.0
PACKETS = 2_000


@pytest.fixture(scope="module")
def replayed(spark, tmp_path_factory) -> Replayed:
    """The replay of all files at once."""
    root, landing = tmp_path_factory.mktemp("replayed"), tmp_path_factory.mktemp("landing")
    put(landing_files(landing, packets_max=PACKETS))
    return replay(spark, root, landing)


@pytest.mark.long
def test_a_follower_with_a_full_disk_reports_waits_and_continues(spark, replayed, tmp_path, monkeypatch, capfd) -> None:
    root, landing = tmp_path / "root", tmp_path / "landing"
    put(landing_files(landing, packets_max=PACKETS))
    is_full, stop = threading.Event(), threading.Event()
    real, errors, batches = delta_files.write_deltalake, list[str](), list[ClusterBatch]()

    def write(*arguments: Any, **more: Any) -> None:
        if is_full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        is_full.set()  # there is room for one commit
        real(*arguments, **more)

    def attempts() -> int:
        errors.append(capfd.readouterr().err)
        return "".join(errors).count("trying again")

    monkeypatch.setattr(delta_files, "write_deltalake", write)
    monkeypatch.setattr(following, "PATIENCE_S", 0.2)
    request = Request(
        root=str(root), landing=str(landing), lateness=LATENESS, node_timeout_ms=1000, every=timedelta(seconds=1)
    )
    follower = threading.Thread(target=Follower(spark, request, batches.append).run, args=(stop,))
    follower.start()
    try:
        wait_for(lambda: attempts() >= 1, "a line about the full disk", WAIT_S)
        threads = threading.active_count()
        wait_for(lambda: attempts() >= 4, "further attempts", WAIT_S)
        assert threading.active_count() <= threads
        assert not batches
        monkeypatch.undo()
        wait_for(lambda: batches, "the follower to go on", WAIT_S)
    finally:
        stop.set()
        follower.join()

    (line, *_) = [line for line in "".join(errors).splitlines() if "trying again" in line]
    assert "No space left on device" in line
    assert differences(root, landing, replayed) == {}


@pytest.mark.long
def test_a_full_disk_below_the_checkpoint_is_one_line_and_costs_no_row(spark, replayed, tmp_path) -> None:
    landing, root = tmp_path / "landing", tmp_path / "root"
    files = landing_files(landing, packets_max=PACKETS)
    root.mkdir()
    with mounted(root / "checkpoints", 512) as small_disk:
        for part in (files[:6], files[6:]):
            put(part)
            with filled(small_disk / "filler", 0), pytest.raises(TryAgainError, match="No space left on device"):
                follow(spark, root, landing)
            follow(spark, root, landing)

        assert differences(root, landing, replayed) == {}


@pytest.mark.slow
def test_a_landing_of_100000_files_is_one_batch(spark, tmp_path) -> None:
    """Empty captures of a second each; nothing is left out."""
    folder, count = tmp_path / "landing" / CLUSTER / "host" / "bus", 100_000
    folder.mkdir(parents=True)
    raw, begun_ns = gzip.compress(as_pcap([])), 1_700_000_000 * SECOND
    for number in range(count):
        from_ns = begun_ns + number * SECOND
        (folder / RecordedFile("", from_ns, from_ns + SECOND, "pcap").name).write_bytes(raw)

    batches = follow(spark, tmp_path / "root", tmp_path / "landing")

    assert [batch.files for batch in batches] == [count]
    assert batches[0].outcome.bad_records == 0
    assert not any(warning.code == Code.LATE for warning in batches[0].outcome.warnings)


@pytest.mark.slow
@pytest.mark.processes
def test_a_store_that_fails_one_request_in_ten_costs_time_and_no_row(spark, replayed, tmp_path, monkeypatch) -> None:
    pytest.importorskip("moto", reason="moto is not installed")
    landing, files = "s3://lake/landing", landing_files(tmp_path, packets_max=PACKETS)
    put(files)
    arguments = ["--root", "s3://lake/root", "--landing", landing, "--lateness", "12s", "--node-timeout-ms", "1000"]
    arguments += ["--master", "local[2]"]
    with object_store("lake") as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        with failing_store(store, every=10) as failing:
            for half in (files[::2], files[1::2]):
                for file in half:
                    store.put(f"lake/landing/{file.path.relative_to(tmp_path)}", file.path)
                with Program("follow", "--once", *arguments, environment=failing.environment()) as follower:
                    errors = follower.messages(600)
                assert follower.returncode == 0, errors

            assert failing.troubles() > 50
        assert differences("s3://lake/root", landing, replayed) == {}
