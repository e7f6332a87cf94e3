"""Recognises messages that can change nothing before the machine reads them: the header repeats, the gossip has no
news.

Most of a bus is PINGs and PONGs that repeat what is known.  Such a message only moves clocks (data_received,
pong_received, ping_sent, replication offset) and is answered; the filter does exactly that.  What it is not sure about it
leaves to the machine, so a wrong "no" costs time and never truth.

A message is quiet when the machine has read one with the same header to its end without any effect but a PONG, the
view has not changed since (`View.version`), and its gossip names only nodes that are known, and healthy on both sides or
failing on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from cluster_core.gossip.events import MessageReceived, ReplyPong
from cluster_core.gossip.failure_detection import may_report
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MEET, MYSELF
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS, FLAGS, NODE, PONG_RECEIVED
from cluster_core.wire.bus import Gossip, Header, MessageFlag, MessageType

if TYPE_CHECKING:
    from cluster_core.gossip.events import Effect, Event
    from cluster_core.gossip.node import ClusterNode
    from cluster_core.gossip.view import Peer
    from cluster_core.wire.bus import Extension, GossipEntry

PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
PAUSED: Final = int(MessageFlag.PAUSED)
said_by: Final = attrgetter(
    "config_epoch", "replicaof", "flags", "mflags", "cport", "port", "pport", "myip", "ver", "myslots"
)
"""What a header says that the machine could follow; the rest are clocks, and the current epoch, which may lag."""
SECONDS_CACHED: Final = 256
UNSETTLED: Final = FAILURES | HANDSHAKE | MEET | MYSELF


@dataclass(slots=True)
class Quiet:
    """What a sender said when the machine last read it to the end and nothing followed; *header* and *before* said the same."""

    said: tuple[object, ...]
    header: Header
    before: Header
    extensions: tuple[Extension, ...]
    ip: str
    version: int


class Prefilter:
    """A cluster node behind its filter: the same door, the same effects, most messages at a fraction of the price."""

    def __init__(self, node: ClusterNode) -> None:
        self.node = node
        self.view = node.view
        self._quiet: dict[str, Quiet] = {}

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """`ClusterNode.handle`."""
        if type(event) is not MessageReceived:
            return self.node.handle(event, now_ms)
        effects = self.settle(event, now_ms)
        if effects is None:
            effects = self.node.handle(event, now_ms)
            if not effects or (len(effects) == 1 and type(effects[0]) is ReplyPong):
                self._remember(event)
        return effects

    def settle(self, event: MessageReceived, now_ms: int) -> list[Effect] | None:
        """Move the clocks as a quiet message says (R37, R44, R50, R51); None leaves it, untouched, to the machine."""
        message, view = event.message, self.view
        header, body = message.header, message.body
        link = view.links.get(event.link)
        if link is None or type(header) is not Header or type(body) is not Gossip or message.rest is not None:
            return None
        quiet, nodes = self._quiet.get(header.sender), view.nodes
        if quiet is None or quiet.version != view.version or link.node != header.sender:
            return None
        kind, peer = header.type, nodes[header.sender]
        if (
            (header is not quiet.header and header is not quiet.before and said_by(header) != quiet.said)
            or header.current_epoch > view.current_epoch
            or peer.flags & UNSETTLED
            or quiet.ip != event.peer_ip
            or kind > PONG
            or (kind == PING and not link.inbound)
            or (body.extensions is not quiet.extensions and body.extensions != quiet.extensions)
        ):
            return None
        if header is not quiet.header:
            quiet.before, quiet.header = quiet.header, header
        limit_ms = now_ms + CLOCK_SLACK_MS
        younger: list[tuple[Peer, GossipEntry]] = []
        repeated: list[Peer] = []
        try:
            for entry in body.entries:
                known = nodes[entry[NODE]]
                if known.flags & FAILURES or entry[FLAGS] & FAILURES:
                    if not self._repeats_failure(peer, known, entry[FLAGS]):
                        return None
                    repeated.append(known)
                elif known.reports:
                    return None
                elif known.said is not entry and known.pong_received_ms < entry[PONG_RECEIVED] * 1000 <= limit_ms:
                    younger.append((known, entry))
        except KeyError:  # a stranger
            return None
        effects: list[Effect] = []
        if kind == PING:  # the PONG says what held when the PING came (R41)
            effects.append(self.node.answer(event.link))
        peer.data_received_ms = now_ms
        peer.repl_offset = header.offset
        if kind == PONG and not link.inbound:
            peer.note_pong(now_ms)
        if younger:
            self._refresh(younger)
        if repeated and not view.profile.reports_end_at_fail:
            for known in repeated:
                if peer.id in known.reports:
                    known.reports[peer.id] = now_ms
        return effects

    def _repeats_failure(self, peer: Peer, known: Peer, flags: int) -> bool:
        """Whether *peer* says again what it has reported of a node that is FAIL: only the report's time moves (R51)."""
        if not (flags & FAILURES and known.flags & FAIL) or known is peer:
            return False
        view = self.view
        return view.profile.reports_end_at_fail or not may_report(view, peer) or peer.id in known.reports

    def _refresh(self, younger: list[tuple[Peer, GossipEntry]]) -> None:
        """Take over younger pong times, in the order of the entries (R44)."""
        unclean = HANDSHAKE | MEET if self.view.profile.gossip_refreshes_clean_only else 0
        for known, entry in younger:
            pong_ms = milliseconds(entry.pong_received_s)
            if known.ping_sent_ms or known.flags & (unclean | MYSELF) or known.pong_received_ms >= pong_ms:
                continue
            known.note_rumour(pong_ms, entry)

    def _remember(self, event: MessageReceived) -> None:
        """The machine read this message without an effect but a PONG: the next one like it is quiet."""
        header, body, view = event.message.header, event.message.body, self.view
        if type(header) is not Header or type(body) is not Gossip or header.type > PONG or header.mflags[0] & PAUSED:
            return
        link = view.links.get(event.link)
        if link is not None and link.node == header.sender and header.sender in view.nodes:
            self._quiet[header.sender] = Quiet(
                said_by(header), header, header, body.extensions, event.peer_ip, view.version
            )


@lru_cache(maxsize=SECONDS_CACHED)
def milliseconds(seconds: int) -> int:
    """Seconds as milliseconds; the same seconds are one object, not one in each of many tables."""
    return seconds * 1000
