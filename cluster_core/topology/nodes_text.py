"""CLUSTER NODES and nodes.conf: one line per node; nodes.conf ends with a line of epochs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.node_flags import NodeFlags, read_flags, write_flags
from cluster_core.slots.slot_set import SlotSet, parse_range
from cluster_core.topology.node import Node, Topology

LINE_BYTES_MAX = 1024 * 1024
"""Maximum bytes of a line; above those of a node with every second slot and as many open slots."""

NODE_ID = re.compile(r"[0-9a-z]{40}")
"""Node ids that servers accept (`verifyClusterNodeId`)."""

_FIELDS = 8
_OPEN_SLOT = re.compile(r"\[([0-9]{1,5})-([<>])-([0-9a-z]{40})\]")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_EPOCH = re.compile(r"[0-9]{1,20}")
_PORT_MAX = 65535
_EPOCH_MAX = 2**64 - 1


@dataclass(slots=True)
class _LineFields:
    """The fields of one line, with the offset of the current one."""

    fields: list[bytes]
    offset: int
    source: str
    index: int = 0

    def take(self) -> str:
        if self.index:
            self.offset += len(self.fields[self.index - 1]) + 1
        self.index += 1
        return self.fields[self.index - 1].decode("utf-8", "surrogateescape")

    def fault(self, reason: str) -> DecodeError:
        return DecodeError(reason, offset=self.offset, source=self.source)

    @property
    def left(self) -> int:
        return len(self.fields) - self.index


@dataclass(slots=True)
class _Claims:
    """Slots and open slots at the end of a line."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    migrating: dict[int, str] = field(default_factory=dict)
    importing: dict[int, str] = field(default_factory=dict)


def read_nodes(data: bytes, *, source: str = "<bytes>") -> Topology:
    r"""Parse CLUSTER NODES or nodes.conf, overlapping slots included (R128, R129).

    Lines end in ``\n`` or ``\r\n``. DecodeError has the offset of the faulty word, TruncatedError is for a cut last line.
    """
    nodes: list[Node] = []
    seen: dict[str, int] = {}
    epochs: dict[str, int] = {}
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        ended, end = end >= 0, len(data) if end < 0 else end
        if end - offset > LINE_BYTES_MAX:
            raise DecodeError(f"a line longer than {LINE_BYTES_MAX} bytes", offset=offset, source=source)
        line = data[offset:end].rstrip(b"\r ")
        if line.startswith(b"vars "):
            epochs = _read_vars(_LineFields(line.split(b" "), offset, source))
        elif line:
            fields = _LineFields(line.split(b" "), offset, source)
            if fields.left < _FIELDS:
                kind = DecodeError if ended else TruncatedError
                raise kind(f"a line of {fields.left} words, not {_FIELDS} or more", offset=offset, source=source)
            node = _read_node(fields)
            if node.id in seen:
                raise DecodeError(f"node {node.id} appears twice", offset=offset, source=source)
            seen[node.id] = offset
            nodes.append(node)
        offset = end + 1
    myself = [node.id for node in nodes if NodeFlags.MYSELF in node.flags]
    if len(myself) > 1:
        raise DecodeError("two nodes are myself", offset=seen[myself[1]], source=source)
    form = "nodes.conf" if epochs else "nodes"
    return Topology(tuple(nodes), form, epochs.get("currentEpoch"), epochs.get("lastVoteEpoch"))


def _read_node(fields: _LineFields) -> Node:
    node_id = _read_id(fields)
    ip, port, cport, hostname, aux = _read_address(fields)
    flag_text = fields.take()
    flags, extra_flags = read_flags(flag_text, offset=fields.offset, source=fields.source)
    master_id = None if fields.fields[fields.index] == b"-" and fields.take() else _read_id(fields)
    ping_sent, pong_received = _read_number(fields, _NUMBER), _read_number(fields, _NUMBER)
    config_epoch = _read_number(fields, _EPOCH)
    link = fields.take()
    if link not in ("connected", "disconnected"):
        raise fields.fault(f"{link[:40]!r} is not a link state")
    claims = _read_claims(fields)
    return Node(
        id=node_id,
        ip=ip,
        port=port,
        cport=cport,
        hostname=hostname,
        aux=aux,
        flags=flags,
        extra_flags=extra_flags,
        master_id=master_id,
        ping_sent=ping_sent,
        pong_received=pong_received,
        config_epoch=config_epoch,
        link_connected=link == "connected",
        slots=SlotSet.from_ranges(claims.ranges),
        migrating=claims.migrating,
        importing=claims.importing,
    )


