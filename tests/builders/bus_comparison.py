"""Messages and other rows of captures as the decoder finds them; its columns compared with the plain codec of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cluster_core.formats.capture.bus_rows import STREAMS_MAX, Origin, Row
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.containers import PacketReader
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packing import unpack
from cluster_core.wire.bus import (
    Fail,
    Gossip,
    Header,
    LightHeader,
    Module,
    PartialHeader,
    Publish,
    Unknown,
    Update,
    decode_message,
    decode_partial,
)
from cluster_core.wire.tcp_stream import FIN, RST, SYN

Fields = dict[str, object]


class CapturedMessage(NamedTuple):
    """A message: its bytes as far as captured, and its nodes."""

    origin: Origin
    raw: bytes
    totlen: int
    sender: str
    receiver: str

    @property
    def is_whole(self) -> bool:
        return len(self.raw) >= self.totlen


class Captured(NamedTuple):
    """What a decoder finds in captures; *events* are directions and TCP flags of opened and ended connections."""

    messages: list[CapturedMessage]
    events: list[tuple[int, int]]
    rows: list[Row]
    repeated_bytes: int


_HEADER_FIELDS = (
    ("port", "port"),
    ("count", "count"),
    ("current_epoch", "current_epoch"),
    ("config_epoch", "config_epoch"),
    ("repl_offset", "offset"),
    ("extensions", "extensions"),
    ("pport", "pport"),
    ("cport", "cport"),
    ("node_flags", "flags"),
    ("state", "state"),
)


def decoded(decoder: BusDecoder, *sources: Sequence[bytes]) -> list[BusBatch]:
    """The batches of files, each in pieces; faults of a file are rows of a batch."""
    batches: list[BusBatch] = []
    for pieces in sources:
        reader = PacketReader()
        for piece in pieces:
            reader.room(len(piece))[: len(piece)] = piece
            for packets in reader.take(len(piece)):
                batches += decoder.take_records(packets.data, packets.records)
        reader.end_source()
        batches.append(decoder.end_packets())
        batches[-1].rows += reader.problems
    return batches


def captured(*sources: Sequence[bytes], streams_max: int = STREAMS_MAX) -> Captured:
    """Decode files, each in pieces, and check the columns of every message against those of the plain codec."""
    decoder = BusDecoder(streams_max=streams_max, keep_packed=True)
    batches = [*decoded(decoder, *sources), decoder.finish()]
    messages = [message for batch in batches for message in checked(batch)]
    events = [
        (int(row["direction"]), int(row["tcp_flags"]))
        for batch in batches
        for row in batch.events
        if row["tcp_flags"] & (SYN | FIN | RST)
    ]
    return Captured(messages, events, [row for batch in batches for row in batch.rows], decoder.repeated_bytes)


def checked(batch: BusBatch) -> Iterable[CapturedMessage]:
    """The messages of a batch; asserts that its columns are those of their bytes."""
    start = 0
    for i, (columns, row, end) in enumerate(
        zip(_columns(batch), batch.messages, batch.packed_ends.tolist(), strict=True)
    ):
        bitmap = batch.bitmap(row["slots"]) if row["slots"] >= 0 else b""
        raw = unpack(batch.packed[start:end].tobytes(), bitmap)
        result = CapturedMessage(
            batch.origin(i), raw, int(row["totlen"]), batch.node(row["sender"]), batch.node(row["receiver"])
        )
        assert columns == _decoded(result)
        yield result
        start = end


def _decoded(row: CapturedMessage) -> Fields:
    """Columns of a message as `cluster_core.wire.bus` decodes its bytes."""
    message = decode_message(row.raw) if row.is_whole else decode_partial(row.raw)
    header, body = message.header, message.body
    unknown = len(message.rest.raw) if message.rest else 0
    unknown += len(body.raw) if isinstance(body, Unknown) else 0
    understood = message.rest is None and not isinstance(body, Unknown)
    fields: Fields = {name: 0 for name, _ in _HEADER_FIELDS}
    fields |= {"captured": len(row.raw), "totlen": row.totlen, "type": message.type}
    fields["light"] = isinstance(header, LightHeader)
    fields |= {"slots": None, "replicaof": "", "myip": "", "mflags": bytes(3)}
    fields |= {"subject": "", "body_epoch": 0, "body_slots": None, "channel": b"", "payload": 0}
    fields |= {"gossip": (), "extension_rows": (), "unknown": unknown, "understood": understood}
    if isinstance(header, PartialHeader):
        fields |= {
            name: int.from_bytes(row.raw[at : at + 2], "big") for name, at in (("ver", 8), ("port", 10), ("count", 14))
        }
        fields |= {"current_epoch": header.current_epoch or 0, "config_epoch": header.config_epoch or 0}
        fields["repl_offset"] = header.offset or 0
    else:
        fields["ver"] = header.ver
    if isinstance(header, Header):
        fields |= {name: getattr(header, field) for name, field in _HEADER_FIELDS}
        fields |= {"slots": header.myslots, "replicaof": header.replicaof, "myip": header.myip, "mflags": header.mflags}
    match body:
        case Gossip():
            fields["gossip"] = tuple(
                (e.node, e.ping_sent_s, e.pong_received_s, e.ip, e.port, e.cport, e.flags, e.pport)
                for e in body.entries
            )
            fields["extension_rows"] = tuple((e.type, e.data, e.unused) for e in body.extensions)
        case Fail():
            fields["subject"] = body.node
        case Update():
            fields |= {"subject": body.node, "body_epoch": body.config_epoch, "body_slots": body.myslots}
        case Publish():
            fields |= {"channel": body.channel, "payload": len(body.message)}
        case Module():
            fields["payload"] = len(body.payload)
    return fields


def _columns(batch: BusBatch) -> list[Fields]:
    """Columns of the messages of a batch."""
    gossip: list[list[object]] = [[] for _ in range(len(batch))]
    for entry in batch.gossip:
        numbers = (entry["ping_sent_s"], entry["pong_received_s"])
        ports = (entry["port"], entry["cport"], entry["node_flags"], entry["pport"])
        gossip[entry["message"]].append(
            (batch.node(entry["node"]), *map(int, numbers), batch.text(entry["ip"]), *map(int, ports))
        )
    extensions: list[list[object]] = [[] for _ in range(len(batch))]
    at = 0
    for row in batch.extensions:
        data = batch.extension_data[at : row["data_end"]].tobytes()
        extensions[row["message"]].append((int(row["type"]), data, int(row["unused"])))
        at = row["data_end"]
    rows: list[Fields] = []
    at = 0
    for i, row in enumerate(batch.messages):
        record: Fields = {name: int(row[name]) for name, _ in _HEADER_FIELDS}
        record |= {name: int(row[name]) for name in ("captured", "totlen", "type", "ver", "body_epoch")}
        record["light"] = bool(row["light"])
        record |= {name: batch.node(row[name]) for name in ("replicaof", "subject")}
        record |= {name: batch.bitmap(row[name]) if row[name] >= 0 else None for name in ("slots", "body_slots")}
        record |= {"myip": batch.text(row["myip"]), "mflags": int(row["mflags"]).to_bytes(3, "little")}
        record |= {
            "channel": batch.channel_data[at : row["channel_end"]].tobytes(),
            "payload": int(row["payload_bytes"]),
        }
        record |= {"gossip": tuple(gossip[i]), "extension_rows": tuple(extensions[i])}
        record |= {"unknown": int(row["unknown_bytes"]), "understood": bool(row["understood"])}
        at = row["channel_end"]
        rows.append(record)
    return rows
