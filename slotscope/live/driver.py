"""A machine of the core with a clock, sockets, clients and a file, in the foreground of a terminal.

A `Driver` decides nothing: it carries out the effects of its machine in order.  Members name the events and effects of their machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from cluster_core.routing.key_positions import table_of
from slotscope.live.connections import CLIENTS_MAX, SENT, Budget, ClientLink, Connection
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.servers.node_link import Access, Address, LinkError

Tell = Callable[[str], None]
Link = TypeVar("Link", bound=Connection)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a machine lives: the address it listens on, and the folder of its file (None: it keeps none)."""

    bind: str = "127.0.0.1"
    folder: Path | None = None


class Machine(Protocol):
    """A node or a sentinel of the core."""

    def handle(self, event: Any, now_ms: int) -> Any:
        """Apply *event* and return the effects."""


class Driver(ABC, Generic[Link]):
    """A machine and its sockets; `start`, then let the loop run, then `stop`."""

    config_name: ClassVar[str]
    encoding: ClassVar[str]
    handlers: ClassVar[Mapping[type, Callable[..., None]]]
    """What carries out which effect; others are passed over."""

    def __init__(self, place: Place, tell: Tell, dialect: str) -> None:
        self.place, self._tell = place, tell
        self.budget = Budget()
        self._links: dict[int, Link] = {}
        self._clients: dict[int, ClientLink] = {}
        self._next = 1
        self._servers: list[asyncio.Server] = []
        self._ticking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._table = table_of(dialect)

    @property
    @abstractmethod
    def machine(self) -> Machine:
        """What decides."""

    @abstractmethod
    def _doors(self) -> list[tuple[int, Serve]]:
        """The ports to listen on, and who serves them."""

    @abstractmethod
    def _on_tick(self) -> float:
        """Tell the machine that time has passed; return the seconds until the next time."""

    @abstractmethod
    def _command(self, client: int, words: tuple[bytes, ...], ip: str = "") -> Any:
        """The event of a client's command."""

    @abstractmethod
    def _client_closed(self, client: int) -> Any:
        """The event of a client that went away."""

    @abstractmethod
    def _link_closed(self, link: int) -> Any:
        """The event of a link that was lost."""

    @staticmethod
    def now_ms() -> int:
        """Milliseconds of the wall clock."""
        return time.time_ns() // 1_000_000

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen and begin to tick; InputError for a port that is taken."""
        try:
            for port, serve in self._doors():
                self._servers.append(await asyncio.start_server(serve, self.place.bind, port))
        except OSError as error:
            await self.stop()
            raise InputError(f"cannot listen on {self.place.bind}: {error.strerror or error}") from error
        self._ticking = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Close everything; the file is as the machine left it."""
        for server in self._servers:
            server.close()
        if self._ticking is not None:
            self._ticking.cancel()
        for link in [*self._links.values()]:
            link.close()
        for client in [*self._clients.values()]:
            client.close()
        for task in [*self._tasks]:
            task.cancel()
        self._links, self._clients = {}, {}
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._on_tick())

    def order(self, *words: str) -> Any:
        """Have the machine carry out a command of its operator, and return the reply."""
        replies: list[Any] = []
        for effect in self.machine.handle(self._command(0, tuple(word.encode() for word in words)), self.now_ms()):
            if getattr(effect, "client", None) == 0 and hasattr(effect, "value"):
                replies.append(effect.value)
            else:
                self._carry_out(effect)
        return replies[0] if replies else None

    # -- events --------------------------------------------------------------------------------------------------

    def tell(self, event: Any) -> None:
        """Give *event* to the machine and carry out what it wants, in order."""
        for effect in self.machine.handle(event, self.now_ms()):
            self._carry_out(effect)

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        if len(self._clients) >= CLIENTS_MAX:
            writer.close()
            return
        number, ip = self._odd(), str(writer.get_extra_info("peername")[0])
        client = self._clients[number] = ClientLink(
            number, reader, writer, lambda n, words: self._said(n, words, ip), self._table, self.budget
        )
        await client.serve()
        if self._clients.pop(number, None) is not None:
            self.tell(self._client_closed(number))

    def _said(self, number: int, words: tuple[bytes, ...], ip: str) -> None:
        self.tell(self._command(number, words, ip))

    def _odd(self) -> int:
        """A number for a connection that others open; the machine gives its own to those that it opens."""
        self._next += 2
        return self._next

    def _forget(self, number: int) -> Link | None:
        """Take a link that is gone out of the books."""
        link = self._links.pop(number, None)
        if link is not None:
            self.budget.hold(link, 0)
        return link

    def _lose(self, number: int) -> None:
        if self._forget(number) is not None:
            self.tell(self._link_closed(number))

    # -- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Any) -> None:
        handler = self.handlers.get(type(effect))
        if handler is not None:
            handler(self, effect)

    def _run(self, link: Link, connecting: Coroutine[Any, Any, None]) -> None:
        """Let *link* connect and read in a task of its own."""
        link.task = asyncio.create_task(connecting)
        self._tasks.add(link.task)
        link.task.add_done_callback(self._tasks.discard)

    def _close(self, effect: Any) -> None:
        link = self._forget(effect.link)
        if link is not None:
            link.close()

    def _reply(self, effect: Any) -> None:
        client = self._clients.get(effect.client)
        if client is not None and effect.value is not SENT:
            client.reply(effect.value)

    def _keep(self, text: str, *, fsync: bool = True) -> None:
        """Replace the file: it is whole at every moment, and on the disk before anything is said that depends on it."""
        if self.place.folder is not None:
            replace_file(
                self.place.folder / self.config_name, text.encode(self.encoding, "surrogateescape"), fsync=fsync
            )

    @classmethod
    def saved_config(cls, folder: Path | None) -> str:
        """The text of the file in *folder*, empty if there is none."""
        path = None if folder is None else folder / cls.config_name
        return path.read_text(cls.encoding, "surrogateescape") if path is not None and path.exists() else ""

    def _log(self, effect: Any) -> None:
        self._tell(f"{effect.level} {effect.text}")


