"""Recognises messages that can change nothing before the machine reads them: the header repeats, the gossip has no
news.

Most of a bus is PINGs and PONGs that repeat what is known.  Such a message only moves clocks (data_received,
pong_received, ping_sent, replication offset) and is answered; `settle_if_quiet` does exactly that.  What it is not
sure about it leaves to the machine, so a wrong "no" costs time and never truth.

A message is quiet when the machine has read one with the same header to its end without any effect but a PONG, the
view has not changed since (`View.version`), and its gossip names only nodes that are known, and healthy on both sides or
failing on both.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from cluster_core.gossip.events import Effect, MessageReceived, ReplyPong
from cluster_core.gossip.failure_detection import may_report
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MEET, MYSELF
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS
from cluster_core.gossip.view import Peer, View
from cluster_core.wire.bus import Gossip, GossipEntry, Header, MessageFlag, MessageType

PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
PAUSED: Final = int(MessageFlag.PAUSED)
said_by: Final = attrgetter(
    "config_epoch", "replicaof", "flags", "mflags", "cport", "port", "pport", "myip", "ver", "myslots"
)
"""What a header says that the machine could follow; the rest are clocks, and the current epoch, which may lag."""
UNSETTLED: Final = FAILURES | HANDSHAKE | MEET | MYSELF


def settle_if_quiet(view: View, event: MessageReceived, now_ms: int) -> list[Effect] | None:
    """Settle a message that can change nothing (R37, R41, R44, R48, R50); None leaves it to the machine, untouched."""
    message = event.message
    header, body = message.header, message.body
    if type(header) is not Header or type(body) is not Gossip or message.rest is not None:
        return None
    nodes = view.nodes
    peer = nodes.get(header.sender)
    link = view.links.get(event.link)
    if peer is None or link is None or peer.quiet_version != view.version or link.node != peer.id:
        return None
    kind = header.type
    if (
        (header is not peer.quiet_header and said_by(header) != peer.quiet_said)
        or header.current_epoch > view.current_epoch
        or peer.flags & UNSETTLED
        or peer.quiet_ip != event.peer_ip
        or kind > PONG
        or (kind == PING and not link.inbound)
        or (body.extensions and body.extensions != peer.quiet_extensions)
        or (peer.quiet_extensions and not body.extensions)
    ):
        return None
    peer.quiet_header = header
    limit_ms = now_ms + CLOCK_SLACK_MS
    younger: list[tuple[Peer, int]] | None = None
    reported = view.reported
    repeated: list[Peer] | None = None
    for entry in body.entries:
        known = nodes.get(entry.node)
        if known is None:
            return None
        if (entry.flags | known.flags) & FAILURES:
            if not _repeats_failure(view, peer, known, entry):
                return None
            repeated = [known] if repeated is None else [*repeated, known]
            continue
        if reported and known.reports:
            return None
        pong_ms = entry.pong_received_s * 1000
        if known.pong_received_ms < pong_ms <= limit_ms:
            if younger is None:
                younger = []
            younger.append((known, pong_ms))
    peer.data_received_ms = now_ms
    peer.repl_offset = header.offset
    if kind == PONG and not link.inbound:
        peer.pong_received_ms = now_ms
        peer.ping_sent_ms = 0
        view.told[peer.place] = None
    if younger is not None:
        _refresh(view, younger)
    if repeated is not None:
        for known in repeated:
            if peer.id in known.reports and not view.profile.reports_end_at_fail:
                known.reports[peer.id] = now_ms
    return [ReplyPong(event.link)] if kind == PING else []


def _repeats_failure(view: View, peer: Peer, known: Peer, entry: GossipEntry) -> bool:
    """Whether *peer* says again what it has reported of a node that is FAIL: only the report's time moves (R51)."""
    if not (entry.flags & FAILURES and known.flags & FAIL) or known is peer:
        return False
    return view.profile.reports_end_at_fail or not may_report(view, peer) or peer.id in known.reports


def _refresh(view: View, younger: list[tuple[Peer, int]]) -> None:
    """Take over younger pong times, in the order of the entries (R44)."""
    clean_only = view.profile.gossip_refreshes_clean_only
    for known, pong_ms in younger:
        if known.ping_sent_ms or known is view.myself or known.pong_received_ms >= pong_ms:
            continue
        if not clean_only or not known.flags & (HANDSHAKE | MEET):
            known.pong_received_ms = pong_ms
            view.told[known.place] = None


def remember_quiet(view: View, event: MessageReceived) -> None:
    """The machine read this message without an effect but a PONG: the next one like it is quiet."""
    header, body = event.message.header, event.message.body
    if type(header) is not Header or type(body) is not Gossip or header.type > PONG or header.mflags[0] & PAUSED:
        return
    link = view.links.get(event.link)
    peer = view.nodes.get(header.sender)
    if peer is None or link is None or link.node != peer.id:
        return
    peer.quiet_said, peer.quiet_header = said_by(header), header
    peer.quiet_extensions = body.extensions
    peer.quiet_ip = event.peer_ip
    peer.quiet_version = view.version
