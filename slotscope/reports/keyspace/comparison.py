"""Growth between two snapshots per master, slot, prefix and hash tag, as values and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
from slotscope.reports.keyspace.figures import node_names, telling_prefixes, totals
from slotscope.reports.keyspace.report import KeyGroup, KeyspaceReport
from slotscope.runtime import text

PARTIAL_COMPARISON = "not all inputs could be read: what looks like growth or loss may be what was not read"
_TITLES = {"masters": "Masters", "slots": "Slots", "prefixes": "Prefixes", "hash_tags": "Hash tags"}
ROWS_ON_TERMINAL = 8
NODE_ID_SHOWN = 8
NODE_ID_LENGTH = 40
NAMES = {"masters": Format.TEXT, "slots": Format.SLOT, "prefixes": Format.KEY, "hash_tags": Format.TAG}


@dataclass(frozen=True, slots=True)
class Load:
    """Keys and bytes of one thing in one snapshot; bytes are None where no source knows sizes."""

    keys: int
    serialized_bytes: int | None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """One thing in two snapshots; *before* is None where it is new, *after* where it has vanished.

    *name* is a node id, a slot number, a prefix or a hash tag without its braces; *detail* says more: a
    node's address, a slot's owner.
    """

    name: bytes
    before: Load | None
    after: Load | None
    detail: str = ""

    @property
    def keys_delta(self) -> int:
        """Keys gained, below zero when lost."""
        return (self.after.keys if self.after else 0) - (self.before.keys if self.before else 0)

    @property
    def bytes_delta(self) -> int | None:
        """Bytes gained; None where a snapshot that has the thing does not know its size."""
        before, after = (0 if side is None else side.serialized_bytes for side in (self.before, self.after))
        return None if before is None or after is None else after - before

    @property
    def memory_delta(self) -> int | None:
        """Bytes in memory gained; None where a snapshot that has the thing does not know them."""
        before, after = (0 if side is None else side.memory_bytes for side in (self.before, self.after))
        return None if before is None or after is None else after - before

    @property
    def is_of_keys(self) -> bool:
        """Whether the change is told in keys: no size is known, or none changed."""
        return not (self.memory_delta or self.bytes_delta)

    @property
    def largest_delta(self) -> int:
        """The change by memory where it is known, else by bytes, else by keys."""
        return self.memory_delta or self.bytes_delta or self.keys_delta

    @property
    def keys_ratio(self) -> float | None:
        """Keys after over keys before; None where there were none."""
        return self._ratio("keys")

    @property
    def bytes_ratio(self) -> float | None:
        """Bytes after over bytes before; None where there were none, or are not known."""
        return self._ratio("serialized_bytes")

    @property
    def memory_ratio(self) -> float | None:
        """Bytes in memory after over those before; None where there were none, or are not known."""
        return self._ratio("memory_bytes")

    def _ratio(self, figure: str) -> float | None:
        before, after = (None if side is None else getattr(side, figure) for side in (self.before, self.after))
        return after / before if before and after is not None else None

    @property
    def status(self) -> str:
        """``new``, ``vanished``, ``grown``, ``shrunk`` or ``same``, by `largest_delta`."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "vanished"
        delta = self.largest_delta
        return "grown" if delta > 0 else "shrunk" if delta < 0 else "same"


