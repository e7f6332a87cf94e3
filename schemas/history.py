"""Tables of cluster history: evidence from captures, polls, logs and metrics, and the replayed state of every node.

Each time has two columns: ``*_ns`` in nanoseconds since the epoch, and a UTC timestamp in microseconds.  ``message_id``
refers to bronze/bus_messages; it is null where a timeout, a poll or a log line is the evidence.  ``settled_by`` is the
number of the evidence that made a row final; null while later captures may change it.
"""

from __future__ import annotations

import pyarrow as pa

from cluster_core.replay import rows
from schemas.caveats import caveats
from schemas.table import (
    BYTES,
    FLAG,
    INTEGER,
    LONG,
    TEXT,
    UNSIGNED,
    by_name,
    fields_of,
    instant,
    optional,
    required,
    several,
    snapshot_table,
    with_texts,
)

EPOCH = UNSIGNED


def _interval(noun: str) -> list[pa.Field]:
    return [
        *instant("valid_from", f"start of {noun}"),
        *instant("valid_to", f"end of {noun}; null while it lasts", always=False),
    ]


_SETTLED = optional("settled_by", LONG, "evidence that made the row final; null while it may change")


# -- bronze ----------------------------------------------------------------------------------------------------------

MESSAGE_FIELDS: list[pa.Field] = [
    required("message_id", LONG, "message number, in order of capture"),
    *instant("ts", "capture time of its last packet"),
    required("packet", LONG, "number of that packet"),
    required("offset", LONG, "byte or line of that packet in the (decompressed) file"),
    required("connection", LONG, "number of the TCP connection"),
    optional("from_opener", FLAG, "whether the connection's initiator sent it; null if unknown"),
    required("source_ip", TEXT, "source address"),
    required("source_port", INTEGER, "source port"),
    required("target_ip", TEXT, "target address"),
    required("target_port", INTEGER, "target port"),
    required("captured_bytes", INTEGER, "captured bytes"),
    required("total_bytes", LONG, "length of the message"),
    required(
        "type", TEXT, "ping, pong, meet, fail, publish, auth-req, auth-ack, update, mfstart, module, publishshard"
    ),
    required("type_number", INTEGER, "type on the wire"),
    required("light", FLAG, "whether it has Valkey's short header, without a sender"),
    required("version", INTEGER, "protocol version"),
    optional("sender", TEXT, "node id in the header, or the last one of the direction"),
    optional("receiver", TEXT, "last sender on the other direction"),
    optional("port", INTEGER, "client port of the sender"),
    required("count", INTEGER, "gossip entries announced"),
    optional("current_epoch", EPOCH, "current epoch of the sender"),
    optional("config_epoch", EPOCH, "config epoch of the sender or of its master"),
    optional("repl_offset", EPOCH, "replication offset of the sender"),
    optional("bitmap_id", LONG, "claimed slots, see bronze/slot_bitmaps"),
    optional("replicaof", TEXT, "master of the sender"),
    optional("myip", TEXT, "announced address of the sender; null if none"),
    required("extensions", INTEGER, "ping extensions announced"),
    optional("shard_id", TEXT, "shard of the sender, if announced"),
    optional("pport", INTEGER, "plain-text port of the sender"),
    optional("cport", INTEGER, "bus port of the sender"),
    optional("node_flags", INTEGER, "flags of the sender, bits of CLUSTER_NODE_*"),
    optional("state", INTEGER, "cluster state of the sender: 0 ok, 1 fail"),
    optional("mflags", INTEGER, "message flags, first byte of the wire lowest"),
    optional("subject", TEXT, "subject of a FAIL or UPDATE"),
    optional("body_epoch", EPOCH, "config epoch in an UPDATE"),
    optional("body_bitmap_id", LONG, "slots in an UPDATE, see bronze/slot_bitmaps"),
    optional("channel", BYTES, "channel of a PUBLISH or PUBLISHSHARD"),
    optional("payload_bytes", LONG, "payload bytes of a PUBLISH, PUBLISHSHARD or MODULE"),
    required("unknown_bytes", LONG, "bytes that were not understood"),
    required("understood", FLAG, "whether the whole message was understood"),
    required("file", TEXT, "capture file of its last packet"),
]

MESSAGE_ROWS = with_texts(MESSAGE_FIELDS)
"""`MESSAGE_FIELDS` with a text column beside each column of bytes."""

BUS_MESSAGES = snapshot_table(
    "bronze/bus_messages",
    "Every cluster-bus message of the captures, one row each.",
    MESSAGE_ROWS,
    key=("message_id",),
    is_large=True,
)

SLOT_BITMAPS = snapshot_table(
    "bronze/slot_bitmaps",
    "Every distinct slot bitmap of the messages, once.",
    [
        required("bitmap_id", LONG, "bitmap number, in order of appearance"),
        required("slots", TEXT, "slots as in CLUSTER NODES"),
        required("slot_count", INTEGER, "number of slots"),
        required("message_id", LONG, "first message with this bitmap"),
    ],
    key=("bitmap_id",),
)

