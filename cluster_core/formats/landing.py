"""A landing: names of recorded files, and lines that say what could not be recorded.

``slotscope record`` writes it and followers read it::

    LANDING/<cluster>/<point>/bus/20261122T233600.000000Z_20261122T233700.004711Z.pcap.gz
    LANDING/<cluster>/<point>/logs/10.0.0.1_7000-20261122T233601.200000Z_20261122T233700.101010Z.log.gz
    LANDING/<cluster>/<point>/gaps.jsonl

A name holds when the file was begun and ended, in UTC by the clock of the host; a log's begins with whose it is.  A file of such a name is complete
and never changes.  One that is being written has a name that begins with a dot.  ``gaps.jsonl`` is added to: a line with ``"to": null`` says that
something cannot be recorded since *from*; a later line of the same kind, reason, subject and *from* says until when.
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
"""Of a subject or a detail."""
_PARTIAL: Final = ".partial"
_TIME: Final = "%Y%m%dT%H%M%S.%fZ"
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """What is recorded; also the name of its folder."""

    BUS = "bus"
    POLLS = "polls"
    SLOT_STATS = "slot-stats"
    LOGS = "logs"


SUFFIXES: Final = {Kind.BUS: "pcap", Kind.POLLS: "jsonl", Kind.SLOT_STATS: "jsonl", Kind.LOGS: "log"}
_INSTANT: Final = r"\d{8}T\d{6}\.\d{6}Z"
_BEGUN: Final = rf"(?:(?P<source>[A-Za-z0-9_][\w.-]*)-)?(?P<begin>{_INSTANT})"
_ENDING: Final = r"\.(?P<suffix>pcap|jsonl|log)\.gz"
_FINISHED: Final = re.compile(rf"{_BEGUN}_(?P<end>{_INSTANT}){_ENDING}", re.ASCII)
_UNFINISHED: Final = re.compile(rf"\.{_BEGUN}{_ENDING}{re.escape(_PARTIAL)}", re.ASCII)
_ADDRESS: Final = re.compile(r"(?P<ip>[\da-fA-F.-]{2,45})_(?P<port>\d{1,5})", re.ASCII)


class RecordedFile(NamedTuple):
    """What a name says: *source* is whose it is, empty where that is not said; *to_ns* is None while it is written."""

    source: str
    from_ns: int
    to_ns: int | None
    suffix: str

    @property
    def name(self) -> str:
        """The name of the file."""
        begun = f"{self.source}-" * bool(self.source) + _time_text(self.from_ns)
        if self.to_ns is None:
            return f".{begun}.{self.suffix}.gz{_PARTIAL}"
        return f"{begun}_{_time_text(self.to_ns)}.{self.suffix}.gz"


class RecordedPlace(NamedTuple):
    """Where in a landing a finished file lies: ``…/<cluster>/<point>/<kind>/<name>``."""

    cluster: str
    point: str
    kind: Kind
    file: RecordedFile


def read_path(path: str) -> RecordedPlace | None:
    """What the path of a finished file of a landing says; None for any other path.

    >>> read_path("/landing/c17/host-3/bus/20261122T233600.000000Z_20261122T233700.004711Z.pcap.gz").point
    'host-3'
    """
    *_, cluster, point, kind, name = ["", "", "", *path.split("/")]
    recorded = read_name(name)
    if not (cluster and point) or recorded is None or recorded.to_ns is None or kind not in SUFFIXES:
        return None
    if recorded.suffix != SUFFIXES[Kind(kind)]:
        return None
    return RecordedPlace(cluster, point, Kind(kind), recorded)


def read_name(name: str) -> RecordedFile | None:
    """What the name of a file in a landing says; None for one that no recorder gives."""
    match = _FINISHED.fullmatch(name) or _UNFINISHED.fullmatch(name)
    if match is None:
        return None
    try:
        ends = match.groupdict().get("end")
        from_ns, to_ns = _read_time(match["begin"]), None if ends is None else _read_time(ends)
    except ValueError:
        return None
    return RecordedFile(match["source"] or "", from_ns, to_ns, match["suffix"])


def source_of(words: str) -> str:
    """*words*, an address or the name of a file, as the source in a name.

    >>> source_of("10.0.0.1:7000"), source_of("[fd00::1]:7000"), source_of("../a b.log")
    ('10.0.0.1_7000', 'fd00--1_7000', 'a_b.log')
    """
    host, sign, port = words.rpartition(":")
    if sign and port.isdigit():
        words = f"{host.strip('[]').replace(':', '-')}_{port}"
    return re.sub(r"[^A-Za-z0-9.-]", "_", words)[-SOURCE_CHARS_MAX:].strip("._-") or "unnamed"


def address_of(name: str) -> tuple[str, int] | None:
    """IP and port of the node whose file of a landing *name* is; None if it does not say.

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


