"""What a live cluster shows of a plan that was carried out: owners, open slots, keys and bytes per slot, counters.

Sends `ASKED` and AUTH, where a password is given: nothing that writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import COUNTERS, METRICS
from cluster_core.rebalance.audit import CounterWindow, Measured, NodeView
from cluster_core.rebalance.execution.cluster_now import ClusterSight, sight_of
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import Answer, neighbours
from slotscope.servers.node_link import Access, Address, LinkError, NodeLink
from slotscope.servers.slot_counts import SLOTS_AT_ONCE

ASKED: Final = (
    "CLUSTER NODES", "CLUSTER COUNTKEYSINSLOT", "CLUSTER GETKEYSINSLOT", "CLUSTER SLOT-STATS", "MEMORY USAGE", "DUMP", "INFO",
)  # fmt: skip
"""Every command that is ever sent; all of them only read."""
PIPELINE_COMMANDS: Final = 500
DUMP_BYTES_MAX: Final = 1 << 20
"""A larger value is not fetched: its size in a dump is taken from its memory."""
DUMP_FRAME_BYTES: Final = 10
"""DUMP adds version and checksum; a dump file does not."""
NODES_MAX: Final = 2000

Reply = Any
Ask = tuple[str | bytes | int, ...]


class Link:
    """A connection to one node."""

    def __init__(self, address: Address, link: NodeLink) -> None:
        self.address = address
        self._link = link

    def ask(self, commands: Iterable[Ask]) -> Iterator[Reply]:
        """Send *commands* in pipelines and yield the replies; errors of the server are values."""
        pending: list[Ask] = []
        for command in commands:
            pending.append(command)
            if len(pending) == PIPELINE_COMMANDS:
                yield from self._exchange(pending)
                pending = []
        if pending:
            yield from self._exchange(pending)

    def _exchange(self, commands: Sequence[Ask]) -> list[Reply]:
        try:
            return self._link.ask(commands)
        except LinkError as error:
            raise InputError(f"{self.address}: {error}") from error

    def close(self) -> None:
        """Hang up."""
        self._link.close()


@dataclass(frozen=True, slots=True)
class LiveMaster:
    """A master that answered: its own slots as it sees them, with the keys it holds in each."""

    link: Link
    node_id: str
    keys: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """Every node that the first one lists: what each believes, and links to those that answered."""

    views: Sequence[NodeView]
    links: Mapping[str, Link]
    topologies: Mapping[str, Topology]

    def sight(self) -> ClusterSight:
        """What the nodes believe, as an execution sees it."""
        return ClusterSight({node: sight_of(topology) for node, topology in self.topologies.items()})

    def masters(self) -> list[LiveMaster]:
        """Count the keys of every slot on its owner, one pipeline a master."""
        found = []
        for node_id, topology in self.topologies.items():
            slots = list(topology.by_id[node_id].slots)
            replies = self.links[node_id].ask(("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots)
            if slots:
                found.append(
                    LiveMaster(self.links[node_id], node_id, dict(zip(slots, map(_count, replies), strict=True)))
                )
        return found

    def left_behind(self, moved: Mapping[int, str]) -> dict[tuple[str, int], int]:
        """Count the keys of *moved* slots (slot to former owner) that the former owners still hold."""
        by_source: dict[str, list[int]] = {}
        for slot, source in moved.items():
            by_source.setdefault(source, []).append(slot)
        left = {}
        for source, slots in by_source.items():
            if source in self.links:
                replies = self.links[source].ask(("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots)
                left.update({(source, slot): _count(reply) for slot, reply in zip(slots, replies, strict=True)})
        return left


@contextmanager
def connected(first: Address, access: Access) -> Iterator[LiveCluster]:
    """Connect to every node that *first* lists and ask what it believes; InputError if *first* cannot be asked."""
    links: list[Link] = []
    try:
        text = _nodes_text(first, access, links)
        try:
            addresses = list(dict.fromkeys(neighbours(Answer(first, 0, 0, text, ""))))[:NODES_MAX]
        except DecodeError as error:
            raise InputError(f"{first}: CLUSTER NODES: {error.reason}") from error
        views, by_id, topologies = [], {}, {}
        for address in addresses:
            try:
                topology = _topology(_nodes_text(address, access, links))
                me = next(node for node in topology.nodes if NodeFlags.MYSELF in node.flags)
            except (InputError, DecodeError, StopIteration) as error:
                views.append(NodeView(str(address), lost=str(error) or "it does not name itself"))
                continue
            by_id[me.id], topologies[me.id] = links[-1], topology
            views.append(NodeView(str(address), owners_of(topology), sorted({*me.migrating, *me.importing})))
        yield LiveCluster(views, by_id, topologies)
    finally:
        for link in links:
            link.close()


def owners_of(topology: Topology) -> list[str]:
    """The id of each slot's owner, empty where it has none."""
    owners = [""] * SLOT_COUNT
    for node in topology.nodes:
        for slot in node.slots:
            owners[slot] = node.id
    return owners


