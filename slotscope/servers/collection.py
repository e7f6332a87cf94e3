"""Every node of a live cluster, asked again and again: one thread a node, answers in one queue, and the file that they go to."""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from cluster_core.errors import DecodeError
from cluster_core.topology.nodes_text import read_nodes
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import NODES_MAX, Answer, NodePoll, Refused, Schedule, bus_ports
from slotscope.servers.node_link import TIMEOUT_S, Access, Address

UNFORESEEN: Final = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What a server might make of us that nobody has thought of."""


@dataclass(slots=True)
class Collection:
    """Asks every node of a cluster until told to stop: one thread a node, answers in one queue."""

    access: Access
    schedule: Schedule
    wanted: Callable[[Address], bool] = lambda address: True
    """Which of the nodes that are found are asked."""
    stop: threading.Event = field(default_factory=threading.Event)
    told: queue.Queue[Answer | Refused] = field(default_factory=queue.Queue)
    nodes: dict[Address, threading.Thread] = field(default_factory=dict)
    bus_ports: dict[Address, int] = field(default_factory=dict)
    """Of the nodes that are asked."""

    def start(self, first: Address) -> None:
        """Ask *first* once and begin to ask every node that it lists; raises InputError if it cannot be asked."""
        poll = self._node_poll(first)
        answer = poll.ask()
        poll.close()
        if isinstance(answer, Refused):
            raise InputError(f"{first}: {answer.reason}")
        try:
            self.follow(answer)
        except DecodeError as error:
            raise InputError(f"{first}: CLUSTER NODES: {error.reason}") from error

    def follow(self, answer: Answer) -> list[Address]:
        """Begin to ask the nodes of *answer* that are new; return them."""
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
        """Tell all threads to end and wait for them, not longer than a connection may hang."""
        self.stop.set()
        end = time.monotonic() + TIMEOUT_S
        for thread in self.nodes.values():
            thread.join(max(0.0, end - time.monotonic()))

    def _node_poll(self, address: Address) -> NodePoll:
        return NodePoll(address, self.access, self.schedule)

    def _poll(self, address: Address) -> None:
        poll = self._node_poll(address)
        try:
            while not self.stop.is_set():
                try:
                    told = poll.ask()
                except UNFORESEEN as error:  # a node must not leave the collection unsaid
                    told = poll.failed(f"{type(error).__name__}: {error}")
                self.told.put(told)
                self.stop.wait(poll.wait_s(random.random()))
        finally:
            poll.close()


class LineFile:
    """A file that lines are added to: every line is on the disk when `sync` returns, none is joined to a torn one."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        if self._file.tell() and not _ends_with_line_feed(path):
            self._file.write(b"\n")

    def write(self, line: str) -> None:
        """Add one line in one write."""
        self._file.write(line.encode("ascii"))

    def take(self, batch: Sequence[Answer | Refused]) -> None:
        """Add a line for each answer and wait until the disk has them."""
        for told in batch:
            if isinstance(told, Answer):
                self.write(told.line())
        if batch:
            self.sync()

    def sync(self) -> None:
        """Wait until the disk has it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """End."""
        self.sync()
        self._file.close()


def _ends_with_line_feed(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


Tell = Callable[[str], None]


class Sink(Protocol):
    """Where answers go."""

    def take(self, batch: Sequence[Answer | Refused], /) -> None:
        """Take what has come, which may be nothing."""


def collect(collection: Collection, sink: Sink, *, until_s: float, tell: Tell) -> tuple[int, int]:
    """Hand answers on until the monotonic clock shows *until_s* or the collection is stopped; return answers and failures.

    *tell* gets one line for each node that is new, lost or back, or does not answer all that is asked.
    """
    answers = failures = 0
    lost: set[Address] = set()
    while not collection.stop.is_set() and (left_s := until_s - time.monotonic()) > 0:
        batch = _next_batch(collection.told, min(left_s, 0.5))
        for told in batch:
            if isinstance(told, Refused):
                failures += 1
                if told.address not in lost:
                    tell(f"{told.address}: {told.reason}; will be asked again")
                lost.add(told.address)
                continue
            answers += 1
            if told.refused:
                tell(f"{told.address}: {told.refused}; will not be asked again")
            if told.address in lost:
                lost.discard(told.address)
                tell(f"{told.address}: answers again")
            _follow(collection, told, tell)
        sink.take(batch)
    return answers, failures


def _follow(collection: Collection, answer: Answer, tell: Tell) -> None:
    try:
        for address in collection.follow(answer):
            tell(f"{address}: new node, listed by {answer.address}")
    except DecodeError as error:
        tell(f"{answer.address}: CLUSTER NODES: {error.reason}")


def _next_batch(told: queue.Queue[Answer | Refused], wait_s: float) -> list[Answer | Refused]:
    """What is there, waiting *wait_s* at most for the first."""
    batch: list[Answer | Refused] = []
    try:
        batch.append(told.get(timeout=wait_s))
        while True:
            batch.append(told.get_nowait())
    except queue.Empty:
        return batch
