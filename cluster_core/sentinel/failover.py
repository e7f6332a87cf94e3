"""Failover state machine (S10 to S14): votes (S9), leader election (S11), choice of the replica (S13)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from cluster_core.sentinel.directory import move_master
from cluster_core.sentinel.instance import TRANSITIONS, Address, FailoverState, Flag, Instance, Trigger
from cluster_core.sentinel.links import force_hello
from cluster_core.sentinel.state import EPOCH_MAX, Periods, ReplyPurpose, SentinelState


def vote(state: SentinelState, master: Instance, epoch: int, candidate: str) -> tuple[str, int]:
    """Vote for *candidate* in *epoch* unless already voted; return the vote and its epoch (S17, sentinelVoteLeader)."""
    if epoch > EPOCH_MAX:
        return master.leader, master.leader_epoch
    if epoch > state.current_epoch:
        state.raise_epoch(epoch)
    if master.leader_epoch < epoch and state.current_epoch <= epoch:
        master.leader, master.leader_epoch = candidate, state.current_epoch
        state.tell("#", "+vote-for-leader", f"{candidate} {master.leader_epoch}")
        if candidate.lower() != state.my_id:
            master.failover_start_ms = state.now_ms + state.desync_ms()
    return master.leader, master.leader_epoch


def count_votes(votes: Iterable[str]) -> dict[str, int]:
    """Return votes per candidate, in order of first mention."""
    counts: dict[str, int] = {}
    for leader in votes:
        counts[leader] = counts.get(leader, 0) + 1
    return counts


def votes_needed(voters: int, quorum: int) -> int:
    """Return the votes needed to lead: a majority of all known sentinels, and at least *quorum*.

    >>> votes_needed(5, 2), votes_needed(5, 4)
    (3, 4)
    """
    return max(voters // 2 + 1, quorum)


def find_leader(state: SentinelState, master: Instance, epoch: int) -> str:
    """Return the elected leader for *master* in *epoch*, or an empty text (sentinelGetLeader).

    A sentinel that has not voted adds a vote for the front runner or, without one, for itself.
    """
    sentinels = master.sentinels.values()
    counts = count_votes(s.leader for s in sentinels if s.leader and s.leader_epoch == state.current_epoch)
    first = max(counts, key=lambda runid: counts[runid], default="")
    mine, mine_epoch = vote(state, master, epoch, first or state.my_id)
    if mine and mine_epoch == epoch:
        counts[mine] = counts.get(mine, 0) + 1
        if counts[mine] > counts.get(first, 0) or not first:
            first = mine
    enough = votes_needed(len(sentinels) + 1, master.quorum)
    return first if first and counts[first] >= enough else ""


LINK_DOWN_FACTOR: Final = 10
"""Maximum time without its master, before the master went down, in units of `down-after-milliseconds`."""


def why_not(replica: Instance, master: Instance, periods: Periods, now_ms: int) -> str:
    """Return the obstacle to promoting *replica* at *now_ms*, or an empty text.

    ``down``, ``disconnected``, ``no ping`` (for five ping periods), ``priority 0``, ``old info`` (five ping periods
    while the master is down, else three info periods), ``link down too long``.
    """
    is_master_down = bool(master.flags & Flag.S_DOWN)
    if replica.flags & (Flag.S_DOWN | Flag.O_DOWN):
        return "down"
    if replica.link.disconnected:
        return "disconnected"
    if now_ms - replica.link.available_ms > periods.ping_ms * 5:
        return "no ping"
    if replica.priority == 0:
        return "priority 0"
    if now_ms - replica.info_ms > (periods.ping_ms * 5 if is_master_down else periods.info_ms * 3):
        return "old info"
    down_ms = now_ms - master.s_down_since_ms if is_master_down else 0
    if replica.master_link_down_ms > down_ms + master.down_after_ms * LINK_DOWN_FACTOR:
        return "link down too long"
    return ""


def choice_key(replica: Instance) -> tuple[int, int, bool, str]:
    """Return the sort key, best replica first: lower priority, greater offset, run id (`compareSlavesForPromotion`)."""
    return replica.priority, -replica.offset, not replica.runid, replica.runid.lower()


def choose_replica(master: Instance, periods: Periods, now_ms: int) -> Instance | None:
    """Return the replica of *master* to promote at *now_ms*, or None."""
    fit = [replica for replica in master.replicas.values() if not why_not(replica, master, periods, now_ms)]
    return min(fit, key=choice_key, default=None)


def advance(state: SentinelState, master: Instance, trigger: Trigger) -> None:
    """Apply the transition in `TRANSITIONS` for *trigger* and announce it."""
    transition = TRANSITIONS[master.failover_state, trigger]
    master.failover_state = transition.after
    master.failover_changed_ms = state.now_ms
    for event in transition.announced:
        subject = master.promoted if event.of_replica and master.promoted is not None else master
        state.announce_of(event.level, event.channel, subject)


# -- start -------------------------------------------------------------------------------------------------------------


def start_failover(state: SentinelState, master: Instance) -> None:
    """Begin a failover of *master* in a new epoch (sentinelStartFailover)."""
    master.flags |= Flag.FAILOVER_IN_PROGRESS
    state.current_epoch += 1
    master.failover_epoch = state.current_epoch
    state.tell("#", "+new-epoch", str(state.current_epoch))
    advance(state, master, Trigger.STARTED)
    master.failover_start_ms = state.now_ms + state.desync_ms()


def start_if_needed(state: SentinelState, master: Instance) -> bool:
    """Start a failover if *master* is in ODOWN and none was tried for two failover timeouts (S10)."""
    if not master.flags & Flag.O_DOWN or master.flags & Flag.FAILOVER_IN_PROGRESS:
        return False
    due_ms = master.failover_start_ms + master.failover_timeout_ms * 2
    if state.now_ms < due_ms:
        if master.failover_delay_logged_ms != master.failover_start_ms:
            master.failover_delay_logged_ms = master.failover_start_ms
            state.log("#", f"Next failover delay: I will not start a failover before {_clock(due_ms)}")
        return False
    start_failover(state, master)
    return True


def _clock(at_ms: int) -> str:
    """Format a time like ctime, in UTC."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).ctime()


