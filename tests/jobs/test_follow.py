"""A landing that is followed gives the tables of a replay of all its files, however they come and whatever happens to the follower."""

from __future__ import annotations

import gzip
import json
import random
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from benchmarks.bus_data import FRAME_PAYLOAD_BYTES, START_NS, bus_packets
from cluster_core.formats.capture.pcap import Packet
from cluster_core.formats.landing import RecordedFile
from jobs import history as history_job
from jobs.follow import Request
from jobs.history import Request as Replay
from schemas import history, incidents
from schemas.table import Table
from slotscope.pipelines.bus import following
from slotscope.pipelines.bus import history as history_pipeline
from slotscope.pipelines.bus.following import ClusterBatch, Follower
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.storage.delta_files import exists, read_rows
from tests.benches.program import Program, slotscope
from tests.builders.edited_captures import as_pcap
from tests.builders.landings import CLUSTER, Landed, landing_files

LATENESS = timedelta(seconds=12)
"""More than the files of these landings are long."""
TABLES = (
    history.BUS_MESSAGES, history.SLOT_BITMAPS, history.LOG_EVENTS, history.NODE_VIEWS, history.DISAGREEMENTS,
    history.FAILURE_REPORTS, history.VOTES, history.EPOCHS, history.EVENTS, history.SLOT_OWNERS, history.LINKS,
    history.GAPS, incidents.INCIDENTS, incidents.INCIDENT_STEPS,
    incidents.FINDINGS,
)  # fmt: skip
OF_RUNS = ("run_id", "settled_by")
"""Columns that tell which run wrote a row, and when it became final."""


class Replayed(NamedTuple):
    """A root, and the landing with the files replayed into it."""

    root: Path
    landing: Path


def rows_of(root: Path | str, table: Table, landing: Path | str = "/landing") -> list[str]:
    """The rows of the cluster that a reader sees, in an order of their own, wherever the landing was."""
    if not exists(str(root), table):
        return []
    rows = read_rows(str(root), table, snapshot_id=CLUSTER)
    texts = [repr({name: value for name, value in row.items() if name not in OF_RUNS}) for row in rows]
    return sorted(text.replace(str(landing), "/landing") for text in texts)


def differences(root: Path | str, landing: Path | str, replayed: Replayed) -> dict[str, Any]:
    """Tables that do not hold the rows of the replay, each with a row that only one of them has."""
    result = {}
    for table in TABLES:
        here, there = rows_of(root, table, landing), rows_of(replayed.root, table, replayed.landing)
        if here != there:
            result[table.name] = (len(here), len(there), next(iter(set(here) ^ set(there)), ""))
    return result


def follow(spark: Any, root: Path, landing: Path, **options: Any) -> list[ClusterBatch]:
    batches: list[ClusterBatch] = []
    options = {"lateness": LATENESS, "node_timeout_ms": 1000, **options}
    Follower(spark, Request(root=str(root), landing=str(landing), once=True, **options), batches.append).run(
        threading.Event()
    )
    return batches


def follow_when_alone(spark: Any, root: Path, landing: Path) -> list[ClusterBatch]:
    """A JVM outlives the process that was killed by a moment."""
    for _ in range(5):
        with suppress(TryAgainError):
            return follow(spark, root, landing)
        time.sleep(5)
    return follow(spark, root, landing)


def replay(spark: Any, root: Path, landing: Path, **options: Any) -> Replayed:
    """A replay of all captures of *landing* at once."""
    captures = (f"{landing}/*/*/bus/*",)
    history_job.run(spark, Replay(root=str(root), snapshot=CLUSTER, pcap=captures, node_timeout_ms=1000, **options))
    return Replayed(root, landing)


def put(files: Iterable[Landed]) -> None:
    for file in files:
        file.put()


