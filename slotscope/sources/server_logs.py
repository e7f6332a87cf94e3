"""Server logs: files by path or glob, and which node wrote each line.

A file holds the log of one node or of many (`cluster_core.formats.log_nodes`).  The node of a log is taken in this order from
the user (FILE=NODE: an id, ip:port or port), from its lines (``I'm <id>``, ``Running mode=cluster, port=7000``,
``IP address for this node updated to``), and, for a file of one node, from the address in the name of a recorded file
(`cluster_core.formats.landing`) or a port in its name (``7000.log``, ``redis-7000.log.gz``).  The id of a node may change
(CLUSTER RESET HARD): each line bears the id of its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import address_of
from cluster_core.formats.log_nodes import split_nodes
from cluster_core.formats.server_log import BadLine, LogReader, LogRow
from cluster_core.formats.shipped_lines import records_of
from cluster_core.topology.nodes_text import NODE_ID
from slotscope.runtime.errors import InputError
from slotscope.sources.files import InputFile, expand, is_named, read_pieces
from slotscope.sources.folder_kinds import LOGS

_WINDOW_BYTES = 1 << 20
DOCUMENT_BYTES_MAX = 256 << 20
"""A log that is one JSON document, not lines, is read whole."""
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
_PORT_IN_NAME = re.compile(r"(?<!\d)(\d{4,5})(?!\d)")
_PORT = re.compile(r"\d{1,5}")
_ADDRESS = re.compile(r"(?P<ip>.*):(?P<port>\d{1,5})")
_PORT_LINE = re.compile(r"cluster, port=(\d{1,5})")
_ROTATED = re.compile(r"(.+\.log)[.-](\d{1,3}|\d{8}[\d-]*)(?:\.gz|\.zst)?")


class LogOwner(NamedTuple):
    """The node that wrote a log: empty texts and 0 where unknown.  *how* is given, lines or name.

    *source* is the pod, container or host that a shipper names.
    """

    node_id: str = ""
    ip: str = ""
    port: int = 0
    how: str = ""
    source: str = ""

    @property
    def address(self) -> str | None:
        """``ip:port``; the shipper's name of the source without a port; None without either."""
        return f"{self.ip}:{self.port}" if self.port else self.source or None


class LogLine(NamedTuple):
    """A row of a log with the id of the node that wrote it (empty if unknown) and other facts about that node."""

    observer: str
    row: LogRow
    owner: LogOwner = LogOwner()


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How logs are read: the servers' time *zone*, FILE=NODE pairs *given*, whether bad lines are passed over or end it."""

    zone: str = "UTC"
    given: tuple[str, ...] = ()
    permissive: bool = False


def zone_of(name: str) -> tzinfo:
    """A time zone by name (Europe/Berlin, UTC) or offset (+01:00, -0530); raises InputError for anything else."""
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    match = _OFFSET.fullmatch(name)
    if match is not None and int(match[2]) <= 15 and int(match[3] or 0) < 60:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"unknown time zone {name!r}: write +01:00, or a name as Europe/Berlin") from error


def find_logs(patterns: Sequence[str], given: Sequence[str] = ()) -> list[InputFile]:
    """The files that *patterns* name; raises DecodeError for missing ones, InputError for FILE=NODE that names none."""
    files = expand(list(patterns), LOGS)
    for pair in given:
        file, sign, node = pair.rpartition("=")
        if not sign or not any(kind.fullmatch(node) for kind in (NODE_ID, _ADDRESS, _PORT)):
            raise InputError(f"{pair}: write FILE=NODE, NODE an id, an ip:port or a port")
        if not any(is_named(file, file_of_log.path) for file_of_log in files):
            raise InputError(f"--log-node {pair}: no log of that name is given")
    return files


def pairs_of(given: Sequence[str], paths: Iterable[str]) -> tuple[str, ...]:
    """Return the FILE=NODE pairs of *given* for logs in *paths*."""
    paths = list(paths)
    return tuple(pair for pair in given if any(is_named(pair.rpartition("=")[0], path) for path in paths))


def rotation_order(path: str) -> tuple[bool, int]:
    """Return the sort key of a log by age: rotated ones first, by falling number or rising date."""
    rotated = _ROTATED.fullmatch(path)
    digits = rotated[2].replace("-", "") if rotated else "0"
    return rotated is None, int(digits) if len(digits) >= 8 else -int(digits)


def owner_of(path: str, rows: Sequence[LogRow], given: Sequence[str] = ()) -> LogOwner:
    """Return the owner of the log *path* with the lines *rows*; the module gives the order of evidence."""
    for pair in given:
        file, _, node = pair.rpartition("=")
        if is_named(file, path):
            return _given(node)
    node_id = next((row.subject for row in rows if row.kind == "identity"), "")
    listening = (_PORT_LINE.search(row.detail) for row in rows if row.kind == "listening")
    port = next((int(match[1]) for match in listening if match), 0)
    ip = next((row.detail for row in rows if row.kind == "own-address"), "")
    recorded = address_of(path.rpartition("/")[2])
    if recorded is not None:
        return LogOwner(node_id, *recorded, "lines" if node_id else "name")
    if node_id or port:
        return LogOwner(node_id, ip, port or port_in_name(path), "lines")
    named = port_in_name(path)
    return LogOwner("", ip, named, "name") if named else LogOwner()


def _given(node: str) -> LogOwner:
    if NODE_ID.fullmatch(node):
        return LogOwner(node, how="given")
    match = _ADDRESS.fullmatch(node)
    ip, port = (match["ip"], match["port"]) if match else ("", node)
    return LogOwner("", ip, int(port), "given")


