"""Vote decisions of a master, with the reason for a refusal (R90, R92)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Refusal
from cluster_core.gossip.flags import FAIL, MASTER
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.wire.bus import Header, MessageFlag

VOTE_SPACING_FACTOR: Final = 2
"""Minimum node timeouts between votes for replicas of one master, if the profile enforces it (R90)."""


def vote_refusal(view: View, candidate: Peer, header: Header, now_ms: int) -> Refusal:
    """Return why an AUTH_REQUEST is refused, `Refusal.NONE` if granted; checks in the server's order (R90)."""
    if not view.myself.votes:
        return Refusal.NOT_A_VOTER
    if header.current_epoch < view.current_epoch:
        return Refusal.OLD_EPOCH
    if view.last_vote_epoch == view.current_epoch:
        return Refusal.ALREADY_VOTED
    if candidate.flags & MASTER:
        return Refusal.IS_A_MASTER
    master = view.master_of(candidate)
    if master is None:
        return Refusal.UNKNOWN_MASTER
    if not master.flags & FAIL and not header.mflags[0] & MessageFlag.FORCEACK:
        return Refusal.MASTER_IS_UP
    spacing_ms = VOTE_SPACING_FACTOR * view.node_timeout_ms
    if view.profile.vote_spacing and master.voted_time_ms and now_ms - master.voted_time_ms < spacing_ms:
        return Refusal.TOO_SOON
    claimed = slot_bits(header.myslots) & ~view.unclaimed
    if claimed & master.slots and master.config_epoch > header.config_epoch:
        return Refusal.GREATER_SLOT_EPOCH
    claimed &= ~master.slots  # usually no slot is left
    if claimed and any(
        owner.config_epoch > header.config_epoch and owner.slots & claimed for owner in view.nodes.values()
    ):
        return Refusal.GREATER_SLOT_EPOCH
    return Refusal.NONE


def note_vote(view: View, candidate: Peer, now_ms: int) -> None:
    """Record our vote in the current epoch (R90)."""
    view.last_vote_epoch = view.current_epoch
    master = view.master_of(candidate)
    if master is not None:
        master.voted_time_ms = now_ms
