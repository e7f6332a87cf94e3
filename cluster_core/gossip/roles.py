"""Roles: masters, and replicas with their master (R23, R63 to R67)."""

from __future__ import annotations

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import BecameReplica, Changed, Effect
from cluster_core.gossip.flags import MASTER, MIGRATE_TO, REPLICA
from cluster_core.gossip.profile import ChainFold, Demotion, ShardIds
from cluster_core.gossip.view import Peer, View
from cluster_core.wire.bus import Header


def learn_role(view: View, sender: Peer, header: Header) -> tuple[list[Effect], bool]:
    """Apply the role in a header (R63 to R66, clusterProcessPacket); return effects, and True to drop a stale message.

    In Redis 7.4 and later, and Valkey up to 8.1, a stale message still makes its sender a replica.
    """
    if not header.replicaof:
        return become_master(view, sender, Cause.HEADER_OF_MASTER), False
    effects: list[Effect] = []
    master = view.nodes.get(header.replicaof)
    if sender.flags & MASTER:
        stale = master is not None and _is_stale(view, sender, master, header)
        if stale and view.profile.demotion is Demotion.GUARDED:
            return [], True
        if not stale:
            effects += _hand_over(view, sender, master, header)
        view.set_role(sender, REPLICA)
        effects.append(Changed(sender.id, Field.ROLE, Cause.HEADER_OF_NEW_REPLICA))
    if master is not None and sender.replicaof != master.id and master is not sender:
        effects += attach(view, sender, master, Cause.HEADER_OF_REPLICA)
        if view.profile.chain_fold is ChainFold.ON_ATTACH:
            effects += fold_chain(view)
    return effects, False


def become_master(view: View, peer: Peer, cause: Cause) -> list[Effect]:
    """Make a replica a master (R63, clusterSetNodeAsPrimary)."""
    if peer.flags & MASTER:
        return []
    was_replica_of = detach(view, peer)
    view.set_role(peer, MASTER)
    if was_replica_of and peer is not view.myself:
        peer.flags |= MIGRATE_TO
    return [Changed(peer.id, Field.ROLE, cause)]


def detach(view: View, peer: Peer) -> str:
    """Remove *peer* from its master's replicas; a master without replicas is no migration target (R23)."""
    old = peer.replicaof
    peer.replicaof = ""
    master = view.nodes.get(old)
    if master is not None and not any(other.replicaof == old for other in view.nodes.values()):
        master.flags &= ~MIGRATE_TO
    return old


def attach(view: View, peer: Peer, master: Peer, cause: Cause) -> list[Effect]:
    """Record *peer* as a replica of *master* (R65, R23)."""
    detach(view, peer)
    peer.replicaof = master.id
    master.flags |= MIGRATE_TO
    if view.profile.shard_ids is not ShardIds.NONE and master.shard_id:
        take_shard_id(view, peer, master.shard_id)
    return [Changed(peer.id, Field.MASTER, cause)]


def replicate(view: View, master: Peer, cause: Cause) -> list[Effect]:
    """Become a replica of *master*; our slots must be gone already (R67, clusterSetPrimary)."""
    myself = view.myself
    if master is myself or myself.replicaof == master.id:
        return []
    effects: list[Effect] = []
    if myself.flags & MASTER:
        view.set_role(myself, REPLICA)
        effects.append(Changed(myself.id, Field.ROLE, cause))
        view.migrating.clear()
        view.importing.clear()
    effects += attach(view, myself, master, cause)
    view.mf_end_ms = 0
    view.mf_replica = ""
    view.mf_master_offset = -1
    return [*effects, BecameReplica(master.id, cause)]


def fold_chain(view: View) -> list[Effect]:
    """Follow our master's master if our master became a replica (R66)."""
    master = view.master_of(view.myself)
    grand = view.master_of(master) if master is not None and master.flags & REPLICA else None
    if grand is None or grand is view.myself:
        return []
    return replicate(view, grand, Cause.MASTER_OF_REPLICA)


def same_shard(peer: Peer, other: Peer) -> bool:
    """Return whether two nodes have the same shard id (R65)."""
    return bool(peer.shard_id) and peer.shard_id == other.shard_id


def learn_shard_id(view: View, sender: Peer, shard_id: str) -> None:
    """Record the sender's shard id; without an extension its master's (R65, clusterProcessPingExtensions)."""
    if not shard_id:
        master = view.master_of(sender)
        shard_id = master.shard_id if master is not None else ""
    if shard_id:
        take_shard_id(view, sender, shard_id)


def take_shard_id(view: View, peer: Peer, shard_id: str) -> None:
    """Set the shard id of *peer* and of dependent nodes (R65, updateShardId).

    Redis 7.2, 7.4 and Valkey: ours follows our master's. Redis 8: replicas follow their master, and a master follows a
    replica that announces one.
    """
    myself = view.myself
    if view.profile.shard_ids is not ShardIds.WHOLE_SHARD:
        peer.shard_id = shard_id
        if peer is not myself and myself.replicaof == peer.id:
            myself.shard_id = shard_id
        return
    if peer.shard_id == shard_id:
        return
    peer.shard_id = shard_id
    master = view.master_of(peer)
    for other in view.replicas_of(peer.id) if not peer.replicaof else [master] if master is not None else []:
        other.shard_id = shard_id


def _is_stale(view: View, sender: Peer, master: Peer, header: Header) -> bool:
    """Return whether a master's message with the replica role is older than our state (R64, "Ignore stale message")."""
    demotion = view.profile.demotion
    if demotion is Demotion.UNASSIGN or not same_shard(sender, master):
        return False
    known = master if demotion is Demotion.GUARDED else sender
    return known.config_epoch > header.config_epoch


def _hand_over(view: View, sender: Peer, master: Peer | None, header: Header) -> list[Effect]:
    """Handle a master that became a replica: move its slots and choose the master of its shard (R64)."""
    effects: list[Effect] = []
    demotion = view.profile.demotion
    if master is None or demotion is Demotion.UNASSIGN or not same_shard(sender, master):
        effects += _unassign(view, sender)
    else:
        was_replica = bool(master.flags & REPLICA)
        effects += become_master(view, master, Cause.HEADER_OF_NEW_REPLICA)
        if header.config_epoch > master.config_epoch or demotion is not Demotion.GUARDED:
            master.config_epoch = header.config_epoch
            effects.append(Changed(master.id, Field.CONFIG_EPOCH, Cause.HEADER_OF_NEW_REPLICA))
        if sender.slots and (demotion is Demotion.MOVE or (demotion is Demotion.GUARDED and was_replica)):
            master.slots |= sender.slots
            sender.slots = 0
            effects += [
                Changed(master.id, Field.SLOTS, Cause.HEADER_OF_NEW_REPLICA),
                Changed(sender.id, Field.SLOTS, Cause.HEADER_OF_NEW_REPLICA),
            ]
    return effects


def _unassign(view: View, peer: Peer) -> list[Effect]:
    if not peer.slots:
        return []
    view.unclaimed &= ~peer.slots
    peer.slots = 0
    return [Changed(peer.id, Field.SLOTS, Cause.HEADER_OF_NEW_REPLICA)]
