"""When a sentinel's timer ran: seen from what it sent, and guessed in between (S1).

What a sentinel sends of its own, it sends from its timer, which runs 10 to 19 times a second.  Where nothing was sent
for longer than a period the timer ran unseen, unless the process was stopped: one that lives sends a PING a second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from cluster_core.sentinel_history.evidence import Asked, Evidence, Linked, Sent, Told

PERIOD_NS: Final = 104_000_000
"""The longest period, with what a busy machine adds."""
SAME_NS: Final = 4_000_000
STOPPED_NS: Final = 1_600_000_000
"""A process that shows nothing for so long does not run: it sends a PING a second."""

QUIET_NS: Final = 12_000_000_000
"""So long after a line of a log the timer may still change something: opinions are forgotten after five seconds."""


class Ticks:
    """The times of one sentinel's timer, from all its evidence."""

    def __init__(self, evidence: Iterable[Evidence]) -> None:
        self._seen: list[int] = []
        self._has_traffic = False
        for item in evidence:
            self._has_traffic = self._has_traffic or isinstance(item, Sent)
            if isinstance(item, Linked | Sent | Told | Asked) and (
                not self._seen or item.ts_ns - self._seen[-1] > SAME_NS
            ):
                self._seen.append(item.ts_ns)

    def between(self, after_ns: int, to_ns: int) -> Iterator[int]:
        """Times of the timer after *after_ns* up to *to_ns*, in order."""
        at = bisect_right(self._seen, after_ns)
        last = after_ns
        while last < to_ns:
            is_seen = at < len(self._seen)
            following = self._seen[at] if is_seen else to_ns
            yield from self._unseen(last, following, to_ns)
            if following > to_ns or not is_seen:
                return
            yield following
            last, at = following, at + 1

    def _unseen(self, last: int, following: int, to_ns: int) -> Iterator[int]:
        """Times between two that were seen, evenly; of a log, which says nothing while nothing happens, a few only."""
        gap = following - last
        if gap > STOPPED_NS:
            if self._has_traffic:
                return
            gap = min(gap, QUIET_NS)
        step = gap // (gap // PERIOD_NS + 1)
        for turn in range(1, gap // PERIOD_NS + 1):
            if last + turn * step > to_ns:
                return
            yield last + turn * step

    def is_stopped(self, ts_ns: int) -> int | None:
        """When a process that does not run at *ts_ns* goes on; None if it runs."""
        at = bisect_right(self._seen, ts_ns)
        if self._has_traffic and 0 < at < len(self._seen) and self._seen[at] - self._seen[at - 1] > STOPPED_NS:
            return self._seen[at]
        return None
