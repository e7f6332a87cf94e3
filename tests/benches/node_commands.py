"""CLUSTER commands that tests give to simulated nodes; errors are those that operators' tools meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster_core.errors import ProtocolError
from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.epochs import bump_without_consensus
from cluster_core.gossip.events import Changed
from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, MEET, MIGRATE_TO, MYSELF, PFAIL, REPLICA
from cluster_core.gossip.handshake import forget, reset, start_handshake
from cluster_core.gossip.view import Peer
from cluster_core.node.candidacy import reset_election
from cluster_core.node.events import Change, Reply
from cluster_core.node.pings import bare_message, broadcast_pong
from cluster_core.node.promotion import (
    follow_master,
    replace_master,
    reset_manual_failover,
    stop_replication,
)
from cluster_core.node.reactions import react
from cluster_core.node.state import (
    BUS_PORT_STEP,
    TODO_FAILOVER,
    TODO_FSYNC,
    TODO_PONG,
    TODO_SAVE,
    NodeState,
    named,
    random_id,
)
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import WIRE_BYTES, SlotSet
from cluster_core.topology.node import Node, Topology
from cluster_core.topology.nodes_text import write_nodes
from cluster_core.wire.bus import TYPE_NAMES, MessageType
from cluster_core.wire.resp import RespError
from tests.benches.resp import Verbatim

OK: Final = "OK"


class FlushKeys(NamedTuple):
    """Delete all keys: a replica was reset (R82)."""


def order(client: int, arguments: tuple[bytes, ...]) -> Change:
    """Return the event of a CLUSTER command; the node replies to *client*."""
    return Change(lambda state: state.out.append(Reply(client, _reply(state, arguments))))


def _reply(state: NodeState, arguments: tuple[bytes, ...]) -> Any:
    name = arguments[1].decode().lower()
    command = COMMANDS.get(name)
    if command is None:
        return RespError(f"ERR CLUSTER {name.upper()} is not available on this node")
    try:
        reply = command(state, *(word.decode("utf-8", "surrogateescape") for word in arguments[2:]))
    except ProtocolError as error:
        return RespError(str(error))
    if name not in REPORTS:
        state.changed()
    return reply


# -- reports -----------------------------------------------------------------------------------------------------------


def topology_of(state: NodeState, *, to_file: bool = False) -> Topology:
    """Return the cluster as this node sees it; a file has no handshakes and shard ids (R128, R129)."""
    view = state.view
    peers = [peer for peer in view.nodes.values() if not (to_file and peer.flags & HANDSHAKE)]
    return Topology(
        tuple(_node(state, peer, to_file=to_file) for peer in peers), "nodes", view.current_epoch, view.last_vote_epoch
    )


def _node(state: NodeState, peer: Peer, *, to_file: bool) -> Node:
    view, mine = state.view, bool(peer.flags & MYSELF)
    return Node(
        id=peer.id,
        ip=peer.ip,
        port=peer.port,
        cport=peer.cport,
        hostname=peer.hostname,
        aux={"shard-id": peer.shard_id, "nodename": peer.nodename} if to_file and view.profile.aux_fields else {},
        flags=NodeFlags(peer.flags & 0x3FFF),
        master_id=peer.replicaof or None if peer.flags & REPLICA else None,
        ping_sent=peer.ping_sent_ms,
        pong_received=peer.pong_received_ms,
        config_epoch=view.epoch_shown(peer),
        link_connected=mine or peer.outbound is not None,
        slots=SlotSet.from_wire(peer.slots.to_bytes(WIRE_BYTES, "little")),
        migrating=dict(view.migrating) if mine else {},
        importing=dict(view.importing) if mine else {},
    )


def _nodes(state: NodeState) -> Any:
    return Verbatim("txt", write_nodes(topology_of(state)))


def _info(state: NodeState) -> Any:
    """CLUSTER INFO (R130)."""
    view = state.view
    peers = view.nodes.values()
    failed = sum(peer.slots.bit_count() for peer in peers if peer.flags & FAIL)
    pfail_slots = sum(peer.slots.bit_count() for peer in peers if peer.flags & PFAIL and not peer.flags & FAIL)
    assigned = view.assigned().bit_count()
    fields = {
        "cluster_state": "ok" if view.ok else "fail",
        "cluster_slots_assigned": assigned,
        "cluster_slots_ok": assigned - failed - pfail_slots,
        "cluster_slots_pfail": pfail_slots,
        "cluster_slots_fail": failed,
        "cluster_known_nodes": len(view.nodes),
        "cluster_size": view.size(),
        "cluster_current_epoch": view.current_epoch,
        "cluster_my_epoch": view.epoch_shown(view.myself),
    }
    for way, counts in (("sent", state.sent), ("received", state.received)):
        fields |= {f"cluster_stats_messages_{TYPE_NAMES[kind]}_{way}": n for kind, n in enumerate(counts) if n}
    return Verbatim("txt", "".join(f"{name}:{value}\r\n" for name, value in fields.items()).encode())


def _node_of(state: NodeState, node_id: str) -> Peer:
    peer = state.view.nodes.get(node_id)
    if peer is None:
        raise ProtocolError(f"ERR Unknown node {node_id}")
    return peer


# -- members and roles ---------------------------------------------------------------------------------------------


def _meet(state: NodeState, ip: str, port: str, cport: str = "") -> str:
    """CLUSTER MEET (R56)."""
    bus_port = int(cport) if cport else int(port) + BUS_PORT_STEP
    _, changes = start_handshake(state.view, ip, int(port), bus_port, MEET, state.now_ms)
    react(state, changes, None)
    return OK


def _forget(state: NodeState, node_id: str) -> str:
    """CLUSTER FORGET (R61)."""
    peer = _node_of(state, node_id)
    react(state, forget(state.view, peer.id, state.settings.blacklist_ms, state.now_ms), None)
    return OK


def _replicate(state: NodeState, node_id: str) -> str:
    """CLUSTER REPLICATE (R67)."""
    profile, myself, master = state.view.profile, state.view.myself, _node_of(state, node_id)
    if master.flags & REPLICA:
        raise ProtocolError("ERR I can only replicate a master, not a replica.")
    if myself.flags & MASTER and (myself.slots or not state.keyspace.is_empty()):
        raise ProtocolError("ERR To set a master the node must be empty and without assigned slots.")
    follow_master(state, master, Cause.REPLICATE_ORDERED)
    if profile.replicate_announces and not profile.role_changes_announced:
        broadcast_pong(state)
    return OK


def _reset(state: NodeState, how: str = "SOFT") -> str:
    """CLUSTER RESET (R82)."""
    view, hard = state.view, how == "HARD"
    if view.myself.flags & REPLICA:
        stop_replication(state)
        state.out.append(FlushKeys())
    reset_manual_failover(state)
    react(state, reset(view, random_id(state.rng) if hard else ""), None)
    if hard:
        view.myself.shard_id = random_id(state.rng)
    view.state_stale = True
    state.todo |= TODO_SAVE | TODO_FSYNC
    return OK


def _set_config_epoch(state: NodeState, epoch: str) -> str:
    """CLUSTER SET-CONFIG-EPOCH (R81)."""
    view = state.view
    view.myself.config_epoch = int(epoch)
    view.current_epoch = max(view.current_epoch, int(epoch))
    state.out.append(Changed(view.myself.id, Field.CONFIG_EPOCH, Cause.EPOCH_ORDERED))
    state.todo |= TODO_SAVE
    return OK


def _bump_epoch(state: NodeState) -> str:
    """CLUSTER BUMPEPOCH (R79)."""
    bumped = bump_without_consensus(state.view, Cause.EPOCH_BUMPED)
    react(state, bumped, None)
    if bumped and state.view.profile.bumps_announced:
        state.todo |= TODO_PONG
    return f"{'BUMPED' if bumped else 'STILL'} {state.view.myself.config_epoch}"


def _failover(state: NodeState, how: str = "") -> str:
    """CLUSTER FAILOVER [FORCE|TAKEOVER] (R97)."""
    view = state.view
    myself, master = view.myself, view.master_of(view.myself)
    if myself.flags & MASTER or master is None:
        raise ProtocolError("ERR You should send CLUSTER FAILOVER to a replica")
    if not how and (master.flags & FAIL or master.outbound is None):
        raise ProtocolError("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")
    reset_manual_failover(state)
    if view.profile.elections_reset:
        reset_election(state, "a manual failover")
    view.mf_end_ms = state.now_ms + state.settings.manual_failover_ms
    if how == "TAKEOVER":
        react(state, bump_without_consensus(view, Cause.EPOCH_BUMPED), None)
        replace_master(state)
    elif how == "FORCE":
        state.mf_can_start = True
        if view.profile.replicate_announces:
            state.todo |= TODO_FAILOVER
    else:
        state.send(master.outbound, bare_message(state, MessageType.MFSTART))
    return OK


# -- slots -------------------------------------------------------------------------------------------------------------


def _give(state: NodeState, peer: Peer, bits: int) -> None:
    """Set a node's slots; a master with its first slots becomes a migration target if masters have replicas (R23)."""
    if bits == peer.slots:
        return
    if not peer.slots and any(other.replicaof for other in state.view.nodes.values()):
        peer.flags |= MIGRATE_TO
    peer.slots = bits
    state.out.append(Changed(peer.id, Field.SLOTS, Cause.SLOTS_ORDERED))


