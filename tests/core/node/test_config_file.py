"""What a node knows after a restart (R126, R129)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cluster_core.gossip.events import Tick
from cluster_core.gossip.flags import FAIL, MIGRATE_TO
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.node.config_file import SavedConfig, owned_slots
from cluster_core.node.events import DropKeys
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.sim.layouts import Layout, places_of
from cluster_core.sim.layouts import topology_of as layout_topology
from cluster_core.sim.servers.store import Store
from cluster_core.slots.key_slot import key_slot
from cluster_core.topology.node import Topology
from tests.benches.node_cluster import Host, every_profile, formed
from tests.benches.node_commands import topology_of


def saved(host: Host) -> SavedConfig:
    """Return the nodes.conf of a host."""
    topology = topology_of(host.node.state, to_file=True)
    return SavedConfig(host.id, topology, owned_slots(topology))


def believed(topology: Topology) -> list[tuple[Any, ...]]:
    """Return what does not change with the process: not times and links."""
    return sorted((n.id, n.ip, n.port, str(n.flags), n.master_id, n.config_epoch, str(n.slots)) for n in topology.nodes)


@every_profile
def test_a_node_reads_back_its_own_file(profile: Profile) -> None:
    """R129: nodes, masters, slots, shard ids, open slots and both epochs."""
    cluster = formed(profile, 2, 2)
    host = cluster.hosts[1]
    cluster.command(1, "CLUSTER", "SETSLOT", 16000, "MIGRATING", cluster.hosts[0].id)
    cluster.command(1, "CLUSTER", "SETSLOT", 1, "IMPORTING", cluster.hosts[0].id)
    host.node.view.last_vote_epoch = 3
    again = Node(host.settings, Random(9), cluster.now_ms, config=saved(host))

    first, second = (topology_of(node.state, to_file=True) for node in (host.node, again))
    assert believed(first) == believed(second)
    assert (first.current_epoch, first.last_vote_epoch) == (second.current_epoch, second.last_vote_epoch)
    assert again.view.migrating == {16000: cluster.hosts[0].id}
    assert again.view.importing == {1: cluster.hosts[0].id}
    shards = {node.id: node.aux.get("shard-id") for node in first.nodes}
    assert shards == {node.id: node.aux.get("shard-id") for node in second.nodes}
    assert again.view.nodes[cluster.hosts[0].id].pong_received_ms == cluster.now_ms


def test_a_failure_counts_from_the_start() -> None:
    """R129."""
    cluster = formed(REDIS_7_0, 2, 2)
    cluster.hosts[0].node.view.nodes[cluster.hosts[3].id].flags |= FAIL
    again = Node(cluster.hosts[0].settings, Random(9), cluster.now_ms + 5, config=saved(cluster.hosts[0]))

    peer = again.view.nodes[cluster.hosts[3].id]
    assert peer.flags & FAIL
    assert peer.fail_time_ms == cluster.now_ms + 5


@pytest.mark.parametrize("profile", [REDIS_7_0, VALKEY_9_1], ids=lambda p: p.name)
def test_keys_in_foreign_slots_are_imported_or_deleted(profile: Profile) -> None:
    """R126: keys in a slot without an owner make it ours."""
    cluster = formed(profile, 2, 2)
    view = cluster.hosts[0].node.view
    view.nodes[cluster.hosts[1].id].slots &= ~(1 << 16000)
    keys = Store("0" * 40)
    theirs = next(key for i in range(99999) if 9000 < key_slot(key := b"%d" % i) < 15000)
    nobodys = next(key for i in range(999999) if key_slot(key := b"%d" % i) == 16000)
    keys.held = {key_slot(key): {key: b""} for key in (theirs, nobodys)}
    config = saved(cluster.hosts[0])
    again = Node(cluster.hosts[0].settings, Random(9), cluster.now_ms, config=config, keyspace=keys)

    drops = [e.slots for e in again.handle(Tick(), cluster.now_ms) if isinstance(e, DropKeys)]
    assert again.view.myself.slots >> 16000 & 1
    if profile is REDIS_7_0:
        assert again.view.importing == {key_slot(theirs): cluster.hosts[1].id}
        assert drops == []
    else:
        assert not again.view.importing
        assert drops == [1 << key_slot(theirs)]


def test_masters_with_replicas_are_targets_of_replica_migration_from_the_start() -> None:
    """R23: and so are those that the file gives slots once anybody has replicas (clusterLoadConfig)."""
    settings = NodeSettings()
    places = places_of(Layout(4, 1), lambda name: settings, Random(1))
    order = {name: number for number, name in enumerate(("M1", "M2", "R2", "M3", "M4"))}
    chosen = sorted((place for place in places if place.name in order), key=lambda place: order[place.name])
    chosen[-1] = replace(chosen[-1], slots=chosen[-1].slots - chosen[-1].slots)
    topology = layout_topology(chosen)
    config = SavedConfig(chosen[0].node_id, topology, owned_slots(topology))
    node = Node(settings, Random(2), 1000, config=config)

    targets = [place.name for place in chosen if node.view.nodes[place.node_id].flags & MIGRATE_TO]
    assert targets == ["M2", "M3"]
