"""State of a manual failover (R48, R98 to R100)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import PauseMark
from cluster_core.gossip.events import Effect, ManualFailoverMarked
from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.view import Peer, View
from cluster_core.wire.bus import Header, MessageFlag

MANUAL_FAILOVER_MS: Final = 5000
"""Timeout of a manual failover in ms (R97, R98)."""


def hear_mfstart(view: View, sender: Peer, now_ms: int) -> list[Effect]:
    """Pause at our replica's request for a manual failover (R98)."""
    if not view.myself.flags & MASTER or sender.replicaof != view.myself.id:
        return []
    view.mf_end_ms = now_ms + MANUAL_FAILOVER_MS
    view.mf_replica = sender.id
    return [ManualFailoverMarked(sender.id, PauseMark.MFSTART, sender.repl_offset)]


def hear_pause(view: View, sender: Peer, header: Header) -> list[Effect]:
    """Record the offset to reach when our master is paused (R48, R99)."""
    if not header.mflags[0] & MessageFlag.PAUSED or view.myself.replicaof != sender.id:
        return []
    if view.mf_master_offset != -1:
        return []
    view.mf_master_offset = header.offset
    return [ManualFailoverMarked(sender.id, PauseMark.PAUSED, header.offset)]


def expire_manual_failover(view: View, now_ms: int) -> list[Effect]:
    """Abort a timed-out manual failover (R100)."""
    if view.mf_end_ms and now_ms > view.mf_end_ms:
        view.mf_end_ms, view.mf_replica, view.mf_master_offset = 0, "", -1
    return []
