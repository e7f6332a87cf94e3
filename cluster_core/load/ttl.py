"""Time-to-live buckets, counted from the clock of the dump so that a report does not change with the day it is read."""

from __future__ import annotations

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
