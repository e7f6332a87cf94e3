"""Measure load and health of a live cluster from one address, with paced read-only commands.

Every node is asked twice for its view and its INFO: growth of counters gives rates.  The keys of each master are measured
(`measuring`), at a replica with its data if there is one.  Only AUTH and the commands of `visits.ASKED`, `measuring.SENT`,
`measuring.ELEMENTS` and `SENT` are sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from cluster_core.incidents.symptoms import Checkup, Symptom, find_symptoms
from cluster_core.load.sampling import Part
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Topology
from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import slot_metrics
from slotscope.servers.measuring import jobs_of, measure_parts
from slotscope.servers.node_link import Access, Address, LinkError
from slotscope.servers.visits import Visit, in_turns, side_by_side, visited

SENT: Final = ("CLUSTER SLOT-STATS", "CLUSTER COUNTKEYSINSLOT")
SLOTS_AT_ONCE: Final = 256
"""Slots of one CLUSTER SLOT-STATS: its answer takes the server a tenth or two of a millisecond, that for all slots up to thirty."""


class SlotCount(NamedTuple):
    """Keys of a slot, its memory (Redis 8.4) and the processor time of its commands so far; None where the server does not count them."""

    keys: int
    memory_bytes: int | None = None
    cpu_usec: int | None = None


def count_slots(master: Visit, until_s: float) -> dict[int, SlotCount]:
    """Ask SLOT-STATS, or where it is not known or refused COUNTKEYSINSLOT of slot after slot until the monotonic clock shows *until_s*.

    Returns nothing for a loading or unreachable master.
    """
    slots = master.me.slots if master.me is not None else None
    if not slots or master.checkup.is_loading:
        return {}
    try:
        return slot_stats(master) or _key_counts(master, list(slots), until_s)
    except LinkError:
        return {}


def count_every_slot(master: Visit) -> dict[int, SlotCount]:
    """Count the keys of every slot of *master*, without a time limit; raises InputError for a slot without a count, LinkError for a lost connection."""
    slots = list(master.me.slots) if master.me is not None else []
    counts = slot_stats(master) or _key_counts(master, slots, math.inf)
    missing = next((slot for slot in slots if slot not in counts), None)
    if missing is None:
        return counts
    (reply,) = master.ask([("CLUSTER", "COUNTKEYSINSLOT", missing)])
    if isinstance(reply, RespError):
        reason = reply.text
    elif isinstance(reply, int):
        reason = "the first reply had no count; run this again"
    else:
        reason = "the reply is not a number"
    raise InputError(f"{master.address}: cannot count the keys of slot {missing}: {reason}")


def slot_stats(master: Visit) -> dict[int, SlotCount]:
    """The counts of SLOT-STATS for *master*, asked for some slots at a time because other clients wait meanwhile.

    Empty where the command is unknown or refused.  Raises LinkError.
    """
    metrics_by_slot: dict[int, dict[str, int]] = {}
    for begin, end in master.me.slots.ranges() if master.me is not None else ():
        for start in range(begin, end + 1, SLOTS_AT_ONCE):
            last = min(start + SLOTS_AT_ONCE - 1, end)
            (reply,) = master.ask([("CLUSTER", "SLOT-STATS", "SLOTSRANGE", start, last)])
            try:
                metrics_by_slot.update(slot_metrics(reply))
            except ValueError:
                return {}
    return {
        slot: SlotCount(counts.get("key-count", 0), counts.get("memory-bytes"), counts.get("cpu-usec"))
        for slot, counts in metrics_by_slot.items()
    }


def used_between(before: Mapping[int, SlotCount], now: Mapping[int, SlotCount]) -> dict[int, int]:
    """Processor time by slot (microseconds) of the commands between two counts; 0 where the server began to count anew."""
    return {
        slot: max(0, (now[slot].cpu_usec or 0) - (before[slot].cpu_usec or 0)) for slot in now.keys() & before.keys()
    }


def _key_counts(master: Visit, slots: Sequence[int], until_s: float) -> dict[int, SlotCount]:
    """Count slot by slot, in batches of the size that the link allows; slots with an error as reply are left out."""
    counts: dict[int, SlotCount] = {}
    start = 0
    while start < len(slots) and time.monotonic() < until_s:
        batch = slots[start : start + master.together]
        replies = master.ask([("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in batch])
        counts |= {slot: SlotCount(keys) for slot, keys in zip(batch, replies, strict=True) if isinstance(keys, int)}
        start += len(batch)
    return counts


COUNTING_SHARE: Final = 0.5
"""Share of the time for counting keys slot by slot, on servers without CLUSTER SLOT-STATS."""
CPU_WINDOW_SHARE: Final = 0.2
"""Share of the time for the CPU time of slots; no keys are measured then, since that would count, too."""
CPU_WINDOW_S_MAX: Final = 2.0
LOADING: Final = "it is loading"
WINDOW_S_MIN: Final = 1.0
"""Shortest window for rates."""


@dataclass(frozen=True, slots=True)
class Master:
    """One master: its own slots as it sees them (none outside a cluster), its counts in them, its sample of keys.

    *unsampled* is the reason for no sample; *cpu_usec* is the processor time of commands by slot before the sample.
    """

    checkup: Checkup
    keys: int
    slots: SlotSet
    counts: Mapping[int, SlotCount]
    cpu_usec: Mapping[int, int]
    parts: Sequence[Part]
    unsampled: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The results of *seconds*; *commands_per_s* of each node are over *window_s* and without ours, which *sent* counts."""

    checkups: Sequence[Checkup]
    masters: Sequence[Master]
    commands_per_s: Mapping[str, float]
    symptoms: Sequence[Symptom]
    window_s: float
    seconds: float
    rate: float | None
    sent: Mapping[str, int]

    @property
    def parts(self) -> list[Part]:
        """All sampled keys."""
        return [part for master in self.masters for part in master.parts]


