"""Time-to-live buckets: each begins where the one before ends."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_core.kernels.keys.slot_tally import KeyTally
from cluster_core.load.key_use import TTL_LABELS, TTL_LIMITS_MS
from tests.builders.key_batches import key_batch

NOW_MS = 1_790_000_000_000


def ttl_bucket(expire_at_ms: int) -> int:
    """The bucket that a key of 7 bytes falls into."""
    tally = KeyTally()
    tally.set_time(NOW_MS)
    tally.add(key_batch([(b"k", 7, expire_at_ms)]))
    (bucket,) = np.flatnonzero(tally.ttl[:, 0])
    assert tally.ttl[bucket].tolist() == [1, 7]
    return int(bucket)


@pytest.mark.parametrize(("bucket", "limit_ms"), list(enumerate(TTL_LIMITS_MS, start=1)))
def test_a_bucket_ends_just_before_its_limit(bucket, limit_ms):
    assert ttl_bucket(NOW_MS + limit_ms - 1) == bucket
    assert ttl_bucket(NOW_MS + limit_ms) == bucket + 1


def test_never_and_the_far_past_have_buckets_of_their_own():
    assert TTL_LABELS[ttl_bucket(-1)] == "no expiry"
    assert TTL_LABELS[ttl_bucket(0)] == "already expired"
    assert TTL_LABELS[ttl_bucket(NOW_MS)] == "already expired"


def test_there_is_a_label_for_every_bucket():
    assert len(TTL_LABELS) == len(TTL_LIMITS_MS) + 2
    assert TTL_LABELS[ttl_bucket(1 << 62)] == TTL_LABELS[-1]
