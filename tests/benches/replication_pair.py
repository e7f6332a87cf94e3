"""A `ReplicaLink` and a `MasterDesk` wired to each other, bytes in pieces of any size; and a link to a real server."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from cluster_core.replication import master as desk
from cluster_core.replication import replica as link
from cluster_core.replication.lineage import Lineage
from cluster_core.replication.master import MasterDesk
from cluster_core.replication.profile import REDIS_7_0, ReplicationProfile
from cluster_core.replication.replica import MAIN, ReplicaLink
from cluster_core.wire.resp import RespParser

DUMP = b"REDIS0010" + bytes(50) + b"\xff" + bytes(8)
MARK = b"m" * 40
WAIT_SECONDS_MAX = 10.0


def draw_ids() -> Callable[[], str]:
    """Ids in order: 000…1, 000…2."""
    numbers = iter(range(1, 1000))
    return lambda: f"{next(numbers):040x}"


class Pair:
    """One master, one replica, a wire a channel that cuts bytes into *step* at a time."""

    def __init__(self, master: MasterDesk, replica: ReplicaLink, *, step: int = 1000, by_mark: bool = True) -> None:
        self.master, self.replica = master, replica
        self.now_ms = 0
        self.answers: list[Any] = []
        self.moves: list[str] = []
        self.stream = b""
        self.client = 0
        self.during_dump: list[bytes] = []
        """Writes at the master while it sends a dump."""
        self._step, self._by_mark = step, by_mark
        self._clients: dict[str, int] = {}
        self._parsers: dict[str, RespParser] = {}

    def connect(self) -> None:
        """Let the replica connect and say all that it has to say."""
        self._from_replica(self.replica.handle(link.Tick(), self.now_ms))

    def cut(self) -> None:
        """The connections are lost at both ends."""
        for channel, client in list(self._clients.items()):
            self._from_master(self.master.handle(desk.Gone(client), self.now_ms))
            self._from_replica(self.replica.handle(link.Closed(channel), self.now_ms))
        self._clients.clear()

    def write(self, data: bytes) -> None:
        """A write at the master."""
        self.stream += data
        self._from_master(self.master.handle(desk.Written(data), self.now_ms))

    def tick(self, milliseconds: int) -> None:
        """Time passes."""
        self.now_ms += milliseconds
        self._from_replica(self.replica.handle(link.Tick(), self.now_ms))
        self._from_master(self.master.handle(desk.Tick(), self.now_ms))

    def _from_replica(self, effects: list[link.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, link.Connect):
                self.client += 1
                self._clients[effect.channel], self._parsers[effect.channel] = self.client, RespParser()
                self._from_replica(self.replica.handle(link.Connected(effect.channel), self.now_ms))
            elif isinstance(effect, link.Send):
                for words in self._parsers[effect.channel].feed(effect.data):
                    event = desk.CommandReceived(self._clients[effect.channel], tuple(words))
                    self._from_master(self.master.handle(event, self.now_ms))
            elif isinstance(effect, link.Load):
                self._from_replica(self.replica.handle(link.Loaded(), self.now_ms))
            elif isinstance(effect, link.Answered):
                self.answers.append(effect.words)
            elif isinstance(effect, link.Moved):
                self.moves.append(effect.after.value)

    def _from_master(self, effects: list[desk.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, desk.Send):
                self._deliver(effect.client, effect.data)
            elif isinstance(effect, desk.StartDump):
                self._from_master(self.master.handle(desk.DumpStarted(), self.now_ms))
                ready = desk.DumpReady(None, MARK) if self._by_mark else desk.DumpReady(len(DUMP))
                self._from_master(self.master.handle(ready, self.now_ms))
            elif isinstance(effect, desk.SendDump):
                for data in self.during_dump:
                    self.write(data)
                self._deliver(effect.client, DUMP + (MARK if self._by_mark else b""))
                self._from_master(self.master.handle(desk.DumpSent(effect.client), self.now_ms))

    def _deliver(self, client: int, data: bytes) -> None:
        channel = next(name for name, number in self._clients.items() if number == client)
        for start in range(0, len(data), self._step):
            part = link.Received(data[start : start + self._step], channel)
            self._from_replica(self.replica.handle(part, self.now_ms))


def make_pair(
    lineage: Lineage | None = None,
    profile: ReplicationProfile = REDIS_7_0,
    *,
    backlog_bytes: int = 1000,
    dual_channel: bool = False,
    **how: Any,
) -> Pair:
    """A master with nothing and a replica that has *lineage*."""
    master = MasterDesk(Lineage("f" * 40), profile, draw_ids(), backlog_bytes=backlog_bytes, dual_channel=dual_channel)
    return Pair(master, ReplicaLink(link_settings(dual_channel=dual_channel), profile, lineage), **how)


def link_settings(**changes: Any) -> Any:
    """How the replicas of tests present themselves."""
    from cluster_core.replication.handshake import ReplicaSettings

    return ReplicaSettings(**{"listening_port": 1, "version": "9.1.0", **changes})


class RealLink:
    """A `ReplicaLink` that talks to a real server over sockets."""

    def __init__(self, port: int, replica: ReplicaLink) -> None:
        self.replica = replica
        self.answers: list[tuple[str, ...]] = []
        self.moves: list[str] = []
        self.dump_bytes = 0
        self.closed = ""
        self._port = port
        self._sockets: dict[str, socket.socket] = {}

    def __enter__(self) -> RealLink:
        self.carry_out(self.replica.handle(link.Tick(), _now_ms()))
        return self

    def __exit__(self, *_: object) -> None:
        for open_socket in self._sockets.values():
            open_socket.close()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Read and answer until *condition* holds; raises TimeoutError."""
        end = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"the link came to {self.moves[-10:]}, {self.answers[-5:]}, {self.closed}")
            self.carry_out(self.replica.handle(link.Tick(), _now_ms()))
            for channel, open_socket in list(self._sockets.items()):
                self._read(channel, open_socket)

    def _read(self, channel: str, open_socket: socket.socket) -> None:
        try:
            data = open_socket.recv(1 << 16)
        except TimeoutError:
            return
        now_ms = _now_ms()
        if not data:
            open_socket.close()
            del self._sockets[channel]
            self.carry_out(self.replica.handle(link.Closed(channel), now_ms))
            return
        self.carry_out(self.replica.handle(link.Received(data, channel), now_ms))

    def carry_out(self, effects: list[link.Effect]) -> None:
        """Do what the machine says."""
        for effect in effects:
            match effect:
                case link.Connect():
                    opened = socket.create_connection(("127.0.0.1", self._port), timeout=5)
                    opened.settimeout(0.02)
                    self._sockets[effect.channel] = opened
                    self.carry_out(self.replica.handle(link.Connected(effect.channel), _now_ms()))
                case link.Send():
                    self._sockets[effect.channel].sendall(effect.data)
                case link.Load():
                    self.dump_bytes = effect.received
                    self.carry_out(self.replica.handle(link.Loaded(), _now_ms()))
                case link.Answered():
                    self.answers.append(effect.words)
                case link.Moved():
                    self.moves.append(effect.after.value)
                case link.Close():
                    self.closed = effect.reason
                    for channel in [name for name in self._sockets if name in (MAIN, "dump")]:
                        self._sockets.pop(channel).close()


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
