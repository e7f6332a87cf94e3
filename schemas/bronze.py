"""Bronze tables: keys and unreadable records, one row each."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import BYTES, INTEGER, LONG, PARTIAL, SHORT, TEXT, optional, required, snapshot_table, with_texts

KEY_FIELDS: list[pa.Field] = [
    required("db", INTEGER, "database number"),
    required("key", BYTES, "name of the key"),
    required("slot", INTEGER, "CRC16 of the key or its hash tag, modulo 16384"),
    optional("hash_tag", BYTES, "bytes between the first { and the next }; null if the whole key is hashed"),
    optional("type", TEXT, "type as in TYPE; null in key lists without one"),
    optional("encoding", TEXT, "OBJECT ENCODING on the server that wrote the file"),
    optional("elements", LONG, "length of the value (STRLEN, LLEN, SCARD, HLEN, ZCARD, XLEN)"),
    optional("serialized_bytes", LONG, "size of the record in the dump, or the list's size column"),
    optional("expire_at_ms", LONG, "expiry, ms since the epoch; null: never"),
    optional("idle_s", LONG, "seconds since the last access, if recorded"),
    optional("freq", SHORT, "LFU counter, if recorded"),
    optional("offset", LONG, "start of the record in the (decompressed) file"),
    optional(
        "memory_bytes",
        LONG,
        "estimated MEMORY USAGE on the server that wrote the file; null without a model",
    ),
    optional(
        "estimate",
        TEXT,
        "memory model: model (the writer's version), nearest (nearest known version) or named (--server)",
    ),
]

RDB_SOURCE = pa.schema([*KEY_FIELDS, required("source", TEXT, "file of the key")])

KEY_ROWS = pa.schema(with_texts(RDB_SOURCE))
"""Columns of `KEYS`: those of the Data Source, with names as text."""

KEYS = snapshot_table(
    "bronze/keys",
    "Every key of every dump. Only with --keep-keys.",
    [*KEY_ROWS, PARTIAL],
    key=("source", "offset"),
    is_large=True,
)

BAD_RECORDS = snapshot_table(
    "bronze/bad_records",
    "Unreadable records and files, with place and reason.",
    [
        required("job", TEXT, "job that reported it; each replaces its own rows of a snapshot"),
        required("source", TEXT, "file or stream of the record"),
        required("offset", LONG, "offset of the failure: a byte, or a line in line formats"),
        required("reason", TEXT, "reason"),
        optional("skipped_bytes", LONG, "bytes skipped; null if unknown"),
    ],
    key=("job", "source", "offset", "reason"),
)
