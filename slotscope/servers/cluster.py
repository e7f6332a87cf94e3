"""Poll a live cluster: find its nodes from one address, and poll the view of each at an interval.

Nothing but the read-only commands in `ASKED`, `SLOT_STATS` and `SETTINGS` (and AUTH, where a password is given) is ever sent.
Each node has a thread; answers come in one queue.
"""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import without_times
from cluster_core.node.state import BUS_PORT_STEP
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.node_link import TIMEOUT_S, Access, Address, LinkError, NodeLink

ASKED: Final = (("CLUSTER", "NODES"), ("CLUSTER", "INFO"))
"""Commands of a poll, in one pipeline."""
SLOT_STATS: Final = ("CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", "16383")
"""Optional command of a poll, for Valkey 8 and Redis 8.2."""
NODE_TIMEOUT: Final = ("CONFIG", "GET", "cluster-node-timeout")
SETTINGS: Final = (("INFO",), ("CONFIG", "GET", "save"), NODE_TIMEOUT)
"""Optional commands of a poll: time of the last save, changes since, save points, node timeout in ms."""
BACKOFF_S_MAX: Final = 30.0
TURN_S: Final = 0.5
"""Longest wait for answers between two checks of the stop."""
JITTER: Final = 0.1
"""Jitter of each wait, so that nodes are not polled at the same time."""
NODES_MAX: Final = 2000
_NEVER: Final = ("NOPERM", "ERR")
"""First words of permanent errors; others (LOADING, BUSY) are transient."""
_UNREACHABLE = NodeFlags.NOADDR | NodeFlags.HANDSHAKE


class Answer(NamedTuple):
    """The answers of a node to a poll; times in nanoseconds since the epoch."""

    address: Address
    asked_ns: int
    ts_ns: int
    nodes: str
    info: str
    slot_stats: list[Any] | None = None
    persistence: str | None = None
    save: str | None = None
    node_timeout: str | None = None
    refused: str = ""
    """Commands that the node refused for good, with the reason."""

    def line(self, *, is_same: bool = False) -> str:
        """One line of JSON (`cluster_core.formats.poll_lines`), with the further answers as members.

        With *is_same*, CLUSTER NODES and CLUSTER INFO are left out: they equal those of the line before in the file.
        """
        members: dict[str, Any] = {"time": self.ts_ns, "asked": self.asked_ns, "node": str(self.address)}
        members |= {"same": True} if is_same else {"text": self.nodes, "info": self.info}
        if self.slot_stats is not None:
            members["slot_stats"] = self.slot_stats
        if self.persistence is not None:
            members |= {"persistence": self.persistence, "save": self.save, "node_timeout_ms": self.node_timeout}
        return json.dumps(members, separators=(",", ":")) + "\n"

    def belief(self) -> tuple[str, str]:
        """The answer without times and counters, which change each time."""
        state = next((line for line in self.info.splitlines() if line.startswith("cluster_state:")), "")
        return without_times(self.nodes), state


class Refused(NamedTuple):
    """A node that did not answer, with the reason."""

    address: Address
    reason: str


def parse_address(address: str) -> Address:
    """``host:port``, ``[::1]:port`` or a host with port 6379; raises InputError."""
    host, sign, port = address.rpartition(":")
    if not sign or (host.count(":") and not host.endswith("]")):
        host, port = address, "6379"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"{address}: write HOST:PORT")
    return Address(host.strip("[]"), int(port))


def bus_ports(topology: Topology, asked: Address) -> dict[Address, int]:
    """The bus port of each node with an address in the answer of *asked*; its own line may lack one."""
    return {
        Address(node.ip or asked.host, node.port, node.hostname): node.cport or node.port + BUS_PORT_STEP
        for node in topology.nodes
        if node.port and not node.flags & _UNREACHABLE
    }


class Schedule(NamedTuple):
    """Seconds between two polls of a node; for optional commands None means never, 0 each poll."""

    interval_s: float
    slot_stats_s: float | None = None
    settings_s: float | None = None


