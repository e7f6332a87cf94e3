"""nodes.conf: written for ourselves and for real servers, read from ourselves and from them (R126, R129)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.gossip.events import Tick
from cluster_core.gossip.flags import FAIL, MIGRATE_TO
from cluster_core.gossip.profile import PROFILES, REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.node.config_file import SavedConfig, owned_slots
from cluster_core.node.events import DropKeys
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.sim.layouts import Layout, places_of, topology_of
from cluster_core.sim.servers.store import Store
from cluster_core.slots.key_slot import key_slot
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import read_nodes, write_nodes_conf
from tests.benches.node_cluster import Cluster
from tests.benches.servers import redis_binary, running, valkey_binary

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
SERVERS = {"redis-7.0": (redis_binary, REDIS_7_0), "valkey-9.1": (valkey_binary, VALKEY_9_1)}


def formed(profile: Profile) -> Cluster:
    """Two masters with a replica each."""
    cluster = Cluster(4, profile=profile, node_timeout_ms=15000)
    cluster.form(2, 2)
    return cluster


def said(topology: Topology, *, but: int = 0) -> list[tuple[Any, ...]]:
    """What does not change with the process: not times, links and the port of node number *but*."""
    mine = topology.my_id
    return sorted(
        (n.id, n.ip, 0 if n.id == mine and but else n.port, str(n.flags), n.master_id, n.config_epoch, str(n.slots))
        for n in topology.nodes
    )


@every_profile
def test_a_node_reads_back_what_it_wrote(profile: Profile) -> None:
    """R129: nodes, masters, slots, shard ids, open slots and both epochs."""
    cluster = formed(profile)
    host = cluster.hosts[1]
    cluster.command(1, "CLUSTER", "SETSLOT", 16000, "MIGRATING", cluster.hosts[0].id)
    cluster.command(1, "CLUSTER", "SETSLOT", 1, "IMPORTING", cluster.hosts[0].id)
    host.node.view.last_vote_epoch = 3
    text = host.node.config_text()
    again = Node(host.settings, Random(9), cluster.now_ms, config=text)

    first, second = read_nodes(text.encode()), read_nodes(again.config_text().encode())
    assert said(first) == said(second)
    assert (first.current_epoch, first.last_vote_epoch) == (second.current_epoch, second.last_vote_epoch)
    assert again.view.migrating == {16000: cluster.hosts[0].id}
    assert again.view.importing == {1: cluster.hosts[0].id}
    shards = {node.id: node.aux.get("shard-id") for node in first.nodes}
    assert shards == {node.id: node.aux.get("shard-id") for node in second.nodes}
    assert again.view.nodes[cluster.hosts[0].id].pong_received_ms == cluster.now_ms


@pytest.mark.servers
@pytest.mark.parametrize("server", SERVERS)
def test_a_real_server_starts_from_our_file_and_we_from_its(server: str) -> None:
    """R129: the same nodes, roles, epochs and slots in both directions."""
    find, profile = SERVERS[server]
    binary = find()
    if binary is None:
        pytest.skip(f"{server} is not installed")
    cluster = formed(profile)
    for host in (cluster.hosts[0], cluster.hosts[2]):
        text = host.node.config_text()
        files = {"nodes.conf": text.encode()}
        with running(binary, cluster=True, files=files, cluster_node_timeout=15000) as running_one:
            theirs = read_nodes(running_one.call("CLUSTER", "NODES"))
            running_one.call("CLUSTER", "SAVECONFIG")
            saved = (running_one.directory / "nodes.conf").read_text()
        again = Node(host.settings, Random(9), cluster.now_ms, config=saved)

        assert said(theirs, but=1) == said(read_nodes(text.encode()), but=1)
        assert said(read_nodes(again.config_text().encode()), but=1) == said(read_nodes(saved.encode()), but=1)


def test_a_failure_counts_from_the_start() -> None:
    """R129."""
    cluster = formed(REDIS_7_0)
    cluster.hosts[0].node.view.nodes[cluster.hosts[3].id].flags |= FAIL
    text = cluster.hosts[0].node.config_text()
    again = Node(cluster.hosts[0].settings, Random(9), cluster.now_ms + 5, config=text)

    peer = again.view.nodes[cluster.hosts[3].id]
    assert peer.flags & FAIL
    assert peer.fail_time_ms == cluster.now_ms + 5


@pytest.mark.parametrize("profile", [REDIS_7_0, VALKEY_9_1], ids=lambda p: p.name)
def test_keys_in_slots_of_others_are_imported_or_deleted(profile: Profile) -> None:
    """R126: and keys in a slot of nobody make it ours."""
    cluster = formed(profile)
    for index in range(2):
        cluster.command(index, "CLUSTER", "DELSLOTS", 16000)
    keys = Store("0" * 40)
    theirs = next(key for i in range(99999) if 9000 < key_slot(key := b"%d" % i) < 15000)
    nobodys = next(key for i in range(999999) if key_slot(key := b"%d" % i) == 16000)
    keys.held = {key_slot(key): {key: b""} for key in (theirs, nobodys)}
    text = cluster.hosts[0].node.config_text()
    again = Node(cluster.hosts[0].settings, Random(9), cluster.now_ms, config=text, keyspace=keys)

    drops = [e.slots for e in again.handle(Tick(), cluster.now_ms) if isinstance(e, DropKeys)]
    assert again.view.myself.slots >> 16000 & 1
    if profile is REDIS_7_0:
        assert again.view.importing == {key_slot(theirs): cluster.hosts[1].id}
        assert drops == []
    else:
        assert not again.view.importing
        assert drops == [1 << key_slot(theirs)]


def text_of(topology: Topology, my_id: str) -> str:
    """The nodes.conf of one node of *topology*."""
    nodes = [replace(n, flags=n.flags | NodeFlags.MYSELF) if n.id == my_id else n for n in topology.nodes]
    return write_nodes_conf(replace(topology, nodes=tuple(nodes))).decode()


def believed(node: Node) -> tuple[Any, ...]:
    """Everything that a node believes after its start, in the order of its table."""
    view = node.view
    names = [name for kind in type(view.myself).__mro__ for name in getattr(kind, "__slots__", ())]
    peers = [{name: getattr(peer, name) for name in names} for peer in view.nodes.values()]
    rest = {name: value for name, value in vars(view).items() if name not in ("nodes", "myself", "name_handshake")}
    return list(view.nodes), peers, rest


@given(
    st.builds(Layout, masters=st.integers(1, 6), replicas=st.integers(0, 3)),
    st.integers(0, 23),
    st.sampled_from(list(PROFILES.values())),
    st.integers(0, 9),
)
def test_a_node_may_start_from_what_a_file_says_instead_of_its_text(
    layout: Layout, index: int, profile: Profile, epoch: int
) -> None:
    """R129: the same table in the same order, the same draws; only nobody has to write and read N lines N times."""
    settings = NodeSettings(profile=profile)
    places = places_of(layout, lambda name: settings, Random(epoch))
    topology = replace(topology_of(places), current_epoch=epoch, last_vote_epoch=epoch // 2)
    my_id = places[index % len(places)].node_id
    saved = SavedConfig(my_id, topology, owned_slots(topology))
    one, other = Random(4), Random(4)
    from_text = Node(settings, one, 1000, config=text_of(topology, my_id))
    from_saved = Node(settings, other, 1000, config=saved)

    assert believed(from_saved) == believed(from_text)
    assert one.getstate() == other.getstate()
    assert from_saved.handle(Tick(), 1000) == from_text.handle(Tick(), 1000)


def test_masters_with_replicas_are_targets_of_replica_migration_from_the_start() -> None:
    """R23: and so are those that the file gives slots once anybody has replicas (clusterLoadConfig)."""
    settings = NodeSettings()
    places = places_of(Layout(4, 1), lambda name: settings, Random(1))
    order = {name: number for number, name in enumerate(("M1", "M2", "R2", "M3", "M4"))}
    chosen = sorted((place for place in places if place.name in order), key=lambda place: order[place.name])
    chosen[-1] = replace(chosen[-1], slots=chosen[-1].slots - chosen[-1].slots)
    topology = topology_of(chosen)
    node = Node(settings, Random(2), 1000, config=text_of(topology, chosen[0].node_id))

    targets = [place.name for place in chosen if node.view.nodes[place.node_id].flags & MIGRATE_TO]
    assert targets == ["M2", "M3"]


@pytest.mark.parametrize("text", ["garbage", "\0" * 99, "vars currentEpoch 1 lastVoteEpoch 0\n"])
def test_what_is_no_nodes_conf_is_refused(text: str) -> None:
    """A typed error, before the node exists."""
    with pytest.raises(DecodeError):
        Node(formed(REDIS_7_0).hosts[0].settings, Random(1), 0, config=text)
