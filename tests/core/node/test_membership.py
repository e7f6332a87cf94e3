"""How nodes meet, are introduced, are forgotten, are reset and come back (R27 to R30, R46, R56 to R62, R81, R82, R129)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.profile import PROFILES, REDIS_7_0, Profile, ShardIds
from cluster_core.node.events import SaveConfig
from cluster_core.wire.bus import MessageType
from tests.benches.node_cluster import FIRST_PORT, Cluster

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


@every_profile
def test_one_meet_each_is_enough_for_all_to_know_all(profile: Profile) -> None:
    """R46, R56, R57: gossip introduces the rest; every pair has two links; ids, ports and shard ids are right."""
    cluster = Cluster(6, profile=profile)
    cluster.form(3, 3)

    assert len(cluster.hosts) == 6
    for host in cluster.hosts:
        view = host.node.view
        for other in cluster.hosts:
            peer = view.nodes[other.id]
            assert peer.port == FIRST_PORT + other.index
            if other is not host:
                assert peer.outbound is not None
                assert peer.inbound is not None
            if profile.shard_ids is not ShardIds.NONE:
                assert peer.shard_id == other.node.view.myself.shard_id
        assert len(view.links) == 2 * 5
        assert view.myself.ip == "127.0.0.1"


@every_profile
def test_three_masters_with_equal_epochs_end_with_different_ones(profile: Profile) -> None:
    """R80: the smaller id moves on."""
    cluster = Cluster(3, profile=profile)
    for index in range(1, 3):
        cluster.command(0, "CLUSTER", "MEET", "127.0.0.1", FIRST_PORT + index)
    for index, bounds in enumerate(((0, 5000), (5001, 10000), (10001, 16383))):
        cluster.command(index, "CLUSTER", "ADDSLOTSRANGE", *bounds)
    cluster.run(12_000)

    epochs = {host.node.view.myself.config_epoch for host in cluster.hosts}
    assert len(epochs) == 3
    assert cluster.run_until(cluster.agree, 10_000)


@every_profile
def test_a_forgotten_node_stays_away_for_a_minute(profile: Profile) -> None:
    """R61: since Redis 7.2 the others hear of it, in Redis 7.0 each has to be told."""
    cluster = Cluster(4, profile=profile)
    cluster.form(3, 1)
    gone = cluster.hosts[3].id
    cluster.crash(3)
    told = (0,) if profile.forgets_spread else (0, 1, 2)
    for index in told:
        assert cluster.command(index, "CLUSTER", "FORGET", gone) == "OK"
    cluster.run(5000)

    assert all(gone not in host.node.view.nodes for host in cluster.hosts[:3])


@every_profile
def test_a_node_that_starts_again_knows_what_it_saved(profile: Profile) -> None:
    """R129: the same node, slots, epochs and masters; links come back by themselves."""
    cluster = Cluster(6, profile=profile)
    cluster.form(3, 3)
    before = [cluster.picture(host) for host in cluster.hosts]
    for index in (1, 4):
        cluster.crash(index)
    cluster.run(500)
    for index in (1, 4):
        cluster.restart(index)
    cluster.run(8000)

    assert [cluster.picture(host) for host in cluster.hosts] == before
    assert cluster.agree()


def test_what_must_be_durable_is_saved_before_it_leaves() -> None:
    """R95: an epoch that is voted in or asked for."""
    cluster = Cluster(6, profile=REDIS_7_0)
    cluster.form(3, 3)
    node, seen = cluster.hosts[1].node, []
    handle = node.handle

    def watched(event, now_ms):
        effects = handle(event, now_ms)
        types = [getattr(e, "message", None) and e.message.type for e in effects]
        if MessageType.AUTH_ACK in types:
            seen.append(effects)
        return effects

    node.handle = watched  # type: ignore[method-assign]
    cluster.crash(0)
    cluster.run(8000)

    assert [effects[0] for effects in seen] == [SaveConfig(fsync=True)]
