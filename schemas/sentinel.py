"""Tables of sentinels: what each believed, what it announced, whom it voted for.

Times stand twice, as in `schemas.history`: ``*_ns`` are nanoseconds since the epoch, the other column is a timestamp.
"""

from __future__ import annotations

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from schemas.bronze import SNAPSHOT_ID
from schemas.history import EPOCH
from schemas.table import Table, optional, required


def _instant(name: str, about: str, *, always: bool = True) -> list[StructField]:
    field = required if always else optional
    return [field(name, TimestampType(), about), field(f"{name}_ns", LongType(), f"{about}; ns since the epoch")]


_OBSERVER = required("observer", StringType(), "id of the sentinel (8 digits of it where no more was seen)")

SENTINEL_VIEWS = Table(
    "silver/sentinel_views",
    "What every sentinel believed about every master, replica and other sentinel, and for how long (SCD type 2).",
    StructType(
        [
            SNAPSHOT_ID,
            _OBSERVER,
            required("kind", StringType(), "master, replica, sentinel: of what it is a belief"),
            required("master", StringType(), "name of the master that the instance is or belongs to"),
            required("name", StringType(), "name of the master, ip:port of a replica, id of a sentinel"),
            required("ip", StringType(), "address"),
            required("port", IntegerType(), "port"),
            required("runid", StringType(), "run id, or id of a sentinel; empty while it is not known"),
            required("flags", StringType(), "as SENTINEL MASTERS prints them: s_down,master,disconnected"),
            required("role_reported", StringType(), "master or slave, as its INFO says; empty of a sentinel"),
            optional("config_epoch", EPOCH, "of a master: epoch of its configuration"),
            required("failover_state", StringType(), "of a master: wait_start, ..., empty while none goes on"),
            required("master_host", StringType(), "of a replica: its master, as its INFO says; ? if it never did"),
            optional("master_port", IntegerType(), "of a replica: port of that"),
            required("master_link", StringType(), "of a replica: ok or err, as its INFO says"),
            required("voted_leader", StringType(), "of a sentinel: whom it voted for, as it told; ? if it did not"),
            optional("voted_leader_epoch", EPOCH, "of a sentinel: epoch of that vote"),
            optional("quorum", IntegerType(), "of a master: sentinels that must agree, where it is known"),
            *_instant("valid_from", "when this belief began"),
            *_instant("valid_to", "when it ended; null while it holds", always=False),
            required(
                "cause", StringType(), "what showed it: INFO, hello, opinion, connection, event +sdown, time, ..."
            ),
            required("source", StringType(), "capture, log, poll: where that came from"),
        ]
    ),
    key=("snapshot_id", "observer", "kind", "master", "name", "valid_from_ns"),
    partition_by=("snapshot_id",),
)

SENTINEL_EVENTS = Table(
    "silver/sentinel_events",
    "Every event of every sentinel, as on its own channel.",
    StructType(
        [
            SNAPSHOT_ID,
            required("event_id", LongType(), "number of the event in the snapshot, in order of time"),
            _OBSERVER,
            *_instant("ts", "when"),
            required("channel", StringType(), "+sdown, +odown, +switch-master, ...; voted, failover-delayed of logs"),
            required("text", StringType(), "what it said"),
            optional("master", StringType(), "name of the master that it names"),
            optional("subject", StringType(), "ip:port, or id of a sentinel, that it names"),
            required("source", StringType(), "capture (a subscriber got it), log, rule (it follows from the traffic)"),
        ]
    ),
    key=("snapshot_id", "event_id"),
    partition_by=("snapshot_id",),
)

SENTINEL_VOTES = Table(
    "silver/sentinel_votes",
    "Who was asked for a vote by whom, and for whom it voted.",
    StructType(
        [
            SNAPSHOT_ID,
            required("vote_id", LongType(), "number of the row in the snapshot, in order of time"),
            *_instant("ts", "when it was answered, or told"),
            required("voter", StringType(), "id of the sentinel that voted"),
            required("candidate", StringType(), "id of the sentinel that asked; of its own vote the one it is for"),
            required("master", StringType(), "name of the master"),
            required("epoch", EPOCH, "epoch for which it was asked"),
            required("voted_for", StringType(), "id of the sentinel that has its vote; * if none has"),
            required("voted_epoch", EPOCH, "epoch of that vote"),
            required("granted", BooleanType(), "whether who asked has the vote for that epoch"),
            optional("says_down", BooleanType(), "whether it held the master for down; null where it was not asked"),
            required("source", StringType(), "capture or log"),
        ]
    ),
    key=("snapshot_id", "vote_id"),
    partition_by=("snapshot_id",),
)
