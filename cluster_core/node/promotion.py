"""Changing roles: a replica takes its master's place, a master steps down (R67, R93, clusterFailoverReplaceYourPrimary)."""

from __future__ import annotations

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed
from cluster_core.gossip.flags import MASTER, MIGRATE_TO, MY_PRIMARY_FAIL, NOADDR
from cluster_core.gossip.own_claims import assign_slots
from cluster_core.gossip.roles import become_master, replicate, same_shard
from cluster_core.gossip.view import Peer
from cluster_core.node.events import PromoteMyself, ResumeClients, StartReplication
from cluster_core.node.pings import broadcast_pong
from cluster_core.node.state import TODO_FSYNC, TODO_PONG, TODO_SAVE, NodeState, named


def replace_master(state: NodeState) -> None:
    """Become a master, take every slot of the old one, tell everybody (R93)."""
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
    """Forget a manual failover; a master that was paused for it serves again (R100, resetManualFailover)."""
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
    """The view says that we follow another master now: replicate it, forget election and manual failover (R67)."""
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
    """Ask the driver to replicate *master*, once its address is known; the cron asks again (R28)."""
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
    """Be a master with the data that is there (P5, replicationUnsetPrimary); as a replica one would start anew."""
    state.replicating = ""
    state.repl_up, state.repl_down_ms = False, 0
    state.out.append(PromoteMyself())


def note_master_health(state: NodeState, *, failed: bool) -> None:
    """Say in our own flags that we see our master fail (R134); the bit outlives a promotion (R135)."""
    if not state.view.profile.best_replica_hurries:
        return
    myself = state.view.myself
    myself.flags = myself.flags | MY_PRIMARY_FAIL if failed else myself.flags & ~MY_PRIMARY_FAIL
