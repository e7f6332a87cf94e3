"""What append-only logs tell: commands, and tables of the load that they are."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import (
    BYTES,
    FLAG,
    INTEGER,
    LONG,
    PARTIAL,
    TEXT,
    TIME,
    optional,
    required,
    several,
    snapshot_table,
    with_texts,
)

COMMAND_FIELDS: list[pa.Field] = [
    required("offset", LONG, "where the command begins in the (decompressed) file"),
    optional("db", INTEGER, "database; null before the first SELECT of a range that does not begin the file"),
    required("command", TEXT, "its name in lower case"),
    required("words", LONG, "words of the command, its name included"),
    required("bytes", LONG, "bytes of the command in the file"),
    required("keys", several(BYTES), "keys that it names, empty if it has or tells none"),
    required("slots", several(INTEGER), "their slots"),
    optional("time", TIME, "of the last #TS: line before it, UTC; null without aof-timestamp-enabled"),
]

AOF_SOURCE = pa.schema([*COMMAND_FIELDS, required("source", TEXT, "file of the log")])

_WRITES = [
    required("ops", LONG, "writes to it: a command counts once for each key that it names"),
    required("log_bytes", LONG, "its share of the commands' bytes"),
]

WRITE_LOAD = snapshot_table(
    "silver/write_load",
    "Writes to every slot, hour by hour where the log has timestamps: what increments and logs of one file hold.",
    [
        required("slot", INTEGER, "0 to 16383"),
        optional("node_id", TEXT, "master whose log it is, or that owns the slot"),
        optional("hour", TIME, "beginning of the hour, UTC; null without timestamps"),
        *_WRITES,
        PARTIAL,
    ],
    key=("slot", "node_id", "hour"),
)

COMMAND_LOAD = snapshot_table(
    "gold/command_load",
    "Commands of the logs by name, minute by minute where there are timestamps.",
    [
        optional("node_id", TEXT, "master whose log it is"),
        required("command", TEXT, "name in lower case"),
        optional("minute", TIME, "beginning of the minute, UTC; null without timestamps"),
        required("commands", LONG, "how many"),
        required("log_bytes", LONG, "their bytes"),
        required("known", FLAG, "whether Redis 7.0 or Valkey 9.1 has this command"),
        PARTIAL,
    ],
    key=("node_id", "command", "minute"),
)

WRITE_KEYS = snapshot_table(
    "gold/write_keys",
    "The keys that are written most, by writes and by bytes.",
    [
        *with_texts([required("key", BYTES, "name of the key (of all databases together)")]),
        required("slot", INTEGER, "its slot"),
        optional("node_id", TEXT, "master whose log it is, or that owns the slot"),
        *_WRITES,
        required("ops_error", LONG, "the true number is at most this much higher"),
        required("bytes_error", LONG, "the true bytes are at most this much higher"),
        required("rank_ops", INTEGER, "1 is written most often"),
        required("rank_bytes", INTEGER, "1 has the most bytes in the log"),
        PARTIAL,
    ],
    key=("key",),
)

LOG_SAVINGS = snapshot_table(
    "gold/log_savings",
    "What a rewrite of the logs would save: bytes of the log against bytes of a log that only makes what lives.",
    [
        required("scope", TEXT, "log (one row a log), slot or prefix"),
        *with_texts([required("scope_value", BYTES, "path of the log, number of the slot, or the prefix")]),
        required("log_bytes", LONG, "bytes in base and increments; of a dump as base, its records' bytes"),
        required("live_bytes", LONG, "bytes of the commands that make the living keys (aof-use-rdb-preamble no)"),
        required("saved_bytes", LONG, "the difference; negative where a dump as base is smaller than its commands"),
        required("bytes_error", LONG, "true bytes of the log are at most this much higher"),
        PARTIAL,
    ],
    key=("scope", "scope_value"),
)

UNCERTAIN_KEYS = snapshot_table(
    "gold/uncertain_keys",
    "Keys whose state the log does not settle, because of a command that is not modelled; they are never guessed.",
    [
        required("source", TEXT, "log"),
        required("db", INTEGER, "database"),
        *with_texts([required("key", BYTES, "name of the key")]),
        required("slot", INTEGER, "its slot"),
        required("command", TEXT, "first command that made it uncertain"),
        PARTIAL,
    ],
    key=("source", "db", "key"),
)
