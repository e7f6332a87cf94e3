"""The node timeout, read off the traffic: a PING is due when the last pong is older than half of it (R32).

The age of the last pong at every PING is taken from what the observer received, gossip included (R44).  Due pings have
ages in one tick above T/2, random ones (R31) below; so T/2 is where the last dense tick of ages begins.  With a long
timeout and few nodes random pings keep every pong young: nothing can be said then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

TICK_MS: Final = 105
"""A tick with its usual lateness (R28)."""
ROUND_MS: Final = 100
AGES_MIN: Final = 20
SETTLED_AGES: Final = 10_000
SETTLED_NS: Final = 60_000_000_000
"""After so many ages, or so much time, an estimate is not revised any more."""
DUE_SHARE_MIN: Final = 0.2
"""The share of pings that must lie in one tick of ages before they are taken for due ones."""
DEFAULT_NODE_TIMEOUT_MS: Final = 15_000
"""The servers' default (section 20 of the rules)."""


def timeout_of(ages: list[int]) -> int | None:
    """The node timeout that the *ages* of pongs at pings tell, rounded to 100 ms; None if they do not tell."""
    half_ms = due_age_ms(ages)
    return None if half_ms is None else max(ROUND_MS, round(2 * half_ms / ROUND_MS) * ROUND_MS)


def due_age_ms(ages: list[int]) -> int | None:
    """Where the densest tick of ages begins; None when too few pings lie in it.

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
