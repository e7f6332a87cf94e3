"""Estimate a key space from random keys, with errors.

Large keys found by other means are counted exactly. Each part of the key space (a database of a master) has *N* other
keys, and *n* draws with replacement (RANDOMKEY). For a group g and a weight y per key (1 for counts, bytes for memory):

    total = Σ N/n · Σ y over the draws in g         variance = Σ N²/n · s²

summed over parts; s² is the variance of the weights of a part's draws, 0 outside g (Cochran, Sampling Techniques, 3rd
edition 1977, sections 2.10 and 5.3). The error is 1.96 standard errors: a 95 % interval unless few keys dominate. Then
the estimate is marked *skewed* (section 2.15: 25 times the squared skewness of the weights against the draws in g). If
INFO bounds the memory of all keys, their range extends to that bound.

The mean of a slot is shrunk towards the mean of all (one-way random effects, Searle, Casella and McCulloch, Variance
Components, 1992, section 3.6):

    mean(s) = (Σ of the draws in s + k · mean of all) / (draws in s + k)         k = variance in slots / variance between slots

Huge keys drawn less than `HITS_MIN` times are counted as single keys.
"""

from __future__ import annotations

import heapq
import math
import re
from binascii import crc_hqx
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from cluster_core.slots.key_slot import SLOT_COUNT, hash_tag, key_slot

STANDARD_ERRORS: Final = 1.96
"""Half-width, in standard errors, of a 95 % interval of a normal total."""
PREFIX_BYTES_MAX: Final = 1024
"""Longer prefixes are not groups."""
SKEWED_MIN: Final = 2.0
"""Squared skewness below this occurs by chance in few draws of similar sizes."""
DRAWS_A_SKEWNESS: Final = 25
"""Draws required per unit of squared skewness for a valid interval."""
HITS_MIN: Final = 10
"""Fewer draws of a group make the error about as large as the estimate."""

G = TypeVar("G", bound=Hashable)
SlotSums = Mapping[int, Sequence[int]]
"""Number, bytes, and squares and cubes of bytes, of the keys of each slot."""


