"""A real cluster, recorded and followed: a master dies, and its incident is reported within a minute and agrees with the servers' logs."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cluster_core.formats.server_log import LogReader
from schemas.history import REPLAYS
from schemas.incidents import INCIDENT_STATES, INCIDENTS
from slotscope.runtime.storage.delta_files import exists, read_rows
from tests.benches.capturing import needs_capture
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.program import Program
from tests.benches.servers import installed, valkey_binary, wait_for

pytestmark = [pytest.mark.servers, pytest.mark.processes, pytest.mark.long]

STORY_S = 60
"""From the death of a master, which its recorder still has to finish a file of, to the story."""
START_S = 120
NEAR_NS = 2_000_000_000


def failovers(root: Path) -> list[dict[str, Any]]:
    """What the tables say of them."""
    if not exists(str(root), INCIDENTS) or not exists(str(root), INCIDENT_STATES):
        return []
    states = {row["incident_id"]: row for row in read_rows(str(root), INCIDENT_STATES, snapshot_id="cache")}
    rows = read_rows(str(root), INCIDENTS, where="kind = 'failover'", snapshot_id="cache")
    return [row | {"page": states[row["incident_id"]]["page"]} for row in rows if row["incident_id"] in states]


def followed_until_ns(root: Path) -> int:
    """The last moment in the tables."""
    if not exists(str(root), REPLAYS):
        return 0
    return max((row["last_ns"] or 0 for row in read_rows(str(root), REPLAYS, snapshot_id="cache")), default=0)


def election_won_ns(cluster: Cluster) -> list[int]:
    """When replicas write that they won an election."""
    result = []
    for node in cluster.replicas:
        reader = LogReader()
        rows = [*reader.feed((node.directory / "node.log").read_bytes()), *reader.finish()]
        result += [row.ts_ns for row in rows if getattr(row, "kind", "") == "election-won"]
    return sorted(result)


@pytest.mark.parametrize("with_follower", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_masters_death_is_reported_within_a_minute_despite_a_killed_recorder(tmp_path, with_follower) -> None:
    """Or the follower *with* it, which costs a second JVM."""
    needs_capture()
    landing, root = tmp_path / "landing", tmp_path / "root"
    landing.mkdir()
    follow = [
        "follow", "--root", root, "--landing", landing, "--every", "2s", "--lateness", "10s", "--master", "local[2]"
    ]  # fmt: skip
    with running_cluster(
        installed(valkey_binary()), masters=3, replicas=3, logfile="node.log", cluster_node_timeout=2000
    ) as cluster:
        record = [
            "record", landing, "--cluster", "cache", "--point", "one", "--interface", "lo", "--every", "2s",
            "--node", f"127.0.0.1:{cluster.masters[0].port}",
        ]  # fmt: skip
        with Program(*record) as recorder, Program(*follow) as follower:
            wait_for(lambda: followed_until_ns(root), "the first batch", START_S)
            recorder.crash()
            if with_follower:
                follower.crash()
            with Program(*record), Program(*follow) if with_follower else nullcontext():
                again_ns = time.time_ns()
                wait_for(lambda: followed_until_ns(root) > again_ns, "the follower to catch up", START_S)
                cluster.masters[2].kill()
                killed = time.monotonic()
                wait_for(lambda: failovers(root), "the story of the failover", STORY_S)
                waited_s = time.monotonic() - killed
                (won_ns,) = election_won_ns(cluster)

    (actual,) = failovers(root)
    assert waited_s <= STORY_S
    assert actual["subject_address"] == f"127.0.0.1:{cluster.masters[2].port}"
    assert actual["winner_address"] in {f"127.0.0.1:{node.port}" for node in cluster.replicas}
    assert actual["started_ns"] <= won_ns <= (actual["ended_ns"] or won_ns) + NEAR_NS
    assert "failover" in Path(actual["page"]).read_text().lower()
