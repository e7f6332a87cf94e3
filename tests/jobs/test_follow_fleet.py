"""Many clusters in one landing: one commit a table and batch, and one that cannot be followed holds up no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from schemas import history
from schemas.caveats import Code
from schemas.runs import RUNS
from slotscope.pipelines.bus import following
from slotscope.pipelines.bus.following import Follower, standing
from slotscope.pipelines.bus.history import HistoryReplay
from slotscope.pipelines.bus.outcome import Outcome
from slotscope.pipelines.bus.states import Batch
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import Run
from tests.builders.landings import CLUSTER, Landed, landing_files
from tests.conftest import DATA
from tests.jobs.test_follow import follow

pytestmark = pytest.mark.long
CLUSTERS = ("eu", "us", "asia")
PACKETS = 1_500
POISONED = "us"


class Poisoned(HistoryReplay):
    """A replay with an unexpected fault."""

    def fold(self, run: Run) -> Outcome:
        raise ZeroDivisionError("poisoned")


def put(files: Iterable[Landed]) -> None:
    """A recorder of each cluster finishes the same files."""
    for file in files:
        for cluster in CLUSTERS:
            place = Path(str(file.path).replace(f"/{CLUSTER}/", f"/{cluster}/"))
            Landed(place, file.ended_ns, file.raw).put()


def versions(root: Path) -> dict[str, int]:
    """The version of each table."""
    logs = root.glob("*/*/_delta_log")
    return {f"{log.parent.parent.name}/{log.parent.name}": DeltaTable(log.parent).version() for log in logs}


def messages(root: Path) -> Counter[str]:
    return Counter(row["snapshot_id"] for row in read_rows(str(root), history.BUS_MESSAGES, columns=("snapshot_id",)))


def test_a_batch_of_many_clusters_is_one_commit_a_table(spark, tmp_path) -> None:
    """silver/runs has two for the batch and two for its incidents; no commit is without rows."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    files = landing_files(landing, packets_max=PACKETS)
    put(files[:6])
    follow(spark, root, landing)
    before = versions(root)
    put(files[6:])

    batches = follow(spark, root, landing)

    after = versions(root)
    grown = {name: version - before.get(name, -1) for name, version in after.items()}
    assert sorted(batch.cluster for batch in batches) == sorted(CLUSTERS)
    assert {name for name, count in grown.items() if count > 1} <= {"silver/runs"}
    assert grown["silver/runs"] <= 4
    assert len(set(messages(root).values())) == 1
    runs = Counter((row["snapshot_id"], row["job"]) for row in read_rows(str(root), RUNS))
    assert set(runs.values()) == {1}, "a batch takes the row of the batch before"


def test_disjoint_followers_share_a_root_and_a_second_one_is_refused(spark, tmp_path, monkeypatch) -> None:
    """Each set has its own checkpoint; a name or a glob makes a set.  Metrics show a cluster that gets no files any longer."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    files = landing_files(landing, packets_max=PACKETS)
    put(files[:6])

    first = follow(spark, root, landing, clusters=("e*",))
    second = follow(spark, root, landing, clusters=("us", "as*"))

    assert [[batch.cluster for batch in batches] for batches in (first, second)] == [["eu"], ["asia", "us"]]
    assert len(set(messages(root).values())) == 1
    for stream in ("0", "~"):
        assert standing(str(root), CLUSTERS, Batch(stream, 0)).done == frozenset()
    put(files[6:])
    with pytest.raises(InputError, match=r"eu is followed by a follower with other --clusters .*use disjoint"):
        follow(spark, root, landing, clusters=("eu",))
    assert [batch.cluster for batch in follow(spark, root, landing, clusters=("e*",))] == ["eu"]
    heard = list[Run]()
    monkeypatch.setattr(following, "observers", [heard.append])
    assert follow(spark, root, landing, clusters=("e*",)) == []
    assert [(run.cluster, run.data_at is None, run.inputs != {}) for run in heard] == [("eu", False, True)]


def test_two_clusters_with_one_name_are_reported_and_lose_nothing(spark, tmp_path) -> None:
    """Also where the second one came later: a cluster that was rebuilt has new node ids."""
    root, landing = tmp_path / "root", tmp_path / "landing"
    first = landing_files(landing, packets_max=600)
    other = landing_files(landing, packets_max=600, capture=DATA / "bus-redis-7.0" / "bus.pcap.gz")
    for file in first:
        file.put()
    follow(spark, root, landing)
    alone = messages(root)[CLUSTER]
    for file in other:
        place = Path(str(file.path).replace("host-", "other-"))
        Landed(place, file.ended_ns, file.raw).put()

    (only,) = follow(spark, root, landing)

    (warning,) = [warning for warning in only.outcome.warnings if warning.code == Code.TWO_CLUSTERS]
    assert "nodes of 2 clusters that never knew each other" in warning.text
    assert messages(root)[CLUSTER] == only.outcome.messages > alone


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
        actual = real(self, cluster, *arguments, **more)
        actual.__class__ = Poisoned if cluster == POISONED else HistoryReplay
        return actual

    real = Follower._replay
    with monkeypatch.context() as poisoned:
        poisoned.setattr(Follower, "_replay", replay)
        batches = follow(spark, root, landing)

    assert sorted(batch.cluster for batch in batches) == sorted({*CLUSTERS} - {POISONED})
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "set aside" in line]
    assert POISONED in line
    assert "ZeroDivisionError: poisoned" in line
    assert [run["cluster"] for run in read_rows(str(root), RUNS, state="set aside")] == [POISONED]
    reached = messages(root)
    assert 0 < reached[POISONED] < reached["eu"]

    put(files[-3:])
    follow(spark, root, landing)

    assert messages(root)[POISONED] == messages(root)["eu"]
