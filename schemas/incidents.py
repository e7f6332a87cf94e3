"""Tables of what happened to a cluster: incidents, their steps, findings.

Times stand twice, as in `schemas.history`: as timestamp (UTC, microseconds) and as ``*_ns`` since the epoch.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructType, TimestampType

from schemas.bronze import SNAPSHOT_ID
from schemas.history import EPOCH
from schemas.table import Table, optional, required

INCIDENTS = Table(
    "gold/incidents",
    "One row a failure, failover, resharding, epoch collision, partition, membership change or flapping node.",
    StructType(
        [
            SNAPSHOT_ID,
            required("incident", IntegerType(), "its number in the snapshot, from 1 in order of time"),
            required("incident_id", StringType(), "a name that stays when more captures are added"),
            required(
                "kind", StringType(), "failure, failover, resharding, epoch-collision, partition, membership, ..."
            ),
            required(
                "variant", StringType(), "automatic, manual, forced, takeover; agreed; joined, forgotten, reset; ..."
            ),
            optional("subject", StringType(), "node that it is about: the failed or old master, the source"),
            optional("subject_address", StringType(), "ip:port of that node"),
            optional("winner", StringType(), "node that took over: the new master, the target, the new id"),
            optional("winner_address", StringType(), "ip:port of that node"),
            required("nodes", ArrayType(StringType(), containsNull=False), "nodes that took part or saw it"),
            optional("epoch", EPOCH, "config epoch that it brought"),
            optional(
                "slots", StringType(), "slots that changed hands, or that nobody served, as CLUSTER NODES prints them"
            ),
            optional("slot_count", IntegerType(), "how many they are"),
            required("started_at", TimestampType(), "first step"),
            required("started_ns", LongType(), "first step; ns since the epoch"),
            optional("ended_at", TimestampType(), "when it was over; null if the capture ends before"),
            optional("ended_ns", LongType(), "when it was over; ns since the epoch"),
            optional("duration_ms", LongType(), "from start to end"),
            optional("silence_to_pfail_ms", LongType(), "from the last sign of life to the first PFAIL"),
            optional("silence_to_fail_ms", LongType(), "from the last sign of life to the first FAIL"),
            optional("fail_to_election_ms", LongType(), "from the first FAIL to the first election"),
            optional("election_ms", LongType(), "from the winner's request for votes to its win"),
            optional("outage_ms", LongType(), "failover: last sign of life to the win; failure: to its return"),
            optional("adoption_ms", LongType(), "from the win until all observers held the winner for the master"),
            optional(
                "offset_gap_bytes",
                LongType(),
                "writes lost at least: the last offset seen of the old master less the winner's",
            ),
            optional(
                "unheard_ms",
                LongType(),
                "for how long the old master could write after that; 0: no more was lost; null: unknown",
            ),
            optional("unheard_bytes", LongType(), "what it would have written then at the rate before; no bound"),
            optional("votes", IntegerType(), "votes that the winner was given"),
            optional("refusals", IntegerType(), "voting masters that refused it"),
            required("steps", IntegerType(), "rows in gold/incident_steps"),
            required("summary", StringType(), "the whole in one sentence"),
            required("message_ids", ArrayType(LongType(), containsNull=False), "messages that show it"),
            optional(
                "rests_on_gap",
                BooleanType(),
                "whether all of it follows from silence where bytes are missing; null where that is not looked at",
            ),
        ]
    ),
    key=("snapshot_id", "incident"),
    partition_by=("snapshot_id",),
)

INCIDENT_STEPS = Table(
    "gold/incident_steps",
    "What happened in each incident, one row a step, in order.",
    StructType(
        [
            SNAPSHOT_ID,
            required("incident", IntegerType(), "number of the incident"),
            required("step", IntegerType(), "its place in the incident, from 1"),
            required("at", TimestampType(), "when"),
            required("at_ns", LongType(), "when; ns since the epoch"),
            optional("until_ns", LongType(), "until when, where several alike are one step; ns since the epoch"),
            required("offset_ms", LongType(), "since the incident began"),
            required("kind", StringType(), "last-sign, pfail, report, fail-decided, election-started, vote, won, ..."),
            required("actor", StringType(), "node that did it, the first where several did"),
            optional("subject", StringType(), "node that it was done to"),
            optional("epoch", EPOCH, "epoch that goes with it"),
            optional(
                "amount",
                LongType(),
                "what goes with the kind: reports, slots, observers, replication offset; or how many nodes did it, if several",
            ),
            required("detail", StringType(), "why, or which slots; empty if there is nothing to say"),
            optional("message_id", LongType(), "message that shows it; null if time or another source does"),
            required("text", StringType(), "the step in plain words"),
            optional(
                "rests_on_gap",
                BooleanType(),
                "whether it follows from silence while bytes are missing; null where that is not looked at",
            ),
        ]
    ),
    key=("snapshot_id", "incident", "step"),
    partition_by=("snapshot_id",),
)

FINDINGS = Table(
    "gold/findings",
    "What should not be, or is worth knowing: broken invariants, contradictions, risks of the layout, costs.",
    StructType(
        [
            SNAPSHOT_ID,
            required("finding", IntegerType(), "its number in the snapshot, the gravest first"),
            required("severity", StringType(), "error, warning or note"),
            required("code", StringType(), "my-primary-fail, epoch-decreased, split-claim, gossip-cost, ..."),
            required("rule", StringType(), "rule of the protocol, such as R161"),
            optional("rule_text", StringType(), "what that rule says, in one sentence"),
            optional("node_id", StringType(), "node that it is about"),
            optional("other", StringType(), "the other node, host or message type that it is about"),
            optional("first_at", TimestampType(), "when it was first seen"),
            optional("first_ns", LongType(), "when it was first seen; ns since the epoch"),
            optional("last_at", TimestampType(), "when it was last seen"),
            optional("last_ns", LongType(), "when it was last seen; ns since the epoch"),
            required("times", LongType(), "how often: messages, intervals, votes"),
            optional("amount", LongType(), "what goes with the code: ms, bytes, votes"),
            required("text", StringType(), "the finding in plain words"),
            required("message_ids", ArrayType(LongType(), containsNull=False), "messages that show it"),
        ]
    ),
    key=("snapshot_id", "finding"),
    partition_by=("snapshot_id",),
)
