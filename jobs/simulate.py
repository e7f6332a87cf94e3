"""Simulate failures over a grid of parameters and seeds; writes gold/simulated_runs, simulated_shards and simulated_quantiles."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slotscope.options import Common, Fractions, Html, Numbers, Texts, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cluster_core.sim.experiment.runs import Grid
    from slotscope.reports.simulation.report import SimulationReport


@options
class Request(Common):
    """Options of `slotscope simulate`."""

    snapshot: str = "simulation"
    """Name of the runs; existing ones are overwritten"""
    seeds: int = 100
    """Runs per case"""
    first_seed: int = 1
    """First seed"""
    profile: Texts = ("valkey-9.1",)
    """Server versions: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1"""
    node_timeout_ms: Numbers = (15_000,)
    """cluster-node-timeout in ms"""
    shards: Numbers = (3,)
    """Number of masters"""
    replicas: Numbers = (1,)
    """Replicas per master"""
    zones: Numbers = (3,)
    """Number of zones; nodes of a shard are in different ones"""
    validity_factor: Numbers = (10,)
    """cluster-replica-validity-factor"""
    migration_barrier: Numbers = (1,)
    """cluster-migration-barrier"""
    fault: Texts = ("crash",)
    """Faults: crash (processes end), power (hosts too), freeze (processes stop), zone (a zone fails), partition (a zone is cut off), none"""
    hit: Texts = ("1",)
    """Number of masters hit; for zone and partition a zone, or the number of random ones"""
    delay_ms: Fractions = (0.25,)
    """One-way network delay in ms"""
    clients: int = 0
    """Number of clients, each with ten writes per second"""
    limit_s: float = 160.0
    """Simulated seconds after the fault, at most"""
    html: Html = None


AXES = (
    "profile", "node_timeout_ms", "shards", "replicas", "zones", "validity_factor", "migration_barrier", "fault", "hit", "delay_ms",
)  # fmt: skip
"""Options with several values, the last varies fastest."""
BROKEN = 12
"""Exit code where a run broke an invariant of the protocol."""


def run(spark: SparkSession, grid: Grid, *, root: str, snapshot: str = "simulation") -> SimulationReport:
    """Run *grid*, write the tables of *snapshot*, and return their report; raises InputError for impossible cases."""
    from cluster_core.sim.experiment.runs import TrialError, check_grid
    from cluster_core.sim.layouts import LayoutError
    from slotscope.pipelines.simulation import run_grid, write_runs
    from slotscope.reports.simulation.report import read_report
    from slotscope.runtime.progress import progress
    from slotscope.runtime.spark.session import how_far
    from slotscope.runtime.storage.runs import running

    if not snapshot:
        raise InputError("--snapshot: must not be empty")
    try:
        check_grid(grid)
    except (TrialError, LayoutError) as error:
        raise InputError(str(error)) from error
    with progress("simulating", how_far(spark, "runs")), running(root, "simulate", snapshot) as job:
        write_runs(run_grid(spark, grid), job)
    return read_report(root=root, snapshot=snapshot)


def grid_of(request: Request) -> Grid:
    """Return every combination of the options with several values."""
    from cluster_core.sim.experiment.runs import Grid, Trial

    trial = Trial(clients=request.clients, limit_s=request.limit_s)
    return Grid(trial, request.seeds, request.first_seed, {name: getattr(request, name) for name in AXES})


def command(request: Request = Request()) -> int:
    """Simulate failures of a cluster and measure how long failovers take.

    Every combination of option values is a case and runs with every seed, one Spark task a run. The nodes are
    complete state machines of the chosen server version. Exit code 12 if a run broke an invariant.
    """
    from slotscope.reports.delivery import deliver

    report = run(request.session("simulate"), grid_of(request), root=request.root, snapshot=request.snapshot)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    return BROKEN if report.violations else cli.OK


if __name__ == "__main__":
    cli.main(command)
