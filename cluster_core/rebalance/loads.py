"""Loads of slots from several measurements, and from counters that start again when a slot moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cluster_core.errors import PlanError

COMBINATIONS = ("last", "mean", "p95", "ewma")


class SlotCounter(NamedTuple):
    """One slot in one answer to CLUSTER SLOT-STATS: a counter that only grows while *owner* keeps the slot."""

    poll: int
    slot: int
    owner: str
    value: int


class SlotDelta(NamedTuple):
    """How much a slot's counter grew from one poll to the next; *restarted* where it began again at 0."""

    poll: int
    slot: int
    owner: str
    value: int
    restarted: bool


def counter_deltas(counters: Iterable[SlotCounter]) -> list[SlotDelta]:
    """Return the growth per (slot, owner), in the order given, which is that of the polls.

    A slot that moved starts at 0 on its new owner (seen with atomic and key by key migration), and CONFIG RESETSTAT sets counters
    to 0: there the delta is the new value, marked as *restarted*.  The first poll of all gives none: it counts from the server's
    start.  Raises PlanError for a negative counter.
    """
    held: dict[int, SlotCounter] = {}
    first: int | None = None
    deltas: list[SlotDelta] = []
    for counter in counters:
        if counter.value < 0:
            raise PlanError(f"counter of slot {counter.slot} on {counter.owner} is negative: {counter.value}")
        first = counter.poll if first is None else first
        before = held.get(counter.slot)
        held[counter.slot] = counter
        if before is None:
            if counter.poll != first:
                deltas.append(SlotDelta(counter.poll, counter.slot, counter.owner, counter.value, True))
        elif before.owner != counter.owner or counter.value < before.value:
            deltas.append(SlotDelta(counter.poll, counter.slot, counter.owner, counter.value, True))
        else:
            deltas.append(SlotDelta(counter.poll, counter.slot, counter.owner, counter.value - before.value, False))
    return deltas


def combine_windows(windows: Sequence[Sequence[float]], how: str = "last", *, smoothing: float = 0.3) -> list[float]:
    """Return one load a slot from *windows*, oldest first, each one number a slot.

    ``last`` takes the newest, ``mean`` the average, ``p95`` the nearest-rank 95th percentile, ``ewma`` the exponentially weighted
    mean in which a new window counts *smoothing*.  Raises PlanError for no windows, windows of different lengths, unknown *how*.
    """
    if how not in COMBINATIONS:
        raise PlanError(f"windows combine by {', '.join(COMBINATIONS)}, not {how}")
    if not windows:
        raise PlanError("there is no window to take loads from")
    if not 0 < smoothing <= 1:
        raise PlanError(f"smoothing must be over 0 and at most 1, not {smoothing}")
    for number, window in enumerate(windows):
        if len(window) != len(windows[0]):
            raise PlanError(f"window {number} has {len(window)} slots, the first {len(windows[0])}")
    return [_combined(values, how, smoothing) for values in zip(*windows, strict=True)]


def _combined(values: Sequence[float], how: str, smoothing: float) -> float:
    if how == "last":
        return values[-1]
    if how == "mean":
        return sum(values) / len(values)
    if how == "p95":
        return sorted(values)[-(-95 * len(values) // 100) - 1]
    level = values[0]
    for value in values[1:]:
        level += smoothing * (value - level)
    return level


def merge_rates(deltas: Iterable[SlotDelta], slots: int, *, restarted: bool = False) -> Mapping[int, list[float]]:
    """Return per poll one load a slot; growth of slots that moved in between counts only with *restarted*."""
    merged: dict[int, list[float]] = {}
    for delta in deltas:
        if not 0 <= delta.slot < slots:
            raise PlanError(f"slot {delta.slot} is not in 0 to {slots - 1}")
        row = merged.setdefault(delta.poll, [0.0] * slots)
        if restarted or not delta.restarted:
            row[delta.slot] += delta.value
    return merged
