"""From partial sums to the tables of a snapshot; every function takes and returns DataFrames.

``snapshot_id`` and ``partial``, which all rows of a snapshot share, are added by who writes them.  *partial* has the columns of `schemas.interim.PARTIAL`, whose ``owner_id`` is the owner of the row's slot.  *sources* says whose data a
file holds (``source, node_id``; None where no topology was given), *owners* who owns a slot (``slot, owner_id``, 16384 rows; null
where nobody does).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cluster_core.kernels.keys.use import PER_S, UNTOUCHED_S, USES
from schemas.interim import (
    BAD,
    DECLARED,
    FLAW,
    LOG_SLOT,
    OWNER,
    PREFIX,
    SLOT,
    TAG,
    TOP_OWNER,
    TOP_SLOT,
    TOP_TYPE,
    UNIT,
)

_LOADS = ("keys", "serialized_bytes", "memory_bytes", "expires", "ops")


def with_node(rows: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Add ``node_id``: whose the file is, or who owns the slot where the file is nobody's."""
    if sources is None:
        return rows.withColumn("node_id", F.lit(None).cast("string"))
    joined = rows.join(F.broadcast(sources), "source", how="left")
    return joined.withColumn("node_id", F.coalesce("node_id", "owner_id"))


def slot_load(partial: DataFrame, sources: DataFrame | None, owners: DataFrame, *, known: frozenset[str]) -> DataFrame:
    """Every slot on every node that owns it or holds keys of it; a slot without keys has a row of its owner.

    A load in *known* (of serialized_bytes, memory_bytes, expires, ops) is 0 for a slot without keys, another one null.  One exchange: rows meet by
    slot, so sums per node and the look at a slot's other rows need no second one.
    """
    writes = F.col("kind") == LOG_SLOT
    rows = partial.where((F.col("kind") == SLOT) | (writes & (F.col("ops") > 0))).withColumns(
        {"keys": F.coalesce("keys", F.lit(0)), "serialized_bytes": F.when(~writes, F.col("serialized_bytes"))}
    )
    held = with_node(rows, sources).where((F.col("keys") > 0) | (F.col("ops") > 0))
    unknown = {name: F.lit(None).cast("bigint") for name in _LOADS[1:]}
    owned = owners.withColumns({"node_id": F.col("owner_id"), "keys": F.lit(0).cast("bigint"), **unknown})
    columns = ("slot", "node_id", "owner_id", *_LOADS)
    loads = (
        held.select(*columns)
        .union(owned.select(*columns))
        .repartition("slot")
        .groupBy("slot", "node_id")
        .agg(F.first("owner_id").alias("owner_id"), *(F.sum(name).alias(name) for name in _LOADS))
    )
    others = F.count("*").over(Window.partitionBy("slot")) > 1
    is_idle = (F.col("keys") == 0) & (F.coalesce("ops", F.lit(0)) == 0)
    return (
        loads.withColumn("redundant", F.col("node_id").isNull() & is_idle & others)
        .where(~F.col("redundant"))
        .withColumns(
            {
                name: F.when((F.col("keys") > 0) | F.col(name).isNotNull(), F.col(name)).otherwise(F.lit(0))
                for name in known
            }
        )
        .drop("redundant")
    )


def node_load(slot_loads: DataFrame, nodes: DataFrame, unread: Mapping[str, float | None]) -> DataFrame:
    """Sums per master; *nodes* has ``node_id, address`` of all masters, and none without topology.

    *unread* is the share of a node's inputs that could not be read, None where that is not known; nodes that lack nothing are not in it.
    """
    sums = slot_loads.groupBy("node_id").agg(
        F.sum(F.when(F.col("owner_id").eqNullSafe(F.col("node_id")), 1).otherwise(0)).cast("int").alias("slots"),
        *(F.sum(name).alias(name) for name in ("keys", "serialized_bytes", "memory_bytes", "expires", "ops")),
    )
    joined = sums.join(F.broadcast(nodes), "node_id", how="full")
    everything = Window.partitionBy()
    masters = F.count("node_id").over(everything)
    return joined.select(
        "node_id",
        "address",
        F.coalesce("slots", F.lit(0)).alias("slots"),
        F.coalesce("keys", F.lit(0)).alias("keys"),
        "serialized_bytes",
        "memory_bytes",
        "expires",
        "ops",
        *_shares("keys", everything, masters),
        *_shares("serialized_bytes", everything, masters, name="bytes"),
        _by_node(unread).alias("unread_share"),
    )


