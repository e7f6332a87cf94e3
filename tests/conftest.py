"""Fixtures that everything shares; nothing here starts a JVM or a server before a test asks for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.benches.servers import Server, redis_binary, running, running_cluster_node, valkey_binary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

DATA = Path(__file__).parent / "data"


NEEDS = {
    "spark": {"spark"},
    "servers": {"valkey_server", "redis_server", "valkey_cluster_node", "redis_cluster_node", "live"},
    "browser": {"chromium"},
}
"""Marks by the fixtures that a test asks for; a test that starts a JVM, a server or a browser by itself carries the mark in its file."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by what it needs, and keep the tests of the one Spark session in one process."""
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        for mark, fixtures in NEEDS.items():
            if asked & fixtures:
                item.add_marker(mark)
        if "live" in item.path.parts:
            item.add_marker("servers")
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of recorded files."""
    return DATA


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One session on two threads for all tests; it ends with Python."""
    from slotscope.runtime.session import spark_session

    return spark_session("tests", master="local[2]")


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """A standalone Valkey; its data is whatever the last test left."""
    with running(_installed(valkey_binary(), "valkey-server")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A standalone Redis; its data is whatever the last test left."""
    with running(_installed(redis_binary(), "redis-server")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_cluster_node() -> Iterator[Server]:
    """A Valkey cluster of one node, with all slots."""
    with running_cluster_node(_installed(valkey_binary(), "valkey-server")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster_node() -> Iterator[Server]:
    """A Redis cluster of one node, with all slots."""
    with running_cluster_node(_installed(redis_binary(), "redis-server")) as server:
        yield server


def _installed(binary: str | None, name: str) -> str:
    if binary is None:
        pytest.skip(f"{name} is not installed")
    return binary
