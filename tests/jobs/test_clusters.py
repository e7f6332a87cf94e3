"""A standalone cluster: executors in processes of their own, with a Python that has never seen this project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.gold import NODE_LOAD
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.spark_cluster import make_python, standalone_cluster

pytestmark = [pytest.mark.slow, pytest.mark.processes]
PROJECT = Path(__file__).parents[2]
TASKS_MAX = 100
"""Of a key-slots of three small dumps."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


def key_slots(master: str, root: Path, data: Path, python: Path | str, *more: str) -> subprocess.CompletedProcess[str]:
    recorded = data / "valkey-9.1"
    command = [
        *(sys.executable, "-m", "jobs.main", "key-slots", "--root", str(root), "--snapshot", "before"),
        *("--rdb", str(recorded / "before"), "--topology", str(recorded / "topology" / "nodes.txt")),
        *("--master", master, "--conf", "spark.driver.host=127.0.0.1", *more),
    ]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": str(python)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_executors_with_the_dependencies_alone_give_the_same_tables_in_few_tasks(
    cluster, recorded_root, data, tmp_path
):
    python, root, events = make_python(tmp_path / "python"), tmp_path / "root", tmp_path / "events"
    events.mkdir()
    logged = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}

    done = key_slots(
        cluster, root, data, python, *(f"--conf=spark.eventLog.{name}={value}" for name, value in logged.items())
    )

    assert done.returncode == 0, done.stderr
    same = {"columns": ("node_id", "keys", "serialized_bytes"), "order_by": "node_id", "snapshot_id": "before"}
    assert read_rows(str(root), NODE_LOAD, **same) == read_rows(str(recorded_root), NODE_LOAD, **same)
    (log,) = events.iterdir()
    record = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    tasks = sum(event["Event"] == "SparkListenerTaskEnd" for event in record)
    assert 0 < tasks < TASKS_MAX


def test_executors_without_that_python_are_one_line_that_names_the_variable(cluster, data, tmp_path):
    done = key_slots(cluster, tmp_path / "root", data, "/no/such/python")

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "slotscope: executors have no Python at /no/such/python: set PYSPARK_PYTHON to the one that they have; "
        "docs/clusters.md lists the needs of executors"
    )


def test_a_python_that_lacks_a_package_is_one_line_that_names_it(cluster, data, tmp_path):
    python = make_python(tmp_path / "python")
    (numba,) = (tmp_path / "python").glob("lib/python*/site-packages/numba")
    numba.unlink()

    done = key_slots(cluster, tmp_path / "root", data, python)

    assert done.returncode == 2
    assert "slotscope: the executors' Python lacks numba: install it there" in done.stderr
