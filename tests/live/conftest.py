"""Hot clusters: so few keys that a measurement counts each, and hot tags on the first master."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.benches.clusters import Cluster
from tests.benches.moving_cluster import hot_cluster
from tests.benches.servers import redis_62_binary, redis_binary, valkey_binary

KEYS = 6_000


@pytest.fixture(scope="module")
def valkey() -> Iterator[Cluster]:
    """Four masters, and a replica that no plan names."""
    with hot_cluster(valkey_binary(), 4, KEYS, replicas=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def redis7() -> Iterator[Cluster]:
    """Three masters of Redis 7."""
    with hot_cluster(redis_binary(), 3, KEYS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def redis62() -> Iterator[Cluster]:
    """Three masters of Redis 6.2, and a replica."""
    with hot_cluster(redis_62_binary(), 3, KEYS, replicas=1) as cluster:
        yield cluster
