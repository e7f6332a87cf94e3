"""Silver tables of key spaces: load per slot, input files, snapshots."""

from __future__ import annotations

import pyarrow as pa

from schemas.caveats import caveats
from schemas.table import DOUBLE, INTEGER, LONG, PARTIAL, TEXT, TIME, optional, required, snapshot_table

SLOT_LOAD = snapshot_table(
    "silver/slot_load",
    "Load of every slot on every node with ownership or keys of it.",
    [
        required("slot", INTEGER, "0 to 16383"),
        optional("node_id", TEXT, "master of the keys; null without a topology"),
        required("keys", LONG, "keys"),
        optional("serialized_bytes", LONG, "dump bytes; null if no source has sizes"),
        optional("memory_bytes", LONG, "estimated memory of keys with a model; null without one"),
        optional("expires", LONG, "keys with an expiry; null if no source records it"),
        optional("ops", LONG, "operations, if a key list counts them"),
        optional("owner_id", TEXT, "owner of the slot in the topology"),
        PARTIAL,
    ],
    key=("slot", "node_id"),
)

SOURCES = snapshot_table(
    "silver/sources",
    "Input files: kind, node, content.",
    [
        required("source", TEXT, "path or URI of the file"),
        required("kind", TEXT, "rdb, text, csv, jsonl, parquet, delta"),
        optional("node_id", TEXT, "master of the file; null if unknown"),
        required("keys", LONG, "keys read"),
        required("file_bytes", LONG, "stored bytes of the file"),
        required("facts", pa.map_(TEXT, TEXT), "aux fields, version, checks"),
        PARTIAL,
        optional("bad_records", LONG, "unreadable places"),
        optional("unread_bytes", LONG, "stored bytes that were not read; null if unknown"),
        optional("records", LONG, "keys or rows that the file declares; null if it does not"),
        optional("unread_records", LONG, "declared records that could not be read; null if unknown"),
        optional("unread_share", DOUBLE, "unread share of the file; null if unknown"),
    ],
    key=("source",),
)

SNAPSHOTS = snapshot_table(
    "silver/snapshots",
    "Finished snapshots.",
    [
        optional("taken_at", TIME, "latest ctime of the dumps"),
        required("keys", LONG, "keys in all inputs"),
        optional("serialized_bytes", LONG, "dump bytes of all keys"),
        required("bad_records", LONG, "rows in bronze/bad_records"),
        caveats("warnings about the figures"),
        optional("topology", TEXT, "topology as CLUSTER NODES text; null without one"),
        optional("memory_model", TEXT, "memory models, as redis 7.0, jemalloc-16; null without one"),
        optional(
            "memory_exactness",
            TEXT,
            "model (writers' versions), named (--server), nearest (nearest known version, error unknown) or partial (some "
            "keys without an estimate); null without a model",
        ),
        optional("unmeasured_keys", LONG, "keys without a memory estimate; null without a model"),
        PARTIAL,
        optional("file_bytes", LONG, "stored bytes of all inputs"),
        optional("unread_bytes", LONG, "stored bytes that were not read; null if unknown"),
        optional("unread_share", DOUBLE, "unread share of all inputs; null if unknown"),
        optional("written_at", TIME, "time of this row, by the clock of the job"),
    ],
)
