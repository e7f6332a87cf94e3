"""Move slots of a live cluster: connections to the masters of a plan, and to no other node.

CLUSTER NODES of one node gives the addresses of the masters.  A connection is used only after CLUSTER MYID has confirmed the id of the
node.  Meanwhile PING on other connections measures the latency of clients.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.rebalance.execution.cluster_now import JOB_LISTS, ClusterSight, NodeSight, read_jobs, read_node
from cluster_core.rebalance.execution.effects import ANSWER_S, Answered, Ask, Lost, Migrate, Refused, Reply, Send
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import NODE_TIMEOUT, parse_address
from slotscope.servers.node_link import TIMEOUT_S, Access, Address, LinkError, NodeLink

THREADS_MAX: Final = 32

_QUESTIONS: Final = (("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("INFO",))


@dataclass(slots=True)
class LiveNodes:
    """The masters of a plan by id, and their connections.  For one thread; each node has its own inside."""

    access: Access
    ids: tuple[str, ...]
    addresses: dict[str, Address] = field(default_factory=dict)
    """Addresses of all nodes of the cluster, by id."""
    _owners: tuple[str, ...] = ()
    _links: dict[str, NodeLink] = field(default_factory=dict)
    _timeouts_ms: dict[str, int] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def discover(self, first: Address) -> None:
        """Learn from the node at *first*, which need not be one of the plan, where the plan's masters are; raises InputError."""
        try:
            topology = read_nodes(_bytes(self.access.ask(first, "CLUSTER", "NODES")), source=str(first))
        except (LinkError, ValueError) as error:
            raise InputError(f"{first}: {self.access.safe(error)}") from error
        except DecodeError as error:
            raise InputError(f"{first}: CLUSTER NODES: {error.reason}") from error
        addresses = {n.id: Address(n.ip or first.host, n.port, n.hostname) for n in topology.nodes if n.port}
        if not addresses.keys() & set(self.ids):
            raise InputError(
                f"{first}: no master of the plan is in this cluster ({self.ids[0]} and others); name a node of the plan's cluster"
            )
        self.addresses = addresses
        self._owners = tuple(node.id for node in topology.masters() if node.slots and node.id in addresses)

    def masters(self) -> dict[str, Address]:
        """Where the plan's masters are, and those that own slots: one of them may have been promoted since the plan was made."""
        return {node: self.addresses[node] for node in (*self.ids, *self._owners) if node in self.addresses}

    def look(self, nodes: Sequence[str], within_s: float = ANSWER_S) -> ClusterSight:
        """Read the views of *nodes* in parallel; each must answer within *within_s*."""
        seen: dict[str, NodeSight] = {}
        lost: dict[str, str] = {}
        for node, sight in zip(nodes, self._side_by_side(lambda node: self._see(node, within_s), nodes), strict=True):
            if isinstance(sight, str):
                lost[node] = sight
            else:
                seen[node] = sight
                self._learn(sight)
        return ClusterSight(seen, lost)

    def ask(self, effect: Ask) -> list[Reply]:
        """Send the commands of *effect*, in order for each node, nodes in parallel; a failure counts as a reply."""
        lanes: dict[str, list[int]] = {}
        for index, command in enumerate(effect.commands):
            lanes.setdefault(command.node if isinstance(command, Send) else command.source, []).append(index)
        replies: list[Reply] = [Lost("not sent")] * len(effect.commands)

        def run(node: str) -> None:
            for index, reply in self._converse(node, effect, lanes[node]):
                replies[index] = reply

        list(self._side_by_side(run, list(lanes)))
        return replies

    def close(self) -> None:
        """Close the connections."""
        for node in list(self._links):
            self._drop(node)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _side_by_side(self, function: Callable[[str], Any], nodes: Sequence[str]) -> Iterable[Any]:
        if len(nodes) == 1:
            return [function(nodes[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(THREADS_MAX, len(self.ids)), thread_name_prefix="node")
        return self._pool.map(function, nodes)

    def _learn(self, sight: NodeSight) -> None:
        """Update the addresses from the views of other nodes, for a node that moved or joined."""
        for node, address in sight.addresses.items():
            host, _, port = address.rpartition(":")
            if node != sight.id and port.isdigit() and int(port) and host and node not in self._links:
                known = self.addresses.get(node)
                self.addresses[node] = Address(host, int(port), known.name if known else "")

    def _link(self, node: str, until_s: float) -> NodeLink:
        """Return the connection to *node*, new or kept; raises LinkError."""
        link = self._links.get(node)
        if link is None:
            if node not in self.addresses:
                raise LinkError("the cluster does not know it")
            within_s = min(TIMEOUT_S, max(0.0, until_s - time.monotonic()))
            link = replace(self.access, timeout_s=within_s).connect(self.addresses[node])
            with self._lock:
                self._links[node] = link
            (reply,) = link.ask([("CLUSTER", "MYID")])
            if reply != node.encode():
                self._drop(node)
                refused = isinstance(reply, RespError)
                raise LinkError(f"CLUSTER MYID: {reply.text}" if refused else f"{self.addresses[node]} is another node")
        return link

    def _drop(self, node: str) -> None:
        with self._lock:
            link = self._links.pop(node, None)
        if link is not None:
            link.close()

    def _see(self, node: str, within_s: float) -> NodeSight | str:
        """The view of *node*, or the reason why there is none."""
        until_s = time.monotonic() + within_s
        try:
            link = self._link(node, until_s)
            nodes, cluster_info, info = map(_bytes, self._pipeline(link, _QUESTIONS, until_s))
            sight = read_node(node, nodes, cluster_info, info)
            if node not in self._timeouts_ms:  # asked once: a user that may not is not to fill the servers' ACL LOG
                self._timeouts_ms[node] = _milliseconds(*self._pipeline(link, [NODE_TIMEOUT], until_s))
            question = JOB_LISTS.get(sight.path)
            marks = (*sight.migrating, *sight.importing)
            counting = [("CLUSTER", "COUNTKEYSINSLOT", str(slot)) for slot in marks]
            more = self._pipeline(link, [*([question] if question else []), *counting], until_s)
            jobs = read_jobs(_list(more.pop(0))) if question else ()
            counts = {slot: value if isinstance(value, int) else 0 for slot, value in zip(marks, more, strict=True)}
            return replace(sight, jobs=jobs, open_keys=counts, node_timeout_ms=self._timeouts_ms[node])
        except (LinkError, ValueError) as error:
            self._drop(node)
            return self.access.safe(error)
        except DecodeError as error:
            self._drop(node)
            return error.reason

    def _pipeline(self, link: NodeLink, commands: Sequence[Sequence[str]], until_s: float) -> list[Any]:
        return link.ask(commands, until_s - time.monotonic()) if commands else []

    def _converse(self, node: str, effect: Ask, lane: Sequence[int]) -> list[tuple[int, Reply]]:
        """Send all commands but MIGRATE at once; a MIGRATE keeps its server busy, so those go one by one.

        A target that did not answer one MIGRATE is not waited for again: each wait would hold up the source's clients anew.
        """
        replies: list[tuple[int, Reply]] = []
        waiting: list[int] = []
        silent: set[str] = set()
        for index in lane:
            command = effect.commands[index]
            if not isinstance(command, Migrate):
                waiting.append(index)
                continue
            replies += self._exchange(node, effect, waiting)
            waiting = []
            if command.target in silent:
                replies.append((index, Lost("its target did not answer the MIGRATE before")))
                continue
            replies += self._exchange(node, effect, [index])
            reply = replies[-1][1]
            if isinstance(reply, Lost) or (isinstance(reply, Refused) and reply.text.startswith("IOERR")):
                silent.add(command.target)
        return replies + self._exchange(node, effect, waiting)

    def _exchange(self, node: str, effect: Ask, indices: Sequence[int]) -> list[tuple[int, Reply]]:
        if not indices:
            return []
        until_s = time.monotonic() + effect.within_s
        replies: list[tuple[int, Reply]] = []
        try:
            link = self._link(node, until_s)
            link.send([self._arguments(effect.commands[index], effect.migrate_ms) for index in indices], until_s)
            for index in indices:
                reply = link.read(until_s)
                replies.append(
                    (index, Refused(self.access.safe(reply.text)) if isinstance(reply, RespError) else Answered(reply))
                )
        except LinkError as error:
            self._drop(node)
            replies += [(index, Lost(self.access.safe(error))) for index in indices[len(replies) :]]
        return replies

    def _arguments(self, command: Send | Migrate, migrate_ms: int) -> tuple[str | bytes | int, ...]:
        if isinstance(command, Send):
            return command.arguments
        target = self.addresses[command.target]
        arguments: list[str | bytes | int] = ["MIGRATE", target.host, target.port, "", 0, migrate_ms]
        if command.replace:
            arguments.append("REPLACE")
        if self.access.password and self.access.user:
            arguments += ["AUTH2", self.access.user, self.access.password]
        elif self.access.password:
            arguments += ["AUTH", self.access.password]
        return (*arguments, "KEYS", *command.keys)


def _bytes(reply: Any) -> bytes:
    if isinstance(reply, bytes):
        return reply
    raise ValueError(reply.text if isinstance(reply, RespError) else f"not a text: {str(reply)[:80]}")


def _list(reply: Any) -> Any:
    if isinstance(reply, RespError):
        raise ValueError(reply.text)
    return reply


def _milliseconds(reply: Any) -> int:
    """The number in the reply to CONFIG GET; 0 for an error or another value."""
    match reply:
        case [bytes(), bytes() as value] if value.isdigit() and len(value) < 10:
            return int(value)
    return 0


def open_nodes(access: Access, ids: Sequence[str], first: str) -> LiveNodes:
    """Return the masters *ids* of the cluster of *first* (``HOST:PORT``); raises InputError."""
    nodes = LiveNodes(access, tuple(ids))
    nodes.discover(parse_address(first))
    return nodes


INTERVAL_S: Final = 0.02
"""Time between two PINGs to a node with `NODES_USUAL` nodes; with more nodes it grows, so that the total rate is constant."""
NODES_USUAL: Final = 10
LATELY_S: Final = 3.0
SHARE: Final = 0.99
SAMPLES_MIN: Final = 20
MISSED_MAX: Final = 1000


class LatencyProbe:
    """Measures the latency of each of *addresses* with PING until it is closed; an unreachable node has none."""

    def __init__(self, access: Access, addresses: Mapping[str, Address]) -> None:
        self._access = access
        self._interval_s = INTERVAL_S * max(1.0, len(addresses) / NODES_USUAL)
        self._samples: dict[str, deque[tuple[float, float]]] = {node: deque() for node in addresses}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(node, address), name="latency", daemon=True)
            for node, address in addresses.items()
        ]
        for thread in self._threads:
            thread.start()

    def p99_ms(self) -> float | None:
        """The p99 latency of the last seconds at the slowest node, in ms; None after too few PINGs."""
        since_s = time.monotonic() - LATELY_S
        percentiles = []
        for samples in self._samples.values():
            waited = sorted(wait_s for at_s, wait_s in tuple(samples) if at_s >= since_s)
            if len(waited) >= SAMPLES_MIN:
                percentiles.append(waited[int(len(waited) * SHARE)] * 1000)
        return max(percentiles, default=None)

    def close(self) -> None:
        """End."""
        self._stop.set()
        for thread in self._threads:
            thread.join(self._access.timeout_s)

    def _ask(self, node: str, address: Address) -> None:
        samples = self._samples[node]
        while not self._stop.is_set():
            with suppress(LinkError):
                link = self._access.connect(address)
                try:
                    while not self._stop.wait(self._interval_s):
                        begun_s = time.monotonic()
                        link.ask([("PING",)])
                        self._note(samples, begun_s)
                finally:
                    link.close()
            self._stop.wait(1.0)

    def _note(self, samples: deque[tuple[float, float]], begun_s: float) -> None:
        """Count a slow PING also for the PINGs that it delayed: clients would have waited."""
        now_s = time.monotonic()
        waits = [now_s - begun_s]
        while waits[-1] > self._interval_s and len(waits) < MISSED_MAX:
            waits.append(waits[-1] - self._interval_s)
        samples.extend((now_s, wait_s) for wait_s in waits)
        while samples and samples[0][0] < now_s - LATELY_S:
            samples.popleft()
