"""What a sentinel's timer does where nothing else tells it: doubts, agreement, TILT, opinions that are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cluster_core.sentinel.down import is_agreed_down, is_down, silent_ms
from cluster_core.sentinel.instance import FORCE_FAILOVER, MASTER_DOWN, O_DOWN, S_DOWN, Instance
from cluster_core.sentinel_history.beliefs import family_of
from cluster_core.sentinel_history.evidence import CAPTURE

if TYPE_CHECKING:
    from cluster_core.sentinel_history.fold import SentinelFold

ANSWER_KEPT_MS: Final = 5000
"""What another sentinel said of the master is forgotten then (S8)."""
RECONNECT_MS: Final = 1000


def run_timer(fold: SentinelFold, tick_ns: int) -> None:
    """The timer: what others said is forgotten in time; the rest only where no event tells it."""
    before_ms = fold.state.now_ms
    fold.at_time(tick_ns)
    is_told = fold.is_told
    if not is_told:
        _check_tilt(fold, before_ms)
    before = [(one.flags, one.leader) for one in fold.instances()]
    for master in fold.state.masters.values():
        if not is_told and not fold.state.tilt:
            fold.was_untold = True
            _check_down(fold, master)
        forget_opinions(fold, master)
    if before != [(one.flags, one.leader) for one in fold.instances()]:
        fold.note("time", CAPTURE)
    fold.take_announced()


def _check_tilt(fold: SentinelFold, before_ms: int) -> None:
    """A process that did not run for long does nothing but watch for half a minute (S16)."""
    state, periods = fold.state, fold.state.periods
    if before_ms and fold.ticks.is_stopped(fold.now_ns - 1) and state.now_ms - before_ms > periods.tilt_trigger_ms:
        state.tilt, state.tilt_since_ms = True, state.now_ms
        state.tell("#", "+tilt", "#tilt mode entered")
    elif state.tilt and state.now_ms - state.tilt_since_ms >= periods.tilt_period_ms:
        state.tilt = False
        state.tell("#", "-tilt", "#tilt mode exited")


def forget_opinions(fold: SentinelFold, master: Instance) -> None:
    """What others said of *master* long ago counts no more (S8); Valkey 9.1 sees to that only while it is down."""
    if fold.keeps_opinions and (not master.flags & S_DOWN or master.flags & FORCE_FAILOVER):
        return
    for sentinel in master.sentinels.values():
        if fold.state.now_ms - sentinel.master_down_reply_ms > ANSWER_KEPT_MS:
            sentinel.flags &= ~MASTER_DOWN
            sentinel.leader = ""


def _check_down(fold: SentinelFold, master: Instance) -> None:
    for instance in family_of(master):
        link = instance.link
        if link.disconnected and fold.state.now_ms - link.reconnected_ms >= RECONNECT_MS:
            link.reconnected_ms = fold.state.now_ms
            link.pending_ping_ms = link.pending_ping_ms or fold.state.now_ms  # it is sent at once (S6)
        if fold.knows_down_after:
            fold.mark_down(instance, is_down(instance, fold.state.periods, fold.state.now_ms))
        elif not silent_ms(instance, fold.state.now_ms):
            fold.mark_down(instance, False)
    _, agreeing = is_agreed_down(master)
    mark_agreed(fold, master, agreeing >= quorum_of(fold, master), agreeing)


def quorum_of(fold: SentinelFold, master: Instance) -> int:
    """Its quorum, as far as it was told, else the majority of the sentinels that are known."""
    return master.quorum or (len(master.sentinels) + 1) // 2 + 1


def mark_agreed(fold: SentinelFold, master: Instance, agreed: bool, agreeing: int) -> None:
    """Enough sentinels hold *master* for down, or no longer (S7)."""
    if agreed and not master.flags & O_DOWN:
        fold.state.tell_of("#", "+odown", master, f"#quorum {agreeing}/{quorum_of(fold, master)}")
        master.flags |= O_DOWN
        master.o_down_since_ms = fold.state.now_ms
    elif not agreed and master.flags & O_DOWN:
        fold.state.tell_of("#", "-odown", master)
        master.flags &= ~O_DOWN