def _by_node(unread: Mapping[str, float | None]) -> Column:
    share = F.lit(0.0)
    for node, value in unread.items():
        share = F.when(F.col("node_id") == node, F.lit(value).cast("double")).otherwise(share)
    return share


def _shares(column: str, everything: WindowSpec, masters: Column, name: str | None = None) -> list[Column]:
    total = F.sum(column).over(everything)
    share = F.when(total > 0, F.coalesce(F.col(column), F.lit(0)) / total).when(total == 0, F.lit(0.0))
    if name is None:
        share = F.coalesce(share, F.lit(0.0))
    label = name or column
    return [share.alias(f"{label}_share"), (share * F.greatest(masters, F.lit(1))).alias(f"{label}_over_mean")]


def big_keys(partial: DataFrame, sources: DataFrame | None, *, top: int, top_per_slot: int) -> DataFrame:
    """The largest keys of the cluster and of each node, slot and type, by memory where it is known, else by bytes; of equals, the first in file order."""
    weight = F.coalesce("memory_bytes", "serialized_bytes")
    tops = with_node(partial.where(F.col("kind").isin(TOP_TYPE, TOP_OWNER, TOP_SLOT) & weight.isNotNull()), sources)
    is_type, is_slot = F.col("kind") == TOP_TYPE, F.col("kind") == TOP_SLOT
    scopes = [
        _scope("cluster", F.lit(""), is_type),
        _scope("node", F.col("node_id"), ~is_slot),
        _scope("slot", F.col("slot").cast("string"), is_slot),
        _scope("type", F.col("type"), is_type),
    ]
    order = Window.partitionBy("scope", "scope_value").orderBy(weight.desc(), "source", "offset", "name", "db")
    ranked = (
        tops.withColumn("in", F.explode(F.array_compact(F.array(*scopes))))
        .withColumns({"scope": F.col("in.scope"), "scope_value": F.col("in.scope_value")})
        .withColumn("rank", F.dense_rank().over(order))
        .withColumn("before", F.lag("rank").over(order))
    )
    listed = F.when(F.col("scope") == "slot", top_per_slot).otherwise(top)
    once = F.col("before").isNull() | (
        F.col("before") != F.col("rank")
    )  # among a node's keys are those of types and of owners
    return (
        ranked.where((F.col("rank") <= listed) & once)
        .withColumnsRenamed({"name": "key", "name_text": "key_text"})
        .withColumn("db", F.coalesce("db", F.lit(0)))
    )


def _scope(name: str, value: Column, holds: Column) -> Column:
    """What a row is ranked among, where *holds* and the value is known; else null."""
    return F.when(holds & value.isNotNull(), F.struct(F.lit(name).alias("scope"), value.alias("scope_value")))


class Missed(NamedTuple):
    """Most that all units together can have missed of one group: keys, bytes, bytes in memory."""

    keys: int = 0
    bytes: int = 0
    memory: int = 0


def _groups(partial: DataFrame, kind: int, missed: Missed, known: Container[str]) -> DataFrame:
    """Sum groups over all units; a unit that does not list a group may have missed up to its own bound of it.

    Of the loads only those in *known* are not null.
    """
    rows = partial.where(F.col("kind") == kind)
    units = partial.where(F.col("kind") == UNIT).select(
        "source",
        "part",
        *(F.col("facts")[f"missed_{_NOUNS[kind]}_{what}"].alias(f"missed_{what}") for what in Missed._fields),
    )
    return (
        rows.join(F.broadcast(units), ["source", "part"], how="left")
        .groupBy("name")
        .agg(
            F.sum("keys").alias("keys"),
            *(
                (F.sum(name) if name in known else F.lit(None).cast("bigint")).alias(name)
                for name in ("serialized_bytes", "memory_bytes")
            ),
            F.sum("expires").alias("expires"),
            *(
                (F.sum(f"{what}_error") + bound - F.sum(f"missed_{what}")).alias(f"{what}_error")
                for what, bound in missed._asdict().items()
            ),
            F.first("slot").alias("slot"),
            F.first("owner_id").alias("owner_id"),
            F.first("number").alias("depth"),
            F.first("name_text").alias("name_text"),
            *_sums_of_amounts(),
        )
    )


