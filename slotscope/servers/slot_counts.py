"""Counts of a master by slot: keys, memory, CPU time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cluster_core.wire.resp import RespError
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import slot_metrics
from slotscope.servers.node_link import LinkError
from slotscope.servers.visits import Visit

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

    Returns nothing of a master that is loading or gone.
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
    """The counts of SLOT-STATS for *master*; empty where the command is unknown or refused.  Raises LinkError."""
    metrics = slot_metrics_of(master)
    return {
        slot: SlotCount(counts.get("key-count", 0), counts.get("memory-bytes"), counts.get("cpu-usec"))
        for slot, counts in metrics.items()
    }


def slot_metrics_of(master: Visit) -> dict[int, dict[str, int]]:
    """All metrics of SLOT-STATS by slot and name, some slots at once, since others wait while it answers."""
    metrics_by_slot: dict[int, dict[str, int]] = {}
    for begin, end in master.me.slots.ranges() if master.me is not None else ():
        for start in range(begin, end + 1, SLOTS_AT_ONCE):
            last = min(start + SLOTS_AT_ONCE - 1, end)
            (reply,) = master.ask([("CLUSTER", "SLOT-STATS", "SLOTSRANGE", start, last)])
            try:
                metrics_by_slot.update(slot_metrics(reply))
            except ValueError:
                return {}
    return metrics_by_slot


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
