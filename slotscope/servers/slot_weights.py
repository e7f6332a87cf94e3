"""Measure the load of every slot of a live cluster from one address, with paced read-only commands.

Keys are counted slot by slot.  Memory comes from CLUSTER SLOT-STATS (Redis 8.4 started with ``cluster-slot-stats-enabled``),
else from keys measured as in `slotscope look`, at replicas where there are any.  Only commands of
`visits.ASKED`, `survey.SENT` and `measuring.SENT` are sent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from cluster_core.incidents.symptoms import Checkup
from cluster_core.load.sampling import Part, SlotMemory, estimate_slot_memory, fit_shares
from cluster_core.rebalance.execution.cluster_now import MigrationPath, fastest_path, read_server
from cluster_core.rebalance.execution.situation import HEADROOM
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Topology
from slotscope.runtime.errors import InputError
from slotscope.servers.measuring import MeasuringJob, jobs_of, measure_parts
from slotscope.servers.node_link import Access, Address
from slotscope.servers.survey import SlotCount, count_every_slot, sampled_of, slot_stats, used_between
from slotscope.servers.visits import Visit, in_turns, topology_of, visited


@dataclass(frozen=True, slots=True)
class SlotWeights:
    """Loads of all slots by resource, and the topology of the cluster.

    *memory* is the basis of estimates, without masters that count memory by slot, *fitted* if scaled to their data size;
    *limits* is the room of their servers.
    """

    topology: Topology
    loads: Mapping[str, Sequence[int]]
    memory: Sequence[SlotMemory]
    fitted: bool
    limits: MemoryLimits
    moves_by_jobs: bool
    """Whether all servers migrate whole slots by themselves; else keys are migrated one by one."""
    counted_masters: int = 0
    """Masters that report the memory of their slots."""
    parts: Sequence[Part] = ()
    """Number of measured keys."""
    all_keys_s: float | None = None
    """Estimated seconds for measuring all keys, after a sample."""

    @property
    def memory_error(self) -> float | None:
        """The 95 % error of a master's memory as a share; None where servers report it, or without a measurement."""
        errors = [0.0 if estimate.measured >= estimate.keys else estimate.error for estimate in self.memory]
        return None if self.counted_masters else max(errors, default=None)


def weigh_slots(
    first: Address, access: Access, *, seconds: float, rate: float | None, window_s: float = 0.0, memory: bool = True
) -> SlotWeights:
    """Weigh the slots of the cluster of *first*, measuring keys for some *seconds*, with at most *rate* commands a second to a node.

    Without *memory* keys are counted, and none is measured.  Processor time is measured over *window_s* (0: it is not).  Raises InputError
    for a master that does not answer, or disagrees about the owner of its slots, and for commands that the user may not send.
    """
    with visited(first, access, rate) as visits:
        topology, masters = _agreed(visits, first)
        counts = in_turns((master, partial(count_every_slot, master)) for master in masters)
        used = _cpu_usec(masters, counts, window_s)
        until_s = time.monotonic() + seconds
        uncounted = [
            (master, held)
            for master, held in zip(masters, counts, strict=True)
            if memory and any(count.memory_bytes is None for count in held.values())
        ]
        jobs = jobs_of([(master, _sampled(master, visits)) for master, _ in uncounted])
        measured = in_turns((job.measured, partial(_measured, job, until_s)) for job in jobs)
        estimates = [
            estimate_slot_memory(parts, {slot: count.keys for slot, count in held.items()})
            for parts, (_, held) in zip(measured, uncounted, strict=True)
        ]
    loads: dict[str, list[int]] = {
        name: [0] * SLOT_COUNT for name in (("memory_bytes", "keys") if memory else ("keys",))
    }
    if any(used):
        loads["cpu_usec"] = [0] * SLOT_COUNT
    datasets = [master.checkup.number("used_memory_dataset") for master in masters]
    fitted = fit_shares(estimates, datasets) if len(estimates) == len(masters) else None
    for counted in counts:
        for slot, count in counted.items():
            loads["keys"][slot] = count.keys
            if memory:
                loads["memory_bytes"][slot] = count.memory_bytes or 0
    for spent_by_slot in used:
        for slot, spent in spent_by_slot.items():
            loads["cpu_usec"][slot] = spent
    for estimate in fitted or estimates:
        for slot, size in estimate.bytes_by_slot.items():
            loads["memory_bytes"][slot] = size
    held: dict[str, int] = {}
    for master in masters:
        if master.me is not None and memory:
            held[master.me.id] = sum(loads["memory_bytes"][slot] for slot in master.me.slots)
    infos = {visit.me.id: visit.checkup.info for visit in visits if visit.me is not None and visit.me.is_master}
    return SlotWeights(
        _with_zones(topology, visits), loads, estimates, fitted is not None, memory_limits(infos, held), _moves_by_jobs(visits),
        len(masters) - len(estimates) if memory else 0, [part for parts in measured for part in parts],
        max((job.progress.all_keys_s for job in jobs), default=0.0) or None,
    )  # fmt: skip


