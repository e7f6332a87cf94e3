"""The time-to-live bucket of one key: what `cluster_core.kernels.keys.slot_tally` is compared with."""

from __future__ import annotations

from cluster_core.load.ttl import TTL_LABELS, TTL_LIMITS_MS


def ttl_bucket(expire_at_ms: int, taken_at_ms: int) -> int:
    """Return the bucket (an index of `TTL_LABELS`) of a key that expires at *expire_at_ms*, -1 meaning never."""
    if expire_at_ms < 0:
        return 0
    remaining_ms = expire_at_ms - taken_at_ms
    for bucket, limit_ms in enumerate(TTL_LIMITS_MS, start=1):
        if remaining_ms < limit_ms:
            return bucket
    return len(TTL_LABELS) - 1
