"""The job ``simulate``: a grid of runs to tables and a report."""

from __future__ import annotations

import random

import pytest

from cluster_core.sim.experiment.runs import Grid, Trial, run_trial
from jobs import simulate
from schemas.simulation import SIMULATED_QUANTILES, SIMULATED_RUNS, SIMULATED_SHARDS
from slotscope.pipelines.simulation import run_grid, write_runs
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import running
from tests.builders.stored_rows import without_run

GRID = Grid(
    Trial(node_timeout_ms=1000, clients=1, limit_s=20.0),
    seeds=2,
    axes={"profile": ("redis-7.0", "valkey-8.1"), "fault": ("crash", "zone")},
)


def rows_of(spark, table, root, snapshot):
    return without_run(read_rows(root, table, order_by=", ".join(table.key), **{table.named_by: snapshot}))


def test_runs_are_the_same_wherever_they_run(spark):
    """A run is its parameters and its seed: on Spark, one task each or all in one, as in this process."""
    one_each = {row["run"]: row for row in run_grid(spark, GRID).collect()}
    in_one = {row["run"]: row for row in run_grid(spark, GRID).coalesce(1).collect()}
    here = [run_trial(GRID.trial(number), random.Random) for number in range(GRID.runs)]

    assert one_each == in_one
    assert len(one_each) == 8
    assert [one_each[number]["elected_ms"] for number in range(8)] == [outcome.elected_ms for outcome in here]
    assert [one_each[number]["bus_bytes"] for number in range(8)] == [outcome.bus_bytes for outcome in here]


@pytest.fixture(scope="module")
def simulated(spark, tmp_path_factory):
    """The root of a simulation, and its report."""
    root = str(tmp_path_factory.mktemp("simulated"))
    return root, simulate.run(spark, GRID, root=root, snapshot="what if")


def test_a_simulation_writes_its_tables_once(spark, simulated):
    """Run twice, the tables hold one simulation; cases, quantiles and shards fit the runs."""
    root, report = simulated
    written = (SIMULATED_RUNS, SIMULATED_SHARDS, SIMULATED_QUANTILES)
    first = {table.name: rows_of(spark, table, root, "what if") for table in written}
    with running(root, "simulate", "what if") as again:
        write_runs(run_grid(spark, GRID), again)

    assert {table.name: rows_of(spark, table, root, "what if") for table in written} == first
    runs = first[SIMULATED_RUNS.name]
    assert [row["run"] for row in runs] == list(range(8))
    assert all(row["violations"] == 0 and row["shards_recovered"] == row["shards_hit"] for row in runs)
    quantiles = rows_of(spark, SIMULATED_QUANTILES, root, "what if")
    assert len(quantiles) == 4 * 7
    worst = {row["case"]: row["worst"] for row in quantiles if row["figure"] == "elected_ms"}
    assert worst == {case: max(row["elected_ms"] for row in runs if row["run"] // 2 == case) for case in range(4)}
    assert report.runs == 8
    assert [case.parameters["profile"] for case in report.cases] == [
        "redis-7.0",
        "redis-7.0",
        "valkey-8.1",
        "valkey-8.1",
    ]


def test_a_shard_without_replicas_gets_no_new_master(spark, tmp_path):
    """The table of shards names the reason."""
    grid = Grid(Trial(node_timeout_ms=1000, limit_s=5.0, replicas=0), seeds=2)

    report = simulate.run(spark, grid, root=str(tmp_path), snapshot="alone")
    shards = rows_of(spark, SIMULATED_SHARDS, str(tmp_path), "alone")

    assert [(row["elected_ms"], row["hindrance"]) for row in shards] == [(None, "no replica is left")] * 2
    assert report.verdict == "In none of 2 runs did every failed shard get a new master."


@pytest.mark.parametrize(
    ("grid", "text"),
    [
        (Grid(Trial(profile="redis-2.8")), "no profile"),
        (Grid(Trial(fault="meteor")), "no fault"),
        (Grid(Trial(hit="9")), "9 masters cannot fail"),
        (Grid(Trial(fault="zone", hit="Z9")), "no zone"),
        (Grid(Trial(shards=0)), "one master"),
        (Grid(Trial(shards=3000)), "more than 2000"),
        (Grid(seeds=0), "0 runs"),
        (Grid(Trial(node_timeout_ms=1)), "node timeout"),
    ],
)
def test_an_impossible_simulation_is_refused(grid, text):
    with pytest.raises(InputError, match=text):
        simulate.run(None, grid, root="unused")  # type: ignore[arg-type]
