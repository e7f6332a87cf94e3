"""Config epochs (learned from headers, bumped, collisions; R25, R48, R79, R80), and votes of a master in them (R90, R92)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, Field, Refusal
from cluster_core.gossip.events import Changed, Effect, EpochBumped
from cluster_core.gossip.flags import FAIL, MASTER
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.wire.bus import Header, MessageFlag

EPOCH_MAX: Final = (1 << 64) - 1


def learn_epochs(view: View, sender: Peer, header: Header) -> list[Effect]:
    """Raise the current epoch and the sender's config epoch to those of its header (R48)."""
    if header.current_epoch > view.current_epoch:
        view.current_epoch = header.current_epoch
    if header.config_epoch <= sender.config_epoch:
        return []
    if header.replicaof and not view.profile.replicas_raise_epochs:
        return []
    sender.config_epoch = header.config_epoch
    return [Changed(sender.id, Field.CONFIG_EPOCH, Cause.EPOCH_OF_HEADER)]


def next_epoch(epoch: int) -> int:
    """Return *epoch* + 1; 64 bits wrap to 0 like the server's, which only a hostile header causes."""
    return (epoch + 1) & EPOCH_MAX


def bumped_epoch(my_epoch: int, current_epoch: int, max_epoch: int) -> int | None:
    """Return the epoch of a bump without consensus; None if ours is already the greatest (R79).

    >>> bumped_epoch(3, 5, 5), bumped_epoch(5, 5, 5), bumped_epoch(0, 0, 0)
    (6, None, 1)
    """
    if my_epoch == 0 or my_epoch != max_epoch:
        return next_epoch(max(current_epoch, max_epoch))
    return None


def bump_without_consensus(view: View, cause: Cause = Cause.EPOCH_BUMPED) -> list[Effect]:
    """Take a new greatest config epoch unless ours is it (R79, clusterBumpConfigEpochWithoutConsensus)."""
    epoch = bumped_epoch(view.myself.config_epoch, view.current_epoch, view.max_epoch())
    return [] if epoch is None else _take_epoch(view, epoch, cause)


def collides(*, my_id: str, sender_id: str, my_epoch: int, sender_epoch: int) -> bool:
    """Return whether two masters share a config epoch and ours, the smaller id, must change (R80).

    >>> collides(my_id="a", sender_id="b", my_epoch=1, sender_epoch=1)
    True
    """
    return my_epoch == sender_epoch and my_id < sender_id


def settle_collision(view: View, sender: Peer, header: Header) -> list[Effect]:
    """Take a new config epoch on a collision with a greater id (R80, clusterHandleConfigEpochCollision)."""
    myself = view.myself
    if not (sender.is_master and myself.is_master) or sender.config_epoch != myself.config_epoch:
        return []
    if not collides(
        my_id=myself.id, sender_id=sender.id, my_epoch=myself.config_epoch, sender_epoch=header.config_epoch
    ):
        return []
    return _take_epoch(view, next_epoch(view.current_epoch), Cause.EPOCH_COLLISION)


def _take_epoch(view: View, epoch: int, cause: Cause) -> list[Effect]:
    view.current_epoch = view.myself.config_epoch = epoch
    return [EpochBumped(epoch, cause), Changed(view.myself.id, Field.CONFIG_EPOCH, cause)]


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
