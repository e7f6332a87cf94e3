"""Estimate the node timeout T from traffic: a PING is due when the last pong is older than T/2 (R32).

The age of the last pong at every PING comes from received messages, gossip included (R44). Ages of due pings lie in one
tick above T/2, those of random pings (R31) below, so T/2 is the start of the last dense tick. With a long timeout and
few nodes, random pings keep all pongs young, and T is unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

TICK_MS: Final = 105
"""A cron period with its usual delay (R28)."""
ROUND_MS: Final = 100
AGES_MIN: Final = 20
SETTLED_AGES: Final = 10_000
SETTLED_NS: Final = 60_000_000_000
"""Ages, or time, after which the estimate is final."""
DUE_SHARE_MIN: Final = 0.2
"""Minimum share of pings within one tick of ages to count as due pings."""
DEFAULT_NODE_TIMEOUT_MS: Final = 15_000
"""The servers' default."""


def timeout_of(ages: list[int]) -> int | None:
    """Return the node timeout from *ages* of pongs at pings, rounded to 100 ms; None if unknown."""
    half_ms = due_age_ms(ages)
    return None if half_ms is None else max(ROUND_MS, round(2 * half_ms / ROUND_MS) * ROUND_MS)


def due_age_ms(ages: list[int]) -> int | None:
    """Return the start of the densest tick of ages; None if too few pings lie in it.

    >>> due_age_ms([1001 + i % 100 for i in range(200)])
    1001
    """
    if len(ages) < AGES_MIN:
        return None
    ordered = sorted(ages)
    best, best_count = 0, 0
    for age in ordered:
        count = bisect_right(ordered, age + TICK_MS) - bisect_left(ordered, age)
        if count > best_count:
            best, best_count = age, count
    return best if best_count >= DUE_SHARE_MIN * len(ordered) else None
