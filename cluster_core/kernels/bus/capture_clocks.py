"""Offset between the clocks of two capture points, measured by the TCP segments that both captured.

A segment that both points captured crossed both at nearly one time, so the difference of its two timestamps is the
offset, and its change over time is the drift.  An offset is positive where the clock of the second point is ahead.
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
KNOTS_MAX: Final = 64
COMMON_PER_KNOT: Final = 50
KNOT_NS_MIN: Final = 2_000_000_000
"""Resolution of a drift."""


class Offset(NamedTuple):
    """Offset of a clock, in ns: *ahead_ns* at the times *knots_ns* of that clock, linear between them.

    It was measured by *common* segments, within *spread_ns*; none of them if it comes from an earlier file of the same point.
    """

    knots_ns: tuple[int, ...] = (0,)
    ahead_ns: tuple[int, ...] = (0,)
    spread_ns: int = 0
    common: int = 0

    def corrected(self, ts_ns: Longs) -> Longs:
        """Times of this clock as times of the reference."""
        if len(self.ahead_ns) == 1:
            return ts_ns - self.ahead_ns[0]
        base, least = self.knots_ns[0], self.ahead_ns[0]
        knots = [knot - base for knot in self.knots_ns]
        more = np.interp(ts_ns - base, knots, [ahead - least for ahead in self.ahead_ns])
        return ts_ns - least - np.rint(more).astype(np.int64)

    def behind(self, other: Offset) -> Offset:
        """This offset, which is relative to a clock with the offset *other*, relative to the reference of *other*."""
        knots = np.array(self.knots_ns, dtype=np.int64)
        there = knots - np.array(self.ahead_ns, dtype=np.int64)
        ahead = knots - other.corrected(there)
        return self._replace(spread_ns=self.spread_ns + other.spread_ns, ahead_ns=tuple(ahead.tolist()))

    @property
    def drift_ns(self) -> int:
        """Change from the first knot to the last."""
        return self.ahead_ns[-1] - self.ahead_ns[0]


REFERENCE: Final = Offset()


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
    knots, values, spreads = [], [], []
    count = max(1, min(KNOTS_MAX, len(ahead) // COMMON_PER_KNOT, int(second_ns[-1] - second_ns[0]) // KNOT_NS_MIN))
    for part in np.array_split(np.arange(len(ahead)), count):
        middle = _middle(ahead[part], upward[part])
        near = np.abs(ahead[part] - middle) <= TOGETHER_NS
        if near.mean() < COMMON_SHARE:
            return None
        knots.append(int(np.median(second_ns[part])))
        values.append(middle)
        spreads.append(int(np.percentile(np.abs(ahead[part][near] - middle), 90)))
    return Offset(tuple(knots), tuple(values), max(spreads), len(ahead))


def _middle(ahead: Longs, upward: NDArray[np.bool_]) -> int:
    ways = [ahead[upward], ahead[~upward]]
    if min(map(len, ways)) < COMMON_MIN // 4:
        return int(np.median(ahead))
    return int(sum(int(np.median(way)) for way in ways) // 2)
