"""Rows of a sentinel history, besides the view periods in `beliefs`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Instant, Small, Unsigned
from cluster_core.kinds import Source


class EventRow(NamedTuple):
    """An event in the log of a sentinel."""

    ts_ns: int
    observer: str
    channel: str
    text: str


class VoteRow(NamedTuple):
    """A vote request by *candidate* for *epoch*; *granted_to* and *granted_epoch* are the resulting vote."""

    ts_ns: int
    voter: str
    candidate: str
    master: str
    epoch: int
    granted_to: str
    granted_epoch: int

    @property
    def is_granted(self) -> bool:
        """Return whether the candidate got the vote."""
        return self.granted_to == self.candidate and self.granted_epoch == self.epoch


class OpinionRow(NamedTuple):
    """A sentinel received the opinion of *sentinel* that *master* is down or up."""

    ts_ns: int
    observer: str
    sentinel: str
    master: str
    says_down: bool


Observer = Annotated[str, "id of the sentinel (8 digits of it where no more was seen)"]


class SentinelViewRow(NamedTuple):
    """One sentinel's view of one instance over a period."""

    observer: Observer
    kind: Annotated[str, "master, replica, sentinel: of what it is a belief"]
    master: Annotated[str, "name of the master that the instance is or belongs to"]
    name: Annotated[str, "name of the master, ip:port of a replica, id of a sentinel"]
    ip: Annotated[str, "address"]
    port: Annotated[Small, "port"]
    runid: Annotated[str, "run id, or id of a sentinel; empty while it is not known"]
    flags: Annotated[str, "as SENTINEL MASTERS prints them: s_down,master,disconnected"]
    role_reported: Annotated[str, "master or slave, as its INFO says; empty of a sentinel"]
    config_epoch: Annotated[Unsigned | None, "of a master: epoch of its configuration"]
    failover_state: Annotated[str, "of a master: wait_start, ..., empty while none goes on"]
    master_host: Annotated[str, "of a replica: its master, as its INFO says; ? if it never did"]
    master_port: Annotated[Small | None, "of a replica: port of that"]
    master_link: Annotated[str, "of a replica: ok or err, as its INFO says"]
    voted_leader: Annotated[str, "of a sentinel: whom it voted for, as it told; ? if it did not"]
    voted_leader_epoch: Annotated[Unsigned | None, "of a sentinel: epoch of that vote"]
    quorum: Annotated[Small | None, "of a master: sentinels that must agree, where it is known"]
    valid_from_ns: Annotated[Instant, "when this belief began"]
    valid_to_ns: Annotated[Instant | None, "when it ended; null while it holds"]
    cause: Annotated[str, "evidence: event +sdown, poll, conclusion, time, ..."]
    source: Annotated[Source, "log, poll, rule: where that came from"]


class SentinelEventRow(NamedTuple):
    """An event of a sentinel, as on its own Pub/Sub channel."""

    event_id: Annotated[int, "number of the event in the snapshot, in order of time"]
    observer: Observer
    ts_ns: Annotated[Instant, "when"]
    channel: Annotated[str, "+sdown, +odown, +switch-master, ...; voted, failover-delayed of logs"]
    text: Annotated[str, "what it said"]
    master: Annotated[str | None, "name of the master that it names"]
    subject: Annotated[str | None, "ip:port, or id of a sentinel, that it names"]
    source: Annotated[Source, "log"]


class SentinelVoteRow(NamedTuple):
    """A vote of a sentinel, requested or logged."""

    vote_id: Annotated[int, "number of the row in the snapshot, in order of time"]
    ts_ns: Annotated[Instant, "when it was answered, or told"]
    voter: Annotated[str, "id of the sentinel that voted"]
    candidate: Annotated[str, "id of the sentinel that asked; of its own vote the one it is for"]
    master: Annotated[str, "name of the master"]
    epoch: Annotated[Unsigned, "epoch for which it was asked"]
    voted_for: Annotated[str, "id of the sentinel that has its vote; * if none has"]
    voted_epoch: Annotated[Unsigned, "epoch of that vote"]
    granted: Annotated[bool, "whether who asked has the vote for that epoch"]
    source: Annotated[Source, "log"]
