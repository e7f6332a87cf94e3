"""Tables of what was read, one row a record, nothing interpreted yet."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from schemas.table import PARTIAL, Table, optional, required, with_texts

SNAPSHOT_ID = required("snapshot_id", StringType(), "name of the snapshot")

KEY_FIELDS: list[StructField] = [
    required("db", IntegerType(), "database number"),
    required("key", BinaryType(), "name of the key"),
    required("slot", IntegerType(), "CRC16 of the key or its hash tag, modulo 16384"),
    optional("hash_tag", BinaryType(), "bytes between the first { and the next }, null if the whole key is hashed"),
    optional("type", StringType(), "as TYPE replies; null in key lists that do not say"),
    optional("encoding", StringType(), "as OBJECT ENCODING replied on the server that wrote the file"),
    optional("elements", LongType(), "length of the value: STRLEN, LLEN, SCARD, HLEN, ZCARD, XLEN"),
    optional("serialized_bytes", LongType(), "bytes of the whole record in the dump, or of the list's size column"),
    optional("expire_at_ms", LongType(), "when the key expires, epoch; null if never"),
    optional("idle_s", LongType(), "seconds since last use, if the server kept them"),
    optional("freq", ShortType(), "LFU counter, if the server kept it"),
    optional("offset", LongType(), "where the record begins in the (decompressed) file"),
    optional(
        "memory_bytes",
        LongType(),
        "MEMORY USAGE of the key on the server that wrote the file, estimated; null if no model knows its layout",
    ),
    optional(
        "estimate",
        StringType(),
        "whose model memory_bytes is: model (the writer's), nearest (of the nearest known version), named (by --server)",
    ),
]

RDB_SOURCE = StructType([*KEY_FIELDS, required("source", StringType(), "file the key was read from")])

KEY_ROWS = StructType(with_texts(RDB_SOURCE.fields))
"""What a task returns for `KEYS`."""

KEYS = Table(
    "bronze/keys",
    "Every key of every input, one row each; written with --keep-keys only.",
    StructType([SNAPSHOT_ID, *KEY_ROWS.fields, PARTIAL]),
    key=("snapshot_id", "source", "offset"),
    partition_by=("snapshot_id",),
)

VALUE_FLAWS = Table(
    "bronze/value_flaws",
    "Values that are not what their headers say, or what no server holds; written with --deep only.",
    StructType(
        [
            SNAPSHOT_ID,
            required("source", StringType(), "dump that holds the key"),
            required("db", IntegerType(), "database number"),
            *with_texts([required("key", BinaryType(), "name of the key")]),
            required("slot", IntegerType(), "its slot"),
            required("type", StringType(), "as TYPE replies"),
            required("encoding", StringType(), "as OBJECT ENCODING replied on the server that wrote the file"),
            required("offset", LongType(), "where the record begins in the (decompressed) file"),
            required("flaw", StringType(), "undecodable, count, links, twice, score, order or pending"),
            optional("header_count", LongType(), "elements that the value's header counts; null if it does not say"),
            optional("real_count", LongType(), "elements that were decoded; null if they cannot be told"),
            required("detail", StringType(), "what is wrong, in words"),
        ]
    ),
    key=("snapshot_id", "source", "offset", "flaw", "detail"),
    partition_by=("snapshot_id",),
)

BAD_RECORDS = Table(
    "bronze/bad_records",
    "What could not be read: one row a record or file, with the place and the reason.",
    StructType(
        [
            SNAPSHOT_ID,
            required("job", StringType(), "job that met it; each replaces its own rows of a snapshot"),
            required("source", StringType(), "file, or stream, that holds the record"),
            required("offset", LongType(), "byte (or line, for line formats) at which reading failed"),
            required("reason", StringType(), "what is wrong there"),
            optional("skipped_bytes", LongType(), "bytes that were not read because of it, null if unknown"),
        ]
    ),
    key=("snapshot_id", "job", "source", "offset", "reason"),
    partition_by=("snapshot_id",),
)