def _read_time(words: str) -> int:
    return (datetime.strptime(words, _TIME).replace(tzinfo=UTC) - _START) // timedelta(microseconds=1) * 1000


class Reason(StrEnum):
    """Why something could not be recorded."""

    NOT_RUNNING = "not-running"
    """The recorder was not running, or not yet listening."""
    DROPPED = "dropped-by-kernel"
    """The kernel had packets that were not read in time; *missed* of them."""
    PROGRAM = "capture-failed"
    """The capture program could not start (not permitted, no such interface), or ended; *detail* is its last word."""
    UNREACHABLE = "unreachable"
    """A node did not answer."""
    REFUSED = "refused"
    """A node answered, but not this question."""
    LOG_MISSING = "log-missing"
    LOG_LOST = "log-lost"
    """A log was rotated and removed before it was read."""
    DISK_FULL = "disk-full"
    NOT_UPLOADED = "not-uploaded"
    """A finished file had to go for want of room before the store took it; *subject* is its name."""
    TORN = "torn"
    """The end of a half-written file of a killed recorder could not be read."""


class Gap(NamedTuple):
    """What could not be recorded from *from_ns* to *to_ns* (None: it still cannot)."""

    kind: Kind
    from_ns: int
    to_ns: int | None
    reason: Reason
    subject: str = ""
    """A node or a file; empty for all of the kind."""
    detail: str = ""
    missed: int | None = None
    """Packets, where they were counted."""

    @property
    def identity(self) -> tuple[Kind, Reason, str, int]:
        """What a later line about the same has in common with this one; times to the microsecond."""
        return self.kind, self.reason, self.subject, self.from_ns // 1000

    def line(self) -> str:
        """One line of JSON, with its line feed."""
        told: dict[str, Any] = {
            "kind": self.kind,
            "from": write_instant(self.from_ns),
            "to": None if self.to_ns is None else write_instant(self.to_ns),
            "reason": self.reason,
            "subject": self.subject[:TEXT_CHARS_MAX],
            "detail": self.detail[:TEXT_CHARS_MAX],
        }
        return json.dumps(told | ({"missed": self.missed} if self.missed is not None else {})) + "\n"


def read_gap(raw: bytes, *, line: int, source: str = "<gaps>") -> Gap:
    """Read one line; raises DecodeError whose offset is *line*."""
    try:
        told = json.loads(raw)
        begin, end = time_ns(told["from"]), time_ns(told["to"])
        if begin is None or (end is None and told["to"] is not None):
            raise ValueError("no time that is understood")
        count = told.get("missed")
        return Gap(
            Kind(told["kind"]), begin, end, Reason(told["reason"]), str(told.get("subject", "")), str(told.get("detail", "")),
            count if isinstance(count, int) else None,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DecodeError(f"not a gap: {type(error).__name__}", offset=line, source=source) from error


def latest(gaps: Iterable[Gap]) -> list[Gap]:
    """Each gap once, as its last line says it, in the order of the first ones."""
    return list({gap.identity: gap for gap in gaps}.values())