def port_in_name(path: str) -> int:
    """The only number of four or five digits in the name of a file that can be a port; 0 for none or several."""
    numbers = {int(digits) for digits in _PORT_IN_NAME.findall(path.rpartition("/")[2])}
    ports = [port for port in numbers if 1024 <= port <= 65535]
    return ports[0] if len(ports) == 1 else 0


class ServerLog:
    """One file: iterate over its lines, node by node.

    Raises DecodeError at the first bad line, unless *options* are permissive; then it is appended to *bad*.  Readable lines of
    other programs are counted in *foreign*; a file of nothing else is bad.  Holds the rows of one file that tell something.
    """

    def __init__(self, path: str, options: LogOptions, known: dict[str, LogOwner] | None = None) -> None:
        """Read *path*; *known* owners by the source that a shipper names, or by name and process of a rotated log, are those of
        earlier files, and get those of this one.
        """
        self.path = path
        self._known = {} if known is None else known
        self.bad: list[DecodeError] = []
        self.lines = 0
        self.foreign = 0
        self.owners: list[LogOwner] = []
        self._options = options

    @property
    def owner(self) -> LogOwner:
        """The node of a log of one node."""
        return self.owners[0] if len(self.owners) == 1 else LogOwner()

    def __iter__(self) -> Iterator[LogLine]:
        rows = list(self._rows())
        owner = owner_of(self.path, rows, self._options.given)
        if owner.how == "given":
            self.owners = [owner]
            yield from (LogLine(owner.node_id, row, owner) for row in rows)
            return
        logs, conflicts = split_nodes(rows)
        for conflict in conflicts:
            reason = f"line {conflict.row.line}: {conflict.reason}"
            self._refuse(DecodeError(reason, offset=conflict.row.offset, source=self.path), None)
        for log in logs:
            owner = owner_of(self.path if len(logs) == 1 else "", log.rows)._replace(source=log.source)
            rotated = _ROTATED.fullmatch(self.path)
            name = rotated[1] if rotated else self.path.removesuffix(".gz").removesuffix(".zst")
            keys = [log.source] if log.source else [f"{name}:{pid}" for pid in {row.pid for row in log.rows}]
            if not owner.node_id:
                owner = next((self._known[key] for key in keys if key in self._known), owner)
            self.owners.append(owner)
            observer = owner.node_id
            for row in log.rows:
                if row.kind == "identity":
                    observer = row.subject
                yield LogLine(observer, row, owner)
            if observer and (log.source or rotated):
                self._known |= dict.fromkeys(keys, owner._replace(node_id=observer))

    def _rows(self) -> Iterator[LogRow]:
        reader = LogReader(zone=zone_of(self._options.zone), events_only=True)
        for row in read_rows(self.path, reader, self._refuse, self._pass_over):
            self.lines += 1
            yield row
        self.lines += reader.passed

    def _pass_over(self, error: DecodeError) -> None:
        self.foreign += 1

    def _refuse(self, error: DecodeError, skipped_bytes: int | None) -> None:
        if not self._options.permissive:
            raise error
        self.bad.append(error)


def log_rows(path: str, zone: str, refuse: Callable[[DecodeError, int | None], None]) -> Iterator[LogRow]:
    """Yield the rows of a log of a server in time zone *zone*; see `read_rows`."""
    return read_rows(path, LogReader(zone=zone_of(zone)), refuse, lambda error: None)


def read_rows(
    path: str,
    reader: LogReader,
    refuse: Callable[[DecodeError, int | None], None],
    pass_over: Callable[[DecodeError], None] = lambda error: None,
) -> Iterator[LogRow]:
    """Yield the rows that *reader* makes of a log.

    *refuse* gets each bad line with its number of bytes, and the damage of a damaged file; it may raise.  *pass_over* gets
    readable lines of other programs; of a file of nothing else the first goes to *refuse*.
    """
    first: list[DecodeError] = []
    count = 0

    def good(rows: list[LogRow | BadLine]) -> Iterator[LogRow]:
        for row in rows:
            if isinstance(row, BadLine):
                error = DecodeError(f"line {row.line}: {row.reason}", offset=row.offset, source=path)
                if row.is_foreign:
                    first[:] = first or [error]
                    pass_over(error)
                else:
                    refuse(error, row.skipped_bytes)
            else:
                nonlocal count
                count += 1
                yield row

    try:
        for piece in _log_pieces(path):
            yield from good(reader.feed(piece))
    except DecodeError as error:
        refuse(error, None)
    yield from good(reader.finish())
    if first and not count and not reader.passed:
        refuse(first[0], None)


def _log_pieces(path: str) -> Iterator[bytes]:
    """The bytes of a log; of a log that is one JSON document its entries, one a line."""
    pieces = read_pieces(path, _WINDOW_BYTES)
    first = next(pieces, b"")
    if not _is_document(first):
        yield first
        yield from pieces
        return
    data = bytearray(first)
    for piece in pieces:
        data += piece
        if len(data) > DOCUMENT_BYTES_MAX:
            raise DecodeError(f"one JSON document of more than {DOCUMENT_BYTES_MAX} bytes", offset=0, source=path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):  # lines after all, the first of them damaged
        yield bytes(data)
        return
    for record in records_of(document):
        yield json.dumps(record).encode() + b"\n"


def _is_document(first: bytes) -> bool:
    """Whether a file that begins so is one JSON document, and not JSON lines or text."""
    start = first.lstrip()[:1]
    if start == b"{":
        try:
            entry = json.loads(first.lstrip().partition(b"\n")[0])
        except (ValueError, RecursionError):
            return True
        return isinstance(entry, dict) and any(True for _ in records_of(entry))
    return start == b"[" and first.lstrip()[1:].lstrip()[:1] in (b"{", b"]")
