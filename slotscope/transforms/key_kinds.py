"""Keys by their kind: type, size, elements, time to live."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cluster_core.load.ttl import TTL_LABELS
from schemas.interim import RANGE, TTL, TYPE
from slotscope.transforms.key_distribution import with_node


def key_types(partial: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Keys and loads per node and type."""
    return (
        with_node(partial.where(F.col("kind") == TYPE), sources)
        .groupBy("node_id", "type")
        .agg(*(F.sum(name).alias(name) for name in ("keys", "serialized_bytes", "memory_bytes", "expires")))
    )


def key_sizes(partial: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Keys per node, type and range of sizes or elements."""
    return (
        with_node(partial.where(F.col("kind") == RANGE), sources)
        .groupBy("node_id", "type", F.col("text").alias("measure"), "number")
        .agg(F.sum("keys").alias("keys"), F.sum("offset").alias("total"))
        .select(
            "node_id",
            "type",
            "measure",
            F.expr("if(number = 0, 0L, shiftleft(1L, number - 1))").alias("at_least"),
            "keys",
            "total",
        )
    )


def ttl_buckets(partial: DataFrame, sources: DataFrame | None) -> DataFrame:
    """Keys and bytes per node and remaining time to live."""
    labels = F.array(*(F.lit(label) for label in TTL_LABELS))
    return (
        with_node(partial.where(F.col("kind") == TTL), sources)
        .groupBy("node_id", F.col("number").alias("bucket"))
        .agg(F.sum("keys").alias("keys"), F.sum("serialized_bytes").alias("serialized_bytes"))
        .select("node_id", "bucket", labels[F.col("bucket")].alias("label"), "keys", "serialized_bytes")
    )
