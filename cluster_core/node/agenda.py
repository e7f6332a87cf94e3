"""When each node is worth the cron's next look: a heap of times, in which entries that were overtaken stay and are skipped."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import Final

from cluster_core.gossip.flags import HANDSHAKE, MEET, NOADDR, PFAIL
from cluster_core.gossip.view import Peer
from cluster_core.node.state import NodeState

UNSETTLED: Final = PFAIL | HANDSHAKE | NOADDR | MEET
TAKEN: Final = -1
"""`Peer.due_ms` of a node that is being looked at."""
_by_id: Final = attrgetter("id")


def take_due(state: NodeState, now_ms: int) -> list[Peer]:
    """The nodes that are worth a look, each once, by id; `put_back` says when they are the next time."""
    agenda = state.agenda
    if state.agenda_nodes != len(state.view.nodes):
        _fill(state)
    due: list[Peer] = []
    interval_ms = state.settings.ping_due_ms
    latest_ms = now_ms + min(interval_ms, state.view.node_timeout_ms // 2)
    switching = state.view.mf_end_ms
    while agenda and agenda[0][0] <= now_ms:
        time_ms, entry, peer = agenda[0]
        if time_ms != peer.due_ms:
            heappop(agenda)
            continue
        pong_due_ms = peer.pong_received_ms + interval_ms
        if (
            pong_due_ms >= now_ms
            and not peer.ping_sent_ms
            and not switching
            and peer.outbound is not None
            and peer.inbound is not None
            and not peer.flags & UNSETTLED
        ):  # gossip has told of a younger pong: nothing is due yet
            peer.due_ms = min(pong_due_ms, latest_ms) + 1
            heapreplace(agenda, (peer.due_ms, entry, peer))
            continue
        heappop(agenda)
        peer.due_ms = TAKEN
        due.append(peer)
    if len(due) > 1:
        due.sort(key=_by_id)
    return due


def put_back(state: NodeState, peer: Peer, due_ms: int) -> None:
    """A node is worth a look at *due_ms*."""
    peer.due_ms = due_ms
    state.agenda_entries += 1
    heappush(state.agenda, (due_ms, state.agenda_entries, peer))


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
    state.agenda.clear()
    for peer in view.nodes.values():
        if peer is not view.myself:
            peer.due_ms = 0
            state.agenda_entries += 1
            state.agenda.append((0, state.agenda_entries, peer))
    heapify(state.agenda)
    state.agenda_nodes = len(view.nodes)