@pytest.fixture(scope="module")
def replayed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The replay of all files at once."""
    root, landing = tmp_path_factory.mktemp("replayed"), tmp_path_factory.mktemp("landing")
    put(landing_files(landing, logs=True))
    return replay(spark, root, landing, log=(f"{landing}/*/*/logs/*",))


@pytest.mark.parametrize("is_spread", [False, pytest.param(True, marks=pytest.mark.long)])
def test_files_that_arrive_and_disappear_give_the_tables_of_all_files(
    spark, replayed, tmp_path, monkeypatch, is_spread
) -> None:
    """Each recorder ends its files at its own moments; a ring removes read files.  Of large batches some machines run beside the reading, the others after it."""
    if is_spread:
        monkeypatch.setattr(following, "BYTES_TOGETHER_MAX", 0)
        monkeypatch.setattr(history_pipeline, "BYTES_HERE_MAX", 0)
        monkeypatch.setattr(history_pipeline, "MACHINES_BESIDE", 2)
    root, landing = tmp_path / "root", tmp_path / "landing"
    files, followed = landing_files(landing, logs=True), []
    for start in range(0, len(files), 12):
        put(files[start : start + 12])
        followed += follow(spark, root, landing)
        for file in files[start : start + 12]:
            file.path.unlink()

    assert [batch.files for batch in followed] == [12, 12, len(files) - 24]
    assert differences(root, landing, replayed) == {}
    assert rows_of(root, incidents.INCIDENTS)
    assert rows_of(root, history.LATE_FILES) == []
    assert follow(spark, root, landing) == []


def test_a_message_that_two_files_share_is_no_bad_record(spark, tmp_path) -> None:
    """Its rest is to come where the first file is the last."""
    landing, root = tmp_path / "landing", tmp_path / "root"
    frames = list(bus_packets(600, 6))
    packets = [Packet(START_NS + 1_000_000 * at, 1, frame, len(frame), 0) for at, frame in enumerate(frames)]
    (cut, *_) = [at for at, frame in enumerate(frames) if at > len(frames) // 2 and len(frame) > FRAME_PAYLOAD_BYTES]
    bad = []
    for part in (packets[: cut + 1], packets[cut + 1 :]):
        name = RecordedFile("", part[0].ts_ns, part[-1].ts_ns + 1, "pcap").name
        path = landing / CLUSTER / "one" / "bus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(as_pcap(part)))
        bad += [batch.outcome.bad_records for batch in follow(spark, root, landing)]

    assert bad == [0, 0]
    assert len(rows_of(root, history.BUS_MESSAGES)) == 600


def test_late_logs_leave_the_events_of_captures(spark, replayed, tmp_path) -> None:
    """A host ends its log and its capture at different moments: a batch may have one without the other."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    files = landing_files(landing, logs=True)
    (last,) = [file for file in files if file.path.parent.name == "logs"][-1:]
    put(file for file in files if file is not last)
    follow(spark, root, landing)
    put([last])

    assert [batch.files for batch in follow(spark, root, landing)] == [1]
    assert differences(root, landing, replayed) == {}


def test_events_of_logs_alone_are_those_of_all_batches(spark, replayed, tmp_path) -> None:
    """As of a replay of the logs that is given all of them."""
    root, landing, whole = tmp_path / "root", tmp_path / "landing", tmp_path / "whole"
    files = [file for file in landing_files(landing, logs=True) if file.path.parent.name == "logs"]
    put(files[:-1])
    follow(spark, root, landing)
    put(files[-1:])
    follow(spark, root, landing)
    history_job.run(spark, Replay(root=str(whole), snapshot=CLUSTER, cluster=CLUSTER, log=(f"{landing}/*/*/logs/*",)))

    assert rows_of(root, history.EVENTS, landing) == rows_of(whole, history.EVENTS, landing) != []


def test_json_has_a_line_with_the_result_of_each_batch(spark, tmp_path, capsys) -> None:
    """The output has nothing else: news of incidents and unknown files go to the error stream."""
    put(landing_files(tmp_path / "landing", packets_max=600)[:3])
    put(landing_files(tmp_path / "landing" / "europe", packets_max=600)[:1])

    assert slotscope("follow", "--root", tmp_path / "root", "--landing", tmp_path / "landing", "--once", "--json") == 0

    printed = capsys.readouterr()
    (line,) = map(json.loads, printed.out.splitlines())
    assert (line["batch"], line["files"]) == (0, 3)
    assert f"{tmp_path}/landing/europe/{CLUSTER}/host-" in printed.err
    assert "not followed: it lies deeper than LANDING/CLUSTER/POINT/KIND" in printed.err
    assert line["outcome"]["messages"] > 0


