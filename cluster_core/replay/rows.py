"""Rows of a replay: views, events, and disagreements of sources."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Instant, MessageRef, Small, Unsigned
from cluster_core.gossip.causes import Cause, Field, Mechanism, Refusal, ReportEnd
from cluster_core.kinds import EventKind, Source

Observer = Annotated[str, "id of the node whose belief this is"]
Shown = Annotated[MessageRef, "message that shows it, in bronze/bus_messages; null if none does"]
Why = Annotated[
    Cause,
    "rule (R55), own header, own gossip, link, time, poll, log: what showed it;"
    " inferred: no message of that time does, a later one tells",
]


class NodeViewRow(NamedTuple):
    """*observer*'s view of one node for a period (SCD type 2); texts as in CLUSTER NODES (R128)."""

    observer: Observer
    node_id: Annotated[str, "node that it is about"]
    ip: Annotated[str, "address, empty if not known"]
    port: Annotated[Small, "client port"]
    cport: Annotated[Small, "bus port"]
    hostname: Annotated[str, "announced host name, empty if none"]
    flags: Annotated[str, "as CLUSTER NODES prints them: myself,master"]
    master_id: Annotated[str, "its master; empty for a master"]
    config_epoch: Annotated[Unsigned, "as CLUSTER NODES prints it: of a replica its master's"]
    slots: Annotated[str, "as CLUSTER NODES prints them: 0-5460 5500; unknown (empty) where evidence is log or metrics"]
    link_known: Annotated[bool, "whether an address is known to which a link can be made"]
    valid_from_ns: Annotated[Instant, "when this belief began"]
    valid_to_ns: Annotated[Instant | None, "when this belief ended; null while it holds"]
    cause: Why
    ref: Shown
    valid_from_min_ns: Annotated[
        Instant | None, "earliest time at which this belief can have begun; null: no evidence bounds it"
    ] = None
    evidence: Annotated[Source, "evidence that shows the belief: capture, poll, log, metrics, or rule (time alone)"] = (
        Source.CAPTURE
    )


class DisagreementRow(NamedTuple):
    """The machine and another source (own header, own gossip, poll, log) disagree on a node."""

    observer: Observer
    node_id: Annotated[str, "node that it is about"]
    ts_ns: Annotated[Instant, "when it was seen"]
    field: Annotated[Field, "health, role, master, config_epoch, slots, known, ..."]
    machine: Annotated[str, "what the replayed machine held"]
    source: Annotated[Cause, "own header, own gossip, own UPDATE, poll, log"]
    source_says: Annotated[str, "what that source says; it was believed"]
    ref: Shown


class FailureReportRow(NamedTuple):
    """*reporter*'s failure report on *subject* at *observer* (R51, R52)."""

    observer: Observer
    reporter: Annotated[str, "node that reported"]
    subject: Annotated[str, "node held to be failing"]
    valid_from_ns: Annotated[Instant, "when the report began"]
    valid_to_ns: Annotated[Instant | None, "when the report ended; null while it holds"]
    end: Annotated[ReportEnd, "why it ended: expired, withdrawn, node removed, log; empty while it holds"]
    ref: Shown


class VoteRow(NamedTuple):
    """A vote request of *candidate* to *voter* in *epoch*: granted if AUTH_ACK was seen, else the reason (R90)."""

    voter: Annotated[str, "node that was asked"]
    candidate: Annotated[str, "replica that asked"]
    epoch: Annotated[Unsigned, "epoch of the election"]
    asked_ns: Annotated[Instant, "when the request came"]
    answered_ns: Annotated[Instant | None, "when the vote left; null if refused"]
    granted: Annotated[bool, "whether a vote was given"]
    reason: Annotated[Refusal, "why not, where it can be told; empty if granted"]
    ref: Shown


class EpochRow(NamedTuple):
    """A node raised its config epoch."""

    node_id: Annotated[str, "master that has the epoch"]
    epoch: Annotated[Unsigned, "its new config epoch"]
    ts_ns: Annotated[Instant, "when its own header first showed it"]
    mechanism: Annotated[Mechanism, "election, takeover, collision, bump, set-config-epoch, slot import"]
    ref: Shown


class EventRow(NamedTuple):
    """An action or observation of *observer*."""

    observer: Observer
    ts_ns: Annotated[Instant, "when"]
    kind: Annotated[
        EventKind,
        "fail-decided, fail-mismatch, fail-learned, election-started, vote, election-won, promoted, manual-failover-*, paused,"
        " state-ok, state-fail, process-ended, process-idle, process-started",
    ]
    subject: Annotated[str, "node that it is about; of election-started the failed master"]
    epoch: Annotated[Unsigned, "epoch that goes with it; 0 if none"]
    detail: Annotated[str, "FORCEACK, or the replication offset of a promotion or pause; else empty"]
    ref: Shown


class OwnerRow(NamedTuple):
    """Owner of a slot range for a period, in one observer's view or in all."""

    observer: Annotated[str, "id of the node whose belief this is; empty for what all observers agree on"]
    first_slot: Annotated[Small, "first slot of a range"]
    last_slot: Annotated[Small, "last slot of the range"]
    owner: Annotated[str | None, "node that owns it; null where observers name several (rows with empty observer)"]
    owners: Annotated[Small, "different owners that observers name; 1 for one observer's belief"]
    valid_from_ns: Annotated[Instant, "when this ownership began"]
    valid_to_ns: Annotated[Instant | None, "when this ownership ended; null while it holds"]
    valid_from_min_ns: Annotated[
        Instant | None, "earliest time at which it can have begun; null: no evidence bounds it"
    ]
    valid_to_min_ns: Annotated[
        Instant | None, "earliest time at which it can have ended; null: it holds, or no evidence bounds it"
    ]
    evidence: Annotated[
        Source | None, "evidence that shows its begin: capture, poll, log, metrics or rule (time alone)"
    ]


ReplayRow = NodeViewRow | DisagreementRow | FailureReportRow | VoteRow | EpochRow | EventRow