class SampledKey(NamedTuple):
    """A sampled key: bytes, LFU counter or idle time if available, and on request type and elements."""

    key: bytes
    memory_bytes: int
    frequency: int | None = None
    type: str = ""
    idle_s: int | None = None
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the key space; *whole* if *draws* are all of its keys, each once.

    *master*: address of the owning master; *sampled*: address of the sampled node. *large* keys are counted exactly, *draws*
    represent all others. *slot_bytes*, *slot_keys*: totals by slot if every key was measured, else None. *limits*: minimum
    and maximum bytes of all keys by INFO. If draws are many, *draws* is a random subset, *largest* has the largest, and
    *slot_draws* the sums of all by slot.
    """

    master: str
    sampled: str
    keys: int
    draws: Sequence[SampledKey]
    whole: bool = False
    large: Sequence[SampledKey] = ()
    slot_bytes: Mapping[int, int] | None = None
    slot_keys: Mapping[int, int] | None = None
    limits: tuple[float, float] | None = None
    largest: Sequence[SampledKey] = ()
    slot_draws: SlotSums | None = None

    @property
    def drawn(self) -> int:
        """Return the number of draws, including those not kept."""
        return len(self.draws) if self.slot_draws is None else sum(sums[0] for sums in self.slot_draws.values())

    @property
    def measured(self) -> int:
        """Return the number of measured keys; a key drawn twice counts twice."""
        return self.keys if self.is_measured else len(self.large) + self.drawn

    @property
    def represented(self) -> int:
        """Return the number of keys that *draws* represent."""
        return self.keys - len(self.large)

    @property
    def is_measured(self) -> bool:
        """Return whether every key was measured."""
        return self.whole or self.slot_bytes is not None


class Estimate(NamedTuple):
    """*value* with its 95 % error (0: exact); *skewed*: few keys dominate, so the range is exceeded more often."""

    value: float
    error: float
    skewed: bool = False

    def __add__(self, other: object) -> Estimate:
        """Add two independent estimates."""
        if not isinstance(other, Estimate):
            return NotImplemented
        return Estimate(self.value + other.value, math.hypot(self.error, other.error), self.skewed or other.skewed)


NOTHING: Final = Estimate(0.0, 0.0)


class GroupEstimate(NamedTuple):
    """Number and bytes of a group of keys, from *hits* draws."""

    keys: Estimate
    memory_bytes: Estimate
    hits: int


def estimate_groups(parts: Iterable[Part], groups_of: Callable[[SampledKey], Iterable[G]]) -> dict[G, GroupEstimate]:
    """Estimate each group; a draw may be in several groups, or none."""
    estimates: dict[G, GroupEstimate] = {}
    for part in parts:
        for group, sums in _sums(part.draws, groups_of).items():
            _add(estimates, group, _estimated_group(part, len(part.draws), sums))
        for group, (hits, size, _, _) in _sums(part.large, groups_of).items():
            _add(estimates, group, GroupEstimate(Estimate(float(hits), 0.0), Estimate(float(size), 0.0), hits))
    return estimates


def estimate_slots(parts: Iterable[Part]) -> dict[int, GroupEstimate]:
    """Estimate each slot with a measured key."""
    estimates: dict[int, GroupEstimate] = {}
    for part in parts:
        if part.slot_bytes is not None and part.slot_keys is not None:
            for slot, size in part.slot_bytes.items():
                count = part.slot_keys[slot]
                _add(estimates, slot, GroupEstimate(Estimate(float(count), 0.0), Estimate(float(size), 0.0), count))
            continue
        for slot, sums in (part.slot_draws or sums_by_slot(part.draws)).items():
            _add(estimates, slot, _estimated_group(part, part.drawn, sums))
        for slot, (hits, size, _, _) in sums_by_slot(part.large).items():
            _add(estimates, slot, GroupEstimate(Estimate(float(hits), 0.0), Estimate(float(size), 0.0), hits))
    return estimates


def sums_by_slot(draws: Iterable[SampledKey], sums: dict[int, list[int]] | None = None) -> dict[int, list[int]]:
    """Add *draws* to *sums*, or to none."""
    totals = {} if sums is None else sums
    for draw in draws:
        key, size = draw.key, draw.memory_bytes
        slot = key_slot(key) if b"{" in key else crc_hqx(key, 0) % SLOT_COUNT
        total = totals.get(slot)
        if total is None:
            total = totals[slot] = [0, 0, 0, 0]
        square = size * size
        total[0] += 1
        total[1] += size
        total[2] += square
        total[3] += square * size
    return totals


def _estimated_group(part: Part, draws: int, sums: Sequence[int]) -> GroupEstimate:
    """Estimate the group of *part* with *sums* in *draws* draws."""
    hits, size, squares, cubes = sums
    memory = _total(part, draws, size, squares)
    skewed = bool(memory.error) and is_skewed(hits, squares, cubes)
    return GroupEstimate(_total(part, draws, hits, hits), memory._replace(skewed=skewed), hits)


def _sums(draws: Iterable[SampledKey], groups_of: Callable[[SampledKey], Iterable[G]]) -> dict[G, list[int]]:
    """Return number, bytes, squares and cubes of the draws of each group."""
    sums: dict[G, list[int]] = {}
    for draw in draws:
        size = draw.memory_bytes
        for group in groups_of(draw):
            total = sums.get(group)
            if total is None:
                total = sums[group] = [0, 0, 0, 0]
            total[0] += 1
            total[1] += size
            total[2] += size * size
            total[3] += size * size * size
    return sums


def _add(estimates: dict[G, GroupEstimate], group: G, estimate: GroupEstimate) -> None:
    before = estimates.get(group)
    estimates[group] = estimate if before is None else _together(before, estimate)


def estimate_all(parts: Iterable[Part]) -> GroupEstimate:
    """Estimate all keys of *parts*: the number is exact, memory is estimated unless all were measured."""
    total = GroupEstimate(NOTHING, NOTHING, 0)
    for part in parts:
        if part.slot_bytes is not None:
            hits = len(part.draws) + len(part.large)
            estimate = GroupEstimate(
                Estimate(float(part.keys), 0.0), Estimate(float(sum(part.slot_bytes.values())), 0.0), hits
            )
        else:
            estimate = _estimate_part(part)
        total = _together(total, estimate)
    return total


def _estimate_part(part: Part) -> GroupEstimate:
    """Estimate all keys of *part* from its draws, within the limits of INFO."""
    if part.slot_draws is None:
        estimate = estimate_groups([part], lambda draw: ((),)).get((), GroupEstimate(NOTHING, NOTHING, 0))
    else:
        sums = [sum(column) for column in zip(*part.slot_draws.values(), strict=True)]
        size = sum(draw.memory_bytes for draw in part.large)
        large = GroupEstimate(Estimate(float(len(part.large)), 0.0), Estimate(float(size), 0.0), len(part.large))
        estimate = _together(_estimated_group(part, part.drawn, sums), large)
    return estimate._replace(memory_bytes=_within_limits(part, estimate.memory_bytes))


def _within_limits(part: Part, sampled: Estimate) -> Estimate:
    """Extend the range of *sampled* to the maximum of INFO, to cover keys that were not drawn."""
    if part.limits is None or not sampled.error:
        return sampled
    measured = float(sum(draw.memory_bytes for draw in part.large))
    least, most = max(part.limits[0], measured), max(part.limits[1], measured)
    low = least if sampled.skewed or sampled.value - sampled.error > most else max(least, sampled.value - sampled.error)
    value = min(max(sampled.value, least), (low + most) / 2)
    return Estimate(value, most - value)


BYTES_BESIDE_A_KEY: Final = 48
"""Upper bound of bytes per key, or per expiry, that MEMORY USAGE omits, half-empty tables included."""
BYTES_BESIDE_KEYS: Final = 2 << 20
"""Upper bound of a server's memory outside keys and all INFO figures."""
_OF_NO_KEY: Final = (
    "used_memory_startup", "mem_clients_normal", "mem_clients_slaves", "mem_replication_backlog", "mem_replicas_repl_buffer",
    "mem_cluster_links", "mem_aof_buffer", "used_memory_functions", "used_memory_scripts_eval",
)  # fmt: skip
"""INFO fields of memory outside keys."""
_EXPIRES = re.compile(r"expires=(\d{1,18})(?:,|$)")


