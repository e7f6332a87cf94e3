"""The checkers detect nodes that break a rule on purpose."""

from __future__ import annotations

from random import Random

import pytest

from cluster_core.gossip import node as gossip_node
from cluster_core.gossip.flags import FAIL
from cluster_core.gossip.profile import REDIS_7_0
from cluster_core.node import candidacy
from cluster_core.node.state import NodeSettings
from cluster_core.sim.clients import Ack, LossReason, Promotion
from cluster_core.sim.layouts import Layout, LayoutError, check_layout, names_of, places_of
from cluster_core.slots.key_slot import key_slot
from tests.benches.scenario import Scene
from tests.benches.simulated_servers import Servers


def stage_of(masters, replicas, seed=1, node_timeout_ms=1000):
    settings = NodeSettings(profile=REDIS_7_0, node_timeout_ms=node_timeout_ms)
    places = places_of(Layout(masters, replicas), lambda name: settings, Random(seed))
    return Scene(Servers(Random, seed), places)


def rules(stage):
    return {violation.rule for violation in stage.checks.violations}


@pytest.mark.long
def test_a_voter_that_grants_every_vote_is_caught(monkeypatch):
    """R162, R163: two shards that ask in one epoch both win."""
    monkeypatch.setattr(gossip_node, "vote_refusal", lambda *_: "")
    violations = set()
    for seed in range(12):
        stage = stage_of(5, 2, seed)
        stage.faults.change_paths(stage.world.hosts, stage.world.hosts, delay_us=40_000)
        stage.world.run_to(4_000_000)
        for host in stage.world.hosts[:2]:
            stage.faults.crash(host)
        stage.world.run_to(10_000_000)
        violations |= rules(stage)

    assert "R162" in violations
    assert "R163" in violations


def test_an_epoch_that_falls_is_caught():
    """R161."""
    stage = stage_of(3, 0)
    stage.world.run_to(3_000_000)
    stage.world.hosts[0].node.view.last_vote_epoch = 2
    stage.world.run_to(6_000_000)
    stage.world.hosts[0].node.view.last_vote_epoch = 1
    stage.world.run_to(9_000_000)

    assert "R161" in rules(stage)


def test_two_owners_of_a_slot_in_one_epoch_are_caught():
    """R166: one owner a slot and config epoch."""
    stage = stage_of(3, 0)
    stage.world.run_to(3_000_000)
    stage.world.hosts[1].node.view.myself.slots |= 1
    stage.world.hosts[1].node.view.myself.config_epoch = 1
    stage.world.run_to(6_000_000)

    assert "R166" in rules(stage)


def test_a_node_that_marks_itself_failed_is_caught():
    """R167."""
    stage = stage_of(3, 0)
    stage.world.run_to(3_000_000)
    stage.world.hosts[0].node.view.myself.flags |= FAIL
    stage.world.run_to(5_000_000)

    assert "R167" in rules(stage)


def test_a_verdict_without_reports_is_caught():
    """R165: FAIL needs a quorum that reported."""
    stage = stage_of(5, 0)
    stage.world.run_to(3_000_000)
    stage.faults.crash(stage.world.hosts[4])
    stage.world.run_to(4_300_000)
    stage.checks._reports.clear()
    stage.checks.on_effect = lambda host, effect: (
        type(stage.checks).on_effect(stage.checks, host, effect) if type(effect).__name__ != "ReportAdded" else None
    )
    stage.world.run_to(7_000_000)

    assert "R165" in rules(stage)


def test_an_offset_that_falls_is_caught():
    """R169: within one history of replication."""
    stage = stage_of(3, 0)
    stage.world.run_to(3_000_000)
    host = stage.world.hosts[0]
    for offset in (500, 400):
        stage.world.replication.write(host, b"k", b"v", 10)
        host.store.lineage.offset = host.node.state.offset = offset
        stage.world.run_to(stage.world.now_us + 1_500_000)

    assert "R169" in rules(stage)


def test_a_recovered_process_has_its_cron_back():
    """After SIGSTOP, slow and fast phases there is one cron, ten times a second (R28)."""
    stage = stage_of(3, 0)
    host = stage.world.hosts[0]
    stage.world.run_to(3_000_000)
    for number in range(40):
        stage.faults.slow(host, 5_000 * (number % 2))
        stage.world.run_to(stage.world.now_us + 33_000)
    stage.faults.slow(host, 0)
    stage.world.run_to(stage.world.now_us + 200_000)
    crons = host.node.state.iteration
    stage.world.run_to(stage.world.now_us + 10_000_000)

    assert 98 <= host.node.state.iteration - crons <= 100


