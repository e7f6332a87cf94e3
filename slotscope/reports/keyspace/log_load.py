"""Append-only logs of a snapshot: commands, and the keys and slots written most; from tables, and as sections."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.aof import COMMAND_LOAD, WRITE_KEYS, WRITE_LOAD
from slotscope.reports.document import Block, Cell, Column, Format, Section, Table, estimated, share_columns
from slotscope.reports.records import Row, read
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import all_equal, exists, query_rows

COMMANDS_SHOWN = 100
KEYS_SHOWN = 100
SLOTS_SHOWN = 50
ROWS_ON_TERMINAL = 6


@dataclass(frozen=True, slots=True)
class LogLoad:
    """The logs of one snapshot: commands, then keys and slots written most, each in the order of its table."""

    commands: list[Row]
    keys: list[Row]
    slots: list[Row]


def load_log_load(root: str, snapshot_id: str) -> LogLoad | None:
    """Read the tables of logs; None for a snapshot without logs."""
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
    keys = read(root, WRITE_KEYS, order_by="rank_ops", limit=KEYS_SHOWN, snapshot_id=snapshot_id)
    return LogLoad([Row(**row) for row in commands], keys, [Row(**row) for row in slots])


def log_sections(log: LogLoad | None) -> list[Section]:
    """Return the sections on the logs; none without logs."""
    if log is None:
        return []
    return [
        Section("logs", "Commands of the append-only logs", _commands(log), short="Logs"),
        Section("written", "Written most", _written(log)),
    ]


def _commands(log: LogLoad) -> list[Block]:
    columns = [
        Column("Command", Format.TEXT, lambda command: Cell(command.name, note="" if command.known else "(unknown)")),
        Column("Commands", Format.COUNT, "commands", "descending"),
        Column("Bytes", Format.SIZE, "log_bytes"),
        *share_columns(log.commands, "commands", "commands"),
    ]
    caption, shown = "Commands of all logs", 2 * ROWS_ON_TERMINAL
    return [
        Table("commands-table", caption, columns, log.commands, "gold/command_load", on_terminal=shown, is_sample=True)
    ]


def _written(log: LogLoad) -> list[Block]:
    slots = [
        Column("Slot", Format.SLOT, "slot"),
        Column("Writes", Format.COUNT, "ops", "descending"),
        Column("Bytes", Format.SIZE, "log_bytes"),
    ]
    keys = [
        Column("Key", Format.KEY, "key"),
        slots[0],
        slots[1]._replace(of=lambda row: estimated(row.ops, row.ops_error, text.count)),
        slots[2]._replace(of=lambda row: estimated(row.log_bytes, row.bytes_error, text.size)),
    ]
    tables = (
        ("write-keys-table", "Keys written most", keys, log.keys, "gold/write_keys"),
        ("write-slots-table", "Slots written most", slots, log.slots, "gold/write_load"),
    )
    return [Table(*table, on_terminal=ROWS_ON_TERMINAL, is_sample=True) for table in tables]
