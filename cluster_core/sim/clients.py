"""Clients of a simulated cluster, and a check of their acknowledged writes.

Every write has its own key, so each acknowledged key must exist at the owner of its slot after the run. A write without
a running owner is *unavailable* while a process with it can be restarted and its shard has no other master. Writes may
be lost in three ways:

* ``not replicated``: the master was replaced by a replica without the write;
* ``split``: the master took the write after its replacement and before it learned of it: within `SLACK_US`, or at most
  `split_us` after it was isolated, stopped or restarted;
* ``wiped``: the process was restarted without its data, or its data was deleted.

Other losses are violations, and so is any loss in a manual failover with paused writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, NamedTuple

from cluster_core.gossip.flags import MASTER
from cluster_core.node.events import ClientCommand
from cluster_core.sim.clock import US_PER_S
from cluster_core.sim.host import Host
from cluster_core.sim.world import World
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.resp import RespError

ANSWER_US: Final = 1_000_000
"""Time until a client gives up on a reply and asks another node."""
PAUSE_US: Final = 50_000
"""Pause after CLUSTERDOWN, TRYAGAIN or an unresponsive node."""
REDIRECTIONS_MAX: Final = 8


class Ack(NamedTuple):
    """An acknowledged write: host, time and position in the replication stream."""

    key: bytes
    host: int
    time_us: int
    replid: str
    offset: int
    replicated: int


class Client:
    """A client with one write at a time, up to *rate* per second; *wait* is the replica count of WAIT."""

    def __init__(self, world: World, number: int, *, rate: float, zone: str = "", wait: int = 0) -> None:
        self.world, self.number, self.zone, self.wait = world, number, zone, wait
        self.period_us = int(US_PER_S / rate)
        self.rng = world.make_rng(f"{world.seed}/client/{number}")
        self.acks: list[Ack] = []
        self.tried = self.refused = 0
        self.down_us = 0
        self.stopped = False
        self._owners: dict[int, Host] = {}
        self._serial = 0
        self._key = b""
        self._began_us = 0
        self._asked: Host | None = None
        self._hops = 0
        self._is_asking = False
        self._try = 0
        world.on_reply[number] = self._on_reply
        world.call_at(world.now_us + int(self.rng.random() * self.period_us), self._write)

    def stop(self) -> None:
        """Stop writing; a pending write still counts if acknowledged."""
        self.stopped = True

    def _write(self, _: Any = None, __: Any = None) -> None:
        if self.stopped:
            return
        self._serial += 1
        self._key = b"k%d:%d" % (self.number, self._serial)
        self._began_us, self._hops = self.world.now_us, 0
        self.tried += 1
        self._ask(self._owners.get(key_slot(self._key)) or self._any_host())

    def _any_host(self) -> Host:
        hosts = self.world.hosts
        return hosts[int(self.rng.random() * len(hosts))]

    def _ask(self, host: Host, *, asking: bool = False) -> None:
        world = self.world
        self._asked, self._is_asking = host, asking
        self._try += 1
        world.call_at(world.now_us + ANSWER_US, self._no_answer, self._try)
        if self._reaches(host):
            delay_us = world.network.usual.travel_us(self.rng)
            world.call_at(world.now_us + delay_us, self._arrive, host, self._try)

    def _reaches(self, host: Host) -> bool:
        """Return whether the client's zone can reach *host*; a client without zone reaches all."""
        if not host.alive:
            return False
        network = self.world.network
        if not self.zone or host.zone == self.zone:
            return True
        return not any(
            network.path(near, host).is_blocked
            for near in self.world.hosts
            if near.zone == self.zone and near is not host
        )

    def _arrive(self, host: Host, attempt: int) -> None:
        if attempt != self._try:
            return
        arguments = (b"SET", self._key, b"%d" % self._serial)
        self.world.tell(host, ClientCommand(self.number, arguments, asking=self._is_asking))

    def _on_reply(self, host: Host, value: Any) -> None:
        """Handle a reply of *host* if still awaited."""
        if host is not self._asked:
            return
        if not isinstance(value, RespError):
            ack = Ack(self._key, host.index, self.world.now_us, host.store.replid, host.store.offset, self.wait)
            if self.wait:
                attempt = self._try
                self.world.replication.wait(host, self.wait, lambda: self._done(ack, attempt))
            else:
                self._later(self._done, ack, self._try)
            return
        self._later(self._refused_by, value.text, self._try)

    def _later(self, action: Any, first: Any, second: Any) -> None:
        self.world.call_at(self.world.now_us + self.world.network.usual.delay_us, action, first, second)

    def _done(self, ack: Ack, attempt: int) -> None:
        if attempt != self._try:
            return
        self._try += 1
        self.acks.append(ack)
        host = self.world.hosts[ack.host]
        self._owners[key_slot(ack.key)] = host
        now_us = self.world.now_us
        self.down_us += max(0, now_us - self._began_us - self.period_us)
        self.world.call_at(max(now_us, self._began_us + self.period_us), self._write)

    def _refused_by(self, text: str, attempt: int) -> None:
        if attempt != self._try:
            return
        word, *rest = text.split()
        if word in ("MOVED", "ASK") and self._hops < REDIRECTIONS_MAX:
            ip, _, port = rest[1].rpartition(":")
            target = self.world.network.by_address.get((ip, int(port)))
            if target is not None:
                self._hops += 1
                if word == "MOVED":
                    self._owners[int(rest[0])] = target
                self._ask(target, asking=word == "ASK")
                return
        self.refused += 1
        self._retry()

    def _no_answer(self, attempt: int, _: Any) -> None:
        if attempt != self._try:
            return
        self._retry()

    def _retry(self) -> None:
        """Forget the slot's owner and retry at another node later."""
        self._try += 1
        self._hops = 0
        self._owners.pop(key_slot(self._key), None)
        self.world.call_at(self.world.now_us + PAUSE_US, self._again, self._try)

    def _again(self, attempt: int, _: Any) -> None:
        if attempt == self._try and not self.stopped:
            self._ask(self._any_host())


