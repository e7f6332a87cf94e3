"""Bus links: open, lose, recycle and repair (R27, R29, R30, R35, R60)."""

from __future__ import annotations

from cluster_core.gossip.events import CloseLink
from cluster_core.gossip.flags import HANDSHAKE, LIGHT_HEADER_MODULE, MEET, MYSELF, NOADDR
from cluster_core.gossip.handshake import drop_link, handshake_timeout_ms
from cluster_core.gossip.view import Link, Peer
from cluster_core.node.agenda import make_due
from cluster_core.node.events import OpenLink
from cluster_core.node.pings import MEET as MEET_TYPE
from cluster_core.node.pings import PING, send_ping
from cluster_core.node.state import NodeState

LINK_STEP = 2
"""Outbound links have even numbers, so drivers can use odd ones for accepted links."""


def open_link(state: NodeState, peer: Peer) -> None:
    """Start connecting to a node; the link exists from now on, even while it connects (R29, R32)."""
    link = state.next_link
    state.next_link += LINK_STEP
    state.view.links[link] = Link(peer.id, inbound=False, made_ms=state.now_ms)
    peer.outbound = link
    peer.tried_ms = state.now_ms
    state.fit_version = -1
    state.out.append(OpenLink(link, peer.id, peer.ip, peer.cport))


def link_opened(state: NodeState, link_id: int) -> None:
    """Send the first PING or MEET; a pending PING stays pending, so reconnecting does not hide failures (R30)."""
    link = state.view.links.get(link_id)
    peer = state.view.nodes.get(link.node) if link is not None and link.node is not None else None
    if link is None or link.inbound or peer is None:
        state.out.append(CloseLink(link_id))
        return
    pending_ms = peer.ping_sent_ms
    meets = bool(peer.flags & MEET)
    send_ping(state, peer, MEET_TYPE if meets else PING)
    if pending_ms:
        state.view.note_ping(peer, pending_ms)
    if meets and not state.view.profile.meet_until_contact:
        peer.flags &= ~MEET
        state.view.forget_entry(peer)
    make_due(state, peer)


def link_lost(state: NodeState, link_id: int) -> None:
    """Remove a closed link; the cron reopens outbound ones, the peer its own (R27, R60)."""
    link = state.view.links.get(link_id)
    peer = state.view.nodes.get(link.node) if link is not None and link.node is not None else None
    if peer is not None:
        make_due(state, peer)
        if peer.inbound == link_id:
            peer.inbound_lost_ms = state.now_ms
    drop_link(state.view, link_id)
    state.fit_version = -1


def close_link(state: NodeState, link_id: int) -> None:
    """Close an outbound or inbound link."""
    link_lost(state, link_id)
    state.out.append(CloseLink(link_id))


def must_recycle(
    *, link_age_ms: int, ping_age_ms: int, data_age_ms: int, is_pending: bool, node_timeout_ms: int
) -> bool:
    """Return whether to reconnect: an old link, an unanswered PING and no data for half the node timeout (R35).

    >>> must_recycle(link_age_ms=2001, ping_age_ms=1001, data_age_ms=1001, is_pending=True, node_timeout_ms=2000)
    True
    """
    half_ms = node_timeout_ms // 2
    return is_pending and link_age_ms > node_timeout_ms and ping_age_ms > half_ms and data_age_ms > half_ms


def recycle_link(state: NodeState, peer: Peer) -> None:
    """Close our link to a silent node; the next cron reopens it (R35)."""
    link_id = peer.outbound
    link = state.view.links.get(link_id) if link_id is not None else None
    if link is None or link_id is None:
        return
    now_ms = state.now_ms
    if must_recycle(
        link_age_ms=now_ms - link.made_ms,
        ping_age_ms=now_ms - peer.ping_sent_ms,
        data_age_ms=now_ms - peer.data_received_ms,
        is_pending=peer.ping_sent_ms != 0,
        node_timeout_ms=state.view.node_timeout_ms,
    ):
        close_link(state, link_id)


def answer_late_meet(state: NodeState, sender: str | None) -> None:
    """Reconnect to a known node that sends a MEET long after its handshake (R60)."""
    peer = state.view.nodes.get(sender or "")
    if peer is None or peer.outbound is None or peer.flags & (HANDSHAKE | MYSELF):
        return
    if state.now_ms - peer.ctime_ms > handshake_timeout_ms(state.view.node_timeout_ms):
        close_link(state, peer.outbound)


def meet_due_ms(peer: Peer, node_timeout_ms: int) -> int:
    """Return when to send a MEET to a node without inbound link: a handshake timeout after its last one (R60)."""
    return max(peer.inbound_lost_ms, peer.ctime_ms, peer.meet_sent_ms) + handshake_timeout_ms(node_timeout_ms)


def repair_membership(state: NodeState, peer: Peer) -> None:
    """Send a MEET to a node without inbound link, which may not know us (R60)."""
    if peer.outbound is None or peer.inbound is not None or peer.flags & (HANDSHAKE | NOADDR | MEET):
        return
    if not peer.flags & LIGHT_HEADER_MODULE:
        return
    if state.now_ms > meet_due_ms(peer, state.view.node_timeout_ms):
        peer.flags |= MEET
        state.view.forget_entry(peer)
        state.log("*", f"Sending MEET packet to node {peer.id} because there is no inbound link for it")
        send_ping(state, peer, MEET_TYPE)
