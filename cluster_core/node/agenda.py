"""When each node is worth the cron's next look: lists of nodes by spans of time, in which entries that were overtaken stay
and are skipped.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from cluster_core.gossip.flags import HANDSHAKE, MEET, NOADDR, PFAIL
from cluster_core.gossip.view import Peer
from cluster_core.node.state import NodeState

UNSETTLED: Final = PFAIL | HANDSHAKE | NOADDR | MEET
TAKEN: Final = -1
"""`Peer.due_ms` of a node that is being looked at."""
SPAN_MS: Final = 128
"""Nodes that are due within the same span, a bit more than a cron, stand in one list."""
_by_id: Final = attrgetter("id")


def take_due(state: NodeState, now_ms: int) -> list[Peer]:
    """The nodes that are worth a look, each once, by id; `put_back` says when they are the next time."""
    if state.agenda_nodes != len(state.view.nodes):
        _fill(state)
    spans, due = state.agenda_spans, list[Peer]()
    last = now_ms // SPAN_MS
    while spans and spans[0] < last:
        span = heappop(spans)
        _take(state, span, state.agenda.pop(span), now_ms, due)
    if spans and spans[0] == last:
        later = _take(state, last, state.agenda[last], now_ms, due)
        if later:
            state.agenda[last] = later
        else:
            heappop(spans)
            del state.agenda[last]
    if len(due) > 1:
        due.sort(key=_by_id)
    return due


def _take(state: NodeState, span: int, peers: list[Peer], now_ms: int, due: list[Peer]) -> list[Peer]:
    """Add to *due* who of *peers* is due; who is later within the same span is returned."""
    interval_ms = state.settings.ping_due_ms
    latest_ms = now_ms + min(interval_ms, state.view.node_timeout_ms // 2)
    switching = state.view.mf_end_ms
    later: list[Peer] = []
    for peer in peers:
        due_ms = peer.due_ms
        if due_ms // SPAN_MS != span:
            continue
        if due_ms <= now_ms:
            pong_due_ms = peer.pong_received_ms + interval_ms
            if (
                pong_due_ms < now_ms
                or peer.ping_sent_ms
                or switching
                or peer.outbound is None
                or peer.inbound is None
                or peer.flags & UNSETTLED
            ):
                peer.due_ms = TAKEN
                due.append(peer)
                continue
            due_ms = (pong_due_ms if pong_due_ms < latest_ms else latest_ms) + 1  # gossip has told of a younger pong
            if due_ms // SPAN_MS != span:
                put_back(state, peer, due_ms)
                continue
            peer.due_ms = due_ms
        later.append(peer)
    return later


def put_back(state: NodeState, peer: Peer, due_ms: int) -> None:
    """A node is worth a look at *due_ms*."""
    peer.due_ms = due_ms
    span = due_ms // SPAN_MS
    peers = state.agenda.get(span)
    if peers is None:
        state.agenda[span] = [peer]
        heappush(state.agenda_spans, span)
    else:
        peers.append(peer)


def hasten(state: NodeState, peer: Peer) -> None:
    """Something happened to a node: the next cron looks at it."""
    if peer.due_ms and peer is not state.view.myself:
        put_back(state, peer, 0)


def hasten_all(state: NodeState) -> None:
    """Something happened to some node: the next cron looks at all of them."""
    state.agenda_nodes = 0


def _fill(state: NodeState) -> None:
    """Look at every node."""
    view = state.view
    peers = [peer for peer in view.nodes.values() if peer is not view.myself]
    for peer in peers:
        peer.due_ms = 0
    state.agenda, state.agenda_spans = {0: peers}, [0]
    state.agenda_nodes = len(view.nodes)
