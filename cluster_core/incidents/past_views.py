"""CLUSTER NODES of one node at a past time, from rows of views (R128)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cluster_core.errors import ClusterCoreError
from cluster_core.replay.rows import NodeViewRow
from cluster_core.slots.node_flags import FLAG_NAMES, NodeFlags, write_flags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Node, Topology

FIELDS = ("address", "flags", "master", "config_epoch", "slots")
"""Fields compared by `view_differences`: CLUSTER NODES without times and link states."""


class NoSuchView(ClusterCoreError, LookupError):  # noqa: N818 - a name that reads like the situation
    """The observer, or its view at that time, is unknown."""


class Difference(NamedTuple):
    """A field of a node that differs between two views; for an unknown node the field is ``known``."""

    node: str
    field: str
    first: str
    second: str


def view_at(rows: Iterable[NodeViewRow], observer: str, ts_ns: int) -> Topology:
    """Return CLUSTER NODES of *observer* at *ts_ns* (ns since the epoch), itself first.

    Ping and pong times are 0; links are connected if the address is known and the node was healthy; open slots are
    unknown. Raises NoSuchView if the observer has no row then.
    """
    held = [row for row in held_at(rows, ts_ns) if row.observer == observer]
    if not held:
        raise NoSuchView(f"no view of {observer} is known at this time")
    held.sort(key=lambda row: (row.node_id != observer, row.node_id, row.valid_from_ns))
    latest = {row.node_id: row for row in held}
    return Topology(tuple(_node(row) for row in latest.values()))


def held_at(rows: Iterable[NodeViewRow], ts_ns: int) -> list[NodeViewRow]:
    """Return the rows that are valid at *ts_ns*."""
    return [row for row in rows if row.valid_from_ns <= ts_ns and (row.valid_to_ns is None or row.valid_to_ns > ts_ns)]


def _node(row: NodeViewRow) -> Node:
    flags = NodeFlags(0)
    for name in row.flags.split(","):
        flags |= FLAG_NAMES.get(name, NodeFlags(0))
    failing = bool(flags & (NodeFlags.FAIL | NodeFlags.PFAIL))
    return Node(
        id=row.node_id,
        ip=row.ip,
        port=row.port,
        cport=row.cport,
        hostname=row.hostname,
        flags=flags,
        master_id=row.master_id or None,
        config_epoch=row.config_epoch,
        link_connected=NodeFlags.MYSELF in flags or (row.link_known and not failing),
        slots=SlotSet.parse(row.slots) if row.slots else SlotSet(),
    )


def view_differences(first: Topology, second: Topology) -> list[Difference]:
    """Return differences of two views by node id; ``myself`` is not compared."""
    differences = []
    for node_id in sorted(first.by_id.keys() | second.by_id.keys()):
        before, other = first.by_id.get(node_id), second.by_id.get(node_id)
        if before is None or other is None:
            differences.append(Difference(node_id, "known", _known(before), _known(other)))
            continue
        mine, theirs = printed_fields(before), printed_fields(other)
        differences += [
            Difference(node_id, name, mine[name], theirs[name]) for name in FIELDS if mine[name] != theirs[name]
        ]
    return differences


def _known(node: Node | None) -> str:
    return "no" if node is None else "yes"


def printed_fields(node: Node) -> dict[str, str]:
    """Return a node's fields in CLUSTER NODES, by the names of `FIELDS`."""
    address = f"{node.address}@{node.cport or 0}" + (f",{node.hostname}" if node.hostname else "")
    return {
        "address": address,
        "flags": write_flags(node.flags & ~NodeFlags.MYSELF),
        "master": node.master_id or "-",
        "config_epoch": str(node.config_epoch),
        "slots": str(node.slots) or "-",
    }


def find_observer(wanted: str, addresses: Mapping[str, str]) -> str:
    """Return the id for *wanted*: an id, a unique id prefix, ``host:port``, or a unique port.

    *addresses* are by observer. Raises NoSuchView with the available ones.
    """
    wanted = wanted.removeprefix(":")  # short form of nodes on one host
    if wanted in addresses:
        return wanted
    if ":" in wanted:
        candidates = [node for node, address in addresses.items() if address == wanted]
    else:
        candidates = [
            node
            for node, address in addresses.items()
            if wanted and (node.startswith(wanted.lower()) or address.rpartition(":")[2] == wanted)
        ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise NoSuchView(f"{wanted!r} may be {' or '.join(sorted(candidates))}")
    known = ", ".join(f"{node[:8]} ({address})" for node, address in sorted(addresses.items())[:10])
    raise NoSuchView(f"no observer {wanted!r}; there are {known or 'none'}")
