"""Tables of replication: links, offsets, and resyncs with their reasons.

Times have two columns, as in `schemas.history`.
"""

from __future__ import annotations

import pyarrow as pa

from cluster_core.replication.rows import LinkRow, OffsetRow, ResyncRow
from schemas.table import (
    BYTES,
    FLAG,
    INTEGER,
    LONG,
    TEXT,
    fields_of,
    instant,
    optional,
    required,
    several,
    snapshot_table,
)

RESP_FIELDS: list[pa.Field] = [
    required("value_id", LONG, "number of the row in its series, in order of capture"),
    *instant("ts", "capture time of its last packet"),
    required("packet", LONG, "number of that packet"),
    required("offset", LONG, "byte of that packet in the (decompressed) file"),
    required("connection", LONG, "number of the TCP connection"),
    optional("from_opener", FLAG, "whether the connection's initiator sent it; null if unknown"),
    required("source_ip", TEXT, "source address"),
    required("source_port", INTEGER, "source port"),
    required("target_ip", TEXT, "target address"),
    required("target_port", INTEGER, "target port"),
    required(
        "kind",
        TEXT,
        "array, inline, simple, error, number, bulk, push and the like; newline; dump-begun, dump-ended; unread; gap; "
        "syn, syn-ack, fin, rst",
    ),
    required("words", several(BYTES), "value, or its first 16 elements, each cut to 256 bytes"),
    required("elements", LONG, "elements of the outermost array, map or set; else 1; 0 without a value"),
    optional("total_bytes", LONG, "length in bytes; of a dump the payload; null if unknown"),
    optional("position", LONG, "bytes sent by its side up to its end, as far as captured"),
]
"""Columns of ``spark.read.format("resp-stream")``."""

REPLICATION_LINKS = snapshot_table(
    "silver/replication_links",
    "States of replication links, one row a state.",
    fields_of(LinkRow),
    key=("link_id", "piece"),
)

REPLICATION_OFFSETS = snapshot_table(
    "silver/replication_offsets",
    "Sent and acknowledged offsets of each stream; sent ones at most every 20 ms.",
    fields_of(OffsetRow),
    key=("mark_id",),
)

RESYNCS = snapshot_table(
    "gold/resyncs",
    "Every PSYNC and SYNC: request, answer, reason, cost.",
    fields_of(ResyncRow),
    key=("resync_id",),
)
