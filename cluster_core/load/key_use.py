"""Key usage: accesses per second from LFU counters, and buckets of time to live.

A hit on a key with counter c increments it with probability 1 / ((c - 5) * ``lfu-log-factor`` + 1) (`LFULogIncr`), after
one decrement per ``lfu-decay-time`` minutes since the previous hit (`LFUDecrAndReturn`). A counter is stable at the rate
that balances both. The estimate is halfway between the balanced rates of this counter and the next lower one. Counters
up to 5, the initial value, give an upper bound only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import exp, expm1
from typing import NamedTuple

NEW_KEY_COUNTER = 5
"""``LFU_INIT_VAL``."""
COUNTERS = 256
SECONDS_A_MINUTE = 60
_RATE_MAX = 700.0  # maximum hits per minute for which exp is finite
_BISECTIONS = 60


class LfuSettings(NamedTuple):
    """``lfu-log-factor`` and ``lfu-decay-time`` (minutes; 0: no decay) of the servers."""

    log_factor: int = 10
    decay_minutes: int = 1

    @property
    def are_bounded(self) -> bool:
        """Return whether rates have an upper bound; with longer decay, counters of keys used each minute never fall."""
        return self.decay_minutes == 1


@cache
def accesses_per_s(settings: LfuSettings) -> Sequence[float] | None:
    """Return accesses per second for counters 0 to 255; None without decay, as counters then give no rate.

    The value for counters up to `NEW_KEY_COUNTER` is an upper bound, that for 255 a lower bound.
    """
    if settings.decay_minutes == 0:
        return None
    even = [
        _even_rate(1 / (above * settings.log_factor + 1), settings.decay_minutes) / SECONDS_A_MINUTE
        for above in range(COUNTERS - NEW_KEY_COUNTER)
    ]
    halfway = [(lower + higher) / 2 for lower, higher in pairwise(even)]
    return [*even[:1] * (NEW_KEY_COUNTER + 1), *halfway]


def _even_rate(chance: float, decay_minutes: int) -> float:
    """Return the hits per minute that balance increments and decrements, which servers count by whole minutes.

    At *rate* a hit decrements (e**rate - 1) / rate / (e**(rate * decay) - 1) times on average.
    """
    if decay_minutes == 1:
        return 1 / chance
    low, high = 0.0, _RATE_MAX / decay_minutes
    for _ in range(_BISECTIONS):
        rate = (low + high) / 2
        if expm1(rate) / rate * exp(-rate * decay_minutes) / -expm1(-rate * decay_minutes) > chance:
            low = rate
        else:
            high = rate
    return low


_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS

TTL_LIMITS_MS: tuple[int, ...] = (1, _MINUTE_MS, _HOUR_MS, _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS)
"""Upper bounds (exclusive) of buckets 1 to 6; bucket 0 holds the keys without expiry, bucket 7 the rest."""

TTL_LABELS: tuple[str, ...] = (
    "no expiry",
    "already expired",
    "under 1 min",
    "1 min to 1 h",
    "1 h to 1 d",
    "1 d to 7 d",
    "7 d to 30 d",
    "30 d and more",
)
