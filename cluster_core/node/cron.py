"""The cron of a node, every 100 ms (R28 to R35, R53, R98, R103, clusterCron).

`cluster_core.node.agenda` skips checks of nodes that would have no effect, so actions and times equal the server's.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause
from cluster_core.gossip.events import Effect
from cluster_core.gossip.failure_detection import mark_pfail_if_silent
from cluster_core.gossip.flags import (
    FAIL,
    FAILURES,
    HANDSHAKE,
    LIGHT_HEADER_MODULE,
    MASTER,
    MEET,
    MIGRATE_TO,
    MYSELF,
    NOADDR,
    PFAIL,
)
from cluster_core.gossip.handshake import handshake_timeout_ms, remove_node
from cluster_core.gossip.view import Peer, View
from cluster_core.node.agenda import put_back, take_due
from cluster_core.node.candidacy import run_election
from cluster_core.node.links import meet_due_ms, open_link, recycle_link, repair_membership
from cluster_core.node.pings import note_fitness, send_ping
from cluster_core.node.promotion import check_offset, expire, follow_master, start_replication
from cluster_core.node.state import NodeState, named

MIGRATION_DELAY_MS: Final = 5000
"""Minimum ms that a master is orphaned before replica migration (R105)."""


class Replication(NamedTuple):
    """Replica counts: masters without replicas, the maximum, and our master's count (R103)."""

    orphaned: int
    most: int
    ours: int


def healthy_replicas(view: View) -> dict[str, int]:
    """Return the number of non-FAIL replicas by master."""
    counts: dict[str, int] = {}
    for peer in view.nodes.values():
        if peer.replicaof and not peer.flags & FAIL:
            counts[peer.replicaof] = counts.get(peer.replicaof, 0) + 1
    return counts


def is_orphaned(peer: Peer, replicas: int) -> bool:
    """Return whether a healthy master with slots lost all its working replicas (R103)."""
    return (
        not replicas and bool(peer.flags & MASTER and peer.flags & MIGRATE_TO and peer.slots) and not peer.flags & FAIL
    )


def replication_of(view: View) -> Replication:
    """Count replicas of all masters but ourselves (R103, clusterCron)."""
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
    """Return whether a master needs a replica and ours has the maximum (R103)."""
    return bool(replication.orphaned) and replication.most >= 2 and replication.ours == replication.most


def leaves_enough(view: View, barrier: int) -> bool:
    """Return whether our master keeps *barrier* working replicas without us (R104)."""
    mine = view.myself.replicaof
    return sum(p.replicaof == mine and not p.flags & FAILURES for p in view.nodes.values()) > barrier


def migration_target(view: View, most: int, barrier: int, now_ms: int) -> Peer | None:
    """Return the orphaned master to migrate to, or None; record when masters got orphaned (R104, R105)."""
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


RANDOM_PING_CRONS: Final = 10
"""Crons between random pings (R31)."""
RANDOM_PING_DRAWS: Final = 5
CRON_MS: Final = 100
"""Cron period in ms that the reconnection budget assumes (R29)."""


def run_cron(state: NodeState) -> list[Effect]:
    """Run the cron; return the changes of the view. Other effects are in `state.out` (R28)."""
    now_ms = state.now_ms
    state.iteration += 1
    state.pfail_count = 0
    due = take_due(state, now_ms)
    changes: list[Effect] = _reconnect(state, due) if due else []
    view = state.view
    if state.fit_version != view.version:
        note_fitness(state)
    if not state.iteration % RANDOM_PING_CRONS:
        ping_at_random(state)
    for peer in due:
        if view.nodes.get(peer.id) is peer:
            changes += _look_at(state, peer)
            put_back(state, peer, next_look_ms(state, peer))
    if not view.ok:
        view.state_stale = True
    return changes


def run_replica_cron(state: NodeState) -> None:
    """Run the replica's part of the cron: failover and migration (R28)."""
    view = state.view
    if state.calm_version == view.version and not view.mf_end_ms and not state.election.cause:
        return
    if view.mf_end_ms:
        expire(state)
    myself = view.myself
    if myself.flags & MASTER:
        return
    master = view.master_of(myself)
    if master is not None and state.replicating != master.id:
        start_replication(state, master)
    check_offset(state)
    run_election(state)
    if state.settings.allow_replica_migration and not myself.flags & MASTER:
        _migrate(state)
    note_calm(state)


def note_calm(state: NodeState) -> None:
    """Record whether the replica's cron is a no-op while the view is unchanged."""
    view = state.view
    master = view.master_of(view.myself)
    calm = (
        master is not None
        and not master.flags & FAIL
        and state.replicating == master.id
        and not (state.settings.allow_replica_migration and is_spare(Replication(*state.orphans)))
    )
    state.calm_version = view.version if calm else -1


