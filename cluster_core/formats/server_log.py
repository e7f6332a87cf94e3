"""Parse server logs: time, role, level and event of each line.

Texts are matched from their first character, so client-controlled text in a line cannot match another event. Wording of
all supported versions is known. Kinds shared with a replay have the same names.

A line is ``pid:role time level text`` with role M (master), S (replica), C (child) or X (sentinel) and level ``.``
(debug), ``-`` (verbose), ``*`` (notice) or ``#`` (warning), or since Valkey 8.1 logfmt. The time is ``21 Nov 2026
10:11:12.345`` in the server's unnamed local time, or ISO 8601 with offset or ms since the epoch. Shippers' wrappers are
removed first (`cluster_core.formats.shipped_lines`). An ambiguous local time is the first unless earlier lines were later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from cluster_core.formats.shipped_lines import UNKNOWN_ROLE, unwrap
from cluster_core.kinds import EventKind

EPOCH_MAX: Final = 2**64 - 1
DETAIL_CHARS_MAX: Final = 200

_ID = "[0-9a-f]{40}"
_NAMED = r"(?: \([^)]*\))?"
_PLACEHOLDERS = {
    "<subject>": rf"(?P<subject>{_ID}){_NAMED}",
    "<peer>": rf"(?P<peer>{_ID}){_NAMED}",
    "<id>": rf"{_ID}{_NAMED}",
    "<epoch>": r"(?P<epoch>\d{1,20})",
    "<number>": r"(?P<detail>\d{1,20})",
    "<shard>": rf"(?: in shard {_ID})?",
    "<master>": "(?:master|primary)",
    "<rest>": r"(?P<detail>.*)",
}


class LogEvent(NamedTuple):
    """Event of a line about the node *subject*; *peer* is another node, *epoch* None if not given.

    *detail*: a reason, delay, slot, offset, or name and version of the server (``Valkey 8.1.8``).
    """

    kind: EventKind
    subject: str = ""
    peer: str = ""
    epoch: int | None = None
    detail: str = ""


NOTHING: Final = LogEvent(EventKind.NOTHING)
"""Event of a line without one."""

_MAP: Final[tuple[tuple[str, str, str], ...]] = (
    # failure detection (R51 to R55b, R106 to R109)
    ("pfail", "NODE|*** NODE", r" <subject> possibly failing"),
    ("report-added", "Node", r" <peer> reported node <subject> as not reachable"),
    ("report-removed", "Node", r" <peer> reported node <subject> is back online"),
    ("fail-decided", "Marking node", r" <subject> as failing \(quorum reached\)"),
    ("fail-learned", "FAIL message received from", r" <peer> about <subject>"),
    ("fail-cleared", "Clear FAIL state for node", r" <subject>: ?<rest>"),
    ("state-ok", "Cluster state changed: ok", ""),
    ("state-fail", "Cluster state changed: fail", ""),
    # elections (R83 to R96)
    ("election-scheduled", "Start of election delayed for", r" (?P<detail>\d+ milliseconds \(.*\))"),
    ("election-started", "Starting a failover election for epoch", r" <epoch>"),
    ("election-reset", "Failover election in progress for epoch", r" <epoch>, but received <rest>"),
    ("election-stalled", "Currently unable to failover:", r" <rest>"),
    ("vote", "Failover auth granted to", r" <subject> for epoch <epoch>"),
    (
        "vote-refused",
        "Failover auth denied to",
        r" <subject>(?: for epoch <epoch>)?: "
        r"(?P<detail>(?:reqEpoch \((?P<epoch1>\d+)\)|already voted for epoch (?P<epoch2>\d+))?.*)",
    ),
    ("election-won", "Failover election won", ""),
    ("became-master", "Setting myself to", r" <master> in shard <id> after failover; my old <master> is <subject>"),
    # manual failover (R97 to R102)
    ("manual-failover-requested", "Manual failover user request accepted", ""),
    ("manual-failover-forced", "Forced failover", r" (?:user|<master>) request accepted"),
    ("manual-failover-mfstart", "Manual failover requested by", r" (?:replica|slave) <subject>"),
    ("manual-failover-paused", "Received replication offset for paused", r" <master> manual failover: <number>"),
    ("manual-failover-timed-out", "Manual failover timed out", ""),
    ("takeover", "Taking over the", r" <master>"),
    # roles (R63 to R67, R103 to R105)
    (
        "became-replica",
        "Configuration change detected. Reconfiguring myself as a replica of",
        r" (?:node )?<subject>",
    ),
    (
        "became-replica",
        "Lost my last slot during slot migration. Reconfiguring myself as a replica of",
        r" <subject>",
    ),
    (
        "became-replica",
        "I'm a sub-replica!|I'm a sub-slave!",
        r" Reconfiguring myself as a replica of (?:grandmaster )?<subject>(?: from <peer>)?",
    ),
    ("emptied", "My last slot was migrated to node", r" <peer>"),
    ("replica-seen", "Node", r" <subject> is now a replica of node <peer>"),
    ("master-seen", "Reconfiguring node", r" <subject> as <master> for shard"),
    (
        "failover-seen",
        "A failover occurred in shard",
        r" <id>; node <peer> (?:lost <number> slot\(s\) )?(?:and )?(?:failed over )?to node <subject> with a config epoch of <epoch>",
    ),
    # epochs (R79 to R82)
    ("config-epoch", "configEpoch set to", r" <epoch> after successful (?P<detail>failover)"),
    ("config-epoch", "configEpoch set to", r" <epoch> via CLUSTER (?P<detail>SET-CONFIG-EPOCH|RESET HARD)"),
    ("config-epoch", "New configEpoch set to", r" <epoch>"),
    # slots (R69 to R78, R123 to R127)
    ("update-sent", "Node", r" <peer> has old slots configuration, sending an UPDATE message about <subject>"),
    (
        "slots-moved",
        "Slot",
        r" (?:range \[)?(?P<detail>\d+(?:, \d+)?)\]? is migrated from node <peer><shard> to node <subject>",
    ),
    ("slot-assigned", "Assigning slot", r" <number> to node <subject>"),
    ("slot-migrating", "Migrating slot", r" <number> to node <subject>"),
    ("slot-importing", "Importing slot", r" <number> from node <subject>"),
    ("slot-stable", "Marking slot", r" <number> stable"),
    ("slot-closed", "Slot", r" <number> is no longer being (?:migrated to|imported from) node <subject>"),
    # membership and addresses (R49, R56 to R62)
    (
        "identity",
        "No cluster configuration found,|Node configuration loaded,|Node hard reset,",
        r" (?:now )?I'm <subject>",
    ),
    ("reset-ordered", "Cluster reset (", ""),
    ("own-address", "IP address for this node updated to", r" <rest>"),
    ("address-updated", "Address updated for node", r" <subject>, now <rest>"),
    # process and replication (P5, P6)
    ("started", "Redis version=|Valkey version=", r"(?P<detail>[^,]+), .* just started"),
    ("listening", "Running mode=", r"(?P<detail>\w+, port=\d+)"),
    ("ready", "Ready to accept connections", ""),
    ("stopping", "User requested shutdown|Received SIGTERM|Received SIGINT|Received shutdown signal", ""),
    ("crashed", "Redis|Valkey", r" \S+ crashed by signal: <number>"),
    ("stopped", "Redis|Valkey|Sentinel", r" is now ready to exit, bye bye"),
    ("master-link-lost", "Connection with master|Connection with primary", r" lost"),
    ("master-link-up", "MASTER <-> REPLICA sync:|PRIMARY <-> REPLICA sync:", r" Finished with success"),
    ("master-link-up", "Successful partial resynchronization with", r" <master>"),
    ("master-connecting", "Connecting to", r" (?:MASTER|PRIMARY) <rest>"),
    ("sync-asked", "Replica|Slave", r" (?P<detail>\S+) asks for synchronization"),
    ("resync-asked", "Trying a partial resynchronization (request", r" <id>:<number>\)"),
    ("full-resync", "Full resync from", r" <master>: (?P<detail><id>:\d+)"),
    ("data-flushed", "MASTER <-> REPLICA sync:|PRIMARY <-> REPLICA sync:", r" Flushing old data"),
    ("data-flushed", "RDB signature and version check passed. Flushing old data", ""),
    ("data-loaded", "Done loading RDB, keys loaded:", r" <number>"),
)
"""Kind, start of the text (alternatives separated by ``|``), and a pattern of the rest with ``<…>`` placeholders."""

STARTS: Final = tuple(dict.fromkeys(start for _, starts, _ in _MAP for start in starts.split("|")))
"""Starts of texts with an event."""


def _compiled() -> dict[str, list[tuple[EventKind, tuple[str, ...], re.Pattern[str]]]]:
    """Return the patterns by first letter."""
    patterns: dict[str, list[tuple[EventKind, tuple[str, ...], re.Pattern[str]]]] = {}
    for kind, start, rest in _MAP:
        starts = tuple(start.split("|"))
        for placeholder, expression in _PLACEHOLDERS.items():
            rest = rest.replace(placeholder, expression)
        pattern = re.compile(f"(?:{'|'.join(map(re.escape, starts))}){rest}")
        for letter in dict.fromkeys(text[0] for text in starts):
            patterns.setdefault(letter, []).append((EventKind(kind), starts, pattern))
    return patterns


_BY_LETTER: Final = _compiled()


def event_of(text: str) -> LogEvent | None:
    """Return the event in the text of a line, or None.

    >>> event_of("Failover auth granted to " + "a" * 40 + " (127.0.0.1:7004) for epoch 9")
    LogEvent(kind=<EventKind.VOTE: 'vote'>, subject='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', peer='', epoch=9, detail='')
    """
    for kind, starts, pattern in _BY_LETTER.get(text[:1], ()):
        match = pattern.match(text) if text.startswith(starts) else None
        if match is not None:
            groups = match.groupdict()
            epoch = groups.get("epoch") or groups.get("epoch1") or groups.get("epoch2")
            number = int(epoch) if epoch is not None and len(epoch) <= len(str(EPOCH_MAX)) else None
            detail = (groups.get("detail") or "")[:DETAIL_CHARS_MAX].rstrip(". ")
            if kind is EventKind.STARTED:
                detail = f"{text.partition(' ')[0]} {detail}"
            return LogEvent(
                kind,
                groups.get("subject") or "",
                groups.get("peer") or "",
                None if number is None or number > EPOCH_MAX else number,
                detail,
            )
    return None


LINE_BYTES_MAX: Final = 1 << 20
"""Maximum bytes of a log line."""
TEXT_CHARS_MAX: Final = 2000
"""Texts are cut at this length; events are shorter."""
PARTIAL_SOURCES_MAX: Final = 1000
"""Maximum sources with an incomplete line; beyond it the oldest line is completed."""
STEP_BACK_NS: Final = 60_000_000_000
"""Larger steps back in time, within a repeated hour, mean its second occurrence."""

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
_LOGFMT_LEVELS: Final = {"info": "verbose", **{level: level for level in LEVELS.values()}}
"""Levels of logfmt, which calls verbose "info"."""

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
    """Return a pattern for texts that start with one of *texts*, split by first letter."""
    by_letter: dict[str, list[str]] = {}
    for text in texts:
        by_letter.setdefault(text[0], []).append(text[1:])
    parts = (f"{re.escape(letter)}(?:{'|'.join(map(re.escape, rest))})" for letter, rest in by_letter.items())
    return f"(?:{'|'.join(parts)})"


_WITHOUT_EVENTS: Final = re.compile(
    (
        rf"(?:(?!\S+ std(?:out|err) P)(?>[^\n]{{0,{_WRAPPER_CHARS_MAX}}}?{re.sub(r'[?]P<[a-z]+>', '?:', _HEAD)})"
        rf"(?!{_beginnings(STARTS)})[^\n]*+\n)+"
    ).encode()
)
"""Consecutive server lines without events, in most shipper wrappers; skipped in bulk.

