"""What append-only logs tell: commands, and tables of the load that they are."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.bronze import SNAPSHOT_ID
from schemas.table import PARTIAL, Table, optional, required, with_texts

COMMAND_FIELDS: list[StructField] = [
    required("offset", LongType(), "where the command begins in the (decompressed) file"),
    optional("db", IntegerType(), "database; null before the first SELECT of a range that does not begin the file"),
    required("command", StringType(), "its name in lower case"),
    required("words", LongType(), "words of the command, its name included"),
    required("bytes", LongType(), "bytes of the command in the file"),
    required("keys", ArrayType(BinaryType(), containsNull=False), "keys that it names, empty if it has or tells none"),
    required("slots", ArrayType(IntegerType(), containsNull=False), "their slots"),
    optional("time", TimestampType(), "of the last #TS: line before it, UTC; null without aof-timestamp-enabled"),
]

AOF_SOURCE = StructType([*COMMAND_FIELDS, required("source", StringType(), "file of the log")])

_WRITES = [
    required("ops", LongType(), "writes to it: a command counts once for each key that it names"),
    required("log_bytes", LongType(), "its share of the commands' bytes"),
]

WRITE_LOAD = Table(
    "silver/write_load",
    "Writes to every slot, hour by hour where the log has timestamps: what increments and logs of one file hold.",
    StructType(
        [
            SNAPSHOT_ID,
            required("slot", IntegerType(), "0 to 16383"),
            optional("node_id", StringType(), "master whose log it is, or that owns the slot"),
            optional("hour", TimestampType(), "beginning of the hour, UTC; null without timestamps"),
            *_WRITES,
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "slot", "node_id", "hour"),
    partition_by=("snapshot_id",),
)

COMMAND_LOAD = Table(
    "gold/command_load",
    "Commands of the logs by name, minute by minute where there are timestamps.",
    StructType(
        [
            SNAPSHOT_ID,
            optional("node_id", StringType(), "master whose log it is"),
            required("command", StringType(), "name in lower case"),
            optional("minute", TimestampType(), "beginning of the minute, UTC; null without timestamps"),
            required("commands", LongType(), "how many"),
            required("log_bytes", LongType(), "their bytes"),
            required("known", BooleanType(), "whether Redis 7.0 or Valkey 9.1 has this command"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "node_id", "command", "minute"),
    partition_by=("snapshot_id",),
)

WRITE_KEYS = Table(
    "gold/write_keys",
    "The keys that are written most, by writes and by bytes.",
    StructType(
        [
            SNAPSHOT_ID,
            *with_texts([required("key", BinaryType(), "name of the key (of all databases together)")]),
            required("slot", IntegerType(), "its slot"),
            optional("node_id", StringType(), "master whose log it is, or that owns the slot"),
            *_WRITES,
            required("ops_error", LongType(), "the true number is at most this much higher"),
            required("bytes_error", LongType(), "the true bytes are at most this much higher"),
            required("rank_ops", IntegerType(), "1 is written most often"),
            required("rank_bytes", IntegerType(), "1 has the most bytes in the log"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "key"),
    partition_by=("snapshot_id",),
)

LOG_SAVINGS = Table(
    "gold/log_savings",
    "What a rewrite of the logs would save: bytes of the log against bytes of a log that only makes what lives.",
    StructType(
        [
            SNAPSHOT_ID,
            required("scope", StringType(), "log (one row a log), slot or prefix"),
            *with_texts([required("scope_value", BinaryType(), "path of the log, number of the slot, or the prefix")]),
            required("log_bytes", LongType(), "bytes in base and increments; of a dump as base, its records' bytes"),
            required(
                "live_bytes", LongType(), "bytes of the commands that make the living keys (aof-use-rdb-preamble no)"
            ),
            required(
                "saved_bytes", LongType(), "the difference; negative where a dump as base is smaller than its commands"
            ),
            required("bytes_error", LongType(), "true bytes of the log are at most this much higher"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "scope", "scope_value"),
    partition_by=("snapshot_id",),
)

UNCERTAIN_KEYS = Table(
    "gold/uncertain_keys",
    "Keys whose state the log does not settle, because of a command that is not modelled; they are never guessed.",
    StructType(
        [
            SNAPSHOT_ID,
            required("source", StringType(), "log"),
            required("db", IntegerType(), "database"),
            *with_texts([required("key", BinaryType(), "name of the key")]),
            required("slot", IntegerType(), "its slot"),
            required("command", StringType(), "first command that made it uncertain"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "source", "db", "key"),
    partition_by=("snapshot_id",),
)
