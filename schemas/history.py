"""Tables of a replay: what was captured, polled and logged, and what every node believed because of it.

Times stand twice: ``*_ns`` are nanoseconds since the epoch, as captured; the column without ``_ns`` is the same as a
timestamp (UTC, microseconds).  ``message_id`` is the number of the message in bronze/bus_messages that shows the fact;
null where time alone, a poll or a log line does.  ``settled_by`` is the number of the piece of evidence after which a
row cannot change any more; null where further captures may still change it.
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


def _interval(what: str) -> list[pa.Field]:
    return [
        *instant("valid_from", f"when {what} began"),
        *instant("valid_to", f"when {what} ended; null while it holds", always=False),
    ]


_SETTLED = optional("settled_by", LONG, "number of the evidence that made the row final; null while it may change")


# -- bronze ----------------------------------------------------------------------------------------------------------

MESSAGE_FIELDS: list[pa.Field] = [
    required("message_id", LONG, "number of the message in its snapshot, in order of capture"),
    *instant("ts", "when its last packet was captured"),
    required("packet", LONG, "number of that packet"),
    required("offset", LONG, "byte in the (decompressed) file, or line, at which that packet stands"),
    required("connection", LONG, "number of the TCP connection"),
    optional("from_opener", FLAG, "whether the side that opened the connection sent it; null if not seen"),
    required("source_ip", TEXT, "address it came from"),
    required("source_port", INTEGER, "port it came from"),
    required("target_ip", TEXT, "address it went to"),
    required("target_port", INTEGER, "port it went to"),
    required("captured_bytes", INTEGER, "bytes of it that were captured"),
    required("total_bytes", LONG, "bytes that it has"),
    required(
        "type", TEXT, "ping, pong, meet, fail, publish, auth-req, auth-ack, update, mfstart, module, publishshard"
    ),
    required("type_number", INTEGER, "its type on the wire"),
    required("light", FLAG, "whether it has the short header of Valkey, without sender"),
    required("version", INTEGER, "protocol version"),
    optional("sender", TEXT, "node id in the header, or the last one of the direction"),
    optional("receiver", TEXT, "node id that last spoke on the other direction"),
    optional("port", INTEGER, "client port of the sender"),
    required("count", INTEGER, "gossip entries announced"),
    optional("current_epoch", EPOCH, "current epoch of the sender"),
    optional("config_epoch", EPOCH, "config epoch of the sender or of its master"),
    optional("repl_offset", EPOCH, "replication offset of the sender"),
    optional("bitmap_id", LONG, "slots claimed: number in bronze/slot_bitmaps"),
    optional("replicaof", TEXT, "master of the sender"),
    optional("myip", TEXT, "address that the sender announces; null if none"),
    required("extensions", INTEGER, "ping extensions announced"),
    optional("shard_id", TEXT, "shard of the sender, if an extension says it"),
    optional("pport", INTEGER, "plain-text port of the sender"),
    optional("cport", INTEGER, "bus port of the sender"),
    optional("node_flags", INTEGER, "flags of the sender, bits of CLUSTER_NODE_*"),
    optional("state", INTEGER, "0: cluster ok, 1: fail, as the sender sees it"),
    optional("mflags", INTEGER, "message flags, first byte of the wire lowest"),
    optional("subject", TEXT, "node that a FAIL or UPDATE is about"),
    optional("body_epoch", EPOCH, "config epoch in an UPDATE"),
    optional("body_bitmap_id", LONG, "slots in an UPDATE: number in bronze/slot_bitmaps"),
    optional("channel", BYTES, "channel of a PUBLISH or PUBLISHSHARD"),
    optional("payload_bytes", LONG, "bytes of what a PUBLISH, PUBLISHSHARD or MODULE carries"),
    required("unknown_bytes", LONG, "bytes in it that were not understood"),
    required("understood", FLAG, "whether all of it was understood"),
    required("file", TEXT, "capture file in which it ended"),
]

MESSAGE_ROWS = with_texts(MESSAGE_FIELDS)
"""The same with names as text, as `BUS_MESSAGES` has them."""

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
        required("bitmap_id", LONG, "number of the bitmap, in order of appearance"),
        required("slots", TEXT, "its slots as CLUSTER NODES prints them"),
        required("slot_count", INTEGER, "how many they are"),
        required("message_id", LONG, "first message that has it"),
    ],
    key=("bitmap_id",),
)

GOSSIP_FIELDS: list[pa.Field] = [
    required("message_id", LONG, "message that holds the entry"),
    required("entry", INTEGER, "its place in the message"),
    required("node_id", TEXT, "node that it is about"),
    required("ping_sent_s", LONG, "when the sender last sent it a ping, s since the epoch; 0: answered"),
    required("pong_received_s", LONG, "when the sender last heard its pong, s since the epoch"),
    required("ip", TEXT, "address of the node"),
    required("port", INTEGER, "client port"),
    required("cport", INTEGER, "bus port"),
    required("pport", INTEGER, "plain-text port"),
    required("node_flags", INTEGER, "flags of the node, bits of CLUSTER_NODE_*"),
]

GOSSIP_ENTRIES = snapshot_table(
    "bronze/gossip_entries",
    "Every gossip entry of every message; written with --gossip only.",
    GOSSIP_FIELDS,
    key=("message_id", "entry"),
    is_large=True,
)

LOG_EVENTS = snapshot_table(
    "bronze/log_events",
    "Lines of server logs that tell something of the cluster.",
    [
        required("source", TEXT, "log file"),
        required("line", LONG, "line in it, from 1"),
        *instant("ts", "time of the line, corrected to UTC"),
        optional("observer", TEXT, "id of the node that wrote it; null if not known"),
        optional("address", TEXT, "ip:port of that node; null if not known"),
        required(
            "kind", TEXT, "pfail, fail-decided, fail-learned, fail-cleared, election-started, vote, election-won, ..."
        ),
        optional("subject", TEXT, "node that it is about"),
        optional("epoch", EPOCH, "epoch that it names"),
        required("text", TEXT, "the line after time and level"),
        optional("peer", TEXT, "another node that it names"),
        optional("detail", TEXT, "a reason, delay, slot, offset or address that it names"),
        optional("pid", LONG, "process id of the server"),
        optional("role", TEXT, "role of the server in the line: M master, S replica, C child, X sentinel"),
    ],
    key=("source", "line"),
)

METRIC_SAMPLES = snapshot_table(
    "bronze/metric_samples",
    "Scrapes of redis_exporter, without those between two that say the same.",
    [
        required("line", LONG, "number of the sample, from 1"),
        optional("ts_min_ns", LONG, "earliest time of the scrape; ns since the epoch"),
        *instant("ts", "latest time of the scrape"),
        optional(
            "from_ns",
            LONG,
            "earliest time of the last scrape before that showed a role; null if there is none; ns since the epoch",
        ),
        required("address", TEXT, "host:port of the server"),
        optional("up", FLAG, "whether the exporter reached the server"),
        optional("role", TEXT, "master or slave"),
        optional("master", TEXT, "host:port of its master"),
        optional("version", TEXT, "name and version of the server"),
        optional("server_run_id", TEXT, "run_id of INFO: random for each process"),
        optional("process_id", LONG, "process id"),
        optional("uptime_s", LONG, "seconds since its start"),
        optional("cluster_ok", FLAG, "cluster_state of CLUSTER INFO is ok"),
        optional("slots_assigned", LONG, "slots with an owner"),
        optional("slots_ok", LONG, "slots with a healthy owner"),
        optional("slots_pfail", LONG, "slots with an owner in PFAIL"),
        optional("slots_fail", LONG, "slots with an owner in FAIL"),
        optional("known_nodes", LONG, "nodes that the server knows"),
        optional("my_epoch", LONG, "config epoch of the server or its master"),
        optional("current_epoch", LONG, "epoch of the cluster as the server knows it"),
        optional("replicas", LONG, "connected replicas"),
        optional("link_up", FLAG, "whether a replica is connected to its master"),
        optional("master_offset", LONG, "replication offset"),
        optional("replica_offset", LONG, "replication offset of a replica"),
        optional("loading", FLAG, "whether the server is loading its data"),
    ],
    key=("line",),
)
NODE_POLLS = snapshot_table(
    "bronze/node_polls",
    "Answers to CLUSTER NODES.",
    [
        required("source", TEXT, "file of polls"),
        required("line", LONG, "line in it, from 1"),
        *instant("ts", "when the answer came"),
        optional("asked_ns", LONG, "when it was asked for; ns since the epoch"),
        optional("observer", TEXT, "id of the node that answered"),
        optional("address", TEXT, "ip:port of that node"),
        required("text", TEXT, "the answer, without ping and pong times"),
        optional("master_offset", LONG, "replication offset by INFO, if it is a master and was asked"),
    ],
    key=("source", "line"),
)

LATE_FILES = snapshot_table(
    "bronze/late_files",
    "Recorded files of which something was left out: they came when their time was settled, or were gone before they were read.",
    [
        required("source", TEXT, "the file"),
        required(
            "reason",
            TEXT,
            "late: older than what was settled; gone: removed before it was read; clock: nobody knows what time its clock meant",
        ),
        required("left_out", LONG, "packets or lines that were not replayed"),
        required("taken", LONG, "packets or lines that were"),
        *instant("settled", "what was settled when the file came", always=False),
    ],
    key=("source",),
)

UNRECORDED = snapshot_table(
    "bronze/unrecorded",
    "What the recorders of a landing could not record, as they say: of which point, when, and why.",
    [
        required("point", TEXT, "the capture point, as the landing names it"),
        required("gap", LONG, "its number at that point, from 1"),
        required("kind", TEXT, "bus, polls, slot-stats or logs"),
        required(
            "reason",
            TEXT,
            "not-running, dropped-by-kernel, capture-failed, unreachable, refused, log-missing, log-lost, disk-full or torn",
        ),
        required("subject", TEXT, "a node or a file; empty for all of the kind"),
        required("detail", TEXT, "in the words of the program or the node that refused"),
        optional("missed", LONG, "packets, where they were counted"),
        *_interval("it"),
    ],
    key=("point", "gap"),
)

# -- silver ----------------------------------------------------------------------------------------------------------

NODE_VIEWS = snapshot_table(
    "silver/node_views",
    "What every observer believed about every node it knew, and for how long (SCD type 2).",
    [*fields_of(rows.NodeViewRow), _SETTLED],
    key=("observer", "node_id", "valid_from_ns"),
)

DISAGREEMENTS = snapshot_table(
    "silver/disagreements",
    "Where the replayed machine and what the observer itself shows (header, gossip, poll, log) said different things.",
    [*fields_of(rows.DisagreementRow), _SETTLED],
    key=("observer", "node_id", "ts_ns", "field", "source"),
)

FAILURE_REPORTS = snapshot_table(
    "silver/failure_reports",
    "At which observer which reporter held which node to be failing, and for how long.",
    [*fields_of(rows.FailureReportRow), _SETTLED],
    key=("observer", "reporter", "subject", "valid_from_ns"),
)

VOTES = snapshot_table(
    "silver/votes",
    "Who was asked for a vote by whom, and what came of it.",
    [*fields_of(rows.VoteRow), _SETTLED],
    key=("voter", "candidate", "epoch", "asked_ns"),
)

EPOCHS = snapshot_table(
    "silver/epochs",
    "Who raised its config epoch, when and by which mechanism.",
    [*fields_of(rows.EpochRow), _SETTLED],
    key=("node_id", "epoch", "ts_ns"),
)

EVENTS = snapshot_table(
    "silver/events",
    "What a node did or learned: verdicts, elections, votes, wins, manual failovers, cluster state, its process.",
    [
        *fields_of(rows.EventRow),
        required("source", TEXT, "bus; log where no message of the node was captured"),
        _SETTLED,
    ],
    key=("observer", "ts_ns", "kind", "subject", "epoch"),
)

SLOT_OWNERS = snapshot_table(
    "silver/slot_owners",
    "Who owned which slots: as each observer believed, and where all of them agreed; no row where nobody did.",
    fields_of(rows.OwnerRow),
    key=("observer", "first_slot", "valid_from_ns"),
)

SILENCE = pa.struct(
    [
        required("from_ns", LONG, "last message before; ns since the epoch"),
        required("to_ns", LONG, "next message, or the end of the capture; ns since the epoch"),
    ]
)

GAPS = snapshot_table(
    "silver/gaps",
    "Bytes of the bus that are not in the captures: from whom to whom, and when.",
    [
        required("gap", LONG, "its number in the snapshot, from 1"),
        required("source_id", TEXT, "node that sent, or its address"),
        required("target_id", TEXT, "node that was sent to, or its address"),
        *_interval("it, at the earliest,"),
        required("bytes", LONG, "how many; 0 if not known"),
    ],
    key=("gap",),
)

LINKS = snapshot_table(
    "silver/links",
    "What went from node to node over the bus, and when nothing did.",
    [
        required("source_id", TEXT, "node that sent"),
        required("target_id", TEXT, "node that was sent to"),
        required("connections", INTEGER, "TCP connections used"),
        required("messages", LONG, "messages sent"),
        required("bytes", LONG, "their bytes"),
        required("gossip_bytes", LONG, "bytes of gossip sections and extensions among them"),
        required("messages_by_type", by_name(LONG), "messages of each type"),
        required("bytes_by_type", by_name(LONG), "bytes of each type"),
        *instant("first_seen", "first message"),
        *instant("last_seen", "last message"),
        required("longest_silence_ms", LONG, "longest time without a message, the end of the capture included"),
        required(
            "silences",
            several(SILENCE),
            "every time without a message longer than the node timeout; the last may end with the capture",
        ),
    ],
    key=("source_id", "target_id"),
)

MEMBERSHIPS = snapshot_table(
    "silver/memberships",
    "From when to when each observer knew each node, at which address, and how it came to know and to forget it.",
    fields_of(rows.MembershipRow),
    key=("observer", "node_id", "valid_from_ns"),
)

IGNORED_INPUTS = snapshot_table(
    "silver/ignored_inputs",
    "How many messages each observer's machine ignored, and why.",
    [*fields_of(rows.IgnoredRow), _SETTLED],
    key=("observer", "reason"),
)

REPLAYS = snapshot_table(
    "silver/replays",
    "One row a finished replay.",
    [
        *instant("first", "first evidence", always=False),
        *instant("last", "last evidence", always=False),
        required("messages", LONG, "messages read"),
        required("observers", INTEGER, "processes that were replayed"),
        required("node_timeout_ms", LONG, "node timeout used"),
        required("node_timeout_from", TEXT, "given, estimated or default"),
        required("profile", TEXT, "rules of the servers: redis-7.0, valkey-9.1, ...; several with commas"),
        required("polls", LONG, "CLUSTER NODES answers read"),
        required("log_events", LONG, "log lines used"),
        required("bad_records", LONG, "rows in bronze/bad_records"),
        required("repeated_bytes", LONG, "payload bytes that were captured more than once"),
        required("files", by_name(LONG), "input files and their bytes"),
        caveats("what to know before trusting the replay"),
    ],
)

REPLAY_STATE = snapshot_table(
    "silver/replay_state",
    "Where the machines of a replay stand, for new files to go on from.",
    [
        required("part", TEXT, "capture, or the listening address of an observer"),
        required("version", INTEGER, "of the form of the state"),
        required("settled_by", LONG, "evidence up to this number is in the state"),
        required("messages", LONG, "messages up to this number are in the state"),
        required("options", TEXT, "options that the state depends on"),
        required("state", BYTES, "the machine, compressed"),
    ],
    key=("part",),
)
