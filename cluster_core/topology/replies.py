"""Topologies in every form of servers: CLUSTER SHARDS, SLOTS and NODES, nodes.conf, with RESP2 or RESP3 maps."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.cli_text import is_reply, read_reply_value
from cluster_core.topology.node import Node, Topology, find_conflicts
from cluster_core.topology.nodes_text import NODE_ID, read_nodes

Reply = Any
"""A list or dict of replies, a str, an int or None."""

_SHARD_FIELDS = frozenset(
    ("id", "port", "tls-port", "ip", "endpoint", "hostname", "role", "replication-offset", "health")
)


class ReplyReader:
    """Reader of one reply; errors name the place within the reply."""

    def __init__(self, source: str) -> None:
        self._source = source

    def read(self, reply: Reply) -> Topology:
        """Return the topology of a CLUSTER SHARDS or SLOTS reply, distinguished by its first entry."""
        entries = self._list(reply, "the reply")
        if entries and isinstance(entries[0], list) and entries[0] and isinstance(entries[0][0], int):
            return self._read_slots(entries)
        return self._read_shards(entries)

    def _read_shards(self, entries: list[Reply]) -> Topology:
        nodes: dict[str, Node] = {}
        for index, entry in enumerate(entries):
            place = f"shard {index}"
            shard = self._map(entry, place)
            members = [
                self._shard_node(self._map(fields, f"{place}, node {row}"), f"{place}, node {row}")
                for row, fields in enumerate(self._list(shard.get("nodes"), f"{place}, nodes"))
            ]
            slots = self._ranges(self._list(shard.get("slots"), f"{place}, slots"), f"{place}, slots")
            members = self._joined(members, slots, shard.get("id"), place)
            for node in members:
                if node.id in nodes:
                    raise self._fault(f"{place}: node {node.id} appears twice")
                nodes[node.id] = node
        return Topology(tuple(nodes.values()), "shards")

    def _joined(self, members: list[Node], slots: SlotSet, shard_id: Reply, place: str) -> list[Node]:
        """Assign the shard's slots to its master, and the master to its replicas (R131)."""
        masters = [node for node in members if node.is_master]
        # A failed master may be listed beside its successor.
        owner = next((node for node in masters if NodeFlags.FAIL not in node.flags), masters[0] if masters else None)
        if slots and owner is None:
            raise self._fault(f"{place}: slots {slots} but no master")
        joined = []
        for node in members:
            aux = dict(node.aux) if shard_id is None else {**node.aux, "shard-id": self._text(shard_id, f"{place}, id")}
            master_id = None if node.is_master or owner is None else owner.id
            joined.append(replace(node, aux=aux, master_id=master_id, slots=slots if node is owner else SlotSet()))
        return joined

    def _shard_node(self, fields: dict[str, Reply], place: str) -> Node:
        role = fields.get("role")
        if role not in ("master", "replica"):
            raise self._fault(f"{place}: {role!r} is not a role")
        health = self._text(fields.get("health", ""), f"{place}, health")
        flags = NodeFlags.MASTER if role == "master" else NodeFlags.REPLICA
        endpoint = fields.get("endpoint")
        aux = self._aux(fields, _SHARD_FIELDS - {"tls-port"}, place)
        return Node(
            id=self._id(fields.get("id"), f"{place}, id"),
            ip=self._text(fields.get("ip", ""), f"{place}, ip"),
            port=self._port(fields.get("port", 0), f"{place}, port"),
            hostname=self._text(fields.get("hostname", ""), f"{place}, hostname"),
            aux=aux,
            flags=flags | NodeFlags.FAIL if health == "fail" else flags,
            endpoint=None if endpoint is None else self._text(endpoint, f"{place}, endpoint"),
        )

    def _read_slots(self, entries: list[Reply]) -> Topology:
        nodes: dict[str, Node] = {}
        ranges: dict[str, list[tuple[int, int]]] = {}
        for index, entry in enumerate(entries):
            place = f"entry {index}"
            first, last, *members = [*self._list(entry, place), None, None][: max(len(entry), 2)]
            self._ranges([first, last], place)
            if not members:
                raise self._fault(f"{place}: slots without a node")
            master_id: str | None = None
            for row, member in enumerate(members):
                node = self._slots_node(self._list(member, f"{place}, node {row}"), master_id, f"{place}, node {row}")
                known = nodes.setdefault(node.id, node)
                if known != node:
                    raise self._fault(f"{place}: node {node.id} differs from how an earlier entry describes it")
                if master_id is None:
                    master_id = node.id
                    ranges.setdefault(node.id, []).append((first, last))
        return Topology(
            tuple(replace(node, slots=self._union(ranges.get(node.id, []), node.id)) for node in nodes.values()),
            "slots",
        )

    def _slots_node(self, fields: list[Reply], master_id: str | None, place: str) -> Node:
        if len(fields) < 3:
            raise self._fault(f"{place}: {len(fields)} fields, not 3 or more")
        endpoint = None if fields[0] is None else self._text(fields[0], f"{place}, endpoint")
        extra = self._map(fields[3], f"{place}, metadata") if len(fields) > 3 else {}
        ip = self._text(extra.get("ip", endpoint if _is_ip(endpoint) else ""), f"{place}, ip")
        named = endpoint if endpoint and endpoint != "?" and not _is_ip(endpoint) else ""
        return Node(
            id=self._id(fields[2], f"{place}, id"),
            ip=ip,
            port=self._port(fields[1], f"{place}, port"),
            hostname=self._text(extra.get("hostname", named), f"{place}, hostname"),
            aux=self._aux(extra, frozenset(("ip", "hostname")), place),
            flags=NodeFlags.MASTER if master_id is None else NodeFlags.REPLICA,
            master_id=master_id,
            endpoint=endpoint,
        )

    def _aux(self, fields: dict[str, Reply], known: frozenset[str], place: str) -> dict[str, str]:
        """Return fields without an attribute of their own; values other than texts and numbers are dropped."""
        return {
            self._text(name, f"{place}, a name"): self._text(str(value), f"{place}, {name[:40]}")
            for name, value in fields.items()
            if name not in known and isinstance(value, str | int)
        }

    def _ranges(self, bounds: list[Reply], place: str) -> SlotSet:
        if len(bounds) % 2:
            raise self._fault(f"{place}: {len(bounds)} bounds, not first and last in turn")
        pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
        for first, last in pairs:
            if not _is_slot(first) or not _is_slot(last) or first > last:
                raise self._fault(f"{place}: {str(first)[:20]} to {str(last)[:20]} is not a range of slots")
        return self._union(pairs, place)

    def _union(self, pairs: list[tuple[int, int]], place: str) -> SlotSet:
        slots = SlotSet.from_ranges(pairs)
        if len(slots) != sum(last - first + 1 for first, last in pairs):
            raise self._fault(f"{place}: a slot appears twice")
        return slots

    def _list(self, value: Reply, place: str) -> list[Reply]:
        if not isinstance(value, list):
            raise self._fault(f"{place} is {_kind(value)}, not a list")
        return value

    def _map(self, value: Reply, place: str) -> dict[str, Reply]:
        if isinstance(value, list) and len(value) % 2 == 0 and all(isinstance(name, str) for name in value[::2]):
            return dict(zip(value[::2], value[1::2], strict=True))
        if not isinstance(value, dict):
            raise self._fault(f"{place} is {_kind(value)}, not names and values")
        return value

    def _text(self, value: Reply, place: str) -> str:
        if not isinstance(value, str):
            raise self._fault(f"{place} is {_kind(value)}, not a text")
        if not value.isprintable() or " " in value or "," in value:
            raise self._fault(f"{place} {value[:60]!r} has characters that names and addresses cannot have")
        return value

    def _id(self, value: Reply, place: str) -> str:
        if not isinstance(value, str) or not NODE_ID.fullmatch(value):
            raise self._fault(f"{place} {str(value)[:48]!r} is not a node id of 40 characters")
        return value

    def _number(self, value: Reply, place: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._fault(f"{place} is {_kind(value)}, not a number")
        return value

    def _port(self, value: Reply, place: str) -> int:
        port = self._number(value, place)
        if not 0 <= port <= 65535:
            raise self._fault(f"{place} {str(port)[:20]} is not in 0 to 65535")
        return port

    def _fault(self, reason: str) -> DecodeError:
        return DecodeError(reason, offset=0, source=self._source)


def _is_slot(value: Reply) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < SLOT_COUNT


def _is_ip(text: str | None) -> bool:
    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return True


def _kind(value: Reply) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def read_reply(reply: Reply, *, source: str = "<reply>") -> Topology:
    """Return the topology of a CLUSTER SHARDS or SLOTS reply, without nodes if empty; DecodeError for other replies."""
    return ReplyReader(source).read(reply)


TOPOLOGY_BYTES_MAX = 256 * 1024 * 1024
"""Maximum bytes of one description; 1000 nodes with alternating slots take some megabytes."""

_NODES = re.compile(rb"[0-9a-z]{40} |vars ")
_RAW = re.compile(rb"[0-9]{1,5}\r?\n|slots[ \r\n]")


def read_topology(data: bytes, *, source: str = "<bytes>", strict: bool = True) -> Topology:
    """Parse a topology: CLUSTER NODES, nodes.conf, or replies to CLUSTER SHARDS and SLOTS.

    Replies are RESP2 or RESP3 bytes, redis-cli's JSON or its numbered text. Raises DecodeError, also for slots claimed twice
    unless *strict* is false: these are listed in `Topology.conflicts`.
    """
    if len(data) > TOPOLOGY_BYTES_MAX:
        reason = f"{len(data)} bytes are more than the {TOPOLOGY_BYTES_MAX} of a description"
        raise DecodeError(reason, offset=TOPOLOGY_BYTES_MAX, source=source)
    topology = _read_form(data, source)
    conflicts = find_conflicts(topology.nodes)
    if conflicts and strict:
        first = conflicts[0]
        reason = f"slots {str(first.slots)[:80]} belong to {first.keeper_id} and to {first.other_id}"
        offset = max(data.rfind(b"\n" + first.other_id.encode()) + 1, 0)
        raise DecodeError(reason, offset=offset, source=source)
    return replace(topology, conflicts=conflicts) if conflicts else topology


def _read_form(data: bytes, source: str) -> Topology:
    start = len(data) - len(data.lstrip())
    if start == len(data):
        raise DecodeError("no description of a cluster: nothing but blanks", offset=0, source=source)
    if _NODES.match(data, start):
        return read_nodes(data, source=source)
    if is_reply(data, start):
        return _read_value(read_reply_value(data, source=source), source)
    if _RAW.match(data, start):
        raise DecodeError("redis-cli's raw output does not tell lists apart: use --json", offset=start, source=source)
    raise DecodeError(
        "neither CLUSTER NODES, nodes.conf, nor a reply of CLUSTER SHARDS or SLOTS",
        offset=start,
        source=source,
    )


def _read_value(value: Any, source: str) -> Topology:
    if isinstance(value, str):
        return read_nodes(value.encode("utf-8", "surrogatepass"), source=source)
    return read_reply(value, source=source)