# -- states ------------------------------------------------------------------------------------------------------------


def run_failover(state: SentinelState, master: Instance) -> None:
    """Run the handler of the current state (sentinelFailoverStateMachine)."""
    if not master.flags & Flag.FAILOVER_IN_PROGRESS:
        return
    match master.failover_state:
        case FailoverState.WAIT_START:
            _wait_start(state, master)
        case FailoverState.SELECT_SLAVE:
            _select_replica(state, master)
        case FailoverState.SEND_SLAVEOF_NOONE:
            _send_noone(state, master)
        case FailoverState.WAIT_PROMOTION if _waited_ms(state, master) > master.failover_timeout_ms:
            _abort(state, master, Trigger.TIMED_OUT)  # `promotion_seen` continues
        case FailoverState.RECONF_SLAVES:
            _reconf_replicas(state, master)


def _waited_ms(state: SentinelState, master: Instance) -> int:
    return state.now_ms - master.failover_changed_ms


def _wait_start(state: SentinelState, master: Instance) -> None:
    """Continue as the elected leader, or abort after the election timeout (S12)."""
    leader = find_leader(state, master, master.failover_epoch)
    if leader.lower() == state.my_id:
        advance(state, master, Trigger.ELECTED)
        return
    patience_ms = min(state.periods.election_timeout_ms, master.failover_timeout_ms)
    if state.now_ms - master.failover_start_ms > patience_ms:
        _abort(state, master, Trigger.TIMED_OUT)


def _select_replica(state: SentinelState, master: Instance) -> None:
    replica = choose_replica(master, state.periods, state.now_ms)
    if replica is None:
        _abort(state, master, Trigger.NO_REPLICA)
        return
    master.promoted = replica
    advance(state, master, Trigger.REPLICA_CHOSEN)
    replica.flags |= Flag.PROMOTED


def _send_noone(state: SentinelState, master: Instance) -> None:
    """Send REPLICAOF NO ONE once the replica is reachable."""
    replica = master.promoted
    if replica is not None and not replica.link.disconnected and replica.link.command:
        send_replicaof(state, replica, None)
        advance(state, master, Trigger.ORDER_SENT)
    elif _waited_ms(state, master) > master.failover_timeout_ms:
        _abort(state, master, Trigger.TIMED_OUT)


