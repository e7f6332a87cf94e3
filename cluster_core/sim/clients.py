"""Clients of a simulated cluster, and the writes that it acknowledged and lost.

Every write is a key of its own, so after the run each acknowledged key must be found at the owner of its slot: see
`cluster_core.sim.clients`.

A write that no running owner of its slot serves is *unavailable*, not lost, as long as a process that runs or could be started
again holds it: a shard that is down has lost nothing.  Not so a copy that its shard has gone on without: it is discarded when
it comes back.

A write may be lost in three ways only:

* ``not replicated``: its master was replaced by a replica that did not have it yet;
* ``split``: its master took it after it had been replaced and before it was told: within `SLACK_US`, or at most `split_us`
  after it was cut off, stopped or started again;
* ``wiped``: somebody started the process without its data, or had it forget it.

Everything else is a violation, and so is any loss in a manual failover for which the master had its writes wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, NamedTuple

from cluster_core.gossip.flags import MASTER
from cluster_core.node.events import ClientClosed, ClientCommand
from cluster_core.sim.checkers import Violation
from cluster_core.sim.clock import US_PER_S
from cluster_core.sim.host import Host
from cluster_core.sim.world import World
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.resp import RespError

ANSWER_US: Final = 1_000_000
"""After so long a client gives up on an answer and asks somebody else."""
PAUSE_US: Final = 50_000
"""It waits so long after CLUSTERDOWN, TRYAGAIN, or a node that does not answer."""
REDIRECTIONS_MAX: Final = 8


class Ack(NamedTuple):
    """An acknowledged write: who took it, when, and where it stands in which stream."""

    key: bytes
    host: int
    time_us: int
    replid: str
    offset: int
    replicated: int


class Client:
    """One client with one write at a time, *rate* a second if all goes well; *wait* is for how many replicas (WAIT)."""

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
        self._is_muted = False
        self._try = 0
        world.on_reply[number] = self._heard
        world.call_at(world.now_us + int(self.rng.random() * self.period_us), self._write)

    def stop(self) -> None:
        """Write no more; a write that is on its way still counts if it is acknowledged."""
        self.stopped = True

    def _write(self, _: Any = None, __: Any = None) -> None:
        if self.stopped:
            return
        self._serial += 1
        self._key = b"k%d:%d" % (self.number, self._serial)
        self._began_us, self._hops = self.world.now_us, 0
        self.tried += 1
        self._ask(self._owners.get(key_slot(self._key)) or self._somebody())

    def _somebody(self) -> Host:
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
        """Whether a client of our zone gets through to *host*; one without a zone gets everywhere."""
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
        if self._is_asking:
            self._is_asking = False
            self._is_muted = True
            self.world.tell(host, ClientCommand(self.number, (b"ASKING",)))
            self._is_muted = False
        self.world.tell(host, ClientCommand(self.number, (b"SET", self._key, b"%d" % self._serial)))

    def _heard(self, host: Host, value: Any) -> None:
        """A reply leaves *host*; it is taken if we still wait for it."""
        if host is not self._asked or self._is_muted:
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
        if self._asked is not None:
            self.world.tell(self._asked, ClientClosed(self.number))
        self._retry()

    def _retry(self) -> None:
        """Forget who had the slot and ask anybody, a little later."""
        self._try += 1
        self._hops = 0
        self._owners.pop(key_slot(self._key), None)
        self.world.call_at(self.world.now_us + PAUSE_US, self._again, self._try)

    def _again(self, attempt: int, _: Any) -> None:
        if attempt == self._try and not self.stopped:
            self._ask(self._somebody())


SLACK_US: Final = 1_500_000
"""Ticks, round trips and the second that a reconnection may take."""


class Promotion(NamedTuple):
    """*winner* took the place of *loser* with the data up to *offset* of the history *replid*."""

    time_us: int
    winner: int
    loser: int
    replid: str
    offset: int
    is_orderly: bool = False
    """The loser had its writes wait: a manual failover as it should be loses nothing (R98, R99)."""


class Way(Enum):
    """How an acknowledged write went."""

    NOT_REPLICATED = "not replicated"
    SPLIT = "split"
    WIPED = "wiped"
    NO_EXCUSE = "no excuse"


class Loss(NamedTuple):
    """An acknowledged write that is gone, and the way it went."""

    ack: Ack
    way: Way


class Missing(NamedTuple):
    """The acknowledged writes that are not served at the end: those that are gone, and those that wait for their shard."""

    lost: tuple[Loss, ...]
    unavailable: tuple[Ack, ...]


KEPT: Final = (Way.NO_EXCUSE, Way.WIPED)
"""Nobody has gone on without the write: a copy of it is a true one."""


class LossWatch:
    """Listens for what may cost writes; `find` says which ones are gone."""

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
        """*host* was cut off, stopped, started again: from now on it may not know what the others decided."""
        self.troubles.setdefault(host.index, []).append(self.world.now_us)

    def wipe(self, host: Host) -> None:
        """The data of *host* is gone by somebody's hand."""
        self.wiped.setdefault(host.index, []).append(self.world.now_us)

    def moved(self, slot: int, target: Host) -> None:
        """The keys of *slot* were brought to *target*: from now on it answers for them."""
        store = target.store
        self.moves.append((slot, Ack(b"", target.index, self.world.now_us, store.replid, store.offset, 0)))

    def find(self, acks: Iterable[Ack]) -> Missing:
        """The writes that are not at a running owner of their slot now."""
        owners = _owners(self.world)
        lost: list[Loss] = []
        unavailable: list[Ack] = []
        for ack in acks:
            owner = owners.get(key_slot(ack.key))
            if owner is not None and owner.store.holds(ack.key):
                continue
            way = self._way(ack)
            if owner is None and way in KEPT and any(host.store.holds(ack.key) for host in self.world.hosts):
                unavailable.append(ack)
            else:
                lost.append(Loss(ack, way))
        return Missing(tuple(lost), tuple(unavailable))

    def _way(self, ack: Ack) -> Way:
        """How *ack* went: by what happened to it where it was taken, or where its slot was brought to."""
        slot = key_slot(ack.key)
        later = [moved for at, moved in self.moves if at == slot and moved.time_us >= ack.time_us]
        ways = map(self._excuse, (ack, *later))
        return next((way for way in ways if way is not Way.NO_EXCUSE), Way.NO_EXCUSE)

    def _excuse(self, ack: Ack) -> Way:
        for promotion in self.promotions:
            if promotion.is_orderly:
                continue
            shared = promotion.replid == ack.replid and promotion.offset < ack.offset
            shared = shared or self._came_from(ack.replid, promotion.replid)
            if shared and promotion.time_us >= ack.time_us and not ack.replicated:
                return Way.NOT_REPLICATED
            late_us = ack.time_us - promotion.time_us
            if promotion.loser == ack.host and late_us > 0 and (late_us <= SLACK_US or self._was_cut_off(ack)):
                return Way.SPLIT
        wiped = [at_us for times in self.wiped.values() for at_us in times]
        if any(at_us >= ack.time_us for at_us in wiped):
            return Way.WIPED
        return Way.NO_EXCUSE

    def _came_from(self, replid: str, ancestor: str) -> bool:
        """Whether the history *replid* branched off *ancestor*, at once or later."""
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
    """How long a master that is cut off may go on serving: until its pings are overdue, and a tick (R32, R53, R111).

    >>> split_us(2_000_000)
    4500000
    """
    return node_timeout_us + node_timeout_us // 2 + SLACK_US


def _owners(world: World) -> dict[int, Host]:
    """Who owns which slot, by those that own them and have the greatest epoch."""
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


def violations_of(world: World, lost: Iterable[Loss]) -> list[Violation]:
    """Losses that nothing excuses."""
    return [
        Violation(
            "lost write", loss.ack.time_us, f"{loss.ack.key.decode()} acknowledged by {world.hosts[loss.ack.host].name}"
        )
        for loss in lost
        if loss.way is Way.NO_EXCUSE
    ]
