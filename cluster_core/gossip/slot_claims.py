"""Slot claims: when they are read, who wins, how the loser reacts, who gets an UPDATE (R23, R68 to R78)."""

from __future__ import annotations

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.epochs import bump_without_consensus
from cluster_core.gossip.events import Changed, Effect, SendUpdate, SlotsLost
from cluster_core.gossip.flags import MASTER, MIGRATE_TO, REPLICA
from cluster_core.gossip.own_claims import assign_slots
from cluster_core.gossip.profile import ChainFold
from cluster_core.gossip.roles import become_master, fold_chain, replicate, same_shard
from cluster_core.gossip.view import EVERY_SLOT, Peer, View, slot_bits
from cluster_core.wire.bus import Header, Update


def bits_of(slots: dict[int, str]) -> int:
    """Return open slots as a bitmap."""
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits


def read_claims(view: View, sender: Peer, header: Header, *, was_replica: bool) -> list[Effect]:
    """Compare the slots in a PING, PONG or MEET with our table, then apply R70 and R76 (R69)."""
    claimed = slot_bits(header.myslots)
    if view.profile.claims_of_replicas_read:
        master = sender if sender.flags & MASTER else view.master_of(sender)
        if master is None or master.slots == claimed:
            return []
        effects: list[Effect] = []
        if sender.flags & MASTER:
            effects += take_claims(view, sender, header.config_epoch, claimed)
        return effects + answer_stale_claims(view, sender, header.config_epoch, claimed)
    if not sender.flags & MASTER or (sender.slots == claimed and not was_replica):
        return []
    effects = take_claims(view, sender, header.config_epoch, claimed)
    return effects + answer_stale_claims(view, sender, header.config_epoch, claimed)


def take_claims(view: View, sender: Peer, epoch: int, claimed: int) -> list[Effect]:
    """Assign won slots to *sender*, and react if they were ours (R70 to R74, clusterUpdateSlotsConfigWith)."""
    myself = view.myself
    if sender is myself:
        return []
    ours = myself if myself.flags & MASTER else view.master_of(myself)
    had = sender.slots
    view.unclaimed &= ~(claimed & had)
    contested = claimed & ~had
    if view.profile.importing_slots_stay and view.importing:
        contested &= ~bits_of(view.importing)
    effects: list[Effect] = []
    taken = contested & ~view.assigned()
    lost_by_us = 0
    for owner in view.nodes.values():
        lost = owner.slots & contested if owner is not sender else 0
        if lost and owner.config_epoch >= epoch:
            lost &= view.unclaimed
        if lost:
            owner.slots ^= lost
            taken |= lost
            effects.append(Changed(owner.id, Field.SLOTS, Cause.SLOTS_CLAIMED))
            if owner is ours:
                lost_by_us = lost
            if owner is myself:
                effects.append(SlotsLost(sender.id, lost))
    if taken:
        view.unclaimed &= ~taken
        if not sender.slots and any(peer.replicaof for peer in view.nodes.values()):
            sender.flags |= MIGRATE_TO
        sender.slots |= taken
        view.state_stale = True
        effects.append(Changed(sender.id, Field.SLOTS, Cause.SLOTS_CLAIMED))
        _close_marks(view, taken, sender)
    if view.profile.unclaimed_noted:
        view.unclaimed |= sender.slots & ~claimed
    if view.migrating or view.importing:
        effects += _follow_migrations(view, sender, epoch, claimed)
    return effects + _follow_winner(view, sender, ours, epoch, claimed, lost_by_us)


def _close_marks(view: View, taken: int, winner: Peer) -> None:
    """Clear or move our marks on open slots with a new owner (R70).

    A migrating mark is cleared, in Valkey unless the winner is in our shard. Valkey also clears an importing mark, or
    moves it to a winner in the source's shard after a failover.
    """
    valkey = not view.profile.importing_slots_stay
    if not (valkey and same_shard(winner, view.myself)):
        for slot in [slot for slot in view.migrating if taken >> slot & 1]:
            del view.migrating[slot]
    if not valkey:
        return
    for slot in [slot for slot in view.importing if taken >> slot & 1]:
        source = view.nodes.get(view.importing[slot])
        if source is winner:
            continue
        if source is not None and same_shard(winner, source):
            view.importing[slot] = winner.id
        else:
            del view.importing[slot]


