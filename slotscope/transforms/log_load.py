"""From partial sums to the tables of append-only logs; every function takes and returns DataFrames, *partial* with the ``node_id`` of its rows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from schemas.interim import LOG_COMMAND, LOG_DOUBT, LOG_KEY, LOG_SLOT, UNIT

KINDS = (LOG_SLOT, LOG_COMMAND, LOG_KEY, LOG_DOUBT, UNIT)
"""The kinds of partial rows that these tables are made of."""


def _begin() -> Column:
    return F.timestamp_seconds(F.col("offset"))


def write_load(partial: DataFrame) -> DataFrame:
    """Writes per slot, node and hour."""
    writes = partial.where(F.col("kind") == LOG_SLOT)
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
