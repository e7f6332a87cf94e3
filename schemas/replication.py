"""Tables of replication: who followed whom, how far the streams had come, and every resync with its reason.

Times stand twice, as in `schemas.history`: ``*_ns`` are nanoseconds since the epoch, the other column is a timestamp.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.bronze import SNAPSHOT_ID
from schemas.table import Table, optional, required


def _instant(name: str, about: str, *, always: bool = True) -> list[StructField]:
    field = required if always else optional
    return [field(name, TimestampType(), about), field(f"{name}_ns", LongType(), f"{about}; ns since the epoch")]


RESP_FIELDS: list[StructField] = [
    required("value_id", LongType(), "number of the row in its series, in order of capture"),
    *_instant("ts", "when its last packet was captured"),
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
    StructType(
        [
            SNAPSHOT_ID,
            required("link_id", LongType(), "number of the link, in order of appearance"),
            required("piece", IntegerType(), "number of the row within its link, from 0"),
            required(
                "replica", StringType(), "address:port at which the replica listens; ?port: only its own end is known"
            ),
            required("master", StringType(), "address:port at which its master listens"),
            required("state", StringType(), "connect, handshake, wait_bgsave, send_bulk, bg_transfer, online, lost"),
            required("link_status", StringType(), "up or down, as master_link_status of the replica"),
            *_instant("since", "when the link began"),
            *_instant("valid_from", "when it came into this state"),
            *_instant("valid_to", "when it left this state; null while it holds", always=False),
            optional("replid", StringType(), "replication id of the stream; null before it is known"),
            optional(
                "offset", LongType(), "offset up to which the stream was sent when the state ended, or the capture"
            ),
            optional("first_offset", LongType(), "the same when the state began"),
            required("cause", StringType(), "what showed that it came into this state"),
            optional("connection", LongType(), "number of the TCP connection; null if none was seen"),
        ]
    ),
    key=("snapshot_id", "link_id", "piece"),
    partition_by=("snapshot_id",),
)

REPLICATION_OFFSETS = Table(
    "silver/replication_offsets",
    "How far each stream had been sent and acknowledged; what is sent is told at most every 20 ms a link.",
    StructType(
        [
            SNAPSHOT_ID,
            required("mark_id", LongType(), "number of the row, in order of time"),
            *_instant("ts", "when it was so"),
            required("link_id", LongType(), "link, as in silver/replication_links"),
            required("replica", StringType(), "the replica"),
            required("master", StringType(), "its master"),
            optional("replid", StringType(), "replication id of the stream"),
            required("sent_offset", LongType(), "offset up to which the master had sent"),
            optional("acked_offset", LongType(), "offset that the replica acknowledged then; null if it did not"),
            optional("lag_bytes", LongType(), "bytes sent but not acknowledged, where it acknowledged"),
        ]
    ),
    key=("snapshot_id", "mark_id"),
    partition_by=("snapshot_id",),
)

RESYNCS = Table(
    "gold/resyncs",
    "Every PSYNC and SYNC: what was asked, what was answered, why, and what it took.",
    StructType(
        [
            SNAPSHOT_ID,
            required("resync_id", LongType(), "number of the request, in order of time"),
            *_instant("ts", "when it was asked"),
            required("replica", StringType(), "who asked"),
            required("master", StringType(), "who was asked"),
            required("asked", StringType(), "the request, as sent"),
            required("asked_replid", StringType(), "replication id asked for; ? for none, empty with SYNC"),
            optional("asked_offset", LongType(), "first byte asked for"),
            required("is_failover", BooleanType(), "whether it hands the mastership over"),
            optional("answered", StringType(), "full, partial, dual-channel, refused; null: no answer was captured"),
            required("answer", StringType(), "the answer, as sent; empty if there is none"),
            *_instant("answered_at", "when it was answered", always=False),
            optional("replid", StringType(), "replication id that the answer names"),
            optional("offset", LongType(), "offset behind which the stream begins"),
            optional("foreseen", StringType(), "the answer that the traffic before it let expect"),
            optional("foreseen_reason", StringType(), "why that one"),
            optional("as_foreseen", BooleanType(), "whether it was answered so"),
            required(
                "is_certain", BooleanType(), "whether the forecast hangs on nothing that the capture does not show"
            ),
            optional("reason", StringType(), "why it was answered so: one word of cluster_core/replication/psync.py"),
            required("why", StringType(), "the whole of it in one sentence"),
            required("form", StringType(), "disk, eof, dual-channel; empty without a dump"),
            required(
                "dump_bytes", LongType(), "bytes of the dump; over two channels all three rows tell of the same one"
            ),
            required("stream_bytes", LongType(), "bytes of the backlog that were sent at once"),
            required("bytes", LongType(), "both"),
            optional("duration_ms", DoubleType(), "from the request until the replica was in sync"),
            required("outcome", StringType(), "done, refused, broken, unfinished"),
            required("is_restart", BooleanType(), "whether the replica was started again from an older file"),
            optional("backlog_first", LongType(), "first byte that the master's backlog had; null: not known"),
            optional("backlog_last", LongType(), "last byte of the master's stream then; null: not known"),
            required("backlog_bytes", LongType(), "configured size of the backlog"),
            required("backlog_known_by", StringType(), "option, INFO, CONFIG SET, default, answers"),
            required("connection", LongType(), "number of the TCP connection"),
        ]
    ),
    key=("snapshot_id", "resync_id"),
    partition_by=("snapshot_id",),
)
