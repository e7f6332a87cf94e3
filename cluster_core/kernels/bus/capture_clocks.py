"""Offset between the clocks of two capture points, measured by the TCP segments that both captured.

A segment that both points captured crossed both at nearly one time, so the difference of its two timestamps is the
offset.  It is positive where the clock of the second point is ahead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.bus.containers import Longs, Segments

COMMON_MIN: Final = 20
"""Fewer common segments may be retransmissions."""
COMMON_SHARE: Final = 0.5
"""Share of the differences that must lie close together."""
TOGETHER_NS: Final = 20_000_000
"""How close: longer than packets wait in a network."""


class Offset(NamedTuple):
    """How far a clock is ahead, measured by *common* segments that agree within *spread_ns*."""

    ahead_ns: int
    spread_ns: int
    common: int


def common_times(first: Segments, second: Segments) -> tuple[Longs, Longs, NDArray[np.bool_]]:
    """When each point saw the segments that both saw, once each; and which way they went.  In order of the second."""
    one, two = _unique(first), _unique(second)
    _, at_one, at_two = np.intersect1d(first.mark[one], second.mark[two], assume_unique=True, return_indices=True)
    at_one, at_two = one[at_one], two[at_two]
    order = np.argsort(second.ts_ns[at_two], kind="stable")
    at_one, at_two = at_one[order], at_two[order]
    return first.ts_ns[at_one], second.ts_ns[at_two], second.upward[at_two]


def _unique(segments: Segments) -> NDArray[np.intp]:
    """Segments with payload, SYN or FIN that were seen once."""
    filled = np.flatnonzero(segments.has_data)
    _, at, counts = np.unique(segments.mark[filled], return_index=True, return_counts=True)
    alone: NDArray[np.intp] = filled[at[counts == 1]]
    return alone


def offset_of_copies(first_ns: Longs, second_ns: Longs, upward: NDArray[np.bool_]) -> Offset | None:
    """The offset from the times of segments that both points saw; None if they contradict each other.

    A segment takes time from one point to the other, in either direction, so the directions are measured separately and
    averaged.
    """
    ahead = second_ns - first_ns
    if len(ahead) < COMMON_MIN:
        return None
    middle = _middle(ahead, upward)
    near = np.abs(ahead - middle) <= TOGETHER_NS
    if near.mean() < COMMON_SHARE:
        return None
    return Offset(middle, int(np.percentile(np.abs(ahead[near] - middle), 90)), len(ahead))


def _middle(ahead: Longs, upward: NDArray[np.bool_]) -> int:
    ways = [ahead[upward], ahead[~upward]]
    if min(map(len, ways)) < COMMON_MIN // 4:
        return int(np.median(ahead))
    return int(sum(int(np.median(way)) for way in ways) // 2)
