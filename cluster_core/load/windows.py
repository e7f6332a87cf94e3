"""Slot loads from several measurements, and from counters that restart when a slot moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cluster_core.errors import PlanError

COMBINATIONS = ("last", "mean", "p95", "ewma")
"""Ways to combine windows into one load."""


class CounterSample(NamedTuple):
    """One slot's counter at *owner*; it only grows while *owner* keeps the slot."""

    ts_ns: int
    owner: str
    value: int


class Growth(NamedTuple):
    """Growth of a slot's counter in the *seconds* before *ts_ns*; *restarted* if it restarted at 0."""

    ts_ns: int
    owner: str
    value: int
    seconds: float
    restarted: bool


def counter_deltas(readings: Iterable[CounterSample]) -> list[Growth]:
    """Return the growth of one slot's counter between *readings* in time order; PlanError for a negative counter.

    A counter that restarted (new owner, CONFIG RESETSTAT) grew by its new value, marked *restarted*.
    """
    held: dict[str, CounterSample] = {}
    last: CounterSample | None = None
    growths: list[Growth] = []
    for reading in readings:
        if reading.value < 0:
            raise PlanError(f"a counter on {reading.owner} is negative: {reading.value}")
        before = held.get(reading.owner)
        if last is not None:
            since = before or last
            seconds = max((reading.ts_ns - since.ts_ns) / 1e9, 0.0)
            restarted = before is None or reading.value < before.value or last.owner != reading.owner
            grown = reading.value if before is None or reading.value < before.value else reading.value - before.value
            growths.append(Growth(reading.ts_ns, reading.owner, grown, seconds, restarted))
        held[reading.owner] = last = reading
    return growths


def rates(growths: Sequence[Growth]) -> list[float]:
    """Return growth per second by window, or the growth itself without times; restarted windows count only if alone."""
    whole = [growth for growth in growths if not growth.restarted]
    return [growth.value / growth.seconds if growth.seconds else float(growth.value) for growth in whole or growths]


def combine(values: Sequence[float], how: str = "last", *, smoothing: float = 0.3) -> float:
    """Combine loads of several windows, oldest first, into one.

    ``last`` is the newest, ``mean`` the average, ``p95`` the nearest-rank 95th percentile, ``ewma`` the exponentially
    weighted mean with weight *smoothing* for a new window. Raises PlanError for no windows or an unknown *how*.
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
    """Return one load per slot from *windows*, oldest first; PlanError as in `combine`, or for unequal lengths."""
    for number, window in enumerate(windows):
        if len(window) != len(windows[0]):
            raise PlanError(f"window {number} has {len(window)} slots, the first {len(windows[0])}")
    if not windows:
        raise PlanError("there is no window to take loads from")
    return [combine(values, how, smoothing=smoothing) for values in zip(*windows, strict=True)]
