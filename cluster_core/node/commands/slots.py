"""CLUSTER ADDSLOTS, DELSLOTS, their ranges, FLUSHSLOTS and SETSLOT (R68, R79, R123, R124)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.epochs import bump_without_consensus
from cluster_core.gossip.events import Changed
from cluster_core.gossip.flags import MIGRATE_TO, REPLICA
from cluster_core.gossip.view import Peer
from cluster_core.node.commands.descriptions import slot_of, slot_set
from cluster_core.node.pings import broadcast_pong
from cluster_core.node.promotion import follow_master
from cluster_core.node.reactions import react
from cluster_core.node.state import TODO_FSYNC, TODO_PONG, TODO_SAVE, NodeState, named
from cluster_core.slots.slot_map import SlotMap

OK: Final = "OK"
SETSLOT_USAGE: Final = "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"
TIMEOUT_WORD: Final = "timeout"


def _adopt(state: NodeState, change: Callable[[SlotMap, str], None]) -> Any:
    """Apply a change of owners to the view atomically."""
    view = state.view
    owners = SlotMap({peer.id: slot_set(peer.slots) for peer in view.nodes.values() if peer.slots})
    change(owners, view.myself.id)
    for peer in view.nodes.values():
        bits = int.from_bytes(owners.slots_of(peer.id).to_wire(), "little")
        if bits != peer.slots:
            _give(state, peer, bits)
    view.unclaimed &= view.assigned()
    for slot in [slot for slot in view.importing if view.myself.slots >> slot & 1]:
        del view.importing[slot]
    return _settle(state)


def _give(state: NodeState, peer: Peer, bits: int) -> None:
    """Set a node's slots; a master with its first slots becomes a migration target if masters have replicas (R23)."""
    if not peer.slots and any(other.replicaof for other in state.view.nodes.values()):
        peer.flags |= MIGRATE_TO
    peer.slots = bits
    state.out.append(Changed(peer.id, Field.SLOTS, Cause.SLOTS_ORDERED))


def _settle(state: NodeState) -> str:
    state.view.state_stale = True
    state.changed()
    state.todo |= TODO_SAVE
    return OK


def _flush_slots(state: NodeState, args: list[str]) -> Any:
    if not state.keyspace.is_empty():
        raise ProtocolError("ERR DB must be empty to perform CLUSTER FLUSHSLOTS.")
    _give(state, state.view.myself, 0)
    return _settle(state)


def _set_slot(state: NodeState, args: list[str]) -> Any:
    """CLUSTER SETSLOT in the order of the servers' checks (R123, R124)."""
    view = state.view
    if view.myself.flags & REPLICA:
        raise ProtocolError("ERR Please use SETSLOT only with masters.")
    slot = slot_of(args[0])
    action, rest = args[1].lower(), args[2:]
    names_node = action in ("migrating", "importing", "node")
    options = rest[names_node:]
    if (not (names_node and rest) and action != "stable") or (options and not view.profile.setslot_replicated):
        raise ProtocolError(SETSLOT_USAGE)
    target = _target(state, slot, action, rest[0]) if names_node else view.myself
    _check_options(options)
    if action == "node":
        return _assign(state, slot, target)
    if action == "migrating":
        state.log("*", f"Migrating slot {slot} to node {named(state, target.id)}")
        view.migrating[slot] = target.id
    elif action == "importing":
        state.log("*", f"Importing slot {slot} from node {named(state, target.id)}")
        view.importing[slot] = target.id
    else:
        state.log("*", f"Marking slot {slot} stable")
        view.migrating.pop(slot, None)
        view.importing.pop(slot, None)
    return _settle(state)


