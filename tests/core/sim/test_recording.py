"""A simulated incident is a capture like any other: replayed, it gives the beliefs that the simulated nodes had."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from benchmarks.fidelity import replay
from cluster_core.incidents.past_views import view_at, view_differences
from cluster_core.node.commands.descriptions import topology_of
from cluster_core.replay.rows import EventRow
from cluster_core.sim.clock import START_US
from cluster_core.sim.recording import Recorder
from cluster_core.sim.scenario.play import play
from cluster_core.sim.scenario.text import read_scenario
from slotscope.sources.bus.evidence import CaptureOptions
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.benches.simulated_replay import replayed_simulation
from tests.builders.bus_comparison import captured

ONE_IN = 1 / 200_000
"""Where a node sends a hundred PINGs a second, one that nobody sees is not missed: its doubt may show late."""
FOLDER = Path(__file__).parents[2] / "scenarios"


@pytest.mark.long
@pytest.mark.parametrize("name", ["failover", "failover-redis-7.0", "update-message", "manual-failover", "resharding"])
def test_a_replay_of_the_messages_gives_the_same_beliefs(name, tmp_path):
    """The log of a run is what ``slotscope history`` reads: every node's CLUSTER NODES comes out of it again."""
    scenario = read_scenario((FOLDER / f"{name}.txt").read_text())
    recorders: list[Recorder] = []

    def record(stage):
        recorders.append(Recorder(stage.world))
        stage.world.recorder = recorders[0]

    played = play(scenario, Random, prepare=record)
    file = tmp_path / "bus.pcap"
    file.write_bytes(b"".join(recorders[0].pcap()))

    timeout_ms = scenario.settings.node_timeout_ms
    files = tuple(survey(find_captures([str(file)])))
    found = replay(CaptureOptions(files, PollsAndLogs(), node_timeout_ms=timeout_ms, permissive=True))

    world = played.stage.world
    end_ns = (START_US + world.now_us) * 1000
    differences = {
        host.name: view_differences(topology_of(host.node.state), view_at(found.views, host.id, end_ns))
        for host in world.hosts
    }
    assert differences == {host.name: [] for host in world.hosts}
    won = [row.observer for row in found.rows if isinstance(row, EventRow) and row.kind == "election-won"]
    assert [world.name_of(node) for node in won] == [
        entry.host for entry in played.stage.trace.entries if "election won" in entry.text
    ]


def test_every_message_that_arrives_is_recorded(tmp_path):
    """Nothing is lost on the way to the file: as many messages as were sent, of exactly their bytes (R172)."""
    scenario = read_scenario("cluster masters=3 replicas=1\nsettings profile=redis-7.0 node-timeout=2s\nend 10s\n")
    recorders: list[Recorder] = []

    def record(stage):
        recorders.append(Recorder(stage.world))
        stage.world.recorder = recorders[0]

    world = play(scenario, Random, prepare=record).stage.world
    found = captured(list(recorders[0].pcap()))
    rows = found.messages

    assert len(rows) == pytest.approx(world.network.messages, abs=12)
    assert {row.totlen for row in rows} <= {2256 + entries * 104 for entries in range(4)}
    assert all(row.is_whole for row in rows)
    assert not found.rows


@pytest.mark.parametrize(
    ("masters", "timeout_s", "end_s"),
    [
        (3, 2, 20),
        pytest.param(15, 15, 45, marks=pytest.mark.slow),
        pytest.param(50, 15, 45, marks=pytest.mark.slow),
        pytest.param(150, 15, 26, marks=pytest.mark.slow),
    ],
)
def test_every_view_of_every_node_is_replayed(masters, timeout_s, end_s):
    """6, 30, 100 and 300 nodes, one master dies: each node's CLUSTER NODES at many times, PFAIL included."""
    verdicts = replayed_simulation(
        f"cluster masters={masters} replicas=1\nsettings profile=valkey-9.1 node-timeout={timeout_s}s\n"
        f"at 5s crash M1\nend {end_s}s\n"
    )

    assert len(verdicts) >= 2 * (end_s - 1) * (2 * masters - 1) * 2 * masters
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    assert len(wrong) <= len(verdicts) * ONE_IN
    assert {verdict.wrong for verdict in wrong} <= {("pfail",)}