GOSSIP_FIELDS: list[pa.Field] = [
    required("message_id", LONG, "message of the entry"),
    required("entry", INTEGER, "position in the message"),
    required("node_id", TEXT, "subject node"),
    required("ping_sent_s", LONG, "sender's last unanswered ping, s since the epoch; 0: none"),
    required("pong_received_s", LONG, "sender's last pong from it, s since the epoch"),
    required("ip", TEXT, "address of the node"),
    required("port", INTEGER, "client port"),
    required("cport", INTEGER, "bus port"),
    required("pport", INTEGER, "plain-text port"),
    required("node_flags", INTEGER, "flags of the node, bits of CLUSTER_NODE_*"),
]

LOG_EVENTS = snapshot_table(
    "bronze/log_events",
    "Server log lines about the cluster.",
    [
        required("source", TEXT, "log file"),
        required("line", LONG, "line number, from 1"),
        *instant("ts", "time of the line, corrected to UTC"),
        optional("observer", TEXT, "node id of the writer; null if unknown"),
        optional("address", TEXT, "ip:port of that node; null if unknown"),
        required(
            "kind", TEXT, "pfail, fail-decided, fail-learned, fail-cleared, election-started, vote, election-won, ..."
        ),
        optional("subject", TEXT, "subject node"),
        optional("epoch", EPOCH, "epoch in the line"),
        required("text", TEXT, "text after time and level"),
        optional("peer", TEXT, "another node in the line"),
        optional("detail", TEXT, "reason, delay, slot, offset or address in the line"),
        optional("pid", LONG, "process id of the server"),
        optional("role", TEXT, "role in the line: M master, S replica, C child, X sentinel"),
    ],
    key=("source", "line"),
)

METRIC_SAMPLES = snapshot_table(
    "bronze/metric_samples",
    "Scrapes of redis_exporter, without repetitions between two equal ones.",
    [
        required("line", LONG, "number of the sample, from 1"),
        optional("ts_min_ns", LONG, "earliest time of the scrape; ns since the epoch"),
        *instant("ts", "latest time of the scrape"),
        required("address", TEXT, "host:port of the server"),
        optional("up", FLAG, "whether the exporter reached the server"),
        optional("role", TEXT, "master or slave"),
        optional("master", TEXT, "host:port of its master"),
        optional("version", TEXT, "name and version of the server"),
        optional("server_run_id", TEXT, "run_id of INFO"),
        optional("uptime_s", LONG, "seconds since its start"),
        optional("cluster_ok", FLAG, "cluster_state of CLUSTER INFO is ok"),
        optional("my_epoch", LONG, "config epoch of the server or its master"),
        optional("master_offset", LONG, "replication offset"),
        optional("replica_offset", LONG, "replication offset of a replica"),
        optional("messages_sent", LONG, "messages of the bus since the start of the process"),
        optional("keys", LONG, "keys of all databases"),
    ],
    key=("line",),
)
NODE_POLLS = snapshot_table(
    "bronze/node_polls",
    "Answers to CLUSTER NODES.",
    [
        required("source", TEXT, "file of polls"),
        required("line", LONG, "line number, from 1"),
        *instant("ts", "time of the answer"),
        optional("asked_ns", LONG, "time of the question; ns since the epoch"),
        optional("observer", TEXT, "node that answered"),
        optional("address", TEXT, "ip:port of that node"),
        required("text", TEXT, "answer without ping and pong times"),
        optional("cluster_ok", FLAG, "cluster_state of CLUSTER INFO is ok, if asked"),
        optional("server_run_id", TEXT, "run_id of INFO, if asked"),
        optional("uptime_s", LONG, "seconds since the start of the process, if asked"),
        optional("messages_sent", LONG, "messages of the bus since the start of the process, if asked"),
        optional("keys", LONG, "keys of all databases, if asked"),
        optional("master_offset", LONG, "replication offset in INFO of a master, if asked"),
    ],
    key=("source", "line"),
)

LATE_FILES = snapshot_table(
    "bronze/late_files",
    "Recorded files that were not read in full: too late, removed, or with an unknown clock.",
    [
        required("source", TEXT, "the file"),
        required(
            "reason",
            TEXT,
            "late (older than settled rows), gone (removed before reading) or clock (unknown clock offset)",
        ),
        required("left_out", LONG, "packets or lines left out"),
        required("taken", LONG, "packets or lines replayed"),
        *instant("settled", "settled time when the file arrived", always=False),
    ],
    key=("source",),
)

UNRECORDED = snapshot_table(
    "bronze/unrecorded",
    "Gaps that the recorders of a landing report: point, time and reason.",
    [
        required("point", TEXT, "capture point of the landing"),
        required("gap", LONG, "gap number at that point, from 1"),
        required("kind", TEXT, "bus, polls, slot-stats or logs"),
        required(
            "reason",
            TEXT,
            "not-running, dropped-by-kernel, capture-failed, unreachable, refused, log-missing, log-lost, disk-full or torn",
        ),
        required("subject", TEXT, "node or file; empty for the whole kind"),
        required("detail", TEXT, "message of the failing program or node"),
        optional("missed", LONG, "missed packets, if counted"),
        *_interval("the gap"),
    ],
    key=("point", "gap"),
)

