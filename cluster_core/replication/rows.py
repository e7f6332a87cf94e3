"""What a replay of replication traffic tells: links over time, offsets, and every PSYNC with its answer and reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, NamedTuple

from cluster_core.columns import Instant, Small
from cluster_core.replication.psync import Answer, AnswerKind, Lineage, Request


class Outcome(StrEnum):
    """What became of a request (`gold/resyncs.outcome`)."""

    DONE = "done"
    REFUSED = "refused"
    BROKEN = "broken"
    """The connection ended first."""
    UNFINISHED = "unfinished"
    """The capture ended first."""


@dataclass(slots=True)
class LinkSpan:
    """From *from_ns* until *to_ns* (None: still) *replica* followed *master*, the link being in *state*.

    *state*: connect, handshake, then the words of INFO replication of the master (wait_bgsave, send_bulk, bg_transfer,
    online), and lost when the master's end closed and the replica has not come back.  *is_up*: what the replica calls
    master_link_status.  *replid* and the offsets are those of the stream, None where not known.
    """

    link: int
    connection: int
    replica: str
    master: str
    state: str
    is_up: bool
    from_ns: int
    to_ns: int | None
    replid: str | None
    first_offset: int | None
    last_offset: int | None
    since_ns: int
    cause: str


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """At *ts_ns* the master had *sent* the stream up to an offset; *acked*: what the replica then said it has, if it did."""

    ts_ns: int
    link: int
    replica: str
    master: str
    replid: str | None
    sent: int
    acked: int | None


@dataclass(frozen=True, slots=True)
class MasterFacts:
    """What the traffic so far had shown of the one asked; *created*: first byte that its backlog ever had."""

    lineage: Lineage | None
    end: int
    created: int | None
    is_replica: bool
    is_link_up: bool
    dual_channel: bool
    is_stranger: bool = False
    """It was never seen to replicate, and the replica's history was."""


@dataclass(slots=True)
class Resync:
    """One PSYNC or SYNC: what was asked, what came back, what was foreseen, and what it took."""

    number: int
    connection: int
    ts_ns: int
    replica: str
    master: str
    request: Request
    facts: MasterFacts
    is_restart: bool = False
    """The replica asks for bytes that it had acknowledged before: it was started again from an older file."""
    answer_ns: int | None = None
    answered: AnswerKind | None = None
    answer_text: str = ""
    replid: str | None = None
    offset: int | None = None
    form: str = ""
    """disk ($LENGTH), eof ($EOF:), dual-channel; empty without a dump."""
    dump_bytes: int = 0
    stream_bytes: int = 0
    """Bytes of the backlog that were sent at once, of a partial one."""
    done_ns: int | None = None
    outcome: Outcome = Outcome.UNFINISHED
    foreseen: Answer | None = None
    explained: Answer | None = None
    """As *foreseen*, with what the answer itself gave away: the id and the offset of the master."""
    is_certain: bool = False
    backlog: tuple[int, int] | None = None
    """First and last byte of the backlog, as far as known."""
    backlog_bytes: int = 0
    size_known_by: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def is_foreseen(self) -> bool | None:
        """Whether the answer was the one foreseen; None without an answer or a forecast."""
        if self.answered is None or self.foreseen is None:
            return None
        return self.answered is self.foreseen.kind


class LinkRow(NamedTuple):
    """Who followed whom while the link was in one state."""

    link_id: Annotated[int, "number of the link, in order of appearance"]
    piece: Annotated[Small, "number of the row within its link, from 0"]
    replica: Annotated[str, "address:port at which the replica listens; ?port: only its own end is known"]
    master: Annotated[str, "address:port at which its master listens"]
    state: Annotated[str, "connect, handshake, wait_bgsave, send_bulk, bg_transfer, online, lost"]
    link_status: Annotated[str, "up or down, as master_link_status of the replica"]
    since_ns: Annotated[Instant, "when the link began"]
    valid_from_ns: Annotated[Instant, "when it came into this state"]
    valid_to_ns: Annotated[Instant | None, "when it left this state; null while it holds"]
    replid: Annotated[str | None, "replication id of the stream; null before it is known"]
    offset: Annotated[int | None, "offset up to which the stream was sent when the state ended, or the capture"]
    first_offset: Annotated[int | None, "the same when the state began"]
    cause: Annotated[str, "what showed that it came into this state"]
    connection: Annotated[int | None, "number of the TCP connection; null if none was seen"]


class OffsetRow(NamedTuple):
    """How far a master had sent a stream, and what the replica then had."""

    mark_id: Annotated[int, "number of the row, in order of time"]
    ts_ns: Annotated[Instant, "when it was so"]
    link_id: Annotated[int, "link, as in silver/replication_links"]
    replica: Annotated[str, "the replica"]
    master: Annotated[str, "its master"]
    replid: Annotated[str | None, "replication id of the stream"]
    sent_offset: Annotated[int, "offset up to which the master had sent"]
    acked_offset: Annotated[int | None, "offset that the replica acknowledged then; null if it did not"]
    lag_bytes: Annotated[int | None, "bytes sent but not acknowledged, where it acknowledged"]


class ResyncRow(NamedTuple):
    """One PSYNC or SYNC with its answer, its reason and what it took."""

    resync_id: Annotated[int, "number of the request, in order of time"]
    ts_ns: Annotated[Instant, "when it was asked"]
    replica: Annotated[str, "who asked"]
    master: Annotated[str, "who was asked"]
    asked: Annotated[str, "the request, as sent"]
    asked_replid: Annotated[str, "replication id asked for; ? for none, empty with SYNC"]
    asked_offset: Annotated[int | None, "first byte asked for"]
    is_failover: Annotated[bool, "whether it hands the mastership over"]
    answered: Annotated[str | None, "full, partial, dual-channel, refused; null: no answer was captured"]
    answer: Annotated[str, "the answer, as sent; empty if there is none"]
    answered_at_ns: Annotated[Instant | None, "when it was answered"]
    replid: Annotated[str | None, "replication id that the answer names"]
    offset: Annotated[int | None, "offset behind which the stream begins"]
    foreseen: Annotated[str | None, "the answer that the traffic before it let expect"]
    foreseen_reason: Annotated[str | None, "why that one"]
    as_foreseen: Annotated[bool | None, "whether it was answered so"]
    is_certain: Annotated[bool, "whether the forecast hangs on nothing that the capture does not show"]
    reason: Annotated[str | None, "why it was answered so: one word of cluster_core/replication/psync.py"]
    why: Annotated[str, "the whole of it in one sentence"]
    form: Annotated[str, "disk, eof, dual-channel; empty without a dump"]
    dump_bytes: Annotated[int, "bytes of the dump; over two channels all three rows tell of the same one"]
    stream_bytes: Annotated[int, "bytes of the backlog that were sent at once"]
    bytes: Annotated[int, "both"]
    duration_ms: Annotated[float | None, "from the request until the replica was in sync"]
    outcome: Annotated[Outcome, "done, refused, broken, unfinished"]
    is_restart: Annotated[bool, "whether the replica was started again from an older file"]
    backlog_first: Annotated[int | None, "first byte that the master's backlog had; null: not known"]
    backlog_last: Annotated[int | None, "last byte of the master's stream then; null: not known"]
    backlog_bytes: Annotated[int, "configured size of the backlog"]
    backlog_known_by: Annotated[str, "option, INFO, CONFIG SET, default, answers"]
    connection: Annotated[int, "number of the TCP connection"]
