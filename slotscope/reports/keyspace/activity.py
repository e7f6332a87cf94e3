"""Activity of keys, read from the tables of a snapshot and as sections: access and expiry, and the commands of append-only logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.aof import COMMAND_LOAD, WRITE_KEYS, WRITE_LOAD
from schemas.gold import KEY_USE
from slotscope.reports.document import (
    Block,
    Cell,
    Column,
    Facts,
    Format,
    Place,
    Section,
    Sentence,
    Table,
    estimated,
    share_columns,
)
from slotscope.reports.records import Row, read
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import all_equal, exists, query_rows

ROWS_READ: Final = 500
SPANS: Final = ((1, "h"), (1, "d"), (7, "d"))
NOT_RECORDED: Final = (
    "Access is not recorded: set maxmemory-policy to allkeys-lru or allkeys-lfu (or volatile-lru, volatile-lfu)"
)
LEAST = ", at least (with lfu-decay-time 2 and more counters of keys in use only rise)"
EXTREMES_ON_TERMINAL: Final = 5
PREFIXES_ON_PAGE: Final = 60
COMMANDS_SHOWN: Final = 100
KEYS_SHOWN: Final = 100
SLOTS_SHOWN: Final = 50
WRITTEN_ON_TERMINAL: Final = 6
PREFIX: Final = Column("Prefix", Format.KEY, "name")
MEMORY: Final = Column("Memory", Format.SIZE, "weight_bytes", "descending")


@dataclass(frozen=True, slots=True)
class UseReport:
    """Access and expiry of all keys, by node, and by prefix, heaviest first."""

    whole: Row
    nodes: list[Row]
    prefixes: list[Row]

    @property
    def is_recorded(self) -> bool:
        """Whether a dump holds idle times or counters."""
        return self.whole.untouched_1d_bytes is not None or self.whole.ops_per_s is not None


def load_key_use(root: str, snapshot_id: str) -> UseReport | None:
    """Read access and expiry of a snapshot; None for one of an older version, and for one without keys."""

    def rows(scope: str, order_by: str = "scope_value") -> list[Row]:
        rows_read = read(root, KEY_USE, order_by=order_by, limit=ROWS_READ, snapshot_id=snapshot_id, scope=scope)
        for row in rows_read:
            row.name = row.scope_value
            row.never_expiring = None if row.expires is None else row.keys - row.expires
        return rows_read

    whole = rows("cluster")
    if not whole:
        return None
    return UseReport(whole[0], rows("node"), rows("prefix", "weight_bytes DESC NULLS LAST, scope_value"))


def use_figures(use: Row) -> list[tuple[str, str]]:
    """Return the known totals as (name, figure)."""
    sizes = {f"untouched for {days} d": getattr(use, f"untouched_{days}d_bytes") for days in (1, 7, 30)}
    if use.expires is not None:
        sizes |= {f"expires within {n} {unit}": getattr(use, f"expiring_{n}{unit}_bytes") for n, unit in SPANS}
        sizes["expires at all"] = use.expiring_bytes
    figures = [
        (label, f"{text.size(size)}, {text.percent(size, use.weight_bytes)}")
        for label, size in sizes.items()
        if size is not None
    ]
    if use.ops_per_s is not None:
        more = "" if use.ops_per_s_error is not None else LEAST
        figures.insert(0, (f"accesses a second, estimated{more}", rate(use)))
    return figures


def rate(use: Row) -> str:
    """Accesses per second with the upper bound of the error, ``12.3 +≤ 4.0``; ``≥ 12.3`` where the bound is unknown."""
    if use.ops_per_s is None:
        return text.NOTHING
    more = f" +≤ {_digits(use.ops_per_s_error)}" if use.ops_per_s_error else ""
    return f"{'≥ ' if use.ops_per_s_error is None else ''}{_digits(use.ops_per_s)}{more}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def use_sections(use: UseReport | None, names: Mapping[str | None, str]) -> list[Section]:
    """Return the section on access and expiry, with the *names* of masters by id; none where both are unknown."""
    if use is None or (use.whole.expires is None and not use.is_recorded):
        return []
    node = Column("Node", Format.TEXT, lambda row: names.get(row.name.decode("utf-8", "replace"), text.NOTHING))
    blocks: list[Block] = [
        *([] if use.is_recorded else [Sentence(f"{NOT_RECORDED}.")]),
        Facts(use_figures(use.whole), is_tiled=True),
        Table("use-nodes", "Access and expiry by master", [node, *COLUMNS], use.nodes, on=Place.PAGE),
        Table(
            "use-prefixes", "Access and expiry by prefix, heaviest first", [PREFIX, *COLUMNS], use.prefixes, "gold/key_use",
            on_page=PREFIXES_ON_PAGE, on=Place.PAGE,
        ),
        *(_extremes(use.prefixes, *extreme) for extreme in EXTREMES),
    ]  # fmt: skip
    return [Section("use", "Access and expiry", blocks, about="memory, or bytes if memory is unknown", short="Access")]


RATE: Final = Column("Accesses/s", Format.COUNT, lambda row: Cell(row.ops_per_s, rate(row)))


EXTREMES: Final = (
    ("Hottest", "ops_per_s", RATE),
    ("Coldest", "untouched_7d_bytes", Column("Untouched 7 d", Format.SIZE, "untouched_7d_bytes")),
    ("First to expire", "expiring_1d_bytes", Column("Within 1 d", Format.SIZE, "expiring_1d_bytes")),
)
"""Tables of a terminal: the heading of the prefixes, the figure by which they are ordered, and its column."""


def _extremes(prefixes: Sequence[Row], heading: str, figure: str, last: Column) -> Table:
    """The prefixes with the largest values of *figure*, for a terminal: the page sorts its table."""
    largest = sorted(
        (prefix for prefix in prefixes if getattr(prefix, figure)),
        key=lambda prefix: (-getattr(prefix, figure), prefix.name),
    )
    columns = [PREFIX._replace(heading=heading), Column("Keys", Format.COUNT, "keys"), MEMORY, last]
    return Table("use-extremes", heading, columns, largest[:EXTREMES_ON_TERMINAL], on=Place.TERMINAL)


COLUMNS: Final = (
    MEMORY,
    RATE,
    *(Column(f"Untouched {days} d", Format.SIZE, f"untouched_{days}d_bytes") for days in (1, 7, 30)),
    *(Column(f"Expires in {n} {unit}", Format.SIZE, f"expiring_{n}{unit}_bytes") for n, unit in SPANS),
    Column("Never expires", Format.COUNT, "never_expiring"),
)


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
    caption, shown = "Commands of all logs", 2 * WRITTEN_ON_TERMINAL
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
    return [Table(*table, on_terminal=WRITTEN_ON_TERMINAL, is_sample=True) for table in tables]
