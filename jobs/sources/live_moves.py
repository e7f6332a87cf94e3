"""Slots of a live cluster on the move: connections to the masters that a plan names, and to nobody else.

One node is asked for CLUSTER NODES to learn where those masters are.  A connection is used only after the node behind it has said by
CLUSTER MYID that it is the one that is meant.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import redis
from redis.connection import Connection

from cluster_core.errors import DecodeError
from cluster_core.rebalance.effects import Answered, Ask, Lost, Reply
from cluster_core.rebalance.reshard import Migrate, Refused, Send
from cluster_core.rebalance.sight import ClusterSight, NodeSight, job_question, read_jobs, read_node
from cluster_core.topology.nodes_text import read_nodes
from jobs.runtime.errors import InputError
from jobs.sources.live_cluster import Access, Address, parse_address

MIGRATE_TIMEOUT_MS: Final = 60_000
COMMAND_TIMEOUT_S: Final = 75.0
"""Longer than a MIGRATE may take."""
THREADS_MAX: Final = 32

_QUESTIONS: Final = (("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("INFO",))


@dataclass(slots=True)
class LiveNodes:
    """The masters of a plan, by id, and how to reach them.  Safe to use from one thread; inside, every node has its own."""

    access: Access
    ids: tuple[str, ...]
    addresses: dict[str, Address] = field(default_factory=dict)
    _links: dict[str, Connection] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def discover(self, first: Address) -> None:
        """Learn from the node at *first*, which need not be one of the plan, where the plan's masters are; raises InputError."""
        try:
            link = self.access.connect(first)
            try:
                link.send_command("CLUSTER", "NODES")
                text = link.read_response()
            finally:
                link.disconnect()
            topology = read_nodes(text if isinstance(text, bytes) else b"", source=str(first))
        except (redis.RedisError, OSError, ValueError) as error:
            raise InputError(f"{first}: {self.safe(error)}") from error
        except DecodeError as error:
            raise InputError(f"{first}: CLUSTER NODES: {error.reason}") from error
        found = {node.id: Address(node.ip or first.host, node.port) for node in topology.nodes if node.port}
        missing = [node for node in self.ids if node not in found]
        if missing:
            raise InputError(
                f"{first}: the cluster does not know {missing[0]}, a master of the plan"
                + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
                + ": is it the cluster that the plan was made for?"
            )
        self.addresses = {node: found[node] for node in self.ids}

    def look(self, nodes: Sequence[str]) -> ClusterSight:
        """Ask *nodes* what they believe, side by side."""
        seen: dict[str, NodeSight] = {}
        lost: dict[str, str] = {}
        for node, sight in zip(nodes, self._side_by_side(self._see, nodes), strict=True):
            if isinstance(sight, str):
                lost[node] = sight
            else:
                seen[node] = sight
                self._learn(sight)
        return ClusterSight(seen, lost)

    def ask(self, effect: Ask) -> list[Reply]:
        """Send the commands of *effect*, those to one node in their order, nodes side by side; a failure is a reply, too."""
        lanes: dict[str, list[int]] = {}
        for index, command in enumerate(effect.commands):
            lanes.setdefault(command.node if isinstance(command, Send) else command.source, []).append(index)
        replies: list[Reply] = [Lost("not sent")] * len(effect.commands)

        def run(node: str) -> None:
            for index, reply in self._converse(node, [(i, effect.commands[i]) for i in lanes[node]]):
                replies[index] = reply

        list(self._side_by_side(run, list(lanes)))
        return replies

    def close(self) -> None:
        """Hang up."""
        for node in list(self._links):
            self._drop(node)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def safe(self, error: object) -> str:
        """Return an error's text without the password."""
        text = str(error) or type(error).__name__
        secrets = [secret for secret in (self.access.password,) if secret]
        for secret in secrets:
            text = text.replace(secret, "***")
        return text

    def _side_by_side(self, function: Callable[[str], Any], nodes: Sequence[str]) -> Iterable[Any]:
        if len(nodes) == 1:
            return [function(nodes[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(THREADS_MAX, len(self.ids)), thread_name_prefix="node")
        return self._pool.map(function, nodes)

    def _learn(self, sight: NodeSight) -> None:
        """A node that came back under another address is found where the others see it."""
        for node in self.ids:
            host, _, port = sight.addresses.get(node, "").rpartition(":")
            if node != sight.id and port.isdigit() and int(port) and host and node not in self._links:
                self.addresses[node] = Address(host, int(port))

    def _link(self, node: str) -> Connection:
        """Return the connection to *node*, new or kept; raises redis.RedisError or OSError."""
        link = self._links.get(node)
        if link is None:
            access = replace(self.access, timeout_s=COMMAND_TIMEOUT_S)
            link = access.connect(self.addresses[node])
            link.send_command("CLUSTER", "MYID")
            told = link.read_response()
            if told != node.encode():
                link.disconnect()
                raise redis.ConnectionError(f"{self.addresses[node]} is another node")
            with self._lock:
                self._links[node] = link
        return link

    def _drop(self, node: str) -> None:
        with self._lock:
            link = self._links.pop(node, None)
        if link is not None:
            link.disconnect()

    def _see(self, node: str) -> NodeSight | str:
        """What *node* says, or why it says nothing."""
        try:
            link = self._link(node)
            nodes, cluster_info, info = self._pipeline(link, _QUESTIONS)
            sight = read_node(node, _bytes(nodes), _bytes(cluster_info), _bytes(info))
            question = job_question(sight.product, sight.version)
            marks = (*sight.migrating, *sight.importing)
            more = self._pipeline(link, [*([question] if question else []), *_counts(marks)])
            jobs = read_jobs(more.pop(0)) if question else ()
            counts = {slot: value if isinstance(value, int) else 0 for slot, value in zip(marks, more, strict=True)}
            return replace(sight, jobs=jobs, open_keys=counts)
        except (redis.RedisError, OSError, ValueError) as error:
            self._drop(node)
            return self.safe(error)
        except DecodeError as error:
            self._drop(node)
            return error.reason

    def _pipeline(self, link: Connection, commands: Sequence[Sequence[str]]) -> list[Any]:
        if not commands:
            return []
        link.send_packed_command(link.pack_commands(commands))
        replies, first = [], None
        for _ in commands:
            try:
                replies.append(link.read_response())
            except redis.ResponseError as error:  # the others are still to be read
                first = first or error
        if first is not None:
            raise first
        return replies

    def _converse(self, node: str, commands: Sequence[tuple[int, Send | Migrate]]) -> list[tuple[int, Reply]]:
        """Send all commands but MIGRATE at once; a MIGRATE keeps its server busy, so those go one by one."""
        replies: list[tuple[int, Reply]] = []
        waiting: list[tuple[int, Send | Migrate]] = []
        for entry in commands:
            if isinstance(entry[1], Migrate):
                replies += self._exchange(node, waiting)
                replies += self._exchange(node, [entry])
                waiting = []
            else:
                waiting.append(entry)
        return replies + self._exchange(node, waiting)

    def _exchange(self, node: str, commands: Sequence[tuple[int, Send | Migrate]]) -> list[tuple[int, Reply]]:
        if not commands:
            return []
        replies: list[tuple[int, Reply]] = []
        try:
            link = self._link(node)
            link.send_packed_command(link.pack_commands([self._words(command) for _, command in commands]))
            for index, _ in commands:
                try:
                    replies.append((index, Answered(link.read_response())))
                except redis.ResponseError as error:
                    replies.append((index, Refused(self.safe(_prefixed(error)))))
        except (redis.RedisError, OSError, ValueError) as error:
            self._drop(node)
            replies += [(index, Lost(self.safe(error))) for index, _ in commands[len(replies) :]]
        return replies

    def _words(self, command: Send | Migrate) -> tuple[str | bytes | int, ...]:
        if isinstance(command, Send):
            return command.words
        target = self.addresses[command.target]
        words: list[str | bytes | int] = ["MIGRATE", target.host, target.port, "", 0, MIGRATE_TIMEOUT_MS]
        if command.replace:
            words.append("REPLACE")
        if self.access.password and self.access.user:
            words += ["AUTH2", self.access.user, self.access.password]
        elif self.access.password:
            words += ["AUTH", self.access.password]
        return (*words, "KEYS", *command.keys)


def _counts(slots: Iterable[int]) -> list[tuple[str, ...]]:
    return [("CLUSTER", "COUNTKEYSINSLOT", str(slot)) for slot in slots]


def _bytes(reply: Any) -> bytes:
    if isinstance(reply, bytes):
        return reply
    raise ValueError(f"not a text: {str(reply)[:80]}")


def _prefixed(error: redis.ResponseError) -> str:
    """The text of an error as the server sent it; redis-py takes some first words away."""
    return str(error)


def open_nodes(access: Access, ids: Sequence[str], first: str) -> LiveNodes:
    """Return the masters *ids* of the cluster of which *first* (``HOST:PORT``) is a node; raises InputError."""
    nodes = LiveNodes(access, tuple(ids))
    nodes.discover(parse_address(first))
    return nodes
