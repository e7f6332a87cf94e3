"""nodes.conf: load the state that survives a restart (R126, R129, clusterLoadConfig)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster_core.gossip.flags import FAIL, MASTER, MEET, MIGRATE_TO, MYSELF, PFAIL, REPLICA, ROLES
from cluster_core.gossip.view import Peer, View
from cluster_core.node.events import DropKeys
from cluster_core.node.state import TODO_SAVE, NodeState
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.node import Node, Topology

KEPT_FLAGS: Final = 0x3FFF & ~(PFAIL | MEET)
"""PFAIL and MEET are not saved."""


@dataclass(frozen=True, slots=True)
class SavedConfig:
    """Content of the nodes.conf of *my_id*; *owned*: slots of the nodes in order, from `owned_slots`."""

    my_id: str
    topology: Topology
    owned: tuple[int, ...]


def owned_slots(topology: Topology) -> tuple[int, ...]:
    """Return the slots of each node in order, slot s at bit s; the first claim of a slot counts (R68)."""
    taken, owned = 0, list[int]()
    for node in topology.nodes:
        bits = int.from_bytes(node.slots.to_wire(), "little") & ~taken
        owned.append(bits)
        taken |= bits
    return tuple(owned)


def load_config(state: NodeState, config: SavedConfig) -> None:
    """Load *config*: nodes, slots, epochs, open slots; failures count from now (R129)."""
    topology = config.topology
    mine = topology.by_id[config.my_id]
    view, now_ms = state.view, state.now_ms
    myself = view.myself
    view.nodes = {mine.id: myself} if mine is topology.nodes[0] else {}
    for node in topology.nodes:
        peer = myself if node is mine else Peer(node.id, 0, now_ms)
        _fill(view, peer, node, now_ms)
        view.nodes[peer.id] = peer
    view.members += 1
    for node, bits in zip(topology.nodes, config.owned, strict=True):
        view.nodes[node.id].slots = bits
    for peer in view.nodes.values():
        if peer.replicaof and peer.replicaof not in view.nodes:
            peer.replicaof = ""
    _mark_targets(view)
    view.migrating.update(mine.migrating)
    view.importing.update(mine.importing)
    view.current_epoch = max(topology.current_epoch or 0, *(p.config_epoch for p in view.nodes.values()))
    view.last_vote_epoch = topology.last_vote_epoch or 0
    state.log("*", f"Node configuration loaded, I'm {mine.id}")
    if myself.flags & MASTER and not state.keyspace.is_empty():
        _match_data(state)


def _mark_targets(view: View) -> None:
    """Mark masters with replicas, or with slots after the first replica, as migration targets (R23, clusterLoadConfig)."""
    anybody = False
    for peer in view.nodes.values():
        master = view.master_of(peer)
        if master is not None:
            master.flags |= MIGRATE_TO
            anybody = anybody or bool(master.flags & MASTER)
        if peer.slots and anybody:
            peer.flags |= MIGRATE_TO


def _match_data(state: NodeState) -> None:
    """Apply R126: take unassigned slots with keys; import keys of other slots or delete them (verifyClusterConfigWithData)."""
    view = state.view
    dropped = 0
    for slot in range(SLOT_COUNT):
        if view.myself.slots >> slot & 1 or slot in view.importing or not state.keyspace.count(slot):
            continue
        owner = view.owner_of(slot)
        if owner is None:
            view.myself.slots |= 1 << slot
            state.todo |= TODO_SAVE
        elif view.profile.stray_keys_deleted:
            dropped |= 1 << slot
        else:
            view.importing[slot] = owner.id
            state.todo |= TODO_SAVE
    if dropped:
        state.out.append(DropKeys(dropped))


def _fill(view: View, peer: Peer, node: Node, now_ms: int) -> None:
    """Fill a table entry from a line of the file; ping times count from now, our own entry uses the settings."""
    peer.id = node.id
    flags = int(node.flags) & KEPT_FLAGS & ~ROLES | (REPLICA if node.master_id else MASTER)
    peer.replicaof = node.master_id or ""
    peer.config_epoch = 0 if node.master_id else node.config_epoch
    peer.shard_id = node.aux.get("shard-id", peer.shard_id)
    if peer is view.myself:
        peer.flags = flags | MYSELF | view.profile.capabilities
        peer.ip = peer.ip or node.ip
        return
    peer.flags = flags & ~MYSELF
    peer.ip, peer.port, peer.cport = node.ip, node.port, node.cport or node.port + 10_000
    peer.hostname, peer.nodename = node.hostname, node.aux.get("nodename", "")
    peer.ping_sent_ms = now_ms if node.ping_sent else 0
    peer.pong_received_ms = now_ms if node.pong_received else 0
    if flags & FAIL:
        peer.fail_time_ms = now_ms