def _topology(text: str) -> Topology:
    return read_nodes(text.encode("utf-8", "surrogateescape"))


def _nodes_text(address: Address, access: Access, links: list[Link]) -> str:
    try:
        links.append(Link(address, access.connect(address)))
    except LinkError as error:
        raise InputError(f"{address}: {error}") from error
    (reply,) = links[-1].ask([("CLUSTER", "NODES")])
    if not isinstance(reply, bytes):
        raise InputError(f"{address}: {reply.text if isinstance(reply, RespError) else reply}"[:300])
    return reply.decode("utf-8", "surrogateescape")


def _count(reply: Reply) -> int:
    return reply if isinstance(reply, int) and reply > 0 else 0


# -- bytes -------------------------------------------------------------------------------------------------------------


def measure_keys(masters: Sequence[LiveMaster]) -> Measured:
    """Keys of each master: the sum of COUNTKEYSINSLOT."""
    loads = {master.node_id: float(sum(master.keys.values())) for master in masters}
    return Measured("keys", loads, "COUNTKEYSINSLOT of every slot")


def measure_dataset(resource: str, cluster: LiveCluster, masters: Sequence[LiveMaster]) -> Measured:
    """Memory of each master's data as INFO tells it: without sampling, with what a server keeps around keys."""
    loads = {}
    for master in masters:
        (reply,) = cluster.links[master.node_id].ask([("INFO", "memory")])
        lines = reply.decode("utf-8", "replace").splitlines() if isinstance(reply, bytes) else []
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        told = facts.get("used_memory_dataset", "")
        loads[master.node_id] = float(told) if told.isdigit() else 0.0
    doubt = "" if resource == "memory_bytes" else f"memory was measured, {resource} were promised"
    return Measured(resource, loads, "used_memory_dataset of INFO", doubt=doubt)


def measure_dumps(masters: Sequence[LiveMaster], sample: int) -> Measured:
    """Serialized bytes of each master from DUMP of at most *sample* keys a slot.

    Slots with no more keys are counted whole; others are estimated, with a standard error.
    """
    sums: dict[str, float] = {}
    variances: dict[str, float] = {}
    sampled = whole = 0
    for master in masters:
        for slot, sizes in _dump_sizes(master, sample):
            count = master.keys[slot]
            sampled, whole = sampled + len(sizes), whole + count
            total, variance = _estimate(sizes, count)
            sums[master.node_id] = sums.get(master.node_id, 0.0) + total
            variances[master.node_id] = variances.get(master.node_id, 0.0) + variance
    errors = {node: math.sqrt(value) for node, value in variances.items() if value}
    return Measured("serialized_bytes", sums, f"DUMP of {sampled} of {whole} keys", errors)