def _read_id(fields: _LineFields) -> str:
    word = fields.take()
    if not NODE_ID.fullmatch(word):
        raise fields.fault(f"{word[:48]!r} is not a node id of 40 characters")
    return word


def _read_address(fields: _LineFields) -> tuple[str, int, int | None, str, dict[str, str]]:
    """Read ``ip:port[@cport][,hostname[,name=value…]]``; the ip may contain colons or be empty."""
    place, *rest = fields.take().split(",")
    bare, at, bus = place.partition("@")
    ip, colon, port = bare.rpartition(":")
    if not colon or not _is_port(port) or (at and not _is_port(bus)):
        raise fields.fault(f"{place[:80]!r} is not an address of the form ip:port@cport")
    aux: dict[str, str] = {}
    for entry in rest[1:]:
        name, equals, value = entry.partition("=")
        if not equals or not name or name in aux:
            raise fields.fault(f"{entry[:80]!r} is not name=value, or repeats a name")
        aux[name] = value
    return ip, int(port), int(bus) if at else None, rest[0] if rest else "", aux


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(_PORT_MAX)) and int(text) <= _PORT_MAX


def _read_number(fields: _LineFields, shape: re.Pattern[str]) -> int:
    word = fields.take()
    if not shape.fullmatch(word) or int(word) > _EPOCH_MAX:
        raise fields.fault(f"{word[:40]!r} is not a number")
    return int(word)


def _read_claims(fields: _LineFields) -> _Claims:
    claims = _Claims()
    while fields.left:
        word = fields.take()
        if not word:
            continue
        if not word.startswith("["):
            claims.ranges.append(parse_range(word, offset=fields.offset, source=fields.source))
            continue
        match = _OPEN_SLOT.fullmatch(word)
        if not match or int(match[1]) >= SLOT_COUNT:
            raise fields.fault(f"{word[:80]!r} is not an open slot of the form [slot->-id] or [slot-<-id]")
        side = claims.migrating if match[2] == ">" else claims.importing
        side[int(match[1])] = match[3]
    return claims


def _read_vars(fields: _LineFields) -> dict[str, int]:
    """Read ``vars currentEpoch n lastVoteEpoch m``; unknown names are skipped, as in the server."""
    fields.take()
    epochs = {"currentEpoch": 0, "lastVoteEpoch": 0}
    while fields.left:
        name = fields.take()
        if not fields.left:
            raise TruncatedError(f"{name[:40]!r} without a value", offset=fields.offset, source=fields.source)
        if name in epochs:
            epochs[name] = _read_number(fields, _EPOCH)
        else:
            fields.take()
    return epochs


def write_nodes(topology: Topology) -> bytes:
    """Return CLUSTER NODES text (R128): host names, no auxiliary fields."""
    return "".join(_line(node) for node in topology.nodes).encode("utf-8", "surrogateescape")


def _line(node: Node) -> str:
    place = node.address if node.cport is None else f"{node.address}@{node.cport}"
    if node.hostname:
        place = f"{place},{node.hostname}"
    fields = [node.id, place, write_flags(node.flags, node.extra_flags), node.master_id or "-"]
    fields += [str(node.ping_sent), str(node.pong_received), str(node.config_epoch)]
    fields.append("connected" if node.link_connected else "disconnected")
    if node.slots:
        fields.append(str(node.slots))
    marks = [(slot, ">", other) for slot, other in node.migrating.items()]
    marks += [(slot, "<", other) for slot, other in node.importing.items()]
    fields += [f"[{slot}-{arrow}-{other}]" for slot, arrow, other in sorted(marks)]
    return " ".join(fields) + "\n"
