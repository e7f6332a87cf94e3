"""Server logs as rows: prefix, time and event of each line, in all forms that Redis and Valkey write (R160).

A line is ``pid:role time level text`` with role M (master), S (replica), C (child) or X (sentinel) and level ``.``
(debug), ``-`` (verbose), ``*`` (notice) or ``#`` (warning), or from Valkey 8.1 the same as logfmt
(``log-format logfmt``).  The time is ``21 Nov 2026 10:11:12.345`` in the server's local time, which the log does not
name, or with ``log-timestamp-format`` ISO 8601 with its offset, or milliseconds since the epoch.  What a forwarder
(journald, ``docker logs -t``) wrote before the pid is skipped.

Local time is ambiguous when clocks are set back: such a line is taken for the first of its two instants unless the
lines before it were later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from cluster_core.formats.log_events import NOTHING, event_of
from cluster_core.kinds import EventKind

LINE_BYTES_MAX: Final = 1 << 20
"""Longer lines are no log."""
TEXT_CHARS_MAX: Final = 2000
"""Texts are cut there; no event is longer."""
FORWARDER_CHARS_MAX: Final = 200
STEP_BACK_NS: Final = 60_000_000_000
"""Clocks are adjusted by less than this; more, in the hour that comes twice, is its second time."""

ROLES: Final = {"primary": "M", "master": "M", "replica": "S", "slave": "S", "RDB/AOF": "C", "sentinel": "X"}
LEVELS: Final = {".": "debug", "-": "verbose", "*": "notice", "#": "warning"}
_LEVEL_WORDS: Final = {"info": "verbose", **{word: word for word in LEVELS.values()}}
"""Words of logfmt, which calls verbose "info"."""

_LOCAL = r"(?P<day>\d{1,2} [A-Z][a-z]{2} \d{4}) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.(?P<milli>\d{3})"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:[+-]\d\d:?\d\d|Z)"
_TIME = rf"(?:{_LOCAL}|(?P<iso>{_ISO})|(?P<ms>\d{{10,15}}))"
_PLAIN: Final = re.compile(rf"(?P<pid>\d{{1,10}}):(?P<role>[A-Z]) {_TIME} (?P<level>[.\-*#]) ?(?P<text>.*)", re.DOTALL)
_LOGFMT: Final = re.compile(
    rf'pid=(?P<pid>\d{{1,10}}) role=(?P<role>\S+) timestamp="{_TIME}" level=(?P<level>\w+) message="(?P<text>.*)"',
    re.DOTALL,
)
_SIGNAL: Final = re.compile(r"\d{1,10}:signal-handler \(\d+\) ")
_REPORT_START: Final = re.compile(r"=== \w+ BUG REPORT START")
_REPORT_END: Final = re.compile(r"=== \w+ BUG REPORT END")
_BANNER_LETTERS: Final = frozenset(" _.-`',|\\/()<>")
_BANNER_WORDS: Final = re.compile(
    r"(?:Redis|Valkey) \d[\w.-]* \(\w+/\d\) \d+ bit|Running in \w+ mode|Port: \d+|PID: \d+|https?://\S+"
)
_MONTHS: Final = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)  # noqa: SIM905
}


class LogRow(NamedTuple):
    """One line: *offset* is its first byte in the (decompressed) file, *line* its number from 1.

    *kind* is empty for a line that tells nothing of the cluster; *subject*, *peer*, *epoch* and *detail* are those of
    `cluster_core.formats.log_events.LogEvent`.  Bytes of *text* that are not UTF-8 are written ``\\xNN``.
    """

    ts_ns: int
    line: int
    offset: int
    pid: int
    role: str
    level: str
    kind: EventKind
    subject: str
    peer: str
    epoch: int | None
    detail: str
    text: str


class BadLine(NamedTuple):
    """A line that is neither a log line nor one of the things that servers write beside them."""

    line: int
    offset: int
    reason: str
    skipped_bytes: int


class LogReader:
    """Feed it the bytes of one log in pieces of any size; it returns rows and bad lines.

    *zone* is the server's time zone, for times that do not name it.  Blank lines, the start-up banner, the line of the
    signal handler and bug reports are known and skipped; `skipped` counts them.
    """

    def __init__(self, *, zone: tzinfo = UTC) -> None:
        self.skipped = 0
        self._clock = LocalClock(zone)
        self._line = 0
        self._offset = 0
        self._rest = b""
        self._dropped = 0
        self._in_report = False

    def feed(self, data: bytes) -> list[LogRow | BadLine]:
        """Add the next bytes and return what they complete."""
        found: list[LogRow | BadLine] = []
        *whole, rest = data.split(b"\n")
        for index, part in enumerate(whole):
            if index == 0:
                part, self._rest = self._rest + part, b""
            self._end_line(part, 1, found)
        self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            self._dropped += len(self._rest)
            self._rest = b""
        return found

    def finish(self) -> list[LogRow | BadLine]:
        """The log ends: return its last line, if it has no line feed."""
        found: list[LogRow | BadLine] = []
        if self._rest or self._dropped:
            self._end_line(self._rest, 0, found)
            self._rest = b""
        return found

    def _end_line(self, raw: bytes, feeds: int, found: list[LogRow | BadLine]) -> None:
        self._line += 1
        count = self._dropped + len(raw)
        if self._dropped or count > LINE_BYTES_MAX:
            reason = f"a line of {count} bytes, more than {LINE_BYTES_MAX}"
            found.append(BadLine(self._line, self._offset, reason, count))
        else:
            row = self._read(raw)
            if row is not None:
                found.append(row)
        self._dropped = 0
        self._offset += count + feeds

    def _read(self, raw: bytes) -> LogRow | BadLine | None:
        text = raw.decode("utf-8", "backslashreplace").rstrip("\r")
        match = _LOGFMT.match(text) if text.startswith("pid=") else _PLAIN.match(text)
        if match is None:
            if self._is_known(text):
                self.skipped += 1
                return None
            match = _forwarded(text)
        if match is None:
            return BadLine(self._line, self._offset, f"not a line of a server log: {text[:60]!r}", len(raw))
        ts_ns = self._clock.read(match)
        if ts_ns is None:
            return BadLine(self._line, self._offset, f"an impossible time: {text[:60]!r}", len(raw))
        return self._row(match, ts_ns)

    def _row(self, match: re.Match[str], ts_ns: int) -> LogRow:
        role, level, text = match["role"], match["level"], match["text"][:TEXT_CHARS_MAX]
        event = event_of(text) or NOTHING
        return LogRow(
            ts_ns,
            self._line,
            self._offset,
            int(match["pid"]),
            ROLES.get(role, role[:1]),
            LEVELS.get(level) or _LEVEL_WORDS.get(level, ""),
            event.kind,
            event.subject,
            event.peer,
            event.epoch,
            event.detail,
            text,
        )

    def _is_known(self, text: str) -> bool:
        """Whether servers write such a line without a prefix."""
        if self._in_report or _REPORT_START.search(text):
            self._in_report = not _REPORT_END.search(text)
            return True
        if not text.strip() or _SIGNAL.match(text):
            return True
        return set(_BANNER_WORDS.sub("", text)) <= _BANNER_LETTERS


class LocalClock:
    """Turns the times of one log into nanoseconds since the epoch."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone
        self._minutes: tuple[str, str, str, int, int] = ("", "", "", 0, 0)
        self._last_ns = 0
        self._is_second = False

    def read(self, match: re.Match[str]) -> int | None:
        """The instant of a matched line; None for a time that no calendar has."""
        if match["day"] is None:
            return _absolute(match)
        day, hour, minute = match["day"], match["hour"], match["minute"]
        if self._minutes[:3] != (day, hour, minute):
            instants = self._instants(day, int(hour), int(minute))
            if instants is None:
                return None
            self._minutes = (day, hour, minute, *instants)
        second = int(match["second"])
        if second > 60:
            return None
        within_ns = second * 1_000_000_000 + int(match["milli"]) * 1_000_000
        first, again = self._minutes[3] + within_ns, self._minutes[4] + within_ns
        self._is_second = again > first and (self._is_second or first + STEP_BACK_NS < self._last_ns)
        self._last_ns = again if self._is_second else first
        return self._last_ns

    def _instants(self, day: str, hour: int, minute: int) -> tuple[int, int] | None:
        """The instants of a local minute: two different ones where clocks were set back (PEP 495)."""
        number, month, year = day.split(" ")
        try:
            local = datetime(int(year), _MONTHS[month], int(number), hour, minute, tzinfo=self._zone)
            first, again = (int(local.replace(fold=fold).timestamp()) * 1_000_000_000 for fold in (0, 1))
        except (KeyError, ValueError, OverflowError):
            return None
        return first, max(first, again)


def _absolute(match: re.Match[str]) -> int | None:
    if match["ms"] is not None:
        return int(match["ms"]) * 1_000_000
    try:
        moment = datetime.fromisoformat(match["iso"])
    except ValueError:
        return None
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _forwarded(text: str) -> re.Match[str] | None:
    """A log line behind what a forwarder wrote before it."""
    head = text[:FORWARDER_CHARS_MAX]
    for form, mark in ((_PLAIN, re.compile(r"(?<=\s)\d{1,10}:[A-Z] ")), (_LOGFMT, re.compile(r"(?<=\s)pid="))):
        for start in mark.finditer(head):
            match = form.match(text, start.start())
            if match is not None:
                return match
    return None


def read_log(pieces: Iterable[bytes], *, zone: tzinfo = UTC) -> Iterator[LogRow | BadLine]:
    """Read one log that comes in *pieces*: all its lines that are not known noise, in order."""
    reader = LogReader(zone=zone)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.finish()