def key_memory_limits(info: Mapping[str, str], keys: int) -> tuple[float, float] | None:
    """Return bounds of the total MEMORY USAGE of *keys* keys from INFO; None if it lacks the fields."""
    figures = {name: int(info[name]) for name in ("used_memory", *_OF_NO_KEY) if info.get(name, "").isdigit()}
    if "used_memory" not in figures or "used_memory_startup" not in figures:
        return None
    most = figures.pop("used_memory") - sum(figures.values())
    expires = sum(
        int(match[1]) for name, value in info.items() if name[:2] == "db" and (match := _EXPIRES.search(value))
    )
    least = most - BYTES_BESIDE_A_KEY * (keys + expires) - BYTES_BESIDE_KEYS
    return (float(max(least, 0)), float(most)) if most > 0 else None


def _together(estimate: GroupEstimate, other: GroupEstimate) -> GroupEstimate:
    return GroupEstimate(
        estimate.keys + other.keys, estimate.memory_bytes + other.memory_bytes, estimate.hits + other.hits
    )


def _total(part: Part, count: int, weights: int, squares: int) -> Estimate:
    """Estimate a group's total from sums of weights and squares over *count* draws; one draw has an error of its size."""
    if part.whole:
        return Estimate(float(weights), 0.0)
    total = part.represented * weights / count
    spread = (squares - weights * weights / count) / (count - 1) if count > 1 else float(squares)
    return Estimate(total, STANDARD_ERRORS * part.represented * math.sqrt(max(spread, 0.0) / count))


def is_skewed(hits: float, squares: float, cubes: float) -> bool:
    """Return whether few of *hits* draws dominate, so that the interval is invalid."""
    skewness = cubes**2 * hits / squares**3 if squares else 0.0
    return skewness > max(SKEWED_MIN, hits / DRAWS_A_SKEWNESS)


def biggest(parts: Iterable[Part], count: int) -> list[tuple[Part, SampledKey]]:
    """Return the *count* largest sampled keys, without duplicates, with their parts."""
    return _first(parts, count, lambda draw: draw.memory_bytes)


def most_used(parts: Iterable[Part], count: int) -> list[tuple[Part, SampledKey]]:
    """Return the *count* sampled keys with the highest LFU counters, without duplicates; empty without LFU."""
    return _first(parts, count, lambda draw: draw.frequency or 0)


def longest_idle(parts: Iterable[Part], count: int) -> list[tuple[Part, SampledKey]]:
    """Return the *count* longest idle sampled keys, without duplicates; empty without idle times."""
    return _first(parts, count, lambda draw: draw.idle_s or 0)


