"""Print captured messages of the cluster bus: a line each, as tshark, or JSON lines; needs no Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from cyclopts import Parameter

from cluster_core.errors import DecodeError
from cluster_core.formats.capture import bus_capture as seen
from cluster_core.formats.capture.bus_capture import (
    BusCapture,
    CapturedGap,
    CapturedMessage,
    CapturedUnknown,
    ConnectionEvent,
    Row,
)
from cluster_core.formats.capture.bus_lines import RowFilter, row_to_line
from cluster_core.formats.capture.packet import CaptureProblem
from cluster_core.instants import time_ns
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.wire import bus_message as wire
from cluster_core.wire.bus_message import TYPE_NAMES
from slotscope.options import Flag, Paths, Plain, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.text import printable, shown
from slotscope.sources.bus.capture_points import PointClocks
from slotscope.sources.bus.files import CaptureFile, bundles, find_captures, read_packets, survey

OTHER_TYPES = ("connection", "unknown", "gap")
ID_CHARS: Final = 8
LINE_CHARS_MAX: Final = 400
CHANNEL_CHARS_MAX: Final = 40
_WORDS: Final = {
    NodeFlags.MYSELF: "",
    NodeFlags.MASTER: "master",
    NodeFlags.REPLICA: "slave",
    NodeFlags.PFAIL: "fail?",
    NodeFlags.FAIL: "fail",
    NodeFlags.HANDSHAKE: "handshake",
    NodeFlags.NOADDR: "noaddr",
    NodeFlags.MEET: "meet",
    NodeFlags.MIGRATE_TO: "",
    NodeFlags.NOFAILOVER: "nofailover",
    NodeFlags.EXTENSIONS_SUPPORTED: "",
    NodeFlags.LIGHT_HEADER_PUBLISH: "",
    NodeFlags.LIGHT_HEADER_MODULE: "",
    NodeFlags.MY_PRIMARY_FAIL: "my-primary-fail",
}
"""Flags of the state of a node; the others are capabilities of its server."""


@options
class Request(Plain):
    """Options of `slotscope lab bus-dump`."""

    node: Paths = ()
    """Messages from or to a node: id, id prefix, port, address or address:port"""
    type: Paths = ()
    """Types: ping, pong, meet, fail, publish, auth-req, auth-ack, update, mfstart, module, publishshard, type-N, connection, unknown, gap"""
    since: str | None = None
    """Start time: ISO 8601 (default UTC), or s, ms, µs, ns since 1970"""
    until: str | None = None
    """End time, exclusive"""
    stream: Annotated[tuple[int, ...], Parameter(consume_multiple=1, show_default=False)] = ()
    """Number of a TCP connection (see --json)"""
    subject: Paths = ()
    """Messages about a node: FAIL, UPDATE, forgotten, or gossip with a failure flag"""
    connections: Flag = False
    """Opened and closed connections too"""
    relative: Flag = False
    """Times in seconds since the first line"""
    json: Flag = False
    """Output as JSON lines, connections included"""
    limit: int | None = None
    """Maximum number of rows"""


def command(*pcap: str, request: Request = Request()) -> int | None:
    """Show the messages of captures of the cluster bus, one line each.

    A line is: time, from > to (addresses), sender > receiver (ids), type, current/config epoch of the sender, its role and
    flags, slots, gossip entries (those marked PFAIL or FAIL are named), extensions.  Bytes that are no message,
    gaps and damage have lines too; with any of those the exit code is 3.

    Parameters
    ----------
    pcap
        Captures (pcap, pcapng): files, globs, folders, URIs, gzip, zstd
    """
    if not pcap:
        raise InputError("nothing to read: name captures")
    wanted = RowFilter(
        request.node, _types(request.type), _time(request.since), _time(request.until), request.stream, request.subject
    )
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") not in ("utf8", "utf16")
    text = BusText(relative=request.relative, ascii_only=ascii_only)
    shows_connections = request.json or request.connections or "connection" in wanted.types
    clocks = PointClocks()
    rows = (row for row in _checked(read_rows(pcap, clocks)) if wanted.keeps(row))
    shown = damaged = False
    for row in _limited(
        (row for row in rows if shows_connections or not isinstance(row, ConnectionEvent)), request.limit
    ):
        sys.stdout.write(f"{row_to_line(row) if request.json else text.line(row)}\n")
        damaged = damaged or is_damage(row)
        shown = True
    for note in clocks.notes:
        sys.stderr.write(f"slotscope: {printable(note.text)}\n")
    if not shown:
        sys.stderr.write("slotscope: no row is as wanted\n")
    return cli.PARTIAL if damaged else None


def is_damage(row: Row) -> bool:
    """Whether a row tells of something that could not be read."""
    if isinstance(row, CapturedMessage):
        return not row.is_whole or row.decode().rest is not None
    return isinstance(row, CapturedUnknown | CapturedGap | CaptureProblem)


def _checked(rows: Iterator[tuple[str, Row]]) -> Iterator[Row]:
    """The rows; raises DecodeError if there is nothing but problems: such a file is no capture at all."""
    problems: list[tuple[str, CaptureProblem]] = []
    for path, row in rows:
        if isinstance(row, CaptureProblem):
            problems.append((path, row))
            continue
        yield from (problem for _, problem in problems)
        yield row
        break
    else:
        if problems:
            path, problem = problems[0]
            raise DecodeError(problem.reason, offset=problem.offset, source=path)
    yield from (row for _, row in rows)


def _limited(rows: Iterable[Row], limit: int | None) -> Iterator[Row]:
    if limit is not None and limit < 1:
        raise InputError("--limit must be 1 or more")
    for number, row in enumerate(rows, 1):
        yield row
        if number == limit:
            return


def _types(words: Sequence[str]) -> tuple[str, ...]:
    known = (*TYPE_NAMES, *OTHER_TYPES)
    for word in words:
        if word.lower() not in known and not (word.startswith("type-") and word[5:].isdigit()):
            raise InputError(f"--type {word}: no such type; there are {', '.join(known)}")
    return tuple(word.lower() for word in words)


def _time(words: str | None) -> int | None:
    if words is None:
        return None
    moment = time_ns(words)
    if moment is None:
        raise InputError(f"{words}: not a time; write 2026-11-21T10:11:12.5 or seconds since the epoch")
    return moment


def read_rows(patterns: Sequence[str], clocks: PointClocks) -> Iterator[tuple[str, Row]]:
    """The rows of a series of captures with the file that each ended in.

    What is found of the clocks of several points is noted in *clocks*.  Raises DecodeError for files that are not there;
    damage in a file is a row (`CaptureProblem`).
    """
    capture = BusCapture()
    name = ""
    for bundle in bundles(survey(find_captures(patterns))):
        name = " + ".join(file.path for file in bundle)
        for row in _packets(bundle, capture, clocks):
            yield name, row
    for row in capture.finish():
        yield name, row


def _packets(bundle: Sequence[CaptureFile], capture: BusCapture, clocks: PointClocks) -> Iterator[Row]:
    for _, packet in read_packets(bundle, clocks):
        yield from [packet] if isinstance(packet, CaptureProblem) else capture.handle(packet)
    yield from capture.end_source()


class BusText:
    """Turns rows into lines; times are UTC, or seconds since the first row that was given (*relative*)."""

    def __init__(self, *, relative: bool = False, ascii_only: bool = False) -> None:
        self._relative = relative
        self._ascii_only = ascii_only
        self._first_ns: int | None = None

    def line(self, row: seen.Row) -> str:
        """The line of a row."""
        return printable(self._text(row), LINE_CHARS_MAX, ascii_only=self._ascii_only)

    def _text(self, row: seen.Row) -> str:
        match row:
            case seen.CapturedMessage():
                message = row.decode()
                words = f"{_peers(row)}  {message.name:<12} {self._summary(row, message)}"
                return f"{self._place(row.origin)}  {words}"
            case seen.CapturedUnknown():
                sample = shown(row.sample, CHANNEL_CHARS_MAX, ascii_only=self._ascii_only)
                words = f"{row.count} bytes are no bus message: {row.looks_like or 'unknown'}; they begin {sample}"
                return f"{self._place(row.origin)}  UNKNOWN      {words}"
            case seen.CapturedGap():
                count = "an unknown number of" if row.count is None else row.count
                return f"{self._place(row.origin)}  GAP          {count} bytes were not captured: {row.reason}"
            case seen.ConnectionEvent():
                return f"{self._place(row.origin)}  {row.kind.upper()}"
            case seen.SkippedPackets():
                return f"-- {row.packets} packets skipped: {row.reason}; the first at byte {row.first_offset}"
            case CaptureProblem():
                return f"-- byte {row.offset}: {row.reason}"

    def _place(self, origin: seen.Origin) -> str:
        self._first_ns = origin.ts_ns if self._first_ns is None else self._first_ns
        at = f"{(origin.ts_ns - self._first_ns) / 1e9:>12.6f}" if self._relative else moment_text(origin.ts_ns)
        return f"{at}  {_endpoint(origin.source)} > {_endpoint(origin.target)}"

    def _summary(self, row: seen.CapturedMessage, message: wire.Message) -> str:
        words = []
        header = message.header
        if isinstance(header, wire.Header):
            words += [f"epoch {header.current_epoch}/{header.config_epoch}", flag_words(header.flags)]
            words += [f"of {header.replicaof[:ID_CHARS]}"] if header.replicaof else []
            words += ["state fail"] if header.state else []
            words += [
                flag.name or "" for flag in wire.MessageFlag if header.mflags[0] & flag and flag.name != "EXT_DATA"
            ]
            words.append(f"slots {len(header.slots)}")
        elif isinstance(header, wire.PartialHeader) and header.peek.sender is not None:
            words.append(f"epoch {header.peek.current_epoch}/{header.peek.config_epoch}")
        elif isinstance(header, wire.LightHeader):
            words.append("light")
        words += self._body(message)
        if not row.is_whole:
            words.append(f"cut off: {len(row.raw)} of {row.totlen} bytes captured")
        if message.rest is not None:
            words.append(f"{len(message.rest.raw)} bytes behind it: {message.rest.reason}")
        return "  ".join(words)

    def _body(self, message: wire.Message) -> list[str]:
        match message.body:
            case wire.Gossip(entries, extensions):
                doubted = [entry for entry in entries if entry.flags & (NodeFlags.PFAIL | NodeFlags.FAIL)]
                marks = ", ".join(f"{entry.node[:ID_CHARS]} {flag_words(entry.flags)}" for entry in doubted[:5])
                names = ", ".join(dict.fromkeys(extension.name for extension in extensions))
                gossip = [f"gossip {len(entries)}" + (f" ({marks})" if marks else "")]
                return gossip + ([f"ext {names}"] if names else [])
            case wire.Fail(node):
                return [f"about {node[:ID_CHARS]}"]
            case wire.Update() as update:
                return [f"about {update.node[:ID_CHARS]} epoch {update.config_epoch} slots {len(update.slots)}"]
            case wire.Publish(channel, payload):
                name = shown(channel, CHANNEL_CHARS_MAX, ascii_only=self._ascii_only)
                return [f"channel {name}  {len(payload)} bytes"]
            case wire.Module(module_id, kind, payload):
                return [f"module {module_id.hex()} type {kind}  {len(payload)} bytes"]
            case wire.Unknown(b"", _):  # reported as cut off
                return []
            case wire.Unknown(raw, reason):
                return [f"{len(raw)} bytes not understood: {reason}"]
            case _:
                return []


def moment_text(ts_ns: int) -> str:
    """A time in UTC with microseconds; one that no calendar holds as its number."""
    try:
        second = datetime.fromtimestamp(ts_ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ts_ns} ns"
    return f"{second:%Y-%m-%dT%H:%M:%S}.{ts_ns % 1_000_000_000 // 1000:06d}Z"


def flag_words(flags: int) -> str:
    """The flags of a node as words.

    >>> flag_words(0x111), flag_words(0x3c12), flag_words(0x8001)
    ('master', 'slave,my-primary-fail', 'master,0x8000')
    """
    words = [word for flag, word in _WORDS.items() if flags & flag and word]
    unknown = flags & ~int(sum(_WORDS))
    return ",".join([*words, *([f"0x{unknown:x}"] if unknown else [])]) or "noflags"


def _endpoint(endpoint: seen.Endpoint) -> str:
    return f"[{endpoint.ip}]:{endpoint.port}" if ":" in endpoint.ip else f"{endpoint.ip}:{endpoint.port}"


def _peers(row: seen.CapturedMessage) -> str:
    return f"{row.sender[:ID_CHARS] or '?':<8} > {row.receiver[:ID_CHARS] or '?':<8}"


if __name__ == "__main__":
    cli.main(command)
