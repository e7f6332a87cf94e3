"""The checkers of sentinels notice what breaks their rules, each broken on purpose (S17)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from cluster_core.sentinel.events import Announced
from cluster_core.sentinel.instance import Address, Flag
from cluster_core.sim.scenario.play import play
from cluster_core.sim.scenario.text import read_scenario
from cluster_core.sim.sentinels.stage import MIXED, SentinelStage
from cluster_core.sim.sentinels.world import sentinel_of, server_of

QUIET = """title Nothing happens
rules S17
cluster masters=1 replicas=1
sentinels count=3 quorum=2
end 15s
"""


@pytest.fixture
def stage() -> SentinelStage:
    """Three sentinels that agree."""
    played = play(read_scenario(QUIET), Random)
    assert played.is_fine
    assert isinstance(played.stage, SentinelStage)
    return played.stage


def say(stage: SentinelStage, name: str, channel: str, text: str) -> None:
    """Have a sentinel announce something, as far as observers can tell."""
    host = stage.world.find(name)
    for observer in stage.world.observers:
        observer.on_effect(host, Announced(channel, text))


def master_at(stage: SentinelStage, name: str):
    return sentinel_of(stage.world.find(name)).state.masters["shard1"]


def vote(stage: SentinelStage, name: str, leader: str, epoch: int) -> None:
    master, leader_id = master_at(stage, name), stage.world.find(leader).id
    master.leader, master.leader_epoch = leader_id, epoch
    say(stage, name, "+vote-for-leader", f"{leader_id} {epoch}")


def lead(stage: SentinelStage, name: str, epoch: int, *, begun_in: int = 0) -> None:
    master_at(stage, name).failover_epoch = begun_in or epoch
    say(stage, name, "+new-epoch", str(epoch))
    say(stage, name, "+elected-leader", "master shard1 10.0.0.1 6379")


def texts(stage: SentinelStage) -> list[str]:
    return [violation.text for violation in stage.violations(converges=True)]


def test_two_votes_in_an_epoch(stage):
    """S17: one vote of a sentinel an epoch."""
    vote(stage, "S1", "S1", 3)
    vote(stage, "S1", "S2", 3)

    assert texts(stage) == ["S1 votes for S1 and S2 in epoch 3 of shard1"]


def test_two_leaders_in_an_epoch(stage):
    """S17: one leader an epoch."""
    for voter, leader in (("S1", "S1"), ("S2", "S1"), ("S3", "S3")):
        vote(stage, voter, leader, 3)
    lead(stage, "S1", 3)
    lead(stage, "S3", 3)

    assert texts(stage) == [
        "S3 leads shard1 in epoch 3 with 1 votes of 2",
        "S1 and S3 both lead shard1 in epoch 3",
    ]


def test_two_leaders_by_votes_of_two_epochs(stage):
    """Redis #2230: the defect has a name of its own."""
    vote(stage, "S3", "S3", 2)
    for voter, leader in (("S1", "S3"), ("S2", "S2"), ("S3", "S2")):
        vote(stage, voter, leader, 3)
    lead(stage, "S3", 3, begun_in=2)
    lead(stage, "S2", 3)

    assert [(v.rule, v.text) for v in stage.watch.violations] == [(MIXED, "S3 and S2 both lead shard1 in epoch 3")]


def test_a_leader_without_a_majority(stage):
    """S11."""
    vote(stage, "S1", "S1", 3)
    lead(stage, "S1", 3)

    assert texts(stage) == ["S1 leads shard1 in epoch 3 with 1 votes of 2"]


def test_a_leader_by_order_needs_no_votes(stage):
    """S12: SENTINEL FAILOVER."""
    master_at(stage, "S1").flags |= Flag.FORCE_FAILOVER
    lead(stage, "S1", 3)

    assert texts(stage) == []


def test_epochs_that_fall(stage):
    """S17: config epochs and votes' epochs only grow, over restarts, too."""
    vote(stage, "S1", "S1", 3)
    master_at(stage, "S1").leader_epoch = 2
    say(stage, "S1", "+sdown", "x")

    assert texts(stage) == ["epochs of shard1 at S1 fell from (0, 3) to (0, 2)"]


def test_views_that_differ(stage):
    """After peace all name the same master."""
    master_at(stage, "S1").address = Address("10.0.0.2", 6379)

    assert texts(stage) == ["shard1: S1 hold R1 in epoch 0 | S2,S3 hold M1 in epoch 0"]


def test_servers_that_do_not_do_what_sentinels_believe(stage):
    """The master is one, replicas follow it and are in sync."""
    server_of(stage.world.find("M1")).master = ("10.0.0.2", 6379)
    server_of(stage.world.find("R1")).master = None

    assert texts(stage) == ["shard1: M1 should be the master and follows R1", "shard1: R1 does not follow M1"]


def test_scenarios_of_sentinels_are_told_from_those_of_clusters():
    """There are at least nine, each watched by these checkers."""
    files = sorted((Path(__file__).parents[2] / "scenarios").glob("sentinel-*.txt"))

    assert len(files) >= 9
    assert all(read_scenario(path.read_text()).sentinels is not None for path in files)
