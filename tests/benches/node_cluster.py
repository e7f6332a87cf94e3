"""A cluster in memory for tests of the node: a virtual clock, a network without faults but those that are ordered.

It is the smallest driver that keeps the contract of docs/node.md: what a node wants is carried out in order, everything
takes `delay_ms`, and the same seed gives the same run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from cluster_core.gossip import events as belief
from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER
from cluster_core.gossip.profile import VALKEY_9_1, Profile
from cluster_core.gossip.view import Peer
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.settings import NodeSettings
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from cluster_core.wire.bus import Message

START_MS = 1_700_000_000_000
FIRST_PORT = 7000
REPLICATION_PING_BYTES = 14


class Keys:
    """The keys of one node."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def count(self, slot: int) -> int:
        return sum(key_slot(key) == slot for key in self.held)

    def keys(self, slot: int, limit: int) -> list[bytes]:
        return [key for key in self.held if key_slot(key) == slot][:limit]

    def holds(self, key: bytes) -> bool:
        return key in self.held

    def is_empty(self) -> bool:
        return not self.held


class Host:
    """One process: a node, its links, its saved nodes.conf, whether it runs."""

    def __init__(self, index: int, settings: NodeSettings, seed: int, now_ms: int) -> None:
        self.index, self.settings = index, settings
        self.rng = Random(f"{seed}/{index}")
        self.keys = Keys()
        self.node = Node(settings, self.rng, now_ms, keyspace=self.keys)
        self.links: dict[int, tuple[Host, int] | None] = {}
        self.waiting: dict[int, list[Message]] = {}
        self.next_accepted = 1
        self.alive = True
        self.frozen = False
        self.backlog: list[ev.Event] = []
        self.life = 0
        self.saved = ""
        self.master: Host | None = None
        self.offset = 0
        self.replies: list[Any] = []
        self.delivered: list[tuple[bytes, bytes, bool]] = []
        self.effects: list[tuple[int, ev.Effect]] = []

    @property
    def id(self) -> str:
        return self.node.view.myself.id

    def logged(self, beginning: str) -> list[str]:
        """Log lines that begin so."""
        return [e.text for _, e in self.effects if type(e) is ev.LogLine and e.text.startswith(beginning)]

    def said(self, kind: type) -> list[Any]:
        """Effects of one kind."""
        return [e for _, e in self.effects if type(e) is kind]


