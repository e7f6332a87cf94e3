"""Subjective down (S6) and objective down by quorum (S7, S8)."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.instance import FailoverState, Flag, Instance
from cluster_core.sentinel.links import close_command, close_pubsub
from cluster_core.sentinel.state import Periods, ReplyPurpose, SentinelState

ANSWER_PERIODS: Final = 5
"""Ask periods after which another sentinel's opinion expires (S8)."""


def silent_ms(instance: Instance, now_ms: int) -> int:
    """Return ms without an answer: since the oldest pending PING or, if disconnected, since the last contact."""
    link = instance.link
    if link.pending_ping_ms:
        return now_ms - link.pending_ping_ms
    return now_ms - link.available_ms if link.disconnected else 0


def is_down(instance: Instance, periods: Periods, now_ms: int) -> bool:
    """Return whether *instance* is silent, or a master with the replica role, for too long at *now_ms* (S6)."""
    if silent_ms(instance, now_ms) > instance.down_after_ms:
        return True
    if instance.flags & Flag.MASTER and instance.role_reported == Flag.REPLICA:
        patience_ms = instance.down_after_ms + periods.info_ms * 2
        return now_ms - instance.role_reported_ms > patience_ms
    return False


def check_subjectively(state: SentinelState, instance: Instance) -> None:
    """Close stalled connections, then set or clear `S_DOWN` (sentinelCheckSubjectivelyDown)."""
    _close_stuck(state, instance)
    if is_down(instance, state.periods, state.now_ms):
        if not instance.flags & Flag.S_DOWN:
            state.announce_of("#", "+sdown", instance)
            instance.s_down_since_ms = state.now_ms
            instance.flags |= Flag.S_DOWN
    elif instance.flags & Flag.S_DOWN:
        state.announce_of("#", "-sdown", instance)
        instance.flags &= ~(Flag.S_DOWN | Flag.SCRIPT_KILL_SENT)


def _close_stuck(state: SentinelState, instance: Instance) -> None:
    link, now_ms, periods = instance.link, state.now_ms, state.periods
    half_ms = instance.down_after_ms // 2
    if (
        link.command
        and now_ms - link.command_since_ms > periods.min_reconnect_ms
        and link.pending_ping_ms
        and now_ms - link.pending_ping_ms > half_ms
        and now_ms - link.last_pong_ms > half_ms
    ):
        close_command(state, link)
    if (
        link.pubsub
        and now_ms - link.pubsub_since_ms > periods.min_reconnect_ms
        and now_ms - link.pubsub_active_ms > periods.publish_ms * 3
    ):
        close_pubsub(state, link)


def is_agreed_down(master: Instance) -> tuple[bool, int]:
    """Return whether the quorum considers *master* down, and the number of such sentinels, this one included (S7)."""
    if not master.flags & Flag.S_DOWN:
        return False, 0
    agreeing = 1 + sum(bool(s.flags & Flag.MASTER_DOWN) for s in master.sentinels.values())
    return agreeing >= master.quorum, agreeing


def check_objectively(state: SentinelState, master: Instance) -> None:
    """Set or clear `O_DOWN` (sentinelCheckObjectivelyDown)."""
    agreed, agreeing = is_agreed_down(master)
    if agreed and not master.flags & Flag.O_DOWN:
        state.announce_of("#", "+odown", master, f"#quorum {agreeing}/{master.quorum}")
        master.flags |= Flag.O_DOWN
        master.o_down_since_ms = state.now_ms
    elif not agreed and master.flags & Flag.O_DOWN:
        state.announce_of("#", "-odown", master)
        master.flags &= ~Flag.O_DOWN


def ask_others(state: SentinelState, master: Instance, *, forced: bool) -> None:
    """Ask every sentinel whether *master* is down, once per ask period unless *forced*, with vote requests (S8)."""
    periods, now_ms = state.periods, state.now_ms
    asks_vote = master.failover_state > FailoverState.NONE
    forgets = bool(master.flags & Flag.S_DOWN) or not state.settings.keeps_opinions
    for sentinel in master.sentinels.values():
        age_ms = now_ms - sentinel.master_down_reply_ms
        if forgets and age_ms > periods.ask_ms * ANSWER_PERIODS:
            sentinel.flags &= ~Flag.MASTER_DOWN
            sentinel.leader = ""
        if not master.flags & Flag.S_DOWN or sentinel.link.disconnected:
            continue
        if not forced and age_ms < periods.ask_ms:
            continue
        address = master.address
        arguments = ("SENTINEL", "is-master-down-by-addr", address.ip, str(address.port), str(state.current_epoch))
        state.send(sentinel, ReplyPurpose.ASK, *arguments, state.my_id if asks_vote else "*")