def _reconnect(state: NodeState, due: list[Peer]) -> list[Effect]:
    """Count failing nodes, drop timed-out handshakes, connect missing links (R29)."""
    view, now_ms = state.view, state.now_ms
    limit_ms = handshake_timeout_ms(view.node_timeout_ms)
    changes: list[Effect] = []
    pfail_count, lost = 0, list[Peer]()
    for peer in due:
        flags = peer.flags
        if flags & NOADDR:
            continue
        pfail_count += bool(flags & PFAIL)
        if flags & HANDSHAKE and now_ms - peer.ctime_ms > limit_ms:
            changes += remove_node(view, peer, Cause.HANDSHAKE_EXPIRED)
        elif peer.outbound is None:
            lost.append(peer)
    state.pfail_count = pfail_count
    if view.profile.reconnects_spread:
        lost = spread(lost, reconnect_budget(len(view.nodes), view.node_timeout_ms))
    for peer in lost:
        open_link(state, peer)
    return changes


def spread(lost: list[Peer], budget: int) -> list[Peer]:
    """Return the lost nodes to reconnect now: new ones, and the *budget* least recently tried others (R29)."""
    if len(lost) <= budget:
        return lost
    again = sorted((peer for peer in lost if peer.tried_ms), key=lambda peer: (peer.tried_ms, peer.id))
    return [peer for peer in lost if not peer.tried_ms] + again[:budget]


def reconnect_budget(nodes: int, node_timeout_ms: int) -> int:
    """Return the lost links to reopen per cron if attempts are spread over half the node timeout (R29).

    >>> reconnect_budget(6, 2000), reconnect_budget(1000, 15000)
    (1, 14)
    """
    return max(1, -(-nodes * CRON_MS * 2 // max(node_timeout_ms, 1)))


def ping_at_random(state: NodeState) -> None:
    """Ping the least recently heard of five random nodes (R31)."""
    table, draw = state.peers(), state.rng.random
    oldest: Peer | None = None
    for _ in range(RANDOM_PING_DRAWS):
        peer = table[int(draw() * len(table))]
        if peer.outbound is None or peer.ping_sent_ms or peer.flags & (MYSELF | HANDSHAKE):
            continue
        if oldest is None or peer.pong_received_ms < oldest.pong_received_ms:
            oldest = peer
    if oldest is not None:
        send_ping(state, oldest)


def _look_at(state: NodeState, peer: Peer) -> list[Effect]:
    """Check one node (R32, R35, R53, R60, R98) and schedule its next check."""
    view, now_ms, flags = state.view, state.now_ms, peer.flags
    if flags & (NOADDR | HANDSHAKE):
        return []
    if peer.ping_sent_ms:
        recycle_link(state, peer)
    if view.profile.meets_again:
        repair_membership(state, peer)
    changes: list[Effect] = []
    linked = peer.outbound is not None
    if (linked and not peer.ping_sent_ms and now_ms - peer.pong_received_ms > state.settings.ping_due_ms) or (
        linked and view.mf_end_ms and view.mf_replica == peer.id and view.myself.flags & MASTER
    ):
        send_ping(state, peer)
    elif peer.ping_sent_ms and not flags & FAILURES:
        changes = mark_pfail_if_silent(view, peer, now_ms)
        if changes:
            pfail_log(state, peer)
    return changes


def pfail_log(state: NodeState, peer: Peer) -> None:
    """Log PFAIL by timeout; Redis 7.0 does so at debug level only (R160)."""
    named_in_log = state.view.profile.names_logged
    level, mark = ("*", "NODE") if named_in_log else (".", "*** NODE")
    state.log(level, f"{mark} {named(state, peer.id)} possibly failing{'.' if named_in_log else ''}")


def next_look_ms(state: NodeState, peer: Peer) -> int:
    """Return the earliest time at which the cron may have to act on a node; 0 for every cron."""
    view, flags, outbound = state.view, peer.flags, peer.outbound
    if outbound is None or flags & (PFAIL | HANDSHAKE | NOADDR) or (view.mf_end_ms and view.mf_replica == peer.id):
        return 0
    timeout_ms, interval_ms = view.node_timeout_ms, state.settings.ping_due_ms
    next_ms = state.now_ms + min(timeout_ms // 2, interval_ms)
    if view.profile.meets_again and peer.inbound is None:
        if flags & MEET or not flags & LIGHT_HEADER_MODULE:
            return 0
        next_ms = min(next_ms, meet_due_ms(peer, timeout_ms))
    if not peer.ping_sent_ms:
        return min(next_ms, peer.pong_received_ms + interval_ms) + 1
    heard_ms = max(peer.ping_sent_ms, peer.data_received_ms)
    link = view.links.get(outbound)
    if link is not None:
        next_ms = min(next_ms, max(link.made_ms + timeout_ms, heard_ms + timeout_ms // 2))
    if not flags & FAILURES:
        next_ms = min(next_ms, heard_ms + timeout_ms)
    return next_ms + 1


def _migrate(state: NodeState) -> None:
    """Migrate to an orphaned master if we are the chosen replica (R103 to R105)."""
    view = state.view
    if state.orphans_version != view.version:
        state.orphans, state.orphans_version = replication_of(view), view.version
    replication = Replication(*state.orphans)
    if not is_spare(replication):
        return
    target = migration_target(view, replication.most, state.settings.migration_barrier, state.now_ms)
    if target is not None:
        state.log("*", f"Migrating to orphaned {view.profile.word_for_master} {target.id}")
        view.migrating.clear()
        view.importing.clear()
        follow_master(state, target, Cause.ORPHANED_MASTER)
