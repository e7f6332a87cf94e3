"""Captures of client ports as rows, one after the other: what the data source and the replay share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import (
    ACCEPTOR,
    INITIATOR,
    CapturedGap,
    ConnectionEvent,
    SkippedPackets,
)
from cluster_core.formats.capture.packet import CaptureProblem
from cluster_core.formats.capture.resp_capture import CapturedResp, RespCapture, RespRow
from cluster_core.wire.resp import DumpBegun, DumpEnded, Unread
from schemas.replication import RESP_FIELDS
from schemas.table import required
from slotscope.sources.bus.capture_points import PointClocks
from slotscope.sources.bus.capture_reader import BAD, CaptureReader
from slotscope.sources.bus.files import CaptureFile, bundles, read_packets
from slotscope.sources.data_source import UnitSource

BAD_ROWS_MAX: Final = 10_000
"""Bad records of a series that are listed; the others are counted."""

_SECRET_SETTINGS: Final = frozenset(
    {b"requirepass", b"masterauth", b"primaryauth", b"tls-key-file-pass", b"tls-client-key-file-pass"}
)


@dataclass(slots=True)
class BadRecords:
    """What could not be read; in strict mode damage raises, while gaps and a beginning in the middle never do."""

    strict: bool
    count: int = 0
    listed: list[dict[str, Any]] = field(default_factory=list)

    def add(self, source: str, offset: int, reason: str, skipped_bytes: int | None, *, fatal: bool) -> None:
        """Note one bad record; raises DecodeError in strict mode if it is *fatal*."""
        if fatal and self.strict:
            raise DecodeError(reason, offset=offset, source=source)
        self.count += 1
        if len(self.listed) < BAD_ROWS_MAX:
            self.listed.append({"source": source, "offset": offset, "reason": reason, "skipped_bytes": skipped_bytes})

    def take(self, source: str, row: RespRow) -> None:
        """Note what *row* says was not read."""
        if isinstance(row, CaptureProblem):
            self.add(source, row.offset, row.reason, row.skipped_bytes, fatal=True)
        elif isinstance(row, SkippedPackets):
            self.add(source, row.first_offset, f"{row.packets} packets: {row.reason}", row.captured_bytes, fatal=False)
        elif isinstance(row, CapturedGap):
            self.add(source, row.origin.offset, row.reason, row.count, fatal=False)
        elif isinstance(row, CapturedResp) and isinstance(row.item, Unread):
            self.add(source, row.origin.offset, "bytes that are no value", row.item.count, fatal=False)
        elif isinstance(row, CapturedResp) and isinstance(row.item, DumpEnded) and not row.item.complete:
            self.add(source, row.origin.offset, "a dump whose end or part is not captured", None, fatal=False)


def resp_rows(files: Sequence[CaptureFile], bad: BadRecords) -> Iterator[tuple[str, RespRow]]:
    """The rows of a series with the file that each ended in; raises DecodeError as *bad* says."""
    capture, name, clocks = RespCapture(), "", PointClocks()
    for bundle in bundles(files):
        name = " + ".join(file.path for file in bundle)
        if bundle[0].is_json:
            bad.add(name, 0, "JSON lines hold bus messages, not client traffic", None, fatal=True)
            continue
        for source, packet in read_packets(bundle, clocks):
            rows = [packet] if isinstance(packet, CaptureProblem) else capture.handle(packet)
            for row in rows:
                bad.take(source, row)
                yield source, row
        for row in capture.end_source():
            bad.take(name, row)
            yield name, row
    for row in capture.finish():
        bad.take(name, row)
        yield name, row


def value_of(row: RespRow) -> dict[str, Any] | None:
    """The columns of ``RESP_FIELDS`` but the row's number; None for what is about no connection."""
    if not isinstance(row, CapturedResp | CapturedGap | ConnectionEvent):
        return None
    origin = row.origin
    opener = {INITIATOR: True, ACCEPTOR: False}.get(origin.direction)
    return {
        "ts_ns": origin.ts_ns, "packet": origin.packet, "offset": origin.offset, "connection": origin.connection,
        "from_opener": opener, "source_ip": origin.source.ip, "source_port": origin.source.port,
        "target_ip": origin.target.ip, "target_port": origin.target.port, **_content(row),
    }  # fmt: skip


def _content(row: CapturedResp | CapturedGap | ConnectionEvent) -> dict[str, Any]:
    if isinstance(row, ConnectionEvent):
        return {"kind": row.kind, "words": [], "elements": 0, "total_bytes": 0, "position": None}
    if isinstance(row, CapturedGap):
        return {"kind": "gap", "words": [], "elements": 0, "total_bytes": row.count, "position": None}
    item = row.item
    if isinstance(item, DumpBegun):
        return {"kind": "dump-begun", "words": [], "elements": 0, "total_bytes": item.announced, "position": item.end}
    if isinstance(item, DumpEnded):
        kind = {"kind": "dump-ended", "words": [item.head], "elements": 0}
        return {**kind, "total_bytes": item.received, "position": item.end}
    if isinstance(item, Unread):
        kind = {"kind": "unread", "words": [item.sample], "elements": 0}
        return {**kind, "total_bytes": item.count, "position": item.end}
    words = without_secrets(item.words)
    return {
        "kind": item.kind, "words": words, "elements": item.elements, "total_bytes": item.total, "position": item.end
    }  # fmt: skip


def without_secrets(words: Sequence[bytes]) -> list[bytes]:
    """The words of a command, passwords left out: AUTH, HELLO … AUTH, MIGRATE … AUTH, ACL SETUSER, CONFIG SET of a password.

    >>> without_secrets([b"AUTH", b"user", b"secret"])
    [b'AUTH', b'***', b'***']
    """
    upper = [word.upper() for word in words[:3]]
    name = upper[0] if upper else b""
    start = len(words)
    if name == b"AUTH":
        start = 1
    elif name in (b"HELLO", b"MIGRATE"):
        found = [at for at, word in enumerate(words) if word.upper() in (b"AUTH", b"AUTH2")]
        start = found[0] + 1 if found else start
    elif upper[:2] == [b"ACL", b"SETUSER"] or (
        upper[:2] == [b"CONFIG", b"SET"] and any(word.lower() in _SECRET_SETTINGS for word in words[2::2])
    ):
        start = 3
    return [*words[:start], *[b"***"] * (len(words) - start)]


VALUES = pa.schema([*RESP_FIELDS, required("file", pa.string(), "capture file in which it ended")])
ROWS_PER_BATCH: Final = 5_000


class RespStreamReader(CaptureReader):
    """Decodes a series of captures of client ports."""

    schemas: ClassVar = {"values": VALUES, "bad": BAD}

    def batches(self, unit: tuple[CaptureFile, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        schema = self.arrow_schema()
        for rows in self._pieces(unit):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _pieces(self, files: tuple[CaptureFile, ...]) -> Iterator[list[dict[str, Any]]]:
        bad, rows, number = BadRecords(strict=not self.permissive), [], 0
        for file, row in resp_rows(files, bad):
            value = value_of(row) if self.rows == "values" else None
            if value is None:
                continue
            rows.append({"value_id": number, "ts": value["ts_ns"] // 1000, "file": file, **value})
            number += 1
            if len(rows) == ROWS_PER_BATCH:
                yield rows
                rows = []
        yield bad.listed if self.rows == "bad" else rows


class RespStreamDataSource(UnitSource):
    """The source named ``resp-stream``; see the module for its options."""

    format = "resp-stream"
    reads = RespStreamReader