def _first(parts: Iterable[Part], count: int, weight: Callable[[SampledKey], int]) -> list[tuple[Part, SampledKey]]:
    draws: dict[tuple[int, bytes], tuple[Part, SampledKey]] = {}
    least = 1
    for part in parts:
        for draw in (*part.large, *part.largest, *part.draws):
            if weight(draw) >= least:
                draws[id(part), draw.key] = part, draw
                if len(draws) > FIRST_KEPT + count:
                    draws = dict(
                        heapq.nsmallest(count, draws.items(), key=lambda item: (-weight(item[1][1]), item[0][1]))
                    )
                    least = min(weight(draw) for _, draw in draws.values())
    return heapq.nsmallest(count, draws.values(), key=lambda item: (-weight(item[1]), item[1].key))


def chance_of_a_key(parts: Sequence[Part]) -> float:
    """Return the probability that a given key was drawn, in the least sampled part; 1 if all were."""
    return min((_chance(part) for part in parts if part.keys), default=1.0)


def _chance(part: Part) -> float:
    if part.is_measured or part.represented <= 1:
        return 1.0
    return -math.expm1(part.drawn * math.log1p(-1 / part.represented))


def prefixes(key: bytes, separators: bytes, depth_max: int) -> Iterator[bytes]:
    """Yield up to *depth_max* prefixes of *key* that end in one of *separators*."""
    depth = 0
    for index, byte in enumerate(key[:PREFIX_BYTES_MAX]):
        if byte in separators:
            depth += 1
            yield key[: index + 1]
            if depth == depth_max:
                return


def without_only_children(groups: dict[bytes, GroupEstimate]) -> dict[bytes, GroupEstimate]:
    """Drop prefixes with all draws in one longer prefix, which is more specific."""
    lengthened = {
        name[:end]
        for name, group in groups.items()
        for end in range(1, len(name))
        if (shorter := groups.get(name[:end])) is not None and shorter.hits == group.hits
    }
    return {name: group for name, group in groups.items() if name not in lengthened}


FIRST_KEPT: Final = 1000
"""Keys kept while the largest are searched, in addition to these."""
HUGE: Final = 50
"""Keys above this multiple of the mean are counted individually."""
TRUSTED: Final = (0.8, 1.25)
"""The server's own dataset size corrects the estimate if its ratio is in this range; else it counts other things."""
PARTS_OF_A_SLOT: Final = 10
DATASET_BYTES_MIN: Final = 64 << 20
"""With less data, memory outside keys distorts the server's dataset size."""


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """Bytes by slot; *error* is the relative 95 % error of the sum, from *measured* of *keys* keys."""

    bytes_by_slot: Mapping[int, int]
    error: float
    measured: int
    keys: int

    @property
    def total(self) -> int:
        """Return the bytes of all slots."""
        return sum(self.bytes_by_slot.values())


def estimate_slot_memory(parts: Sequence[Part], keys_by_slot: Mapping[int, int]) -> SlotMemory:
    """Estimate the memory of each slot of a master from its *parts*."""
    sizes: dict[int, float] = dict.fromkeys(keys_by_slot, 0.0)
    remaining = dict(keys_by_slot)
    for part in parts:
        for slot, size in _counted(part).items():
            sizes[slot] = sizes.get(slot, 0.0) + size
        if not part.is_measured:
            for draw in part.large:
                place = key_slot(draw.key)
                remaining[place] = max(remaining.get(place, 0) - 1, 0)
    sampled = [part for part in parts if not part.is_measured and part.draws]
    if sampled:
        for slot, estimated in _estimated(sampled, remaining).items():
            sizes[slot] = sizes.get(slot, 0.0) + estimated
    whole = estimate_all(parts).memory_bytes
    keys = sum(keys_by_slot.values())
    return SlotMemory(
        {slot: round(size) for slot, size in sizes.items()},
        whole.error / whole.value if whole.value else 0.0,
        sum(part.measured for part in parts),
        keys,
    )


def _counted(part: Part) -> Mapping[int, int]:
    """Return memory by slot of exactly counted keys."""
    if part.slot_bytes is not None:
        return part.slot_bytes
    sizes: dict[int, int] = {}
    for draw in part.draws if part.whole else part.large:
        slot = key_slot(draw.key)
        sizes[slot] = sizes.get(slot, 0) + draw.memory_bytes
    return sizes


class SlotPart(NamedTuple):
    """A hash tag with its keys, or one key, in a slot; figures of sampled tags are estimates."""

    hash_tag: bytes | None
    key: bytes | None
    keys: int
    memory_bytes: int