def promotion_seen(state: SentinelState, master: Instance) -> None:
    """Handle the promoted replica's INFO with role master; the configuration gets the election's epoch (S14)."""
    master.config_epoch = master.failover_epoch
    advance(state, master, Trigger.PROMOTED)
    force_hello(state, master)


def _reconf_replicas(state: SentinelState, master: Instance) -> None:
    """Point replicas to the new master, `parallel-syncs` at a time (sentinelFailoverReconfNextSlave)."""
    replicas, periods, promoted = master.replicas.values(), state.periods, master.promoted
    busy = sum(bool(replica.flags & (Flag.RECONF_SENT | Flag.RECONF_INPROG)) for replica in replicas)
    for replica in replicas:
        if busy >= master.parallel_syncs or promoted is None:
            break
        if replica.flags & (Flag.PROMOTED | Flag.RECONF_DONE):
            continue
        waited_ms = state.now_ms - replica.reconf_sent_ms
        if replica.flags & Flag.RECONF_SENT and waited_ms > periods.reconf_timeout_ms:
            state.announce_of("*", "-slave-reconf-sent-timeout", replica)
            replica.flags = replica.flags & ~Flag.RECONF_SENT | Flag.RECONF_DONE
        if replica.flags & (Flag.RECONF_SENT | Flag.RECONF_INPROG) or not is_reachable(replica):
            continue
        send_replicaof(state, replica, promoted.address)
        replica.flags |= Flag.RECONF_SENT
        replica.reconf_sent_ms = state.now_ms
        state.announce_of("*", "+slave-reconf-sent", replica)
        busy += 1
    _detect_end(state, master)


def is_reachable(replica: Instance) -> bool:
    """Return whether a command can be sent to *replica*."""
    return bool(replica.link.command) and not replica.link.disconnected


def _detect_end(state: SentinelState, master: Instance) -> None:
    """Finish once all reachable replicas follow the new master, or on timeout (sentinelFailoverDetectEnd)."""
    promoted = master.promoted
    if promoted is None or promoted.flags & Flag.S_DOWN:
        return
    left = [r for r in master.replicas.values() if not r.flags & (Flag.PROMOTED | Flag.RECONF_DONE | Flag.S_DOWN)]
    if _waited_ms(state, master) <= master.failover_timeout_ms:
        if not left:
            advance(state, master, Trigger.ALL_RECONFIGURED)
        return
    advance(state, master, Trigger.TIMED_OUT)
    for replica in master.replicas.values():
        if replica.flags & (Flag.PROMOTED | Flag.RECONF_DONE | Flag.RECONF_SENT) or not is_reachable(replica):
            continue
        send_replicaof(state, replica, promoted.address)
        state.announce_of("*", "+slave-reconf-sent-be", replica)
        replica.flags |= Flag.RECONF_SENT


def switch_master(state: SentinelState, master: Instance) -> None:
    """Replace the master by the promoted replica (sentinelFailoverSwitchToPromotedSlave)."""
    new = (master.promoted or master).address
    old = master.address
    state.tell("#", "+switch-master", f"{master.name} {old.ip} {old.port} {new.ip} {new.port}")
    advance(state, master, Trigger.SWITCHED)
    move_master(state, master, new)


def _abort(state: SentinelState, master: Instance, trigger: Trigger) -> None:
    """Abort before the promotion (sentinelAbortFailover)."""
    advance(state, master, trigger)
    master.flags &= ~Flag.FAILOVER_IN_PROGRESS
    if master.promoted is not None:
        master.promoted.flags &= ~Flag.PROMOTED
        master.promoted = None


def send_replicaof(state: SentinelState, instance: Instance, address: Address | None) -> None:
    """Send REPLICAOF, CONFIG REWRITE and CLIENT KILL in one transaction (sentinelSendSlaveOf)."""
    host, port = (address.ip, str(address.port)) if address is not None else ("NO", "ONE")
    for arguments in (("MULTI",), ("SLAVEOF", host, port), ("CONFIG", "REWRITE")):
        state.send(instance, ReplyPurpose.DISCARD, *arguments)
    for kind in ("normal", "pubsub"):  # clients then ask for the master's address again
        state.send(instance, ReplyPurpose.DISCARD, "CLIENT", "KILL", "TYPE", kind)
    state.send(instance, ReplyPurpose.DISCARD, "EXEC")
