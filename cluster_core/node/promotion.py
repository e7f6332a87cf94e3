"""Role changes: promotion, demotion and manual failover (R67, R93, R97 to R100, clusterFailoverReplaceYourPrimary)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed
from cluster_core.gossip.flags import MASTER, MIGRATE_TO, MY_PRIMARY_FAIL, NOADDR
from cluster_core.gossip.own_claims import assign_slots
from cluster_core.gossip.roles import become_master, replicate, same_shard
from cluster_core.gossip.view import Peer
from cluster_core.node.agenda import make_due
from cluster_core.node.events import PauseClients, PromoteMyself, ResumeClients, StartReplication
from cluster_core.node.pings import PING, broadcast_pong, send_on_link
from cluster_core.node.state import TODO_FAILOVER, TODO_FSYNC, TODO_MANUAL, TODO_PONG, TODO_SAVE, NodeState, named


def replace_master(state: NodeState) -> None:
    """Become a master with all slots of the old one, and broadcast it (R93)."""
    view = state.view
    myself, old = view.myself, view.master_of(view.myself)
    if myself.flags & MASTER or old is None:
        return
    word = view.profile.word_for_master
    if word == "primary":
        shard = myself.shard_id
        state.log(
            "*", f"Setting myself to {word} in shard {shard} after failover; my old {word} is {named(state, old.id)}"
        )
    state.out += become_master(view, myself, Cause.ELECTION_WON)
    stop_replication(state)
    if old.slots:
        if any(peer.replicaof for peer in view.nodes.values()):
            myself.flags |= MIGRATE_TO
        slots = old.slots
        old.slots = 0
        state.out.append(Changed(old.id, Field.SLOTS, Cause.ELECTION_WON))
        state.out += assign_slots(view, myself, slots)
    view.state_stale = True
    state.changed()
    state.todo |= TODO_SAVE | TODO_FSYNC
    broadcast_pong(state)
    reset_manual_failover(state)
    if view.profile.elections_reset:
        state.election.time_ms = 0


def reset_manual_failover(state: NodeState) -> None:
    """Reset a manual failover; a paused master resumes (R100, resetManualFailover)."""
    view = state.view
    view.mf_end_ms, view.mf_replica, view.mf_master_offset = 0, "", -1
    state.mf_can_start = False
    if state.paused:
        state.paused = False
        state.out.append(ResumeClients())


def follow_master(state: NodeState, master: Peer, cause: Cause) -> None:
    """Become a replica of *master*; our slots must be gone already (R67, clusterSetPrimary)."""
    state.out += replicate(state.view, master, cause)
    became_replica(state, master)


def became_replica(state: NodeState, master: Peer) -> None:
    """Start replicating the new master; reset election and manual failover (R67)."""
    view = state.view
    state.changed()
    start_replication(state, master)
    reset_manual_failover(state)
    if view.profile.full_sync_by_shard:
        state.election.time_ms = 0
    if view.profile.role_changes_announced:
        state.todo |= TODO_PONG
    view.state_stale = True
    state.todo |= TODO_SAVE | TODO_FSYNC


def start_replication(state: NodeState, master: Peer) -> None:
    """Let the driver replicate *master* once its address is known; the cron retries (R28)."""
    view = state.view
    if not master.ip or master.flags & NOADDR:
        state.replicating = ""
        return
    full_sync = view.profile.full_sync_by_shard and not same_shard(master, view.myself)
    state.replicating = master.id
    if state.repl_up:
        state.repl_up, state.repl_down_ms = False, state.now_ms
    state.out.append(StartReplication(master.id, master.ip, master.port, full_sync))


def stop_replication(state: NodeState) -> None:
    """Become a master with the current data (P5, replicationUnsetPrimary)."""
    state.replicating = ""
    state.repl_up, state.repl_down_ms = False, 0
    state.out.append(PromoteMyself())


def note_master_health(state: NodeState, *, failed: bool) -> None:
    """Set our flag for a failed master (R134); it survives a promotion (R135)."""
    if not state.view.profile.best_replica_hurries:
        return
    myself = state.view.myself
    myself.flags = myself.flags | MY_PRIMARY_FAIL if failed else myself.flags & ~MY_PRIMARY_FAIL


PAUSE_FACTOR: Final = 2
"""Clients are paused for the manual failover timeout times this (R98, `CLUSTER_MF_PAUSE_MULT`)."""


def begin_as_master(state: NodeState, replica: Peer, link: int) -> None:
    """Handle our replica's MFSTART: pause and send our offset at once (R98)."""
    view, now_ms, limit_ms = state.view, state.now_ms, state.settings.manual_failover_ms
    reset_manual_failover(state)
    view.mf_end_ms = now_ms + limit_ms
    view.mf_replica = replica.id
    make_due(state, replica)
    state.paused = True
    state.log("#", f"Manual failover requested by replica {named(state, replica.id)}.")
    state.out.append(PauseClients(now_ms + PAUSE_FACTOR * limit_ms))
    send_on_link(state, link, PING)


def note_paused_offset(state: NodeState, offset: int) -> None:
    """Record the offset of our paused master during our manual failover (R99)."""
    if not state.view.mf_end_ms:
        state.view.mf_master_offset = -1
        return
    word = state.view.profile.word_for_master
    state.log("*", f"Received replication offset for paused {word} manual failover: {offset}")
    state.todo |= TODO_MANUAL


def check_offset(state: NodeState) -> None:
    """Allow the election once we processed our master's offset (R99, clusterHandleManualFailover)."""
    view = state.view
    state.todo &= ~TODO_MANUAL
    if view.myself.flags & MASTER or not view.mf_end_ms or state.mf_can_start or view.mf_master_offset == -1:
        return
    if offsets_match(view.mf_master_offset, state.offset):
        state.mf_can_start = True
        word = view.profile.word_for_master
        state.log("*", f"All {word} replication stream processed, manual failover can start.")
        state.todo |= TODO_FAILOVER


def offsets_match(master_offset: int, offset: int) -> bool:
    """Return whether the paused master's offset is known and equals ours (R99).

    >>> offsets_match(7, 7), offsets_match(-1, -1)
    (True, False)
    """
    return master_offset != -1 and master_offset == offset


def expire(state: NodeState) -> None:
    """Abort a timed-out manual failover (R100)."""
    if state.view.mf_end_ms and state.view.mf_end_ms < state.now_ms:
        state.log("#", "Manual failover timed out.")
        reset_manual_failover(state)
