"""Append-only logs of a snapshot: commands, and the keys and slots written most; from tables, and as sections."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.aof import COMMAND_LOAD, WRITE_KEYS, WRITE_LOAD
from slotscope.reports.document import Bar, Block, Cell, Column, Format, Section, Table
from slotscope.reports.records import record
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import all_equal, exists, query_rows, read_rows

COMMANDS_SHOWN = 100
KEYS_SHOWN = 100
SLOTS_SHOWN = 50
ROWS_ON_TERMINAL = 6


@dataclass(frozen=True, slots=True)
class CommandCount:
    """A command by name, in all logs."""

    name: str
    commands: int
    log_bytes: int
    known: bool = True


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
    """The logs of one snapshot; every list is ordered as it is to be shown."""

    commands: list[CommandCount]
    keys: list[Written]
    slots: list[Written]


def load_log_load(root: str, snapshot_id: str) -> LogLoad | None:
    """Read what the tables of logs hold of a snapshot; None if it read no logs."""
    if not exists(root, COMMAND_LOAD):
        return None
    own = all_equal({"snapshot_id": snapshot_id})
    commands = query_rows(
        root,
        f"""SELECT command AS name, SUM(commands) AS commands, SUM(log_bytes) AS log_bytes, MIN(known) AS known
            FROM command_load WHERE {own} GROUP BY command ORDER BY 2 DESC, command LIMIT {COMMANDS_SHOWN}""",
        COMMAND_LOAD,
    )
    if not commands:
        return None
    slots = query_rows(
        root,
        f"""SELECT slot, SUM(ops) AS ops, SUM(log_bytes) AS log_bytes FROM write_load WHERE {own}
            GROUP BY slot ORDER BY ops DESC, slot LIMIT {SLOTS_SHOWN}""",
        WRITE_LOAD,
    )
    keys = read_rows(root, WRITE_KEYS, order_by="rank_ops", limit=KEYS_SHOWN, snapshot_id=snapshot_id)
    return LogLoad(
        [record(CommandCount, row) for row in commands],
        [record(Written, row, name=row["key"]) for row in keys],
        [record(Written, row, name=None) for row in slots],
    )


def log_sections(log: LogLoad | None) -> list[Section]:
    """Return the sections on the logs; none without logs."""
    if log is None:
        return []
    return [
        Section("logs", "Commands of the append-only logs", _commands(log), short="Logs"),
        Section("written", "Written most", _written(log)),
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
