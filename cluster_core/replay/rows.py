"""Rows that a replay gives: what was believed, what happened, and where sources disagree.  Times are ns since the
epoch.

*ref* is the number of the message (in its capture) that shows the fact, -1 when time alone or another source caused it.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.gossip.causes import Cause, Field, IgnoredReason, Refusal, ReportEnd


class NodeViewRow(NamedTuple):
    """What *observer* believed about one node for a while (SCD type 2); texts as CLUSTER NODES prints them (R128)."""

    observer: str
    node_id: str
    ip: str
    port: int
    cport: int
    hostname: str
    flags: str
    master_id: str
    config_epoch: int
    slots: str
    link_known: bool
    valid_from_ns: int
    valid_to_ns: int | None
    cause: Cause
    ref: int


class DisagreementRow(NamedTuple):
    """The replayed machine and another source (own header, own gossip, poll, log) said different things of a node."""

    observer: str
    node_id: str
    ts_ns: int
    field: Field
    machine: str
    source: Cause
    source_says: str
    ref: int


class FailureReportRow(NamedTuple):
    """At *observer*, *reporter* held *subject* to be failing (R51, R52)."""

    observer: str
    reporter: str
    subject: str
    from_ns: int
    to_ns: int | None
    end: ReportEnd
    ref: int


class VoteRow(NamedTuple):
    """*voter* was asked by *candidate* in *epoch*: granted when its AUTH_ACK was seen, else why not (R90)."""

    voter: str
    candidate: str
    epoch: int
    asked_ns: int
    answered_ns: int | None
    granted: bool
    reason: Refusal
    ref: int


class EpochRow(NamedTuple):
    """*node* raised its config epoch to *epoch*: by election, takeover, collision, bump, set-config-epoch or update."""

    node: str
    epoch: int
    ts_ns: int
    mechanism: str
    ref: int


class EventRow(NamedTuple):
    """Something that *observer* did or learned: FAIL, election, vote, win, manual failover, state."""

    observer: str
    ts_ns: int
    kind: str
    subject: str
    epoch: int
    detail: str
    ref: int


class IgnoredRow(NamedTuple):
    """How many inputs of *observer* were ignored for *reason*."""

    observer: str
    reason: IgnoredReason
    times: int


ReplayRow = NodeViewRow | DisagreementRow | FailureReportRow | VoteRow | EpochRow | EventRow | IgnoredRow
