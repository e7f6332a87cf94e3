"""Growth between two snapshots per master, slot, prefix and hash tag, as values for both renderings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slotscope.reports.keyspace.figures import node_names, telling_prefixes, totals
from slotscope.reports.keyspace.key_use import HeatChange, heat_changes
from slotscope.reports.keyspace.report import KeyGroup, KeyspaceReport, NodeLoad, SlotLoad
from slotscope.reports.keyspace.trend import Trend
from slotscope.runtime import text

PARTIAL_COMPARISON = "not all inputs could be read: what looks like growth or loss may be what was not read"
_TITLES = {"masters": "Masters", "slots": "Slots", "prefixes": "Prefixes", "hash_tags": "Hash tags"}


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
class SlotChanges:
    """The change of each of the 16384 slots, and who owns it afterwards: *owners* indexes *nodes*; None where sizes are not known."""

    nodes: list[NodeLoad]
    owners: list[int | None]
    keys: list[int]
    serialized_bytes: list[int] | None
    memory_bytes: list[int] | None


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
    slot_changes: SlotChanges | None = None
    trend: Trend | None = None
    heat: Sequence[HeatChange] | None = None

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


def compare_reports(before: KeyspaceReport, after: KeyspaceReport, trend: Trend | None = None) -> ComparisonReport:
    """Compare two key-space reports; their lists of prefixes and tags are taken as the heaviest only, *trend* is told beside."""
    owners = {str(slot.slot).encode(): _owner_change(before, after, slot.slot) for slot in after.slots}
    addresses = {_node_key(node.node_id, node.address): node.address for node in [*before.nodes, *after.nodes]}
    return ComparisonReport(
        from_snapshot=before.snapshot_id,
        to_snapshot=after.snapshot_id,
        from_taken_at_ms=before.taken_at_ms,
        to_taken_at_ms=after.taken_at_ms,
        total=Growth(b"", _total(before), _total(after)),
        slot_changes=_slot_changes(before, after),
        trend=trend,
        heat=heat_changes(before.use, after.use),
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


def _slot_changes(before: KeyspaceReport, after: KeyspaceReport) -> SlotChanges:
    def change(figure: Callable[[SlotLoad], int | None]) -> list[int] | None:
        known = all(figure(slot) is not None for report in (before, after) for slot in report.slots if slot.keys)
        there = any(figure(slot) is not None for report in (before, after) for slot in report.slots)
        pairs = zip(before.slots, after.slots, strict=True)
        return [(figure(new) or 0) - (figure(old) or 0) for old, new in pairs] if known and there else None

    return SlotChanges(
        after.nodes,
        [slot.owner for slot in after.slots],
        change(lambda slot: slot.keys) or [0] * len(after.slots),
        change(lambda slot: slot.serialized_bytes),
        change(lambda slot: slot.memory_bytes),
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
