"""Growth between two snapshots per master, slot, prefix and hash tag, as values and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slotscope.reports.document import (
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
    Tile,
    how_to_read,
)
from slotscope.reports.keyspace.report import KeyspaceReport, distinct_prefixes, totals
from slotscope.reports.records import Row
from slotscope.runtime import text

PARTIAL_COMPARISON = "some inputs could not be read; apparent growth or loss may be unread keys"
KINDS: Final = {
    "masters": ("Masters", "Node", Format.TEXT),
    "slots": ("Slots", "Slot", Format.SLOT),
    "prefixes": ("Prefixes", "Prefix", Format.KEY),
    "hash_tags": ("Hash tags", "Tag", Format.TAG),
}
"""The title of each table, the heading of its first column, and the format of that."""
SIZES: Final = {"memory_bytes": "in memory", "serialized_bytes": "serialized"}
ROWS_ON_TERMINAL = 8
NODE_ID_SHOWN = 8
NODE_ID_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Load:
    """Keys and bytes in one snapshot; bytes are None where no source knows sizes."""

    keys: int
    serialized_bytes: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """Two loads of one node (*name* is its id), slot, prefix or hash tag; *before* is None for a new one, *after* for a vanished one.

    *detail* is a node's address.
    """

    name: bytes
    before: Load | None
    after: Load | None
    detail: str = ""

    def delta(self, figure: str) -> int | None:
        """Return the increase of a field of `Load`; None where it is unknown in one snapshot."""
        before, after = (0 if side is None else getattr(side, figure) for side in (self.before, self.after))
        return None if before is None or after is None else after - before

    def ratio(self, figure: str) -> float | None:
        """Return *figure* after over before; None where that was 0, or is unknown."""
        before, after = (None if side is None else getattr(side, figure) for side in (self.before, self.after))
        return after / before if before and after is not None else None

    @property
    def largest(self) -> str:
        """The figure that shows the change: memory, else bytes, else keys."""
        return next((figure for figure in SIZES if self.delta(figure)), "keys")

    @property
    def status(self) -> str:
        """``new``, ``vanished``, ``grown``, ``shrunk`` or ``same``."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "vanished"
        delta = self.delta(self.largest) or 0
        return "grown" if delta > 0 else "shrunk" if delta < 0 else "same"


@dataclass(frozen=True, slots=True)
class GrowthTable:
    """The changes of one kind (masters, slots, prefixes, hash_tags), largest first.

    *partial*: each snapshot lists only its heaviest, so that new and vanished ones may have entered or left that list.
    """

    kind: str
    rows: list[Growth]
    partial: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two snapshots side by side; *partial_words* name the unread inputs of either."""

    from_snapshot: str
    to_snapshot: str
    from_taken_at_ms: int | None
    to_taken_at_ms: int | None
    total: Growth
    tables: list[GrowthTable]
    partial_words: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The growth, and the master with most of it, in one sentence."""
        total = self.total
        if not any(row.status != "same" for table in self.tables for row in table.rows):
            return f"Nothing changed from {self.from_snapshot} to {self.to_snapshot}."
        ratio = f" ({text.ratio(total.ratio('keys'))})" if total.ratio("keys") else ""
        parts = [f"{text.signed_count(total.delta('keys') or 0)} keys{ratio}"]
        if (memory := total.delta("memory_bytes")) is not None:
            parts.append(f"{text.signed_size(memory)} in memory")
        else:
            parts += _size_changes(total)
        note = f"; {PARTIAL_COMPARISON}" if self.partial_words else ""
        return f"{' and '.join(parts)} from {self.from_snapshot} to {self.to_snapshot}{self._most()}{note}."

    def _most(self) -> str:
        """The master with the largest change."""
        masters = next((table.rows for table in self.tables if table.kind == "masters"), [])
        changes = {id(row): row.delta(row.largest) or 0 for row in masters}
        if len(masters) < 2 or not any(changes.values()):
            return ""
        most = max(masters, key=lambda row: abs(changes[id(row)]))
        if most.before is None or most.after is None:  # a failover or a new master: no growth
            return ""
        name, change = most.detail or most.name.decode("utf-8", "replace"), changes[id(most)]
        amount = f"{text.signed_count(change)} keys" if most.largest == "keys" else text.signed_size(change)
        return f", most on {text.printable(name, 60)} ({amount})"