def _follow_migrations(view: View, sender: Peer, epoch: int, claimed: int) -> list[Effect]:
    """Apply R72: marks on unclaimed slots follow a failover of the target; an abandoned slot becomes ours."""
    if view.profile.importing_slots_stay or view.verdicts_observed:
        return []
    for slot, target_id in view.migrating.items():
        target = view.nodes.get(target_id)
        if claimed >> slot & 1 or target is None or target is sender or not same_shard(target, sender):
            continue
        if target.config_epoch < epoch or target.flags & REPLICA:
            view.migrating[slot] = sender.id
    if not view.myself.flags & MASTER:
        return []
    effects: list[Effect] = []
    for slot in [slot for slot, node in view.importing.items() if node == sender.id and not claimed >> slot & 1]:
        del view.importing[slot]
        if not view.myself.slots >> slot & 1:
            effects += assign_slots(view, view.myself, view.myself.slots | 1 << slot)
            effects += bump_without_consensus(view, Cause.IMPORT_CLOSED)
    return effects


def is_new_master_without_slots(view: View, sender: Peer, epoch: int, claimed: int) -> bool:
    """Return whether *sender* replaced a master without slots in our shard (R73, clusterUpdateSlotsConfigWith)."""
    myself = view.myself
    return (
        view.profile.shard_joins
        and myself.replicaof != sender.id
        and not claimed
        and not myself.slots
        and view.epoch_shown(myself) < epoch
        and same_shard(sender, myself)
    )


def follows_winner(
    *, lost_all: bool, may_migrate: bool, claimed_count: int, lost_count: int, shard_joins: bool, in_shard: bool
) -> bool:
    """Return whether a node becomes a replica of the winner (R73, clusterUpdateSlotsConfigWith).

    *lost_all*: it has a master, and its shard has no slot left.
    """
    if not lost_all:
        return False
    if shard_joins:
        return may_migrate or in_shard
    return may_migrate or claimed_count == lost_count


def _follow_winner(
    view: View, sender: Peer, ours: Peer | None, epoch: int, claimed: int, lost_by_us: int
) -> list[Effect]:
    myself = view.myself
    joins = view.profile.shard_joins
    has_winner = bool(lost_by_us) or is_new_master_without_slots(view, sender, epoch, claimed)
    if follows_winner(
        lost_all=has_winner and ours is not None and not ours.slots,
        may_migrate=view.replica_migration_allowed,
        claimed_count=claimed.bit_count(),
        lost_count=lost_by_us.bit_count(),
        shard_joins=joins,
        in_shard=same_shard(sender, myself),
    ):
        return replicate(view, sender, Cause.SLOTS_LOST)
    return fold_chain(view) if view.profile.chain_fold is ChainFold.WITH_SLOTS else []


def answer_stale_claims(view: View, sender: Peer, epoch: int, claimed: int) -> list[Effect]:
    """Send an UPDATE for the first claimed slot with an owner of a greater epoch (R76)."""
    first, about = EVERY_SLOT, None
    for owner in view.nodes.values():
        if owner is sender or owner.config_epoch <= epoch:
            continue
        disputed = owner.slots & claimed & ~view.unclaimed
        lowest = disputed & -disputed
        if disputed and lowest < first:
            first, about = lowest, owner
    return [] if about is None else [SendUpdate(sender.id, about.id)]


def read_update(view: View, update: Update) -> list[Effect]:
    """Apply an UPDATE about a known node with a smaller epoch (R78)."""
    node = view.nodes.get(update.node)
    if node is None or node.config_epoch >= update.config_epoch:
        return []
    effects = become_master(view, node, Cause.UPDATE)
    node.config_epoch = update.config_epoch
    effects.append(Changed(node.id, Field.CONFIG_EPOCH, Cause.UPDATE))
    return effects + take_claims(view, node, update.config_epoch, slot_bits(update.myslots))
