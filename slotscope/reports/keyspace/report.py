"""The report on a snapshot as values, read from its tables: bounded reads, without figures that are in no table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster_core.kinds import Severity
from cluster_core.memory.model import MemoryBasis
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.caveats import Caveat, Code
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_SIZES, NODE_LOAD, TTL_BUCKETS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.reports.keyspace.activity import LogLoad, UseReport, load_key_use, load_log_load
from slotscope.reports.keyspace.savings import SavingsReport, load_savings
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
        raise InputError(f"{root}: no finished snapshot {snapshot_id!r}; run the key-slots job for it")
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
    """The stored warnings, gravest first, and the age of the oldest dump: tables have times only."""
    caveats = [Caveat.of(**warning) for warning in head["warnings"] if warning["code"] != Code.SNAPSHOT_AGE]
    started_s = {
        source.source: int(at)
        for source in sources
        if (at := dict(source.facts).get("ctime", "")).isdecimal() and len(at) < 19
    }
    if now_ms is not None and started_s:
        oldest = min(started_s, key=lambda source: (started_s[source], source))
        start_s = started_s[oldest]
        if now_ms - start_s * 1000 >= AGE_MS_MIN:
            age = text.duration(now_ms // 1000 - start_s)
            message = f"later writes are missing: {text.printable(oldest)} started {text.moment(start_s * 1000)}, {age} before this report"
            if len(started_s) > 1:
                message += f"; {len(started_s)} dumps started within {text.duration(max(started_s.values()) - start_s)}"
            caveats.append(Caveat.note(Code.SNAPSHOT_AGE, message))
    return sorted(caveats, key=lambda caveat: list(Severity).index(caveat.severity))


def _key_use(root: str, snapshot_id: str) -> UseReport | None:
    """Access and expiry, without the prefixes that repeat a longer one."""
    use = load_key_use(root, snapshot_id)
    if use is not None:
        loads = {prefix.name: (prefix.keys, prefix.weight_bytes, prefix.ops_per_s) for prefix in use.prefixes}
        telling = set(telling_prefixes(loads))
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


def telling_prefixes(loads: Mapping[bytes, Hashable]) -> list[bytes]:
    """Return the prefixes of *loads* that say something of their own: none that cuts a hash tag in two, and none with a longer one that has
    the same load.
    """
    whole = [name for name in loads if not _cuts_a_tag(name)]
    alike: dict[Hashable, list[bytes]] = {}
    for name in whole:
        alike.setdefault(loads[name], []).append(name)
    return [name for name in whole if not any(other != name and other.startswith(name) for other in alike[loads[name]])]


def folded_prefixes(groups: Sequence[Row]) -> list[Row]:
    """Return the *groups* without redundant prefixes (`telling_prefixes`)."""
    by_name = {group.name: group for group in groups}
    loads = {name: (group.keys, group.serialized_bytes, group.memory_bytes) for name, group in by_name.items()}
    return [by_name[name] for name in telling_prefixes(loads)]


def _cuts_a_tag(prefix: bytes) -> bool:
    _, brace, tag = prefix.partition(b"{")
    return bool(brace) and b"}" not in tag
