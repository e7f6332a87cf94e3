"""Masters that lose slots (R70, R74, R124)."""

from __future__ import annotations

from cluster_core.gossip.profile import Profile
from cluster_core.node.events import DropKeys
from tests.benches.node_cluster import every_profile, formed


@every_profile
def test_keys_in_lost_slots_are_deleted_by_a_master_that_stays_one(profile: Profile) -> None:
    """R70, R74."""
    cluster = formed(profile, replicas=0)
    for key, index in ((b"a{06S}", 0), (b"far{foo}", 2)):
        assert cluster.command(index, "SET", key, "1") == "OK"
    cluster.command(1, "CLUSTER", "SETSLOT", 0, "IMPORTING", cluster.hosts[0].id)
    cluster.command(1, "CLUSTER", "SETSLOT", 0, "NODE", cluster.hosts[1].id)
    cluster.run(100)

    assert [drop.slots for drop in cluster.hosts[0].effects_of(DropKeys)] == [1]
    assert cluster.command(0, "DBSIZE") == 0