def growth_table(
    kind: str,
    before: Mapping[bytes, Load],
    after: Mapping[bytes, Load],
    *,
    details: Mapping[bytes, str] | None = None,
    partial: bool = False,
) -> GrowthTable:
    """Put two snapshots of one kind side by side, without unchanged rows but for masters."""
    details = details or {}
    names = list(dict.fromkeys([*before, *after]))
    if kind == "prefixes":
        names = distinct_prefixes({name: (before.get(name), after.get(name)) for name in names})
    rows = [Growth(name, before.get(name), after.get(name), details.get(name, "")) for name in names]
    kept = [row for row in rows if kind == "masters" or row.status != "same"]
    kept.sort(key=lambda row: (*(-abs(row.delta(figure) or 0) for figure in (*SIZES, "keys")), row.name))
    return GrowthTable(kind, kept, partial)


def compare_reports(before: KeyspaceReport, after: KeyspaceReport) -> ComparisonReport:
    """Compare two snapshots; their prefixes and tags are the heaviest only.  Sizes that one of them does not know are unknown in both."""
    sides = (before, after)
    known = [figure for figure in SIZES if all(getattr(totals(side), figure) is not None for side in sides)]
    masters, slots, prefixes, tags, total = zip(*(_loads(side, known) for side in sides), strict=True)
    return ComparisonReport(
        from_snapshot=before.snapshot_id,
        to_snapshot=after.snapshot_id,
        from_taken_at_ms=before.taken_at_ms,
        to_taken_at_ms=after.taken_at_ms,
        total=Growth(b"", *(loads[b""] for loads in total)),
        partial_words=[f"snapshot {side.snapshot_id}: {caveat}" for side in sides for caveat in side.partial_words],
        tables=[
            growth_table("masters", *masters, details={_node_key(node): node.address for side in sides for node in side.nodes}),
            growth_table("slots", *slots),
            growth_table("prefixes", *prefixes, partial=True),
            growth_table("hash_tags", *tags, partial=True),
        ],
    )  # fmt: skip


def _loads(report: KeyspaceReport, known: Sequence[str]) -> list[dict[bytes, Load]]:
    """Loads of masters, slots, prefixes and tags by name, and of all, with the *known* sizes."""
    named: list[list[tuple[bytes, Any]]] = [
        [(_node_key(node), node) for node in report.nodes],
        [(str(slot.slot).encode(), slot) for slot in report.slots if slot.keys],
        [(group.name, group) for group in report.prefixes],
        [(group.name, group) for group in report.hash_tags],
        [(b"", totals(report))],
    ]
    return [
        {name: Load(load.keys, **{figure: getattr(load, figure) for figure in known}) for name, load in pairs}
        for pairs in named
    ]


def _node_key(node: Row) -> bytes:
    return str(node.node_id or node.address or "no node").encode("utf-8", "surrogateescape")


def status_text(row: Growth, table: GrowthTable) -> str:
    """Return the status of *row*; in a list of the heaviest a new row is only new in the list."""
    labels = {"new": "new", "vanished": "vanished"}
    if table.kind == "slots":
        labels = {"new": "first keys", "vanished": "emptied"}
    elif table.partial:
        labels = {"new": "new in list", "vanished": "left list"}
    return labels.get(row.status, row.status)


