"""What the plain reader and the kernels make of the same captures, in one comparable form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cluster_core.formats.capture.bus_capture import (
    BusCapture,
    CapturedMessage,
    ConnectionEvent,
    Endpoint,
    Origin,
    Row,
)
from cluster_core.formats.capture.packet import Packet
from cluster_core.formats.capture.pcap import CaptureReader
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.wire.bus import Fail, Gossip, Header, LightHeader, Module, PartialHeader, Publish, Unknown, Update
from cluster_core.wire.tcp_stream import FIN, RST, SYN

Told = dict[str, object]

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


def plain_story(sources: Iterable[Sequence[bytes]], streams_max: int) -> tuple[list[Told], list[object], list[Row]]:
    """Messages, connection events and other rows of the plain reader."""
    capture = BusCapture(streams_max=streams_max)
    rows: list[Row] = []
    for pieces in sources:
        reader = CaptureReader()
        for piece in pieces:
            for item in reader.feed(piece):
                rows.extend(capture.handle(item) if isinstance(item, Packet) else [item])
        rows.extend(reader.finish())
        rows.extend(capture.end_source())
    rows.extend(capture.finish())
    told = [_told_by_plain(row) for row in rows if isinstance(row, CapturedMessage)]
    events: list[object] = [(row.origin, row.flags) for row in rows if isinstance(row, ConnectionEvent)]
    rest = [row for row in rows if not isinstance(row, CapturedMessage | ConnectionEvent)]
    return told, events, sorted(rest, key=repr)


def kernel_story(sources: Iterable[Sequence[bytes]], streams_max: int) -> tuple[list[Told], list[object], list[Row]]:
    """The same of the kernels."""
    decoder = BusDecoder(streams_max=streams_max)
    batches: list[BusBatch] = []
    for pieces in sources:
        for piece in pieces:
            batches.extend(decoder.feed(piece))
        batches.append(decoder.end_source())
    batches.append(decoder.finish())
    told = [one for batch in batches for one in _told_by_kernel(batch)]
    events = [one for batch in batches for one in _events(batch)]
    return told, events, sorted((row for batch in batches for row in batch.rows), key=repr)


def _told_by_plain(row: CapturedMessage) -> Told:
    message = row.decode()
    header, body = message.header, message.body
    unknown = len(message.rest.raw) if message.rest else 0
    unknown += len(body.raw) if isinstance(body, Unknown) else 0
    understood = message.rest is None and not isinstance(body, Unknown)
    told: Told = {name: 0 for name, _ in _HEADER_FIELDS}
    told |= {"origin": row.origin, "captured": len(row.raw), "totlen": row.totlen, "type": message.type}
    told |= {"light": isinstance(header, LightHeader), "sender": row.sender, "receiver": row.receiver}
    told |= {"slots": None, "replicaof": "", "myip": "", "mflags": bytes(3)}
    told |= {"subject": "", "body_epoch": 0, "body_slots": None, "channel": b"", "payload": 0}
    told |= {"module": (bytes(8), 0), "gossip": (), "extension_rows": (), "unknown": unknown, "understood": understood}
    told["odd"] = row.raw if row.is_whole and not understood else None
    if isinstance(header, PartialHeader):
        peek = header.peek
        told |= {"ver": peek.ver, "count": peek.gossip_count, "port": int.from_bytes(row.raw[10:12], "big")}
        told |= {"current_epoch": peek.current_epoch or 0, "config_epoch": peek.config_epoch or 0}
        told["repl_offset"] = peek.offset or 0
    else:
        told["ver"] = header.ver
    if isinstance(header, Header):
        told |= {name: getattr(header, field) for name, field in _HEADER_FIELDS}
        told |= {"slots": header.myslots, "replicaof": header.replicaof, "myip": header.myip, "mflags": header.mflags}
    match body:
        case Gossip():
            told["gossip"] = tuple(
                (e.node, e.ping_sent_s, e.pong_received_s, e.ip, e.port, e.cport, e.flags, e.pport, e.notused1)
                for e in body.entries
            )
            told["extension_rows"] = tuple((e.type, e.data, e.unused) for e in body.extensions)
        case Fail():
            told["subject"] = body.node
        case Update():
            told |= {"subject": body.node, "body_epoch": body.config_epoch, "body_slots": body.myslots}
        case Publish():
            told |= {"channel": body.channel, "payload": len(body.message)}
        case Module():
            told |= {"module": (body.module_id, body.type), "payload": len(body.payload)}
    return told


def _told_by_kernel(batch: BusBatch) -> list[Told]:
    gossip: list[list[object]] = [[] for _ in range(len(batch))]
    for entry in batch.gossip:
        numbers = (entry["ping_sent_s"], entry["pong_received_s"])
        ports = (entry["port"], entry["cport"], entry["node_flags"], entry["pport"], entry["notused1"])
        gossip[entry["message"]].append(
            (batch.node(entry["node"]), *map(int, numbers), batch.text(entry["ip"]), *map(int, ports))
        )
    extensions: list[list[object]] = [[] for _ in range(len(batch))]
    at = 0
    for row in batch.extensions:
        data = batch.extension_data[at : row["data_end"]].tobytes()
        extensions[row["message"]].append((int(row["type"]), data, int(row["unused"])))
        at = row["data_end"]
    told: list[Told] = []
    at = 0
    for i, row in enumerate(batch.messages):
        one: Told = {name: int(row[name]) for name, _ in _HEADER_FIELDS}
        one |= {name: int(row[name]) for name in ("captured", "totlen", "type", "ver", "body_epoch")}
        one |= {"origin": batch.origin(i), "light": bool(row["light"])}
        one |= {name: batch.node(row[name]) for name in ("sender", "receiver", "replicaof", "subject")}
        one |= {name: batch.bitmap(row[name]) if row[name] >= 0 else None for name in ("slots", "body_slots")}
        one |= {"myip": batch.text(row["myip"]), "mflags": int(row["mflags"]).to_bytes(3, "little")}
        one |= {"channel": batch.channel_data[at : row["channel_end"]].tobytes(), "payload": int(row["payload_bytes"])}
        one["module"] = (int(row["module_id"]).to_bytes(8, "big"), int(row["module_type"]))
        one |= {"gossip": tuple(gossip[i]), "extension_rows": tuple(extensions[i])}
        one |= {"unknown": int(row["unknown_bytes"]), "understood": bool(row["understood"]), "odd": batch.odd.get(i)}
        at = row["channel_end"]
        told.append(one)
    return told


def _events(batch: BusBatch) -> list[object]:
    return [
        (
            Origin(
                *(int(row[name]) for name in ("ts_ns", "packet", "offset", "stream", "connection", "direction")),
                Endpoint(batch.address(row["source"]), int(row["source_port"])),
                Endpoint(batch.address(row["target"]), int(row["target_port"])),
            ),
            int(row["tcp_flags"]),
        )
        for row in batch.events
        if row["tcp_flags"] & (SYN | FIN | RST)
    ]
