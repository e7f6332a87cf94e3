"""Masters that lose slots (R70, R74, R124)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.profile import PROFILES, Profile
from cluster_core.node.events import DropKeys, StartReplication
from tests.benches.node_cluster import Cluster

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


def formed(profile: Profile, masters: int = 3, replicas: int = 0, **options: object) -> Cluster:
    """A cluster at rest."""
    cluster = Cluster(masters + replicas, profile=profile, **options)
    cluster.form(masters, replicas)
    return cluster


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
