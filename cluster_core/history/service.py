"""Service: when a master did not answer for its slots, as intervals whose ends are ranges.

Each kind of evidence shows less than the whole: a log has the moment of a process's end, polls have the last answer before it and
the first one after it.  An interval keeps the earliest and the latest time at which it can have begun and ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

BRIEF_NS: Final = 100_000_000
"""A shard that is served for less than this between two outages, such as a new master that refuses again, has one outage."""
NEVER: Final = 1 << 62
"""Later than all evidence."""


class Lack(StrEnum):
    """Why slots were not served."""

    DOWN = "down"
    """The process had ended, stood still or was loading its data."""
    REFUSED = "refused"
    """The master answered CLUSTERDOWN (R106, R107)."""
    UNREACHED = "unreached"
    """The other nodes did not reach it; nothing shows whether its clients did."""


class Interval(NamedTuple):
    """*node* did not serve its slots: it began between *from_min_ns* and *from_max_ns*, and ended between *to_min_ns* and *to_max_ns*.

    *to_max_ns* is None where the evidence ends first.
    """

    node: str
    lack: Lack
    from_min_ns: int
    from_max_ns: int
    to_min_ns: int
    to_max_ns: int | None

    @property
    def shortest_ns(self) -> int:
        """The least time that it lasted."""
        return max(0, self.to_min_ns - self.from_max_ns)

    @property
    def longest_ns(self) -> int | None:
        """The most time that it lasted; None where its end is not known."""
        return None if self.to_max_ns is None else self.to_max_ns - self.from_min_ns

    def begun_by(self, min_ns: int, max_ns: int) -> Interval:
        """The part after a time between *min_ns* and *max_ns*."""
        return self._replace(from_min_ns=max(self.from_min_ns, min_ns), from_max_ns=max(self.from_max_ns, max_ns))


def narrowed(one: Interval, other: Interval) -> Interval:
    """One interval that two sources show: the later of the earliest times, the earlier of the latest ones, where they do not contradict."""
    low, high = max(one.from_min_ns, other.from_min_ns), min(one.from_max_ns, other.from_max_ns)
    begin = (low, high) if low <= high else (one.from_min_ns, one.from_max_ns)
    ends = [end for end in (one.to_max_ns, other.to_max_ns) if end is not None]
    low, end_ns = max(one.to_min_ns, other.to_min_ns), min(ends, default=None)
    end = (low, end_ns) if end_ns is None or low <= end_ns else (one.to_min_ns, one.to_max_ns)
    return one._replace(from_min_ns=begin[0], from_max_ns=begin[1], to_min_ns=end[0], to_max_ns=end[1])


def joined(intervals: Iterable[Interval], gap_ns: int = 0) -> list[list[Interval]]:
    """Intervals that overlap or are *gap_ns* apart at most, together; in order of time."""
    groups: list[list[Interval]] = []
    until_ns = -1
    for one in sorted(intervals, key=lambda one: (one.from_max_ns, one.from_min_ns, one.node)):
        if groups and one.from_min_ns <= until_ns + gap_ns:
            groups[-1].append(one)
        else:
            groups.append([one])
            until_ns = -1
        until_ns = max(until_ns, NEVER if one.to_max_ns is None else one.to_max_ns)
    return groups


def contiguous(intervals: Iterable[Interval]) -> list[list[Interval]]:
    """Intervals of one shard, together where the later one may have begun when the earlier one had hardly ended; in order of time.

    Else they are two, and the earlier one had ended when the later one had begun.
    """
    groups: list[list[Interval]] = []
    for one in sorted(intervals, key=lambda one: (one.from_max_ns, one.from_min_ns, one.node)):
        last = groups[-1] if groups else []
        if any(one.from_min_ns <= other.to_min_ns + BRIEF_NS for other in last):
            last.append(one)
            continue
        for at, other in enumerate(last):
            if other.to_max_ns is None or other.to_max_ns > one.from_max_ns:
                last[at] = other._replace(to_max_ns=one.from_max_ns)
        groups.append([one])
    return groups


def union(group: Sequence[Interval]) -> Interval:
    """One interval for all of a group, each of which begins before the one before it ends."""
    first = group[0]
    ends = [one.to_max_ns for one in group]
    return first._replace(
        from_min_ns=min(one.from_min_ns for one in group),
        from_max_ns=min(one.from_max_ns for one in group),
        to_min_ns=max(one.to_min_ns for one in group),
        to_max_ns=None if None in ends else max(end for end in ends if end is not None),
    )


def common(shards: Sequence[Sequence[Interval]]) -> list[Interval]:
    """The times in which every one of *shards* was without service, in order."""
    if not shards:
        return []
    found = list(shards[0])
    for shard in shards[1:]:
        found = [both for one in found for other in shard if (both := _both(one, other)) is not None]
    return sorted(found, key=lambda one: one.from_max_ns)


def _both(one: Interval, other: Interval) -> Interval | None:
    """The time that two intervals have in common for certain; None if there may be none."""
    begin = max(one.from_min_ns, other.from_min_ns), max(one.from_max_ns, other.from_max_ns)
    ends = [end for end in (one.to_max_ns, other.to_max_ns) if end is not None]
    low = min(one.to_min_ns, other.to_min_ns)
    if begin[1] >= low:
        return None
    return one._replace(from_min_ns=begin[0], from_max_ns=begin[1], to_min_ns=low, to_max_ns=min(ends, default=None))
