"""Tables of what was read, one row a record, nothing interpreted yet."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import BYTES, INTEGER, LONG, PARTIAL, SHORT, TEXT, optional, required, snapshot_table, with_texts

KEY_FIELDS: list[pa.Field] = [
    required("db", INTEGER, "database number"),
    required("key", BYTES, "name of the key"),
    required("slot", INTEGER, "CRC16 of the key or its hash tag, modulo 16384"),
    optional("hash_tag", BYTES, "bytes between the first { and the next }, null if the whole key is hashed"),
    optional("type", TEXT, "as TYPE replies; null in key lists that do not say"),
    optional("encoding", TEXT, "as OBJECT ENCODING replied on the server that wrote the file"),
    optional("elements", LONG, "length of the value: STRLEN, LLEN, SCARD, HLEN, ZCARD, XLEN"),
    optional("serialized_bytes", LONG, "bytes of the whole record in the dump, or of the list's size column"),
    optional("expire_at_ms", LONG, "when the key expires, epoch; null if never"),
    optional("idle_s", LONG, "seconds since last use, if the server kept them"),
    optional("freq", SHORT, "LFU counter, if the server kept it"),
    optional("offset", LONG, "where the record begins in the (decompressed) file"),
    optional(
        "memory_bytes",
        LONG,
        "MEMORY USAGE of the key on the server that wrote the file, estimated; null if no model knows its layout",
    ),
    optional(
        "estimate",
        TEXT,
        "whose model memory_bytes is: model (the writer's), nearest (of the nearest known version), named (by --server)",
    ),
]

RDB_SOURCE = pa.schema([*KEY_FIELDS, required("source", TEXT, "file the key was read from")])

KEY_ROWS = pa.schema(with_texts(RDB_SOURCE))
"""What a task returns for `KEYS`."""

KEYS = snapshot_table(
    "bronze/keys",
    "Every key of every input, one row each; written with --keep-keys only.",
    [*KEY_ROWS, PARTIAL],
    key=("source", "offset"),
    is_large=True,
)

VALUE_FLAWS = snapshot_table(
    "bronze/value_flaws",
    "Values that are not what their headers say, or what no server holds; written with --deep only.",
    [
        required("source", TEXT, "dump that holds the key"),
        required("db", INTEGER, "database number"),
        *with_texts([required("key", BYTES, "name of the key")]),
        required("slot", INTEGER, "its slot"),
        required("type", TEXT, "as TYPE replies"),
        required("encoding", TEXT, "as OBJECT ENCODING replied on the server that wrote the file"),
        required("offset", LONG, "where the record begins in the (decompressed) file"),
        required("flaw", TEXT, "undecodable, count, links, twice, score, order or pending"),
        optional("header_count", LONG, "elements that the value's header counts; null if it does not say"),
        optional("real_count", LONG, "elements that were decoded; null if they cannot be told"),
        required("detail", TEXT, "what is wrong, in words"),
    ],
    key=("source", "offset", "flaw", "detail"),
)

BAD_RECORDS = snapshot_table(
    "bronze/bad_records",
    "What could not be read: one row a record or file, with the place and the reason.",
    [
        required("job", TEXT, "job that met it; each replaces its own rows of a snapshot"),
        required("source", TEXT, "file, or stream, that holds the record"),
        required("offset", LONG, "byte (or line, for line formats) at which reading failed"),
        required("reason", TEXT, "what is wrong there"),
        optional("skipped_bytes", LONG, "bytes that were not read because of it, null if unknown"),
    ],
    key=("job", "source", "offset", "reason"),
)
