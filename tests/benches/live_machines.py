"""A node and a sentinel of the core beside real servers: an event loop in a thread carries out their effects with sockets."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from random import SystemRandom
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.gossip import events as gossip_events
from cluster_core.gossip.profile import VALKEY_9_1, Profile
from cluster_core.node import events as node_events
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.sentinel import events as sentinel_events
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.state import MonitoredMaster, SentinelSettings
from cluster_core.wire.bus import decode_message, drop_reason, encode_message
from cluster_core.wire.resp import RespError
from tests.benches.clusters import Cluster
from tests.benches.node_commands import order
from tests.benches.resp import RespParser, Verbatim, encode_value
from tests.benches.servers import Server, free_port, wait_for

HOST = "127.0.0.1"
WATCHED = MonitoredMaster("mymaster", HOST, 0, 2, down_after_ms=1000, failover_timeout_ms=10_000)
START = struct.Struct("!4sI")
"""Signature and length of a bus message."""


class LiveMachine:
    """A machine with sockets; *log* holds its log lines.

    Subclasses serve accepted connections, read links, and have the events of an opened link, a command and a tick.
    """

    machine: Any
    link_closed: Callable[[int], Any]

    def __init__(self, port: int) -> None:
        self.port = port
        self.log: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.accepted = 1
        """Number of the last accepted connection."""
        self.writers: dict[int, asyncio.StreamWriter | list[bytes]] = {}
        """Writer of each link; what waits for it until the link is open."""
        self.tasks: set[asyncio.Task[None]] = set()

    def tell(self, event: Any) -> None:
        """Pass *event* to the machine and carry out its effects."""
        for effect in self.machine.handle(event, time.time_ns() // 1_000_000):
            self.carry_out(effect)

    def order(self, *arguments: str) -> Any:
        """Return the machine's reply to a command; texts as str, errors as `RespError`."""

        async def ask() -> Any:
            event = self.command(tuple(word.encode() for word in arguments))
            replies = []
            for effect in self.machine.handle(event, time.time_ns() // 1_000_000):
                if isinstance(effect, node_events.Reply | sentinel_events.Reply) and effect.client == 0:
                    replies.append(effect.value)
                else:
                    self.carry_out(effect)
            return replies[0]

        reply = self.run(ask())
        if isinstance(reply, Verbatim):
            return reply.data.decode()
        return reply.decode() if isinstance(reply, bytes) else reply

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.log)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run *work* in the machine's event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @contextmanager
    def living(self, listen_port: int) -> Iterator[None]:
        """Run the machine inside the ``with`` block."""
        thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        thread.start()

        async def begin() -> asyncio.Server:
            self.spawn(self._tick())
            return await asyncio.start_server(self.serve, HOST, listen_port)

        async def end() -> None:
            server.close()
            for task in self.tasks:
                task.cancel()
            for link in list(self.writers):
                self.close(link)

        server = self.run(begin())
        try:
            yield
        finally:
            self.run(end())
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join(60)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.tick())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* as a task until it ends or the machine does."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def accept(self, writer: asyncio.StreamWriter) -> int:
        self.accepted += 2
        self.writers[self.accepted] = writer
        return self.accepted

    async def connect(self, link: int, ip: str, port: int) -> None:
        """Open *link* and read it until it ends."""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(ip, port)
            waiting = self.writers.get(link)
            if not isinstance(waiting, list):
                writer.close()
                return
            writer.writelines(waiting)
            self.writers[link] = writer
            self.tell(self.opened(link, writer.get_extra_info("sockname")[0]))
            await self.read(link, reader, ip)
        self.lose(link)

    def open(self, link: int, ip: str, port: int) -> None:
        """Begin to open *link*."""
        self.writers[link] = []
        self.spawn(self.connect(link, ip, port))

    def send(self, link: int, raw: bytes) -> None:
        """Send *raw* on *link*, or queue it until the link is open."""
        writer = self.writers.get(link)
        if isinstance(writer, list):
            writer.append(raw)
        elif writer is not None:
            writer.write(raw)

    def close(self, link: int) -> bool:
        writer = self.writers.pop(link, None)
        if isinstance(writer, asyncio.StreamWriter):
            writer.transport.abort()
        return writer is not None

    def lose(self, link: int) -> None:
        if self.close(link):
            self.tell(self.link_closed(link))


