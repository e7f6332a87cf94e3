"""The tables of a snapshot as one `KeyspaceReport`: bounded reads, nothing computed that is not in a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cluster_core.memory.model import Exactness, MemoryBasis
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.caveats import Caveat
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_SIZES, NODE_LOAD, TTL_BUCKETS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.reports.keyspace import report as said
from slotscope.reports.keyspace.figures import telling_prefixes
from slotscope.reports.keyspace.key_use import UseReport, load_key_use
from slotscope.reports.keyspace.log_load import load_log_load
from slotscope.reports.keyspace.savings import load_savings
from slotscope.reports.records import record
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.sources.slot_weights import is_partial

GROUPS_SHOWN = 500
BIG_KEYS_SHOWN = 200
SOURCES_SHOWN = 2000

Rows = list[dict[str, Any]]


def load_report(root: str, snapshot_id: str) -> said.KeyspaceReport:
    """Read what the tables under *root* say of a snapshot; raises InputError if it is not there, or was not finished."""
    finished = read_rows(root, SNAPSHOTS, snapshot_id=snapshot_id)
    if not finished:
        raise InputError(f"{root}: no finished snapshot {snapshot_id!r}; run the key-slots job for it")
    head = finished[0]
    nodes = _nodes(read_rows(root, NODE_LOAD, snapshot_id=snapshot_id))
    return said.KeyspaceReport(
        snapshot_id=snapshot_id,
        taken_at_ms=int(head["taken_at"].timestamp() * 1000) if head["taken_at"] else None,
        sources=_sources(root, snapshot_id),
        warnings=[Caveat.of(**warning) for warning in head["warnings"]],
        nodes=nodes,
        slots=_slots(root, snapshot_id, nodes),
        big_keys=_big_keys(root, snapshot_id),
        hash_tags=_groups(read_rows(root, HASH_TAGS, snapshot_id=snapshot_id), "hash_tag"),
        prefixes=_groups(read_rows(root, KEY_PREFIXES, snapshot_id=snapshot_id), "prefix"),
        ttl_buckets=_ttl_buckets(read_rows(root, TTL_BUCKETS, snapshot_id=snapshot_id)),
        bad_records=head["bad_records"],
        is_partial=is_partial(head),
        log=load_log_load(root, snapshot_id),
        memory=_memory_basis(head),
        use=_key_use(root, snapshot_id),
        savings=load_savings(root, snapshot_id),
        sizes=_ranges(root, snapshot_id, "memory_bytes", "serialized_bytes"),
        elements=_ranges(root, snapshot_id, "elements"),
    )


def _key_use(root: str, snapshot_id: str) -> UseReport | None:
    """How keys are used, by prefixes that say something of their own."""
    use = load_key_use(root, snapshot_id)
    if use is None:
        return None
    telling = set(telling_prefixes({one.name: (one.keys, one.weight_bytes, one.ops_per_s) for one in use.prefixes}))
    return replace(use, prefixes=[one for one in use.prefixes if one.name in telling])


def _memory_basis(row: dict[str, Any]) -> MemoryBasis | None:
    if row["memory_exactness"] is None:
        return None
    return MemoryBasis(row["memory_model"], Exactness(row["memory_exactness"]), row["unmeasured_keys"])


def _nodes(rows: Rows) -> list[said.NodeLoad]:
    return [
        record(
            said.NodeLoad,
            row,
            address=row["address"] or "",
            expires=row["expires"] or 0,
            unread_share=_unread_share(row),
        )
        for row in sorted(rows, key=lambda row: (row["address"] is None, row["address"] or "", row["node_id"] or ""))
        if row["node_id"] is not None or row["keys"]
    ]


def _unread_share(row: dict[str, Any]) -> float | None:
    return row["unread_share"] if row["partial"] else 0.0


def _slots(root: str, snapshot_id: str, nodes: list[said.NodeLoad]) -> list[said.SlotLoad]:
    columns = ("slot", "owner_id", "keys", "serialized_bytes", "expires", "memory_bytes")
    top_columns = ("scope_value", "key", "serialized_bytes", "memory_bytes")
    tops = {
        int(row["scope_value"]): row
        for row in read_rows(
            root, BIG_KEYS, columns=top_columns, where="rank = 1", snapshot_id=snapshot_id, scope="slot"
        )
    }
    numbers = {node.node_id: number for number, node in enumerate(nodes)}
    found = [said.SlotLoad(slot, None, 0, None, 0, None, None) for slot in range(SLOT_COUNT)]
    for row in read_rows(root, SLOT_LOAD, columns=columns, snapshot_id=snapshot_id):
        slot = row["slot"]
        known, top = found[slot], tops.get(slot)
        found[slot] = said.SlotLoad(
            slot=slot,
            owner=numbers.get(row["owner_id"]) if row["owner_id"] else None,
            keys=known.keys + row["keys"],
            serialized_bytes=_sum(known.serialized_bytes, row["serialized_bytes"]),
            memory_bytes=_sum(known.memory_bytes, row["memory_bytes"]),
            expires=known.expires + (row["expires"] or 0),
            top_key=top["key"] if top else None,
            top_key_bytes=top["serialized_bytes"] if top else None,
            top_key_memory=top["memory_bytes"] if top else None,
        )
    return found


def _sum(known: int | None, more: int | None) -> int | None:
    """The sum of what is known."""
    return known if more is None else (known or 0) + more


def _big_keys(root: str, snapshot_id: str) -> list[said.BigKey]:
    return [
        record(said.BigKey, row, type=row["type"] or "", encoding=row["encoding"] or "")
        for row in read_rows(
            root, BIG_KEYS, order_by="rank", limit=BIG_KEYS_SHOWN, snapshot_id=snapshot_id, scope="cluster"
        )
    ]


def _groups(rows: Rows, name: str) -> list[said.KeyGroup]:
    """The heaviest groups; the tables hold a bounded number of them (``groups_listed``)."""
    found = [record(said.KeyGroup, row, name=row[name]) for row in rows]
    return sorted(found, key=_heaviest_first)[:GROUPS_SHOWN]


def _heaviest_first(group: said.KeyGroup) -> tuple[int, int, int, bytes]:
    return -(group.memory_bytes or 0), -(group.serialized_bytes or 0), -group.keys, group.name


def _ranges(root: str, snapshot_id: str, *measures: str) -> list[said.SizeRange]:
    """The ranges of the first of *measures* that is known, from the least to the largest, those without keys, too."""
    if not exists(root, KEY_SIZES):
        return []
    for measure in measures:
        summed: dict[int, list[int]] = {}
        for row in read_rows(root, KEY_SIZES, snapshot_id=snapshot_id, measure=measure):
            one = summed.setdefault(row["at_least"], [0, 0])
            one[0] += row["keys"]
            one[1] += row["total"]
        if summed:
            places = [1 << bits for bits in range(max(summed).bit_length())]
            between = ([0] if 0 in summed else []) + [at for at in places if at >= min(summed)]
            return [said.SizeRange(at, *summed.get(at, (0, 0))) for at in between]
    return []


def _ttl_buckets(rows: Rows) -> list[said.TtlBucket]:
    summed: dict[int, said.TtlBucket] = {}
    for row in rows:
        known = summed.get(row["bucket"]) or said.TtlBucket(row["label"], 0, None)
        total = _sum(known.serialized_bytes, row["serialized_bytes"])
        summed[row["bucket"]] = said.TtlBucket(known.label, known.keys + row["keys"], total)
    return [bucket for _, bucket in sorted(summed.items())]


def _sources(root: str, snapshot_id: str) -> list[said.Source]:
    return [
        record(said.Source, row, path=row["source"], unread_share=_unread_share(row))
        for row in read_rows(root, SOURCES, order_by="source", limit=SOURCES_SHOWN, snapshot_id=snapshot_id)
    ]
