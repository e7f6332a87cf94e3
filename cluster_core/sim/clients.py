"""Clients that write, follow redirections and remember what was acknowledged (R111, R114 to R121, P10).

Every write is a key of its own, so after the run each acknowledged key must be found at the owner of its slot: see
`cluster_core.sim.lost_writes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster_core.node.events import ClientClosed, ClientCommand
from cluster_core.sim.clock import US_PER_S
from cluster_core.sim.host import Host
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.resp import RespError

if TYPE_CHECKING:
    from cluster_core.sim.world import World

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
