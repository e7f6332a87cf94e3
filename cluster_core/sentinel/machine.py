"""The sentinel state machine: events in, effects out (contract with its driver: docs/design/sentinel.md).

It has no clock, sockets, files or own randomness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.commands import serve_client
from cluster_core.sentinel.directory import add_master
from cluster_core.sentinel.down import ask_others, check_objectively, check_subjectively
from cluster_core.sentinel.events import Effect, Event
from cluster_core.sentinel.failover import run_failover, start_if_needed, switch_master
from cluster_core.sentinel.instance import Address, FailoverState, Flag, Instance
from cluster_core.sentinel.links import link_lost, link_opened, reconnect, send_periodic
from cluster_core.sentinel.roles import take_answer
from cluster_core.sentinel.state import TICKS_PER_S, SentinelSettings, SentinelState, Watched, random_id

if TYPE_CHECKING:
    from random import Random


class Sentinel:
    """One sentinel that monitors *watched*.

    *rng* draws the id (unless given), election delays and timer periods. Effects of the start are returned with those
    of the first event.
    """

    def __init__(
        self, settings: SentinelSettings, rng: Random, now_ms: int, *watched: Watched, my_id: str = ""
    ) -> None:
        self.state = state = SentinelState(settings, rng, now_ms)
        state.my_id = my_id or random_id(rng)
        for one in watched:
            master = add_master(state, one.name, Address(one.ip, one.port), one.quorum)
            for name in ("down_after_ms", "failover_timeout_ms", "parallel_syncs"):
                setattr(master, name, getattr(one, name))
        self.tick_ms = 1000 // TICKS_PER_S
        state.log("#", f"Sentinel ID is {state.my_id}")
        for master in state.masters.values():
            state.tell_of("#", "+monitor", master, f"quorum {master.quorum}")
        self._begun, state.out = state.out, []

    @property
    def my_id(self) -> str:
        """Return the sentinel's id."""
        return self.state.my_id

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms* (wall clock, ms) and return the effects in execution order."""
        state = self.state
        state.now_ms = now_ms
        state.out, self._begun = self._begun, []
        match event:
            case ev.Tick():
                self._tick()
            case ev.LinkOpened():
                link_opened(state, event.link, event.local_ip)
            case ev.LinkClosed():
                link_lost(state, event.link)
            case ev.Answered():
                take_answer(state, event.link, event.value)
            case ev.ClientCommand():
                serve_client(state, event.client, event.words)
        return state.out

    def _tick(self) -> None:
        """Run the timer and draw the next period, so that sentinels desynchronize (sentinelTimer)."""
        state = self.state
        _check_tilt(state)
        finished = None
        for master in list(state.masters.values()):
            _look_after(state, master)
            for instance in (*master.replicas.values(), *master.sentinels.values()):
                _look_after(state, instance)
            if master.failover_state == FailoverState.UPDATE_CONFIG:
                finished = master
        if finished is not None:
            switch_master(state, finished)
        self.tick_ms = 1000 // (TICKS_PER_S + int(state.rng.random() * TICKS_PER_S))


def _check_tilt(state: SentinelState) -> None:
    """Enter TILT after a backward clock step or a late timer, and leave it after the TILT period (S16)."""
    gap_ms = state.now_ms - state.previous_ms
    if gap_ms < 0 or gap_ms > state.periods.tilt_trigger_ms:
        state.tilt, state.tilt_since_ms = True, state.now_ms
        state.tell("#", "+tilt", "#tilt mode entered")
    state.previous_ms = state.now_ms


def _look_after(state: SentinelState, instance: Instance) -> None:
    """Run the periodic checks of one instance; TILT skips all actions (sentinelHandleRedisInstance)."""
    if instance.is_gone:
        return
    reconnect(state, instance)
    send_periodic(state, instance)
    if state.tilt:
        if state.now_ms - state.tilt_since_ms < state.periods.tilt_period_ms:
            return
        state.tilt = False
        state.tell("#", "-tilt", "#tilt mode exited")
    check_subjectively(state, instance)
    if instance.flags & Flag.MASTER:
        check_objectively(state, instance)
        if start_if_needed(state, instance):
            ask_others(state, instance, forced=True)
        run_failover(state, instance)
        ask_others(state, instance, forced=False)
