"""Figures of runs as a file for Prometheus."""

from __future__ import annotations

import pytest

from schemas.gold import NODE_LOAD
from slotscope.runtime.errors import InputError
from slotscope.runtime.run_metrics import metrics_writer
from slotscope.runtime.storage.runs import observe_runs, running

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")


@pytest.fixture(autouse=True)
def _nobody_hears_afterwards():
    yield
    observe_runs()


def figures_of(text: str) -> dict[tuple[str, ...], float]:
    """The samples of a file, by name, cluster and table."""
    samples = [one for family in parser.text_string_to_metric_families(text) for one in family.samples]
    return {(one.name, one.labels["cluster"], one.labels.get("table", "")): one.value for one in samples}


def test_each_cluster_has_the_figures_of_its_last_complete_run(tmp_path):
    path, root = tmp_path / "slotscope.prom", str(tmp_path / "root")
    observe_runs(metrics_writer(str(path)))
    for cluster, rows in (("a", 1), ("b", 2), ("a", 3)):
        with running(root, "key-slots", cluster, cluster=cluster, inputs={"x.rdb": 40, "y.rdb": 2}) as run:
            run.append(NODE_LOAD, [{"node_id": str(number)} for number in range(rows)])
    before = path.read_text()
    with pytest.raises(OSError, match="lost"), running(root, "key-slots", "a", cluster="a"):
        raise OSError("lost")

    found = figures_of(before)
    assert path.read_text() == before
    assert found["slotscope_run_rows", "a", NODE_LOAD.name] == 3
    assert found["slotscope_run_rows", "b", NODE_LOAD.name] == 2
    assert found["slotscope_run_input_bytes", "a", ""] == 42
    assert found["slotscope_run_end_timestamp_seconds", "a", ""] > found["slotscope_run_end_timestamp_seconds", "b", ""]


def test_a_file_that_cannot_be_written_is_said_and_takes_nothing_away(tmp_path):
    observe_runs(metrics_writer(str(tmp_path / "none" / "slotscope.prom")))

    refused = pytest.raises(InputError, match="the run is complete, its figures cannot be written: No such file")
    with refused, running(str(tmp_path / "root"), "key-slots", "a") as run:
        run.append(NODE_LOAD, [{"node_id": "m"}])

    assert run.is_closed
