"""Memory of each slot of a master from some of its keys, where no server counts it by slot.

Keys are drawn over all slots alike, so a slot has few draws and its own mean says little.  It is drawn towards the mean of all as far as
slots differ less than keys do (one-way random effects, Searle, Casella and McCulloch, Variance Components, 1992, section 3.6):

    mean(s) = (Σ of the draws in s + k · mean of all) / (draws in s + k)         k = variance in slots / variance between slots

A huge key says nothing of keys that were not drawn: where so large ones were drawn less than `HITS_MIN` times they count as they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cluster_core.load.sampling import HITS_MIN, Draw, Part, estimate_all, estimate_groups
from cluster_core.slots.key_slot import hash_tag, key_slot

HUGE: Final = 50
"""A key of so many times the mean is counted by itself."""
TRUSTED: Final = (0.8, 1.25)
"""Between these shares of the others' ratio a server's own figure for its data corrects the estimate; beyond, it counts other things."""
PARTS_OF_A_SLOT: Final = 10
DATASET_BYTES_MIN: Final = 64 << 20
"""Of less data, what a server keeps beside its keys is a part that is felt."""


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """Bytes by slot; *error* is the share by which their sum may be off (95 of 100 times), from *measured* of *keys* keys."""

    bytes_by_slot: Mapping[int, int]
    error: float
    measured: int
    keys: int

    @property
    def total(self) -> int:
        """Bytes of all slots."""
        return sum(self.bytes_by_slot.values())


def estimate_slot_memory(parts: Sequence[Part], keys_by_slot: Mapping[int, int]) -> SlotMemory:
    """Estimate the memory of each slot of a master from its *parts*."""
    sizes: dict[int, float] = dict.fromkeys(keys_by_slot, 0.0)
    others = dict(keys_by_slot)
    for part in parts:
        for slot, size in _counted(part).items():
            sizes[slot] = sizes.get(slot, 0.0) + size
        if not part.is_measured:
            for draw in part.large:
                place = key_slot(draw.key)
                others[place] = max(others.get(place, 0) - 1, 0)
    drawn = [draw for part in parts if not part.is_measured for draw in part.draws]
    if drawn:
        for slot, estimated in _estimated(drawn, others).items():
            sizes[slot] = sizes.get(slot, 0.0) + estimated
    whole = estimate_all(parts).memory_bytes
    keys = sum(keys_by_slot.values())
    return SlotMemory(
        {slot: round(size) for slot, size in sizes.items()},
        whole.error / whole.value if whole.value else 0.0,
        sum(part.keys if part.is_measured else len(part.large) + len(part.draws) for part in parts),
        keys,
    )


def _counted(part: Part) -> Mapping[int, int]:
    """Memory by slot of the keys that are not estimated."""
    if part.slot_bytes is not None:
        return part.slot_bytes
    sizes: dict[int, int] = {}
    for draw in part.draws if part.whole else part.large:
        slot = key_slot(draw.key)
        sizes[slot] = sizes.get(slot, 0) + draw.memory_bytes
    return sizes


class SlotPart(NamedTuple):
    """A hash tag with all its keys, or one key, in a slot; a hash tag that was sampled has estimated figures."""

    hash_tag: bytes | None
    key: bytes | None
    keys: int
    memory_bytes: int


def parts_of_slots(parts: Sequence[Part], slots: Collection[int]) -> dict[int, list[SlotPart]]:
    """The heaviest hash tags and keys of *slots*, the heaviest first, as far as their keys were measured."""

    def tags(draw: Draw) -> list[tuple[int, bytes]]:
        slot, tag = key_slot(draw.key), hash_tag(draw.key)
        return [(slot, tag)] if tag is not None and slot in slots else []

    found: dict[int, list[SlotPart]] = {slot: [] for slot in slots}
    for (slot, tag), group in estimate_groups(parts, tags).items():
        if group.hits > 1:
            found[slot].append(SlotPart(tag, None, round(group.keys.value), round(group.memory_bytes.value)))
    for part in parts:
        for draw in (*part.large, *part.draws):
            if (slot := key_slot(draw.key)) in slots:
                found[slot].append(SlotPart(hash_tag(draw.key), draw.key, 1, draw.memory_bytes))
    return {
        slot: heapq.nsmallest(PARTS_OF_A_SLOT, set(some), key=lambda part: (-part.memory_bytes, part.key or b""))
        for slot, some in found.items()
        if some
    }


def fit_shares(estimates: Sequence[SlotMemory], datasets: Sequence[int]) -> list[SlotMemory] | None:
    """Correct *estimates* so that masters hold the shares of all memory that their own figures for their data say (bytes, 0: not told).

    None where that cannot be: a figure is missing, small, or counts other things.
    """
    total, told = sum(one.total for one in estimates), sum(datasets)
    if not total or min(datasets) < DATASET_BYTES_MIN or all(one.measured >= one.keys for one in estimates):
        return None
    factors = [
        data * total / told / one.total if one.total else 1.0 for one, data in zip(estimates, datasets, strict=True)
    ]
    if not all(TRUSTED[0] <= factor <= TRUSTED[1] for factor in factors):
        return None
    return [
        replace(one, bytes_by_slot={slot: round(size * factor) for slot, size in one.bytes_by_slot.items()})
        for one, factor in zip(estimates, factors, strict=True)
    ]


def _estimated(drawn: Sequence[Draw], keys_by_slot: Mapping[int, int]) -> dict[int, float]:
    mean = sum(draw.memory_bytes for draw in drawn) / len(drawn)
    huge = {draw.key: draw.memory_bytes for draw in drawn if draw.memory_bytes > HUGE * mean}
    if len(huge) >= HITS_MIN:
        huge = {}
    by_slot: dict[int, list[int]] = {}
    for draw in drawn:
        if draw.key not in huge:
            by_slot.setdefault(key_slot(draw.key), []).append(draw.memory_bytes)
    sizes = _shrunk_means(by_slot, keys_by_slot)
    found = {slot: mean * keys_by_slot[slot] for slot, mean in sizes.items()}
    for key, size in huge.items():
        if (slot := key_slot(key)) in found:
            found[slot] += size - sizes[slot]
    return found


def _shrunk_means(by_slot: Mapping[int, Sequence[int]], slots: Iterable[int]) -> dict[int, float]:
    """The mean of each of *slots*, drawn towards that of all as far as slots are alike."""
    count = sum(map(len, by_slot.values()))
    if not count:
        return dict.fromkeys(slots, 0.0)
    mean = sum(map(sum, by_slot.values())) / count
    within = between = 0.0
    for values in by_slot.values():
        own = sum(values) / len(values)
        within += sum((value - own) ** 2 for value in values)
        between += len(values) * (own - mean) ** 2
    groups = len(by_slot)
    inside = within / (count - groups) if count > groups else 0.0
    even = (count - sum(len(values) ** 2 for values in by_slot.values()) / count) / max(groups - 1, 1)
    outside = max(0.0, (between / max(groups - 1, 1) - inside) / even) if even else 0.0
    if not outside:
        return dict.fromkeys(slots, mean)
    weight = inside / outside
    return {
        slot: (sum(by_slot.get(slot, ())) + weight * mean) / (len(by_slot.get(slot, ())) + weight)
        if weight or slot in by_slot
        else mean
        for slot in slots
    }
