"""Tables of facts per slot, per file and per snapshot."""

from __future__ import annotations

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from schemas.bronze import SNAPSHOT_ID
from schemas.caveats import caveats
from schemas.table import PARTIAL, Table, optional, required

SLOT_LOAD = Table(
    "silver/slot_load",
    "Load of every slot on every node that owns it or holds keys of it.",
    StructType(
        [
            SNAPSHOT_ID,
            required("slot", IntegerType(), "0 to 16383"),
            optional("node_id", StringType(), "master that holds the keys; null if no topology was given"),
            required("keys", LongType(), "number of keys"),
            optional("serialized_bytes", LongType(), "bytes in the dump; null if no source knows sizes"),
            optional(
                "memory_bytes",
                LongType(),
                "estimated bytes in memory of the keys that a model knows; null where none applies",
            ),
            optional("expires", LongType(), "keys with a time to live; null if no source knows"),
            optional("ops", LongType(), "operations, if a key list has them"),
            optional("owner_id", StringType(), "master that owns the slot in the topology"),
            PARTIAL,
        ]
    ),
    key=("snapshot_id", "slot", "node_id"),
    partition_by=("snapshot_id",),
)

SOURCES = Table(
    "silver/sources",
    "One row an input file: what it is, whose it is, what was found in it.",
    StructType(
        [
            SNAPSHOT_ID,
            required("source", StringType(), "path or address of the file"),
            required("kind", StringType(), "rdb, text, csv, jsonl, parquet, delta"),
            optional("node_id", StringType(), "master whose data it holds, null if not known"),
            required("keys", LongType(), "keys read"),
            required("file_bytes", LongType(), "bytes of the file as stored"),
            required("facts", MapType(StringType(), StringType()), "aux fields, version, checks"),
            PARTIAL,
            optional("bad_records", LongType(), "places of the file that could not be read"),
            optional("unread_bytes", LongType(), "bytes of the file, as stored, that were not read; null if not known"),
            optional("records", LongType(), "keys, or rows, that the file says it holds; null if it does not say"),
            optional("unread_records", LongType(), "of these the ones that could not be read; null if not known"),
            optional("unread_share", DoubleType(), "of the file that could not be read, 0 to 1; null if not known"),
        ]
    ),
    key=("snapshot_id", "source"),
    partition_by=("snapshot_id",),
)

SNAPSHOTS = Table(
    "silver/snapshots",
    "One row a finished snapshot, written last: a snapshot without it is incomplete.",
    StructType(
        [
            SNAPSHOT_ID,
            optional("taken_at", TimestampType(), "latest ctime of the dumps, UTC"),
            required("keys", LongType(), "keys in all inputs"),
            optional("serialized_bytes", LongType(), "bytes of all keys"),
            required("bad_records", LongType(), "rows in bronze/bad_records"),
            caveats("what to know before trusting the figures"),
            optional("topology", StringType(), "the topology as CLUSTER NODES text, null if none was given"),
            optional(
                "memory_model",
                StringType(),
                "models that memory_bytes is estimated by: redis 7.0, jemalloc-16; null: none",
            ),
            optional(
                "memory_exactness",
                StringType(),
                "model (of the servers that wrote the dumps), named (by --server), nearest (some server has no model: that of the "
                "nearest version, error not known), partial (some keys are in no figure of memory); null without memory",
            ),
            optional("unmeasured_keys", LongType(), "keys that no figure of memory holds; null without memory"),
            PARTIAL,
            optional("file_bytes", LongType(), "bytes of all inputs as stored"),
            optional("unread_bytes", LongType(), "of these the ones that were not read; null if not known"),
            optional("unread_share", DoubleType(), "of all inputs that could not be read, 0 to 1; null if not known"),
        ]
    ),
    key=("snapshot_id",),
    partition_by=("snapshot_id",),
)
