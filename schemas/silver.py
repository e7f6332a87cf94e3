"""Tables of facts per slot, per file and per snapshot."""

from __future__ import annotations

import pyarrow as pa

from schemas.caveats import caveats
from schemas.table import DOUBLE, INTEGER, LONG, PARTIAL, TEXT, TIME, optional, required, snapshot_table

SLOT_LOAD = snapshot_table(
    "silver/slot_load",
    "Load of every slot on every node that owns it or holds keys of it.",
    [
        required("slot", INTEGER, "0 to 16383"),
        optional("node_id", TEXT, "master that holds the keys; null if no topology was given"),
        required("keys", LONG, "number of keys"),
        optional("serialized_bytes", LONG, "bytes in the dump; null if no source knows sizes"),
        optional(
            "memory_bytes", LONG, "estimated bytes in memory of the keys that a model knows; null where none applies"
        ),
        optional("expires", LONG, "keys with a time to live; null if no source knows"),
        optional("ops", LONG, "operations, if a key list has them"),
        optional("owner_id", TEXT, "master that owns the slot in the topology"),
        PARTIAL,
    ],
    key=("slot", "node_id"),
)

SOURCES = snapshot_table(
    "silver/sources",
    "One row an input file: what it is, whose it is, what was found in it.",
    [
        required("source", TEXT, "path or address of the file"),
        required("kind", TEXT, "rdb, text, csv, jsonl, parquet, delta"),
        optional("node_id", TEXT, "master whose data it holds, null if not known"),
        required("keys", LONG, "keys read"),
        required("file_bytes", LONG, "bytes of the file as stored"),
        required("facts", pa.map_(TEXT, TEXT), "aux fields, version, checks"),
        PARTIAL,
        optional("bad_records", LONG, "places of the file that could not be read"),
        optional("unread_bytes", LONG, "bytes of the file, as stored, that were not read; null if not known"),
        optional("records", LONG, "keys, or rows, that the file says it holds; null if it does not say"),
        optional("unread_records", LONG, "of these the ones that could not be read; null if not known"),
        optional("unread_share", DOUBLE, "of the file that could not be read, 0 to 1; null if not known"),
    ],
    key=("source",),
)

SNAPSHOTS = snapshot_table(
    "silver/snapshots",
    "One row a finished snapshot.",
    [
        optional("taken_at", TIME, "latest ctime of the dumps, UTC"),
        required("keys", LONG, "keys in all inputs"),
        optional("serialized_bytes", LONG, "bytes of all keys"),
        required("bad_records", LONG, "rows in bronze/bad_records"),
        caveats("what to know before trusting the figures"),
        optional("topology", TEXT, "the topology as CLUSTER NODES text, null if none was given"),
        optional("memory_model", TEXT, "models that memory_bytes is estimated by: redis 7.0, jemalloc-16; null: none"),
        optional(
            "memory_exactness",
            TEXT,
            "model (of the servers that wrote the dumps), named (by --server), nearest (some server has no model: that of the "
            "nearest version, error not known), partial (some keys are in no figure of memory); null without memory",
        ),
        optional("unmeasured_keys", LONG, "keys that no figure of memory holds; null without memory"),
        PARTIAL,
        optional("file_bytes", LONG, "bytes of all inputs as stored"),
        optional("unread_bytes", LONG, "of these the ones that were not read; null if not known"),
        optional("unread_share", DOUBLE, "of all inputs that could not be read, 0 to 1; null if not known"),
        optional("written_at", TIME, "when this row was written, UTC: by the clock of the job"),
    ],
)