class NodePoll:
    """The connection to one node, its polls and the wait between them."""

    def __init__(self, address: Address, access: Access, schedule: Schedule) -> None:
        self.address = address
        self.failures = 0
        self._access = access
        self._interval_s = schedule.interval_s
        self._also: dict[tuple[tuple[str, ...], ...], float] = {}
        for commands, every_s in (((SLOT_STATS,), schedule.slot_stats_s), (SETTINGS, schedule.settings_s)):
            if every_s is not None:
                self._also[commands] = every_s
        self._due_s = dict.fromkeys(self._also, 0.0)
        self._refused: set[tuple[str, ...]] = set()
        self._link: NodeLink | None = None

    def ask(self) -> Answer | Refused:
        """Poll once; a failure closes the connection."""
        now_s = time.monotonic()
        due = [commands for commands in self._also if self._due_s[commands] <= now_s]
        also = [command for commands in due for command in commands if command not in self._refused]
        asked = [*ASKED, *also]
        try:
            if self._link is None:
                self._link = self._access.connect(self.address)
            asked_ns = time.time_ns()
            replies = dict(zip(asked, self._link.ask(asked), strict=True))
            ts_ns = time.time_ns()
            nodes, info = (_text(replies[command]) for command in ASKED)
            refused = {
                command: reply.text
                for command in also
                if isinstance(reply := replies[command], RespError) and reply.text.startswith(_NEVER)
            }
            self._refused |= refused.keys()
            stats = _unless_refused(replies.get(SLOT_STATS))
            stats = None if stats is None else slot_metrics(stats)
            saved, *values = (_unless_refused(replies.get(command)) for command in SETTINGS)
            saved = None if saved is None else _text(saved)
            save, timeout = [_text(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None for pair in values]
        except (LinkError, ValueError) as error:
            return self.failed(self._access.safe(error))
        self._due_s |= {commands: now_s + self._also.get(commands, 0.0) * (1 - JITTER) for commands in due}
        self.failures = 0
        reasons = [f"{' '.join(command[:2])}: {self._access.safe(text)}" for command, text in refused.items()]
        refusals = "; ".join(dict.fromkeys(reasons))
        return Answer(self.address, asked_ns, ts_ns, nodes, info, stats, saved, save, timeout, refusals)

    def failed(self, reason: str) -> Refused:
        """Close the connection and return the failure; the wait before the next poll doubles."""
        self.close()
        self.failures += 1
        return Refused(self.address, reason)

    def wait_s(self, chance: float) -> float:
        """Seconds until the next poll: the interval, doubled with each failure; *chance* is from 0 to 1."""
        backoff = min(self._interval_s * 2.0 ** min(self.failures, 16), max(BACKOFF_S_MAX, self._interval_s))
        return backoff * (1 + JITTER * (2 * chance - 1))

    def close(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link is not None:
            link.close()


def _unless_refused(reply: Any) -> Any:
    """The reply; None for an optional command without permission."""
    return None if isinstance(reply, RespError) else reply


def _text(reply: Any) -> str:
    if isinstance(reply, RespError):
        raise ValueError(reply.text)
    if not isinstance(reply, bytes):
        raise ValueError(f"not a text: {str(reply)[:80]}")
    return reply.decode("utf-8", "backslashreplace")


def slot_metrics(reply: Any) -> list[Any]:
    """Slot and metrics by name, from RESP2 lists of names and values in turn; ValueError for another shape."""
    if isinstance(reply, RespError):
        raise ValueError(reply.text)
    rows = []
    for entry in reply if isinstance(reply, list) else [None]:
        match entry:
            case [int() as slot, [*metrics]] if len(metrics) % 2 == 0 and all(
                isinstance(v, int) for v in metrics[1::2]
            ):
                rows.append([slot, dict(zip(map(_text, metrics[::2]), metrics[1::2], strict=True))])
            case _:
                raise ValueError("CLUSTER SLOT-STATS: not slots with their metrics")
    return rows


UNFORESEEN: Final = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""Unforeseen errors of one poll."""


@dataclass(slots=True)
class Collection:
    """Polls every node of a cluster until `stop` is set: one thread a node, answers in one queue."""

    access: Access
    schedule: Schedule
    wanted: Callable[[Address], bool] = lambda address: True
    """Whether a found node is polled."""
    stop: threading.Event = field(default_factory=threading.Event)
    answers: queue.Queue[Answer | Refused] = field(default_factory=queue.Queue)
    nodes: dict[Address, threading.Thread] = field(default_factory=dict)
    bus_ports: dict[Address, int] = field(default_factory=dict)
    """Bus port of each polled node."""

    def start(self, first: Address) -> None:
        """Poll *first* once and start to poll every node that it lists; raises InputError if *first* does not answer."""
        poll = NodePoll(first, self.access, self.schedule)
        answer = poll.ask()
        poll.close()
        if isinstance(answer, Refused):
            raise InputError(f"{first}: {answer.reason}")
        try:
            self.follow(answer)
        except DecodeError as error:
            raise InputError(f"{first}: CLUSTER NODES: {error.reason}") from error

    def follow(self, answer: Answer) -> list[Address]:
        """Start to poll the new nodes of *answer*; return them."""
        topology = read_nodes(answer.nodes.encode("utf-8", "surrogateescape"), source=str(answer.address))
        ports = {address: port for address, port in bus_ports(topology, answer.address).items() if self.wanted(address)}
        added = [address for address in ports if address not in self.nodes][: NODES_MAX - len(self.nodes)]
        self.bus_ports |= ports
        for address in added:
            thread = threading.Thread(target=self._poll, args=(address,), name=f"poll {address}", daemon=True)
            self.nodes[address] = thread
            thread.start()
        return added

    def finish(self) -> None:
        """Stop all threads and wait for them, up to the timeout of a connection."""
        self.stop.set()
        end = time.monotonic() + TIMEOUT_S
        for thread in self.nodes.values():
            thread.join(max(0.0, end - time.monotonic()))

    def _poll(self, address: Address) -> None:
        poll = NodePoll(address, self.access, self.schedule)
        try:
            while not self.stop.is_set():
                try:
                    answer: Answer | Refused = poll.ask()
                except UNFORESEEN as error:  # a node must not leave the collection unsaid
                    answer = poll.failed(f"{type(error).__name__}: {error}")
                self.answers.put(answer)
                self.stop.wait(poll.wait_s(random.random()))
        finally:
            poll.close()


def collect(
    collection: Collection, take: Callable[[Sequence[Answer | Refused]], None], tell: Callable[[str], None]
) -> None:
    """Pass batches of answers to *take* until the stop of the collection; a batch may be empty, *tell* gets a line for each new node."""
    while not collection.stop.is_set():
        batch = _next_batch(collection.answers, TURN_S)
        for answer in batch:
            if isinstance(answer, Refused):
                continue
            try:
                for address in collection.follow(answer):
                    tell(f"{address}: new node, listed by {answer.address}")
            except DecodeError as error:
                tell(f"{answer.address}: CLUSTER NODES: {error.reason}")
        take(batch)


def _next_batch(answers: queue.Queue[Answer | Refused], wait_s: float) -> list[Answer | Refused]:
    """The answers in the queue; waits up to *wait_s* for the first."""
    batch: list[Answer | Refused] = []
    try:
        batch.append(answers.get(timeout=wait_s))
        while True:
            batch.append(answers.get_nowait())
    except queue.Empty:
        return batch
