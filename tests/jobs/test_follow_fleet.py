"""Many clusters in one landing: one commit a table and batch, and one that cannot be followed holds up no other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs.follow import Request
from schemas import history
from slotscope.pipelines.bus.following import Followed, Follower
from slotscope.pipelines.bus.history import HistoryReplay
from slotscope.pipelines.bus.outcome import Outcome
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import Run
from tests.builders.landings import CLUSTER, Landed, landing_files
from tests.jobs.test_follow import LATENESS

pytestmark = pytest.mark.long
CLUSTERS = ("eu", "us", "asia")
PACKETS = 1_500
POISONED = "us"


class Poisoned(HistoryReplay):
    """A replay with a fault that nobody expects."""

    def fold(self, run: Run) -> Outcome:
        raise ZeroDivisionError("poisoned")


def put(files: Iterable[Landed]) -> None:
    """A recorder of each cluster finishes the same files."""
    for file in files:
        for cluster in CLUSTERS:
            place = Path(str(file.path).replace(f"/{CLUSTER}/", f"/{cluster}/"))
            Landed(place, file.ended_ns, file.raw).put()


def follow(spark: Any, root: Path, landing: Path) -> list[Followed]:
    """Take what is in the landing now."""
    told: list[Followed] = []
    request = Request(root=str(root), landing=str(landing), once=True, lateness=LATENESS, node_timeout_ms=1000)
    Follower(spark, request, told.append).run(threading.Event())
    return told


def versions(root: Path) -> dict[str, int]:
    """The version of each table."""
    logs = root.glob("*/*/_delta_log")
    return {f"{log.parent.parent.name}/{log.parent.name}": DeltaTable(log.parent).version() for log in logs}


def messages(root: Path) -> Counter[str]:
    """How many messages each cluster has."""
    return Counter(row["snapshot_id"] for row in read_rows(str(root), history.BUS_MESSAGES, columns=("snapshot_id",)))


def test_a_batch_of_many_clusters_is_one_commit_a_table(spark, tmp_path) -> None:
    """silver/runs has two for the batch and two for what it said of incidents; no commit is without rows."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    files = landing_files(landing, packets_max=PACKETS)
    put(files[:6])
    follow(spark, root, landing)
    before = versions(root)
    put(files[6:])

    told = follow(spark, root, landing)

    after = versions(root)
    grown = {name: version - before.get(name, -1) for name, version in after.items()}
    assert sorted(one.cluster for one in told) == sorted(CLUSTERS)
    assert {name for name, count in grown.items() if count > 1} <= {"silver/runs"}
    assert grown["silver/runs"] <= 4
    assert len(set(messages(root).values())) == 1


def test_a_cluster_that_cannot_be_followed_is_set_aside_until_the_next_start(
    spark, tmp_path, monkeypatch, capfd
) -> None:
    """The others go on; a new follower reads all its files anew, and lacks nothing."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    files = landing_files(landing, packets_max=PACKETS)
    put(files[:6])
    follow(spark, root, landing)
    put(files[6:-3])

    def replay(self: Follower, cluster: str, *arguments: Any, **more: Any) -> HistoryReplay:
        found = real(self, cluster, *arguments, **more)
        found.__class__ = Poisoned if cluster == POISONED else HistoryReplay
        return found

    real = Follower._replay
    with monkeypatch.context() as poisoned:
        poisoned.setattr(Follower, "_replay", replay)
        told = follow(spark, root, landing)

    assert sorted(one.cluster for one in told) == sorted({*CLUSTERS} - {POISONED})
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "set aside" in line]
    assert POISONED in line
    assert "ZeroDivisionError: poisoned" in line
    reached = messages(root)
    assert 0 < reached[POISONED] < reached["eu"]

    put(files[-3:])
    follow(spark, root, landing)

    assert messages(root)[POISONED] == messages(root)["eu"]
