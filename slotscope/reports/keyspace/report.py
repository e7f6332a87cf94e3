"""The report on a snapshot as values, read from its tables by bounded reads, and its figures: totals, skew, names of nodes, causes of heavy slots."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cluster_core.kinds import Severity
from cluster_core.memory.model import MemoryBasis
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.caveats import Caveat, Code
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_SIZES, NODE_LOAD, TTL_BUCKETS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.reports.keyspace.parts import (
    LogLoad,
    SavingsReport,
    UseReport,
    load_key_use,
    load_log_load,
    load_savings,
)
from slotscope.reports.records import Row, read
from slotscope.runtime import text
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.sources.slot_weights import is_partial, memory_basis

AGE_MS_MIN = 60_000
"""A smaller age is no news: the dumps of one cluster start some seconds apart."""
GROUPS_SHOWN = 500
BIG_KEYS_SHOWN = 200
SOURCES_SHOWN = 2000


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """Load of one of the 16384 slots, summed over the nodes that hold keys of it; *owner* indexes `KeyspaceReport.nodes`."""

    slot: int
    owner: int | None
    keys: int
    serialized_bytes: int | None
    expires: int
    top_key: bytes | None
    top_key_bytes: int | None
    memory_bytes: int | None = None
    top_key_memory: int | None = None


@dataclass(frozen=True, slots=True)
class KeyspaceReport:
    """One snapshot, every list in the order of its tables on the page; *log* is None without append-only logs, *memory* without a model.

    Rows of *hash_tags* and *prefixes* have a *name*; their figures are at most *keys_error*, *bytes_error* and *memory_error* too low.  The
    *unread_share* of a node or a source is None where it is unknown.
    """

    snapshot_id: str
    taken_at_ms: int | None
    sources: list[Row]
    warnings: list[Caveat]
    nodes: list[Row]
    slots: list[SlotLoad]
    big_keys: list[Row]
    hash_tags: list[Row]
    prefixes: list[Row]
    ttl_buckets: list[Row]
    root: str = ""
    bad_records: int = 0
    is_partial: bool = False
    log: LogLoad | None = None
    memory: MemoryBasis | None = None
    use: UseReport | None = None
    savings: SavingsReport | None = None
    sizes: list[Row] = field(default_factory=list)
    """Keys by memory, or by dump bytes where memory is unknown: from *at_least* to below its double."""
    elements: list[Row] = field(default_factory=list)

    @property
    def keys(self) -> int:
        """All keys of the snapshot."""
        return sum(slot.keys for slot in self.slots)

    @property
    def partial_words(self) -> list[str]:
        """The parts of its inputs that could not be read, in sentences; empty for a whole snapshot."""
        lines = [warning.text for warning in self.warnings if warning.code == Code.PARTIAL]
        return lines or (["partial: some of its inputs could not be read"] if self.is_partial else [])


def load_report(root: str, snapshot_id: str, now_ms: int | None = None) -> KeyspaceReport:
    """Read the report on a snapshot under *root*, with the age of its dumps at *now_ms*; InputError if it is missing or was not finished."""
    finished = read_rows(root, SNAPSHOTS, snapshot_id=snapshot_id)
    if not finished:
        raise InputError(f"{root}: no finished snapshot {snapshot_id!r}; slotscope tables snapshots lists them")
    head = finished[0]
    nodes = [_with_share(row) for row in read(root, NODE_LOAD, snapshot_id=snapshot_id) if row.node_id or row.keys]
    for node in nodes:
        node.address, node.expires = node.address or "", node.expires or 0
    nodes.sort(key=lambda row: (not row.address, row.address, row.node_id or ""))
    sources = read(root, SOURCES, order_by="source", limit=SOURCES_SHOWN, snapshot_id=snapshot_id)
    return KeyspaceReport(
        snapshot_id=snapshot_id,
        root=root,
        taken_at_ms=int(head["taken_at"].timestamp() * 1000) if head["taken_at"] else None,
        sources=[_with_share(row) for row in sources],
        warnings=_warnings(head, sources, now_ms),
        nodes=nodes,
        slots=_slots(root, snapshot_id, nodes),
        big_keys=read(root, BIG_KEYS, order_by="rank", limit=BIG_KEYS_SHOWN, snapshot_id=snapshot_id, scope="cluster"),
        hash_tags=_groups(read(root, HASH_TAGS, snapshot_id=snapshot_id), "hash_tag"),
        prefixes=_groups(read(root, KEY_PREFIXES, snapshot_id=snapshot_id), "prefix"),
        ttl_buckets=_ttl_buckets(read(root, TTL_BUCKETS, snapshot_id=snapshot_id)),
        bad_records=head["bad_records"],
        is_partial=is_partial(head),
        log=load_log_load(root, snapshot_id),
        memory=memory_basis(head),
        use=_key_use(root, snapshot_id),
        savings=load_savings(root, snapshot_id),
        sizes=_ranges(root, snapshot_id, "memory_bytes", "serialized_bytes"),
        elements=_ranges(root, snapshot_id, "elements"),
    )


def _warnings(head: dict[str, Any], sources: Sequence[Row], now_ms: int | None) -> list[Caveat]:
    """The stored warnings, gravest first, and the age of the oldest input: tables have times only."""
    caveats = [Caveat.of(**warning) for warning in head["warnings"] if warning["code"] != Code.SNAPSHOT_AGE]
    dated_s = {
        source.source: int(at)
        for source in sources
        if (at := dict(source.facts).get("last_s" if source.kind == "aof" else "ctime", "")).isdecimal()
        and len(at) < 19
    }
    if now_ms is not None and dated_s:
        oldest = min(dated_s, key=lambda source: (dated_s[source], source))
        oldest_s = dated_s[oldest]
        if now_ms - oldest_s * 1000 >= AGE_MS_MIN:
            age = text.duration(now_ms // 1000 - oldest_s)
            message = f"later writes are missing: {text.printable(oldest)} dates from {text.moment(oldest_s * 1000)}, {age} before this report"
            if len(dated_s) > 1:
                message += f"; {len(dated_s)} inputs within {text.duration(max(dated_s.values()) - oldest_s)}"
            caveats.append(Caveat.note(Code.SNAPSHOT_AGE, message))
    return sorted(caveats, key=lambda caveat: list(Severity).index(caveat.severity))


def _key_use(root: str, snapshot_id: str) -> UseReport | None:
    """Access and expiry, without the prefixes that repeat a longer one."""
    use = load_key_use(root, snapshot_id)
    if use is not None:
        loads = {prefix.name: (prefix.keys, prefix.weight_bytes, prefix.ops_per_s) for prefix in use.prefixes}
        telling = set(distinct_prefixes(loads))
        use.prefixes[:] = [prefix for prefix in use.prefixes if prefix.name in telling]
    return use


def _with_share(row: Row) -> Row:
    if not row.partial:
        row.unread_share = 0.0
    return row


def _slots(root: str, snapshot_id: str, nodes: list[Row]) -> list[SlotLoad]:
    columns = ("slot", "owner_id", "keys", "serialized_bytes", "expires", "memory_bytes")
    top_columns = ("scope_value", "key", "serialized_bytes", "memory_bytes")
    top_keys = read(root, BIG_KEYS, columns=top_columns, where="rank = 1", snapshot_id=snapshot_id, scope="slot")
    tops = {int(row.scope_value): row for row in top_keys}
    numbers = {node.node_id: number for number, node in enumerate(nodes)}
    slots = [SlotLoad(slot, None, 0, None, 0, None, None) for slot in range(SLOT_COUNT)]
    for row in read(root, SLOT_LOAD, columns=columns, snapshot_id=snapshot_id):
        known, top = slots[row.slot], tops.get(row.slot)
        slots[row.slot] = SlotLoad(
            slot=row.slot,
            owner=numbers.get(row.owner_id) if row.owner_id else None,
            keys=known.keys + row.keys,
            serialized_bytes=_sum(known.serialized_bytes, row.serialized_bytes),
            memory_bytes=_sum(known.memory_bytes, row.memory_bytes),
            expires=known.expires + (row.expires or 0),
            top_key=top.key if top else None,
            top_key_bytes=top.serialized_bytes if top else None,
            top_key_memory=top.memory_bytes if top else None,
        )
    return slots


def _sum(known: int | None, more: int | None) -> int | None:
    """The sum of the known ones."""
    return known if more is None else (known or 0) + more


def _groups(rows: list[Row], name: str) -> list[Row]:
    """The heaviest groups of a table, which holds a bounded number of them."""
    for row in rows:
        row.name = getattr(row, name)
    rows.sort(key=lambda row: (-(row.memory_bytes or 0), -(row.serialized_bytes or 0), -row.keys, row.name))
    return rows[:GROUPS_SHOWN]


def _ranges(root: str, snapshot_id: str, *measures: str) -> list[Row]:
    """The ranges of the first known one of *measures*, in ascending order, with the empty ones between them."""
    for measure in measures:
        summed: dict[int, list[int]] = {}
        for row in read(root, KEY_SIZES, snapshot_id=snapshot_id, measure=measure):
            sums = summed.setdefault(row.at_least, [0, 0])
            sums[0] += row.keys
            sums[1] += row.total
        if summed:
            places = [1 << bits for bits in range(max(summed).bit_length())]
            between = ([0] if 0 in summed else []) + [at for at in places if at >= min(summed)]
            ranges = ((at, *summed.get(at, (0, 0))) for at in between)
            return [Row(at_least=at, keys=keys, total=total) for at, keys, total in ranges]
    return []


def _ttl_buckets(rows: list[Row]) -> list[Row]:
    summed: dict[int, Row] = {}
    for row in rows:
        known = summed.setdefault(row.bucket, Row(label=row.label, keys=0, serialized_bytes=None))
        known.keys += row.keys
        known.serialized_bytes = _sum(known.serialized_bytes, row.serialized_bytes)
    return [bucket for _, bucket in sorted(summed.items())]


def distinct_prefixes(loads: Mapping[bytes, Hashable]) -> list[bytes]:
    """Return the prefixes of *loads* that cut no hash tag in two and have no longer prefix with the same load."""
    whole = [name for name in loads if not _cuts_a_tag(name)]
    alike: dict[Hashable, list[bytes]] = {}
    for name in whole:
        alike.setdefault(loads[name], []).append(name)
    return [name for name in whole if not any(other != name and other.startswith(name) for other in alike[loads[name]])]


def folded_prefixes(groups: Sequence[Row]) -> list[Row]:
    """Return the *groups* without redundant prefixes (`distinct_prefixes`)."""
    by_name = {group.name: group for group in groups}
    loads = {name: (group.keys, group.serialized_bytes, group.memory_bytes) for name, group in by_name.items()}
    return [by_name[name] for name in distinct_prefixes(loads)]


def _cuts_a_tag(prefix: bytes) -> bool:
    _, brace, tag = prefix.partition(b"{")
    return bool(brace) and b"}" not in tag


SHORT_ID_LENGTH = 8
SINGLE_CAUSE_SHARE = 0.5
"""A key with this share of its slot is the cause, independent of its tag."""
WORTH_NAMING_SHARE = 0.1
"""A key or tag below this share of its slot does not explain it."""
_ENDS = (*((length, 0) for length in range(SHORT_ID_LENGTH, 17, 4)), (4, 6), (6, 10))
EVEN_RATIO = 1.05
"""A heaviest master below this much of the mean is no news."""
EXPLAINING_SHARE = 0.5
"""A cause holds this share of a slot, or of a master's excess over the mean."""
NAME_LENGTH_MAX = 48