@dataclass(frozen=True, slots=True)
class GrowthTable:
    """All that changed of one kind (masters, slots, prefixes, hash_tags), the largest change first.

    *partial* says that each snapshot lists only its heaviest: what is new or has vanished may just have
    entered or left that list.
    """

    kind: str
    rows: list[Growth]
    partial: bool = False

    @property
    def in_memory(self) -> bool:
        """Whether the change of all its rows is known in memory."""
        return bool(self.rows) and all(row.memory_delta is not None for row in self.rows)

    @property
    def title(self) -> str:
        """The heading of the table."""
        return _TITLES.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two snapshots side by side; *partial_words* say what of either could not be read, so that growth may be none."""

    from_snapshot: str
    to_snapshot: str
    from_taken_at_ms: int | None
    to_taken_at_ms: int | None
    total: Growth
    tables: list[GrowthTable]
    partial_words: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """What grew, by how much, and on which master most: in one sentence."""
        total = self.total
        parts = [
            f"{text.signed_count(total.keys_delta)} keys"
            + (f" ({text.ratio(total.keys_ratio)})" if total.keys_ratio else "")
        ]
        if total.memory_delta is not None:
            parts.append(f"{text.signed_size(total.memory_delta)} in memory")
        elif total.bytes_delta is not None:
            parts.append(f"{text.signed_size(total.bytes_delta)} serialized ({text.ratio(total.bytes_ratio)})")
        if not any(table.rows and any(row.status != "same" for row in table.rows) for table in self.tables):
            return f"Nothing changed from {self.from_snapshot} to {self.to_snapshot}."
        doubt = f"; {PARTIAL_COMPARISON}" if self.partial_words else ""
        return f"{' and '.join(parts)} from {self.from_snapshot} to {self.to_snapshot}{self._most()}{doubt}."

    def _most(self) -> str:
        """Where most of the change lies: the master, and the prefix or hash tag of the largest change."""
        masters = next((table.rows for table in self.tables if table.kind == "masters"), [])
        changed = [row for row in masters if row.largest_delta]
        if len(masters) < 2 or not changed:
            return ""
        most = max(changed, key=lambda row: abs(row.largest_delta))
        named = most.detail or most.name.decode("utf-8", "replace")
        words = (
            text.signed_count(most.keys_delta) + " keys" if most.is_of_keys else text.signed_size(most.largest_delta)
        )
        return f", most on {text.printable(named, 60)} ({words})"


def growth_table(
    kind: str,
    before: Mapping[bytes, Load],
    after: Mapping[bytes, Load],
    *,
    details: Mapping[bytes, str] | None = None,
    partial: bool = False,
) -> GrowthTable:
    """Put two snapshots of one kind side by side; what did not change at all is left out, except masters."""
    details = details or {}
    names = list(dict.fromkeys([*before, *after]))
    if kind == "prefixes":
        names = telling_prefixes({name: (before.get(name), after.get(name)) for name in names})
    rows = [Growth(name, before.get(name), after.get(name), details.get(name, "")) for name in names]
    kept = [row for row in rows if kind == "masters" or row.status != "same"]
    kept.sort(
        key=lambda row: (*(-abs(delta or 0) for delta in (row.memory_delta, row.bytes_delta, row.keys_delta)), row.name)
    )
    return GrowthTable(kind, kept, partial)


def compare_reports(before: KeyspaceReport, after: KeyspaceReport) -> ComparisonReport:
    """Compare two key-space reports; their lists of prefixes and tags are taken as the heaviest only."""
    owners = {str(slot.slot).encode(): _owner_change(before, after, slot.slot) for slot in after.slots}
    addresses = {_node_key(node.node_id, node.address): node.address for node in [*before.nodes, *after.nodes]}
    return ComparisonReport(
        from_snapshot=before.snapshot_id,
        to_snapshot=after.snapshot_id,
        from_taken_at_ms=before.taken_at_ms,
        to_taken_at_ms=after.taken_at_ms,
        total=Growth(b"", _total(before), _total(after)),
        partial_words=[
            f"snapshot {side.snapshot_id}: {words}" for side in (before, after) for words in side.partial_words
        ],
        tables=[
            growth_table("masters", _node_loads(before), _node_loads(after), details=addresses),
            growth_table("slots", _slot_loads(before), _slot_loads(after), details=owners),
            growth_table("prefixes", _group_loads(before.prefixes), _group_loads(after.prefixes), partial=True),
            growth_table("hash_tags", _group_loads(before.hash_tags), _group_loads(after.hash_tags), partial=True),
        ],
    )


def _total(report: KeyspaceReport) -> Load:
    whole = totals(report)
    return Load(whole.keys, whole.serialized_bytes, whole.memory_bytes)


def _node_key(node_id: str | None, address: str) -> bytes:
    return (node_id or address).encode("utf-8", "surrogateescape")


def _node_loads(report: KeyspaceReport) -> dict[bytes, Load]:
    return {
        _node_key(node.node_id, node.address): Load(node.keys, node.serialized_bytes, node.memory_bytes)
        for node in report.nodes
    }


def _slot_loads(report: KeyspaceReport) -> dict[bytes, Load]:
    return {
        str(slot.slot).encode(): Load(slot.keys, slot.serialized_bytes, slot.memory_bytes)
        for slot in report.slots
        if slot.keys
    }


def _group_loads(groups: Iterable[KeyGroup]) -> dict[bytes, Load]:
    return {group.name: Load(group.keys, group.serialized_bytes, group.memory_bytes) for group in groups}


def _owner_change(before: KeyspaceReport, after: KeyspaceReport, slot: int) -> str:
    """Return the owner of *slot*, or both where it has moved."""
    old, new = _owner_name(before, slot), _owner_name(after, slot)
    return new if old == new else f"{old or 'none'} → {new or 'none'}"


def _owner_name(report: KeyspaceReport, slot: int) -> str:
    owner = report.slots[slot].owner
    return "" if owner is None else node_names([report.nodes[owner]])[0]


def status_words(row: Growth, table: GrowthTable) -> str:
    """Say what became of *row* and no more than is known: new in a list of the heaviest is not yet new."""
    words = {"new": "new", "vanished": "vanished"}
    if table.kind == "slots":
        words = {"new": "first keys", "vanished": "emptied"}
    elif table.partial:
        words = {"new": "new in list", "vanished": "left list"}
    return words.get(row.status, row.status)


def comparison_document(report: ComparisonReport) -> Document:
    """Return *report* as a document."""
    names = (report.from_snapshot, report.to_snapshot)
    partial = [("error", text.printable(words, 1000)) for words in report.partial_words]
    sections = [
        Section(
            "partial",
            "Partial input",
            [Sentence(f"{PARTIAL_COMPARISON}."), Facts(partial)] if partial else [],
            short="Not read",
        ),
        *(_growth(table) for table in report.tables),
        _reading(),
    ]
    return Document(
        "comparison",
        f"Growth from {report.from_snapshot} to {report.to_snapshot}",
        report.verdict,
        sections,
        names=names,
        about=names,
        of_ms=report.to_taken_at_ms,
        terminal_title=f"growth from {report.from_snapshot} to {report.to_snapshot}",
        page_subtitle=f"{text.moment(report.from_taken_at_ms)} to {text.moment(report.to_taken_at_ms)}",
        alarm=" · partial" if partial else "",
        figures=_figures(report.total),
        tiles=_tiles(report.total),
        page_words="All of it",
    )


def _figures(total: Growth) -> list[str]:
    found = [f"{text.signed_count(total.keys_delta)} keys ({text.ratio(total.keys_ratio)})"]
    if total.memory_delta is not None:
        found.append(f"{text.signed_size(total.memory_delta)} in memory ({text.ratio(total.memory_ratio)})")
    if total.bytes_delta is not None:
        found.append(f"{text.signed_size(total.bytes_delta)} serialized ({text.ratio(total.bytes_ratio)})")
    return found


def _tiles(total: Growth) -> list[Tile]:
    before, after = total.before or Load(0, None), total.after or Load(0, None)
    sizes = [
        (
            "total-memory",
            "Memory, estimated",
            total.memory_delta,
            before.memory_bytes,
            after.memory_bytes,
            total.memory_ratio,
        ),
        (
            "total-bytes",
            "Dump bytes",
            total.bytes_delta,
            before.serialized_bytes,
            after.serialized_bytes,
            total.bytes_ratio,
        ),
    ]
    keys = f"{text.count(before.keys)} → {text.count(after.keys)}, {text.ratio(total.keys_ratio)}"
    return [
        Tile("total-keys", "Keys", total.keys_delta, Format.SIGNED_COUNT, keys),
        *(
            Tile(name, title, delta, Format.SIGNED_SIZE, f"{text.size(old)} → {text.size(new)}, {text.ratio(ratio)}")
            for name, title, delta, old, new, ratio in sizes
            if delta is not None
        ),
    ]


def _growth(table: GrowthTable) -> Section:
    in_memory, kind = table.in_memory, table.kind
    size, weight = ("Memory", "memory_bytes") if in_memory else ("Bytes", "serialized_bytes")
    columns = [
        Column(
            {"masters": "Node", "slots": "Slot", "prefixes": "Prefix"}.get(kind, "Tag"),
            NAMES[kind],
            lambda one: _name(one, kind),
        ),
        Column(
            "Address" if kind == "masters" else "Owner",
            Format.TEXT,
            "detail",
            on=Place.EVERYWHERE if kind == "masters" else Place.PAGE,
        ),
        Column("Keys before", Format.COUNT, lambda one: getattr(one.before, "keys", None), on=Place.PAGE),
        Column("Keys", Format.COUNT, lambda one: getattr(one.after, "keys", None)),
        Column("Change", Format.SIGNED_COUNT, "keys_delta"),
        Column(f"{size} before", Format.SIZE, lambda one: getattr(one.before, weight, None), on=Place.PAGE),
        Column(size, Format.SIZE, lambda one: getattr(one.after, weight, None)),
        Column("Change", Format.SIGNED_SIZE, "memory_delta" if in_memory else "bytes_delta"),
        Column(
            "Ratio",
            Format.RATIO,
            lambda one: (
                one.memory_ratio if in_memory else one.keys_ratio if one.bytes_delta is None else one.bytes_ratio
            ),
        ),
        Column(
            "What",
            Format.TEXT,
            lambda one: Cell(status_words(one, table), style="quiet" if one.status == "same" else ""),
        ),
    ]
    if kind not in ("masters", "slots"):
        columns.pop(1)
    caption = f"{table.title}, largest changes first"
    if table.partial:
        caption += "; each snapshot lists only its heaviest: new in list and left list say no more than that"
    about = "largest changes" if len(table.rows) > ROWS_ON_TERMINAL else ""
    blocks: list[Block] = [Table(f"{kind}-table", caption, columns, table.rows, on_terminal=ROWS_ON_TERMINAL)]
    return Section(kind, table.title, blocks if table.rows else [Sentence("Nothing changed.", Place.PAGE)], about=about)


def _name(row: Growth, kind: str) -> Any:
    if kind == "masters":
        is_id = bool(row.detail) and len(row.name) == NODE_ID_LENGTH
        return Cell(None, text.shown(row.name[:NODE_ID_SHOWN] if is_id else row.name))
    return int(row.name) if kind == "slots" else row.name


def _reading() -> Section:
    sentences = (
        "Bytes are the size of keys in the dump; memory is an estimate of what they take on the server.",
        "Prefixes and hash tags are compared by the lists of the heaviest that each snapshot keeps.",
    )
    return how_to_read(*sentences)
