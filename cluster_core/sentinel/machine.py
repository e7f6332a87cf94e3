"""The sentinel state machine: events in, effects out (contract with its driver: docs/design/sentinel.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.directory import add_master
from cluster_core.sentinel.down import ask_others, check_objectively, check_subjectively
from cluster_core.sentinel.events import Effect, Event
from cluster_core.sentinel.failover import run_failover, start_if_needed, switch_master
from cluster_core.sentinel.instance import Address, FailoverState, Flag, Instance
from cluster_core.sentinel.links import link_lost, link_opened, reconnect, send_periodic
from cluster_core.sentinel.roles import take_answer
from cluster_core.sentinel.state import TICKS_PER_S, MonitoredMaster, SentinelSettings, SentinelState, random_id

if TYPE_CHECKING:
    from random import Random
from typing import Any

from cluster_core.sentinel.directory import find_master_at, take_hello
from cluster_core.sentinel.events import HELLO_CHANNEL, Reply
from cluster_core.sentinel.failover import vote
from cluster_core.sentinel.instance import whole_number
from cluster_core.sentinel.links import current_address
from cluster_core.sentinel.state import text_of
from cluster_core.wire.resp import RespError


class Sentinel:
    """One sentinel that monitors *watched*; effects of the start are returned with those of the first event.

    *rng* draws the id (unless given), election delays and timer periods.
    """

    def __init__(
        self, settings: SentinelSettings, rng: Random, now_ms: int, *watched: MonitoredMaster, my_id: str = ""
    ) -> None:
        self.state = state = SentinelState(settings, rng, now_ms)
        state.my_id = my_id or random_id(rng)
        for options in watched:
            master = add_master(state, options.name, Address(options.ip, options.port), options.quorum)
            for name in ("down_after_ms", "failover_timeout_ms", "parallel_syncs"):
                setattr(master, name, getattr(options, name))
        self.tick_ms = 1000 // TICKS_PER_S
        state.log("#", f"Sentinel ID is {state.my_id}")
        for master in state.masters.values():
            state.announce_of("#", "+monitor", master, f"quorum {master.quorum}")
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
            case ev.ReplyReceived():
                take_answer(state, event.link, event.value)
            case ev.ClientCommand():
                serve_client(state, event.client, event.arguments)
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


def serve_client(state: SentinelState, client: int, arguments: tuple[bytes, ...]) -> None:
    """Answer one client command; the reply is added to the effects."""
    state.out.append(Reply(client, _reply(state, [text_of(word) for word in arguments])))


def _reply(state: SentinelState, command: list[str]) -> Any:
    match [command[0].lower(), *command[1:]] if command else []:
        case ["ping"]:
            return "PONG"
        case ["client", *_]:
            return "OK"
        case ["publish", channel, text] if channel == HELLO_CHANNEL:
            take_hello(state, text)
            return 1
        case ["sentinel", name, *arguments]:
            # the old names for Valkey's PRIMARY
            match [name.lower().replace("primary", "master"), *arguments]:
                case ["get-master-addr-by-name", master_name]:
                    return _address(state, master_name)
                case ["is-master-down-by-addr", host, port, epoch, runid]:
                    return _is_down(state, host, whole_number(port), whole_number(epoch), runid)
    return RespError("ERR unknown command")


def _encoded(text: str) -> bytes:
    """Encode text that came from a peer, restoring the peer's bytes."""
    return text.encode("utf-8", "surrogateescape")


def _address(state: SentinelState, name: str) -> Any:
    master = state.masters.get(name)
    if master is None:
        return None
    address = current_address(master)
    return [_encoded(address.ip), str(address.port).encode()]


def _is_down(state: SentinelState, host: str, port: int | None, epoch: int | None, runid: str) -> Any:
    """Return SDOWN of a master, and this sentinel's vote if one is requested; never down in TILT (S8, S9, S16)."""
    if port is None or epoch is None:
        return RespError("ERR value is not an integer or out of range")
    master = find_master_at(state, host, port)
    is_down = master is not None and bool(master.flags & Flag.S_DOWN) and not state.tilt
    leader, leader_epoch = "", 0
    if master is not None and runid != "*" and epoch >= 0:
        leader, leader_epoch = vote(state, master, epoch, runid)
    return [int(is_down), _encoded(leader or "*"), leader_epoch]
