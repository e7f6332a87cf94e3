"""Slots move by order and by claim, spare replicas by themselves (R69 to R78, R103 to R105, R123, R124)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.profile import PROFILES, Profile
from cluster_core.node.events import DropKeys, StartReplication
from cluster_core.node.state import named
from cluster_core.slots.key_slot import key_slot
from tests.benches.node_cluster import FIRST_PORT, Cluster

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


def formed(profile: Profile, masters: int = 3, replicas: int = 0, **options: object) -> Cluster:
    """A cluster at rest."""
    cluster = Cluster(masters + replicas, profile=profile, **options)
    cluster.form(masters, replicas)
    return cluster


@every_profile
def test_a_slot_is_moved_as_redis_cli_moves_it(profile: Profile) -> None:
    """R119, R123, R124: importing, migrating, keys, then NODE at the target first."""
    cluster = formed(profile)
    key = b"a{06S}"
    slot, ids = key_slot(key), [host.id for host in cluster.hosts]
    assert cluster.command(0, "SET", key, "1") == "OK"
    assert cluster.command(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]) == "OK"
    assert cluster.command(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]) == "OK"
    assert cluster.command(0, "CLUSTER", "GETKEYSINSLOT", slot, 10) == [key]
    assert cluster.command(0, "GET", key) == b"1"
    assert cluster.command(0, "GET", "b{06S}").text == f"ASK {slot} 127.0.0.1:{FIRST_PORT + 1}"
    assert cluster.command(0, "MIGRATE", "127.0.0.1", FIRST_PORT + 1, key, 0, 1000) == "OK"
    assert cluster.command(1, "GET", key).text == f"MOVED {slot} 127.0.0.1:{FIRST_PORT}"
    assert cluster.command(1, "ASKING") == "OK"
    assert cluster.command(1, "GET", key) == b"1"
    before = cluster.hosts[1].node.view.myself.config_epoch
    assert cluster.command(1, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]) == "OK"
    assert cluster.command(0, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]) == "OK"

    assert cluster.hosts[1].node.view.myself.config_epoch > before
    cluster.run(50)
    assert cluster.command(2, "GET", key).text == f"MOVED {slot} 127.0.0.1:{FIRST_PORT + 1}"
    assert cluster.run_until(cluster.agree, 5000)
    assert not cluster.hosts[0].node.view.migrating
    assert not cluster.hosts[1].node.view.importing


@every_profile
def test_a_master_that_gave_away_its_last_slot_follows_the_receiver(profile: Profile) -> None:
    """R124."""
    cluster = formed(profile)
    ids = [host.id for host in cluster.hosts]
    for host in cluster.hosts:
        host.node.view.nodes[ids[0]].slots = (1 << 9) - 1
    for slot in range(9):
        for index in (1, 0):
            cluster.command(index, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])

    assert cluster.hosts[0].node.view.myself.replicaof == ids[1]
    assert cluster.hosts[0].said(StartReplication)[-1].node == ids[1]


@every_profile
def test_keys_in_lost_slots_are_deleted_by_a_master_that_stays_one(profile: Profile) -> None:
    """R70, R74."""
    cluster = formed(profile)
    for key, index in ((b"a{06S}", 0), (b"far{foo}", 2)):
        assert cluster.command(index, "SET", key, "1") == "OK"
    cluster.command(1, "CLUSTER", "SETSLOT", 0, "IMPORTING", cluster.hosts[0].id)
    cluster.command(1, "CLUSTER", "SETSLOT", 0, "NODE", cluster.hosts[1].id)
    cluster.run(100)

    assert [drop.slots for drop in cluster.hosts[0].said(DropKeys)] == [1]
    assert cluster.command(0, "DBSIZE") == 0


@every_profile
def test_who_claims_stale_slots_is_sent_an_update(profile: Profile) -> None:
    """R76 to R78: a node that was away during a failover."""
    cluster = formed(profile, 3, 3)
    cluster.cut(*((0, other) for other in range(1, 6)))
    assert cluster.run_until(lambda: bool(cluster.hosts[3].node.view.myself.flags & MASTER), 12_000)
    cluster.run(1000)
    cluster.heal()

    assert cluster.run_until(lambda: cluster.hosts[0].node.view.myself.replicaof == cluster.hosts[3].id, 6000)
    told = f"Node {named(cluster.hosts[1].node.state, cluster.hosts[0].id)} has old slots configuration"
    assert any(host.logged(told) for host in cluster.hosts[1:])
    assert cluster.run_until(cluster.agree, 6000)


@every_profile
def test_a_spare_replica_moves_to_an_orphaned_master(profile: Profile) -> None:
    """R103 to R105: five seconds after the master was orphaned, and only one of the spare ones."""
    cluster = formed(profile, 3, 4)
    lost_ms = cluster.now_ms
    cluster.crash(4)

    def adopted() -> list[int]:
        orphan = cluster.hosts[1].id
        return [h.index for h in cluster.hosts if h.alive and h.node.view.myself.replicaof == orphan]

    assert cluster.run_until(lambda: bool(adopted()), 15_000)
    assert cluster.now_ms - lost_ms >= 5000 + 2000
    assert adopted() in ([3], [6])
    cluster.run(10_000)
    assert len(adopted()) == 1
