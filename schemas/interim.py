"""What a task of the key distribution returns: partial sums, never a row a key.  Not a table on disk."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

SLOT, TOP_SLOT, TOP_TYPE, TOP_OWNER, TAG, PREFIX, TTL, UNIT, BAD = range(9)
FLAW = 14
LOG_SLOT, LOG_COMMAND, LOG_KEY, LOG_PREFIX, LOG_DOUBT = range(9, 14)
"""Kinds of partial rows.  Those of logs have writes in *ops*, bytes of the log in *serialized_bytes*, the beginning of the hour
(`LOG_SLOT`) or minute (`LOG_COMMAND`) in *offset* (epoch in s, null without timestamps); *number* is 1 for a slot's bytes in a
base, and for a command that servers are known to have.  A `FLAW` has what a header counts in *elements*, what is there in *keys*.
"""

PARTIAL = StructType(
    [
        StructField("kind", IntegerType(), nullable=False),
        StructField("source", StringType(), nullable=False),
        StructField("part", IntegerType(), nullable=False),
        StructField("slot", IntegerType()),
        StructField("owner_id", StringType()),
        StructField("name", BinaryType()),
        StructField("name_text", StringType()),
        StructField("hash_tag", BinaryType()),
        StructField("hash_tag_text", StringType()),
        StructField("keys", LongType()),
        StructField("serialized_bytes", LongType()),
        StructField("expires", LongType()),
        StructField("ops", LongType()),
        StructField("keys_error", LongType()),
        StructField("bytes_error", LongType()),
        StructField("number", IntegerType()),
        StructField("db", IntegerType()),
        StructField("type", StringType()),
        StructField("encoding", StringType()),
        StructField("elements", LongType()),
        StructField("expire_at_ms", LongType()),
        StructField("idle_s", LongType()),
        StructField("freq", ShortType()),
        StructField("offset", LongType()),
        StructField("text", StringType()),
        StructField("facts", MapType(StringType(), StringType())),
        StructField("memory_bytes", LongType()),
        StructField("estimate", StringType()),
    ]
)
"""*number* is a prefix's depth, a time-to-live bucket, or the keys that a slot's own record in the dump declares (-1: none)."""
