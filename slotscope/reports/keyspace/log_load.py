"""Append-only logs of a snapshot: savings of a rewrite, commands over time, what is written most; from tables, and as sections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from schemas.aof import COMMAND_LOAD, LOG_SAVINGS, WRITE_KEYS, WRITE_LOAD
from schemas.caveats import Caveat
from slotscope.reports.document import Bar, Block, Cell, Column, Format, Section, Sentence, Table
from slotscope.reports.records import record
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import all_equal, exists, query_rows, read_rows

SAVINGS_SHOWN = 100
COMMANDS_SHOWN = 100
KEYS_SHOWN = 100
SLOTS_SHOWN = 50
SPANS_SHOWN = 48
"""Rows of the course of time: minutes are joined to spans until they fit."""

_SPANS_S = (60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)


@dataclass(frozen=True, slots=True)
class Saving:
    """What a rewrite saves in one log, slot or prefix; true bytes of the log are at most *bytes_error* higher."""

    scope: str
    name: bytes
    log_bytes: int
    live_bytes: int
    saved_bytes: int
    bytes_error: int = 0


@dataclass(frozen=True, slots=True)
class CommandCount:
    """A command by name, in all logs."""

    name: str
    commands: int
    log_bytes: int
    known: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """Commands from *start_ms* on, for *seconds*; *busiest* is the command that came most."""

    start_ms: int
    seconds: int
    commands: int
    log_bytes: int
    busiest: str


@dataclass(frozen=True, slots=True)
class Written:
    """Writes to a key or a slot (*name* is None)."""

    name: bytes | None
    slot: int
    ops: int
    log_bytes: int
    ops_error: int = 0
    bytes_error: int = 0


@dataclass(frozen=True, slots=True)
class LogLoad:
    """The logs of one snapshot; every list is ordered as it is to be shown.  *spans* is empty without timestamps."""

    savings: dict[str, list[Saving]]
    commands: list[CommandCount]
    spans: list[Span]
    keys: list[Written]
    slots: list[Written]

    @property
    def whole(self) -> list[Saving]:
        """One row a log."""
        return self.savings.get("log", [])


def load_log_load(root: str, snapshot_id: str) -> LogLoad | None:
    """Read what the tables of logs hold of a snapshot; None if it read no logs."""
    if not exists(root, COMMAND_LOAD):
        return None
    own = all_equal({"snapshot_id": snapshot_id})
    savings = _savings(root, snapshot_id)
    commands = query_rows(
        root,
        f"""SELECT command AS name, SUM(commands) AS commands, SUM(log_bytes) AS log_bytes, MIN(known) AS known
            FROM command_load WHERE {own} GROUP BY command ORDER BY 2 DESC, command LIMIT {COMMANDS_SHOWN}""",
        COMMAND_LOAD,
    )
    if not commands and not savings:
        return None
    minutes = query_rows(
        root,
        f"""SELECT "minute", command, SUM(commands) AS commands, SUM(log_bytes) AS log_bytes
            FROM command_load WHERE {own} AND "minute" IS NOT NULL GROUP BY "minute", command""",
        COMMAND_LOAD,
    )
    slots = query_rows(
        root,
        f"""SELECT slot, SUM(ops) AS ops, SUM(log_bytes) AS log_bytes FROM write_load WHERE {own}
            GROUP BY slot ORDER BY ops DESC, slot LIMIT {SLOTS_SHOWN}""",
        WRITE_LOAD,
    )
    keys = read_rows(root, WRITE_KEYS, order_by="rank_ops", limit=KEYS_SHOWN, snapshot_id=snapshot_id)
    return LogLoad(
        savings,
        [record(CommandCount, row) for row in commands],
        joined_spans(minutes),
        [record(Written, row, name=row["key"]) for row in keys],
        [record(Written, row, name=None) for row in slots],
    )


def _savings(root: str, snapshot_id: str) -> dict[str, list[Saving]]:
    found: dict[str, list[Saving]] = {}
    for scope in ("log", "slot", "prefix"):
        most = read_rows(
            root, LOG_SAVINGS, order_by="saved_bytes DESC NULLS LAST, scope_value", limit=SAVINGS_SHOWN, snapshot_id=snapshot_id, scope=scope
        )  # fmt: skip
        if most:
            found[scope] = [record(Saving, row, name=row["scope_value"]) for row in most]
    return found


def joined_spans(rows: Iterable[dict[str, Any]]) -> list[Span]:
    """Join rows (minute, command, commands, log_bytes) to at most `SPANS_SHOWN` spans of equal length, those without commands left out."""
    counted = [(_seconds(row["minute"]), row) for row in rows]
    if not counted:
        return []
    first, last = min(second for second, _ in counted), max(second for second, _ in counted)
    length = next(
        (length for length in _SPANS_S if last // length - first // length < SPANS_SHOWN),
        (last - first) // (SPANS_SHOWN - 1) + 60,
    )
    names: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    sizes: dict[int, int] = defaultdict(int)
    for second, row in counted:
        names[second // length][row["command"]] += row["commands"]
        sizes[second // length] += row["log_bytes"]
    return [
        Span(
            number * length * 1000,
            length,
            sum(counts.values()),
            sizes[number],
            max(sorted(counts), key=lambda name: counts[name]),
        )
        for number, counts in sorted(names.items())
    ]


def _seconds(minute: datetime) -> int:
    return int((minute if minute.tzinfo else minute.replace(tzinfo=UTC)).timestamp())


ROWS_ON_TERMINAL = 6
SPANS_ON_TERMINAL = 12
NOTED = ("appendfsync", "rewrite")
"""Codes of warnings that belong beside the logs."""


def log_sections(log: LogLoad | None, warnings: Iterable[Caveat]) -> list[Section]:
    """Return the sections on the logs; none without logs."""
    if log is None:
        return []
    notes = [Sentence(text.printable(one.text, 400)) for code in NOTED for one in warnings if one.code == code]
    return [
        Section("logs", "Append-only logs", [*notes, *_saved(log)], about="what a rewrite would save", short="Logs"),
        Section("log-commands", "Commands of the logs", _commands(log), short="Commands"),
        Section("written", "Written most", _written(log)),
        Section(
            "spans",
            "Commands over time",
            [_over_time(log)],
            about=f"spans of {text.duration(log.spans[0].seconds)}" if log.spans else "",
        ),
    ]


def _saved(log: LogLoad) -> list[Block]:
    columns = [
        Column("Scope", Format.TEXT, "scope"),
        Column("Name", Format.KEY, "name"),
        Column(
            "In the log",
            Format.SIZE,
            lambda one: Cell(one.log_bytes, note=f"+≤ {text.size(one.bytes_error)}" if one.bytes_error else ""),
        ),
        Column("Live", Format.SIZE, "live_bytes"),
        Column("Rewrite", Format.SIGNED_SIZE, lambda one: -one.saved_bytes),
    ]
    scopes, half = [log.savings.get(scope, []) for scope in ("log", "slot", "prefix")], ROWS_ON_TERMINAL // 2
    firsts = [one for found in scopes for one in found[:half]]
    rows = [*firsts, *(one for found in scopes for one in found[half:])]
    caption = "What a rewrite would save, by log, slot and prefix"
    return [
        Table("log-savings-table", caption, columns, rows, "gold/log_savings", on_terminal=len(firsts), is_sample=True)
    ]


def _commands(log: LogLoad) -> list[Block]:
    whole, peak = sum(one.commands for one in log.commands) or 1, max((one.commands for one in log.commands), default=1)
    columns = [
        Column("Command", Format.TEXT, lambda one: Cell(one.name, note="" if one.known else "(unknown)")),
        Column("Commands", Format.COUNT, "commands", "descending"),
        Column("Bytes", Format.SIZE, "log_bytes"),
        Column("Share", Format.SHARE, lambda one: one.commands / whole),
        Column("of commands", Format.BAR, lambda one: Bar(one.commands / peak)),
    ]
    return [
        Table(
            "commands-table",
            "Commands of all logs",
            columns,
            log.commands,
            "gold/command_load",
            on_terminal=2 * ROWS_ON_TERMINAL,
            is_sample=True,
        )
    ]


def _written(log: LogLoad) -> list[Block]:
    columns = [
        Column("Key", Format.KEY, "name"),
        Column("Slot", Format.SLOT, "slot"),
        Column(
            "Writes",
            Format.COUNT,
            lambda one: Cell(one.ops, note=f"+≤ {text.count(one.ops_error)}" if one.ops_error else ""),
            "descending",
        ),
        Column(
            "Bytes",
            Format.SIZE,
            lambda one: Cell(one.log_bytes, note=f"+≤ {text.size(one.bytes_error)}" if one.bytes_error else ""),
        ),
    ]
    return [
        Table(
            "write-keys-table",
            "Keys written most",
            columns,
            log.keys,
            "gold/write_keys",
            on_terminal=ROWS_ON_TERMINAL,
            is_sample=True,
        ),
        Table(
            "write-slots-table",
            "Slots written most",
            columns[1:],
            log.slots,
            "gold/write_load",
            on_terminal=ROWS_ON_TERMINAL,
            is_sample=True,
        ),
    ]


def _over_time(log: LogLoad) -> Table:
    peak = max((one.commands for one in log.spans), default=1)
    columns = [
        Column("From", Format.MOMENT, "start_ms", "descending"),
        Column("Commands", Format.COUNT, "commands"),
        Column("Bytes", Format.SIZE, "log_bytes"),
        Column("Most frequent", Format.TEXT, "busiest"),
        Column("of the busiest", Format.BAR, lambda one: Bar(one.commands / peak)),
    ]
    caption = "Newest first, from the timestamps of the logs"
    return Table("spans-table", caption, columns, list(reversed(log.spans)), on_terminal=SPANS_ON_TERMINAL)