def _target(state: NodeState, slot: int, action: str, node_id: str) -> Peer:
    """Return the node named by SETSLOT after the checks of its action (R123)."""
    view = state.view
    mine = bool(view.myself.slots >> slot & 1)
    if action == "migrating" and not mine:
        raise ProtocolError(f"ERR I'm not the owner of hash slot {slot}")
    if action == "importing" and mine:
        raise ProtocolError(f"ERR I'm already the owner of hash slot {slot}")
    target = view.nodes.get(node_id)
    if target is None:
        unknown = "Unknown node" if action == "node" else "I don't know about node"
        raise ProtocolError(f"ERR {unknown} {node_id}")
    if target.flags & REPLICA:
        raise ProtocolError("ERR Target node is not a master")
    if action != "node" and target is view.myself and view.profile.commands_checked:
        raise ProtocolError("ERR Target node is myself")
    if action == "node" and mine and target is not view.myself and state.keyspace.count(slot):
        text = f"Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
        raise ProtocolError(f"ERR {text}")
    return target


def _check_options(options: list[str]) -> None:
    """Check TIMEOUT ms, which Valkey accepts after every action (R125); other options are ignored."""
    for index, word in enumerate(options):
        if word.lower() != TIMEOUT_WORD:
            continue
        if index + 1 >= len(options):
            raise ProtocolError("ERR Missing timeout value")
        value = options[index + 1]
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise ProtocolError("ERR timeout is not an integer or out of range")
        if int(value) < 0:
            raise ProtocolError("ERR timeout is negative")


def _assign(state: NodeState, slot: int, target: Peer) -> Any:
    """Apply SETSLOT NODE: the new owner takes a new epoch, the old one may follow it (R124)."""
    view = state.view
    myself, bit = view.myself, 1 << slot
    state.log("*", f"Assigning slot {slot} to node {named(state, target.id)} in shard {target.shard_id}")
    if not state.keyspace.count(slot):
        view.migrating.pop(slot, None)
    was_mine = bool(myself.slots & bit)
    for peer in view.nodes.values():
        if peer.slots & bit and peer is not target:
            _give(state, peer, peer.slots & ~bit)
    if not target.slots & bit:
        _give(state, target, target.slots | bit)
    view.unclaimed &= ~bit
    _settle(state)
    if was_mine and target is not myself and not myself.slots and view.replica_migration_allowed:
        how = "Configuration change detected. Reconfiguring myself as a replica of"
        state.log("#", f"{how} {named(state, target.id)}")
        follow_master(state, target, Cause.LAST_SLOT_GIVEN)
        state.todo |= TODO_FSYNC
    if target is myself and slot in view.importing:
        bumped = bump_without_consensus(view, Cause.EPOCH_BUMPED)
        react(state, bumped, None)
        if bumped:
            state.log("#", f"configEpoch updated after importing slot {slot}")
        del view.importing[slot]
        state.changed()
        broadcast_pong(state)
    return OK


def take_over(state: NodeState, bits: int) -> None:
    """Take the slots *bits* with a new epoch and broadcast it (R127)."""
    view = state.view
    for peer in view.nodes.values():
        if peer.slots & bits and peer is not view.myself:
            _give(state, peer, peer.slots & ~bits)
    _give(state, view.myself, view.myself.slots | bits)
    view.unclaimed &= ~bits
    _settle(state)
    react(state, bump_without_consensus(view), None)
    broadcast_pong(state)


def _bump_epoch(state: NodeState, args: list[str]) -> Any:
    """CLUSTER BUMPEPOCH (R79)."""
    bumped = bump_without_consensus(state.view, Cause.EPOCH_BUMPED)
    react(state, bumped, None)
    if bumped and state.view.profile.bumps_announced:
        state.todo |= TODO_PONG
    return f"{'BUMPED' if bumped else 'STILL'} {state.view.myself.config_epoch}"


SLOT_COMMANDS: Final[dict[str, Callable[[NodeState, list[str]], Any]]] = {
    "addslots": lambda state, args: _adopt(state, lambda owners, mine: owners.add_slots(mine, args)),
    "addslotsrange": lambda state, args: _adopt(state, lambda owners, mine: owners.add_slots_range(mine, args)),
    "delslots": lambda state, args: _adopt(state, lambda owners, mine: owners.del_slots(args)),
    "delslotsrange": lambda state, args: _adopt(state, lambda owners, mine: owners.del_slots_range(args)),
    "flushslots": _flush_slots,
    "setslot": _set_slot,
    "bumpepoch": _bump_epoch,
}
"""Handlers by lower-case subcommand; arguments follow it."""
