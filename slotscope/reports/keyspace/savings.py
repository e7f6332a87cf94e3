"""Memory savings: read from the tables of `slotscope advise`, and as sections of a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from schemas.advice import MEMORY_CONDITIONS, SAVINGS
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
)
from slotscope.reports.records import Row, read
from slotscope.runtime import text

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
        """Changes whose bytes add up."""
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
        """What all counted changes save together."""
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
    return Document("savings", title, verdict, savings_sections(report, whole=True), page_words="All of it")


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
        sentences.append(Sentence(f"{keys} (modules, fields that expire) count as now under all conditions."))
    if not report.counted:
        return [*sentences, Sentence("No change saves a thousandth of it.")]
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
