"""Rows of a capture (as JSON lines tell them) to a `BusBatch`: the plain way to what `BusDecoder` makes of packets."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_capture import CapturedGap, CapturedMessage, ConnectionEvent, Origin, Row
from cluster_core.kernels.bus.batch import EVENT, EXTENSION, GOSSIP, MESSAGE, NONE, BusBatch
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, IPV4_MARK, Rows, new_rows
from cluster_core.kernels.bus.packing import pack
from cluster_core.wire.bus import (
    IP_BYTES,
    NODE_ID_BYTES,
    SLOT_BITMAP_BYTES,
    Fail,
    Gossip,
    Header,
    LightHeader,
    Message,
    Module,
    PartialHeader,
    Publish,
    Unknown,
    Update,
)


class ValueTable:
    """Distinct values of a fixed width in order of appearance."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._numbers: dict[bytes, int] = {}

    def number(self, value: bytes) -> int:
        """The number of a value, padded to the width; too long ones are cut."""
        return self._numbers.setdefault(value[: self._width].ljust(self._width, b"\0"), len(self._numbers))

    def rows(self) -> NDArray[np.uint8]:
        """All values, uint8 (n, width)."""
        return np.frombuffer(b"".join(self._numbers), dtype=np.uint8).reshape(-1, self._width)


