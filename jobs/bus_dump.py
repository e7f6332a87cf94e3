"""Print captured messages of the cluster bus: a line each, as tshark, or JSON lines for ``history``; needs no Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import CapturedGap, CapturedMessage, CapturedUnknown, ConnectionEvent, Row
from cluster_core.formats.capture.bus_lines import RowFilter, row_to_line
from cluster_core.formats.capture.packet import CaptureProblem
from cluster_core.instants import time_ns
from cluster_core.wire.bus_message import TYPE_NAMES
from slotscope.options import Flag, Paths, Plain, options
from slotscope.reports.bus_text import BusText
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.text import printable
from slotscope.sources.bus.capture_points import PointClocks
from slotscope.sources.bus.rows import read_rows


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
    """Number of a TCP connection (see --verbose)"""
    subject: Paths = ()
    """Messages about a node: FAIL, UPDATE, forgotten, or gossip with a failure flag"""
    connections: Flag = False
    """Opened and closed connections too"""
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"), negative=(), show_default=False)] = False
    """Complete content of each message"""
    relative: Flag = False
    """Times in seconds since the first line"""
    json: Flag = False
    """Output as JSON lines for history, connections included"""
    limit: int | None = None
    """Maximum number of rows"""


OTHER_TYPES = ("connection", "unknown", "gap")


def command(*pcap: str, request: Request = Request()) -> int | None:
    """Show the messages of captures of the cluster bus, one line each.

    A line is: time, from > to (addresses), sender > receiver (ids), type, current/config epoch of the sender, its role and
    flags, slots, gossip entries (those that it holds for failing are named), extensions.  Bytes that are no message,
    gaps and damage have lines too; with any of those the exit code is 3.

    Parameters
    ----------
    pcap
        Captures (pcap, pcapng) or JSON lines: files, globs, folders, URIs, gzip, zstd
    """
    if not pcap:
        raise InputError("nothing to read: name captures")
    wanted = RowFilter(
        request.node, _types(request.type), _time(request.since), _time(request.until), request.stream, request.subject
    )
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") not in ("utf8", "utf16")
    text = BusText(details=request.verbose, relative=request.relative, ascii_only=ascii_only)
    shows_connections = request.json or request.connections or "connection" in wanted.types
    clocks = PointClocks()
    rows = (row for row in _checked(read_rows(pcap, clocks)) if wanted.keeps(row))
    shown = damaged = False
    for row in _limited(
        (row for row in rows if shows_connections or not isinstance(row, ConnectionEvent)), request.limit
    ):
        lines = [row_to_line(row)] if request.json else text.lines(row)
        sys.stdout.write("\n".join(lines) + "\n")
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


if __name__ == "__main__":
    cli.main(command)
