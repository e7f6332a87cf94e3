"""Landing: a folder of recorded files with a log of gaps.

``slotscope record`` writes it, as do log shippers and scheduled Prometheus queries; followers read it::

    LANDING/<cluster>/<point>/bus/20261122T233600.000000Z_20261122T233700.004711Z.pcap.gz
    LANDING/<cluster>/<point>/logs/10.0.0.1_7000-20261122T233601.200000Z_20261122T233700.101010Z.log.gz
    LANDING/<cluster>/<point>/logs/1764338460-3f2a.log.gz (time of the upload)
    LANDING/<cluster>/<point>/metrics/1764338460.json.gz
    LANDING/<cluster>/<point>/gaps.jsonl

File names give start and end in UTC by the host's clock; names of logs start with the node. A file with such a name is
complete and immutable; the names of files being written start with a dot. ``gaps.jsonl`` is append-only: ``"to": null``
opens a gap at *from*, and a later line with the same kind, reason, subject and *from* closes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.instants import time_ns, write_instant

GAPS_FILE: Final = "gaps.jsonl"
SOURCE_CHARS_MAX: Final = 100
TEXT_CHARS_MAX: Final = 500
"""Maximum characters of a subject or detail."""
_PARTIAL: Final = ".partial"
_TIME: Final = "%Y%m%dT%H%M%S.%fZ"
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """Kind of recorded data; also its folder name."""

    BUS = "bus"
    POLLS = "polls"
    SLOT_STATS = "slot-stats"
    LOGS = "logs"
    METRICS = "metrics"


SUFFIXES: Final = {
    Kind.BUS: "pcap", Kind.POLLS: "jsonl", Kind.SLOT_STATS: "jsonl", Kind.LOGS: "log", Kind.METRICS: "json",
}  # fmt: skip
SHIPPED: Final = (Kind.LOGS, Kind.METRICS)
"""Kinds that other programs than `slotscope record` write; their file names need a time only."""
_INSTANT: Final = r"\d{8}T\d{6}\.\d{6}Z"
_BEGUN: Final = rf"(?:(?P<source>[A-Za-z0-9_][\w.-]*)-)?(?P<begin>{_INSTANT})"
_ENDING: Final = r"\.(?P<suffix>pcap|jsonl|json|log)\.gz"
_FINISHED: Final = re.compile(rf"{_BEGUN}_(?P<end>{_INSTANT}){_ENDING}", re.ASCII)
_UNFINISHED: Final = re.compile(rf"\.{_BEGUN}{_ENDING}{re.escape(_PARTIAL)}", re.ASCII)
_SHIPPED: Final = re.compile(
    r"(?!\.)(?:.*?[^\d])??(?:(?P<seconds>\d{10})|(?P<date>\d{4}-?\d\d-?\d\d)[T_-]?(?P<time>\d\d[:-]?\d\d[:-]?\d\d))(?!\d).*\.gz",
    re.ASCII,
)
"""A file of a shipper: the first time in its name is that of the upload, in UTC."""
_ADDRESS: Final = re.compile(r"(?P<ip>[\da-fA-F.-]{2,45})_(?P<port>\d{1,5})", re.ASCII)


class RecordedFile(NamedTuple):
    """Parsed file name: *source* is the node, empty if not given; *to_ns* is None while the file is being written."""

    source: str
    from_ns: int
    to_ns: int | None
    suffix: str

    @property
    def name(self) -> str:
        """Return the file name."""
        start = f"{self.source}-" * bool(self.source) + _time_text(self.from_ns)
        if self.to_ns is None:
            return f".{start}.{self.suffix}.gz{_PARTIAL}"
        return f"{start}_{_time_text(self.to_ns)}.{self.suffix}.gz"


class RecordedPlace(NamedTuple):
    """Location of a finished file in a landing: ``…/<cluster>/<point>/<kind>/<name>``."""

    cluster: str
    point: str
    kind: Kind
    file: RecordedFile


def read_path(path: str) -> RecordedPlace | None:
    """Parse the path of a finished file of a landing; None for other paths.

    >>> read_path("/landing/c17/host-3/bus/20261122T233600.000000Z_20261122T233700.004711Z.pcap.gz").point
    'host-3'
    """
    *_, cluster, point, kind, name = ["", "", "", *path.split("/")]
    recorded = read_name(name) or (_shipped(name, Kind(kind)) if kind in SHIPPED else None)
    if not (cluster and point) or recorded is None or recorded.to_ns is None or kind not in SUFFIXES:
        return None
    if recorded.suffix != SUFFIXES[Kind(kind)]:
        return None
    return RecordedPlace(cluster, point, Kind(kind), recorded)


def read_name(name: str) -> RecordedFile | None:
    """Parse a file name of a landing; None for other names."""
    match = _FINISHED.fullmatch(name) or _UNFINISHED.fullmatch(name)
    if match is None:
        return None
    try:
        ends = match.groupdict().get("end")
        from_ns, to_ns = _read_time(match["begin"]), None if ends is None else _read_time(ends)
    except ValueError:
        return None
    return RecordedFile(match["source"] or "", from_ns, to_ns, match["suffix"])


def _shipped(name: str, kind: Kind) -> RecordedFile | None:
    """Parse the name of a complete file of a shipper; None for one without a time."""
    match = _SHIPPED.fullmatch(name)
    if match is None:
        return None
    try:
        digits = re.sub(r"\D", "", f"{match['date']}{match['time']}")
        ns = int(match["seconds"]) * 1_000_000_000 if match["seconds"] else _read_time(f"{digits[:8]}T{digits[8:]}.0Z")
    except ValueError:
        return None
    return RecordedFile("", ns, ns, SUFFIXES[kind])


def source_of(name: str) -> str:
    """Convert an address or file name to the source part of a name.

    >>> source_of("10.0.0.1:7000"), source_of("[fd00::1]:7000"), source_of("../a b.log")
    ('10.0.0.1_7000', 'fd00--1_7000', 'a_b.log')
    """
    host, sign, port = name.rpartition(":")
    if sign and port.isdigit():
        name = f"{host.strip('[]').replace(':', '-')}_{port}"
    return re.sub(r"[^A-Za-z0-9.-]", "_", name)[-SOURCE_CHARS_MAX:].strip("._-") or "unnamed"


def address_of(name: str) -> tuple[str, int] | None:
    """Return IP and port of the node in a file name; None without an address.

    >>> address_of("10.0.0.1_7000-20261122T233601.200000Z_20261122T233700.101010Z.log.gz")
    ('10.0.0.1', 7000)
    """
    recorded = read_name(name)
    match = _ADDRESS.fullmatch(recorded.source) if recorded is not None else None
    if match is None or int(match["port"]) > 65535:
        return None
    return match["ip"].replace("-", ":"), int(match["port"])


def _time_text(ts_ns: int) -> str:
    return (_START + timedelta(microseconds=ts_ns // 1000)).strftime(_TIME)


def _read_time(text: str) -> int:
    return (datetime.strptime(text, _TIME).replace(tzinfo=UTC) - _START) // timedelta(microseconds=1) * 1000


class Reason(StrEnum):
    """Reason for a gap in the recording."""

    NOT_RUNNING = "not-running"
    """The recorder was stopped or not yet listening."""
    DROPPED = "dropped-by-kernel"
    """The kernel dropped *missed* packets that were not read in time."""
    PROGRAM = "capture-failed"
    """The capture program failed to start (permission, interface) or exited; *detail* is its last message."""
    UNREACHABLE = "unreachable"
    """A node did not answer."""
    REFUSED = "refused"
    """A node refused this request."""
    LOG_MISSING = "log-missing"
    LOG_LOST = "log-lost"
    """Both in landings of recorders that followed logs."""
    DISK_FULL = "disk-full"
    NOT_UPLOADED = "not-uploaded"
    """A finished file was deleted for lack of space before its upload; *subject* is its name."""
    TORN = "torn"
    """The end of a partial file of a killed recorder is unreadable."""


class Gap(NamedTuple):
    """A gap of the recording from *from_ns* to *to_ns* (None: still open)."""

    kind: Kind
    from_ns: int
    to_ns: int | None
    reason: Reason
    subject: str = ""
    """A node or file; empty for all files of the kind."""
    detail: str = ""
    missed: int | None = None
    """Number of packets, if counted."""

    @property
    def identity(self) -> tuple[Kind, Reason, str, int]:
        """Return the key shared by all lines of one gap; times in microseconds."""
        return self.kind, self.reason, self.subject, self.from_ns // 1000

    def line(self) -> str:
        """Return one line of JSON with line feed."""
        record: dict[str, Any] = {
            "kind": self.kind,
            "from": write_instant(self.from_ns),
            "to": None if self.to_ns is None else write_instant(self.to_ns),
            "reason": self.reason,
            "subject": self.subject[:TEXT_CHARS_MAX],
            "detail": self.detail[:TEXT_CHARS_MAX],
        }
        return json.dumps(record | ({"missed": self.missed} if self.missed is not None else {})) + "\n"


def read_gap(raw: bytes, *, line: int) -> Gap:
    """Parse one line; raises DecodeError with offset *line*."""
    try:
        record = json.loads(raw)
        begin, end = time_ns(record["from"]), time_ns(record["to"])
        if begin is None or (end is None and record["to"] is not None):
            raise ValueError("the time is missing or cannot be parsed")
        count = record.get("missed")
        return Gap(
            Kind(record["kind"]), begin, end, Reason(record["reason"]), str(record.get("subject", "")), str(record.get("detail", "")),
            count if isinstance(count, int) else None,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DecodeError(f"not a gap: {type(error).__name__}", offset=line, source="<gaps>") from error


def latest(gaps: Iterable[Gap]) -> list[Gap]:
    """Return the latest state of each gap, in order of first appearance."""
    return list({gap.identity: gap for gap in gaps}.values())
