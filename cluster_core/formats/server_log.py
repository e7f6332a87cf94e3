"""Server logs as rows: prefix, time and event of each line, in all forms that Redis and Valkey write (R160).

A line is ``pid:role time level text`` with role M (master), S (replica), C (child) or X (sentinel) and level ``.``
(debug), ``-`` (verbose), ``*`` (notice) or ``#`` (warning), or from Valkey 8.1 the same as logfmt
(``log-format logfmt``).  The time is ``21 Nov 2026 10:11:12.345`` in the server's local time, which the log does not
name, or with ``log-timestamp-format`` ISO 8601 with its offset, or milliseconds since the epoch.  Wrappers of log
shippers are removed first (`cluster_core.formats.shipped_lines`).

Local time is ambiguous when clocks are set back: such a line is taken for the first of its two instants unless the
lines before it were later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from cluster_core.formats.log_events import NOTHING, STARTS, event_of
from cluster_core.formats.shipped_lines import UNKNOWN_ROLE, unwrap
from cluster_core.kinds import EventKind

LINE_BYTES_MAX: Final = 1 << 20
"""Longer lines are no log."""
TEXT_CHARS_MAX: Final = 2000
"""Texts are cut there; no event is longer."""
PARTIAL_SOURCES_MAX: Final = 1000
"""Sources with an unfinished line at one time; of more, the oldest line ends."""
STEP_BACK_NS: Final = 60_000_000_000
"""Clocks are adjusted by less than this; more, in the hour that comes twice, is its second time."""

ROLES: Final = {
    "primary": "M",
    "master": "M",
    "replica": "S",
    "slave": "S",
    "RDB/AOF": "C",
    "sentinel": "X",
    UNKNOWN_ROLE: "",
}
LEVELS: Final = {".": "debug", "-": "verbose", "*": "notice", "#": "warning"}
_LEVEL_WORDS: Final = {"info": "verbose", **{word: word for word in LEVELS.values()}}
"""Words of logfmt, which calls verbose "info"."""

_LOCAL = r"(?P<day>\d{1,2} [A-Z][a-z]{2} \d{4}) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.(?P<milli>\d{3})(?P<utc> UTC)?"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:[+-]\d\d:?\d\d|Z)"
_TIME = rf"(?:{_LOCAL}|(?P<iso>{_ISO})|(?P<ms>\d{{10,15}}))"
_PLAIN: Final = re.compile(rf"(?P<pid>\d{{1,10}}):(?P<role>[A-Z]) {_TIME} (?P<level>[.\-*#]) ?(?P<text>.*)", re.DOTALL)
_LOGFMT: Final = re.compile(
    rf'pid=(?P<pid>\d{{1,10}}) role=(?P<role>\S+) timestamp="{_TIME}" level=(?P<level>\w+) message="(?P<text>.*)"',
    re.DOTALL,
)
_WRAPPER_CHARS_MAX: Final = 300
_HEAD: Final = rf"(?:\d{{1,10}}:[A-Z] {_TIME} [.\-*#] ?|pid=\d{{1,10}} role=\S+ timestamp=\"[^\"\n]{{1,40}}\" level=\w+ message=\")"


def _beginnings(texts: Sequence[str]) -> str:
    """An expression for texts that begin with one of *texts*, divided by their first letters."""
    by_letter: dict[str, list[str]] = {}
    for text in texts:
        by_letter.setdefault(text[0], []).append(text[1:])
    parts = (f"{re.escape(letter)}(?:{'|'.join(map(re.escape, rest))})" for letter, rest in by_letter.items())
    return f"(?:{'|'.join(parts)})"


_WITHOUT_EVENTS: Final = re.compile(
    (
        rf"(?:(?!\S+ std(?:out|err) P)(?>[^\n]{{0,{_WRAPPER_CHARS_MAX}}}?{re.sub(r'[?]P<[a-z]+>', '?:', _HEAD)})"
        rf"(?!{_beginnings(STARTS)})[^\n]*+\n)++"
    ).encode()
)
"""Lines of a server one after another that hold no event, in most wrappers of shippers: most of a log."""
_SIGNAL: Final = re.compile(r"\d{1,10}:signal-handler \(\d+\) ")
_UNDECODED: Final = re.compile(r"\\x[89a-f][0-9a-f]")
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
    `cluster_core.formats.log_events.LogEvent`.  Bytes of *text* that are not UTF-8 are written ``\\xNN``.  *source* is the
    pod, container or host that a shipper names.
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
    source: str = ""


class BadLine(NamedTuple):
    """A line that is neither a log line nor one of the things that servers write beside them.

    *is_foreign*: a readable line of another program, as entrypoints, sidecars and shippers write.
    """

    line: int
    offset: int
    reason: str
    skipped_bytes: int
    is_foreign: bool = False


class LogReader:
    """Feed it the bytes of one log in pieces of any size; it returns rows and bad lines.

    *zone* is the server's time zone, for times that do not name it.  Blank lines, the start-up banner, the line of the
    signal handler and bug reports are known and skipped; `skipped` counts them.  With *events_only* lines without an event
    are no rows, and several times as fast; `passed` counts them.
    """

    def __init__(self, *, zone: tzinfo = UTC, events_only: bool = False) -> None:
        self.skipped = 0
        self.passed = 0
        self._events_only = events_only
        self._is_local = zone is not UTC
        self._clock = LocalClock(zone)
        self._utc_clock = LocalClock(UTC)
        self._line = 0
        self._offset = 0
        self._rest = b""
        self._dropped = 0
        self._in_report = False
        self._partial: dict[str, str] = {}

    def feed(self, data: bytes) -> list[LogRow | BadLine]:
        """Add the next bytes and return what they complete."""
        rows: list[LogRow | BadLine] = []
        if self._events_only:
            data = self._pass_over(data, rows)
        *whole, rest = data.split(b"\n")
        for index, part in enumerate(whole):
            if index == 0:
                part, self._rest = self._rest + part, b""
            self._end_line(part, 1, rows)
        self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            self._dropped += len(self._rest)
            self._rest = b""
        return rows

    def _pass_over(self, data: bytes, rows: list[LogRow | BadLine]) -> bytes:
        """Read whole lines, those without an event many at a time; return what is left of *data*."""
        data = self._rest + data
        if self._dropped or b"\n" not in data:
            self._rest = b""
            return data
        self._rest = b""
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            passed = _WITHOUT_EVENTS.match(data, at)
            if passed is None:
                self._end_line(data[at:end], 1, rows)
                at = end + 1
                continue
            count = data.count(b"\n", at, passed.end())
            self._line += count
            self.passed += count
            self._offset += passed.end() - at
            if self._is_local:
                last = data[data.rfind(b"\n", at, passed.end() - 1) + 1 : passed.end()]
                if (match := _match(last.decode("utf-8", "backslashreplace"))) is not None:
                    self._clock.read(match)
            at = passed.end()
        return data[at:]

    def finish(self) -> list[LogRow | BadLine]:
        """The log ends: return its last line, if it has no line feed, and lines whose last part is missing."""
        rows: list[LogRow | BadLine] = []
        if self._rest or self._dropped:
            self._end_line(self._rest, 0, rows)
            self._rest = b""
        for source in list(self._partial):
            self._add(self._read(self._partial.pop(source), source, 0), rows)
        return rows

    def _end_line(self, raw: bytes, feeds: int, rows: list[LogRow | BadLine]) -> None:
        self._line += 1
        count = self._dropped + len(raw)
        if self._dropped or count > LINE_BYTES_MAX:
            reason = f"a line of {count} bytes, more than {LINE_BYTES_MAX}"
            rows.append(BadLine(self._line, self._offset, reason, count))
        else:
            self._take(raw, rows)
        self._dropped = 0
        self._offset += count + feeds

    def _take(self, raw: bytes, rows: list[LogRow | BadLine]) -> None:
        """Read a line as the server wrote it, or what a shipper made of it."""
        text = raw.decode("utf-8", "backslashreplace").rstrip("\r")
        if (match := _match(text)) is not None:
            self._add(self._row(match, ""), rows)
            return
        if self._is_known(text):
            self.skipped += 1
            return
        shipped = unwrap(text)
        if shipped is None:
            rows.append(self._bad(text, len(raw)))
            return
        message = self._partial.pop(shipped.source, "") + shipped.message
        if shipped.is_partial and len(message) <= LINE_BYTES_MAX:
            self._partial[shipped.source] = message
            if len(self._partial) > PARTIAL_SOURCES_MAX:
                source = next(iter(self._partial))
                self._add(self._read(self._partial.pop(source), source, 0), rows)
            return
        self._add(self._read(message, shipped.source, len(raw)), rows)

    @staticmethod
    def _add(row: LogRow | BadLine | None, rows: list[LogRow | BadLine]) -> None:
        if row is not None:
            rows.append(row)

    def _read(self, text: str, source: str, size: int) -> LogRow | BadLine | None:
        """A line without wrappers: a row, a bad line, or None for a line that servers write without a prefix."""
        match = _match(text)
        if match is not None:
            return self._row(match, source)
        if self._is_known(text):
            self.skipped += 1
            return None
        return self._bad(text, size)

    def _bad(self, text: str, size: int) -> BadLine:
        is_readable = "\0" not in text and _UNDECODED.search(text) is None
        return BadLine(self._line, self._offset, f"not a line of a server log: {text[:60]!r}", size, is_readable)

    def _row(self, match: re.Match[str], source: str) -> LogRow | BadLine | None:
        role, level, text = match["role"], match["level"], match["text"][:TEXT_CHARS_MAX]
        ts_ns = (self._utc_clock if match["utc"] else self._clock).read(match)
        if ts_ns is None:
            return BadLine(self._line, self._offset, f"an impossible time: {match[0][:60]!r}", len(match[0]))
        event = event_of(text) or NOTHING
        if self._events_only and not event.kind:
            self.passed += 1
            return None
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
            source,
        )

    def _is_known(self, text: str) -> bool:
        """Whether servers write such a line without a prefix."""
        if self._in_report or _REPORT_START.search(text):
            self._in_report = not _REPORT_END.search(text)
            return True
        if not text.strip() or _SIGNAL.match(text):
            return True
        return set(_BANNER_WORDS.sub("", text)) <= _BANNER_LETTERS


def _match(text: str) -> re.Match[str] | None:
    return _LOGFMT.match(text) if text.startswith("pid=") else _PLAIN.match(text)


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


def read_log(pieces: Iterable[bytes], *, zone: tzinfo = UTC) -> Iterator[LogRow | BadLine]:
    """Read one log that comes in *pieces*: all its lines that are not known noise, in order."""
    reader = LogReader(zone=zone)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.finish()
