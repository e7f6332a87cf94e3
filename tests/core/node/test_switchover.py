"""Manual failover: agreed, forced, taken; what pauses, what is matched, what times out (R97 to R102)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.profile import PROFILES, REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.node.events import ElectionStep, PauseClients, ResumeClients
from cluster_core.wire.bus import MessageFlag, MessageType
from tests.benches.node_cluster import Cluster

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


def formed(profile: Profile) -> Cluster:
    """Three masters with a replica each, which records messages."""
    cluster = Cluster(6, profile=profile)
    cluster.form(3, 3)
    cluster.write(0)
    cluster.run(2500)
    cluster.keep_messages = True
    return cluster


@every_profile
def test_a_replica_takes_over_by_agreement_without_a_loss(profile: Profile) -> None:
    """R98, R99, R102: pause, offset, election with FORCEACK, then the old master follows and clients go on."""
    cluster = formed(profile)

    assert cluster.command(3, "CLUSTER", "FAILOVER") == "OK"
    assert cluster.run_until(lambda: bool(cluster.hosts[3].node.view.myself.flags & MASTER), 1000)
    assert cluster.run_until(cluster.agree, 2000)
    old = cluster.hosts[0]
    assert len(old.said(PauseClients)) == len(old.said(ResumeClients)) == 1
    assert old.node.view.myself.replicaof == cluster.hosts[3].id
    kinds = [m.type for _, sender, _, m in cluster.messages if sender == 3]
    assert kinds.index(MessageType.MFSTART) < kinds.index(MessageType.AUTH_REQUEST)
    paused = [m for _, sender, _, m in cluster.messages if sender == 0 and m.header.mflags[0] & MessageFlag.PAUSED]
    requests = [m for _, sender, _, m in cluster.messages if m.type == MessageType.AUTH_REQUEST]
    assert paused
    assert all(m.header.mflags[0] & MessageFlag.FORCEACK for m in requests)


@every_profile
def test_a_forced_failover_asks_no_master(profile: Profile) -> None:
    """R97: FORCE works while the master is away, and still needs votes."""
    cluster = formed(profile)
    cluster.cut(*((0, other) for other in range(1, 6)))

    assert cluster.command(3, "CLUSTER", "FAILOVER", "FORCE") == "OK"
    assert cluster.run_until(lambda: bool(cluster.hosts[3].node.view.myself.flags & MASTER), 1000)
    steps = [step.step for step in cluster.hosts[3].said(ElectionStep)]
    assert steps.count("vote") >= 2
    assert not cluster.hosts[0].said(PauseClients)


@every_profile
def test_a_takeover_asks_nobody(profile: Profile) -> None:
    """R79, R97: a new epoch without votes."""
    cluster = formed(profile)
    before = cluster.hosts[3].node.view.current_epoch

    assert cluster.command(3, "CLUSTER", "FAILOVER", "TAKEOVER") == "OK"
    mine = cluster.hosts[3].node.view.myself
    assert mine.flags & MASTER
    assert mine.config_epoch >= before
    assert mine.config_epoch == cluster.hosts[3].node.view.max_epoch()
    assert not [m for *_, m in cluster.messages if m.type == MessageType.AUTH_REQUEST]
    assert cluster.run_until(cluster.agree, 3000)


@pytest.mark.parametrize("profile", [REDIS_7_0, VALKEY_9_1], ids=lambda p: p.name)
def test_a_replica_that_lags_waits_for_the_offset_and_gives_up_in_the_end(profile: Profile) -> None:
    """R99, R100: no election before the offsets match."""
    cluster = formed(profile)
    cluster.detach(3)
    cluster.write(0)
    cluster.command(3, "CLUSTER", "FAILOVER")
    cluster.run(4000)

    assert cluster.hosts[3].node.view.mf_master_offset == cluster.hosts[0].offset
    assert not cluster.hosts[3].said(ElectionStep)
    cluster.run(1500)
    assert cluster.hosts[3].logged("Manual failover timed out.")
    assert cluster.hosts[0].said(ResumeClients)
    assert cluster.hosts[3].node.view.myself.replicaof == cluster.hosts[0].id


def test_an_offset_that_catches_up_starts_the_election_at_once() -> None:
    """R99: not at the next cron."""
    cluster = formed(VALKEY_9_1)
    feed = cluster.detach(3)
    cluster.write(0)
    cluster.command(3, "CLUSTER", "FAILOVER")
    cluster.run(500)
    cluster.attach(feed)
    cluster.run(2)

    assert [step.step for step in cluster.hosts[3].said(ElectionStep)][:2] == ["scheduled", "started"]
