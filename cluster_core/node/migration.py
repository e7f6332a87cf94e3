"""Replica migration: a spare replica moves to a master that has lost all of its own (R103 to R105)."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.gossip.flags import FAIL, FAILURES, MASTER, MIGRATE_TO
from cluster_core.gossip.view import Peer, View

MIGRATION_DELAY_MS: Final = 5000
"""A master must have been orphaned for longer than this (R105)."""


class Replication(NamedTuple):
    """Healthy replicas: masters without any, the most of one master, and those of our master (R103)."""

    orphaned: int
    most: int
    ours: int


def healthy_replicas(view: View) -> dict[str, int]:
    """How many replicas that are not FAIL each master has."""
    counts: dict[str, int] = {}
    for peer in view.nodes.values():
        if peer.replicaof and not peer.flags & FAIL:
            counts[peer.replicaof] = counts.get(peer.replicaof, 0) + 1
    return counts


def is_orphaned(peer: Peer, replicas: int) -> bool:
    """R103: a healthy master with slots that once had replicas and has none that works."""
    return (
        not replicas and bool(peer.flags & MASTER and peer.flags & MIGRATE_TO and peer.slots) and not peer.flags & FAIL
    )


def replication_of(view: View) -> Replication:
    """Sum up who has replicas (R103, clusterCron); ourselves are not looked at as a master."""
    counts = healthy_replicas(view)
    orphaned = most = ours = 0
    for peer in view.nodes.values():
        if not peer.flags & MASTER or peer.flags & FAIL or peer is view.myself:
            continue
        replicas = counts.get(peer.id, 0)
        orphaned += is_orphaned(peer, replicas)
        most = max(most, replicas)
        if view.myself.replicaof == peer.id:
            ours = replicas
    return Replication(orphaned, most, ours)


def is_spare(replication: Replication) -> bool:
    """R103: somebody needs a replica, and nobody has more of them than our master."""
    return bool(replication.orphaned) and replication.most >= 2 and replication.ours == replication.most


def leaves_enough(view: View, barrier: int) -> bool:
    """R104: our master keeps at least *barrier* working replicas when we go."""
    mine = view.myself.replicaof
    return sum(p.replicaof == mine and not p.flags & FAILURES for p in view.nodes.values()) > barrier


def migration_target(view: View, most: int, barrier: int, now_ms: int) -> Peer | None:
    """Whom we should replicate from now on, None for nobody; notes since when masters are orphaned (R104, R105,
    clusterHandleReplicaMigration).
    """
    if not view.ok or not view.myself.replicaof or not leaves_enough(view, barrier):
        return None
    counts = healthy_replicas(view)
    target: Peer | None = None
    candidate = view.myself.id
    spare_of: list[str] = []
    for peer in view.nodes.values():
        replicas = counts.get(peer.id, 0) if peer.flags & MASTER else 0
        lost = peer.flags & MASTER and peer.flags & MIGRATE_TO and not peer.flags & FAIL and not replicas
        if not lost:
            peer.orphaned_ms = 0
        else:
            peer.orphaned_ms = peer.orphaned_ms or now_ms
            if target is None and peer.slots:
                target = peer
        if replicas == most:
            spare_of.append(peer.id)
    for peer in view.nodes.values():
        if peer.replicaof and peer.id < candidate and peer.replicaof in spare_of:
            candidate = peer.id
    if target is None or candidate != view.myself.id or now_ms - target.orphaned_ms <= MIGRATION_DELAY_MS:
        return None
    return target