def survey(first: Address, access: Access, *, seconds: float, rate: float | None) -> Survey:
    """Survey the cluster of *first*, or that server alone, for *seconds*, with at most *rate* commands a second to a node.

    Raises InputError if *first* cannot be asked.
    """
    started_s = time.monotonic()
    with visited(first, access, rate) as visits:
        owners = [visit for visit in visits if _holds_keys(visit)]
        ends_s = (started_s + seconds * COUNTING_SHARE, started_s + seconds)
        masters = _look_at(owners, visits, ends_s)
        time.sleep(max(0.0, max(visit.asked_s for visit in visits) + WINDOW_S_MIN - time.monotonic()))
        answering = [visit for visit in visits if visit.link is not None]
        rates = dict(side_by_side(lambda visit: (visit.checkup.address, _commands_per_s(visit)), answering))
        return Survey(
            [visit.checkup for visit in visits],
            masters,
            {address: rate for address, rate in rates.items() if rate is not None},
            find_symptoms([visit.checkup for visit in visits]),
            time.monotonic() - min(visit.asked_s for visit in answering),
            time.monotonic() - started_s,
            rate,
            {visit.checkup.address: visit.link.sent for visit in answering if visit.link is not None},
        )


def _holds_keys(visit: Visit) -> bool:
    """Whether it is a master with slots or keys, or a server in no cluster."""
    if visit.link is None:
        return False
    return visit.checkup.topology is None or (
        visit.me is not None and visit.me.is_master and bool(visit.me.slots or visit.databases)
    )


def _look_at(masters: Sequence[Visit], visits: Sequence[Visit], ends_s: tuple[float, float]) -> list[Master]:
    counted_until_s, until_s = ends_s
    counts = in_turns((master, partial(count_slots, master, counted_until_s)) for master in masters)
    timed = [(m, c) for m, c in zip(masters, counts, strict=True) if any(count.cpu_usec for count in c.values())]
    time.sleep(min(max(0.0, until_s - time.monotonic()) * CPU_WINDOW_SHARE, CPU_WINDOW_S_MAX) if timed else 0.0)
    later = in_turns((master, partial(count_slots, master, 0.0)) for master, _ in timed)
    cpu_usec = {
        master.address: {slot: spent for slot, spent in used_between(held, now).items() if spent}
        for (master, held), now in zip(timed, later, strict=True)
    }
    pairs = [(master, sampled) for master in masters if (sampled := sampled_of(master, visits)) is not None]
    jobs = jobs_of(pairs)
    results = in_turns((job.measured, partial(measure_parts, job, until_s, in_depth=True)) for job in jobs)
    by_address = {job.master.address: result for job, result in zip(jobs, results, strict=True)}
    measured = [by_address.get(master.address, ([], LOADING)) for master in masters]
    return [
        Master(
            master.checkup,
            sum(master.databases.values()),
            master.me.slots if master.me is not None else SlotSet(),
            {**_measured_counts(parts), **held},
            cpu_usec.get(master.address, {}),
            parts,
            unsampled,
        )
        for master, held, (parts, unsampled) in zip(masters, counts, measured, strict=True)
    ]


def _measured_counts(parts: Sequence[Part]) -> dict[int, SlotCount]:
    """Keys by slot where all of them were measured: a server without CLUSTER SLOT-STATS may not have counted all slots in time."""
    if not parts or not all(part.is_measured for part in parts):
        return {}
    counts: dict[int, SlotCount] = {}
    for part in parts:
        for slot, keys in (part.slot_keys or {}).items():
            counts[slot] = SlotCount(counts.get(slot, SlotCount(0)).keys + keys)
    return counts


def sampled_of(master: Visit, visits: Sequence[Visit]) -> Visit | None:
    """Return the node to ask for keys: a replica with the data, else the master; None while that is loading."""
    for visit in visits:
        me, checkup = visit.me, visit.checkup
        if (
            visit.link is not None
            and me is not None
            and master.me is not None
            and me.master_id == master.me.id
            and checkup.info.get("master_link_status") == "up"
            and not checkup.is_loading
        ):
            return visit
    return None if master.checkup.is_loading else master


def dump_sources(first: Address, access: Access, rate: float | None) -> tuple[list[Address], Topology | None]:
    """Return nodes with dumps of all keys of *first*'s cluster: a replica of each master, or the master without one; *first* outside a cluster.

    Raises InputError where a node cannot be asked.
    """
    with visited(first, access, rate) as visits:
        topology = visits[0].checkup.topology
        if topology is None:
            return [first], None
        for master in topology.masters():
            if master.slots and not any(visit.me is not None and visit.me.id == master.id for visit in visits):
                raise InputError(f"{master.address}: this master does not answer; its keys would be missing")
        chosen = [(visit, sampled_of(visit, visits)) for visit in visits if _holds_keys(visit)]
        loading = [str(master.address) for master, source in chosen if source is None]
        if loading:
            raise InputError(f"{loading[0]}: it is loading its data; retry later")
        return [source.address for _, source in chosen if source is not None], topology


def _commands_per_s(visit: Visit) -> float | None:
    """Commands a second since the visit; None where the node does not say, or counts from the start again."""
    at_s, sent, after = visit.info()
    window_s = at_s - visit.asked_s
    done = Checkup("", info=after).number("total_commands_processed") - visit.checkup.number("total_commands_processed")
    if "total_commands_processed" not in after or done < 0 or window_s <= 0:
        return None
    return max(done - sent, 0) / window_s