def _sums_of_amounts() -> list[Column]:
    """The sum of each amount (`USES`) of the rows of a group."""
    return [F.sum(F.coalesce(F.col("amounts")[at], F.lit(0))).alias(name) for at, name in enumerate(USES)]


def key_use(
    partial: DataFrame, sources: DataFrame | None, *, missed: Missed, count: int, known: Container[str]
) -> DataFrame:
    """How keys are used and how long they stay: of the cluster, each node, each slot and the *count* heaviest prefixes of each depth.

    *known* are ``idle``, ``counters`` and the loads that are; what is not known is null.
    """
    slots = with_node(partial.where(F.col("kind") == SLOT), sources)
    sums = [
        *(F.sum(name).alias(name) for name in ("keys", "serialized_bytes", "memory_bytes", "expires")),
        *_sums_of_amounts(),
    ]
    everywhere = F.lit(True)
    scopes = [_scope("cluster", F.lit(""), everywhere), _scope("node", F.col("node_id"), everywhere)]
    if "idle" in known or "counters" in known:
        scopes.append(_scope("slot", F.col("slot").cast("string"), everywhere))
    by_scope = (
        slots.withColumn("in", F.explode(F.array_compact(F.array(*scopes))))
        .groupBy("in")
        .agg(*sums)
        .where((F.col("in.scope") != "cluster") | (F.col("keys") > 0))
        .select(
            F.col("in.scope").alias("scope"),
            F.col("in.scope_value").cast("binary").alias("scope_value"),
            F.col("in.scope_value").alias("scope_value_text"),
            *_uses(known),
        )
    )
    prefixes = _heaviest_prefixes(_groups(partial, PREFIX, missed, known), count)
    named = (
        F.lit("prefix").alias("scope"),
        F.col("name").alias("scope_value"),
        F.col("name_text").alias("scope_value_text"),
    )
    return by_scope.unionByName(prefixes.select(*named, *_uses(known)))


def _uses(known: Container[str]) -> list[Column]:
    """The columns of ``gold/key_use`` behind the scope."""
    weight = F.coalesce("memory_bytes", "serialized_bytes") if "memory_bytes" in known else F.col("serialized_bytes")
    said = {
        **dict.fromkeys(USES[: len(UNTOUCHED_S)], "idle"),
        **dict.fromkeys(USES[len(UNTOUCHED_S) : -2], "expires"),
        **dict.fromkeys(USES[-2:], "counters"),
    }
    amounts = {name: F.when(F.lit(said[name] in known), F.col(name)) for name in USES}
    per_s = [amounts.pop(name) / PER_S for name in USES[-2:]]
    return [
        F.col("keys"),
        weight.alias("weight_bytes"),
        F.when(F.lit("expires" in known), F.coalesce("expires", F.lit(0))).alias("expires"),
        *(amount.alias(name) for name, amount in amounts.items()),
        per_s[0].alias("ops_per_s"),
        per_s[1].alias("ops_per_s_error"),
    ]


_NOUNS = {TAG: "tag", PREFIX: "prefix"}


def hash_tags(partial: DataFrame, *, missed: Missed, count: int, known: Container[str]) -> DataFrame:
    """The *count* heaviest tags by keys and the *count* heaviest by memory, or bytes."""
    groups = _groups(partial, TAG, missed, known).drop(*USES)
    heavy = _heaviest(groups, count)
    return heavy.withColumnsRenamed({"name": "hash_tag", "name_text": "hash_tag_text", "owner_id": "node_id"})