def parts_of_slots(parts: Sequence[Part], slots: Collection[int]) -> dict[int, list[SlotPart]]:
    """Return the hash tags and keys of *slots*, heaviest first, as far as measured."""

    def tags(draw: SampledKey) -> list[tuple[int, bytes]]:
        slot, tag = key_slot(draw.key), hash_tag(draw.key)
        return [(slot, tag)] if tag is not None and slot in slots else []

    parts_by_slot: dict[int, list[SlotPart]] = {slot: [] for slot in slots}
    for (slot, tag), group in estimate_groups(parts, tags).items():
        if group.hits > 1:
            parts_by_slot[slot].append(SlotPart(tag, None, round(group.keys.value), round(group.memory_bytes.value)))
    for part in parts:
        for draw in (*part.large, *part.draws):
            if (slot := key_slot(draw.key)) in slots:
                parts_by_slot[slot].append(SlotPart(hash_tag(draw.key), draw.key, 1, draw.memory_bytes))
    return {
        slot: heapq.nsmallest(PARTS_OF_A_SLOT, set(some), key=lambda part: (-part.memory_bytes, part.key or b""))
        for slot, some in parts_by_slot.items()
        if some
    }


def fit_shares(estimates: Sequence[SlotMemory], datasets: Sequence[int]) -> list[SlotMemory] | None:
    """Scale *estimates* to the masters' shares of *datasets* (bytes, 0: unknown); None if figures are unusable."""
    total, dataset_bytes = sum(estimate.total for estimate in estimates), sum(datasets)
    if (
        not total
        or min(datasets) < DATASET_BYTES_MIN
        or all(estimate.measured >= estimate.keys for estimate in estimates)
    ):
        return None
    factors = [
        data * total / dataset_bytes / estimate.total if estimate.total else 1.0
        for estimate, data in zip(estimates, datasets, strict=True)
    ]
    if not all(TRUSTED[0] <= factor <= TRUSTED[1] for factor in factors):
        return None
    return [
        replace(estimate, bytes_by_slot={slot: round(size * factor) for slot, size in estimate.bytes_by_slot.items()})
        for estimate, factor in zip(estimates, factors, strict=True)
    ]


def _estimated(parts: Sequence[Part], keys_by_slot: Mapping[int, int]) -> dict[int, float]:
    """Estimate memory by slot; fewer than `HITS_MIN` huge keys are counted individually."""
    sums: dict[int, list[int]] = {}
    for part in parts:
        for slot, added in (part.slot_draws or sums_by_slot(part.draws)).items():
            sums[slot] = [a + b for a, b in zip(sums.get(slot, (0, 0, 0, 0)), added, strict=True)]
    mean = sum(size for _, size, _, _ in sums.values()) / sum(hits for hits, _, _, _ in sums.values())
    candidates = [draw for part in parts for draw in (part.largest or part.draws) if draw.memory_bytes > HUGE * mean]
    huge = {draw.key: draw.memory_bytes for draw in candidates}
    if len(huge) >= HITS_MIN:
        huge, candidates = {}, []
    for slot, less in sums_by_slot(candidates).items():
        sums[slot] = [a - b for a, b in zip(sums[slot], less, strict=True)]
    sizes = _shrunk_means({slot: totals for slot, totals in sums.items() if totals[0]}, keys_by_slot)
    memory_by_slot = {slot: mean * keys_by_slot[slot] for slot, mean in sizes.items()}
    for key, size in huge.items():
        if (slot := key_slot(key)) in memory_by_slot:
            memory_by_slot[slot] += size - sizes[slot]
    return memory_by_slot


def _shrunk_means(sums: SlotSums, slots: Iterable[int]) -> dict[int, float]:
    """Return the mean of each of *slots*, shrunk towards the mean of all as far as slots are alike."""
    count = sum(hits for hits, _, _, _ in sums.values())
    if not count:
        return dict.fromkeys(slots, 0.0)
    mean = sum(size for _, size, _, _ in sums.values()) / count
    within = between = 0.0
    for hits, size, squares, _ in sums.values():
        within += max(squares - size * size / hits, 0.0)
        between += hits * (size / hits - mean) ** 2
    groups = len(sums)
    inside = within / (count - groups) if count > groups else 0.0
    even = (count - sum(hits**2 for hits, _, _, _ in sums.values()) / count) / max(groups - 1, 1)
    outside = max(0.0, (between / max(groups - 1, 1) - inside) / even) if even else 0.0
    if not outside:
        return dict.fromkeys(slots, mean)
    weight = inside / outside
    means = {}
    for slot in slots:
        hits, size, _, _ = sums.get(slot, (0, 0, 0, 0))
        means[slot] = (size + weight * mean) / (hits + weight) if weight or hits else mean
    return means
