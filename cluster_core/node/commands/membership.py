"""CLUSTER MEET, FORGET, REPLICATE, RESET, SET-CONFIG-EPOCH, SAVECONFIG and FAILOVER (R56, R61, R67, R79, R81, R82, R97)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.epochs import bump_without_consensus
from cluster_core.gossip.events import Changed
from cluster_core.gossip.flags import FAIL, MASTER, MEET, REPLICA
from cluster_core.gossip.handshake import forget, is_blacklisted, reset, start_handshake
from cluster_core.node.candidacy import reset_election
from cluster_core.node.commands.descriptions import node_of, number_of
from cluster_core.node.events import FlushKeys
from cluster_core.node.pings import broadcast_pong
from cluster_core.node.promotion import (
    ask_master,
    follow_master,
    replace_master,
    reset_manual_failover,
    stop_replication,
)
from cluster_core.node.reactions import react
from cluster_core.node.state import BUS_PORT_STEP, TODO_FAILOVER, TODO_FSYNC, TODO_SAVE, NodeState, random_id

OK: Final = "OK"
PORT_MAX: Final = 65_535


def _meet(state: NodeState, args: list[str]) -> Any:
    """CLUSTER MEET ip port [bus port] (R56)."""
    tcp = "TCP " if not state.view.profile.aux_fields else ""
    port = _port(args[1], f"ERR Invalid {tcp}base port specified: {args[1]}")
    cport = port + BUS_PORT_STEP
    if len(args) > 2:
        cport = _port(args[2], f"ERR Invalid {tcp}bus port specified: {args[2]}")
    if len(args) > len(("ip", "port", "cport")):
        raise ProtocolError(_misuse(state, "MEET"))
    if state.view.profile.commands_checked:
        if not 0 < port <= PORT_MAX:
            raise ProtocolError("ERR Port number is out of range")
        if not 0 < cport <= PORT_MAX:
            raise ProtocolError("ERR Cluster bus port number is out of range")
    try:
        ip = str(ipaddress.ip_address(args[0]))
    except ValueError:
        ip = ""
    if not ip or not 0 < port <= PORT_MAX or not 0 < cport <= PORT_MAX:
        raise ProtocolError(f"ERR Invalid node address specified: {args[0]}:{args[1]}")
    _, changes = start_handshake(state.view, ip, port, cport, MEET, state.now_ms)
    react(state, changes, None)
    return OK


def _misuse(state: NodeState, name: str) -> str:
    """Return the error for too many arguments."""
    if state.view.profile.commands_checked and name == "FAILOVER":
        return "ERR syntax error"
    return f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLUSTER HELP."


def _port(text: str, refusal: str) -> int:
    try:
        return number_of(text)
    except ProtocolError:
        raise ProtocolError(refusal) from None


def _forget(state: NodeState, args: list[str]) -> Any:
    """CLUSTER FORGET id (R61)."""
    view = state.view
    peer = view.nodes.get(args[0])
    if peer is None and view.profile.forgets_spread and is_blacklisted(view, args[0], state.now_ms):
        return OK
    peer = node_of(state, args[0])
    if peer is view.myself:
        raise ProtocolError("ERR I tried hard but I can't forget myself...")
    if view.myself.replicaof == peer.id:
        raise ProtocolError("ERR Can't forget my master!")
    react(state, forget(view, peer.id, state.settings.blacklist_ms, state.now_ms), None)
    return OK


def _replicate(state: NodeState, args: list[str]) -> Any:
    """CLUSTER REPLICATE id (R67)."""
    view = state.view
    myself, master = view.myself, node_of(state, args[0])
    if master is myself:
        raise ProtocolError("ERR Can't replicate myself")
    if master.flags & REPLICA:
        raise ProtocolError("ERR I can only replicate a master, not a replica.")
    if myself.flags & MASTER and (myself.slots or not state.keyspace.is_empty()):
        raise ProtocolError("ERR To set a master the node must be empty and without assigned slots.")
    if myself.replicaof == master.id and view.profile.replicate_announces:
        return OK
    follow_master(state, master, Cause.REPLICATE_ORDERED)
    if view.profile.replicate_announces and not view.profile.role_changes_announced:
        broadcast_pong(state)
    return OK


def _reset(state: NodeState, args: list[str]) -> Any:
    """CLUSTER RESET [HARD|SOFT] (R82)."""
    hard = _option(state, "RESET", args, ("hard", "soft")) == "hard"
    view = state.view
    myself = view.myself
    if myself.flags & MASTER and not state.keyspace.is_empty():
        raise ProtocolError("ERR CLUSTER RESET can't be called with master nodes containing keys")
    if myself.flags & REPLICA:
        stop_replication(state)
        state.out.append(FlushKeys())
    reset_manual_failover(state)
    react(state, reset(view, random_id(state.rng) if hard else ""), None)
    if hard:
        myself.shard_id = random_id(state.rng)
        state.log("*", "configEpoch set to 0 via CLUSTER RESET HARD")
        state.log("*", f"Node hard reset, now I'm {myself.id}")
    view.state_stale = True
    state.todo |= TODO_SAVE | TODO_FSYNC
    return OK


def _set_config_epoch(state: NodeState, args: list[str]) -> Any:
    """CLUSTER SET-CONFIG-EPOCH n (R81)."""
    view = state.view
    epoch = number_of(args[0])
    if epoch < 0:
        raise ProtocolError(f"ERR Invalid config epoch specified: {epoch}")
    if len(view.nodes) > 1:
        raise ProtocolError("ERR The user can assign a config epoch only when the node does not know any other node.")
    if view.myself.config_epoch:
        raise ProtocolError("ERR Node config epoch is already non-zero")
    view.myself.config_epoch = epoch
    view.current_epoch = max(view.current_epoch, epoch)
    state.out.append(Changed(view.myself.id, Field.CONFIG_EPOCH, Cause.EPOCH_ORDERED))
    state.log("*", f"configEpoch set to {epoch} via CLUSTER SET-CONFIG-EPOCH")
    state.todo |= TODO_SAVE
    return OK


def _save_config(state: NodeState, args: list[str]) -> Any:
    state.todo |= TODO_SAVE | TODO_FSYNC
    return OK


def _failover(state: NodeState, args: list[str]) -> Any:
    """CLUSTER FAILOVER [FORCE|TAKEOVER] (R97)."""
    option = _option(state, "FAILOVER", args, ("force", "takeover"))
    view = state.view
    myself, master = view.myself, view.master_of(view.myself)
    if myself.flags & MASTER:
        raise ProtocolError("ERR You should send CLUSTER FAILOVER to a replica")
    if master is None:
        raise ProtocolError("ERR I'm a replica but my master is unknown to me")
    if not option and (master.flags & FAIL or master.outbound is None):
        raise ProtocolError("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")
    reset_manual_failover(state)
    if view.profile.elections_reset:
        reset_election(state, "a manual failover")
    view.mf_end_ms = state.now_ms + state.settings.manual_failover_ms
    if option == "takeover":
        state.log("*", f"Taking over the {view.profile.word_for_master} (user request).")
        react(state, bump_without_consensus(view, Cause.EPOCH_BUMPED), None)
        replace_master(state)
    elif option == "force":
        state.log("*", "Forced failover user request accepted.")
        state.mf_can_start = True
        if view.profile.replicate_announces:
            state.todo |= TODO_FAILOVER
    else:
        state.log("*", "Manual failover user request accepted.")
        ask_master(state, master)
    return OK


def _option(state: NodeState, name: str, args: list[str], known: tuple[str, ...]) -> str:
    """Return the optional argument of a command, empty if missing; raises ProtocolError for an unknown one."""
    word = args[0].lower() if args else ""
    if len(args) > 1:
        raise ProtocolError(_misuse(state, name))
    if args and word not in known:
        raise ProtocolError("ERR syntax error")
    return word


MEMBERSHIP_COMMANDS: Final[dict[str, Callable[[NodeState, list[str]], Any]]] = {
    "meet": _meet,
    "forget": _forget,
    "replicate": _replicate,
    "reset": _reset,
    "set-config-epoch": _set_config_epoch,
    "saveconfig": _save_config,
    "failover": _failover,
}
"""Handlers by lower-case subcommand; arguments follow it."""
