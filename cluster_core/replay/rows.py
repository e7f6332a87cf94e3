"""Rows of a replay: views, events, and disagreements of sources."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Instant, MessageRef, Small, Unsigned
from cluster_core.gossip.causes import Cause, Field, Mechanism, Refusal, ReportEnd
from cluster_core.kinds import EventKind, Source

Observer = Annotated[str, "id of the node with this view"]
Shown = Annotated[MessageRef, "message with the evidence, in bronze/bus_messages; null if none"]
Why = Annotated[
    Cause,
    "evidence: rule (R55), own header, own gossip, link, time, poll or log; inferred: concluded from a later message",
]


class NodeViewRow(NamedTuple):
    """*observer*'s view of one node for a period (SCD type 2); texts as in CLUSTER NODES (R128)."""

    observer: Observer
    node_id: Annotated[str, "subject node"]
    ip: Annotated[str, "address; empty if unknown"]
    port: Annotated[Small, "client port"]
    cport: Annotated[Small, "bus port"]
    hostname: Annotated[str, "announced host name; empty if none"]
    flags: Annotated[str, "flags as in CLUSTER NODES: myself,master"]
    master_id: Annotated[str, "id of its master; empty for a master"]
    config_epoch: Annotated[Unsigned, "config epoch as in CLUSTER NODES: for a replica that of its master"]
    slots: Annotated[
        str, "slots as in CLUSTER NODES: 0-5460 5500; empty (unknown) where the evidence is log or metrics"
    ]
    link_known: Annotated[bool, "whether an address for connections is known"]
    valid_from_ns: Annotated[Instant, "start of this view"]
    valid_to_ns: Annotated[Instant | None, "end of this view; null while valid"]
    cause: Why
    ref: Shown
    valid_from_min_ns: Annotated[
        Instant | None, "earliest possible start of this view; null: no evidence bounds it"
    ] = None
    evidence: Annotated[Source, "evidence of the view: capture, poll, log, metrics, or rule (time alone)"] = (
        Source.CAPTURE
    )


class DisagreementRow(NamedTuple):
    """The machine and another source (own header, own gossip, poll, log) disagree on a node."""

    observer: Observer
    node_id: Annotated[str, "subject node"]
    ts_ns: Annotated[Instant, "time of the difference"]
    field: Annotated[Field, "health, role, master, config_epoch, slots, known, ..."]
    machine: Annotated[str, "value in the replay"]
    source: Annotated[Cause, "own header, own gossip, own UPDATE, poll, log"]
    source_says: Annotated[str, "value in the source; the replay adopts it"]
    ref: Shown


class FailureReportRow(NamedTuple):
    """*reporter*'s failure report on *subject* at *observer* (R51, R52)."""

    observer: Observer
    reporter: Annotated[str, "node that reported"]
    subject: Annotated[str, "node reported as failing"]
    valid_from_ns: Annotated[Instant, "start of the report"]
    valid_to_ns: Annotated[Instant | None, "end of the report; null while valid"]
    end: Annotated[ReportEnd, "reason of the end: expired, withdrawn, node removed, log; empty while valid"]
    ref: Shown


class VoteRow(NamedTuple):
    """A vote request of *candidate* to *voter* in *epoch*: granted if AUTH_ACK was seen, else the reason (R90)."""

    voter: Annotated[str, "node that was asked"]
    candidate: Annotated[str, "replica that asked"]
    epoch: Annotated[Unsigned, "epoch of the election"]
    asked_ns: Annotated[Instant, "time of the request"]
    answered_ns: Annotated[Instant | None, "time of the vote; null if refused"]
    granted: Annotated[bool, "whether a vote was given"]
    reason: Annotated[Refusal, "reason of a refusal if known; empty if granted"]
    ref: Shown


class EpochRow(NamedTuple):
    """A node raised its config epoch."""

    node_id: Annotated[str, "master that has the epoch"]
    epoch: Annotated[Unsigned, "its new config epoch"]
    ts_ns: Annotated[Instant, "first own header with it"]
    mechanism: Annotated[Mechanism, "election, takeover, collision, bump, set-config-epoch, slot import"]
    ref: Shown


class EventRow(NamedTuple):
    """An action or observation of *observer*."""

    observer: Observer
    ts_ns: Annotated[Instant, "time of the event"]
    kind: Annotated[
        EventKind,
        "fail-decided, fail-mismatch, fail-learned, election-started, vote, election-won, promoted, manual-failover-*, paused,"
        " state-ok, state-fail, process-ended, process-idle, process-started",
    ]
    subject: Annotated[str, "subject node; for election-started the failed master"]
    epoch: Annotated[Unsigned, "epoch of the event; 0 if none"]
    detail: Annotated[str, "FORCEACK, or the replication offset of a promotion or pause; else empty"]
    ref: Shown


class OwnerRow(NamedTuple):
    """Owner of a slot range for a period, in one observer's view or in all."""

    observer: Annotated[str, "id of the node with this view; empty where all observers agree"]
    first_slot: Annotated[Small, "first slot of a range"]
    last_slot: Annotated[Small, "last slot of the range"]
    owner: Annotated[str | None, "owner of the range; null where observers disagree (rows with empty observer)"]
    owners: Annotated[Small, "number of different owners in all views; 1 for a single observer"]
    valid_from_ns: Annotated[Instant, "start of this ownership"]
    valid_to_ns: Annotated[Instant | None, "end of this ownership; null while valid"]
    valid_from_min_ns: Annotated[Instant | None, "earliest possible start; null: no evidence bounds it"]
    valid_to_min_ns: Annotated[Instant | None, "earliest possible end; null: still valid, or no evidence bounds it"]
    evidence: Annotated[Source | None, "evidence of the start: capture, poll, log, metrics or rule (time alone)"]


ReplayRow = NodeViewRow | DisagreementRow | FailureReportRow | VoteRow | EpochRow | EventRow
