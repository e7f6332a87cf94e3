"""What a live cluster shows of a plan that was carried out: owners, open slots, keys and bytes per slot, counters.

Nodes are visited as for a survey.  Only what `visits.ASKED` and `SENT` list is sent, and AUTH: nothing that writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cluster_core.formats.slot_stats import COUNTERS, METRICS
from cluster_core.rebalance.audit import CounterWindow, Measured, NodeView
from cluster_core.rebalance.execution.cluster_now import ClusterSight, sight_of
from cluster_core.topology.node import Topology
from slotscope.servers import slot_counts
from slotscope.servers.node_link import Access, Address
from slotscope.servers.visits import Visit, hold_all, topology_of, visited

SENT: Final = (*slot_counts.SENT, "CLUSTER GETKEYSINSLOT", "MEMORY USAGE", "DUMP")
"""Commands beside those of a visit; all of them only read."""
DUMP_BYTES_MAX: Final = 1 << 20
"""A larger value is not fetched: its size in a dump is taken from its memory."""
DUMP_FRAME_BYTES: Final = 10
"""DUMP adds version and checksum; a dump file does not."""


@dataclass(frozen=True, slots=True)
class LiveMaster:
    """A master that answered, with the keys that it holds in each of its slots."""

    visit: Visit
    node_id: str
    keys: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """Every node that the first one lists, each visited once."""

    visits: Sequence[Visit]

    @property
    def views(self) -> list[NodeView]:
        """What each node believes, or why it did not answer."""
        views = []
        for visit in self.visits:
            topology, me = visit.checkup.topology, visit.me
            if topology is None or me is None:
                views.append(NodeView(str(visit.address), lost=visit.checkup.lost or "it does not name itself"))
            else:
                open_slots = sorted({*me.migrating, *me.importing})
                views.append(NodeView(str(visit.address), owners_of(topology), open_slots))
        return views

    def sight(self) -> ClusterSight:
        """What the nodes believe, as an execution sees it."""
        return ClusterSight({me.id: sight_of(topology_of(visit)) for visit in self.visits if (me := visit.me)})

    def masters(self) -> list[LiveMaster]:
        """Count the keys of every slot on its owner."""
        owners = {me.id: visit for visit in self.visits if (me := visit.me) and me.slots}
        counts = hold_all((visit, slot_counts.count_every_slot(visit)) for visit in owners.values())
        return [
            LiveMaster(visit, node, {slot: count.keys for slot, count in held.items()})
            for (node, visit), held in zip(owners.items(), counts, strict=True)
        ]

    def left_behind(self, moved: Mapping[int, str]) -> dict[tuple[str, int], int]:
        """Count the keys of *moved* slots (slot to former owner) that the former owners still hold."""
        left = {}
        for source, visit in {me.id: visit for visit in self.visits if (me := visit.me)}.items():
            slots = [slot for slot, owner in moved.items() if owner == source]
            replies = visit.ask([("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots])
            left.update({(source, slot): _count(reply) for slot, reply in zip(slots, replies, strict=True)})
        return left


@contextmanager
def connected(first: Address, access: Access) -> Iterator[LiveCluster]:
    """Visit every node that *first* lists; InputError if *first* cannot be asked or a connection is lost later."""
    with visited(first, access, None) as visits:
        topology_of(visits[0])
        yield LiveCluster(visits)


def owners_of(topology: Topology) -> list[str]:
    """The id of each slot's owner, empty where it has none."""
    return [owner or "" for owner in topology.slot_map().owners()]


def _count(reply: object) -> int:
    return reply if isinstance(reply, int) and reply > 0 else 0


# -- bytes -------------------------------------------------------------------------------------------------------------


def measure_keys(masters: Sequence[LiveMaster]) -> Measured:
    """Keys of each master: the sum of the keys of its slots."""
    loads = {master.node_id: float(sum(master.keys.values())) for master in masters}
    return Measured("keys", loads, "COUNTKEYSINSLOT of every slot")


def measure_dataset(resource: str, masters: Sequence[LiveMaster]) -> Measured:
    """Memory of each master's data as INFO told it: without sampling, with what a server keeps around keys."""
    loads = {master.node_id: float(master.visit.checkup.number("used_memory_dataset")) for master in masters}
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
    ask = master.visit.ask
    replies = ask([("CLUSTER", "GETKEYSINSLOT", slot, min(master.keys[slot], sample)) for slot in slots])
    named = [(slot, key) for slot, keys in zip(slots, replies, strict=True) if isinstance(keys, list) for key in keys]
    memory = map(_count, ask([("MEMORY", "USAGE", key) for _, key in named]))
    held = [(slot, key, size) for (slot, key), size in zip(named, memory, strict=True) if size]
    sizes: dict[int, list[float]] = {slot: [] for slot in slots}
    fetched = [place for place in held if place[2] <= DUMP_BYTES_MAX]
    for slot, _, size in held:
        if size > DUMP_BYTES_MAX:
            sizes[slot].append(size)
    for (slot, key, _), reply in zip(fetched, ask([("DUMP", key) for _, key, _ in fetched]), strict=True):
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
    stats = hold_all((master.visit, slot_counts.slot_metrics_of(master.visit)) for master in masters)
    for master, by_slot in zip(masters, stats, strict=True):
        for slot, metrics in by_slot.items():
            for name in METRICS.keys() & metrics.keys():
                found.setdefault(METRICS[name], {})[slot] = (master.node_id, metrics[name])
    return found


def watch_counters(masters: Sequence[LiveMaster], seconds: float) -> list[CounterWindow]:
    """Poll SLOT-STATS twice, *seconds* apart, and return the counters of both polls."""
    first, start_ms = read_slot_stats(masters), time.time_ns() // 1_000_000
    time.sleep(seconds)
    last, end_ms = read_slot_stats(masters), time.time_ns() // 1_000_000
    return [
        CounterWindow(resource, start_ms, end_ms, first.get(resource, {}), last[resource])
        for resource in sorted(COUNTERS & last.keys())
    ]
