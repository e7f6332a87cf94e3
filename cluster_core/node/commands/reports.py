"""CLUSTER commands that only ask: NODES, INFO, SLOTS, SHARDS, LINKS, KEYSLOT and the others (R112, R128 to R131)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.gossip.failure_detection import live_reports
from cluster_core.gossip.flags import REPLICA
from cluster_core.gossip.view import Peer
from cluster_core.node.commands.descriptions import info_text, links_value, shards_value, slots_value, topology_of
from cluster_core.node.state import NodeState
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import write_nodes
from cluster_core.wire.resp import Verbatim

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


def number_of(text: str) -> int:
    """Read a 64-bit number as the servers do: no sign but minus, no space, no leading zero; raises ProtocolError."""
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) < 20 and (digits[0] != "0" or text == "0")
    if not plain or not INTEGER_MIN <= int(text) <= INTEGER_MAX:
        raise ProtocolError("ERR value is not an integer or out of range")
    return int(text)


def slot_of(text: str) -> int:
    """Read a slot (getSlotOrReply); raises ProtocolError."""
    try:
        slot = number_of(text)
    except ProtocolError:
        slot = -1
    if not 0 <= slot < SLOT_COUNT:
        raise ProtocolError("ERR Invalid or out of range slot")
    return slot


def node_of(state: NodeState, node_id: str) -> Peer:
    """The node that a command names; raises ProtocolError if it is not known."""
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


def _replicas(state: NodeState, args: list[str]) -> Any:
    master = node_of(state, args[0])
    if master.flags & REPLICA:
        raise ProtocolError("ERR The specified node is not a master")
    topology = topology_of(state)
    replicas = [node for node in topology.nodes if node.master_id == master.id]
    return [write_nodes(Topology((node,), "nodes")).rstrip(b"\n") for node in replicas]


REPORT_COMMANDS: Final[dict[str, Callable[[NodeState, list[str]], Any]]] = {
    "nodes": lambda state, args: Verbatim("txt", write_nodes(topology_of(state))),
    "info": lambda state, args: Verbatim("txt", info_text(state).encode()),
    "slots": lambda state, args: slots_value(state),
    "shards": lambda state, args: shards_value(state),
    "links": lambda state, args: links_value(state),
    "myid": lambda state, args: state.view.myself.id.encode(),
    "myshardid": lambda state, args: state.view.myself.shard_id.encode(),
    "keyslot": lambda state, args: key_slot(args[0].encode("utf-8", "surrogateescape")),
    "countkeysinslot": _count_keys,
    "getkeysinslot": _get_keys,
    "count-failure-reports": _count_reports,
    "replicas": _replicas,
    "slaves": _replicas,
}
"""By the subcommand's name in lower case; arguments are those behind it."""
