"""The tables of a snapshot as one `KeyspaceReport`: bounded reads, nothing computed that is not in a table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cluster_core.memory.basis import Exactness, MemoryBasis
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.caveats import Caveat
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, NODE_LOAD, TTL_BUCKETS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from schemas.table import Table
from slotscope.reports.keyspace.log_load import load_log_load
from slotscope.reports.keyspace.report import (
    BigKey,
    KeyGroup,
    KeyspaceReport,
    NodeLoad,
    SlotLoad,
    Source,
    TtlBucket,
)
from slotscope.reports.records import record
from slotscope.runtime import tables
from slotscope.runtime.errors import InputError
from slotscope.sources.slot_weights import is_partial

GROUPS_SHOWN = 500
BIG_KEYS_SHOWN = 200
SOURCES_SHOWN = 2000
READ_THREADS = 4
"""Tables read at a time: most of a small read is planning, and waiting for the log."""


def load_report(spark: SparkSession, root: str, snapshot_id: str) -> KeyspaceReport:
    """Read what the tables under *root* say of a snapshot; raises InputError if it is not there, or was not finished."""

    def rows(table: Table) -> DataFrame:
        return tables.read_snapshot(spark, table, root, snapshot_id)

    finished = rows(SNAPSHOTS).collect()
    if not finished:
        raise InputError(f"{root}: no finished snapshot {snapshot_id!r}; run the key-slots job for it")
    with ThreadPoolExecutor(READ_THREADS, "report") as pool:
        nodes = pool.submit(_nodes, rows(NODE_LOAD))
        slots = pool.submit(_slot_rows, rows(SLOT_LOAD))
        tops = pool.submit(_top_keys, rows(BIG_KEYS))
        big_keys = pool.submit(_big_keys, rows(BIG_KEYS))
        hash_tags = pool.submit(_groups, rows(HASH_TAGS), "hash_tag")
        prefixes = pool.submit(_groups, rows(KEY_PREFIXES), "prefix")
        ttl_buckets = pool.submit(_ttl_buckets, rows(TTL_BUCKETS))
        sources = pool.submit(_sources, rows(SOURCES))
        log = pool.submit(load_log_load, spark, root, snapshot_id)
    return KeyspaceReport(
        snapshot_id=snapshot_id,
        taken_at_ms=int(finished[0]["taken_at"].timestamp() * 1000) if finished[0]["taken_at"] else None,
        sources=sources.result(),
        warnings=[Caveat.of(*row) for row in finished[0]["warnings"]],
        nodes=nodes.result(),
        slots=_slots(slots.result(), tops.result(), nodes.result()),
        big_keys=big_keys.result(),
        hash_tags=hash_tags.result(),
        prefixes=prefixes.result(),
        ttl_buckets=ttl_buckets.result(),
        bad_records=finished[0]["bad_records"],
        is_partial=is_partial(finished[0].asDict()),
        log=log.result(),
        memory=_memory_basis(finished[0]),
    )


def _memory_basis(row: Row) -> MemoryBasis | None:
    if row["memory_exactness"] is None:
        return None
    return MemoryBasis(row["memory_model"], Exactness(row["memory_exactness"]), row["unmeasured_keys"])


def _nodes(rows: DataFrame) -> list[NodeLoad]:
    return [
        record(
            NodeLoad, row, address=row["address"] or "", expires=row["expires"] or 0, unread_share=_unread_share(row)
        )
        for row in rows.orderBy(F.col("address").asc_nulls_last(), "node_id").collect()
        if row["node_id"] is not None or row["keys"]
    ]


def _unread_share(row: Row) -> float | None:
    return row["unread_share"] if row["partial"] else 0.0


def _slot_rows(loads: DataFrame) -> list[Row]:
    return loads.select("slot", "owner_id", "keys", "serialized_bytes", "expires").collect()


def _top_keys(rows: DataFrame) -> dict[int, Row]:
    """The largest key of each slot."""
    first = rows.where((F.col("scope") == "slot") & (F.col("rank") == 1))
    return {int(row["scope_value"]): row for row in first.select("scope_value", "key", "serialized_bytes").collect()}


def _slots(loads: list[Row], tops: dict[int, Row], nodes: list[NodeLoad]) -> list[SlotLoad]:
    numbers = {node.node_id: number for number, node in enumerate(nodes)}
    found = [SlotLoad(slot, None, 0, None, 0, None, None) for slot in range(SLOT_COUNT)]
    for slot, owner_id, keys, size, expires in loads:
        known, top = found[slot], tops.get(slot)
        found[slot] = SlotLoad(
            slot=slot,
            owner=numbers.get(owner_id) if owner_id else None,
            keys=known.keys + keys,
            serialized_bytes=known.serialized_bytes if size is None else (known.serialized_bytes or 0) + size,
            expires=known.expires + (expires or 0),
            top_key=bytes(top["key"]) if top else None,
            top_key_bytes=top["serialized_bytes"] if top else None,
        )
    return found


def _big_keys(rows: DataFrame) -> list[BigKey]:
    cluster = rows.where((F.col("scope") == "cluster") & (F.col("rank") <= BIG_KEYS_SHOWN))
    return [
        record(BigKey, row, type=row["type"] or "", encoding=row["encoding"] or "")
        for row in sorted(cluster.collect(), key=lambda row: int(row["rank"]))
    ]


def _groups(rows: DataFrame, name: str) -> list[KeyGroup]:
    """The heaviest groups; the tables hold a bounded number of them (``groups_listed``)."""
    found = [record(KeyGroup, row, name=bytes(row[name])) for row in rows.collect()]
    return sorted(found, key=lambda group: (-(group.serialized_bytes or 0), -group.keys, group.name))[:GROUPS_SHOWN]


def _ttl_buckets(rows: DataFrame) -> list[TtlBucket]:
    summed: dict[int, TtlBucket] = {}
    for row in rows.collect():
        known = summed.get(row["bucket"]) or TtlBucket(row["label"], 0, None)
        size = row["serialized_bytes"]
        total = known.serialized_bytes if size is None else (known.serialized_bytes or 0) + size
        summed[row["bucket"]] = TtlBucket(known.label, known.keys + row["keys"], total)
    return [bucket for _, bucket in sorted(summed.items())]


def _sources(rows: DataFrame) -> list[Source]:
    return [
        record(Source, row, path=row["source"], facts=dict(row["facts"]), unread_share=_unread_share(row))
        for row in rows.orderBy("source").limit(SOURCES_SHOWN).collect()
    ]