class BatchBuilder:
    """Feed it rows in order, then take the batch."""

    def __init__(self) -> None:
        self._nodes, self._texts = ValueTable(NODE_ID_BYTES), ValueTable(IP_BYTES)
        self._bitmaps, self._addresses = ValueTable(SLOT_BITMAP_BYTES), ValueTable(ADDRESS_BYTES)
        self._messages: list[Rows] = []
        self._events: list[Rows] = []
        self._gossip: list[tuple[int, ...]] = []
        self._extensions: list[tuple[int, ...]] = []
        self._extension_data = bytearray()
        self._rows: list[Row] = []
        self._gaps: list[tuple[int, CapturedGap]] = []
        self._released: list[int] = []
        self._channels: list[bytes] = []
        self._packed: list[bytes] = []
        self._odd: dict[int, bytes] = {}

    def add(self, row: Row, release: int) -> None:
        """Add a row whose turn is at packet *release*."""
        if isinstance(row, CapturedMessage):
            self._released.append(release)
            self._add_message(row)
        elif isinstance(row, ConnectionEvent):
            made = new_rows(EVENT, 1)
            self._place(made, row.origin)
            made.packet, made.tcp_flags = release, row.flags & 0xFF
            self._events.append(made)
        else:
            self._rows.append(row)
            if isinstance(row, CapturedGap):
                self._gaps.append((release, row))

    def batch(self) -> BusBatch:
        """The batch of all rows."""
        gossip = new_rows(GOSSIP, len(self._gossip))
        for name, column in zip(GOSSIP.names or (), zip(*self._gossip, strict=True), strict=False):
            gossip[name] = column
        extensions = new_rows(EXTENSION, len(self._extensions))
        for name, column in zip(EXTENSION.names or (), zip(*self._extensions, strict=True), strict=False):
            extensions[name] = column
        channel_data = np.frombuffer(b"".join(self._channels), dtype=np.uint8)
        packed = np.frombuffer(b"".join(self._packed), dtype=np.uint8)
        return BusBatch(
            _joined(self._messages, MESSAGE),
            gossip,
            extensions,
            _joined(self._events, EVENT),
            channel_data,
            np.frombuffer(bytes(self._extension_data), dtype=np.uint8),
            self._nodes.rows(),
            self._texts.rows(),
            self._bitmaps.rows(),
            self._addresses.rows(),
            self._rows,
            self._odd,
            np.array(self._released, dtype=np.int64),
            packed,
            np.cumsum([len(part) for part in self._packed], dtype=np.int64),
            self._gaps,
        )

    def _add_message(self, row: CapturedMessage) -> None:
        message = row.decode()
        made = new_rows(MESSAGE, 1)
        self._place(made, row.origin)
        made.captured, made.totlen = len(row.raw), row.totlen
        made.sender = self._node(row.sender)
        made.receiver = self._node(row.receiver)
        for name in ("slots", "replicaof", "myip", "subject", "body_slots"):
            made[name] = NONE
        header = message.header
        made.type = header.type
        made.light = isinstance(header, LightHeader)
        if isinstance(header, Header):
            self._fill_header(made, header)
        made.ver = header.peek.ver if isinstance(header, PartialHeader) else header.ver
        self._fill_body(made, message)
        made.channel_end = sum(map(len, self._channels[-1:])) + (
            self._messages[-1].channel_end[0] if self._messages else 0
        )
        self._messages.append(made)
        self._packed.append(pack(row.raw)[0])
        if not made.understood[0] and row.is_whole:
            self._odd[len(self._messages) - 1] = row.raw

    def _fill_header(self, made: Rows, header: Header) -> None:
        for name in ("port", "count", "current_epoch", "config_epoch", "extensions", "pport", "cport", "state"):
            made[name] = getattr(header, name)
        made.repl_offset, made.node_flags = header.offset, header.flags
        made.mflags = int.from_bytes(header.mflags, "little")
        made.slots = self._bitmaps.number(header.myslots)
        made.replicaof = self._node(header.replicaof)
        made.myip = self._texts.number(header.myip.encode("latin-1")) if header.myip else NONE

    def _fill_body(self, made: Rows, message: Message) -> None:
        body, channel = message.body, b""
        if isinstance(body, Gossip):
            for entry in body.entries:
                ip = self._texts.number(entry.ip.encode("latin-1")) if entry.ip else NONE
                node = self._nodes.number(entry.node.encode("latin-1"))
                times = (entry.ping_sent_s, entry.pong_received_s)
                ports = (entry.port, entry.cport, entry.flags, entry.pport, entry.notused1)
                self._gossip.append((len(self._messages), node, *times, ip, *ports))
            for extension in body.extensions:
                self._extension_data += extension.data
                row = (len(self._messages), extension.type, extension.unused, len(self._extension_data))
                self._extensions.append(row)
        elif isinstance(body, Fail):
            made.subject = self._nodes.number(body.node.encode("latin-1"))
        elif isinstance(body, Update):
            made.subject = self._nodes.number(body.node.encode("latin-1"))
            made.body_epoch, made.body_slots = body.config_epoch, self._bitmaps.number(body.myslots)
        elif isinstance(body, Publish):
            channel = body.channel
            made.payload_bytes = len(body.message)
        elif isinstance(body, Module):
            made.module_id, made.module_type = int.from_bytes(body.module_id, "big"), body.type
            made.payload_bytes = len(body.payload)
        self._channels.append(channel)
        unknown = (len(body.raw) if isinstance(body, Unknown) else 0) + (len(message.rest.raw) if message.rest else 0)
        made.unknown_bytes = unknown
        made.understood = message.rest is None and not isinstance(body, Unknown)

    def _node(self, node_id: str) -> int:
        return self._nodes.number(node_id.encode("latin-1", "replace")) if node_id else NONE

    def _place(self, made: Rows, origin: Origin) -> None:
        for name in ("ts_ns", "packet", "offset", "stream", "connection", "direction"):
            made[name] = getattr(origin, name)
        for end, (ip, port) in (("source", origin.source), ("target", origin.target)):
            made[end] = self._addresses.number(_packed_ip(ip))
            made[f"{end}_port"] = port


def batch_of_rows(rows: Sequence[Row], first_release: int) -> tuple[BusBatch, int]:
    """The batch of *rows*, and the turn of the last of them: rows have their turn in their own order."""
    builder = BatchBuilder()
    release = first_release
    for row in rows:
        release += 1
        builder.add(row, release)
    return builder.batch(), release


def _joined(rows: list[Rows], kind: np.dtype[np.void]) -> Rows:
    return np.concatenate(rows).view(np.recarray) if rows else new_rows(kind, 0)


def _packed_ip(text: str) -> bytes:
    """An address as kernels keep it; a text that is none becomes the unspecified address."""
    try:
        packed = ipaddress.ip_address(text).packed
    except ValueError:
        return bytes(ADDRESS_BYTES)
    return packed if len(packed) == ADDRESS_BYTES else bytes((IPV4_MARK,)) * (ADDRESS_BYTES - 4) + packed
