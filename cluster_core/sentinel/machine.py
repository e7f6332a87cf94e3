"""The whole sentinel: events in, effects out, nothing else (docs/design/sentinel.md is the contract with its driver).

It owns no clock, no socket, no file and no chance of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.commands import serve_client
from cluster_core.sentinel.config_file import config_text, load_config
from cluster_core.sentinel.directory import propagate_down_after
from cluster_core.sentinel.down import ask_others, check_objectively, check_subjectively
from cluster_core.sentinel.events import Effect, Event
from cluster_core.sentinel.failover import run_failover, start_if_needed, switch_master
from cluster_core.sentinel.instance import FailoverState, Flag, Instance
from cluster_core.sentinel.links import link_lost, link_opened, reconnect, send_periodic
from cluster_core.sentinel.roles import take_answer
from cluster_core.sentinel.state import TICKS_PER_S, SentinelSettings, SentinelState, random_id

if TYPE_CHECKING:
    from random import Random


class Sentinel:
    """One sentinel; see the module.

    *config* is the text of a sentinel.conf; the masters to watch stand in it, or come with SENTINEL MONITOR.  *rng* is the
    only source of chance: the id unless the file has one, delays of elections, the timer.  Raises DecodeError for a
    *config* that a server would refuse.  What follows from the start comes with the effects of the first event.
    """

    def __init__(self, settings: SentinelSettings, rng: Random, now_ms: int, *, config: str = "") -> None:
        self.state = state = SentinelState(settings, rng, now_ms)
        load_config(state, config)
        for master in state.masters.values():
            propagate_down_after(master)
        self.tick_ms = 1000 // TICKS_PER_S
        if not state.my_id:
            state.my_id = random_id(rng)
            state.save()
        state.log("#", f"Sentinel ID is {state.my_id}")
        for master in state.masters.values():
            state.tell_of("#", "+monitor", master, f"quorum {master.quorum}")
        self._begun, state.out = state.out, []

    @property
    def my_id(self) -> str:
        """Its id, which stands in its configuration."""
        return self.state.my_id

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms* (milliseconds of the wall clock) and return the effects, to be carried out in order."""
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
            case ev.ClientClosed():
                state.clients.pop(event.client, None)
        return state.out

    def config_text(self) -> str:
        """What sentinel.conf should hold now."""
        return config_text(self.state)

    def protocol_of(self, client: int) -> int:
        """2 or 3: the form of replies that *client* has asked for with HELLO."""
        session = self.state.clients.get(client)
        return session.protocol if session is not None else 2

    def _tick(self) -> None:
        """The timer, at a new pace each time, so that no two sentinels keep step (sentinelTimer)."""
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
    """A clock that went back, or a timer that comes far too late: do not act for a while (S16)."""
    gap_ms = state.now_ms - state.previous_ms
    if gap_ms < 0 or gap_ms > state.periods.tilt_trigger_ms:
        state.tilt, state.tilt_since_ms = True, state.now_ms
        state.tilts += 1
        state.tell("#", "+tilt", "#tilt mode entered")
    state.previous_ms = state.now_ms


def _look_after(state: SentinelState, instance: Instance) -> None:
    """What the timer does for one instance: watch always, act unless in TILT (sentinelHandleRedisInstance)."""
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