class Weight(StrEnum):
    """The figure by which slots, masters, tags and prefixes are compared."""

    MEMORY = "memory_bytes"
    BYTES = "serialized_bytes"
    KEYS = "keys"

    @property
    def noun(self) -> str:
        """As a report calls it."""
        return _WEIGHT_NOUNS[self]

    def of(self, load: SlotLoad | Row | Totals) -> int:
        """Return the weight of *load*, 0 if unknown."""
        return getattr(load, self.value) or 0


_WEIGHT_NOUNS = {Weight.MEMORY: "memory", Weight.BYTES: "bytes", Weight.KEYS: "keys"}


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole snapshot in one line; *serialized_bytes* and *memory_bytes* are None where no source knows them."""

    keys: int
    expires: int
    serialized_bytes: int | None
    owned_slots: int
    used_slots: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """The key or hash tag that makes a slot heavy: it has *weight* of the slot's figure *by*, the part *share*."""

    kind: str
    name: bytes
    keys: int
    weight: int
    share: float
    by: Weight


@dataclass(frozen=True, slots=True)
class HeavySlot:
    """One of the heaviest slots, with its part of the snapshot and, where one stands out, its cause."""

    load: SlotLoad
    owner: Row | None
    share: float
    cause: Cause | None


def totals(report: KeyspaceReport) -> Totals:
    """Add up the slots of *report*."""
    slots = report.slots
    sizes = [slot.serialized_bytes for slot in slots if slot.serialized_bytes is not None]
    memory = [node.memory_bytes for node in report.nodes if node.memory_bytes is not None]
    return Totals(
        keys=report.keys,
        expires=sum(slot.expires for slot in slots),
        serialized_bytes=sum(sizes) if sizes else None,
        owned_slots=sum(slot.owner is not None for slot in slots),
        used_slots=sum(slot.keys > 0 for slot in slots),
        memory_bytes=sum(memory) if memory else None,
    )


