"""What nodes of a simulation believe comes out of a replay of their messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benches.simulated_replay import replayed_simulation

ONE_IN = 1 / 200_000
"""Where a node sends a hundred PINGs a second, an uncaptured one is not missed: its PFAIL may show late."""
FOLDER = Path(__file__).parents[2] / "scenarios"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "begin_ms"),
    [
        ("failover", 15_000),  # M1 is back at 14 s: a process that is gone believes nothing
        ("failover-redis-7.0", 1000),
        ("update-message", 1000),
        ("manual-failover", 1000),
        ("resharding", 1000),
    ],
)
def test_a_replay_of_the_messages_gives_the_same_beliefs(name, begin_ms):
    """Every node's CLUSTER NODES at many times comes out of the messages again."""
    verdicts = replayed_simulation((FOLDER / f"{name}.txt").read_text(), begin_ms=begin_ms)

    assert len(verdicts) > 100
    assert [verdict for verdict in verdicts if verdict.wrong] == []


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