class LiveNode(LiveMachine):
    """A node on the cluster bus; it has no client port and no data."""

    link_closed = gossip_events.LinkClosed

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings.port)
        self.node = self.machine = Node(settings, SystemRandom(), time.time_ns() // 1_000_000)

    @property
    def id(self) -> str:
        return self.node.view.myself.id

    def opened(self, link: int, local_ip: str) -> node_events.LinkOpened:
        return node_events.LinkOpened(link)

    def command(self, arguments: tuple[bytes, ...]) -> node_events.Change:
        return order(0, arguments)

    def tick(self) -> float:
        self.tell(gossip_events.Tick())
        return 0.1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = self.accept(writer)
        self.tell(gossip_events.LinkAccepted(link, writer.get_extra_info("sockname")[0]))
        with suppress(OSError):
            await self.read(link, reader, writer.get_extra_info("peername")[0])
        self.lose(link)

    async def read(self, link: int, reader: asyncio.StreamReader, ip: str) -> None:
        with suppress(asyncio.IncompleteReadError):
            while link in self.writers:
                start = await reader.readexactly(START.size)
                raw = start + await reader.readexactly(START.unpack(start)[1] - START.size)
                with suppress(DecodeError):
                    message = decode_message(raw)
                    if not drop_reason(message) and link in self.writers:
                        self.tell(gossip_events.MessageReceived(link, message, ip))

    def carry_out(self, effect: Any) -> None:
        match effect:
            case node_events.OpenLink():
                self.open(effect.link, effect.ip, effect.cport)
            case gossip_events.CloseLink():
                self.close(effect.link)
            case node_events.SendMessage():
                self.send(effect.link, encode_message(effect.message))
            case node_events.LogLine():
                self.log.append(f"{effect.level} {effect.text}")


class LiveSentinel(LiveMachine):
    """A sentinel; other sentinels are its clients."""

    link_closed = sentinel_events.LinkClosed

    def __init__(self, settings: SentinelSettings, watched: MonitoredMaster) -> None:
        super().__init__(settings.port)
        self.accepted = 1_000_001  # clients; links count from 1
        self.sentinel = self.machine = Sentinel(settings, SystemRandom(), time.time_ns() // 1_000_000, watched)
        self.id = self.sentinel.my_id

    def opened(self, link: int, local_ip: str) -> sentinel_events.LinkOpened:
        return sentinel_events.LinkOpened(link, local_ip)

    def command(self, arguments: tuple[bytes, ...]) -> sentinel_events.ClientCommand:
        return sentinel_events.ClientCommand(0, arguments)

    def tick(self) -> float:
        self.tell(sentinel_events.Tick())
        return self.sentinel.tick_ms / 1000

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client, parser = self.accept(writer), RespParser(source="client")
        with suppress(OSError, DecodeError):
            while data := await reader.read(1 << 16):
                for arguments in parser.feed(data):
                    self.tell(sentinel_events.ClientCommand(client, tuple(arguments)))
        self.close(client)

    async def read(self, link: int, reader: asyncio.StreamReader, ip: str) -> None:
        parser = RespParser(source=f"link {link}")
        with suppress(DecodeError):
            while link in self.writers and (data := await reader.read(1 << 16)):
                for value in parser.feed(data):
                    if link in self.writers:
                        self.tell(sentinel_events.ReplyReceived(link, value))

    def carry_out(self, effect: Any) -> None:
        match effect:
            case sentinel_events.OpenLink():
                self.open(effect.link, effect.ip, effect.port)
            case sentinel_events.CloseLink():
                self.close(effect.link)
            case sentinel_events.SendCommand():
                self.send(effect.link, encode_value(list(effect.arguments), protocol=2))
            case sentinel_events.Reply():
                self.send(effect.client, encode_value(effect.value, protocol=2))
            case sentinel_events.LogLine():
                self.log.append(f"{effect.level} {effect.text}")


@contextmanager
def living_sentinel(master_port: int, **options: Any) -> Iterator[LiveSentinel]:
    """A sentinel of a master on loopback; *options* are fields of `MonitoredMaster`."""
    port = free_port()
    sentinel = LiveSentinel(SentinelSettings(port=port), WATCHED._replace(port=master_port, **options))
    with sentinel.living(port):
        yield sentinel


@contextmanager
def living_node(*, node_timeout_ms: int, profile: Profile = VALKEY_9_1) -> Iterator[LiveNode]:
    """A node that has not joined a cluster yet."""
    node = LiveNode(NodeSettings(profile=profile, node_timeout_ms=node_timeout_ms, port=free_port()))
    with node.living(node.port + 10_000):
        yield node


def line_of(server: Server, node_id: str) -> list[str]:
    """The fields of a node's line in CLUSTER NODES of *server*; none if unknown."""
    lines = server.call("CLUSTER", "NODES").decode().splitlines()
    return next((line.split() for line in lines if line.startswith(node_id)), [])


def join(node: LiveNode, cluster: Cluster) -> None:
    """Let *node* meet the cluster and wait until every server has it connected and unflagged."""
    assert not isinstance(node.order("CLUSTER", "MEET", HOST, str(cluster.masters[0].port)), RespError)
    wait_for(lambda: all(is_well(line_of(each, node.id)) for each in cluster.nodes), "all servers to know the node")


def is_well(arguments: list[str]) -> bool:
    """Whether a line of CLUSTER NODES is that of a connected master without a failure flag."""
    return arguments[2:3] == ["master"] and arguments[7:8] == ["connected"]


def give_slot_0(node: LiveNode, cluster: Cluster) -> None:
    """Move the empty slot 0 to *node*, as an operator would, and wait until all agree."""
    owner = cluster.masters[0]
    assert node.order("CLUSTER", "SETSLOT", "0", "IMPORTING", owner.call("CLUSTER", "MYID").decode()) == "OK"
    owner.call("CLUSTER", "SETSLOT", 0, "MIGRATING", node.id)
    assert node.order("CLUSTER", "SETSLOT", "0", "NODE", node.id) == "OK"
    owner.call("CLUSTER", "SETSLOT", 0, "NODE", node.id)
    wait_for(lambda: all("0" in line_of(each, node.id)[8:] for each in cluster.nodes), "all servers to see the slot")