def max_over_mean(values: Sequence[int | None]) -> float | None:
    """Return the largest of *values* over their mean; None if that is 0."""
    known = [value for value in values if value is not None]
    whole = sum(known)
    return max(known) * len(known) / whole if whole else None


def weighed_by(report: KeyspaceReport) -> Weight:
    """Return memory if it is known for all slots with keys, else bytes, else keys."""
    held = [slot for slot in report.slots if slot.keys]
    for weight in (Weight.MEMORY, Weight.BYTES):
        if held and all(getattr(slot, weight) is not None for slot in held):
            return weight
    return Weight.KEYS


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a unique short form of each node id: its first digits, or its first and last."""
    known = sorted(set(ids))
    for head, tail in _ENDS:
        names = {node_id: _ends(node_id, head, tail) for node_id in known}
        if len(set(names.values())) == len(known):
            return names
    return {node_id: node_id for node_id in known}


def _ends(node_id: str, head: int, tail: int) -> str:
    return (
        node_id if len(node_id) <= head + tail else f"{node_id[:head]}..{node_id[-tail:]}" if tail else node_id[:head]
    )


def node_names(nodes: Iterable[Row]) -> list[str]:
    """Return a short name for each node: of its id (`short_names`), else its address."""
    nodes = list(nodes)
    names = short_names(node.node_id for node in nodes if node.node_id)
    return [names[node.node_id] if node.node_id else node.address or "no node" for node in nodes]


def names_by_id(report: KeyspaceReport) -> dict[str | None, str]:
    """Return the short name of each node of *report* by its id."""
    named = zip(report.nodes, node_names(report.nodes), strict=True)
    return {node.node_id: name for node, name in named if node.node_id}


def heavy_slots(report: KeyspaceReport, limit: int) -> list[HeavySlot]:
    """Return the *limit* heaviest slots with keys, heaviest first, the lower number first among equals."""
    by = weighed_by(report)
    held = [slot for slot in report.slots if slot.keys]
    heaviest = heapq.nsmallest(limit, held, key=lambda slot: (-by.of(slot), slot.slot))
    whole = sum(by.of(slot) for slot in held)
    return [
        HeavySlot(
            load=slot,
            owner=None if slot.owner is None else report.nodes[slot.owner],
            share=by.of(slot) / whole if whole else 0.0,
            cause=cause_of(report, slot, by),
        )
        for slot in heaviest
    ]


def cause_of(report: KeyspaceReport, slot: SlotLoad, by: Weight) -> Cause | None:
    """Return the cause of a heavy slot: one key with half of it, else its heaviest tag, else its largest key."""
    key = _key_cause(slot, by)
    if key is not None and key.share >= SINGLE_CAUSE_SHARE:
        return key
    tags = (_tag_cause(slot, tag, by) for tag in report.hash_tags if tag.slot == slot.slot)
    tag = min(tags, key=lambda cause: (-cause.share, cause.name), default=None)
    if tag is not None and tag.share >= WORTH_NAMING_SHARE and (key is None or tag.share >= key.share):
        return tag
    return key if key is not None and key.share >= WORTH_NAMING_SHARE else None


def _key_cause(slot: SlotLoad, by: Weight) -> Cause | None:
    size = {Weight.MEMORY: slot.top_key_memory, Weight.BYTES: slot.top_key_bytes}.get(by)
    if slot.top_key is None or not size or not by.of(slot):
        return None
    return Cause("key", slot.top_key, 1, size, size / by.of(slot), by)


def _tag_cause(slot: SlotLoad, tag: Row, by: Weight) -> Cause:
    """Weigh *tag* as the slot if that figure is known, else by keys."""
    if getattr(tag, by) is None or not by.of(slot):
        by = Weight.KEYS
    share = by.of(tag) / by.of(slot) if by.of(slot) else 0.0
    return Cause("tag", tag.name, tag.keys, by.of(tag), share, by)


def owners_of(report: KeyspaceReport) -> list[Row]:
    """Return the nodes with slots or keys: those that the mean counts."""
    return [node for node in report.nodes if node.slots or node.keys]


def verdict(report: KeyspaceReport) -> str:
    """Return the headline: the fullest master and its cause."""
    if not report.keys:
        return "No keys were found."
    owners = owners_of(report)
    if len(owners) < 2:
        return _of_one(report)
    by = weighed_by(report)
    values = [by.of(node) for node in owners]
    ratio = max_over_mean(values)
    if ratio is None:
        return f"{text.plural(report.keys, 'key')}; no {by.noun} on any master."
    node = owners[values.index(max(values))]
    name = text.printable(node.address or node.node_id or "one master", NAME_LENGTH_MAX)
    if ratio < EVEN_RATIO:
        return f"{by.noun.capitalize()} {'is' if by is Weight.MEMORY else 'are'} even: the fullest of {len(owners)} masters, {name}, holds {ratio:.2f}× the mean."
    excess = max(values) - sum(values) / len(values)
    return f"{name} holds {text.ratio(ratio)} the mean of {by.noun}{_because(report, node, by, excess)}."


def _of_one(report: KeyspaceReport) -> str:
    whole = totals(report)
    sizes = (("in memory", whole.memory_bytes), ("serialized", whole.serialized_bytes))
    size = next((f" with {text.size(size)} {noun}" for noun, size in sizes if size), "")
    has_owner = any(node.node_id or node.address for node in report.nodes)
    where = " on one master" if has_owner else "; owners of slots are unknown without --topology"
    return f"{text.plural(report.keys, 'key')}{size}{where}."


def _because(report: KeyspaceReport, node: Row, by: Weight, excess: float) -> str:
    """Return the reason of the *excess* of *node* over the mean: one slot and its cause, many slots, or none."""
    number = report.nodes.index(node)
    mine = [slot for slot in report.slots if slot.owner == number]
    heaviest = max(mine, key=lambda slot: (by.of(slot), -slot.slot), default=None)
    weight = by.of(heaviest) if heaviest else 0
    if heaviest is not None and weight >= EXPLAINING_SHARE * excess:
        share = text.percent(weight, by.of(node))
        cause = cause_of(report, heaviest, by)
        if cause is not None and cause.share >= EXPLAINING_SHARE:
            return f" because of {_named(cause)}: its slot {heaviest.slot} is {share} of that"
        return f" because of slot {heaviest.slot}, which is {share} of that"
    owners = owners_of(report)
    mean_slots = sum(each.slots for each in owners) / len(owners)
    if (node.slots - mean_slots) * _mean(by, report) >= EXPLAINING_SHARE * excess:
        return f" because it owns {text.ratio(node.slots / mean_slots)} the mean of slots"
    return "; no single slot, tag or key explains it"


def _mean(by: Weight, report: KeyspaceReport) -> float:
    """Return the mean weight of a slot."""
    owned = [slot for slot in report.slots if slot.owner is not None]
    return sum(by.of(slot) for slot in owned) / len(owned) if owned else 0.0


def _named(cause: Cause) -> str:
    shown = text.shown(cause.name, NAME_LENGTH_MAX)
    return f"key {shown}" if cause.kind == "key" else f"{{{shown}}}"
