"""Tables of replication: who followed whom, how far the streams had come, and every resync with its reason.

Times stand twice, as in `schemas.history`: ``*_ns`` are nanoseconds since the epoch, the other column is a timestamp.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cluster_core.replication.table_rows import LinkRow, OffsetRow, ResyncRow
from schemas.bronze import SNAPSHOT_ID
from schemas.table import Table, fields_of, instant, optional, required

RESP_FIELDS: list[StructField] = [
    required("value_id", LongType(), "number of the row in its series, in order of capture"),
    *instant("ts", "when its last packet was captured"),
    required("packet", LongType(), "number of that packet"),
    required("offset", LongType(), "byte in the (decompressed) file at which that packet stands"),
    required("connection", LongType(), "number of the TCP connection"),
    optional("from_opener", BooleanType(), "whether the side that opened the connection sent it; null if not seen"),
    required("source_ip", StringType(), "address it came from"),
    required("source_port", IntegerType(), "port it came from"),
    required("target_ip", StringType(), "address it went to"),
    required("target_port", IntegerType(), "port it went to"),
    required(
        "kind",
        StringType(),
        "array, inline, simple, error, number, bulk, push and the like; newline; dump-begun, dump-ended; unread; gap; "
        "syn, syn-ack, fin, rst",
    ),
    required("words", ArrayType(BinaryType(), False), "the value, or its first 16 elements, each cut to 256 bytes"),
    required("elements", LongType(), "elements of the outermost array, map or set, else 1; 0 where there is no value"),
    optional("total_bytes", LongType(), "bytes that it has; of a dump the payload; null if not known"),
    optional("position", LongType(), "bytes that its side had sent up to its end, as far as seen"),
]
"""Columns of ``spark.read.format("resp-stream")``."""

REPLICATION_LINKS = Table(
    "silver/replication_links",
    "Who followed whom: one row for each time that a link was in one state.",
    StructType([SNAPSHOT_ID, *fields_of(LinkRow)]),
    key=("snapshot_id", "link_id", "piece"),
    partition_by=("snapshot_id",),
)

REPLICATION_OFFSETS = Table(
    "silver/replication_offsets",
    "How far each stream had been sent and acknowledged; what is sent is told at most every 20 ms a link.",
    StructType([SNAPSHOT_ID, *fields_of(OffsetRow)]),
    key=("snapshot_id", "mark_id"),
    partition_by=("snapshot_id",),
)

RESYNCS = Table(
    "gold/resyncs",
    "Every PSYNC and SYNC: what was asked, what was answered, why, and what it took.",
    StructType([SNAPSHOT_ID, *fields_of(ResyncRow)]),
    key=("snapshot_id", "resync_id"),
    partition_by=("snapshot_id",),
)
