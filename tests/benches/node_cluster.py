"""A small simulated cluster for tests of the node: `World` with nodes on 127.0.0.1, a deterministic network and recorded effects."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cluster_core.gossip.flags import HANDSHAKE, MASTER
from cluster_core.gossip.profile import PROFILES, VALKEY_9_1, Profile
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.sim import host as sim
from cluster_core.sim.clock import START_US
from cluster_core.sim.host import NetworkPath
from cluster_core.sim.layouts import Place
from cluster_core.sim.servers.replication import Feed
from cluster_core.sim.stage import Faults
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.wire.bus import Message
from tests.benches.simulated_servers import Servers

START_MS = START_US // 1000
FIRST_PORT = 7000
LOOK_MS = 50
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


class Host:
    """One process of the cluster, and all effects of its node."""

    def __init__(self, process: sim.Host) -> None:
        self.process, self.index, self.settings = process, process.index, process.settings
        self.effects: list[tuple[int, ev.Effect]] = []

    @property
    def node(self) -> Node:
        return self.process.node

    @property
    def id(self) -> str:
        return self.process.id

    @property
    def alive(self) -> bool:
        return self.process.alive

    def logged(self, beginning: str) -> list[str]:
        """Log lines that begin so."""
        return [e.text for _, e in self.effects if type(e) is ev.LogLine and e.text.startswith(beginning)]

    def effects_of(self, kind: type) -> list[Any]:
        return [e for _, e in self.effects if type(e) is kind]


class Cluster:
    """Hosts 0, 1, 2 … on ports 7000, 7001 …; `run` lets virtual time pass."""

    world_class: type[Servers] = Servers

    def __init__(
        self,
        count: int,
        *,
        profile: Profile = VALKEY_9_1,
        node_timeout_ms: int = 2000,
        seed: int = 0,
        delay_ms: int = 1,
        tick_ms: int = 100,
        **settings: Any,
    ) -> None:
        path = NetworkPath(delay_ms * 1000, 0)
        self.world = self.world_class(Random, seed, path=path, tick_us=tick_ms * 1000, tick_jitter_us=0)
        self.faults = Faults(self.world)
        self.messages: list[tuple[int, int, int, Message]] = []
        self.spoken: list[tuple[tuple[int, int], int, Message]] = []
        self.keep_messages = False
        self.hosts: list[Host] = []
        self.world.observers.append(self)
        self.world.senders.append(self._on_send)
        for index in range(count):
            made = NodeSettings(profile, node_timeout_ms, FIRST_PORT + index, **settings)
            self.hosts.append(Host(self.world.add(Place(f"N{index}", "127.0.0.1", "Z1", made, "", ""))))

    # -- what is seen --------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return START_MS + self.world.now_us // 1000

    def on_effect(self, host: sim.Host, effect: ev.Effect) -> None:
        """An observer of the world: keep what nodes want."""
        self.hosts[host.index].effects.append((self.now_ms, effect))

    def on_note(self, text: str) -> None:
        """Nothing is done by scenarios here."""

    def _on_send(self, host: sim.Host, effect: ev.SendMessage) -> None:
        if self.keep_messages:
            self.spoken.append(((host.index, host.life), effect.link, effect.message))
            stream = host.streams.get(effect.link)
            if stream is not None:
                self.messages.append((self.now_ms, host.index, stream.target.index, effect.message))

    # -- orders --------------------------------------------------------------------------------------------------

    def command(self, index: int, *arguments: str | bytes | int, client: int = 1) -> Any:
        """What host *index* answers to a client's command; None if it does not answer."""
        host = self.hosts[index]
        raw = tuple(w if isinstance(w, bytes) else str(w).encode() for w in arguments)
        replies: list[Any] = []
        self.world.on_reply[client] = lambda _, value: replies.append(value)
        self.world.serve(host.process, client, raw)
        return replies[-1] if replies else None

    def form(self, masters: int, replicas: int = 0) -> None:
        """Give slots, meet, attach *replicas* to the masters in turn, and wait until everybody is content."""
        total = masters + replicas
        for index in range(masters):
            self.command(index, "CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            first, last = SLOT_COUNT * index // masters, SLOT_COUNT * (index + 1) // masters - 1
            self.command(index, "CLUSTER", "ADDSLOTSRANGE", first, last)
        for index in range(1, total):
            self.command(0, "CLUSTER", "MEET", "127.0.0.1", FIRST_PORT + index)
        assert self.run_until(lambda: all(self.knows_all(h, total) for h in self.hosts[:total]), 60_000)
        for index in range(masters, total):
            reply = self.command(index, "CLUSTER", "REPLICATE", self.hosts[index % masters].id)
            assert reply == "OK", reply
        assert self.run_until(lambda: self.agree(total), 60_000)
        self.run(2000)

    def knows_all(self, host: Host, total: int) -> bool:
        nodes = host.node.view.nodes.values()
        return len(nodes) == total and not any(peer.flags & HANDSHAKE for peer in nodes)

    def agree(self, total: int | None = None) -> bool:
        """Whether all running hosts are ok and see the same masters, replicas and slots."""
        hosts = [h for h in self.hosts[:total] if h.process.answers]
        return all(h.node.view.ok for h in hosts) and len({self.picture(h) for h in hosts}) == 1

    def picture(self, host: Host) -> tuple[tuple[str, bool, str, int, int], ...]:
        """What a host believes of roles, slots and epochs."""
        view = host.node.view
        rows = [
            (p.id, bool(p.flags & MASTER), p.replicaof, p.slots & ~view.unclaimed, view.epoch_shown(p))
            for p in view.nodes.values()
        ]
        return tuple(sorted(rows))

    # -- faults --------------------------------------------------------------------------------------------------

    def crash(self, index: int) -> None:
        """End a process: its connections are closed, new ones are refused."""
        self.faults.crash(self.hosts[index].process)

    def restart(self, index: int) -> None:
        """Restart a process with its saved files."""
        self.faults.restart(self.hosts[index].process)

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Nothing gets through between pairs of hosts from now on."""
        for node, other in pairs:
            self.faults.cut([self.hosts[node].process], [self.hosts[other].process])

    def heal(self) -> None:
        self.faults.heal()

    def detach(self, index: int) -> Feed:
        """The replica hears nothing more of its master, and does not notice."""
        return self.world.replication.feeds.pop(index)

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, ms: int) -> None:
        self.world.run_to(self.world.now_us + ms * 1000)

    def run_until(self, condition: Callable[[], bool], ms_max: int) -> bool:
        """Let time pass until *condition* holds, looked at every 50 ms; False if it never did."""
        end_ms = self.now_ms + ms_max
        while self.now_ms < end_ms:
            if condition():
                return True
            self.run(LOOK_MS)
        return condition()


def formed(profile: Profile, masters: int = 3, replicas: int = 3, **options: Any) -> Cluster:
    """A cluster at rest that keeps its messages from now on."""
    cluster = Cluster(masters + replicas, profile=profile, **options)
    cluster.form(masters, replicas)
    cluster.keep_messages = True
    return cluster
