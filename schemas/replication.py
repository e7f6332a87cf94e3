"""Tables of replication: who followed whom, how far the streams had come, and every resync with its reason.

Times stand twice, as in `schemas.history`: ``*_ns`` are nanoseconds since the epoch, the other column is a timestamp.
"""

from __future__ import annotations

import pyarrow as pa

from cluster_core.replication.table_rows import LinkRow, OffsetRow, ResyncRow
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
    *instant("ts", "when its last packet was captured"),
    required("packet", LONG, "number of that packet"),
    required("offset", LONG, "byte in the (decompressed) file at which that packet stands"),
    required("connection", LONG, "number of the TCP connection"),
    optional("from_opener", FLAG, "whether the side that opened the connection sent it; null if not seen"),
    required("source_ip", TEXT, "address it came from"),
    required("source_port", INTEGER, "port it came from"),
    required("target_ip", TEXT, "address it went to"),
    required("target_port", INTEGER, "port it went to"),
    required(
        "kind",
        TEXT,
        "array, inline, simple, error, number, bulk, push and the like; newline; dump-begun, dump-ended; unread; gap; "
        "syn, syn-ack, fin, rst",
    ),
    required("words", several(BYTES), "the value, or its first 16 elements, each cut to 256 bytes"),
    required("elements", LONG, "elements of the outermost array, map or set, else 1; 0 where there is no value"),
    optional("total_bytes", LONG, "bytes that it has; of a dump the payload; null if not known"),
    optional("position", LONG, "bytes that its side had sent up to its end, as far as seen"),
]
"""Columns of ``spark.read.format("resp-stream")``."""

REPLICATION_LINKS = snapshot_table(
    "silver/replication_links",
    "Who followed whom: one row for each time that a link was in one state.",
    fields_of(LinkRow),
    key=("link_id", "piece"),
)

REPLICATION_OFFSETS = snapshot_table(
    "silver/replication_offsets",
    "How far each stream had been sent and acknowledged; what is sent is told at most every 20 ms a link.",
    fields_of(OffsetRow),
    key=("mark_id",),
)

RESYNCS = snapshot_table(
    "gold/resyncs",
    "Every PSYNC and SYNC: what was asked, what was answered, why, and what it took.",
    fields_of(ResyncRow),
    key=("resync_id",),
)
