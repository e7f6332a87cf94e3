"""Loads of slots from several measurements, and from counters that start again when a slot moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cluster_core.errors import PlanError

COMBINATIONS = ("last", "mean", "p95", "ewma")
"""Ways in which several windows become one load."""


class Reading(NamedTuple):
    """One slot's counter, which only grows while *owner* keeps the slot, as *owner* told it."""

    ts_ns: int
    owner: str
    value: int


class Growth(NamedTuple):
    """By how much a slot's counter grew in the *seconds* before *ts_ns*; *restarted* where it began again at 0."""

    ts_ns: int
    owner: str
    value: int
    seconds: float
    restarted: bool


def counter_deltas(readings: Iterable[Reading]) -> list[Growth]:
    """Return the growth of one slot's counter from reading to reading, which come in order of time.

    A slot that moved starts at 0 on its new owner (seen with atomic and key by key migration), and CONFIG RESETSTAT sets counters
    to 0: there the growth is the new value, marked as *restarted*, and what came between is lost.  The first reading of all gives
    none: it counts from the server's start.  Raises PlanError for a negative counter.
    """
    held: dict[str, Reading] = {}
    last: Reading | None = None
    found: list[Growth] = []
    for reading in readings:
        if reading.value < 0:
            raise PlanError(f"a counter on {reading.owner} is negative: {reading.value}")
        before = held.get(reading.owner)
        if last is not None:
            since = before or last
            seconds = max((reading.ts_ns - since.ts_ns) / 1e9, 0.0)
            restarted = before is None or reading.value < before.value or last.owner != reading.owner
            grown = reading.value if before is None or reading.value < before.value else reading.value - before.value
            found.append(Growth(reading.ts_ns, reading.owner, grown, seconds, restarted))
        held[reading.owner] = last = reading
    return found


def rates(growths: Sequence[Growth]) -> list[float]:
    """Return growth a second, window by window; windows in which the counter restarted count only where there is no other.

    Readings without times, or at one time, give the growth itself.
    """
    whole = [growth for growth in growths if not growth.restarted]
    return [growth.value / growth.seconds if growth.seconds else float(growth.value) for growth in whole or growths]


def combine(values: Sequence[float], how: str = "last", *, smoothing: float = 0.3) -> float:
    """Return one load from those of several windows, oldest first.

    ``last`` takes the newest, ``mean`` the average, ``p95`` the nearest-rank 95th percentile, ``ewma`` the exponentially weighted
    mean in which a new window counts *smoothing*.  Raises PlanError for no windows and for an unknown *how*.
    """
    if how not in COMBINATIONS:
        raise PlanError(f"windows combine by {', '.join(COMBINATIONS)}, not {how}")
    if not values:
        raise PlanError("there is no window to take loads from")
    if not 0 < smoothing <= 1:
        raise PlanError(f"smoothing must be over 0 and at most 1, not {smoothing}")
    if how == "last":
        return values[-1]
    if how == "mean":
        return sum(values) / len(values)
    if how == "p95":
        return sorted(values)[-(-95 * len(values) // 100) - 1]
    level = float(values[0])
    for value in values[1:]:
        level += smoothing * (value - level)
    return level


def combine_windows(windows: Sequence[Sequence[float]], how: str = "last", *, smoothing: float = 0.3) -> list[float]:
    """Return one load a slot from *windows*, oldest first, each one number a slot; PlanError as `combine`, and for unequal ones."""
    for number, window in enumerate(windows):
        if len(window) != len(windows[0]):
            raise PlanError(f"window {number} has {len(window)} slots, the first {len(windows[0])}")
    if not windows:
        raise PlanError("there is no window to take loads from")
    return [combine(values, how, smoothing=smoothing) for values in zip(*windows, strict=True)]
