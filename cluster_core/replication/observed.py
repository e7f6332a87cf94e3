"""One server as its replication traffic shows it: identity, offset, backlog, and whom it follows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cluster_core.formats.capture.bus_capture import ACCEPTOR, INITIATOR, Endpoint, Origin
from cluster_core.replication.psync import (
    REDIS_7_0,
    UNKNOWN_ID,
    Lineage,
    ReplicationProfile,
    Request,
    profile_of,
    read_request,
)
from cluster_core.replication.rows import LinkSpan, OffsetMark, Resync
from cluster_core.wire.resp import DumpBegun, DumpEnded, Item, Skimmed

_VERSION = re.compile(rb"(redis|valkey)-ver[\x00-\x3f]([0-9]+\.[0-9.]+)")
_NO_ID: Final = "0" * 40


@dataclass(slots=True)
class ObservedServer:
    """What is known of the server that listens at *name* (``ip:port``)."""

    name: str
    lineage: Lineage | None = None
    backlog_from: int | None = None
    """The first byte that its backlog ever had; None: no backlog is known of."""
    unseen_bytes: int = 0
    """Bytes of writes that clients sent while no replica was there to show them."""
    acked: int = 0
    """The highest offset that it has acknowledged as a replica."""
    was_following: bool = False
    """It got its id from a master, and has not been seen as one itself since."""
    backlog_bytes: int | None = None
    size_known_by: str = ""
    profile: ReplicationProfile = REDIS_7_0
    dual_channel: bool | None = None
    is_gone: bool = False
    was_restarted: bool = False
    span: LinkSpan | None = None
    """The open piece of its link to a master."""

    @property
    def end(self) -> int:
        """The last byte of its stream, as far as can be told."""
        return self.unseen_bytes + (self.lineage.offset if self.lineage else 0)

    def forget(self) -> None:
        """The process has ended: what comes back at this address knows nothing but its files."""
        self.lineage, self.backlog_from, self.unseen_bytes, self.acked = None, None, 0, 0
        self.was_following, self.was_restarted = False, True

    def note_own(self, replid: str, offset: int) -> bool:
        """It asks its master for the byte behind *offset* of *replid*, so it has that much (P2, P6).

        Returns whether it must have been started again since it was last seen.
        """
        known = self.lineage
        if known is None or (replid != known.replid and offset == 0):
            restarted = known is not None
            self.lineage, self.backlog_from = Lineage(replid, offset), None
        elif known.replid == replid:
            restarted = offset < self.acked
            known.offset = offset
            if restarted:
                self.backlog_from = None
        else:
            restarted = False
            self._become(replid)
            known.offset = offset
        self.unseen_bytes = 0
        self.acked = min(self.acked, offset) if restarted else self.acked
        return restarted

    def _become(self, replid: str) -> None:
        """It turns out to have another id than the known one."""
        self.was_following = False
        if self.lineage is None:
            self.lineage = Lineage(replid)
        elif self.lineage.replid == UNKNOWN_ID:
            self.lineage.replid = replid
        else:
            self.lineage.promote(replid)

    def note_full(self, replid: str, offset: int) -> None:
        """It answers a replica with +FULLRESYNC *replid* *offset*."""
        known = self.lineage
        if known is None:
            self.lineage = Lineage(replid, offset)
        elif known.replid != replid:
            if self.was_following or known.replid == UNKNOWN_ID:
                self._become(replid)
            else:
                known.renew(replid)  # its backlog begins anew (P8)
                self.backlog_from = None
            known.offset = offset
        else:
            known.offset = offset
        if self.backlog_from is None:
            self.backlog_from = offset + 1
        self.unseen_bytes = 0

    def note_continue(self, asked_id: str, asked: int, replid: str) -> None:
        """It answers PSYNC *asked_id* *asked* with +CONTINUE *replid*."""
        known = self.lineage
        if known is None:
            self.lineage = known = Lineage(replid, asked - 1)
            if replid != asked_id:
                known.replid2, known.second_offset = asked_id, asked
        elif known.replid != replid:
            self._become(replid)
        known.offset = max(known.offset, asked - 1)
        if self.backlog_from is None or asked < self.backlog_from:
            self.backlog_from = asked

    def note_sent(self, offset: int) -> None:
        """Its stream has come to *offset*."""
        if self.lineage is not None and offset >= self.lineage.offset:
            self.lineage.offset = offset
            self.unseen_bytes = 0

    def note_synced(self, replid: str, offset: int) -> None:
        """It has loaded the dump of a full resync (P7); its own backlog begins there."""
        self.lineage = Lineage(replid, offset)
        self.backlog_from, self.unseen_bytes, self.acked = offset + 1, 0, 0

    def note_continued(self, replid: str, asked: int) -> None:
        """Its master let it go on at *asked* under *replid* (P4)."""
        if self.lineage is None:
            self.lineage = Lineage(replid, asked - 1)
        self.lineage.adopt(replid)
        if self.backlog_from is None:
            self.backlog_from = asked

    def note_version(self, text: str) -> None:
        """It, or its dump, says which server it is."""
        self.profile = profile_of(text)

    def note_dump(self, head: bytes) -> None:
        """The first bytes of its dump name its version."""
        match = _VERSION.search(head)
        if match:
            self.note_version(f"{match[1].decode()} {match[2].decode()}".removeprefix("redis "))

    def note_info(self, info: dict[str, str]) -> None:
        """It was asked for INFO, and said this of itself."""
        number = _number_in(info)
        if size := number("repl_backlog_size"):
            self.backlog_bytes, self.size_known_by = size, "INFO"
        replid, offset = info.get("master_replid", ""), number("master_repl_offset")
        if len(replid) != 40 or offset is None:
            return
        replid2 = info.get("master_replid2", _NO_ID)
        second = number("second_repl_offset") or -1
        self.lineage = Lineage(replid, offset, UNKNOWN_ID if replid2 == _NO_ID else replid2, second)
        self.unseen_bytes = 0
        self.was_following = info.get("role") == "slave"
        first = number("repl_backlog_first_byte_offset")
        if number("repl_backlog_active") and first is not None:
            self.backlog_from = first
        elif number("repl_backlog_active") == 0:
            self.backlog_from = None
        version = info.get("valkey_version")
        if version or "redis_version" in info:
            self.note_version(f"valkey {version}" if version else info["redis_version"])


def _number_in(info: dict[str, str]) -> Callable[[str], int | None]:
    def number(name: str) -> int | None:
        text = info.get(name, "")
        return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None

    return number


_COMMANDS = ("array", "inline")


@dataclass(slots=True)
class Conversation:
    """What is known of a connection; *base* and *start* turn a position in the direction into a replication offset."""

    number: int
    opened_ns: int
    client: Endpoint | None = None
    server: Endpoint | None = None
    is_accepted: bool = False
    is_closed: bool = False
    listening_port: int | None = None
    announced_ip: str = ""
    version: str = ""
    capabilities: set[str] = field(default_factory=set)
    asks_info: bool = False
    """The client has sent INFO, so a reply may be one to it; values of keys may look like that, too."""
    is_dump_channel: bool = False
    has_dump_channel: bool = False
    asked: list[Resync] = field(default_factory=list)
    pending: Resync | None = None
    """Waits for its answer."""
    transfer: Resync | None = None
    """Was answered in full; the replica is not up yet."""
    base: int | None = None
    start: int | None = None
    server_end: int = 0
    sent: int | None = None
    replid: str | None = None
    span: LinkSpan | None = None
    dump_ended_ns: int | None = None
    sent_ns: int = 0
    """When the last bytes of the stream went over the wire."""
    marked: int | None = None
    burst: Resync | None = None
    """Was just let go on; what is sent now is what it lacked."""

    @property
    def replica(self) -> str:
        """The name of the client as a server of its own: its announced or seen address, and the port it listens on."""
        ip = self.announced_ip or (self.client.ip if self.client else "?")
        if self.listening_port is None:
            return f"{ip}:?{self.client.port if self.client else 0}"
        return f"{ip}:{self.listening_port}"

    @property
    def master(self) -> str:
        """The name of the server."""
        return f"{self.server.ip}:{self.server.port}" if self.server else "?"

    @property
    def is_stream(self) -> bool:
        """Whether a replication stream runs on it."""
        return self.start is not None

    def is_from_client(self, origin: Origin, item: Item) -> bool:
        """Whether the client said *item*; where the opening was not seen, what is said decides, else the lower port."""
        if origin.direction in (INITIATOR, ACCEPTOR):
            return self._take_sides(origin, is_client=origin.direction == INITIATOR)
        words = item.words if isinstance(item, Skimmed) else ()
        if [word.upper() for word in words[:2]] == [b"REPLCONF", b"ACK"] or (words and words[0].upper() == b"PSYNC"):
            return self._take_sides(origin, is_client=True, is_sure=True)
        if isinstance(item, DumpBegun | DumpEnded) or (isinstance(item, Skimmed) and item.kind not in _COMMANDS):
            return self._take_sides(origin, is_client=False)
        return self._take_sides(origin, is_client=origin.source.port > origin.target.port)

    def _take_sides(self, origin: Origin, *, is_client: bool, is_sure: bool = False) -> bool:
        if self.client is None or is_sure:
            self.client, self.server = (origin.source, origin.target) if is_client else (origin.target, origin.source)
        return self.client == origin.source

    def note_replconf(self, words: Sequence[bytes]) -> None:
        """REPLCONF name value name value …, said before PSYNC."""
        for name, value in zip(words[1::2], words[2::2], strict=False):
            text = value.decode("latin-1")
            match name.lower():
                case b"listening-port" if text.isdigit() and len(text) <= 5:
                    self.listening_port = int(text)
                case b"ip-address":
                    self.announced_ip = text
                case b"capa":
                    self.capabilities.add(text)
                case b"version":
                    self.version = text
                case b"rdb-channel":
                    self.is_dump_channel = text == "1"
                case b"set-rdb-client-id":
                    self.has_dump_channel = True
                case _:
                    pass

    def request_of(self, words: Sequence[bytes]) -> Request:
        """What PSYNC or SYNC asks for."""
        return replace(
            read_request(words),
            dual_channel="dual-channel" in self.capabilities,
            is_main_channel=self.has_dump_channel,
            is_dump_channel=self.is_dump_channel,
        )

    def stream_offset(self, end: int) -> int | None:
        """The replication offset at position *end* of what the master sent."""
        return None if self.base is None or self.start is None else self.base + end - self.start

    def begin_stream(self, base: int | None, position: int) -> None:
        """The byte behind *position* has the offset behind *base*."""
        self.base, self.start, self.sent, self.marked = base, position, base, base


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
