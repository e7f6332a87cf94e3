"""Replies about the cluster: CLUSTER NODES and INFO, keys of a slot, failure reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.gossip.failure_detection import live_reports
from cluster_core.gossip.flags import FAIL, HANDSHAKE, MYSELF, PFAIL, REPLICA
from cluster_core.gossip.view import Peer
from cluster_core.node.state import NodeState
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import WIRE_BYTES, SlotSet
from cluster_core.topology.node import Node, Topology
from cluster_core.topology.nodes_text import write_nodes
from cluster_core.wire.bus import TYPE_NAMES
from cluster_core.wire.resp import Verbatim

EVERY_FLAG: Final = 0x3FFF
"""Flags with a name (R20)."""


def slot_set(bits: int) -> SlotSet:
    """Return a bitmap of slots as a set."""
    return SlotSet.from_wire(bits.to_bytes(WIRE_BYTES, "little"))


def topology_of(state: NodeState, *, to_file: bool = False) -> Topology:
    """Return the cluster in this node's view; a file omits handshakes and adds fields for servers only (R128, R129)."""
    view = state.view
    told = [peer for peer in view.nodes.values() if not (to_file and peer.flags & HANDSHAKE)]
    nodes = [_node(state, peer, with_aux=to_file) for peer in told]
    form = "nodes.conf" if to_file else "nodes"
    return Topology(tuple(nodes), form, view.current_epoch, view.last_vote_epoch)


def _node(state: NodeState, peer: Peer, *, with_aux: bool) -> Node:
    view = state.view
    mine = bool(peer.flags & MYSELF)
    aux: dict[str, str] = {}
    if with_aux and view.profile.aux_fields:
        aux["tls-port"] = "0"
        if peer.nodename:
            aux["nodename"] = one_word(peer.nodename)
        if peer.shard_id:
            aux["shard-id"] = peer.shard_id
    return Node(
        id=peer.id,
        ip=one_word(peer.ip),
        port=peer.port,
        cport=peer.cport,
        hostname=one_word(peer.hostname),
        aux=aux,
        flags=NodeFlags(peer.flags & EVERY_FLAG),
        master_id=peer.replicaof or None if peer.flags & REPLICA else None,
        ping_sent=peer.ping_sent_ms,
        pong_received=peer.pong_received_ms,
        config_epoch=view.epoch_shown(peer),
        link_connected=mine or peer.outbound is not None,
        slots=slot_set(peer.slots),
        migrating=view.migrating if mine else {},
        importing=view.importing if mine else {},
    )


def one_word(text: str) -> str:
    """Return text of another node as one word of a line, empty if invalid: headers may contain anything.

    >>> one_word("10.0.0.1"), one_word("10.0.0.1 myself\\n")
    ('10.0.0.1', '')
    """
    plain = text.isascii() and text.isprintable() and not any(mark in text for mark in " ,@=")
    return text if plain else ""


def info_text(state: NodeState) -> str:
    """The text of CLUSTER INFO (R130)."""
    view = state.view
    peers = list(view.nodes.values())
    failed = sum(peer.slots.bit_count() for peer in peers if peer.flags & FAIL)
    doubted = sum(peer.slots.bit_count() for peer in peers if peer.flags & PFAIL and not peer.flags & FAIL)
    assigned = sum(peer.slots.bit_count() for peer in peers)
    fields: list[tuple[str, object]] = [
        ("cluster_state", "ok" if view.ok else "fail"),
        ("cluster_slots_assigned", assigned),
        ("cluster_slots_ok", assigned - failed - doubted),
        ("cluster_slots_pfail", doubted),
        ("cluster_slots_fail", failed),
    ]
    if view.profile.info_of_nodes:
        voting = [peer for peer in peers if peer.votes]
        fields += [
            ("cluster_nodes_pfail", sum(bool(peer.flags & PFAIL) for peer in peers)),
            ("cluster_nodes_fail", sum(bool(peer.flags & FAIL) for peer in peers)),
            ("cluster_voting_nodes_pfail", sum(bool(peer.flags & PFAIL) for peer in voting)),
            ("cluster_voting_nodes_fail", sum(bool(peer.flags & FAIL) for peer in voting)),
        ]
    fields += [
        ("cluster_known_nodes", len(peers)),
        ("cluster_size", view.size_shown),
        ("cluster_current_epoch", view.current_epoch),
        ("cluster_my_epoch", view.epoch_shown(view.myself)),
        *_counters("sent", state.sent),
        *_counters("received", state.received),
    ]
    return "".join(f"{name}:{value}\r\n" for name, value in fields)


def _counters(way: str, counts: list[int]) -> list[tuple[str, object]]:
    """Return nonzero message counts by type, and their sum."""
    by_type: list[tuple[str, object]] = [
        (f"cluster_stats_messages_{TYPE_NAMES[kind]}_{way}", count) for kind, count in enumerate(counts) if count
    ]
    return [*by_type, (f"cluster_stats_messages_{way}", sum(counts))]


INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


def number_of(text: str) -> int:
    """Parse a 64-bit number like the server: no plus sign, space or leading zero; raises ProtocolError."""
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) < 20 and (digits[0] != "0" or text == "0")
    if not plain or not INTEGER_MIN <= int(text) <= INTEGER_MAX:
        raise ProtocolError("ERR value is not an integer or out of range")
    return int(text)


def slot_of(text: str) -> int:
    """Parse a slot (getSlotOrReply); raises ProtocolError."""
    try:
        slot = number_of(text)
    except ProtocolError:
        slot = -1
    if not 0 <= slot < SLOT_COUNT:
        raise ProtocolError("ERR Invalid or out of range slot")
    return slot


def node_of(state: NodeState, node_id: str) -> Peer:
    """Return the node with this id; raises ProtocolError if unknown."""
    peer = state.view.nodes.get(node_id)
    if peer is None:
        raise ProtocolError(f"ERR Unknown node {node_id}")
    return peer


def _count_keys(state: NodeState, args: list[str]) -> Any:
    slot = number_of(args[0])
    if not 0 <= slot < SLOT_COUNT:
        raise ProtocolError("ERR Invalid slot")
    return state.keyspace.count(slot)


def _get_keys(state: NodeState, args: list[str]) -> Any:
    slot, limit = number_of(args[0]), number_of(args[1])
    if not 0 <= slot < SLOT_COUNT or limit < 0:
        raise ProtocolError("ERR Invalid slot or number of keys")
    return state.keyspace.keys(slot, limit)


def _count_reports(state: NodeState, args: list[str]) -> Any:
    count, expired = live_reports(state.view, node_of(state, args[0]), state.now_ms)
    state.out += expired
    return count


REPORT_COMMANDS: Final[dict[str, Callable[[NodeState, list[str]], Any]]] = {
    "nodes": lambda state, args: Verbatim("txt", write_nodes(topology_of(state))),
    "info": lambda state, args: Verbatim("txt", info_text(state).encode()),
    "myid": lambda state, args: state.view.myself.id.encode(),
    "keyslot": lambda state, args: key_slot(args[0].encode("utf-8", "surrogateescape")),
    "countkeysinslot": _count_keys,
    "getkeysinslot": _get_keys,
    "count-failure-reports": _count_reports,
}
"""Handlers by lower-case subcommand; arguments follow it."""
