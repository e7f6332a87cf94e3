"""Tables of append-only logs: commands, writes per slot and key, uncertain keys."""

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
    required("offset", LONG, "start of the command in the (decompressed) file"),
    optional("db", INTEGER, "database"),
    required("command", TEXT, "name in lower case"),
    required("words", LONG, "number of arguments, including the name"),
    required("bytes", LONG, "bytes of the command in the file"),
    required("keys", several(BYTES), "its keys, empty without known ones"),
    required("slots", several(INTEGER), "their slots"),
    optional("time", TIME, "time of the last #TS: line; null without aof-timestamp-enabled"),
]

AOF_SOURCE = pa.schema([*COMMAND_FIELDS, required("source", TEXT, "file of the log")])

_WRITES = [
    required("ops", LONG, "writes; a command counts once for each of its keys"),
    required("log_bytes", LONG, "share of the commands' bytes"),
]

WRITE_LOAD = snapshot_table(
    "silver/write_load",
    "Writes to every slot in increments and single-file logs, hourly with timestamps.",
    [
        required("slot", INTEGER, "0 to 16383"),
        optional("node_id", TEXT, "master of the log, or owner of the slot"),
        optional("hour", TIME, "start of the hour; null without timestamps"),
        *_WRITES,
        PARTIAL,
    ],
    key=("slot", "node_id", "hour"),
)

COMMAND_LOAD = snapshot_table(
    "gold/command_load",
    "Commands by name, per minute with timestamps.",
    [
        optional("node_id", TEXT, "master of the log"),
        required("command", TEXT, "name in lower case"),
        optional("minute", TIME, "start of the minute; null without timestamps"),
        required("commands", LONG, "number of commands"),
        required("log_bytes", LONG, "bytes"),
        required("known", FLAG, "whether Redis 7.0 or Valkey 9.1 has the command"),
        PARTIAL,
    ],
    key=("node_id", "command", "minute"),
)

WRITE_KEYS = snapshot_table(
    "gold/write_keys",
    "Most written keys, by writes and by bytes.",
    [
        *with_texts([required("key", BYTES, "name of the key, all databases together")]),
        required("slot", INTEGER, "its slot"),
        optional("node_id", TEXT, "master of the log, or owner of the slot"),
        *_WRITES,
        required("ops_error", LONG, "upper bound of the undercount"),
        required("bytes_error", LONG, "upper bound of the undercounted dump bytes"),
        required("rank_ops", INTEGER, "rank by writes"),
        required("rank_bytes", INTEGER, "rank by log bytes"),
        PARTIAL,
    ],
    key=("key",),
)

UNCERTAIN_KEYS = snapshot_table(
    "gold/uncertain_keys",
    "Keys with an unknown state after an unmodelled command.",
    [
        required("source", TEXT, "log"),
        required("db", INTEGER, "database"),
        *with_texts([required("key", BYTES, "name of the key")]),
        required("slot", INTEGER, "its slot"),
        required("command", TEXT, "first unmodelled command"),
        PARTIAL,
    ],
    key=("source", "db", "key"),
)
