"""How keys are used: accesses a second by LFU counters, and time to live.

Of hits on a key with counter c one in (c - 5) * ``lfu-log-factor`` + 1 counts (`LFULogIncr`), and a hit first takes one off for each whole
``lfu-decay-time`` of minutes since the hit before (`LFUDecrAndReturn`).  A counter stays where it is at the rate at which both are even,
hits being independent of each other.  It is read about half a step above that, since it rises between two losses, and its steps up are not as
large as those down: the rate that is said of it lies halfway between its own even rate and that of the counter below.  A counter up to 5, at which
new keys begin, rises with every hit: it only says that the rate is not above that of 5.
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
_RATE_MAX = 700.0  # hits a minute at which exp is still a number
_BISECTIONS = 60


class LfuSettings(NamedTuple):
    """``lfu-log-factor`` and ``lfu-decay-time`` (minutes; 0: counters never fall) of the servers."""

    log_factor: int = 10
    decay_minutes: int = 1

    @property
    def are_bounded(self) -> bool:
        """Whether a rate has an upper bound: counters of keys that are used every minute never fall where a loss takes two."""
        return self.decay_minutes == 1


@cache
def accesses_per_s(settings: LfuSettings) -> Sequence[float] | None:
    """Return the rate that makes keys have each counter, 0 to 255; None if counters never fall, which tells no rate.

    Counters up to `NEW_KEY_COUNTER` all have the rate that they are not above; 255 has the rate that it is not below.
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
    """Return the hits a minute at which a hit is as likely to count as it takes off.

    A server reads the time in whole minutes: of hits *rate* a minute one takes (e**rate - 1) / rate / (e**(rate * decay) - 1) off in the mean.
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
