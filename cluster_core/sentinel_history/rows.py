"""Rows of a sentinel history: the tables of sentinels."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Instant, Small, Unsigned
from cluster_core.kinds import Source

Observer = Annotated[str, "id of the sentinel; 8 digits if the rest is unknown"]


class SentinelViewRow(NamedTuple):
    """One sentinel's view of one master over a period."""

    observer: Observer
    master: Annotated[str, "name of the master"]
    ip: Annotated[str, "its address"]
    port: Annotated[Small, "its port"]
    flags: Annotated[str, "flags as in SENTINEL MASTERS, without disconnected: s_down,o_down,master"]
    config_epoch: Annotated[Unsigned, "epoch of its configuration"]
    failover_state: Annotated[str, "wait_start, ..., empty without a failover"]
    quorum: Annotated[Small | None, "sentinels that must agree, if known"]
    valid_from_ns: Annotated[Instant, "start of this view"]
    valid_to_ns: Annotated[Instant | None, "end of this view; null while valid"]
    cause: Annotated[str, "evidence: event +sdown, poll, started"]
    source: Annotated[Source, "log or poll"]


class SentinelEventRow(NamedTuple):
    """An event of a sentinel, as on its own Pub/Sub channel."""

    event_id: Annotated[int, "number of the event in the snapshot, in order of time"]
    observer: Observer
    ts_ns: Annotated[Instant, "time of the event"]
    channel: Annotated[str, "+sdown, +odown, +switch-master, ...; voted, failover-delayed of logs"]
    text: Annotated[str, "text of the event"]
    master: Annotated[str | None, "master in the event"]
    subject: Annotated[str | None, "ip:port or sentinel id in the event"]
    source: Annotated[Source, "log"] = Source.LOG


class SentinelVoteRow(NamedTuple):
    """A vote of a sentinel, requested or logged."""

    vote_id: Annotated[int, "number of the row in the snapshot, in order of time"]
    ts_ns: Annotated[Instant, "time of the answer or log line"]
    voter: Annotated[str, "id of the sentinel that voted"]
    candidate: Annotated[str, "id of the requesting sentinel; for a vote without request its choice"]
    master: Annotated[str, "name of the master"]
    epoch: Annotated[Unsigned, "requested epoch"]
    voted_for: Annotated[str, "id of the sentinel with its vote; * if none"]
    voted_epoch: Annotated[Unsigned, "epoch of that vote"]
    granted: Annotated[bool, "whether the candidate has the vote for that epoch"]
    source: Annotated[Source, "log"] = Source.LOG