# -- silver ----------------------------------------------------------------------------------------------------------

NODE_VIEWS = snapshot_table(
    "silver/node_views",
    "State of every node in the view of every observer, with its validity (SCD type 2).",
    [*fields_of(rows.NodeViewRow), _SETTLED],
    key=("observer", "node_id", "valid_from_ns"),
)

DISAGREEMENTS = snapshot_table(
    "silver/disagreements",
    "Differences between the replayed state and the observer's own header, gossip, poll or log.",
    [*fields_of(rows.DisagreementRow), _SETTLED],
    key=("observer", "node_id", "ts_ns", "field", "source"),
)

FAILURE_REPORTS = snapshot_table(
    "silver/failure_reports",
    "Failure reports per observer: reporter, subject and validity.",
    [*fields_of(rows.FailureReportRow), _SETTLED],
    key=("observer", "reporter", "subject", "valid_from_ns"),
)

VOTES = snapshot_table(
    "silver/votes",
    "Vote requests and their results.",
    [*fields_of(rows.VoteRow), _SETTLED],
    key=("voter", "candidate", "epoch", "asked_ns"),
)

EPOCHS = snapshot_table(
    "silver/epochs",
    "Changes of config epochs, with time and mechanism.",
    [*fields_of(rows.EpochRow), _SETTLED],
    key=("node_id", "epoch", "ts_ns"),
)

EVENTS = snapshot_table(
    "silver/events",
    "Events of nodes: failure verdicts, elections, votes, promotions, manual failovers, cluster state, process.",
    [
        *fields_of(rows.EventRow),
        required("source", TEXT, "bus, or log without captured messages of the node"),
        _SETTLED,
    ],
    key=("observer", "ts_ns", "kind", "subject", "epoch"),
)

SLOT_OWNERS = snapshot_table(
    "silver/slot_owners",
    "Slot owners in the view of each observer; empty observer: all agree. No row without an owner.",
    fields_of(rows.OwnerRow),
    key=("observer", "first_slot", "valid_from_ns"),
)

SILENCE = pa.struct(
    [
        required("from_ns", LONG, "last message before it; ns since the epoch"),
        required("to_ns", LONG, "next message or end of the capture; ns since the epoch"),
    ]
)

GAPS = snapshot_table(
    "silver/gaps",
    "Bus bytes missing in the captures, by source, target and time.",
    [
        required("gap", LONG, "gap number, from 1"),
        required("source_id", TEXT, "sending node or its address"),
        required("target_id", TEXT, "receiving node or its address"),
        *_interval("the gap, earliest possible"),
        required("bytes", LONG, "missing bytes; 0 if unknown"),
    ],
    key=("gap",),
)

LINKS = snapshot_table(
    "silver/links",
    "Bus traffic and silences between two nodes.",
    [
        required("source_id", TEXT, "sending node"),
        required("target_id", TEXT, "receiving node"),
        required("connections", INTEGER, "TCP connections used"),
        required("messages", LONG, "messages sent"),
        required("bytes", LONG, "bytes"),
        required("gossip_bytes", LONG, "bytes of gossip sections and extensions"),
        required("messages_by_type", by_name(LONG), "messages of each type"),
        required("bytes_by_type", by_name(LONG), "bytes of each type"),
        *instant("first_seen", "first message"),
        *instant("last_seen", "last message"),
        required("longest_silence_ms", LONG, "longest silence, including the end of the capture"),
        required(
            "silences",
            several(SILENCE),
            "silences longer than the node timeout; the last may end with the capture",
        ),
    ],
    key=("source_id", "target_id"),
)

SENTINEL_PROFILE = "sentinel"
"""Profile of a replay of sentinels, which has no cluster."""

REPLAYS = snapshot_table(
    "silver/replays",
    "Finished replays.",
    [
        *instant("first", "first evidence", always=False),
        *instant("last", "last evidence", always=False),
        required("messages", LONG, "messages read"),
        required("observers", INTEGER, "replayed processes"),
        required("node_timeout_ms", LONG, "node timeout used"),
        required("node_timeout_from", TEXT, "given, estimated or default"),
        required("profile", TEXT, "server profiles, comma-separated: redis-7.0, valkey-9.1 …"),
        required("polls", LONG, "CLUSTER NODES answers read"),
        required("log_events", LONG, "log lines used"),
        required("bad_records", LONG, "rows in bronze/bad_records"),
        required("repeated_bytes", LONG, "payload bytes captured more than once"),
        required("files", by_name(LONG), "input files and their bytes"),
        caveats("warnings about the replay"),
    ],
)

REPLAY_STATE = snapshot_table(
    "silver/replay_state",
    "State of a replay, for continuing with new files.",
    [
        required("part", TEXT, "capture, or the listening address of an observer"),
        required("version", INTEGER, "version of the state's format"),
        required("settled_by", LONG, "last evidence in the state"),
        required("messages", LONG, "last message in the state"),
        required("options", TEXT, "options of the state"),
        required("state", BYTES, "compressed state"),
    ],
    key=("part",),
)