No possessive group: before 3.11.5 Python matches one wrongly (gh-106052).
"""
_SIGNAL: Final = re.compile(r"\d{1,10}:signal-handler \(\d+\) ")
_UNDECODED: Final = re.compile(r"\\x[89a-f][0-9a-f]")
_REPORT_START: Final = re.compile(r"=== \w+ BUG REPORT START")
_REPORT_END: Final = re.compile(r"=== \w+ BUG REPORT END")
_BANNER_LETTERS: Final = frozenset(" _.-`',|\\/()<>")
_BANNER_TEXT: Final = re.compile(
    r"(?:Redis|Valkey) \d[\w.-]* \(\w+/\d\) \d+ bit|Running in \w+ mode|Port: \d+|PID: \d+|https?://\S+"
)
_MONTHS: Final = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)  # noqa: SIM905
}


class LogRow(NamedTuple):
    r"""One line: *offset* of its first byte in the decompressed file, *line* number from 1.

    *kind* is empty without an event; other fields as in `LogEvent`. Invalid UTF-8 in *text* is ``\xNN``. *source* is the
    shipper's pod, container or host.
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
    """An unknown line; *is_foreign*: a readable line of another program, such as an entrypoint, sidecar or shipper."""

    line: int
    offset: int
    reason: str
    skipped_bytes: int
    is_foreign: bool = False