class Cluster:
    """Hosts 0, 1, 2 … on ports 7000, 7001 …; `run` lets virtual time pass."""

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
        self.now_ms, self.delay_ms, self.tick_ms = START_MS, delay_ms, tick_ms
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.messages: list[tuple[int, int, int, Message]] = []
        self.spoken: list[tuple[tuple[int, int], int, Message]] = []
        self.keep_messages = False
        self.sent = 0
        self.cuts: set[tuple[int, int]] = set()
        rng = Random(seed)
        self.hosts = []
        for index in range(count):
            made = NodeSettings(profile, node_timeout_ms, FIRST_PORT + index, **settings)
            self.hosts.append(Host(index, made, seed, self.now_ms))
        for host in self.hosts:
            self._start(host, rng.randrange(tick_ms))

    # -- orders --------------------------------------------------------------------------------------------------

    def command(self, index: int, *words: str | bytes | int, client: int = 1) -> Any:
        """What host *index* answers to a client's command; None if it leaves the answer to its data."""
        host = self.hosts[index]
        raw = tuple(w if isinstance(w, bytes) else str(w).encode() for w in words)
        before = len(host.replies)
        self._tell(host, ev.ClientCommand(client, raw))
        return host.replies[-1] if len(host.replies) > before else None

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
        """Whether *host* knows *total* nodes by name."""
        nodes = host.node.view.nodes.values()
        return len(nodes) == total and not any(peer.flags & HANDSHAKE for peer in nodes)

    def agree(self, total: int | None = None) -> bool:
        """Whether all running hosts are ok and see the same masters, replicas and slots."""
        hosts = [h for h in self.hosts[:total] if h.alive and not h.frozen]
        return all(h.node.view.ok for h in hosts) and len({self.picture(h) for h in hosts}) == 1

    def picture(self, host: Host) -> tuple[tuple[str, bool, str, int, int], ...]:
        """What a host believes of roles, slots and epochs."""
        view = host.node.view
        rows = [
            (p.id, bool(p.flags & MASTER), p.replicaof, p.slots & ~view.unclaimed, view.epoch_shown(p))
            for p in view.nodes.values()
        ]
        return tuple(sorted(rows))

    def crash(self, index: int) -> None:
        """End a process: connections break at once, new ones are refused."""
        host = self.hosts[index]
        host.alive = False
        host.life += 1
        for link in list(host.links):
            self._close(host, link)
        for other in self.hosts:
            if other.master is host:
                self._after(lambda o=other: self._lose_master(o, host))
        host.waiting.clear()
        host.master = None

    def restart(self, index: int) -> None:
        """Start a process again with what it had saved."""
        host = self.hosts[index]
        host.alive, host.frozen, host.backlog = True, False, []
        host.node = Node(host.settings, host.rng, self.now_ms, config=host.saved, keyspace=host.keys)
        host.links.clear()
        self._tell(host, ev.ReplicationOffset(host.offset))
        self._start(host, self.tick_ms)

    def pause(self, index: int) -> None:
        """Stop a process as SIGSTOP does: connections stay, what arrives waits."""
        self.hosts[index].frozen = True

    def resume(self, index: int) -> None:
        """Let it go on: first with what has arrived."""
        host = self.hosts[index]
        waiting, host.backlog, host.frozen = host.backlog, [], False
        for event in waiting:
            self._tell(host, event)

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Lose everything between pairs of hosts from now on, without a word to either."""
        for one, other in pairs:
            self.cuts |= {(one, other), (other, one)}

    def heal(self) -> None:
        """Undo every cut."""
        self.cuts.clear()

    def write(self, index: int, size: int = 50) -> None:
        """A write on a master: its offset grows, its replicas follow."""
        self._grow(self.hosts[index], size)

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, ms: int) -> None:
        """Let *ms* pass."""
        self._run_to(self.now_ms + ms)

    def run_until(self, condition: Callable[[], bool], ms_max: int) -> bool:
        """Let time pass until *condition* holds, looked at every 50 ms; False if it never did."""
        end_ms = self.now_ms + ms_max
        while self.now_ms < end_ms:
            if condition():
                return True
            self._run_to(self.now_ms + 50)
        return condition()

    def _run_to(self, end_ms: int) -> None:
        events = self.events
        while events and events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(events)
            action()
        self.now_ms = end_ms

    def _after(self, action: Callable[[], None], ms: int | None = None) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (self.now_ms + (self.delay_ms if ms is None else ms), self.sequence, action))

    def _start(self, host: Host, phase_ms: int) -> None:
        life = host.life

        def tick() -> None:
            if host.life == life and host.alive:
                if not host.frozen:
                    self._tell(host, belief.Tick())
                self._after(tick, self.tick_ms)

        def ping_replicas() -> None:
            if host.life == life and host.alive:
                if host.master is None and host.node.view.myself.flags & MASTER and not host.node.state.paused:
                    self._grow(host, REPLICATION_PING_BYTES)
                self._after(ping_replicas, 10_000)

        self._after(tick, phase_ms)
        self._after(ping_replicas, 10_000)

    # -- driver --------------------------------------------------------------------------------------------------

    def _tell(self, host: Host, event: ev.Event) -> None:
        if not host.alive:
            return
        if host.frozen:
            host.backlog.append(event)
            return
        for effect in host.node.handle(event, self.now_ms):
            action = self._ACTIONS.get(type(effect))
            if action is not None:
                action(self, host, effect)
            if type(effect) is ev.SendMessage:
                if self.keep_messages:
                    self.spoken.append(((host.index, host.life), effect.link, effect.message))
            else:
                host.effects.append((self.now_ms, effect))

    def _reaches(self, one: Host, other: Host) -> bool:
        return (one.index, other.index) not in self.cuts

    def _open(self, host: Host, effect: ev.OpenLink) -> None:
        target = self.hosts[effect.cport - FIRST_PORT - 10_000]
        host.links[effect.link] = None
        host.waiting[effect.link] = []
        if self._reaches(host, target):
            self._after(lambda: self._connect(host, effect.link, target, host.life))

    def _connect(self, host: Host, link: int, target: Host, life: int) -> None:
        if host.life != life or link not in host.links:
            return
        if not target.alive:
            host.links.pop(link)
            self._tell(host, belief.LinkClosed(link))
            return
        accepted = target.next_accepted
        target.next_accepted += 2
        host.links[link], target.links[accepted] = (target, accepted), (host, link)
        self._tell(target, belief.LinkAccepted(accepted, "127.0.0.1"))
        waiting = host.waiting.pop(link, [])
        for message in waiting:
            self._send(host, ev.SendMessage(link, message))
        self._tell(host, ev.LinkOpened(link))

    def _send(self, host: Host, effect: ev.SendMessage) -> None:
        if effect.link in host.waiting:
            host.waiting[effect.link].append(effect.message)
            return
        end = host.links.get(effect.link)
        if end is None:
            return
        other, link = end
        self.sent += 1
        if self.keep_messages:
            self.messages.append((self.now_ms, host.index, other.index, effect.message))
        if not self._reaches(host, other):
            return
        event = belief.MessageReceived(link, effect.message, "127.0.0.1")
        life = other.life
        self._after(lambda: self._tell(other, event) if other.life == life and link in other.links else None)

    def _close(self, host: Host, link: int) -> None:
        host.waiting.pop(link, None)
        end = host.links.pop(link, None)
        if end is not None:
            other, theirs = end
            self._after(lambda: self._closed(other, theirs))

    def _closed(self, host: Host, link: int) -> None:
        if host.links.pop(link, None) is not None:
            self._tell(host, belief.LinkClosed(link))

    def _save(self, host: Host, effect: ev.SaveConfig) -> None:
        host.saved = host.node.config_text()

    def _replicate(self, host: Host, effect: ev.StartReplication) -> None:
        host.master = None
        master = self.hosts[effect.port - FIRST_PORT]
        self._after(lambda: self._sync(host, master), 20)

    def _sync(self, host: Host, master: Host) -> None:
        if host.node.view.myself.replicaof != master.id or not host.alive:
            return
        if not master.alive or not self._reaches(host, master):
            self._after(lambda: self._sync(host, master), 1000)
            return
        host.master = master
        host.keys.held = dict(master.keys.held)
        host.offset = master.offset
        self._tell(host, ev.ReplicationUp())
        self._tell(host, ev.ReplicationOffset(host.offset))

    def _lose_master(self, host: Host, master: Host) -> None:
        if host.master is master:
            host.master = None
            self._tell(host, ev.ReplicationDown())
            self._after(lambda: self._sync(host, master), 1000)

    def _promote(self, host: Host, effect: ev.PromoteMyself) -> None:
        host.master = None

    def _grow(self, host: Host, size: int) -> None:
        host.offset += size
        self._tell(host, ev.ReplicationOffset(host.offset))
        for other in self.hosts:
            if other.master is host and self._reaches(host, other):
                self._after(lambda o=other, at=host.offset: self._follow(o, host, at))

    def _follow(self, host: Host, master: Host, offset: int) -> None:
        if host.master is master and host.alive:
            host.offset = offset
            self._tell(host, ev.ReplicationOffset(offset))

    def _reply(self, host: Host, effect: ev.Reply) -> None:
        host.replies.append(effect.value)

    def _execute(self, host: Host, effect: ev.Execute) -> None:
        """SET, GET, DEL and the end of a transaction; anything else is OK."""
        name, *words = effect.words
        held = host.keys.held
        session = host.node.state.clients.get(effect.client)
        if session is not None and session.queued and name.lower() != b"multi":
            host.replies.append("QUEUED")
            return
        match name.lower():
            case b"mget":
                host.replies.append([held.get(word) for word in words])
            case b"set":
                held[words[0]] = words[1]
                for other in self.hosts:
                    if other.master is host:
                        other.keys.held[words[0]] = words[1]
                host.replies.append("OK")
                self._grow(host, 50)
            case b"get":
                host.replies.append(held.get(words[0]))
            case b"del":
                host.replies.append(sum(held.pop(word, None) is not None for word in words))
            case _:
                host.replies.append("OK")

    def _drop_keys(self, host: Host, effect: ev.DropKeys) -> None:
        host.keys.held = {k: v for k, v in host.keys.held.items() if not effect.slots >> key_slot(k) & 1}

    def _deliver(self, host: Host, effect: ev.Deliver) -> None:
        host.delivered.append(tuple(effect))

    _ACTIONS: dict[type, Callable[..., None]] = {
        ev.OpenLink: _open,
        belief.CloseLink: lambda self, host, effect: self._close(host, effect.link),
        ev.SendMessage: _send,
        ev.SaveConfig: _save,
        ev.StartReplication: _replicate,
        ev.PromoteMyself: _promote,
        ev.Reply: _reply,
        ev.Execute: _execute,
        ev.DropKeys: _drop_keys,
        ev.Deliver: _deliver,
    }


def failed(host: Host, other: Host) -> bool:
    """Whether *host* holds *other* for FAIL."""
    peer: Peer | None = host.node.view.nodes.get(other.id)
    return peer is not None and bool(peer.flags & FAIL)