def test_a_win_without_a_majority_of_votes_is_caught(monkeypatch):
    """R164: a candidate that hears two of five masters, and is content with one vote."""
    monkeypatch.setattr(candidacy, "quorum_of", lambda size: 1)
    stage = stage_of(5, 1)
    stage.world.run_to(4_000_000)
    victim, *masters = [host for host in stage.world.hosts if not host.node.view.myself.replicaof]
    candidate = next(host for host in stage.world.hosts if host.node.view.myself.replicaof == victim.id)
    stage.faults.cut([candidate], masters[2:])
    stage.faults.crash(victim)
    stage.world.run_to(9_000_000)

    assert "R164" in rules(stage)


def test_a_replica_that_does_not_know_its_masters_slots_is_caught():
    """R168: a replica claims the slots of its master."""
    stage = stage_of(3, 1)
    stage.world.run_to(5_000_000)
    assert stage.agreement() == []
    replica = next(host for host in stage.world.hosts if host.node.view.myself.replicaof)
    master = replica.node.view.master_of(replica.node.view.myself)
    master.slots &= master.slots - 1

    assert "R168" in {violation.rule for violation in stage.agreement()}


def test_a_replica_of_a_replica_is_caught():
    """R168: a chain that lasts."""
    stage = stage_of(3, 2)
    stage.world.run_to(5_000_000)
    assert stage.agreement() == []
    first, second = [host for host in stage.world.hosts if host.node.view.myself.replicaof][::3][:2]
    second.node.view.myself.replicaof = first.id

    assert any(violation.rule == "R168" and "is a replica" in violation.text for violation in stage.agreement())


def test_differing_views_at_rest_are_caught():
    """Every view converges once the network has healed."""
    stage = stage_of(3, 1)
    stage.world.run_to(5_000_000)
    assert stage.agreement() == []
    stage.faults.cut(stage.world.hosts[:1], stage.world.hosts[1:])
    stage.world.run_to(9_000_000)

    assert {violation.rule for violation in stage.agreement()} == {"converge"}


def test_an_unexcused_lost_write_is_caught():
    """A write that its master lost by itself; with a promotion that lacked it, it is excused (P6)."""
    stage = stage_of(3, 1)
    stage.world.run_to(5_000_000)
    owner = next(h for h in stage.world.hosts if h.node.view.myself.slots >> key_slot(b"gone") & 1)
    ack = Ack(b"gone", owner.index, 4_000_000, owner.store.replid, 60, 0)

    (loss,) = stage.losses.find([ack]).lost
    stage.losses.promotions.append(Promotion(4_500_000, 5, owner.index, owner.store.replid, 0))
    (excused,) = stage.losses.find([ack]).lost
    (confirmed,) = stage.losses.find([ack._replace(replicated=1)]).lost

    assert (loss.way, excused.way, confirmed.way) == (
        LossReason.NO_EXCUSE,
        LossReason.NOT_REPLICATED,
        LossReason.NO_EXCUSE,
    )


def test_a_write_of_a_down_shard_is_lost_only_if_the_shard_continued_without_it():
    """A dead owner's copy counts until a replica without the data is promoted (P6)."""
    stage = stage_of(3, 1)
    stage.world.run_to(5_000_000)
    owner = next(h for h in stage.world.hosts if h.node.view.myself.slots >> key_slot(b"kept") & 1)
    owner.store.append(b"kept", b"1", 60)
    ack = Ack(b"kept", owner.index, 4_000_000, owner.store.replid, owner.store.offset, 0)
    stage.faults.crash(owner)

    down = stage.losses.find([ack])
    stage.losses.promotions.append(Promotion(4_500_000, 5, owner.index, owner.store.replid, 0))
    replaced = stage.losses.find([ack])

    assert (down.lost, down.unavailable) == ((), (ack,))
    assert ([loss.way for loss in replaced.lost], replaced.unavailable) == ([LossReason.NOT_REPLICATED], ())


@pytest.mark.parametrize(
    "layout",
    [Layout(0), Layout(1, -1), Layout(3000), Layout(100, 25), Layout(2, 0, 9), Layout(900, 2), Layout(1, 0, 1, -1)],
)
def test_impossible_layouts_are_refused(layout):
    with pytest.raises(LayoutError):
        check_layout(layout)


def test_a_layout_names_its_nodes_and_spreads_its_shards():
    names = names_of(Layout(3, 2, 3, 1))
    places = places_of(Layout(3, 2, 3, 1), lambda name: NodeSettings(), Random(1))
    zones = {place.name: place.zone for place in places}

    assert names["all"] == ("M1", "M2", "M3", "R1", "R2", "R3", "R1b", "R2b", "R3b", "N1")
    assert all(len({zones[f"M{n}"], zones[f"R{n}"], zones[f"R{n}b"]}) == 3 for n in (1, 2, 3))
    assert sum(len(place.slots) for place in places) == 16384
    assert len({place.ip for place in places}) == len({place.node_id for place in places}) == 10
