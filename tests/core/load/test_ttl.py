"""Time-to-live buckets: each begins where the one before ends."""

from __future__ import annotations

import pytest

from cluster_core.load.ttl import TTL_LABELS, TTL_LIMITS_MS
from tests.reference.ttl import ttl_bucket

NOW_MS = 1_790_000_000_000


@pytest.mark.parametrize(("bucket", "limit_ms"), list(enumerate(TTL_LIMITS_MS, start=1)))
def test_a_bucket_ends_just_before_its_limit(bucket, limit_ms):
    assert ttl_bucket(NOW_MS + limit_ms - 1, NOW_MS) == bucket
    assert ttl_bucket(NOW_MS + limit_ms, NOW_MS) == bucket + 1


def test_never_and_the_far_past_have_buckets_of_their_own():
    assert TTL_LABELS[ttl_bucket(-1, NOW_MS)] == "no expiry"
    assert TTL_LABELS[ttl_bucket(0, NOW_MS)] == "already expired"
    assert TTL_LABELS[ttl_bucket(NOW_MS, NOW_MS)] == "already expired"


def test_there_is_a_label_for_every_bucket():
    assert len(TTL_LABELS) == len(TTL_LIMITS_MS) + 2
    assert TTL_LABELS[ttl_bucket(1 << 62, NOW_MS)] == TTL_LABELS[-1]
