"""From partial sums to the tables of append-only logs; every function takes and returns DataFrames, *partial* with the ``node_id`` of its rows."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from schemas.aof import LOG_SAVINGS
from schemas.interim import LOG_COMMAND, LOG_DOUBT, LOG_KEY, LOG_PREFIX, LOG_SLOT, PREFIX, SLOT, UNIT

KINDS = (LOG_SLOT, LOG_COMMAND, LOG_KEY, LOG_PREFIX, LOG_DOUBT, SLOT, PREFIX, UNIT)
"""Of the partial rows those that are looked at."""


def _begin() -> Column:
    return F.timestamp_seconds(F.col("offset"))


def write_load(partial: DataFrame) -> DataFrame:
    """Writes per slot, node and hour; a base is no write."""
    writes = partial.where((F.col("kind") == LOG_SLOT) & (F.col("number") == 0))
    return writes.groupBy("slot", "node_id", _begin().alias("hour")).agg(
        F.sum("ops").alias("ops"), F.sum("serialized_bytes").alias("log_bytes")
    )


def command_load(partial: DataFrame) -> DataFrame:
    """Commands by name, node and minute."""
    return (
        partial.where(F.col("kind") == LOG_COMMAND)
        .groupBy("node_id", F.col("text").alias("command"), _begin().alias("minute"))
        .agg(
            F.sum("ops").alias("commands"),
            F.sum("serialized_bytes").alias("log_bytes"),
            (F.max("number") > 0).alias("known"),
        )
    )


def _missed(partial: DataFrame, *facts: str) -> DataFrame:
    units = partial.where((F.col("kind") == UNIT) & (F.col("text") == "aof"))
    return units.select("source", "part", *(F.coalesce(F.col("facts")[fact], F.lit(0)).alias(fact) for fact in facts))


def write_keys(partial: DataFrame, *, count: int) -> DataFrame:
    """The *count* keys with most writes and the *count* with most bytes; a unit that does not list one may have missed it."""
    missed = _missed(partial, "missed_log_keys", "missed_log_bytes")
    total = missed.agg(*(F.sum(name).alias(f"all_{name}") for name in ("missed_log_keys", "missed_log_bytes")))
    rows = partial.where(F.col("kind") == LOG_KEY)
    keys = (
        rows.join(F.broadcast(missed), ["source", "part"], how="left")
        .groupBy(F.col("name").alias("key"))
        .agg(
            F.first("name_text").alias("key_text"),
            F.first("slot").alias("slot"),
            F.first("node_id").alias("node_id"),
            F.sum("ops").alias("ops"),
            F.sum("serialized_bytes").alias("log_bytes"),
            (F.sum("keys_error") - F.sum("missed_log_keys")).alias("ops_error"),
            (F.sum("bytes_error") - F.sum("missed_log_bytes")).alias("bytes_error"),
        )
        .crossJoin(F.broadcast(total))
        .withColumn("ops_error", F.col("ops_error") + F.col("all_missed_log_keys"))
        .withColumn("bytes_error", F.col("bytes_error") + F.col("all_missed_log_bytes"))
    )
    everything = Window.partitionBy()
    ranked = keys.withColumns(
        {
            "rank_ops": F.row_number().over(everything.orderBy(F.col("ops").desc(), F.col("log_bytes").desc(), "key")),
            "rank_bytes": F.row_number().over(
                everything.orderBy(F.col("log_bytes").desc(), F.col("ops").desc(), "key")
            ),
        }
    )
    return ranked.where((F.col("rank_ops") <= count) | (F.col("rank_bytes") <= count))


def log_savings(partial: DataFrame, *, count: int) -> DataFrame:
    """Bytes of the logs against bytes of what lives: per log, per slot, and for the *count* prefixes that would save most."""
    slot_logs = partial.where(F.col("kind") == LOG_SLOT)
    states = partial.where((F.col("kind") == UNIT) & (F.col("facts")["role"] == "state")).select("source")
    alive = partial.where(F.col("kind") == SLOT).join(F.broadcast(states), "source", how="left_semi")
    sizes = partial.where((F.col("kind") == UNIT) & (F.col("text") == "aof"))
    path = F.col("source").cast("binary").alias("scope_value")
    logs = _against(
        sizes.select(path, F.col("name_text").alias("scope_value_text"), F.col("serialized_bytes").alias("log_bytes")),
        alive.select(path, _no_text(), F.col("serialized_bytes").alias("live_bytes")),
    )
    slots = _against(
        slot_logs.select(*_slot_name(), F.col("serialized_bytes").alias("log_bytes")),
        alive.select(*_slot_name(), F.col("serialized_bytes").alias("live_bytes")),
    )
    columns = [name for name in LOG_SAVINGS.columns if name not in (*LOG_SAVINGS.labels, "partial")]
    return reduce(
        DataFrame.unionByName,
        (
            scoped.withColumn("scope", F.lit(scope)).select(*columns)
            for scope, scoped in (("log", logs), ("slot", slots), ("prefix", _prefixes(partial, states, count)))
        ),
    )


def _no_text() -> Column:
    return F.lit(None).cast("string").alias("scope_value_text")


def _slot_name() -> tuple[Column, Column]:
    name = F.col("slot").cast("string")
    return name.cast("binary").alias("scope_value"), name.alias("scope_value_text")


def _named() -> tuple[Column, Column]:
    return F.col("name").alias("scope_value"), F.col("name_text").alias("scope_value_text")


def _prefixes(partial: DataFrame, states: DataFrame, count: int) -> DataFrame:
    missed = _missed(partial, "missed_log_prefix_bytes")
    rows = partial.where(F.col("kind") == LOG_PREFIX).join(F.broadcast(missed), ["source", "part"], how="left")
    total = missed.agg(F.sum("missed_log_prefix_bytes").alias("all_missed"))
    logged = rows.select(
        *_named(),
        F.col("serialized_bytes").alias("log_bytes"),
        (F.col("bytes_error") - F.col("missed_log_prefix_bytes")).alias("bytes_error"),
    )
    alive = partial.where(F.col("kind") == PREFIX).join(F.broadcast(states), "source", how="left_semi")
    found = _against(logged, alive.select(*_named(), F.col("serialized_bytes").alias("live_bytes"))).crossJoin(
        F.broadcast(total)
    )
    order = Window.partitionBy().orderBy(F.col("saved_bytes").desc(), "scope_value")
    return (
        found.withColumn("bytes_error", F.greatest(F.col("bytes_error") + F.col("all_missed"), F.lit(0)))
        .withColumn("rank", F.row_number().over(order))
        .where(F.col("rank") <= count)
    )


def _against(logged: DataFrame, alive: DataFrame) -> DataFrame:
    """Sums of both sides by ``scope_value``, and what lies between them."""
    if "bytes_error" not in logged.columns:
        logged = logged.withColumn("bytes_error", F.lit(0).cast("bigint"))
    zero = F.lit(0).cast("bigint")
    both = logged.withColumn("live_bytes", zero).unionByName(
        alive.withColumns({"log_bytes": zero, "bytes_error": zero})
    )
    names = ("log_bytes", "live_bytes", "bytes_error")
    sums = both.groupBy("scope_value").agg(
        F.max("scope_value_text").alias("scope_value_text"),
        *(F.coalesce(F.sum(name), zero).alias(name) for name in names),
    )
    return sums.withColumn("saved_bytes", F.col("log_bytes") - F.col("live_bytes"))


def uncertain_keys(partial: DataFrame) -> DataFrame:
    """Keys of which the logs do not tell all."""
    return partial.where(F.col("kind") == LOG_DOUBT).select(
        "source",
        "db",
        F.col("name").alias("key"),
        F.col("name_text").alias("key_text"),
        "slot",
        F.col("text").alias("command"),
    )