def _with_zones(topology: Topology, visits: Sequence[Visit]) -> Topology:
    """*topology* with the zones in INFO (Valkey); CLUSTER NODES has none for clients."""
    zones = {
        visit.me.id: zone for visit in visits if visit.me and (zone := visit.checkup.info.get("availability_zone"))
    }
    nodes = (
        replace(node, aux={**node.aux, "availability-zone": zones[node.id]}) if node.id in zones else node
        for node in topology.nodes
    )
    return replace(topology, nodes=tuple(nodes))


def _moves_by_jobs(visits: Sequence[Visit]) -> bool:
    paths = {fastest_path(*read_server(visit.checkup.info)) for visit in visits if visit.checkup.info}
    return len(paths) <= 1 and MigrationPath.LEGACY not in paths


def _agreed(visits: Sequence[Visit], first: Address) -> tuple[Topology, list[Visit]]:
    """The view of the first node and the masters with slots; raises InputError if a master's own view differs."""
    topology = topology_of(visits[0])
    by_id = {visit.me.id: visit for visit in visits if visit.me is not None}
    masters = []
    for node in topology.masters():
        if not node.slots:
            continue
        visit = by_id.get(node.id)
        if visit is None or visit.me is None:
            why = next((v.checkup.lost for v in visits if str(v.address) == node.address), "") or "no answer"
            raise InputError(
                f"{node.address} ({node.id[:8]}) owns slots and does not answer: {why}; run this again when it is back or a replica has its slots"
            )
        if visit.me.slots != node.slots:
            differs = SlotSet([*(node.slots - visit.me.slots), *(visit.me.slots - node.slots)])
            raise InputError(
                f"{first} and {node.address} disagree on the owner of slots {differs}; run this again when they agree"
            )
        if node.migrating or node.importing or visit.me.migrating or visit.me.importing:
            slots = SlotSet([*visit.me.migrating, *visit.me.importing])
            raise InputError(
                f"{node.address}: slots {slots} are open: slotscope rebalance {first} --apply closes those that its unfinished plan opened, "
                "redis-cli --cluster fix any others"
            )
        masters.append(visit)
    return topology, masters


def _cpu_usec(
    masters: Sequence[Visit], counts: Sequence[Mapping[int, SlotCount]], window_s: float
) -> list[dict[int, int]]:
    """CPU time of the commands of each slot in *window_s*; nothing for masters that do not count it."""
    known = [
        (master, held)
        for master, held in zip(masters, counts, strict=True)
        if window_s and any(count.cpu_usec is not None for count in held.values())
    ]
    time.sleep(window_s if known else 0.0)
    later = in_turns((master, partial(slot_stats, master)) for master, _ in known)
    return [used_between(held, now) for (_, held), now in zip(known, later, strict=True)]


def _sampled(master: Visit, visits: Sequence[Visit]) -> Visit:
    """The node that is read for the keys of *master*."""
    sampled = sampled_of(master, visits)
    if sampled is None:
        raise InputError(f"{master.address}: it is loading its data; retry later")
    return sampled


def _measured(job: MeasuringJob, until_s: float) -> list[Part]:
    parts, why = measure_parts(job, until_s)
    if why:
        raise InputError(
            f"{job.measured.address}: keys cannot be measured: {why}; --resources keys balances by their number alone"
        )
    return parts


FULL: Final = 0.95
"""Share of maxmemory above which a server with an eviction policy counts as evicting."""
NO_EVICTION: Final = "noeviction"
MEMORY_FIELDS: Final = ("maxmemory", "used_memory", "maxmemory_policy")
"""Fields of INFO that capacities need."""


class MemoryLimits(NamedTuple):
    """By master: *capacity* in bytes of its slots' data; *evicting* are policies of those that stay within maxmemory by evicting keys."""

    capacity: Mapping[str, int]
    evicting: Mapping[str, str]


def memory_limits(infos: Mapping[str, Mapping[str, str]], held: Mapping[str, float]) -> MemoryLimits:
    """Return the bytes of data that masters have room for: *infos* are the fields of their INFO, *held* the bytes in their slots, by node id.

    A server may use `HEADROOM` of its maxmemory, as when slots move, and its memory besides data stays: *held* may grow by the
    rest.  A server that evicts keys is always full; that does not limit its slots.
    """
    capacity: dict[str, int] = {}
    evicting: dict[str, str] = {}
    for node, info in infos.items():
        checkup = Checkup(node, info=info)
        limit, used = checkup.number("maxmemory"), checkup.number("used_memory")
        if not limit:
            continue
        policy = info.get("maxmemory_policy", NO_EVICTION)
        if policy != NO_EVICTION and used >= FULL * limit:
            evicting[node] = policy
        else:
            capacity[node] = max(1, round(held.get(node, 0) + HEADROOM * limit - used))
    return MemoryLimits(capacity, evicting)
