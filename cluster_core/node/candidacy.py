"""Election of a replica: when it starts, its rank and delay, and counting votes."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.epochs import next_epoch
from cluster_core.gossip.events import Changed
from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.gossip.flags import FAIL, MASTER, MY_PRIMARY_FAIL, NOFAILOVER
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.view import Peer, View
from cluster_core.node.events import ElectionStep
from cluster_core.node.pings import bare_message, broadcast, broadcast_pong
from cluster_core.node.promotion import replace_master
from cluster_core.node.state import TODO_FAILOVER, TODO_FSYNC, TODO_SAVE, NodeState
from cluster_core.wire.bus import MessageType

AUTH_TIMEOUT_MS_MIN: Final = 2000
DELAY_MS: Final = 500
"""Fixed delay in ms, for FAIL to spread, and range of the random delay (R86)."""
DELAY_SHARE: Final = 30
"""A scaled delay is the node timeout divided by this, at most `DELAY_MS` (R86)."""
NO_DATA_DELAY_MS: Final = 500


def auth_timeout_ms(node_timeout_ms: int) -> int:
    """Return the validity of a vote request in ms (R83).

    >>> auth_timeout_ms(15000), auth_timeout_ms(500)
    (30000, 2000)
    """
    return max(2 * node_timeout_ms, AUTH_TIMEOUT_MS_MIN)


def auth_retry_ms(node_timeout_ms: int) -> int:
    """Return the minimum ms between elections (R83)."""
    return 2 * auth_timeout_ms(node_timeout_ms)


def data_age_ms(now_ms: int, heard_ms: int, node_timeout_ms: int) -> int:
    """Return the age of a replica's data in ms, whole seconds, minus the node timeout that precedes any failover (R85)."""
    age_ms = (now_ms // 1000 - heard_ms // 1000) * 1000
    return age_ms - node_timeout_ms if age_ms > node_timeout_ms else age_ms


def data_is_too_old(age_ms: int, *, node_timeout_ms: int, validity_factor: int, ping_period_s: int) -> bool:
    """Return whether data is too old for an automatic election; factor 0 disables the check (R85).

    >>> data_is_too_old(31_000, node_timeout_ms=2000, validity_factor=10, ping_period_s=10)
    True
    """
    return validity_factor != 0 and age_ms > ping_period_s * 1000 + node_timeout_ms * validity_factor


def rank_step_ms(profile: Profile, node_timeout_ms: int) -> int:
    """Return the delay per better replica of the same master (R86, R88)."""
    return 2 * _share_ms(node_timeout_ms) if profile.delay_scaled else 2 * DELAY_MS


def failed_rank_step_ms(profile: Profile, node_timeout_ms: int) -> int:
    """Return the delay per failed master of a smaller shard (R86, R89b)."""
    return _share_ms(node_timeout_ms) if profile.delay_scaled else DELAY_MS


def election_delay_ms(
    profile: Profile, node_timeout_ms: int, *, chance: float, rank: int, failed_rank: int, offset: int
) -> int:
    """Return the delay before a replica requests votes (R86); *chance* is in [0, 1).

    >>> from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1
    >>> election_delay_ms(REDIS_7_0, 15000, chance=0.5, rank=1, failed_rank=0, offset=9)
    1750
    >>> election_delay_ms(VALKEY_9_1, 3000, chance=0.5, rank=1, failed_rank=1, offset=9)
    450
    """
    fixed_ms = _share_ms(node_timeout_ms) if profile.delay_scaled else DELAY_MS
    wait_ms = fixed_ms + int(chance * fixed_ms) + rank * rank_step_ms(profile, node_timeout_ms)
    wait_ms += failed_rank * failed_rank_step_ms(profile, node_timeout_ms)
    return wait_ms + (NO_DATA_DELAY_MS if profile.delay_scaled and not offset else 0)


def _share_ms(node_timeout_ms: int) -> int:
    return min(node_timeout_ms // DELAY_SHARE, DELAY_MS)


def replica_rank(view: View, offset: int) -> int:
    """Return the number of replicas of our master better than ours at *offset* (R87, clusterGetReplicaRank)."""
    myself = view.myself
    ties = view.profile.rank_ties_by_id
    rank = 0
    for peer in view.nodes.values():
        if peer.replicaof != myself.replicaof or peer is myself or not peer.replicaof or peer.flags & NOFAILOVER:
            continue
        rank += peer.repl_offset > offset or (ties and peer.repl_offset == offset and peer.id < myself.id)
    return rank


def failed_master_rank(view: View, now_ms: int, validity_factor: int) -> int:
    """Return the number of failed masters with a smaller shard id (R89b)."""
    if not view.profile.failed_masters_ranked or view.mf_end_ms:
        return 0
    myself, limit_ms = view.myself, view.node_timeout_ms * validity_factor
    failed = {
        peer.id: peer.shard_id
        for peer in view.nodes.values()
        if peer.flags & FAIL and peer.flags & MASTER and peer.slots and now_ms - peer.fail_time_ms < limit_ms
    }
    if not failed:
        return 0
    followed = {peer.replicaof for peer in view.nodes.values()}
    return sum(node in followed and shard < myself.shard_id for node, shard in failed.items() if shard)


def siblings_agree(view: View) -> bool:
    """Return whether every other replica of our master sees it as failed (R134)."""
    myself = view.myself
    return all(
        peer.flags & MY_PRIMARY_FAIL
        for peer in view.nodes.values()
        if peer.replicaof == myself.replicaof and peer is not myself
    )


RELOG_MS: Final = 10_000
"""Interval for logging an unchanged reason again, in ms (`CLUSTER_CANT_FAILOVER_RELOG_PERIOD`)."""
DATA_AGE: Final = (
    "Disconnected from {master} for longer than allowed. "
    "Please check the 'cluster-replica-validity-factor' configuration option."
)
WAITING_DELAY: Final = "Waiting the delay before I can start a new failover."
EXPIRED: Final = "Failover attempt expired."
WAITING_VOTES: Final = "Waiting for votes, but majority still not reached."


def run_election(state: NodeState) -> None:
    """Advance our election, if any."""
    state.todo &= ~TODO_FAILOVER
    view, election, now_ms = state.view, state.election, state.now_ms
    is_manual = bool(view.mf_end_ms and state.mf_can_start)
    if not may_stand(state, is_manual=is_manual):
        election.cause = ""
        return
    if not is_manual and _data_too_old(state):
        _note_stall(state, DATA_AGE.format(master=view.profile.word_for_master))
        return
    timeout_ms = view.node_timeout_ms
    age_ms = now_ms - election.time_ms
    if age_ms > auth_retry_ms(timeout_ms):
        _schedule(state)
        if not election.hurried:
            return
        age_ms = 0
    elif not election.is_sent and not view.mf_end_ms:
        _adjust(state)
    if now_ms < election.time_ms:
        _note_stall(state, WAITING_DELAY)
    elif age_ms > auth_timeout_ms(timeout_ms):
        _note_stall(state, EXPIRED)
    elif not election.is_sent:
        _ask(state)
    elif election.count >= quorum_of(view.size()):
        _win(state)
    else:
        _note_stall(state, WAITING_VOTES)


def may_stand(state: NodeState, *, is_manual: bool) -> bool:
    """Return whether we may start an election: a replica with a known master that failed, or on request (R84)."""
    view = state.view
    master = view.master_of(view.myself)
    if view.myself.flags & MASTER or master is None:
        return False
    if not is_manual and (not master.flags & FAIL or state.settings.no_failover):
        return False
    return bool(master.slots) or view.profile.emptied_master_replaced


def _data_too_old(state: NodeState) -> bool:
    timeout_ms = state.view.node_timeout_ms
    heard_ms = state.repl_heard_ms if state.repl_up else state.repl_down_ms
    return data_is_too_old(
        data_age_ms(state.now_ms, heard_ms, timeout_ms),
        node_timeout_ms=timeout_ms,
        validity_factor=state.settings.validity_factor,
        ping_period_s=state.settings.repl_ping_period_s,
    )


def _schedule(state: NodeState) -> None:
    """Schedule the election with a delay by rank; none in a manual failover or if all siblings agree (R86, R134)."""
    view, election, now_ms = state.view, state.election, state.now_ms
    timeout_ms, factor = view.node_timeout_ms, state.settings.validity_factor
    chance = state.rng.random()
    election.count, election.is_sent, election.hurried = 0, False, False
    election.rank = replica_rank(view, state.offset)
    election.failed_rank = failed_master_rank(view, now_ms, factor)
    election.time_ms = now_ms + election_delay_ms(
        view.profile,
        timeout_ms,
        chance=chance,
        rank=election.rank,
        failed_rank=election.failed_rank,
        offset=state.offset,
    )
    if view.mf_end_ms:
        election.time_ms, election.rank, election.failed_rank = now_ms, 0, 0
        state.todo |= TODO_FAILOVER
    else:
        _hurry(state)
    ranks = f"rank #{election.rank}"
    if view.profile.failed_masters_ranked:
        ranks += f", {view.profile.word_for_master} rank #{election.failed_rank}"
    delay_ms = election.time_ms - now_ms
    state.log("*", f"Start of election delayed for {delay_ms} milliseconds ({ranks}, offset {state.offset}).")
    state.out.append(ElectionStep("scheduled", view.current_epoch, f"{delay_ms} ms, {ranks}, offset {state.offset}"))
    broadcast_pong(state, siblings=True)


def _hurry(state: NodeState) -> None:
    """Drop the delay of the best replica once all siblings see the master as failed (R134)."""
    election = state.election
    if not state.view.profile.best_replica_hurries or election.rank or election.failed_rank or election.hurried:
        return
    if siblings_agree(state.view):
        election.hurried = True
        election.time_ms = state.now_ms
        state.log("*", "This is the best ranked replica and can initiate the election immediately.")


def _adjust(state: NodeState) -> None:
    """Adjust the delay to rank changes since the election was scheduled (R88)."""
    view, election = state.view, state.election
    profile, timeout_ms = view.profile, view.node_timeout_ms
    rank = replica_rank(view, state.offset)
    if rank > election.rank or (profile.rank_falls and rank != election.rank):
        added_ms = (rank - election.rank) * rank_step_ms(profile, timeout_ms)
        election.time_ms += added_ms
        election.rank = rank
        state.log("*", f"Replica rank updated to #{rank}, added {added_ms} milliseconds of delay.")
        state.out.append(ElectionStep("ranked", view.current_epoch, f"rank #{rank}, {added_ms:+d} ms"))
    if profile.failed_masters_ranked:
        failed_rank = failed_master_rank(view, state.now_ms, state.settings.validity_factor)
        if failed_rank != election.failed_rank:
            added_ms = (failed_rank - election.failed_rank) * failed_rank_step_ms(profile, timeout_ms)
            election.time_ms += added_ms
            election.failed_rank = failed_rank
            word = f"Failed {profile.word_for_master}"
            state.log("*", f"{word} rank updated to #{failed_rank}, added {added_ms} milliseconds of delay.")
            state.out.append(ElectionStep("ranked", view.current_epoch, f"{word} #{failed_rank}, {added_ms:+d} ms"))
    _hurry(state)


def _ask(state: NodeState) -> None:
    """Take a new epoch and request votes; the epoch must be durable first (R89, R95)."""
    view, election = state.view, state.election
    view.current_epoch = next_epoch(view.current_epoch)
    election.epoch = view.current_epoch
    text = f"Starting a failover election for epoch {election.epoch}"
    shown = view.epoch_shown(view.myself)
    state.log("*", f"{text}, node config epoch is {shown}" if view.profile.best_replica_hurries else f"{text}.")
    force = bool(view.mf_end_ms) or election.hurried
    state.out.append(ElectionStep("started", election.epoch, "FORCEACK" if force else ""))
    broadcast(state, bare_message(state, MessageType.AUTH_REQUEST, force=force))
    election.is_sent = True
    view.state_stale = True
    state.todo |= TODO_SAVE | TODO_FSYNC


def count_vote(state: NodeState, voter: str, epoch: int, *, counts: bool) -> None:
    """Count the vote of a voting master for our epoch or a later one (R92)."""
    if not counts or epoch < state.election.epoch:
        return
    state.election.count += 1
    state.out.append(ElectionStep("vote", state.election.epoch, voter))
    state.todo |= TODO_FAILOVER


def _win(state: NodeState) -> None:
    """Replace our master with the election's epoch (R93)."""
    view, election = state.view, state.election
    myself = view.myself
    state.log("*", f"Failover election won: I'm the new {view.profile.word_for_master}.")
    state.out.append(ElectionStep("won", election.epoch, f"{election.count} votes"))
    if myself.config_epoch < election.epoch:
        myself.config_epoch = election.epoch
        state.out.append(Changed(myself.id, Field.CONFIG_EPOCH, Cause.ELECTION_WON))
        state.log("*", f"configEpoch set to {election.epoch} after successful failover")
    replace_master(state)


def reset_election(state: NodeState, reason: str) -> None:
    """Reset our election, so that another can start at once (R93, R94)."""
    election = state.election
    if election.time_ms and not election.count and reason:
        state.out.append(ElectionStep("reset", election.epoch, reason))
    election.time_ms, election.is_sent, election.count, election.hurried = 0, False, 0, False


def yield_to_rival(state: NodeState, rival: Peer) -> None:
    """End our election if a master claims an epoch that is not older (R94)."""
    election = state.election
    if not state.view.profile.rivals_end_elections or not election.is_sent or not rival.flags & MASTER:
        return
    if election.time_ms and rival.config_epoch >= election.epoch and not state.view.myself.flags & MASTER:
        state.log(
            "*",
            f"Failover election in progress for epoch {election.epoch}, but received a claim from node {rival.id} "
            f"with an equal or higher epoch {rival.config_epoch}. Resetting the election since we cannot win.",
        )
        reset_election(state, f"{rival.id} published epoch {rival.config_epoch}")


def _note_stall(state: NodeState, cause: str) -> None:
    """Log why there is no failover yet, with a limited rate (clusterLogCantFailover)."""
    election, now_ms = state.election, state.now_ms
    is_age = cause == DATA_AGE.format(master=state.view.profile.word_for_master)
    factor = state.view.profile.data_age_relog_factor if is_age else 1
    if cause == election.cause and now_ms - election.cause_ms < factor * RELOG_MS:
        return
    election.cause, election.cause_ms = cause, now_ms
    state.log("*", f"Currently unable to failover: {cause}")
    step = "expired" if cause == EXPIRED else "stalled"
    state.out.append(ElectionStep(step, election.epoch, cause))
    if cause in (WAITING_VOTES, EXPIRED):
        quorum = quorum_of(state.view.size())
        state.log("*", f"Needed quorum: {quorum}. Number of votes received so far: {election.count}")