def replace_file(path: Path, data: bytes, *, fsync: bool = True) -> None:
    """Write *data* under a name that is whole at every moment, and with *fsync* on the disk when this returns."""
    waiting = path.with_suffix(f".{os.getpid()}")
    with open(waiting, "wb") as file:
        file.write(data)
        file.flush()
        if fsync:
            os.fsync(file.fileno())
    os.replace(waiting, path)


def say(line: str) -> None:
    """Write a line with the time to the error stream."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(line)}\n")


def place_at(bind: str, folder: str | None) -> Place:
    """Where the machine is to live; InputError for a folder that is none."""
    place = Path(folder) if folder is not None else None
    if place is not None and not place.is_dir():
        raise InputError(f"{folder}: no such folder")
    return Place(bind, place)


def numeric_address(host: str, named: str) -> str:
    """The address of *host*: machines know addresses, people write names; InputError says where it was *named*."""
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except OSError as error:
        raise InputError(f"{named}: {error.strerror or error}") from error


def stop_event() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def any_of(seconds: float | None, *events: asyncio.Event) -> None:
    """Wait for one of *events*, or for the end of the time."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


OPTIONS: Final = {
    "quorum": "quorum",
    "down-after-milliseconds": "down_after_ms",
    "failover-timeout": "failover_timeout_ms",
    "parallel-syncs": "parallel_syncs",
}
"""What we take over from a sentinel that watches the master already, and the names that it has here."""


def learn_master(address: Address, access: Access, name: str) -> tuple[Address, dict[str, int]]:
    """Where the master *name* is, and the options that a sentinel watches it with; raises InputError."""
    try:
        reply = access.ask(address, "SENTINEL", "MASTER", name)
        pairs = [word.decode("utf-8", "replace") for word in reply]
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return Address(fields["ip"], int(fields["port"])), {
            name: int(fields[option]) for option, name in OPTIONS.items()
        }
    except LinkError as error:
        raise InputError(f"--join {address}: {printable(str(error))}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"--join {address}: this is no sentinel") from error


def ask_to_forget(nodes: Sequence[Address], kind: str, access: Access, *orders: tuple[str, ...]) -> list[str]:
    """Send *orders* to all *nodes*, one after the other; return lines of a log: one for each refusal, and a count of the *kind* of nodes."""
    refused = []
    for node in nodes:
        try:
            for words in orders:
                access.ask(node, *words)
        except LinkError as error:
            refused.append(f"# {node} does not forget us: {access.safe(error)}")
    return [*refused, f"* {len(nodes) - len(refused)} of {len(nodes)} {kind} have forgotten us"]
