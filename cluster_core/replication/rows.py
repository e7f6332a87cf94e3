"""What a replay of replication traffic tells: links over time, offsets, and every PSYNC with its answer and reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cluster_core.replication.lineage import Lineage
from cluster_core.replication.psync import Answer, AnswerKind, Request


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
