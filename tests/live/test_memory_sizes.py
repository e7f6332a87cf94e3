"""Sizes in memory from a dump against the live server that wrote it, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_core.memory.model import MemorySettings
from tests.benches.servers import installed, redis_binary, running, running_cluster_node, valkey_binary
from tests.builders.memory_truth import KEY, MEMORY, TYPE, errors_of, fill, measured

RELOADED = {"enable_debug_command": "yes"}
UNCOMPRESSED_DUMP = {"list_compress_depth": 1, "rdbcompression": "no"}


@pytest.mark.parametrize(
    ("server", "cluster", "directives", "settings"),
    [
        pytest.param("redis", False, {}, MemorySettings(), id="redis"),
        pytest.param("valkey", False, {}, MemorySettings(), id="valkey"),
        pytest.param("redis", True, {}, MemorySettings(cluster=True), id="redis-cluster", marks=pytest.mark.slow),
        pytest.param("valkey", True, {}, MemorySettings(), id="valkey-cluster", marks=pytest.mark.slow),
        pytest.param(
            "redis", False, RELOADED, MemorySettings(loaded=True), id="redis-reloaded", marks=pytest.mark.slow
        ),
        pytest.param(
            "valkey", False, RELOADED, MemorySettings(loaded=True), id="valkey-reloaded", marks=pytest.mark.slow
        ),
        pytest.param("redis", False, UNCOMPRESSED_DUMP, MemorySettings(), id="redis-lzf-seen", marks=pytest.mark.slow),
    ],
)
def test_the_model_is_within_its_documented_error(
    server: str, cluster: bool, directives: dict[str, Any], settings: MemorySettings
):
    binary = installed(redis_binary() if server == "redis" else valkey_binary())
    with (running_cluster_node if cluster else running)(binary, save="", **directives) as live:
        dump, truth = fill(live, fields_expire=server == "valkey", reload=settings.loaded)
    rows = measured(dump, settings)
    errors = errors_of((row[MEMORY], truth[row[KEY]]) for row in rows)
    streams = errors_of((row[MEMORY], truth[row[KEY]]) for row in rows if row[TYPE] == "stream")
    lists = errors_of((row[MEMORY], truth[row[KEY]]) for row in rows if row[TYPE] == "list")

    assert len(rows) == len(truth)
    assert errors.total <= 0.01
    assert errors.median <= 0.01
    assert errors.p90 <= 0.05
    assert streams.total <= 0.05
    assert lists.total <= 0.01
