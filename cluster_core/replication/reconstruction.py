"""Captured client-port traffic to replication history: links, offsets, and every PSYNC with its answer.

Fed with the rows of `RespCapture` in order.  What each server has (id, offset, second id, backlog) is put together from
what it says, what it is sent and what it sends; `forecast` then says what it had to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from cluster_core.formats.capture.bus_capture import ACCEPTOR, CapturedGap, ConnectionEvent, Origin
from cluster_core.formats.capture.resp_capture import CapturedResp, RespRow
from cluster_core.replication.observed import Conversation, LinkBook, ObservedServer
from cluster_core.replication.psync import UNKNOWN_ID, AnswerKind, Reason
from cluster_core.replication.rows import LinkSpan, MasterFacts, OffsetMark, Outcome, Resync
from cluster_core.sizes import read_bytes, write_bytes
from cluster_core.wire.resp import DumpBegun, DumpEnded, Item, Skimmed, read_info

_GUESSED: Final = ("answers", "default")
_KNOWN_BY: Final = {"default": "the version's default", "answers": "as its answers show", "option": "as given"}


def tell_resync(resync: Resync) -> str:
    """The sentence.

    >>> from cluster_core.replication.psync import Answer, Request
    >>> from cluster_core.replication.rows import MasterFacts, Outcome
    >>> facts = MasterFacts(None, 0, None, False, False, False)
    >>> forced = Resync(0, 0, 0, "b:2", "a:1", Request("?", -1), facts, answered=AnswerKind.FULL, outcome=Outcome.DONE)
    >>> forced.explained = Answer(AnswerKind.FULL, Reason.FORCED)
    >>> tell_resync(forced)
    'b:2 asked a:1 for everything and was sent everything, because it has no history of its own.'
    """
    asked = f"{resync.replica} asked {resync.master} {_question(resync)}"
    if resync.answered is None:
        return f"{asked}; no answer was captured."
    why = f", because {_reason(resync)}" if resync.explained is not None else ""
    return f"{asked} and {_answer(resync)}{why}{_cost(resync)}."


def explain_reason(reason: Reason) -> str:
    """A reason by itself, in words."""
    return _PLAIN[reason]


def _question(resync: Resync) -> str:
    request = resync.request
    if request.is_dump_channel:
        return "for the dump on a channel of its own"
    if request.is_sync:
        return "for everything with SYNC"
    if request.replid[:1] == "?":
        return "for everything"
    where = f"at byte {request.offset:,}" if request.offset is not None else "at a byte that is no number"
    text = f"to go on {where} of {short_id(request.replid)}"
    if request.failover:
        text += " and to take over as master"
    elif request.is_main_channel:
        text += ", behind the dump"
    if resync.is_restart:
        text += " (it was started again from an older file)"
    return text


def _answer(resync: Resync) -> str:
    match resync.answered:
        case AnswerKind.PARTIAL:
            changed = resync.replid not in (None, resync.request.replid)
            name = f" under the new id {short_id(resync.replid or '')}" if changed else ""
            return f"went on{name}"
        case AnswerKind.DUAL_CHANNEL:
            return "was told to fetch everything over two channels"
        case AnswerKind.REFUSED:
            return f"was refused ({resync.answer_text[:80]})"
        case _:
            return "was sent everything"


def _reason(resync: Resync) -> str:
    if resync.explained is None:
        return ""
    request, reason = resync.request, resync.explained.reason
    facts, offset = resync.facts, resync.request.offset or 0
    end = resync.offset if resync.answered is AnswerKind.FULL and resync.offset is not None else facts.end
    if reason is Reason.BACKLOG_PASSED:
        behind = f"{max(0, end - offset + 1):,} bytes"
        size = f"{write_bytes(resync.backlog_bytes)}, {_KNOWN_BY.get(resync.size_known_by, resync.size_known_by)}"
        if resync.size_known_by in _GUESSED or resync.backlog is None:
            return f"it was {behind} behind and the master's backlog no longer reached back that far"
        return f"it was {behind} behind and the master's backlog ({size}) began at byte {resync.backlog[0]:,}"
    if reason is Reason.SECOND_ID_PASSED and facts.lineage is not None:
        known = facts.lineage
        limit = known.second_offset if known.replid2 == request.replid else known.offset + 1
        return (
            f"the master left that history at byte {limit:,}: "
            f"{max(0, offset - limit):,} bytes of the replica's are not the master's, and are lost"
        )
    if reason is Reason.ID_MISMATCH and offset == 1:
        return f"the id is the replica's own, without a byte in it, and {_PLAIN[reason]}"
    return _PLAIN[reason]


def _cost(resync: Resync) -> str:
    parts = []
    if resync.dump_bytes and resync.answered is not AnswerKind.DUAL_CHANNEL and not resync.request.is_main_channel:
        form = {"disk": "from a file", "eof": "without a file"}.get(resync.form, "")
        parts.append(f"{resync.dump_bytes:,} bytes of dump {form}".rstrip())
    elif resync.stream_bytes:
        parts.append(f"{resync.stream_bytes:,} bytes of backlog")
    if resync.done_ns is not None:
        parts.append(_duration(resync.done_ns - resync.ts_ns))
    if resync.outcome == Outcome.BROKEN:
        parts.append("the connection broke before it was done")
    elif resync.outcome == Outcome.UNFINISHED:
        parts.append("not done when the capture ended")
    return f"; {', '.join(parts)}" if parts else ""


def _duration(count_ns: int) -> str:
    return f"{count_ns / 1e6:.2f} ms" if count_ns < 10**9 else f"{count_ns / 1e9:.2f} s"


def short_id(replid: str) -> str:
    """The first digits of a replication id."""
    return replid[:8] or "?"


_PLAIN: Final[dict[Reason, str]] = {
    Reason.SAME_ID: "it is the master's own history and its backlog still has what is missing",
    Reason.SECOND_ID: "it is the history that the master had before it was promoted, up to a byte that both have",
    Reason.FAILOVER: "the one asked has all of the asker's data: it became the master",
    Reason.MAIN_CHANNEL: "the dump comes over the other channel, and this one carries what was written since",
    Reason.FORCED: "it has no history of its own",
    Reason.SYNC_COMMAND: "SYNC knows no history",
    Reason.DUMP_CHANNEL: "that is what the channel is for",
    Reason.ID_MISMATCH: "the master has no history of that name",
    Reason.SECOND_ID_PASSED: "it has bytes of that history that the master never had",
    Reason.NO_BACKLOG: "the master keeps no backlog",
    Reason.BACKLOG_PASSED: "the master's backlog no longer reaches back that far",
    Reason.AHEAD: "it is ahead of the master",
    Reason.NO_MASTER_LINK: "the one asked is a replica without a link to its own master",
    Reason.FAILING_OVER: "the one asked was about to hand over",
    Reason.LOADING: "the one asked was still loading",
    Reason.BAD_OFFSET: "the offset was no number",
    Reason.NOT_A_REPLICA: "only a replica can take over",
    Reason.OTHER_ID: "the one asked has another history than the asker",
    Reason.SERVER_ERROR: "of a reason outside replication",
}


MARK_NS: Final = 20_000_000
"""What is sent on a link is marked at most once in that time."""
BURST_NS: Final = 1_000_000
"""What follows +CONTINUE without a longer pause is what was missing."""
CLOSED_MAX: Final = 1 << 16
"""Connections that are remembered as closed: packets of both directions cross."""

ASKED_MAX: Final = 8
"""Requests of one connection that are remembered: dual channel needs three."""

IsWrite = Callable[[Sequence[bytes]], bool]


class Reconstruction:
    """Feed it rows; its lists hold the history.  *is_write* says whether a command of a client changes data."""

    def __init__(self, *, is_write: IsWrite | None = None) -> None:
        self.servers: dict[str, ObservedServer] = {}
        self.book = LinkBook(self.server)
        self.resyncs: list[Resync] = []
        self._conversations: dict[int, Conversation] = {}
        self._closed: dict[int, None] = {}
        self._main_channels: dict[str, Conversation] = {}
        self._streams: dict[str, set[int]] = {}
        self._is_write: IsWrite = is_write or (lambda words: False)

    def handle(self, row: RespRow) -> None:
        """Take the next row."""
        if isinstance(row, CapturedResp | CapturedGap | ConnectionEvent) and row.origin.connection in self._closed:
            return  # what was still on its way when one end closed
        if isinstance(row, CapturedResp):
            conversation = self._conversation(row.origin)
            if conversation.is_from_client(row.origin, row.item):
                self._from_client(conversation, row.origin.ts_ns, row.item)
            else:
                self._from_server(conversation, row.origin.ts_ns, row.item)
        elif isinstance(row, ConnectionEvent):
            self._on_connection(self._conversation(row.origin), row)
        elif isinstance(row, CapturedGap) and row.count is None:
            conversation = self._conversation(row.origin)
            if row.origin.source == conversation.server:
                conversation.base = None  # until the replica says where it is

    def finish(self) -> None:
        """The capture ends: what is open stays open."""
        for conversation in self._conversations.values():
            self._note_handshake_only(conversation)
            self.book.mark(conversation)

    @property
    def spans(self) -> list[LinkSpan]:
        """The pieces of links, in the order in which they were found."""
        return self.book.spans

    @property
    def marks(self) -> list[OffsetMark]:
        """The marks on the streams."""
        return self.book.marks

    def server(self, name: str) -> ObservedServer:
        """What is known of a server, by name."""
        return self.servers.setdefault(name, ObservedServer(name))

    # -- connections -------------------------------------------------------------------------------------------------

    def _conversation(self, origin: Origin) -> Conversation:
        known = self._conversations.get(origin.connection)
        if known is None:
            known = self._conversations[origin.connection] = Conversation(origin.connection, origin.ts_ns)
        return known

    def _on_connection(self, conversation: Conversation, row: ConnectionEvent) -> None:
        origin = row.origin
        if row.kind == "syn":
            conversation.client, conversation.server = origin.source, origin.target
        elif row.kind == "syn-ack":
            conversation.client, conversation.server = origin.target, origin.source
            conversation.is_accepted = True
            server = self.servers.get(conversation.master)
            if server is not None and server.is_gone:
                server.is_gone = False
                server.forget()
        elif row.kind == "rst" and origin.direction == ACCEPTOR and not conversation.is_accepted:
            known = self.servers.get(conversation.master)
            if known is not None:
                known.is_gone = True
            self._drop(conversation)
        elif not conversation.is_closed:
            self._close(conversation, origin.ts_ns, by_client=origin.source == conversation.client)

    def _close(self, conversation: Conversation, ts_ns: int, *, by_client: bool) -> None:
        conversation.is_closed = True
        self.book.mark(conversation)
        self._streams.get(conversation.master, set()).discard(conversation.number)
        for resync in (conversation.pending, conversation.transfer):
            if resync is not None and resync.outcome == Outcome.UNFINISHED:
                resync.outcome = Outcome.BROKEN
        self._note_handshake_only(conversation)
        span = conversation.span
        if span is not None and span.to_ns is None:
            if by_client and conversation.asked and conversation.asked[-1].outcome == Outcome.REFUSED:
                self.book.move(conversation, ts_ns, "connect", is_up=False, cause="it was refused and will ask again")
            elif by_client:
                self.book.end(self.server(conversation.replica), ts_ns)
            else:
                self.book.move(conversation, ts_ns, "lost", is_up=False, cause="the master's end closed")
        conversation.span = None
        if self._main_channels.get(conversation.replica) is conversation:
            del self._main_channels[conversation.replica]
        self._drop(conversation)

    def _drop(self, conversation: Conversation) -> None:
        del self._conversations[conversation.number]
        self._closed[conversation.number] = None
        if len(self._closed) > CLOSED_MAX:
            del self._closed[next(iter(self._closed))]

    def _note_handshake_only(self, conversation: Conversation) -> None:
        """A replica that said who it is but came to no PSYNC."""
        if conversation.listening_port is not None and conversation.span is None and not conversation.is_dump_channel:
            self.book.begin(conversation, conversation.opened_ns)

    # -- what clients and replicas say -------------------------------------------------------------------------------

    def _from_client(self, conversation: Conversation, ts_ns: int, item: Item) -> None:
        if not isinstance(item, Skimmed):
            return
        if item.kind == "newline":
            self._on_newline(conversation)
            return
        words = item.words
        if item.kind not in ("array", "inline") or not words:
            return
        match words[0].upper():
            case b"REPLCONF":
                self._on_replconf(conversation, ts_ns, words)
            case b"PSYNC" | b"SYNC":
                self._on_request(conversation, ts_ns, words)
            case b"REPLICAOF" | b"SLAVEOF" if len(words) == 3:
                self._on_replicaof(conversation, ts_ns, words)
            case b"CONFIG" if [w.upper() for w in words[1:3]] == [b"SET", b"REPL-BACKLOG-SIZE"] and len(words) > 3:
                size = read_bytes(words[3].decode("latin-1"))
                if size:
                    server = self.server(conversation.master)
                    server.backlog_bytes, server.size_known_by = size, "CONFIG SET"
            case b"INFO":
                conversation.asks_info = True
            case _:
                self._on_command(conversation, item)

    def _on_command(self, conversation: Conversation, item: Skimmed) -> None:
        """A write makes the stream longer; where no replica is there to show it, its own length is what is known."""
        server = self.servers.get(conversation.master)
        if server is None or server.backlog_from is None or self._streams.get(server.name):
            return
        if self._is_write(item.words):
            server.unseen_bytes += item.total

    def _on_replconf(self, conversation: Conversation, ts_ns: int, words: Sequence[bytes]) -> None:
        if len(words) > 2 and words[1].upper() == b"ACK":
            if words[2].isdigit() and len(words[2]) <= 19:
                self._on_ack(conversation, ts_ns, int(words[2]))
            return
        conversation.note_replconf(words)

    def _on_ack(self, conversation: Conversation, ts_ns: int, acked: int) -> None:
        if conversation.base is None and conversation.dump_ended_ns is None and conversation.pending is None:
            conversation.begin_stream(acked, conversation.server_end)
        replica = self.server(conversation.replica)
        if conversation.span is None and not conversation.is_dump_channel:
            self.book.begin(conversation, ts_ns, "online", is_up=True)
            self._streams.setdefault(conversation.master, set()).add(conversation.number)
        replica.acked = max(replica.acked, acked)
        if conversation.transfer is not None and conversation.is_stream:
            self._on_synced(conversation, ts_ns)
        self.book.mark(conversation, acked, ts_ns)

    def _on_newline(self, conversation: Conversation) -> None:
        """A replica that loads sends newlines: what seemed to be up is not."""
        span = conversation.span
        if span is not None and span.is_up and span.from_ns == conversation.dump_ended_ns:
            span.is_up = False
            resync = conversation.asked[-1] if conversation.asked else None
            if resync is not None:
                resync.done_ns, resync.outcome, conversation.transfer = None, Outcome.UNFINISHED, resync

    def _on_replicaof(self, conversation: Conversation, ts_ns: int, words: Sequence[bytes]) -> None:
        server = self.server(conversation.master)
        host, port = (word.decode("latin-1") for word in words[1:3])
        if (host.lower(), port.lower()) == ("no", "one"):
            self.book.end(server, ts_ns)
            return
        master = f"{host}:{port}"
        if server.span is not None and server.span.master == master and server.span.to_ns is None:
            return
        self.book.order(server, master, ts_ns, f"{words[0].decode('latin-1').upper()} {host} {port}")

    def _on_request(self, conversation: Conversation, ts_ns: int, words: Sequence[bytes]) -> None:
        request = conversation.request_of(words)
        replica, master = self.server(conversation.replica), self.server(conversation.master)
        facts = gather_facts(master, replica, conversation, self.book)
        restarted = False
        if conversation.version:
            replica.note_version(f"valkey {conversation.version}")
        if conversation.span is None and not conversation.is_dump_channel:
            self.book.begin(conversation, conversation.opened_ns)
        if len(request.replid) == 40 and (request.offset or 0) > 0 and not request.is_main_channel:
            restarted = replica.note_own(request.replid, (request.offset or 1) - 1)
        resync = Resync(
            len(self.resyncs), conversation.number, ts_ns, replica.name, master.name, request, facts, restarted
        )
        self.resyncs.append(resync)
        conversation.asked = [*conversation.asked[1 - ASKED_MAX :], resync]
        conversation.pending = resync

    # -- what servers say --------------------------------------------------------------------------------------------

    def _from_server(self, conversation: Conversation, ts_ns: int, item: Item) -> None:
        conversation.server_end = item.end
        if isinstance(item, DumpBegun):
            self._on_dump_begun(conversation, ts_ns, item)
        elif isinstance(item, DumpEnded):
            self._on_dump_ended(conversation, ts_ns, item)
        elif isinstance(item, Skimmed) and conversation.pending is not None:
            if item.kind in ("simple", "error", "endoff"):
                self._on_answer(conversation, conversation.pending, ts_ns, item)
        elif conversation.is_stream:
            self._on_stream(conversation, ts_ns, item.end)
        elif conversation.asks_info and isinstance(item, Skimmed) and item.kind in ("bulk", "verbatim"):
            text = item.words[0].removeprefix(b"txt:")
            if text.startswith(b"# ") and b"master_replid:" in text:
                self.server(conversation.master).note_info(read_info(text))

    def _on_stream(self, conversation: Conversation, ts_ns: int, end: int) -> None:
        sent = conversation.stream_offset(end)
        if sent is None:
            return
        if conversation.burst is not None and conversation.base is not None:
            if ts_ns - conversation.sent_ns <= BURST_NS:
                conversation.burst.stream_bytes = sent - conversation.base
            else:
                conversation.burst = None
        if ts_ns // MARK_NS != conversation.sent_ns // MARK_NS:
            self.book.mark(conversation)
        conversation.sent, conversation.sent_ns = sent, ts_ns
        self.server(conversation.master).note_sent(sent)
        if conversation.span is not None and conversation.span.is_up:
            conversation.span.last_offset = sent
            self.server(conversation.replica).note_sent(sent)

    def _on_answer(self, conversation: Conversation, resync: Resync, ts_ns: int, item: Skimmed) -> None:
        text = item.words[0].decode("latin-1")
        name, *rest = text.split(" ")
        master = self.server(conversation.master)
        if item.kind == "error":
            resync.answered, resync.outcome = AnswerKind.REFUSED, Outcome.REFUSED
        elif item.kind == "endoff" and len(rest) >= 1:
            self._on_full(conversation, resync, ts_ns, (rest[0], name))
        elif name == "FULLRESYNC" and len(rest) == 2:
            self._on_full(conversation, resync, ts_ns, (rest[0], rest[1]))
        elif name == "CONTINUE":
            self._on_continue(conversation, resync, ts_ns, rest[0] if rest else resync.request.replid)
            conversation.begin_stream((resync.request.offset or 1) - 1, item.end)
        elif name == "DUALCHANNELSYNC":
            resync.answered, resync.form, master.dual_channel = AnswerKind.DUAL_CHANNEL, "dual-channel", True
            self._main_channels[conversation.replica] = conversation
        else:
            return
        resync.answer_ns, resync.answer_text = ts_ns, text
        if resync.request.dual_channel and resync.answered is AnswerKind.FULL and not resync.request.is_sync:
            master.dual_channel = False
        conversation.pending = None

    def _on_full(self, conversation: Conversation, resync: Resync, ts_ns: int, said: tuple[str, str]) -> None:
        replid, number = said
        if not (number.isdigit() and len(number) <= 19):
            return
        resync.answered, resync.replid, resync.offset = AnswerKind.FULL, replid, int(number)
        self.server(conversation.master).note_full(replid, resync.offset)
        conversation.replid, conversation.base, conversation.start = replid, resync.offset, None
        conversation.transfer, conversation.dump_ended_ns = resync, None
        self.book.move(conversation, resync.ts_ns, "wait_bgsave", is_up=False, cause="+FULLRESYNC")

    def _on_continue(self, conversation: Conversation, resync: Resync, ts_ns: int, replid: str) -> None:
        asked = resync.request.offset or 1
        resync.answered, resync.replid, resync.offset = AnswerKind.PARTIAL, replid, asked - 1
        self.server(conversation.master).note_continue(resync.request.replid, asked, replid)
        self._streams.setdefault(conversation.master, set()).add(conversation.number)
        conversation.replid, conversation.sent = replid, asked - 1
        if resync.request.is_main_channel:
            conversation.transfer = resync
            self.book.move(
                conversation, ts_ns, "bg_transfer", is_up=False, cause="+CONTINUE, the dump on another channel"
            )
            return
        self.server(conversation.replica).note_continued(replid, asked)
        conversation.burst, conversation.sent_ns = resync, ts_ns
        resync.done_ns, resync.outcome = ts_ns, Outcome.DONE
        self.book.move(conversation, ts_ns, "online", is_up=True, cause="+CONTINUE")

    def _on_dump_begun(self, conversation: Conversation, ts_ns: int, item: DumpBegun) -> None:
        resync = conversation.pending or conversation.transfer
        if resync is None:
            return
        if conversation.pending is not None:  # the answer to SYNC is the dump itself
            conversation.pending, conversation.transfer = None, resync
            resync.answered, resync.answer_ns = AnswerKind.FULL, ts_ns
        resync.form = "dual-channel" if conversation.is_dump_channel else "eof" if item.announced is None else "disk"
        if item.announced is not None:
            self.book.move(conversation, ts_ns, "send_bulk", is_up=False, cause="the dump begins")

    def _on_dump_ended(self, conversation: Conversation, ts_ns: int, item: DumpEnded) -> None:
        resync, conversation.dump_ended_ns = conversation.transfer, ts_ns
        self.server(conversation.master).note_dump(item.head)
        if resync is None:
            return
        resync.dump_bytes = item.received
        if not item.complete:  # the stream begins where the replica says it does
            resync.notes.append("part of the dump is not in the capture")
            conversation.dump_ended_ns, conversation.base, conversation.start = None, None, None
            return
        if conversation.is_dump_channel:
            resync.done_ns, resync.outcome, conversation.transfer = ts_ns, Outcome.DONE, None
            main = self._main_channels.get(conversation.replica)
            for other in main.asked if main is not None else ():
                if other.outcome == Outcome.UNFINISHED:
                    other.dump_bytes = item.received
            return
        conversation.begin_stream(resync.offset, item.end)
        self._streams.setdefault(conversation.master, set()).add(conversation.number)
        if resync.form == "disk" and not self.server(conversation.replica).profile.loads_later:
            self._on_synced(conversation, ts_ns)
        else:
            self.book.move(conversation, ts_ns, "online", is_up=False, cause="the dump has ended")

    def _on_synced(self, conversation: Conversation, ts_ns: int) -> None:
        """The replica has loaded what it was sent."""
        resync, conversation.transfer = conversation.transfer, None
        if resync is None:
            return
        for other in conversation.asked:
            if other is resync or (
                resync.request.is_main_channel
                and other.answered is AnswerKind.DUAL_CHANNEL
                and other.outcome == Outcome.UNFINISHED
            ):
                other.done_ns, other.outcome = ts_ns, Outcome.DONE
        replica = self.server(conversation.replica)
        if resync.replid is not None and resync.offset is not None:
            replica.note_synced(resync.replid, resync.offset)
            replica.note_sent(conversation.sent or resync.offset)
        self.book.move(conversation, ts_ns, "online", is_up=True, cause="in sync")


def gather_facts(
    master: ObservedServer, replica: ObservedServer, conversation: Conversation, book: LinkBook
) -> MasterFacts:
    """The state of *master* when the replica of *conversation* asks it.

    A server that followed another and follows nobody any more was promoted: as a replica without a link it would refuse
    (P3, P5).  So was one that lost its master and then sent its own replicas away.  A server that was never seen to
    replicate cannot have the history of a replica whose history was.
    """
    span = master.span if master.span is not None and master.span.to_ns is None else None
    if span is not None and span.state == "lost":
        sent_away = book.was_sent_away(conversation.replica, master.name, span.from_ns)
        span = None if sent_away else span
    known = replace(master.lineage) if master.lineage else None
    if span is None and master.was_following and known is not None:
        known.promote(UNKNOWN_ID)
    dual_channel = master.dual_channel
    if dual_channel is None:  # a replica that tells its version is a Valkey, and so is its master, mostly
        dual_channel = master.profile.dual_channel or bool(conversation.version)
    is_link_up = span.is_up if span is not None else False
    is_stranger = known is None and not master.was_restarted and replica.lineage is not None
    return MasterFacts(known, master.end, master.backlog_from, span is not None, is_link_up, dual_channel, is_stranger)
