"""The tables of a snapshot as one `KeyspaceReport`: bounded reads, nothing computed that is not in a table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.slots.key_slot import SLOT_COUNT
from jobs.reports.keyspace import (
    BigKey,
    KeyGroup,
    KeyspaceReport,
    NodeLoad,
    SlotLoad,
    Source,
    TtlBucket,
    Warning,
)
from jobs.runtime import tables
from jobs.runtime.errors import InputError
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, NODE_LOAD, TTL_BUCKETS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from schemas.table import Table

GROUPS_SHOWN = 500
BIG_KEYS_SHOWN = 200
SOURCES_SHOWN = 2000


def load_report(spark: SparkSession, root: str, snapshot_id: str) -> KeyspaceReport:
    """Read what the tables under *root* say of a snapshot; raises InputError if it is not there, or was not finished."""

    def rows(table: Table) -> DataFrame:
        return tables.read_snapshot(spark, table, root, snapshot_id)

    finished = rows(SNAPSHOTS).collect()
    if not finished:
        raise InputError(f"{root}: no finished snapshot {snapshot_id!r}; run the key-slots job for it")
    nodes = _nodes(rows(NODE_LOAD))
    top_keys = rows(BIG_KEYS).where((F.col("scope") == "slot") & (F.col("rank") == 1))
    return KeyspaceReport(
        snapshot_id=snapshot_id,
        taken_at_ms=int(finished[0]["taken_at"].timestamp() * 1000) if finished[0]["taken_at"] else None,
        sources=_sources(rows(SOURCES)),
        warnings=[Warning(*words.split("|", 2)) for words in finished[0]["warnings"]],
        nodes=nodes,
        slots=_slots(rows(SLOT_LOAD), top_keys, {node.node_id: number for number, node in enumerate(nodes)}),
        big_keys=_big_keys(rows(BIG_KEYS)),
        hash_tags=_groups(rows(HASH_TAGS).orderBy("rank_bytes").limit(GROUPS_SHOWN), "hash_tag"),
        prefixes=_groups(
            rows(KEY_PREFIXES)
            .orderBy(F.col("serialized_bytes").desc_nulls_last(), F.col("keys").desc(), "prefix")
            .limit(GROUPS_SHOWN),
            "prefix",
        ),
        ttl_buckets=_ttl_buckets(rows(TTL_BUCKETS)),
        bad_records=finished[0]["bad_records"],
    )


def _nodes(rows: DataFrame) -> list[NodeLoad]:
    return [
        NodeLoad(
            node_id=row["node_id"], address=row["address"] or "", slots=row["slots"], keys=row["keys"],
            expires=row["expires"] or 0, serialized_bytes=row["serialized_bytes"], memory_bytes=row["memory_bytes"], ops=row["ops"],
        )
        for row in rows.orderBy(F.col("address").asc_nulls_last(), "node_id").collect()
        if row["node_id"] is not None or row["keys"]
    ]  # fmt: skip


def _slots(loads: DataFrame, top_keys: DataFrame, numbers: dict[str | None, int]) -> list[SlotLoad]:
    summed = loads.groupBy("slot").agg(
        F.max("owner_id").alias("owner_id"),
        *(F.sum(name).alias(name) for name in ("keys", "serialized_bytes", "expires")),
    )
    tops: dict[int, Any] = {
        int(row["scope_value"]): row for row in top_keys.select("scope_value", "key", "serialized_bytes").collect()
    }
    found: dict[int, SlotLoad] = {}
    for row in summed.collect():
        top = tops.get(row["slot"])
        found[row["slot"]] = SlotLoad(
            slot=row["slot"],
            owner=numbers.get(row["owner_id"]) if row["owner_id"] else None,
            keys=row["keys"],
            serialized_bytes=row["serialized_bytes"],
            expires=row["expires"] or 0,
            top_key=bytes(top["key"]) if top else None,
            top_key_bytes=top["serialized_bytes"] if top else None,
        )
    return [found.get(slot) or SlotLoad(slot, None, 0, None, 0, None, None) for slot in range(SLOT_COUNT)]


def _big_keys(rows: DataFrame) -> list[BigKey]:
    cluster = rows.where(F.col("scope") == "cluster").orderBy("rank").limit(BIG_KEYS_SHOWN)
    return [
        BigKey(
            key=bytes(row["key"]), db=row["db"], slot=row["slot"], node_id=row["node_id"], type=row["type"] or "",
            encoding=row["encoding"] or "", elements=row["elements"], serialized_bytes=row["serialized_bytes"],
            expire_at_ms=row["expire_at_ms"],
        )
        for row in cluster.collect()
    ]  # fmt: skip


def _groups(rows: DataFrame, name: str) -> list[KeyGroup]:
    return [
        KeyGroup(
            name=bytes(row[name]), slot=row.asDict().get("slot"), keys=row["keys"],
            serialized_bytes=row["serialized_bytes"], keys_error=row["keys_error"], bytes_error=row["bytes_error"],
            depth=row.asDict().get("depth", 0),
        )
        for row in rows.collect()
    ]  # fmt: skip


def _ttl_buckets(rows: DataFrame) -> list[TtlBucket]:
    summed = rows.groupBy("bucket", "label").agg(
        F.sum("keys").alias("keys"), F.sum("serialized_bytes").alias("serialized_bytes")
    )
    return [TtlBucket(row["label"], row["keys"], row["serialized_bytes"]) for row in summed.orderBy("bucket").collect()]


def _sources(rows: DataFrame) -> list[Source]:
    return [
        Source(row["source"], row["kind"], row["node_id"], row["keys"], row["file_bytes"], dict(row["facts"]))
        for row in rows.orderBy("source").limit(SOURCES_SHOWN).collect()
    ]