def _assign(state: NodeState, target: Peer, bits: int) -> None:
    """Give *bits* to *target* and take them from all others."""
    for peer in state.view.nodes.values():
        if peer is not target:
            _give(state, peer, peer.slots & ~bits)
    _give(state, target, target.slots | bits)
    state.view.unclaimed &= ~bits
    _settle(state)


def _settle(state: NodeState) -> str:
    state.view.state_stale = True
    state.changed()
    state.todo |= TODO_SAVE
    return OK


def _add_slots(state: NodeState, first: str, last: str) -> str:
    """CLUSTER ADDSLOTSRANGE."""
    _assign(state, state.view.myself, (1 << int(last) + 1) - (1 << int(first)))
    return OK


def take_over(state: NodeState, bits: int) -> None:
    """Take the slots of a finished migration job with a new epoch and broadcast it (R127)."""
    _assign(state, state.view.myself, bits)
    react(state, bump_without_consensus(state.view), None)
    broadcast_pong(state)


def _set_slot(state: NodeState, number: str, action: str, node_id: str = "", *_: str) -> str:
    """CLUSTER SETSLOT in the order of the servers' checks (R123, R124)."""
    view, slot, action = state.view, int(number), action.lower()
    mine = bool(view.myself.slots >> slot & 1)
    if view.myself.flags & REPLICA:
        raise ProtocolError("ERR Please use SETSLOT only with masters.")
    if action == "migrating" and not mine:
        raise ProtocolError(f"ERR I'm not the owner of hash slot {slot}")
    if action == "importing" and mine:
        raise ProtocolError(f"ERR I'm already the owner of hash slot {slot}")
    if action == "stable":
        view.migrating.pop(slot, None)
        view.importing.pop(slot, None)
        return _settle(state)
    target = _node_of(state, node_id)
    if target.flags & REPLICA:
        raise ProtocolError("ERR Target node is not a master")
    if action == "node":
        return _set_owner(state, slot, target)
    (view.migrating if action == "migrating" else view.importing)[slot] = target.id
    return _settle(state)


