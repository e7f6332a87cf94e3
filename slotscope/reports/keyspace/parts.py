"""Parts of a snapshot that have tables of their own, read and as sections: access and expiry, commands of append-only logs, memory savings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from schemas.advice import MEMORY_CONDITIONS, SAVINGS
from schemas.aof import COMMAND_LOAD, WRITE_KEYS, WRITE_LOAD
from schemas.gold import KEY_USE
from slotscope.reports.document import (
    Bar,
    Block,
    Cell,
    Column,
    Document,
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


NAMES: Final = {
    "upgrade": "load into",
    "allocator": "allocate with",
    "restart": "load anew:",
    "setting": "raise",
    "expire": "let expire",
    "split_key": "split key",
    "split_tag": "split hash tag",
}
"""The verb of a change by its kind."""
ROWS_ON_TERMINAL: Final = 12
HINTS_FIRST: Final = 4
"""Hints of each kind that are shown first; the total does not count hints."""
KEYS: Final = Column("Keys", Format.COUNT, "keys")
HOW: Final = (
    Column("How", Format.LONG, "how"),
    Column("Risk", Format.LONG, "risk"),
    Column("Undo", Format.LONG, "undo"),
)


@dataclass(frozen=True, slots=True)
class SavingsReport:
    """Changes in their order, and all keys under each condition."""

    changes: Sequence[Row]
    conditions: Sequence[Row]

    @property
    def now_bytes(self) -> int:
        """Bytes in memory now."""
        return int(self.conditions[0].now_bytes)

    @property
    def counted(self) -> list[Row]:
        """Changes with savings that add up."""
        return [change for change in self.changes if change.counted]

    @property
    def instead(self) -> list[Row]:
        """Other ways to save the same bytes."""
        return [
            change
            for change in self.changes
            if not change.counted and change.kind in ("upgrade", "allocator", "restart")
        ]

    @property
    def hints(self) -> list[Row]:
        """Expiries and splits: they free memory only if data is given up or divided."""
        return [change for change in self.changes if change.kind in ("expire", "split_key", "split_tag")]

    @property
    def saved_bytes(self) -> int:
        """Total saving of all counted changes."""
        return sum(change.saved_bytes or 0 for change in self.counted)


def load_savings(root: str, snapshot_id: str) -> SavingsReport | None:
    """Read the savings; None where `slotscope advise` has not run for the snapshot."""
    conditions = read(
        root, MEMORY_CONDITIONS, order_by="memory_bytes, server", snapshot_id=snapshot_id, scope="cluster"
    )
    if not conditions:
        return None
    changes = read(root, SAVINGS, order_by="rank", snapshot_id=snapshot_id)
    for change in changes:
        change.name = NAMES.get(change.kind, change.kind)
    return SavingsReport(changes, conditions)


def savings_document(snapshot_id: str, report: SavingsReport | None) -> Document:
    """Return *report* as a document of its own, for a terminal."""
    verdict = "Nothing was measured." if report is None else _verdict(report)
    title = f"Memory savings in snapshot {snapshot_id}"
    return Document("savings", title, verdict, savings_sections(report, whole=True), page_label="All of it")


def savings_sections(report: SavingsReport | None, *, whole: bool = False) -> list[Section]:
    """Return the sections on *report*; a terminal gets one line, unless it asked for the *whole*."""
    if report is None:
        return []
    place = Place.EVERYWHERE if whole else Place.PAGE
    title, about = "Changes" if whole else "Memory savings", "no two changes count the same bytes"
    hints = "Not counted: keys to expire or to split"
    parts = [
        Section("savings", title, _changes(report), about=about, short="Savings", on=place),
        Section("instead", "Other ways to save the same bytes", [_other_ways(report)], on=place),
        Section("hints", hints, _hints(report), short="Expire, split", on=place),
        Section("servers", "The same keys on other servers", [_servers(report)], about="loaded from a dump", on=place),
    ]
    if whole:
        return parts
    sentence = f"{text.size(report.saved_bytes)} could be saved: see slotscope advise, or the page"
    return [Section("advice", "Savings", [Sentence(sentence)], on=Place.TERMINAL), *parts]


def _verdict(report: SavingsReport) -> str:
    share = text.percent(report.saved_bytes, report.now_bytes)
    return (
        f"{text.size(report.now_bytes)} in memory, estimated; {text.size(report.saved_bytes)} ({share}) could be saved."
    )


CHANGE: Final = Column(
    "Change",
    Format.KEY,
    lambda change: Cell(change.subject, change.name) if change.subject else Cell(None, change.name),
)


def _changes(report: SavingsReport) -> list[Block]:
    unmeasured, whole = report.conditions[0].unmeasured_keys, report.now_bytes or 1
    sentences = [Sentence(_verdict(report), Place.PAGE, is_quiet=False)]
    if unmeasured:
        keys = text.plural(unmeasured, "key")
        sentences.append(
            Sentence(f"{keys} as now under all conditions: streams, modules, hashes with expiring fields.")
        )
    if not report.counted:
        return [*sentences, Sentence("No change saves 0.1 % or more.")]
    saved = accumulate(change.saved_bytes or 0 for change in report.counted)
    left = {id(change): report.now_bytes - so_far for change, so_far in zip(report.counted, saved, strict=True)}

    def bar(change: Row) -> Bar:
        return Bar((left[id(change)] + (change.saved_bytes or 0)) / whole, left[id(change)] / whole)

    columns = [
        CHANGE,
        KEYS,
        Column("Saves", Format.SIZE, "saved_bytes", "descending"),
        Column("Share", Format.SHARE, lambda change: (change.saved_bytes or 0) / whole),
        Column("Left", Format.SIZE, lambda change: left[id(change)]),
        Column("of memory", Format.BAR, bar, on=Place.PAGE),
        *HOW,
    ]
    shown = report.counted[:ROWS_ON_TERMINAL]
    firsts = {change.kind: change for change in reversed(shown)}.values()
    facts = [
        (
            text.shown(change.subject, 30) if change.subject else change.name,
            f"{change.how}. Risk: {change.risk}. Undo: {change.undo}",
        )
        for change in shown
        if change in firsts or change.kind == "setting"
    ]
    caption = "Changes, largest saving first"
    return [*sentences, _table("savings-table", caption, columns, report.counted), Facts(facts, Place.TERMINAL)]


def _table(
    name: str, caption: str, columns: Sequence[Column], rows: Sequence[Row], shown: int = ROWS_ON_TERMINAL
) -> Table:
    return Table(name, caption, columns, rows, "gold/savings", on_terminal=shown)


def _other_ways(report: SavingsReport) -> Table:
    columns = [CHANGE, KEYS, Column("Saves", Format.SIZE, "saved_bytes"), *HOW]
    return _table("savings-instead", "Each instead of changes above", columns, report.instead)


def _hints(report: SavingsReport) -> list[Block]:
    """The first of each kind before the rest, so that prefixes to expire leave room for keys to split."""
    kinds = [
        [hint for hint in report.hints if hint.kind == kind] for kind in {hint.kind: None for hint in report.hints}
    ]
    firsts = [hint for kind in kinds for hint in kind[:HINTS_FIRST]]
    rows = [*firsts, *(hint for kind in kinds for hint in kind[HINTS_FIRST:])]
    columns = [CHANGE, KEYS, Column("Frees", Format.SIZE, "saved_bytes"), *HOW]
    caption = "Frees memory only if data is given up or split"
    facts = [(f"{kind[0].name} {text.shown(kind[0].subject, 40)}", kind[0].how) for kind in kinds]
    return [_table("savings-hints", caption, columns, rows, len(firsts)), Facts(facts, Place.TERMINAL)]


def _servers(report: SavingsReport) -> Table:
    most = max((max(condition.memory_bytes, condition.now_bytes) for condition in report.conditions), default=0) or 1
    columns = [
        Column("Server", Format.TEXT, "server"),
        Column("Allocator", Format.TEXT, "allocator"),
        Column("Memory", Format.SIZE, "memory_bytes", "ascending"),
        Column(
            "Of now",
            Format.RATIO,
            lambda condition: condition.memory_bytes / condition.now_bytes if condition.now_bytes else None,
        ),
        Column("Compared", Format.BAR, lambda condition: Bar(condition.memory_bytes / most), on=Place.PAGE),
    ]
    caption, source = "Memory of the same keys after loading a dump", "gold/memory_conditions"
    return Table("savings-servers", caption, columns, report.conditions, source, on_terminal=20)
