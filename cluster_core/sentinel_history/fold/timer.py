"""What a sentinel's timer does where nothing else tells it: doubts, agreement, TILT, opinions that are forgotten."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.down import is_agreed_down, is_down, silent_ms
from cluster_core.sentinel.instance import Instance
from cluster_core.sentinel_history.beliefs import family_of
from cluster_core.sentinel_history.evidence import CAPTURE
from cluster_core.sentinel_history.fold.state import FoldState

RECONNECT_MS: Final = 1000


def run_timer(fold: FoldState, tick_ns: int) -> None:
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
        fold.forget_opinions(master)
    if before != [(one.flags, one.leader) for one in fold.instances()]:
        fold.note("time", CAPTURE)
    fold.take_announced()


def _check_tilt(fold: FoldState, before_ms: int) -> None:
    """A process that did not run for long does nothing but watch for half a minute (S16)."""
    state, periods = fold.state, fold.state.periods
    if before_ms and fold.ticks.is_stopped(fold.now_ns - 1) and state.now_ms - before_ms > periods.tilt_trigger_ms:
        state.tilt, state.tilt_since_ms = True, state.now_ms
        state.tell("#", "+tilt", "#tilt mode entered")
    elif state.tilt and state.now_ms - state.tilt_since_ms >= periods.tilt_period_ms:
        state.tilt = False
        state.tell("#", "-tilt", "#tilt mode exited")


def _check_down(fold: FoldState, master: Instance) -> None:
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
    fold.mark_agreed(master, agreeing >= fold.quorum_of(master), agreeing)
