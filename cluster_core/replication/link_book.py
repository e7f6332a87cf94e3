"""Who followed whom, from when until when, and how far the streams had come: the pieces of links and the marks on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cluster_core.replication.conversation import Conversation
from cluster_core.replication.observed import ObservedServer
from cluster_core.replication.rows import LinkSpan, OffsetMark


class LinkBook:
    """Keeps `LinkSpan`s and `OffsetMark`s; a replica has one open piece at most, its server knows which."""

    def __init__(self, server: Callable[[str], ObservedServer]) -> None:
        self.spans: list[LinkSpan] = []
        self.marks: list[OffsetMark] = []
        self._server = server
        self._links = 0
        self._last: dict[str, LinkSpan] = {}

    def begin(self, conversation: Conversation, ts_ns: int, state: str = "handshake", *, is_up: bool = False) -> None:
        """A connection turns out to be a link to a master; what the replica followed before ends."""
        replica = self._server(conversation.replica)
        self.end(replica, ts_ns)
        self._links += 1
        replica.was_following = True
        cause = "seen in its middle" if is_up else "connected"
        conversation.span = self._open(LinkSpan(
            self._links, conversation.number, conversation.replica, conversation.master, state, is_up, ts_ns, None,
            conversation.replid, conversation.sent, conversation.sent, ts_ns, cause,
        ))  # fmt: skip

    def order(self, replica: ObservedServer, master: str, ts_ns: int, cause: str) -> None:
        """A server was told to follow *master*; no connection is seen yet."""
        self.end(replica, ts_ns)
        self._links += 1
        replica.was_following = True
        self._open(LinkSpan(
            self._links, -1, replica.name, master, "connect", False, ts_ns, None, None, None, None, ts_ns, cause
        ))  # fmt: skip

    def end(self, replica: ObservedServer, ts_ns: int) -> None:
        """A server follows nobody from now on."""
        if replica.span is not None and replica.span.to_ns is None:
            replica.span.to_ns = max(ts_ns, replica.span.from_ns)
        replica.span = None

    def move(self, conversation: Conversation, ts_ns: int, state: str, *, is_up: bool, cause: str) -> None:
        """The link of *conversation* is in another state since *ts_ns*."""
        old = conversation.span
        if old is None or old.to_ns is not None:
            return
        ts_ns = max(ts_ns, old.from_ns)
        old.to_ns, old.last_offset = ts_ns, conversation.sent
        conversation.span = self._open(replace(
            old, state=state, is_up=is_up, from_ns=ts_ns, to_ns=None, replid=conversation.replid,
            first_offset=conversation.sent, last_offset=conversation.sent, cause=cause,
        ))  # fmt: skip

    def mark(self, conversation: Conversation, acked: int | None = None, ts_ns: int = 0) -> None:
        """Note how far the stream has come, with the time of its last bytes; or what was acknowledged at *ts_ns*."""
        span, sent = conversation.span, conversation.sent
        if span is None or sent is None:
            return
        ends = (span.link, span.replica, span.master, conversation.replid, sent)
        if conversation.marked != sent:
            self.marks.append(OffsetMark(conversation.sent_ns, *ends, None))
            conversation.marked = sent
        if acked is not None:
            self.marks.append(OffsetMark(ts_ns, *ends, acked))

    def was_sent_away(self, replica: str, master: str, since_ns: int) -> bool:
        """Whether *master* closed the last link of *replica*, to itself, after *since_ns*."""
        last = self._last.get(replica)
        return last is not None and last.master == master and last.state == "lost" and last.from_ns >= since_ns

    def _open(self, span: LinkSpan) -> LinkSpan:
        self.spans.append(span)
        self._server(span.replica).span = span
        self._last[span.replica] = span
        return span
