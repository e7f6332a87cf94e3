"""Manual failover: the replica asks, the master pauses and tells its offset, the replica catches up (R97 to R102)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.view import Peer
from cluster_core.node.agenda import hasten
from cluster_core.node.events import PauseClients
from cluster_core.node.headers import bare_message
from cluster_core.node.pings import PING, send_on_link
from cluster_core.node.promotion import reset_manual_failover
from cluster_core.node.state import TODO_FAILOVER, TODO_MANUAL, NodeState, named
from cluster_core.wire.bus import MessageType

PAUSE_FACTOR: Final = 2
"""Clients are paused for this many times as long as the failover may take (R98, `CLUSTER_MF_PAUSE_MULT`)."""


def ask_master(state: NodeState, master: Peer) -> None:
    """Send MFSTART to our master (R97)."""
    if master.outbound is not None:
        state.send(master.outbound, bare_message(state, MessageType.MFSTART))


def begin_as_master(state: NodeState, replica: Peer, link: int) -> None:
    """A replica of ours wants to take over: pause, and tell it our offset at once (R98)."""
    view, now_ms, limit_ms = state.view, state.now_ms, state.settings.manual_failover_ms
    reset_manual_failover(state)
    view.mf_end_ms = now_ms + limit_ms
    view.mf_replica = replica.id
    hasten(state, replica)
    state.paused = True
    state.log("#", f"Manual failover requested by replica {named(state, replica.id)}.")
    state.out.append(PauseClients(now_ms + PAUSE_FACTOR * limit_ms))
    send_on_link(state, link, PING)


def note_paused_offset(state: NodeState, offset: int) -> None:
    """Our master told the offset at which it stands still (R99); outside a manual failover of ours that is nothing."""
    if not state.view.mf_end_ms:
        state.view.mf_master_offset = -1
        return
    word = state.view.profile.word_for_master
    state.log("*", f"Received replication offset for paused {word} manual failover: {offset}")
    state.todo |= TODO_MANUAL


def check_offset(state: NodeState) -> None:
    """Once we have processed all that our master has sent, the election may start (R99, clusterHandleManualFailover)."""
    view = state.view
    state.todo &= ~TODO_MANUAL
    if view.myself.flags & MASTER or not view.mf_end_ms or state.mf_can_start or view.mf_master_offset == -1:
        return
    if offsets_match(view.mf_master_offset, state.offset):
        state.mf_can_start = True
        word = view.profile.word_for_master
        state.log("*", f"All {word} replication stream processed, manual failover can start.")
        state.todo |= TODO_FAILOVER


def offsets_match(master_offset: int, offset: int) -> bool:
    """R99: the paused master's offset is known and is ours.

    >>> offsets_match(7, 7), offsets_match(-1, -1)
    (True, False)
    """
    return master_offset != -1 and master_offset == offset


def expire(state: NodeState) -> None:
    """Give up what takes too long (R100)."""
    if state.view.mf_end_ms and state.view.mf_end_ms < state.now_ms:
        state.log("#", "Manual failover timed out.")
        reset_manual_failover(state)
