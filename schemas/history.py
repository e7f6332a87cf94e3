"""Tables of a replay: what was captured, polled and logged, and what every node believed because of it.

Times stand twice: ``*_ns`` are nanoseconds since the epoch, as captured; the column without ``_ns`` is the same as a
timestamp (UTC, microseconds).  ``message_id`` is the number of the message in bronze/bus_messages that shows the fact;
null where time alone, a poll or a log line does.  ``settled_by`` is the number of the piece of evidence after which a
row cannot change any more; null where further captures may still change it.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from cluster_core.replay.rows import (
    DisagreementRow,
    EpochRow,
    EventRow,
    FailureReportRow,
    IgnoredRow,
    MembershipRow,
    NodeViewRow,
    OwnerRow,
    VoteRow,
)
from schemas.bronze import SNAPSHOT_ID
from schemas.caveats import caveats
from schemas.table import UNSIGNED, Table, fields_of, instant, optional, required, with_texts

EPOCH = UNSIGNED
SNAPSHOT = ("snapshot_id",)


def _interval(what: str) -> list[StructField]:
    return [
        *instant("valid_from", f"when {what} began"),
        *instant("valid_to", f"when {what} ended; null while it holds", always=False),
    ]


_SETTLED = optional(
    "settled_by", LongType(), "number of the evidence that made the row final; null while it may change"
)
_EVENT_SOURCE = required("source", StringType(), "bus; log where no message of the node was captured")


def _text(name: str, about: str) -> StructField:
    return required(name, StringType(), about)


def _number(name: str, about: str, kind: DataType | None = None) -> StructField:
    return required(name, kind or LongType(), about)


# -- bronze ----------------------------------------------------------------------------------------------------------

MESSAGE_FIELDS: list[StructField] = [
    _number("message_id", "number of the message in its snapshot, in order of capture"),
    *instant("ts", "when its last packet was captured"),
    _number("packet", "number of that packet"),
    _number("offset", "byte in the (decompressed) file, or line, at which that packet stands"),
    _number("connection", "number of the TCP connection"),
    optional("from_opener", BooleanType(), "whether the side that opened the connection sent it; null if not seen"),
    _text("source_ip", "address it came from"),
    _number("source_port", "port it came from", IntegerType()),
    _text("target_ip", "address it went to"),
    _number("target_port", "port it went to", IntegerType()),
    _number("captured_bytes", "bytes of it that were captured", IntegerType()),
    _number("total_bytes", "bytes that it has", LongType()),
    _text("type", "ping, pong, meet, fail, publish, auth-req, auth-ack, update, mfstart, module, publishshard"),
    _number("type_number", "its type on the wire", IntegerType()),
    required("light", BooleanType(), "whether it has the short header of Valkey, without sender"),
    _number("version", "protocol version", IntegerType()),
    optional("sender", StringType(), "node id in the header, or the last one of the direction"),
    optional("receiver", StringType(), "node id that last spoke on the other direction"),
    optional("port", IntegerType(), "client port of the sender"),
    _number("count", "gossip entries announced", IntegerType()),
    optional("current_epoch", EPOCH, "current epoch of the sender"),
    optional("config_epoch", EPOCH, "config epoch of the sender or of its master"),
    optional("repl_offset", EPOCH, "replication offset of the sender"),
    optional("bitmap_id", LongType(), "slots claimed: number in bronze/slot_bitmaps"),
    optional("replicaof", StringType(), "master of the sender"),
    optional("myip", StringType(), "address that the sender announces; null if none"),
    _number("extensions", "ping extensions announced", IntegerType()),
    optional("shard_id", StringType(), "shard of the sender, if an extension says it"),
    optional("pport", IntegerType(), "plain-text port of the sender"),
    optional("cport", IntegerType(), "bus port of the sender"),
    optional("node_flags", IntegerType(), "flags of the sender, bits of CLUSTER_NODE_*"),
    optional("state", IntegerType(), "0: cluster ok, 1: fail, as the sender sees it"),
    optional("mflags", IntegerType(), "message flags, first byte of the wire lowest"),
    optional("subject", StringType(), "node that a FAIL or UPDATE is about"),
    optional("body_epoch", EPOCH, "config epoch in an UPDATE"),
    optional("body_bitmap_id", LongType(), "slots in an UPDATE: number in bronze/slot_bitmaps"),
    optional("channel", BinaryType(), "channel of a PUBLISH or PUBLISHSHARD"),
    optional("payload_bytes", LongType(), "bytes of what a PUBLISH, PUBLISHSHARD or MODULE carries"),
    _number("unknown_bytes", "bytes in it that were not understood", LongType()),
    required("understood", BooleanType(), "whether all of it was understood"),
    _text("file", "capture file in which it ended"),
]

MESSAGE_ROWS = with_texts(MESSAGE_FIELDS)
"""The same with names as text, as `BUS_MESSAGES` has them."""

BUS_MESSAGES = Table(
    "bronze/bus_messages",
    "Every cluster-bus message of the captures, one row each.",
    StructType([SNAPSHOT_ID, *MESSAGE_ROWS]),
    key=("snapshot_id", "message_id"),
    partition_by=SNAPSHOT,
)

SLOT_BITMAPS = Table(
    "bronze/slot_bitmaps",
    "Every distinct slot bitmap of the messages, once.",
    StructType(
        [
            SNAPSHOT_ID,
            _number("bitmap_id", "number of the bitmap, in order of appearance"),
            _text("slots", "its slots as CLUSTER NODES prints them"),
            _number("slot_count", "how many they are", IntegerType()),
            _number("message_id", "first message that has it"),
        ]
    ),
    key=("snapshot_id", "bitmap_id"),
    partition_by=SNAPSHOT,
)

GOSSIP_FIELDS: list[StructField] = [
    _number("message_id", "message that holds the entry"),
    _number("entry", "its place in the message", IntegerType()),
    _text("node_id", "node that it is about"),
    _number("ping_sent_s", "when the sender last sent it a ping, s since the epoch; 0: answered"),
    _number("pong_received_s", "when the sender last heard its pong, s since the epoch"),
    _text("ip", "address of the node"),
    _number("port", "client port", IntegerType()),
    _number("cport", "bus port", IntegerType()),
    _number("pport", "plain-text port", IntegerType()),
    _number("node_flags", "flags of the node, bits of CLUSTER_NODE_*", IntegerType()),
]

GOSSIP_ENTRIES = Table(
    "bronze/gossip_entries",
    "Every gossip entry of every message; written with --gossip only.",
    StructType([SNAPSHOT_ID, *GOSSIP_FIELDS]),
    key=("snapshot_id", "message_id", "entry"),
    partition_by=SNAPSHOT,
)

LOG_EVENTS = Table(
    "bronze/log_events",
    "Lines of server logs that tell something of the cluster.",
    StructType(
        [
            SNAPSHOT_ID,
            _text("source", "log file"),
            _number("line", "line in it, from 1"),
            *instant("ts", "time of the line, corrected to UTC"),
            optional("observer", StringType(), "id of the node that wrote it; null if not known"),
            optional("address", StringType(), "ip:port of that node; null if not known"),
            _text("kind", "pfail, fail-decided, fail-learned, fail-cleared, election-started, vote, election-won, ..."),
            optional("subject", StringType(), "node that it is about"),
            optional("epoch", EPOCH, "epoch that it names"),
            _text("text", "the line after time and level"),
        ]
    ),
    key=("snapshot_id", "source", "line"),
    partition_by=SNAPSHOT,
)

NODE_POLLS = Table(
    "bronze/node_polls",
    "Answers to CLUSTER NODES.",
    StructType(
        [
            SNAPSHOT_ID,
            _text("source", "file of polls"),
            _number("line", "line in it, from 1"),
            *instant("ts", "when the answer came"),
            optional("asked_ns", LongType(), "when it was asked for; ns since the epoch"),
            optional("observer", StringType(), "id of the node that answered"),
            optional("address", StringType(), "ip:port of that node"),
            _text("text", "the answer, without ping and pong times"),
            optional("master_offset", LongType(), "replication offset by INFO, if it is a master and was asked"),
        ]
    ),
    key=("snapshot_id", "source", "line"),
    partition_by=SNAPSHOT,
)

# -- silver ----------------------------------------------------------------------------------------------------------

NODE_VIEWS = Table(
    "silver/node_views",
    "What every observer believed about every node it knew, and for how long (SCD type 2).",
    StructType([SNAPSHOT_ID, *fields_of(NodeViewRow), _SETTLED]),
    key=("snapshot_id", "observer", "node_id", "valid_from_ns"),
    partition_by=SNAPSHOT,
)

DISAGREEMENTS = Table(
    "silver/disagreements",
    "Where the replayed machine and what the observer itself shows (header, gossip, poll, log) said different things.",
    StructType([SNAPSHOT_ID, *fields_of(DisagreementRow), _SETTLED]),
    key=("snapshot_id", "observer", "node_id", "ts_ns", "field", "source"),
    partition_by=SNAPSHOT,
)

FAILURE_REPORTS = Table(
    "silver/failure_reports",
    "At which observer which reporter held which node to be failing, and for how long.",
    StructType([SNAPSHOT_ID, *fields_of(FailureReportRow), _SETTLED]),
    key=("snapshot_id", "observer", "reporter", "subject", "valid_from_ns"),
    partition_by=SNAPSHOT,
)

VOTES = Table(
    "silver/votes",
    "Who was asked for a vote by whom, and what came of it.",
    StructType([SNAPSHOT_ID, *fields_of(VoteRow), _SETTLED]),
    key=("snapshot_id", "voter", "candidate", "epoch", "asked_ns"),
    partition_by=SNAPSHOT,
)

EPOCHS = Table(
    "silver/epochs",
    "Who raised its config epoch, when and by which mechanism.",
    StructType([SNAPSHOT_ID, *fields_of(EpochRow), _SETTLED]),
    key=("snapshot_id", "node_id", "epoch", "ts_ns"),
    partition_by=SNAPSHOT,
)

EVENTS = Table(
    "silver/events",
    "What a node did or learned: verdicts, elections, votes, wins, manual failovers, cluster state, its process.",
    StructType([SNAPSHOT_ID, *fields_of(EventRow), _EVENT_SOURCE, _SETTLED]),
    key=("snapshot_id", "observer", "ts_ns", "kind", "subject", "epoch"),
    partition_by=SNAPSHOT,
)

SLOT_OWNERS = Table(
    "silver/slot_owners",
    "Who owned which slots: as each observer believed, and where all of them agreed; no row where nobody did.",
    StructType([SNAPSHOT_ID, *fields_of(OwnerRow)]),
    key=("snapshot_id", "observer", "first_slot", "valid_from_ns"),
    partition_by=SNAPSHOT,
)

SILENCE = StructType(
    [
        required("from_ns", LongType(), "last message before; ns since the epoch"),
        required("to_ns", LongType(), "next message, or the end of the capture; ns since the epoch"),
    ]
)

GAPS = Table(
    "silver/gaps",
    "Bytes of the bus that are not in the captures: from whom to whom, and when.",
    StructType(
        [
            SNAPSHOT_ID,
            _number("gap", "its number in the snapshot, from 1"),
            _text("source_id", "node that sent, or its address"),
            _text("target_id", "node that was sent to, or its address"),
            *_interval("it, at the earliest,"),
            _number("bytes", "how many; 0 if not known"),
        ]
    ),
    key=("snapshot_id", "gap"),
    partition_by=SNAPSHOT,
)

LINKS = Table(
    "silver/links",
    "What went from node to node over the bus, and when nothing did.",
    StructType(
        [
            SNAPSHOT_ID,
            _text("source_id", "node that sent"),
            _text("target_id", "node that was sent to"),
            _number("connections", "TCP connections used", IntegerType()),
            _number("messages", "messages sent"),
            _number("bytes", "their bytes"),
            _number("gossip_bytes", "bytes of gossip sections and extensions among them"),
            required(
                "messages_by_type", MapType(StringType(), LongType(), valueContainsNull=False), "messages of each type"
            ),
            required("bytes_by_type", MapType(StringType(), LongType(), valueContainsNull=False), "bytes of each type"),
            *instant("first_seen", "first message"),
            *instant("last_seen", "last message"),
            _number("longest_silence_ms", "longest time without a message, the end of the capture included"),
            required(
                "silences",
                ArrayType(SILENCE, containsNull=False),
                "every time without a message longer than the node timeout; the last may end with the capture",
            ),
        ]
    ),
    key=("snapshot_id", "source_id", "target_id"),
    partition_by=SNAPSHOT,
)

MEMBERSHIPS = Table(
    "silver/memberships",
    "From when to when each observer knew each node, at which address, and how it came to know and to forget it.",
    StructType([SNAPSHOT_ID, *fields_of(MembershipRow)]),
    key=("snapshot_id", "observer", "node_id", "valid_from_ns"),
    partition_by=SNAPSHOT,
)

IGNORED_INPUTS = Table(
    "silver/ignored_inputs",
    "How many messages each observer's machine ignored, and why.",
    StructType([SNAPSHOT_ID, *fields_of(IgnoredRow), _SETTLED]),
    key=("snapshot_id", "observer", "reason"),
    partition_by=SNAPSHOT,
)

REPLAYS = Table(
    "silver/replays",
    "One row a finished replay, written last: a snapshot without it is incomplete.",
    StructType(
        [
            SNAPSHOT_ID,
            *instant("first", "first evidence", always=False),
            *instant("last", "last evidence", always=False),
            _number("messages", "messages read"),
            _number("observers", "processes that were replayed", IntegerType()),
            _number("node_timeout_ms", "node timeout used"),
            _text("node_timeout_from", "given, estimated or default"),
            _text("profile", "rules of the servers: redis-7.0, valkey-9.1, ...; several with commas"),
            _number("polls", "CLUSTER NODES answers read"),
            _number("log_events", "log lines used"),
            _number("bad_records", "rows in bronze/bad_records"),
            _number("repeated_bytes", "payload bytes that were captured more than once"),
            required(
                "files", MapType(StringType(), LongType(), valueContainsNull=False), "input files and their bytes"
            ),
            caveats("what to know before trusting the replay"),
        ]
    ),
    key=SNAPSHOT,
    partition_by=SNAPSHOT,
)

REPLAY_STATE = Table(
    "silver/replay_state",
    "Where the machines of a replay stand, for new files to go on from.",
    StructType(
        [
            SNAPSHOT_ID,
            _text("part", "capture, or the listening address of an observer"),
            _number("version", "of the form of the state", IntegerType()),
            _number("settled_by", "evidence up to this number is in the state"),
            _number("messages", "messages up to this number are in the state"),
            _text("options", "options that the state depends on"),
            required("state", BinaryType(), "the machine, compressed"),
        ]
    ),
    key=("snapshot_id", "part"),
    partition_by=SNAPSHOT,
)
