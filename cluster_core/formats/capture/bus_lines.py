"""Rows of a capture as JSON lines and back: what ``slotscope bus-dump`` writes and ``cluster-bus`` reads.

Every line is an object with ``row``: ``message``, ``unknown``, ``gap``, ``connection``, ``skipped`` or ``problem``.
All but the last two say where they come from: ``ts_ns`` (epoch), ``packet``, ``offset``, ``stream``,
``connection_id``, ``direction`` (``initiator``, ``acceptor`` or null: which side sends), ``source`` and ``target``
(``[address, port]``).

message sender, receiver (node ids, empty while not known), captured (bytes, when below totlen), message (see
`cluster_core.wire.bus_json`) unknown count, looks_like, sample (hex) gap start, end (sequence numbers), count (null
after a jump), reason connection tcp_flags, kind (syn, syn-ack, fin, rst; not read back) skipped reason, packets,
captured_bytes, first_offset problem offset, reason, skipped_bytes
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.formats.capture import bus_capture as seen
from cluster_core.formats.capture.packet import CaptureProblem
from cluster_core.wire.bus import encode_message
from cluster_core.wire.bus_json import JSON_ERRORS, message_from_json, message_to_json

_DIRECTIONS = {seen.INITIATOR: "initiator", seen.ACCEPTOR: "acceptor", seen.UNSEEN: None}
_NUMBERS = {word: number for number, word in _DIRECTIONS.items()}


def row_to_line(row: seen.Row) -> str:
    """Return the row as one line of JSON, without a line feed."""
    return json.dumps(_row_to_json(row), separators=(",", ":"))


def row_from_line(text: str | bytes, *, line: int = 0, source: str = "<json>") -> seen.Row:
    """Return the row that `row_to_line` told; raises `DecodeError`, whose offset is *line*."""
    try:
        return _row_from_json(json.loads(text), line, source)
    except JSON_ERRORS as error:
        reason = f"not a line of a bus capture: {type(error).__name__}: {error}"
        raise DecodeError(reason, offset=line, source=source) from error


def _row_to_json(row: seen.Row) -> dict[str, Any]:
    match row:
        case seen.CapturedMessage():
            told = {"row": "message", **_origin_to_json(row.origin), "sender": row.sender, "receiver": row.receiver}
            if not row.is_whole:
                told["captured"] = len(row.raw)
            return {**told, "message": message_to_json(row.decode())}
        case seen.CapturedUnknown():
            told = {"count": row.count, "looks_like": row.looks_like, "sample": row.sample.hex()}
            return {"row": "unknown", **_origin_to_json(row.origin), **told}
        case seen.CapturedGap():
            told = {"start": row.start, "end": row.end, "count": row.count, "reason": row.reason}
            return {"row": "gap", **_origin_to_json(row.origin), **told}
        case seen.ConnectionEvent():
            return {"row": "connection", **_origin_to_json(row.origin), "tcp_flags": row.flags, "kind": row.kind}
        case seen.SkippedPackets():
            return {"row": "skipped", **asdict(row)}
        case CaptureProblem():
            return {"row": "problem", **asdict(row)}


def _row_from_json(told: dict[str, Any], line: int, source: str) -> seen.Row:
    """Raises one of `JSON_ERRORS`."""
    match told["row"]:
        case "message":
            raw = encode_message(message_from_json(told["message"], line=line, source=source))
            totlen = int.from_bytes(raw[4:8], "big")
            return seen.CapturedMessage(
                _origin_from_json(told), raw, totlen, str(told["sender"]), str(told["receiver"])
            )
        case "unknown":
            sample = bytes.fromhex(told["sample"])
            return seen.CapturedUnknown(_origin_from_json(told), int(told["count"]), str(told["looks_like"]), sample)
        case "gap":
            count = None if told["count"] is None else int(told["count"])
            ends = int(told["start"]), int(told["end"])
            return seen.CapturedGap(_origin_from_json(told), *ends, count, str(told["reason"]))
        case "connection":
            return seen.ConnectionEvent(_origin_from_json(told), int(told["tcp_flags"]))
        case "skipped":
            numbers = int(told["packets"]), int(told["captured_bytes"]), int(told["first_offset"])
            return seen.SkippedPackets(str(told["reason"]), *numbers)
        case "problem":
            skipped = None if told["skipped_bytes"] is None else int(told["skipped_bytes"])
            return CaptureProblem(int(told["offset"]), str(told["reason"]), skipped)
        case other:
            raise ValueError(f"row is {other!r}")


def _origin_to_json(origin: seen.Origin) -> dict[str, Any]:
    return {
        "ts_ns": origin.ts_ns,
        "packet": origin.packet,
        "offset": origin.offset,
        "stream": origin.stream,
        "connection_id": origin.connection,
        "direction": _DIRECTIONS[origin.direction],
        "source": list(origin.source),
        "target": list(origin.target),
    }


def _origin_from_json(told: dict[str, Any]) -> seen.Origin:
    source, target = (seen.Endpoint(str(told[name][0]), int(told[name][1])) for name in ("source", "target"))
    return seen.Origin(
        int(told["ts_ns"]),
        int(told["packet"]),
        int(told["offset"]),
        int(told["stream"]),
        int(told["connection_id"]),
        _NUMBERS[told["direction"]],
        source,
        target,
    )
