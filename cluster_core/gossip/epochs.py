"""Config epochs: what headers say, bumps without consensus, and collisions (R25, R48, R79, R80)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed, Effect, EpochBumped
from cluster_core.gossip.view import Peer, View
from cluster_core.wire.bus import Header

EPOCH_MAX: Final = (1 << 64) - 1


def learn_epochs(view: View, sender: Peer, header: Header) -> list[Effect]:
    """Raise our current epoch and the sender's config epoch to what its header says (R48)."""
    if header.current_epoch > view.current_epoch:
        view.current_epoch = header.current_epoch
    if header.config_epoch <= sender.config_epoch:
        return []
    if header.replicaof and not view.profile.replicas_raise_epochs:
        return []
    sender.config_epoch = header.config_epoch
    return [Changed(sender.id, Field.CONFIG_EPOCH, Cause.EPOCH_OF_HEADER)]


def next_epoch(epoch: int) -> int:
    """The epoch behind *epoch*; like the servers' 64 bits it starts again at 0, which only a hostile header brings about."""
    return (epoch + 1) & EPOCH_MAX


def bumped_epoch(my_epoch: int, current_epoch: int, max_epoch: int) -> int | None:
    """The epoch that a bump without consensus takes, None if ours is the greatest already (R79).

    >>> bumped_epoch(3, 5, 5), bumped_epoch(5, 5, 5), bumped_epoch(0, 0, 0)
    (6, None, 1)
    """
    if my_epoch == 0 or my_epoch != max_epoch:
        return next_epoch(max(current_epoch, max_epoch))
    return None


def bump_without_consensus(view: View, cause: Cause = Cause.EPOCH_BUMPED) -> list[Effect]:
    """Take a new greatest config epoch unless we have it (R79, clusterBumpConfigEpochWithoutConsensus)."""
    epoch = bumped_epoch(view.myself.config_epoch, view.current_epoch, view.max_epoch())
    return [] if epoch is None else _take_epoch(view, epoch, cause)


def collides(*, my_id: str, sender_id: str, my_epoch: int, sender_epoch: int) -> bool:
    """R80: two masters with one config epoch, and ours is the smaller id, which has to move.

    >>> collides(my_id="a", sender_id="b", my_epoch=1, sender_epoch=1)
    True
    """
    return my_epoch == sender_epoch and my_id < sender_id


def settle_collision(view: View, sender: Peer, header: Header) -> list[Effect]:
    """Move to a new config epoch when we collide and have the smaller id (R80, clusterHandleConfigEpochCollision).

    Both what the header says and what is known of the sender must be our epoch: a header may lag behind what an UPDATE told.
    """
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
