"""Schedule of the next cron check of each node, as lists by time span; stale entries stay in the lists and are skipped."""

from __future__ import annotations

from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from cluster_core.gossip.flags import HANDSHAKE, MEET, NOADDR, PFAIL
from cluster_core.gossip.view import Peer
from cluster_core.node.state import NodeState

UNSETTLED: Final = PFAIL | HANDSHAKE | NOADDR | MEET
TAKEN: Final = -1
"""`Peer.due_ms` of a node being checked."""
SPAN_MS: Final = 128
"""Nodes due within one span (slightly more than a cron) share a list."""
_by_id: Final = attrgetter("id")


def take_due(state: NodeState, now_ms: int) -> list[Peer]:
    """Return the nodes due for a check, without duplicates, by id; `put_back` schedules the next check."""
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
    """Add due nodes of *peers* to *due*; return those due later in the same span."""
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
            due_ms = (pong_due_ms if pong_due_ms < latest_ms else latest_ms) + 1  # gossip brought a newer pong
            if due_ms // SPAN_MS != span:
                put_back(state, peer, due_ms)
                continue
            peer.due_ms = due_ms
        later.append(peer)
    return later


def put_back(state: NodeState, peer: Peer, due_ms: int) -> None:
    """Schedule a check of *peer* at *due_ms*."""
    peer.due_ms = due_ms
    span = due_ms // SPAN_MS
    peers = state.agenda.get(span)
    if peers is None:
        state.agenda[span] = [peer]
        heappush(state.agenda_spans, span)
    else:
        peers.append(peer)


def make_due(state: NodeState, peer: Peer) -> None:
    """Schedule a check of *peer* for the next cron."""
    if peer.due_ms and peer is not state.view.myself:
        put_back(state, peer, 0)


def make_all_due(state: NodeState) -> None:
    """Schedule a check of all nodes for the next cron."""
    state.agenda_nodes = 0


def _fill(state: NodeState) -> None:
    """Return all nodes for a check."""
    view = state.view
    peers = [peer for peer in view.nodes.values() if peer is not view.myself]
    for peer in peers:
        peer.due_ms = 0
    state.agenda, state.agenda_spans = {0: peers}, [0]
    state.agenda_nodes = len(view.nodes)
