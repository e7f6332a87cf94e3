"""Recognises messages that can change nothing before the machine reads them: the header repeats, the gossip has no
news.

Most of a bus is PINGs and PONGs that repeat what is known.  Such a message only moves clocks (data_received,
pong_received, ping_sent, replication offset) and is answered; `settle` does exactly that.  What `news_of` is not sure
about it leaves to the machine, so a wrong "no" costs time and never truth.

A message is quiet when the machine has read one with the same header to its end without any effect but a PONG, the
view has not changed since (`View.version`), and its gossip names only nodes that are known, and healthy on both sides or
failing on both.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Final

from cluster_core.gossip.events import MessageReceived
from cluster_core.gossip.failure_detection import may_report
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MEET, MYSELF
from cluster_core.gossip.gossip_section import ADDRESS, CLOCK_SLACK_MS, FLAGS, NODE, PING_SENT, PONG_RECEIVED
from cluster_core.gossip.view import Link, Peer, View
from cluster_core.wire.bus import Gossip, GossipEntry, Header, Message, MessageFlag, MessageType

PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
PAUSED: Final = int(MessageFlag.PAUSED)
said_by: Final = attrgetter(
    "config_epoch", "replicaof", "flags", "mflags", "cport", "port", "pport", "myip", "ver", "myslots"
)
"""What a header says that the machine could follow; the rest are clocks, and the current epoch, which may lag."""
SECONDS_CACHED: Final = 256
NOWHERE: Final[dict[str, int]] = {}
UNSETTLED: Final = FAILURES | HANDSHAKE | MEET | MYSELF


News = tuple[Peer, list[tuple[Peer, GossipEntry]], list[Peer]]
"""What a quiet message tells: who sent it, younger pong times of others, and failures that it reports again."""


def news_of(view: View, link: Link, message: Message, peer_ip: str, now_ms: int) -> News | None:
    """What a message on *link* tells if it can change nothing but clocks; None leaves it to the machine.

    A driver that answers PINGs builds the PONG between this and `settle`: it says what held when the PING came (R41).
    """
    header, body = message.header, message.body
    if type(header) is not Header or type(body) is not Gossip or message.rest is not None:
        return None
    nodes = view.nodes
    peer = nodes.get(header.sender)
    if peer is None or peer.quiet_version != view.version or link.node != peer.id:
        return None
    kind = header.type
    if (
        (header is not peer.quiet_header and header is not peer.quiet_before and said_by(header) != peer.quiet_said)
        or header.current_epoch > view.current_epoch
        or peer.flags & UNSETTLED
        or peer.quiet_ip != peer_ip
        or kind > PONG
        or (kind == PING and not link.inbound)
        or (body.extensions is not peer.quiet_extensions and body.extensions != peer.quiet_extensions)
    ):
        return None
    if header is not peer.quiet_header:
        peer.quiet_before, peer.quiet_header = peer.quiet_header, header
    limit_ms = now_ms + CLOCK_SLACK_MS
    reported = view.reported
    told, places = view.told, view.places if view.placed == view.members and not reported else NOWHERE
    younger: list[tuple[Peer, GossipEntry]] = []
    repeated: list[Peer] = []
    for entry in body.entries:
        place = places.get(entry[NODE])
        ours = told[place] if place is not None else None
        if ours is entry:
            continue
        if (
            ours is not None and not entry[FLAGS] & FAILURES
        ):  # what we would say, of healthy nodes only, is what we know
            if entry[PONG_RECEIVED] > ours[PONG_RECEIVED] and entry[PONG_RECEIVED] * 1000 <= limit_ms:
                younger.append((nodes[entry[NODE]], entry))
            continue
        known = nodes.get(entry[NODE])
        if known is None:
            return None
        if (entry[FLAGS] | known.flags) & FAILURES:
            if not _repeats_failure(view, peer, known, entry):
                return None
            repeated.append(known)
            continue
        if reported and known.reports:
            return None
        if known.pong_received_ms < entry[PONG_RECEIVED] * 1000 <= limit_ms:
            younger.append((known, entry))
    return peer, younger, repeated


def settle(view: View, link: Link, header: Header, news: News, now_ms: int) -> None:
    """Move the clocks as the *news* of a quiet message say (R37, R44, R50, R51)."""
    peer, younger, repeated = news
    peer.data_received_ms = now_ms
    peer.repl_offset = header.offset
    if header.type == PONG and not link.inbound:
        peer.pong_received_ms = now_ms
        peer.ping_sent_ms = 0
        view.told[peer.place] = None
    if younger:
        _refresh(view, younger)
    if repeated and not view.profile.reports_end_at_fail:
        for known in repeated:
            if peer.id in known.reports:
                known.reports[peer.id] = now_ms


def _repeats_failure(view: View, peer: Peer, known: Peer, entry: GossipEntry) -> bool:
    """Whether *peer* says again what it has reported of a node that is FAIL: only the report's time moves (R51)."""
    if not (entry.flags & FAILURES and known.flags & FAIL) or known is peer:
        return False
    return view.profile.reports_end_at_fail or not may_report(view, peer) or peer.id in known.reports


def _refresh(view: View, younger: list[tuple[Peer, GossipEntry]]) -> None:
    """Take over younger pong times, in the order of the entries (R44), and with them the entries themselves, if they say
    what we would say: then many nodes hold one and the same.
    """
    clean_only, told = view.profile.gossip_refreshes_clean_only, view.told
    for known, entry in younger:
        pong_ms = milliseconds(entry[PONG_RECEIVED])
        if known.ping_sent_ms or known is view.myself or known.pong_received_ms >= pong_ms:
            continue
        if not clean_only or not known.flags & (HANDSHAKE | MEET):
            known.pong_received_ms = pong_ms
            ours = told[known.place]
            told[known.place] = (
                entry if ours is not None and not entry[PING_SENT] and ours[ADDRESS:] == entry[ADDRESS:] else None
            )


@lru_cache(maxsize=SECONDS_CACHED)
def one_second(second: int) -> int:
    """The same second as the same object, wherever it is told: that one is in the processor's cache."""
    return second


@lru_cache(maxsize=SECONDS_CACHED)
def milliseconds(seconds: int) -> int:
    """Seconds as milliseconds; the same seconds are one object, not one in each of many tables."""
    return seconds * 1000


def remember_quiet(view: View, event: MessageReceived) -> None:
    """The machine read this message without an effect but a PONG: the next one like it is quiet."""
    header, body = event.message.header, event.message.body
    if type(header) is not Header or type(body) is not Gossip or header.type > PONG or header.mflags[0] & PAUSED:
        return
    link = view.links.get(event.link)
    peer = view.nodes.get(header.sender)
    if peer is None or link is None or link.node != peer.id:
        return
    peer.quiet_said = said_by(header)
    peer.quiet_header = peer.quiet_before = header
    peer.quiet_extensions = body.extensions
    peer.quiet_ip = event.peer_ip
    peer.quiet_version = view.version