def key_prefixes(partial: DataFrame, *, missed: Missed, count: int, known: Container[str]) -> DataFrame:
    """The *count* heaviest prefixes of each depth; a prefix of one key only is no roll-up and is left out."""
    heaviest = _heaviest_prefixes(_groups(partial, PREFIX, missed, known), count)
    return heaviest.drop(*USES).withColumnsRenamed({"name": "prefix", "name_text": "prefix_text"})


def _heaviest_prefixes(groups: DataFrame, count: int) -> DataFrame:
    order = Window.partitionBy("depth").orderBy(*_by_bytes())
    several = groups.where((F.col("keys") > 1) | (F.col("depth") == 1))
    return several.withColumn("rank_bytes", F.row_number().over(order)).where(F.col("rank_bytes") <= count)


def _by_bytes() -> list[Column]:
    return [
        *(F.col(name).desc_nulls_last() for name in ("memory_bytes", "serialized_bytes")),
        F.col("keys").desc(),
        F.col("name").asc(),
    ]


def _heaviest(groups: DataFrame, count: int) -> DataFrame:
    by_keys = [F.col("keys").desc(), *_by_bytes()]
    top = (
        groups.orderBy(*by_keys).limit(count).union(groups.orderBy(*_by_bytes()).limit(count)).dropDuplicates(["name"])
    )
    everything = Window.partitionBy()
    return top.withColumns(
        {
            "rank_keys": F.row_number().over(everything.orderBy(*by_keys)),
            "rank_bytes": F.row_number().over(everything.orderBy(*_by_bytes())),
        }
    )


def bad_records(partial: DataFrame, job: str) -> DataFrame:
    """What *job* could not read, as rows of ``bronze/bad_records``."""
    return partial.where(F.col("kind") == BAD).select(
        F.lit(job).alias("job"),
        "source",
        "offset",
        F.col("text").alias("reason"),
        F.col("serialized_bytes").alias("skipped_bytes"),
    )


def value_flaws(partial: DataFrame) -> DataFrame:
    """What is wrong with decoded values, as rows of ``bronze/value_flaws``."""
    return partial.where(F.col("kind") == FLAW).select(
        *("source", "db", F.col("name").alias("key"), F.col("name_text").alias("key_text")),
        *("slot", "type", "encoding", "offset", "flaw"),
        *(F.col("elements").alias("header_count"), F.col("keys").alias("real_count"), F.col("text").alias("detail")),
    )


def keys_by_owner(partial: DataFrame, *, logs_read: bool = True) -> DataFrame:
    """Keys of each file per owner of their slots: ``source, owner_id, keys``; of a log that is not replayed, the writes.

    Without *logs_read* there are none, and none are looked for.
    """
    held = partial.where(F.col("kind") == OWNER)
    keys = held.groupBy("source", "owner_id").agg(F.sum("keys").alias("keys"))
    if not logs_read:
        return keys
    logs = partial.where(F.col("kind") == LOG_SLOT).join(held.select("source").distinct(), "source", how="left_anti")
    return keys.union(logs.groupBy("source", "owner_id").agg(F.sum("ops").alias("keys")))


def suspicious_slots(partial: DataFrame) -> DataFrame:
    """Slots of cluster dumps that hold another number of keys than they declare, or are in several dumps.

    ``slot, dumps``: an array of (source, keys, declared), by source.
    """
    dumps = (
        partial.where(F.col("kind") == DECLARED)
        .groupBy("slot")
        .agg(
            F.collect_list(F.struct("source", "keys", F.col("number").cast("bigint").alias("declared"))).alias("dumps")
        )
    )
    lies = F.exists("dumps", lambda dump: dump["keys"] != dump["declared"])
    held = F.size(F.filter("dumps", lambda dump: dump["keys"] > 0))
    return (
        dumps.where(lies | (held > 1))
        .coalesce(1)
        .sortWithinPartitions("slot")
        .withColumn("dumps", F.sort_array("dumps"))
    )


def slot_counts(partial: DataFrame) -> DataFrame:
    """Keys and bytes per slot over all units, for whoever only wants these: ``slot, keys, serialized_bytes``."""
    return (
        partial.where(F.col("kind") == SLOT)
        .groupBy("slot")
        .agg(F.sum("keys").alias("keys"), F.sum("serialized_bytes").alias("serialized_bytes"))
    )