def test_a_follower_killed_in_its_first_batch_starts_again(spark, tmp_path) -> None:
    """Spark leaves the file that it was writing in its checkpoint."""
    offsets = tmp_path / "root" / "checkpoints" / "follow" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.5f7c2a1e-1f3b-4d53-8b2c-0a6d1f2e3c4d.tmp").write_bytes(b"v1\n{")
    put(landing_files(tmp_path / "landing", packets_max=600)[:1])

    assert [batch.files for batch in follow(spark, tmp_path / "root", tmp_path / "landing")] == [1]


def test_a_concurrent_follower_asks_for_another_run(spark, tmp_path) -> None:
    """Like one that was killed, and writes its last file after the start of the next."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    put(landing_files(landing, packets_max=600)[:1])
    request = Request(root=str(root), landing=str(landing), once=True, lateness=LATENESS, node_timeout_ms=1000)

    def write_beside(batch: ClusterBatch) -> None:
        commits = root / "checkpoints" / "follow" / "commits"
        commits.mkdir(exist_ok=True)
        (commits / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')

    with pytest.raises(TryAgainError, match="another follow is running in it, or was killed a moment ago"):
        Follower(spark, request, write_beside).run(threading.Event())


def test_a_stream_continues_only_with_its_first_options_and_states(spark, tmp_path) -> None:
    """It has the names of new files only: from nothing it would tell half a history."""
    files = landing_files(tmp_path / "landing", packets_max=600)
    put(files[:3])
    follow(spark, tmp_path / "root", tmp_path / "landing")
    put(files[3:])

    with pytest.raises(InputError, match="followed with other options"):
        follow(spark, tmp_path / "root", tmp_path / "landing", node_timeout_ms=2000)


def test_a_state_of_another_version_makes_the_follower_read_the_landing_again(spark, tmp_path, monkeypatch) -> None:
    """All of it if its files are there, once; else the follower reports the loss and continues from the first file left."""

    def arrive(self: Follower, cluster: str) -> Any:
        put(late)
        return landed(self, cluster)

    landed = Follower._landed
    monkeypatch.setattr(Follower, "_landed", arrive)
    files = landing_files(tmp_path / "landing", seconds=3, aligned=True, packets_max=1200)
    ends = sorted({file.ended_ns for file in files})
    early = [file for file in files if file.ended_ns == ends[0]]
    late = [file for file in files if file.ended_ns > ends[0]]
    texts, counts = [], []
    for name, is_gone in (("kept", False), ("lost", True)):
        root = tmp_path / name
        put(early)
        follow(spark, root, tmp_path / "landing", lateness=timedelta(0))
        DeltaTable(root / history.REPLAY_STATE.name).update({"version": "1"})
        for file in early if is_gone else ():
            file.path.unlink()
        put(late[:-2])
        follow(spark, root, tmp_path / "landing", lateness=timedelta(0))
        (replay,) = read_rows(str(root), history.REPLAYS)
        texts += [warning["text"] for warning in replay["warnings"] if warning["code"] == "state"]
        follow(spark, root, tmp_path / "landing", lateness=timedelta(0))
        assert read_rows(str(root), history.LATE_FILES) == [], "files that came after the batch was listed"
        counts.append(len(read_rows(str(root), history.BUS_MESSAGES)))
        for file in late:
            file.path.unlink()

    put(files)
    follow(spark, tmp_path / "whole", tmp_path / "landing")
    assert 0 < counts[1] < counts[0] == len(read_rows(str(tmp_path / "whole"), history.BUS_MESSAGES))
    assert texts[0].endswith("of the landing; nothing is lost")
    assert texts[1].endswith("is lost: its files were deleted")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_follower_killed_at_any_moment_loses_and_repeats_nothing(spark, replayed, tmp_path, seed) -> None:
    chance = random.Random(seed)
    root, landing = tmp_path / "root", tmp_path / "landing"
    files = landing_files(landing, logs=True)
    at = sorted(chance.sample(range(1, len(files)), 2))
    flags = ["--root", root, "--landing", landing, "--lateness", "12s", "--node-timeout-ms", "1000", "--every", "1s"]
    put(files[: at[0]])
    for start, stop in pairwise([*at, len(files)]):
        with Program("follow", *flags, "--master", "local[2]"):
            time.sleep(chance.uniform(3, 15))
            put(files[start:stop])
            time.sleep(chance.uniform(0, 10))

    follow_when_alone(spark, root, landing)

    assert differences(root, landing, replayed) == {}
