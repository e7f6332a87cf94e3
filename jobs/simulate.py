"""What if?  Runs simulated clusters over a grid of parameters and seeds; writes gold/simulated_runs, simulated_shards and simulated_quantiles."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slotscope.requests.simulate import Request
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cluster_core.sim.experiment.runs import Grid
    from slotscope.pipelines.simulation_start import Start
    from slotscope.reports.simulation.report import SimulationReport

BROKEN = 12
"""Exit code where a run broke an invariant of the protocol."""


def run(
    spark: SparkSession, grid: Grid, *, root: str, snapshot: str = "simulation", start: Start | None = None
) -> SimulationReport:
    """Run *grid*, write the tables of *snapshot*, and return what they say; raises InputError for what cannot be."""
    from cluster_core.sim.experiment.runs import TrialError, check_grid
    from cluster_core.sim.layouts import LayoutError
    from slotscope.pipelines.simulation import run_grid, write_runs
    from slotscope.pipelines.simulation_start import check_hits, starting_places
    from slotscope.reports.simulation.report import read_report
    from slotscope.runtime.progress import progress
    from slotscope.runtime.spark.session import how_far
    from slotscope.runtime.storage.runs import running

    if not snapshot:
        raise InputError("the simulation needs a name")
    try:
        check_grid(grid)
        places, words = starting_places(grid, root, start)
        check_hits(grid, places)
    except (TrialError, LayoutError) as error:
        raise InputError(str(error)) from error
    with progress("simulating", how_far(spark, "runs")), running(root, "simulate", snapshot) as job:
        write_runs(run_grid(spark, grid, places), grid, job)
    return read_report(root=root, snapshot=snapshot, start=words)


def command(request: Request = Request()) -> int:
    """Simulate failures of a cluster, as many as it takes to see how long they last.

    Every combination of the options with several values is a case; each runs with every seed, one Spark task a run. The
    nodes are whole state machines of the server version asked for. Exit code 12 if a run broke an invariant.
    """
    from slotscope.pipelines.simulation_start import grid_of, start_of
    from slotscope.reports.delivery import deliver

    start, grid = start_of(request), grid_of(request)
    report = run(request.session("simulate"), grid, root=request.root, snapshot=request.snapshot, start=start)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    return BROKEN if report.violations else cli.OK


if __name__ == "__main__":
    cli.main(command)
