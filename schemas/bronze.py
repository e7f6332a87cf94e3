"""Bronze tables: raw keys, flawed values and unreadable records, one row each."""

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
"""Arrow schema of the key rows that a task returns for `KEYS`."""

KEYS = snapshot_table(
    "bronze/keys",
    "Every key of every input. Only with --keep-keys.",
    [*KEY_ROWS, PARTIAL],
    key=("source", "offset"),
    is_large=True,
)

VALUE_FLAWS = snapshot_table(
    "bronze/value_flaws",
    "Values that contradict their headers, or that no server holds. Only with --deep.",
    [
        required("source", TEXT, "dump that holds the key"),
        required("db", INTEGER, "database number"),
        *with_texts([required("key", BYTES, "name of the key")]),
        required("slot", INTEGER, "its slot"),
        required("type", TEXT, "as TYPE replies"),
        required("encoding", TEXT, "OBJECT ENCODING on the server that wrote the file"),
        required("offset", LONG, "start of the record in the (decompressed) file"),
        required("flaw", TEXT, "undecodable, count, links, twice, score, order or pending"),
        optional("header_count", LONG, "element count of the header; null if absent"),
        optional("real_count", LONG, "decoded elements; null if unknown"),
        required("detail", TEXT, "description"),
    ],
    key=("source", "offset", "flaw", "detail"),
)

BAD_RECORDS = snapshot_table(
    "bronze/bad_records",
    "Unreadable records and files, with place and reason.",
    [
        required("job", TEXT, "job that reported it; each replaces its own rows of a snapshot"),
        required("source", TEXT, "file or stream of the record"),
        required("offset", LONG, "byte, or line in line formats, where reading failed"),
        required("reason", TEXT, "reason"),
        optional("skipped_bytes", LONG, "bytes skipped; null if unknown"),
    ],
    key=("job", "source", "offset", "reason"),
)
