"""Visit every node of a live cluster once, and keep a paced connection to it.  A visit reads the view and the state of the node.

Commands are sent in small batches.  A batch takes the server about `BATCH_S`: no client waits longer because of it.  A pause after each
batch keeps the load at `SHARE` of the server's time; a slow server gets fewer commands.  The time per command is the shortest of the last
`REMEMBERED` batches, without the round trip, so delays of a busy machine or network do not count.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from cluster_core.errors import DecodeError
from cluster_core.incidents.symptoms import Checkup
from cluster_core.topology.node import Node, Topology
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError, read_info
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import NODES_MAX, bus_ports
from slotscope.servers.node_link import Access, Address, LinkError, NodeLink, Word

BATCH_S: Final = 0.001
"""Time of one batch, including the parsing of its replies; ten times more raises the p99 latency of other clients."""
SHARE: Final = 0.5
"""Share of the time in which a batch is at the server; about half of it is the parsing of replies."""
TOGETHER_MIN: Final = 20
TOGETHER_MAX: Final = 400
"""Bounds of the commands in a batch; a low rate allows fewer."""
REMEMBERED: Final = 16
BURSTS_A_SECOND: Final = 10
REST_S_MAX: Final = 1.0
_TURN: Final = threading.RLock()
"""Held by the thread that asks a node of this machine in `in_turns`, except while it waits."""


class PacedLink:
    """A connection that takes `SHARE` of its server's time and sends at most *rate* commands a second; *sent* counts them."""

    def __init__(self, link: NodeLink, rate: float = math.inf) -> None:
        self.sent = 0
        self._link = link
        self._rate = rate
        self._most = max(1, min(TOGETHER_MAX, int(min(rate, 1e6) / BURSTS_A_SECOND)))
        self._together = self._least = min(TOGETHER_MIN, self._most)
        self._quickest_s = math.inf
        self._each_s: deque[float] = deque(maxlen=REMEMBERED)
        self.due_s = 0.0
        """Earliest time of the next batch, by the monotonic clock."""

    def ask(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Return a reply to each of *commands*; errors of the server are values; raises LinkError for all others."""
        replies: list[Any] = []
        while len(replies) < len(commands):
            some = commands[len(replies) : len(replies) + self._together]
            self._wait()
            begun_s = time.monotonic()
            replies += self._link.ask(some)
            self._adapt(len(some), begun_s, time.monotonic() - begun_s)
            self.sent += len(some)
        return replies

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        return self._link.is_local

    @property
    def together(self) -> int:
        """Commands in the next batch."""
        return self._together

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def _wait(self) -> None:
        """Wait until the next batch is due, and let others have the turn meanwhile."""
        left_s = self.due_s - time.monotonic()
        if left_s <= 0:
            return
        try:
            _TURN.release()
        except RuntimeError:  # this thread does not have the turn
            time.sleep(left_s)
            return
        try:
            time.sleep(left_s)
        finally:
            _TURN.acquire()

    def _adapt(self, count: int, begun_s: float, took_s: float) -> None:
        """Set the size and time of the next batch; the fastest batch so far gives the round trip."""
        self._quickest_s = min(self._quickest_s, took_s)
        self._each_s.append((took_s - self._quickest_s) / count)
        each_s = min(self._each_s)
        wanted = int(BATCH_S / each_s) if each_s else self._most
        self._together = max(self._least, min(self._most, wanted, 2 * self._together))
        rest_s = min(count * each_s * (1 / SHARE - 1), REST_S_MAX)
        self.due_s = max(self.due_s, begun_s + count / self._rate, begun_s + took_s + rest_s)


ASKED: Final = (("INFO", "all"), ("CLUSTER", "NODES"), ("CLUSTER", "INFO"))
"""Commands of a visit."""
AT_ONCE_MAX: Final = 64
"""Nodes visited in parallel."""
_DATABASE: Final = re.compile(r"db(\d{1,9})")
_KEYS: Final = re.compile(r"keys=(\d{1,18})(?:,|$)")

A = TypeVar("A")
B = TypeVar("B")


@dataclass(slots=True)
class Visit:
    """A node and its answers at *asked_s* (monotonic clock)."""

    address: Address
    checkup: Checkup
    link: PacedLink | None = None
    asked_s: float = 0.0

    @property
    def me(self) -> Node | None:
        """Its own line of CLUSTER NODES."""
        return self.checkup.me

    @property
    def databases(self) -> dict[int, int]:
        """Keys by database, without empty ones."""
        keys_by_database = {}
        for name, value in self.checkup.info.items():
            if (number := _DATABASE.fullmatch(name)) and (keys := _KEYS.match(value)):
                keys_by_database[int(number[1])] = int(keys[1])
        return keys_by_database

    def ask(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Return a reply to each of *commands*; after a LinkError the connection is closed."""
        if self.link is None:
            raise LinkError(self.checkup.lost or "the connection was closed")
        try:
            return self.link.ask(commands)
        except LinkError:
            self.close()
            raise

    @property
    def is_here(self) -> bool:
        """Whether its server runs on this machine."""
        return self.link is not None and self.link.is_local

    @property
    def together(self) -> int:
        """Commands in the next batch."""
        return self.link.together if self.link is not None else 1

    def info(self) -> tuple[float, int, dict[str, str]]:
        """Return the time of a new INFO, the commands sent before it, and its fields (empty without an answer)."""
        sent = self.link.sent if self.link is not None else 0
        at_s = time.monotonic()
        try:
            (reply,) = self.ask([ASKED[0]])
        except LinkError:
            reply = b""
        return at_s, sent, read_info(reply) if isinstance(reply, bytes) else {}

    def close(self) -> None:
        """Close the connection."""
        if self.link is not None:
            self.link.close()
            self.link = None


def side_by_side(function: Callable[[A], B], arguments: Iterable[A]) -> list[B]:
    """The results of *function* for *arguments*, in their order."""
    every = list(arguments)
    with ThreadPoolExecutor(max(1, min(len(every), AT_ONCE_MAX))) as pool:
        return list(pool.map(function, every))


def in_turns(calls: Iterable[tuple[Visit, Callable[[], B]]]) -> list[B]:
    """Return the result of each of *calls*, side by side; each comes with the node that gets most of its commands.

    Of those with nodes of this machine one runs at any time, the others wait: all at once, and their servers, would take its processors
    from clients.
    """

    def run(call: tuple[Visit, Callable[[], B]]) -> B:
        visit, function = call
        with _TURN if visit.is_here else nullcontext():
            return function()

    return side_by_side(run, calls)


@contextmanager
def visited(first: Address, access: Access, rate: float | None) -> Iterator[list[Visit]]:
    """The visits of `visit_all`, closed at the end; a LinkError within is an InputError outside."""
    visits = visit_all(first, access, rate)
    try:
        yield visits
    except LinkError as error:
        raise InputError(f"a node of the cluster of {first} was lost: {access.safe(error)}") from error
    finally:
        for visit in visits:
            visit.close()


def topology_of(visit: Visit) -> Topology:
    """The view of a node; raises InputError for a server outside a cluster and for a user without permission."""
    if visit.checkup.topology is None:
        (reply,) = visit.ask([("CLUSTER", "NODES")])
        reason = reply.text if isinstance(reply, RespError) else "no answer"
        raise InputError(f"{visit.address}: CLUSTER NODES: {reason}")
    return visit.checkup.topology


def visit_all(first: Address, access: Access, rate: float | None) -> list[Visit]:
    """Visit *first* and every node that it lists, *first* first; a server in no cluster is alone.  Raises InputError if *first* cannot be asked."""
    visit = _visit(first, access, rate)
    if visit.checkup.lost:
        raise InputError(f"{first}: {visit.checkup.lost}")
    topology, me = visit.checkup.topology, visit.me
    if topology is None:
        return [visit]
    itself = Address(me.ip or first.host, me.port) if me is not None else first
    peers = [address for address in bus_ports(topology, first) if address not in (first, itself)]
    return [visit, *side_by_side(lambda address: _visit(address, access, rate), peers[: NODES_MAX - 1])]


def _visit(address: Address, access: Access, rate: float | None) -> Visit:
    try:
        link = PacedLink(access.connect(address), math.inf if rate is None else rate)
    except LinkError as error:
        return Visit(address, Checkup(str(address), lost=access.safe(error)))
    at_s = time.monotonic()
    visit = Visit(address, Checkup(str(address)), link, at_s)
    try:
        info, nodes, cluster = visit.ask(ASKED)
        topology = read_nodes(nodes) if isinstance(nodes, bytes) else None  # not in a cluster, or not permitted
        visit.checkup = Checkup(str(address), topology, _fields(cluster), _fields(info))
        if not visit.checkup.info and visit.checkup.topology is None:
            raise LinkError(
                access.safe(info.text) if isinstance(info, RespError) else "it answers neither INFO nor CLUSTER NODES"
            )
    except (LinkError, DecodeError) as error:
        visit.close()
        visit.checkup = Checkup(str(address), lost=access.safe(error))
    return visit


def _fields(reply: Any) -> dict[str, str]:
    return read_info(reply) if isinstance(reply, bytes) else {}
