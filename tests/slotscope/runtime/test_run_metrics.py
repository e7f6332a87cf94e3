"""Figures of runs as a file for Prometheus."""

from __future__ import annotations

import urllib.request

import pytest

from schemas.bronze import BAD_RECORDS
from schemas.gold import NODE_LOAD
from slotscope.runtime.errors import InputError
from slotscope.runtime.run_metrics import metrics_writer, status_writer
from slotscope.runtime.storage.runs import observers, running
from tests.benches.servers import free_port

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")


@pytest.fixture(autouse=True)
def _nobody_hears_afterwards():
    yield
    observers.clear()


def figures_of(text: str) -> dict[tuple[str, ...], float]:
    """The samples of a file, by name, cluster and table."""
    samples = [sample for family in parser.text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, sample.labels["cluster"], sample.labels.get("table", "")): sample.value for sample in samples}


def test_each_cluster_has_the_figures_of_its_last_complete_run(tmp_path):
    path, root = tmp_path / "slotscope.prom", str(tmp_path / "root")
    observers[:] = [metrics_writer(str(path))]
    for cluster, rows in (("a", 1), ("b", 2), ("a", 3)):
        with running(root, "key-slots", cluster, cluster=cluster, inputs={"x.rdb": 40, "y.rdb": 2}) as run:
            run.append(NODE_LOAD, [{"node_id": str(number)} for number in range(rows)])
    before = path.read_text()
    with pytest.raises(OSError, match="lost"), running(root, "key-slots", "a", cluster="a"):
        raise OSError("lost")

    gauge = figures_of(before)
    assert path.read_text() == before
    assert gauge["slotscope_run_rows", "a", NODE_LOAD.name] == 3
    assert gauge["slotscope_run_rows", "b", NODE_LOAD.name] == 2
    assert gauge["slotscope_run_input_bytes", "a", ""] == 42
    assert gauge["slotscope_run_end_timestamp_seconds", "a", ""] > gauge["slotscope_run_end_timestamp_seconds", "b", ""]


def test_a_port_serves_runs_and_the_status_of_a_recorder(tmp_path):
    """Tables that the last run did not write have no rows; the time of the data shows how far behind it is."""
    port = free_port()
    observers[:] = [metrics_writer(str(port))]
    with running(str(tmp_path), "history", "a", cluster="a") as run:
        run.append(BAD_RECORDS, [{"job": "history"}])
    with running(str(tmp_path), "history", "a", cluster="a") as run:
        run.data_at = 5_000_000
        run.append(NODE_LOAD, [{"node_id": "m"}])

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        gauge = figures_of(answer.read().decode())

    assert gauge["slotscope_run_rows", "a", BAD_RECORDS.name] == 0
    assert gauge["slotscope_run_data_timestamp_seconds", "a", ""] == 5
    with pytest.raises(InputError, match="cannot listen on this port: Address already in use"):
        status_writer(str(port), "slotscope_record", {"cluster": "a"})


def test_a_recorder_publishes_its_status(tmp_path):
    path = tmp_path / "record.prom"
    publish = status_writer(str(path), "slotscope_record", {"cluster": "a", "point": "host"})

    publish({"gaps": 1})
    publish({"gaps": 2})

    assert figures_of(path.read_text()) == {("slotscope_record_gaps", "a", ""): 2}


def test_an_unwritable_file_is_reported_and_harmless(tmp_path):
    observers[:] = [metrics_writer(str(tmp_path / "none" / "slotscope.prom"))]

    refused = pytest.raises(InputError, match="the run is complete, its figures cannot be written: No such file")
    with refused, running(str(tmp_path / "root"), "key-slots", "a") as run:
        run.append(NODE_LOAD, [{"node_id": "m"}])

    assert run.is_closed
