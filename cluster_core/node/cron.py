"""What a node does every 100 ms (R28 to R35, R53, R98, R103, clusterCron).

The servers look at every node each time.  Here each node has a time before which nothing can come of that, and is passed
over until then (`cluster_core.node.agenda`): it never lies behind the true one, so what is done, and when, stays the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause
from cluster_core.gossip.events import Effect
from cluster_core.gossip.failure_detection import doubt_if_silent
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


RANDOM_PING_CRONS: Final = 10
"""Every so many crons a node is pinged at random (R31)."""
RANDOM_PING_DRAWS: Final = 5
CRON_MS: Final = 100
"""The pace that the budget of reconnections assumes (R29)."""


def run_cron(state: NodeState) -> list[Effect]:
    """Do what is due; what changed in our beliefs is returned, everything else is in `state.out` (R28)."""
    now_ms = state.now_ms
    state.iteration += 1
    state.doubts = 0
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
    """The cron's last part: what comes of a failing or orphaned master (R28)."""
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
    """See whether a replica's cron has nothing to do as long as the view stays as it is."""
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
    """R29: count doubts, drop old handshakes, connect where there is no link."""
    view, now_ms = state.view, state.now_ms
    limit_ms = handshake_timeout_ms(view.node_timeout_ms)
    changes: list[Effect] = []
    doubts, lost = 0, list[Peer]()
    for peer in due:
        flags = peer.flags
        if flags & NOADDR:
            continue
        doubts += bool(flags & PFAIL)
        if flags & HANDSHAKE and now_ms - peer.ctime_ms > limit_ms:
            changes += remove_node(view, peer, Cause.HANDSHAKE_EXPIRED)
        elif peer.outbound is None:
            lost.append(peer)
    state.doubts = doubts
    if view.profile.reconnects_spread:
        lost = spread(lost, reconnect_budget(len(view.nodes), view.node_timeout_ms))
    for peer in lost:
        open_link(state, peer)
    return changes


def spread(lost: list[Peer], budget: int) -> list[Peer]:
    """Those of the *lost* nodes whose turn it is: new ones, and of the others *budget* that were tried the longest ago
    (R29).
    """
    if len(lost) <= budget:
        return lost
    again = sorted((peer for peer in lost if peer.tried_ms), key=lambda peer: (peer.tried_ms, peer.id))
    return [peer for peer in lost if not peer.tried_ms] + again[:budget]


def reconnect_budget(nodes: int, node_timeout_ms: int) -> int:
    """How many lost links one cron opens again where attempts are spread over half the node timeout (R29).

    >>> reconnect_budget(6, 2000), reconnect_budget(1000, 15000)
    (1, 14)
    """
    return max(1, -(-nodes * CRON_MS * 2 // max(node_timeout_ms, 1)))


def ping_at_random(state: NodeState) -> None:
    """R31: of five drawn nodes ping the one that was heard the longest ago."""
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
    """R32, R35, R53, R60, R98 for one node; then say when it is worth looking again."""
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
        changes = doubt_if_silent(view, peer, now_ms)
        if changes:
            pfail_log(state, peer)
    return changes


def pfail_log(state: NodeState, peer: Peer) -> None:
    """Log that a node is silent; Redis 7.0 does so at debug level only (R160)."""
    named_in_log = state.view.profile.names_logged
    level, mark = ("*", "NODE") if named_in_log else (".", "*** NODE")
    state.log(level, f"{mark} {named(state, peer.id)} possibly failing{'.' if named_in_log else ''}")


def next_look_ms(state: NodeState, peer: Peer) -> int:
    """The first time at which the cron may have to do something about a node; 0 for each cron.

    Whatever happens to the node in between happens half a node timeout, or one ping interval, later at the earliest.
    """
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
    """R103 to R105: move to an orphaned master if we are the one that should."""
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