def to_document(report: ComparisonReport) -> Document:
    """Return *report* as a document."""
    names = (report.from_snapshot, report.to_snapshot)
    partial = [("error", text.printable(caveat, 1000)) for caveat in report.partial_words]
    unread: list[Block] = [Sentence(f"{PARTIAL_COMPARISON}."), Facts(partial)] if partial else []
    keys = f"{text.signed_count(report.total.delta('keys') or 0)} keys ({text.ratio(report.total.ratio('keys'))})"
    return Document(
        "comparison",
        f"Growth from {report.from_snapshot} to {report.to_snapshot}",
        report.verdict,
        [
            Section("partial", "Partial input", unread, short="Not read"),
            *map(_growth, report.tables),
            how_to_read(
                "Bytes are the size of keys in the dump; memory is their estimated size on the server.",
                "Each snapshot lists its heaviest prefixes and hash tags; the comparison covers these.",
            ),
        ],
        names=names,
        about=names,
        of_ms=report.to_taken_at_ms,
        terminal_title=f"growth from {report.from_snapshot} to {report.to_snapshot}",
        page_subtitle=f"{text.moment(report.from_taken_at_ms)} to {text.moment(report.to_taken_at_ms)}",
        alarm=" · partial" if partial else "",
        figures=[keys, *_size_changes(report.total)],
        tiles=_tiles(report.total),
        page_label="All of it",
    )


def _size_changes(total: Growth) -> list[str]:
    """The known changes of sizes, such as ``+1.00 kB serialized (1.02×)``."""
    return [
        f"{text.signed_size(delta)} {noun} ({text.ratio(total.ratio(figure))})"
        for figure, noun in SIZES.items()
        if (delta := total.delta(figure)) is not None
    ]


def _tiles(total: Growth) -> list[Tile]:
    def tile(name: str, title: str, figure: str, how: Format, format_value: Any) -> Tile:
        sides = (format_value(getattr(side or Load(0, None), figure)) for side in (total.before, total.after))
        return Tile(name, title, total.delta(figure), how, f"{' → '.join(sides)}, {text.ratio(total.ratio(figure))}")

    tiles = [
        tile("total-keys", "Keys", "keys", Format.SIGNED_COUNT, text.count),
        tile("total-memory", "Memory, estimated", "memory_bytes", Format.SIGNED_SIZE, text.size),
        tile("total-bytes", "Dump bytes", "serialized_bytes", Format.SIGNED_SIZE, text.size),
    ]
    return [entry for entry in tiles if entry.value is not None]


def _growth(table: GrowthTable) -> Section:
    kind, (title, heading, how) = table.kind, KINDS[table.kind]
    in_memory = all(row.delta("memory_bytes") is not None for row in table.rows)
    size, weight = ("Memory", "memory_bytes") if in_memory else ("Bytes", "serialized_bytes")

    def ratio(row: Growth) -> float | None:
        return row.ratio("keys" if row.delta(weight) is None else weight)

    columns = [
        Column(heading, how, lambda growth: _name(growth, kind)),
        Column("Address", of="detail"),
        Column("Keys before", Format.COUNT, lambda growth: getattr(growth.before, "keys", None), on=Place.PAGE),
        Column("Keys", Format.COUNT, lambda growth: getattr(growth.after, "keys", None)),
        Column("Change", Format.SIGNED_COUNT, lambda growth: growth.delta("keys")),
        Column(f"{size} before", Format.SIZE, lambda growth: getattr(growth.before, weight, None), on=Place.PAGE),
        Column(size, Format.SIZE, lambda growth: getattr(growth.after, weight, None)),
        Column("Change", Format.SIGNED_SIZE, lambda growth: growth.delta(weight)),
        Column("Ratio", Format.RATIO, ratio),
        Column(
            "Status",
            of=lambda growth: Cell(status_text(growth, table), style="quiet" if growth.status == "same" else ""),
        ),
    ]
    caption = f"{title}, largest changes first"
    if table.partial:
        caption += "; each snapshot lists only its heaviest, so a row new in the list may be older"
    about = "largest changes" if len(table.rows) > ROWS_ON_TERMINAL else ""
    shown = Table(f"{kind}-table", caption, columns, table.rows, on_terminal=ROWS_ON_TERMINAL)
    return Section(kind, title, [shown if table.rows else Sentence("Nothing changed.", Place.PAGE)], about=about)


def _name(row: Growth, kind: str) -> Any:
    if kind == "masters":
        is_id = bool(row.detail) and len(row.name) == NODE_ID_LENGTH
        return Cell(None, text.shown(row.name[:NODE_ID_SHOWN] if is_id else row.name))
    return int(row.name) if kind == "slots" else row.name