class LogReader:
    """Reads the bytes of one log in pieces; returns rows and bad lines.

    *zone* is the server's time zone, for local times. Known noise (banner, bug reports) is counted in `skipped`. With
    *events_only*, lines without an event are only counted, in `passed`, which is several times faster.
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
        """Add the next bytes and return completed lines."""
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
        """Read complete lines, skipping eventless ones in bulk; return the rest of *data*."""
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
        """End the log: return a last line without line feed, and incomplete split lines."""
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
        """Read a line as written by the server or wrapped by a shipper."""
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
        """Parse an unwrapped line: a row, a bad line, or None for known lines without prefix."""
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
            LEVELS.get(level) or _LOGFMT_LEVELS.get(level, ""),
            event.kind,
            event.subject,
            event.peer,
            event.epoch,
            event.detail,
            text,
            source,
        )

    def _is_known(self, text: str) -> bool:
        """Return whether servers write this line without prefix."""
        if self._in_report or _REPORT_START.search(text):
            self._in_report = not _REPORT_END.search(text)
            return True
        if not text.strip() or _SIGNAL.match(text):
            return True
        return set(_BANNER_TEXT.sub("", text)) <= _BANNER_LETTERS


def _match(text: str) -> re.Match[str] | None:
    return _LOGFMT.match(text) if text.startswith("pid=") else _PLAIN.match(text)


class LocalClock:
    """Converts times of one log to ns since the epoch."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone
        self._minutes: tuple[str, str, str, int, int] = ("", "", "", 0, 0)
        self._last_ns = 0
        self._is_second = False

    def read(self, match: re.Match[str]) -> int | None:
        """Return the instant of a matched line; None for an invalid time."""
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
        """Return both instants of a local minute; they differ when clocks were set back (PEP 495)."""
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
    """Read one log from *pieces*: all lines except known noise, in order."""
    reader = LogReader(zone=zone)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.finish()
