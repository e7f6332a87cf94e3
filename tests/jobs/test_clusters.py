"""A standalone cluster: executors in processes of their own, with a Python that has never seen this project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.gold import NODE_LOAD
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import REPOSITORY, Program
from tests.benches.spark_cluster import make_python, standalone_cluster
from tests.conftest import DATA

pytestmark = [pytest.mark.slow, pytest.mark.processes]
TASKS_MAX = 100
"""Of a key-slots of three small dumps."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


def key_slots(master: str, root: Path, python: Path | str, *more: str) -> tuple[int, str]:
    """Exit code and error stream."""
    recorded = DATA / "valkey-9.1"
    arguments = [
        *("key-slots", "--root", root, "--snapshot", "before", "--rdb", recorded / "before"),
        *("--topology", recorded / "topology" / "nodes.txt", "--master", master),
        *("--conf", "spark.driver.host=127.0.0.1", *more),
    ]
    with Program(*arguments, environment={"PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": str(python)}) as job:
        errors = job.messages(600)
    return job.returncode, errors


def test_executors_with_the_dependencies_alone_give_the_same_tables_in_few_tasks(cluster, recorded_root, tmp_path):
    python, root, events = make_python(tmp_path / "python"), tmp_path / "root", tmp_path / "events"
    events.mkdir()
    logged = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}

    code, errors = key_slots(
        cluster, root, python, *(f"--conf=spark.eventLog.{name}={value}" for name, value in logged.items())
    )

    assert code == 0, errors
    same = {"columns": ("node_id", "keys", "serialized_bytes"), "order_by": "node_id", "snapshot_id": "before"}
    assert read_rows(str(root), NODE_LOAD, **same) == read_rows(str(recorded_root), NODE_LOAD, **same)
    (log,) = events.iterdir()
    record = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    tasks = sum(event["Event"] == "SparkListenerTaskEnd" for event in record)
    assert 0 < tasks < TASKS_MAX


def test_executors_without_that_python_are_one_line_that_names_the_variable(cluster, tmp_path):
    code, errors = key_slots(cluster, tmp_path / "root", "/no/such/python")

    assert code == 2
    assert errors.splitlines()[-1] == (
        "slotscope: executors have no Python at /no/such/python: set PYSPARK_PYTHON to the one that they have; "
        "docs/clusters.md lists the needs of executors"
    )


def test_a_python_that_lacks_a_package_is_one_line_that_names_it(cluster, tmp_path):
    python = make_python(tmp_path / "python")
    (numba,) = (tmp_path / "python").glob("lib/python*/site-packages/numba")
    numba.unlink()

    code, errors = key_slots(cluster, tmp_path / "root", python)

    assert code == 2
    assert "slotscope: the executors' Python lacks numba: install it there" in errors
