"""Config epochs: learned from headers, bumped without consensus, collisions (R25, R48, R79, R80)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed, Effect, EpochBumped
from cluster_core.gossip.view import Peer, View
from cluster_core.wire.bus import Header

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
    """Take a new config epoch on a collision with a greater id (R80, clusterHandleConfigEpochCollision).

    Both the header's and the sender's known epoch must equal ours: a header may be older than an UPDATE.
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