def _set_owner(state: NodeState, slot: int, target: Peer) -> str:
    """SETSLOT NODE: the new owner takes a new epoch, the old one may follow it (R124)."""
    view, held = state.view, state.keyspace.count(slot)
    myself, was_mine = view.myself, bool(view.myself.slots >> slot & 1)
    if was_mine and target is not myself and held:
        text = f"Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
        raise ProtocolError(f"ERR {text}")
    if not held:
        view.migrating.pop(slot, None)
    _assign(state, target, 1 << slot)
    if was_mine and target is not myself and not myself.slots and view.replica_migration_allowed:
        how = "Configuration change detected. Reconfiguring myself as a replica of"
        state.log("#", f"{how} {named(state, target.id)}")
        follow_master(state, target, Cause.LAST_SLOT_GIVEN)
        state.todo |= TODO_FSYNC
    if target is myself and slot in view.importing:
        react(state, bump_without_consensus(view, Cause.EPOCH_BUMPED), None)
        del view.importing[slot]
        state.changed()
        broadcast_pong(state)
    return OK


REPORTS: Final[dict[str, Callable[..., Any]]] = {
    "nodes": _nodes,
    "info": _info,
    "myid": lambda state: state.view.myself.id.encode(),
    "countkeysinslot": lambda state, slot: state.keyspace.count(int(slot)),
    "getkeysinslot": lambda state, slot, limit: state.keyspace.keys(int(slot), int(limit)),
}
COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    **REPORTS,
    "meet": _meet,
    "forget": _forget,
    "replicate": _replicate,
    "reset": _reset,
    "set-config-epoch": _set_config_epoch,
    "bumpepoch": _bump_epoch,
    "failover": _failover,
    "addslotsrange": _add_slots,
    "setslot": _set_slot,
}
"""Handlers by lower-case subcommand; arguments follow the state."""
