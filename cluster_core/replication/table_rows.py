"""Links, offsets and resyncs as rows of the tables."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Instant, Small
from cluster_core.replication.rows import Outcome


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
