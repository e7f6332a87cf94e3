"""One sentinel of the core on a bench: servers that answer at once, a clock that is turned by hand."""

from __future__ import annotations

from random import Random
from typing import Any

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import Instance
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.state import MonitoredMaster, SentinelSettings
from cluster_core.wire.resp import RespError

MASTER = ("10.0.0.1", 6379)
START_MS = 1_700_000_000_000
MY_ID = "e" * 40
MAIN = MonitoredMaster("main", "10.0.0.1", 6379, 2, down_after_ms=2000, failover_timeout_ms=10_000)
MORE = MonitoredMaster("more", "10.0.0.5", 6379)
Place = tuple[str, int]


def info_of_master(*replicas: Place, runid: str = "a" * 40) -> str:
    lines = [f"run_id:{runid}", "role:master"]
    lines += [f"slave{n}:ip={ip},port={port},state=online,offset=1,lag=0" for n, (ip, port) in enumerate(replicas)]
    return "\r\n".join((*lines, ""))


def info_of_replica(
    master: Place = MASTER,
    *,
    up: bool = True,
    runid: str = "b" * 40,
    priority: int = 100,
    offset: int = 10,
    down_s: int = 0,
) -> str:
    lines = [f"run_id:{runid}", "role:slave", f"master_host:{master[0]}", f"master_port:{master[1]}"]
    lines += [f"master_link_status:{'up' if up else 'down'}"]
    lines += [f"master_link_down_since_seconds:{down_s}"] if down_s else []
    lines += [f"slave_repl_offset:{offset}", f"slave_priority:{priority}", "replica_announced:1"]
    return "\r\n".join((*lines, ""))


class Bench:
    """*infos* is what each server says of itself; who is in *silent* answers nothing, who is in *refusing* hangs up."""

    def __init__(self, *watched: MonitoredMaster, seed: int = 1) -> None:
        self.now_ms = START_MS
        self.sentinel = Sentinel(SentinelSettings(), Random(seed), self.now_ms, *(watched or (MAIN,)), my_id=MY_ID)
        self.infos: dict[Place, str] = {MASTER: info_of_master()}
        self.silent: set[Place] = set()
        self.refusing: set[Place] = set()
        self.opinions: dict[Place, list[Any]] = {}
        self.links: dict[int, Place] = {}
        self.held: list[tuple[Place, ev.Event]] = []
        self.sent: list[tuple[Place, tuple[str, ...]]] = []
        self.notices: list[tuple[str, str]] = []
        self.log: list[str] = []
        self.replies: list[Any] = []

    @property
    def master(self) -> Instance:
        return self.sentinel.state.masters["main"]

    def pass_ms(self, time_ms: int, step_ms: int = 100) -> None:
        """Let time pass, a tick every *step_ms*."""
        end_ms = self.now_ms + time_ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + step_ms, end_ms)
            self.handle(ev.Tick())

    def handle(self, event: ev.Event) -> None:
        """Hand over an event, and whatever follows from its effects."""
        follows: list[ev.Event] = []
        for effect in self.sentinel.handle(event, self.now_ms):
            match effect:
                case ev.OpenLink():
                    self.links[effect.link] = place = (effect.ip, effect.port)
                    follows.append(
                        ev.LinkClosed(effect.link) if place in self.refusing else ev.LinkOpened(effect.link, "10.9.9.9")
                    )
                case ev.SendCommand():
                    follows += self._answer(effect)
                case ev.EventPublished():
                    self.notices.append((effect.channel, effect.text))
                case ev.LogLine():
                    self.log.append(effect.text)
                case ev.Reply():
                    self.replies.append(effect.value)
        for each in follows:
            self.handle(each)

    def _answer(self, effect: ev.SendCommand) -> list[ev.Event]:
        place = self.links[effect.link]
        arguments = tuple(word.decode() for word in effect.arguments)
        self.sent.append((place, arguments))
        if place in self.refusing:
            return []
        answer = ev.ReplyReceived(effect.link, self._value(place, arguments))
        if place in self.silent:
            self.held.append((place, answer))
            return []
        return [answer]

    def wake(self, place: Place) -> None:
        """A server that was silent answers everything."""
        self.silent.discard(place)
        waiting, self.held = self.held, []
        for held_place, answer in waiting:
            if held_place == place:
                self.handle(answer)

    def _value(self, place: Place, arguments: tuple[str, ...]) -> Any:
        name = arguments[0]
        if name == "SENTINEL":
            return self.opinions.get(place, [0, b"*", 0])
        if name == "INFO":
            return self.infos[place].encode() if place in self.infos else RespError("ERR none")
        if name == "SUBSCRIBE":
            return [b"subscribe", arguments[1].encode(), 1]
        return {"PING": "PONG", "PUBLISH": 1}.get(name, "OK")

    def say(self, *arguments: str, client: int = 7) -> Any:
        """A client's command and its (last) reply."""
        self.replies.clear()
        self.handle(ev.ClientCommand(client, tuple(word.encode("utf-8", "surrogateescape") for word in arguments)))
        return self.replies[-1] if self.replies else None

    def hello(self, text: str) -> Any:
        """A hello message of another sentinel, sent to us."""
        return self.say("PUBLISH", "__sentinel__:hello", text, client=9)

    def meet(self, number: int) -> Place:
        """Another sentinel makes itself known."""
        place = (f"10.0.9.{number}", 26379)
        self.hello(f"{place[0]},{place[1]},{number:040x},0,main,10.0.0.1,6379,0")
        return place

    def channels(self) -> list[str]:
        return [channel for channel, _ in self.notices]

    def commands_to(self, place: Place, *first: str) -> list[tuple[str, ...]]:
        """What was sent to a place, beginning with *first*."""
        return [arguments for to, arguments in self.sent if to == place and arguments[: len(first)] == first]