def _dump_sizes(master: LiveMaster, sample: int) -> Iterator[tuple[int, list[float]]]:
    """Yield each slot with the bytes that some of its keys take in a dump; those that went meanwhile are left out."""
    slots = [slot for slot, keys in master.keys.items() if keys]
    replies = master.link.ask([("CLUSTER", "GETKEYSINSLOT", slot, min(master.keys[slot], sample)) for slot in slots])
    named = [(slot, key) for slot, keys in zip(slots, replies, strict=True) if isinstance(keys, list) for key in keys]
    memory = map(_count, master.link.ask(("MEMORY", "USAGE", key) for _, key in named))
    held = [(slot, key, size) for (slot, key), size in zip(named, memory, strict=True) if size]
    sizes: dict[int, list[float]] = {slot: [] for slot in slots}
    fetched = [place for place in held if place[2] <= DUMP_BYTES_MAX]
    for slot, _, size in held:
        if size > DUMP_BYTES_MAX:
            sizes[slot].append(size)
    for (slot, key, _), reply in zip(fetched, master.link.ask(("DUMP", key) for _, key, _ in fetched), strict=True):
        if isinstance(reply, bytes):
            sizes[slot].append(record_bytes(key, reply))
    yield from sizes.items()


def record_bytes(key: bytes, dumped: bytes) -> int:
    """Bytes of a key in a dump file: what DUMP answers without its frame, and the key with its length before it.

    An expiry, which the file holds beside the record, is left out.
    """
    length_bytes = 1 if len(key) < 64 else 2 if len(key) < 16384 else 5
    return len(dumped) - DUMP_FRAME_BYTES + length_bytes + len(key)


def _estimate(values: Sequence[float], count: int) -> tuple[float, float]:
    """Total of *count* things of which *values* are some, and the variance of that estimate."""
    seen = len(values)
    if not seen:
        return 0.0, 0.0
    mean = sum(values) / seen
    if seen >= count or seen < 2:
        return mean * count, 0.0
    spread = sum((value - mean) ** 2 for value in values) / (seen - 1)
    return mean * count, count * count * spread / seen * (1 - seen / count)


# -- counters ----------------------------------------------------------------------------------------------------------


def read_slot_stats(masters: Sequence[LiveMaster]) -> dict[str, dict[int, tuple[str, int]]]:
    """CLUSTER SLOT-STATS of every master: resource to slot to (owner, value); empty where no server knows it."""
    found: dict[str, dict[int, tuple[str, int]]] = {}
    for master in masters:
        for slot, metrics in _slot_stats(master):
            names = [name.decode("ascii", "replace") if isinstance(name, bytes) else str(name) for name in metrics[::2]]
            for name, value in zip(names, metrics[1::2], strict=False):
                if name in METRICS and isinstance(value, int):
                    found.setdefault(METRICS[name], {})[slot] = (master.node_id, value)
    return found


def _slot_stats(master: LiveMaster) -> Iterator[Any]:
    """Slots with their metrics; some slots at once, since others wait while it answers."""
    for first in range(0, SLOT_COUNT, SLOTS_AT_ONCE):
        (reply,) = master.link.ask([("CLUSTER", "SLOT-STATS", "SLOTSRANGE", first, first + SLOTS_AT_ONCE - 1)])
        if not isinstance(reply, list):
            return
        yield from reply


def watch_counters(masters: Sequence[LiveMaster], seconds: float) -> list[CounterWindow]:
    """Poll SLOT-STATS twice, *seconds* apart, and return the counters of both polls."""
    first, start_ms = read_slot_stats(masters), time.time_ns() // 1_000_000
    time.sleep(seconds)
    last, end_ms = read_slot_stats(masters), time.time_ns() // 1_000_000
    return [
        CounterWindow(resource, start_ms, end_ms, first.get(resource, {}), last[resource])
        for resource in sorted(COUNTERS & last.keys())
    ]
