"""Service interruptions of masters, as intervals with uncertain ends: earliest and latest start and end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

BRIEF_NS: Final = 100_000_000
"""Service of a shard shorter than this does not split an outage, such as a new master that refuses again."""
POSSIBLE_NS: Final = 500_000_000
"""Possible service longer than this splits an outage: it would count as out of service for certain."""
VAGUE_NS: Final = 10_000_000_000
"""An uncertain start joins no interval that ended longer before the certain start: logs alone may bound it by hours."""
NEVER: Final = 1 << 62
"""A time after all evidence."""


class InterruptionReason(StrEnum):
    """Reason of an interruption."""

    DOWN = "down"
    """The process had ended, stalled or was loading data."""
    REFUSED = "refused"
    """The master replied CLUSTERDOWN (R106, R107)."""
    UNREACHED = "unreached"
    """Other nodes could not reach it; whether clients could is unknown."""


class Interval(NamedTuple):
    """*node* did not serve: start in *from_min_ns* to *from_max_ns*, end in *to_min_ns* to *to_max_ns* (None: open)."""

    node: str
    lack: InterruptionReason
    from_min_ns: int
    from_max_ns: int
    to_min_ns: int
    to_max_ns: int | None

    @property
    def shortest_ns(self) -> int:
        """Return the minimum duration."""
        return max(0, self.to_min_ns - self.from_max_ns)

    @property
    def longest_ns(self) -> int | None:
        """Return the maximum duration; None if the end is unknown."""
        return None if self.to_max_ns is None else self.to_max_ns - self.from_min_ns

    @property
    def near_ns(self) -> int:
        """Return the earliest start that may join an earlier interval."""
        return max(self.from_min_ns, self.from_max_ns - VAGUE_NS)

    def started_after(self, min_ns: int, max_ns: int) -> Interval:
        """Return the part after a time between *min_ns* and *max_ns*."""
        return self._replace(from_min_ns=max(self.from_min_ns, min_ns), from_max_ns=max(self.from_max_ns, max_ns))


def narrowed(interval: Interval, other: Interval) -> Interval:
    """Narrow an interval by a second source where they do not contradict."""
    low, high = max(interval.from_min_ns, other.from_min_ns), min(interval.from_max_ns, other.from_max_ns)
    begin = (low, high) if low <= high else (interval.from_min_ns, interval.from_max_ns)
    ends = [end for end in (interval.to_max_ns, other.to_max_ns) if end is not None]
    low, end_ns = max(interval.to_min_ns, other.to_min_ns), min(ends, default=None)
    end = (low, end_ns) if end_ns is None or low <= end_ns else (interval.to_min_ns, interval.to_max_ns)
    return interval._replace(from_min_ns=begin[0], from_max_ns=begin[1], to_min_ns=end[0], to_max_ns=end[1])


def joined(intervals: Iterable[Interval], gap_ns: int = 0) -> list[list[Interval]]:
    """Group intervals that overlap or are at most *gap_ns* apart, in time order."""
    groups: list[list[Interval]] = []
    until_ns = -1
    for interval in sorted(intervals, key=lambda interval: (interval.from_max_ns, interval.from_min_ns, interval.node)):
        if groups and interval.near_ns <= until_ns + gap_ns:
            groups[-1].append(interval)
        else:
            groups.append([interval])
            until_ns = -1
        until_ns = max(until_ns, NEVER if interval.to_max_ns is None else interval.to_max_ns)
    return groups


def contiguous(intervals: Iterable[Interval]) -> list[list[Interval]]:
    """Group a shard's intervals, in time order, if the later one may start (`Interval.near_ns`) before the earlier one ended."""
    groups: list[list[Interval]] = []
    for interval in sorted(intervals, key=lambda interval: (interval.from_max_ns, interval.from_min_ns, interval.node)):
        last = groups[-1] if groups else []
        if any(_may_join(interval, other) for other in last):
            last.append(interval)
            continue
        for at, other in enumerate(last):
            if other.to_max_ns is None or other.to_max_ns > interval.from_max_ns:
                last[at] = other._replace(to_max_ns=interval.from_max_ns)
        groups.append([interval])
    return groups


def _may_join(later: Interval, other: Interval) -> bool:
    """Return whether no certain service lies between two intervals, nor a long possible one after an exact end."""
    until_ns = other.to_max_ns
    is_exact = until_ns is not None and until_ns - other.to_min_ns <= BRIEF_NS
    has_served = is_exact and later.from_max_ns > other.to_min_ns + POSSIBLE_NS
    return not has_served and later.near_ns <= other.to_min_ns + BRIEF_NS


def last_end(ends: Iterable[int | None]) -> int | None:
    """Return the latest of *ends*, which are not empty; None if one is still open."""
    known = list(ends)
    return None if None in known else max(end for end in known if end is not None)


def union(group: Sequence[Interval]) -> Interval:
    """Merge a group of overlapping intervals."""
    first = group[0]
    return first._replace(
        from_min_ns=min(interval.from_min_ns for interval in group),
        from_max_ns=min(interval.from_max_ns for interval in group),
        to_min_ns=max(interval.to_min_ns for interval in group),
        to_max_ns=last_end(interval.to_max_ns for interval in group),
    )


def common(shards: Sequence[Sequence[Interval]]) -> list[Interval]:
    """Return the times in which all *shards* were without service, in order."""
    if not shards:
        return []
    overlaps = list(shards[0])
    for shard in shards[1:]:
        overlaps = [both for interval in overlaps for other in shard if (both := _both(interval, other)) is not None]
    return sorted(overlaps, key=lambda interval: interval.from_max_ns)


def _both(interval: Interval, other: Interval) -> Interval | None:
    """Return the certain overlap of two intervals; None if there may be none."""
    begin = max(interval.from_min_ns, other.from_min_ns), max(interval.from_max_ns, other.from_max_ns)
    ends = [end for end in (interval.to_max_ns, other.to_max_ns) if end is not None]
    low = min(interval.to_min_ns, other.to_min_ns)
    if begin[1] >= low:
        return None
    return interval._replace(
        from_min_ns=begin[0], from_max_ns=begin[1], to_min_ns=low, to_max_ns=min(ends, default=None)
    )