SLACK_US: Final = 1_500_000
"""Ticks, round trips and the second of a reconnection."""


class Promotion(NamedTuple):
    """*winner* replaced *loser* with data up to *offset* of the replication id *replid*."""

    time_us: int
    winner: int
    loser: int
    replid: str
    offset: int
    is_orderly: bool = False
    """The loser paused writes: a manual failover loses nothing (R98, R99)."""


class LossReason(Enum):
    """Reason of a lost write."""

    NOT_REPLICATED = "not replicated"
    SPLIT = "split"
    WIPED = "wiped"
    NO_EXCUSE = "no excuse"


class LostWrite(NamedTuple):
    """A lost acknowledged write and its reason."""

    ack: Ack
    way: LossReason


class Missing(NamedTuple):
    """Acknowledged writes not served at the end: lost ones, and ones of shards without a running owner."""

    lost: tuple[LostWrite, ...]
    unavailable: tuple[Ack, ...]


KEPT: Final = (LossReason.NO_EXCUSE, LossReason.WIPED)
"""Reasons for a loss with no other master since the write."""


class LossObserver:
    """Observes causes of lost writes; `find` returns lost ones."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.promotions: list[Promotion] = []
        self.troubles: dict[int, list[int]] = {}
        self.wiped: dict[int, list[int]] = {}
        self.parents: dict[str, str] = {}
        self.moves: list[tuple[int, Ack]] = []
        world.replication.on_promoted = self._promoted

    def _promoted(self, winner: Host, loser: Host | None) -> None:
        store = winner.store
        index = loser.index if loser is not None else -1
        is_orderly = loser is not None and self.world.now_us < loser.paused_until_us
        self.parents[store.next_replid] = store.replid
        self.promotions.append(
            Promotion(self.world.now_us, winner.index, index, store.replid, store.offset, is_orderly)
        )

    def trouble(self, host: Host) -> None:
        """Record that *host* may miss decisions of others: partitioned, stopped or restarted."""
        self.troubles.setdefault(host.index, []).append(self.world.now_us)

    def wipe(self, host: Host) -> None:
        """Record that the data of *host* was deleted."""
        self.wiped.setdefault(host.index, []).append(self.world.now_us)

    def moved(self, slot: int, target: Host) -> None:
        """Record that the keys of *slot* were moved to *target*."""
        store = target.store
        self.moves.append((slot, Ack(b"", target.index, self.world.now_us, store.replid, store.offset, 0)))

    def find(self, acks: Iterable[Ack]) -> Missing:
        """Return the writes that no running owner of their slot has."""
        owners = _owners(self.world)
        lost: list[LostWrite] = []
        unavailable: list[Ack] = []
        for ack in acks:
            owner = owners.get(key_slot(ack.key))
            if owner is not None and owner.store.holds(ack.key):
                continue
            way = self._way(ack)
            if owner is None and way in KEPT and any(host.store.holds(ack.key) for host in self.world.hosts):
                unavailable.append(ack)
            else:
                lost.append(LostWrite(ack, way))
        return Missing(tuple(lost), tuple(unavailable))

    def _way(self, ack: Ack) -> LossReason:
        """Return why *ack* was lost, by events at its host or at the slot's later host."""
        slot = key_slot(ack.key)
        later = [moved for at, moved in self.moves if at == slot and moved.time_us >= ack.time_us]
        ways = map(self._excuse, (ack, *later))
        return next((way for way in ways if way is not LossReason.NO_EXCUSE), LossReason.NO_EXCUSE)

    def _excuse(self, ack: Ack) -> LossReason:
        for promotion in self.promotions:
            if promotion.is_orderly:
                continue
            shared = promotion.replid == ack.replid and promotion.offset < ack.offset
            shared = shared or self._came_from(ack.replid, promotion.replid)
            if shared and promotion.time_us >= ack.time_us and not ack.replicated:
                return LossReason.NOT_REPLICATED
            late_us = ack.time_us - promotion.time_us
            if promotion.loser == ack.host and late_us > 0 and (late_us <= SLACK_US or self._was_cut_off(ack)):
                return LossReason.SPLIT
        wiped = [at_us for times in self.wiped.values() for at_us in times]
        if any(at_us >= ack.time_us for at_us in wiped):
            return LossReason.WIPED
        return LossReason.NO_EXCUSE

    def _came_from(self, replid: str, ancestor: str) -> bool:
        """Return whether the replication history *replid* descends from *ancestor*."""
        known = self.parents.get(replid)
        while known is not None:
            if known == ancestor:
                return True
            known = self.parents.get(known)
        return False

    def _was_cut_off(self, ack: Ack) -> bool:
        timeout_us = self.world.hosts[ack.host].settings.node_timeout_ms * 1000
        times = self.troubles.get(ack.host, [])
        return any(0 <= ack.time_us - at_us <= split_us(timeout_us) for at_us in times)


def split_us(node_timeout_us: int) -> int:
    """Return how long an isolated master may serve: until pings are overdue, and a tick (R32, R53, R111).

    >>> split_us(2_000_000)
    4500000
    """
    return node_timeout_us + node_timeout_us // 2 + SLACK_US


def _owners(world: World) -> dict[int, Host]:
    """Return the owner of each slot by the greatest epoch."""
    owners: dict[int, Host] = {}
    epochs: dict[int, int] = {}
    for host in world.hosts:
        myself = host.node.view.myself
        if not host.alive or not myself.flags & MASTER:
            continue
        for slot in range(myself.slots.bit_length()):
            if myself.slots >> slot & 1 and epochs.get(slot, -1) < myself.config_epoch:
                owners[slot], epochs[slot] = host, myself.config_epoch
    return owners
