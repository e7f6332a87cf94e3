"""What if?  Runs simulated clusters over a grid of parameters and seeds; writes gold/simulated_runs, simulated_shards and simulated_quantiles."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Paths
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cluster_core.sim.experiment.grid import Grid
    from cluster_core.sim.layouts import Place
    from slotscope.reports.simulation.report import SimulationReport

Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=1)]
Fractions = Annotated[tuple[float, ...], Parameter(consume_multiple=1)]
BROKEN = 12
"""Exit code where a run broke an invariant of the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A recorded cluster to start from: the view of *observer* in a replay at a time, and what is in which zone."""

    snapshot: str
    at: str | None = None
    observer: str = "all"
    zones: Sequence[str] = ()


def run(
    spark: SparkSession, grid: Grid, *, root: str, snapshot: str = "simulation", start: Start | None = None
) -> SimulationReport:
    """Run *grid*, write the tables of *snapshot*, and return what they say; raises InputError for what cannot be."""
    from cluster_core.sim.experiment.grid import check_grid
    from cluster_core.sim.experiment.runs import TrialError
    from cluster_core.sim.layouts import LayoutError
    from slotscope.pipelines.simulation import run_grid, runs_done, write_runs
    from slotscope.reports.simulation.report import read_report
    from slotscope.runtime.progress import progress

    if not snapshot:
        raise InputError("the simulation needs a name")
    try:
        check_grid(grid)
        places, words = _places(spark, grid, root, start)
        _check_hits(grid, places)
    except (TrialError, LayoutError) as error:
        raise InputError(str(error)) from error
    with progress("simulating", lambda: runs_done(spark, grid)):
        write_runs(run_grid(spark, grid, places), root, snapshot)
    return read_report(spark, root=root, snapshot=snapshot, start=words)


def _check_hits(grid: Grid, places: Sequence[Place]) -> None:
    """Refuse zones and numbers of masters that there are not, before anything runs."""
    from cluster_core.sim.experiment.runs import TrialError, layout_of
    from cluster_core.sim.layouts import names_of

    for case in range(grid.cases):
        trial = grid.trial(case * grid.seeds)
        zones = {place.zone for place in places} or {z for z in names_of(layout_of(trial)) if z.startswith("Z")}
        masters = sum(bool(place.slots) for place in places) or trial.shards
        if trial.hit.isdecimal() and trial.fault in ("crash", "power", "freeze") and int(trial.hit) > masters:
            raise TrialError(f"{trial.hit} masters cannot fail: there are {masters}")
        if trial.fault in ("zone", "partition") and not trial.hit.isdecimal() and trial.hit and trial.hit not in zones:
            raise TrialError(f"no zone {trial.hit!r}; there are {', '.join(sorted(zones))}")


def _places(spark: SparkSession, grid: Grid, root: str, start: Start | None) -> tuple[list[Place], str]:
    """The nodes to start with, none for clusters by layout, and where they come from in words."""
    if start is None:
        return [], "clusters made for it"
    from cluster_core.incidents.instants import write_instant
    from cluster_core.incidents.past_views import find_observer, view_at
    from cluster_core.sim.experiment.runs import settings_for
    from cluster_core.sim.recorded import recorded_places
    from jobs.nodes import rows_at
    from slotscope.reports.history.views import address_book

    at_ns = _start_ns(spark, root, start)
    rows = rows_at(spark, root=root, snapshot=start.snapshot, times_ns=[at_ns])
    book = address_book(rows)
    if not book:
        raise InputError(f"{root}: snapshot {start.snapshot!r} holds no view at {write_instant(at_ns)}")
    observer = min(book) if start.observer == "all" else find_observer(start.observer, book)
    places = recorded_places(view_at(rows, observer, at_ns), settings_for(grid.base), read_zones(start.zones))
    return places, f"from what {book[observer]} believed in {start.snapshot} at {write_instant(at_ns)}"


def _start_ns(spark: SparkSession, root: str, start: Start) -> int:
    """When the recorded cluster is taken: the last evidence if no time was given."""
    from cluster_core.incidents.instants import read_instant
    from schemas.history import REPLAYS
    from slotscope.runtime import tables

    if start.at is not None:
        try:
            return int(read_instant(start.at))
        except ValueError as error:
            raise InputError(str(error)) from error
    row = tables.read_snapshot(spark, REPLAYS, root, start.snapshot).first()
    if row is None:
        raise InputError(f"{root}: no finished replay {start.snapshot!r}; run the bus-replay job for it")
    return int(row["last_ns"] or 0)


def read_zones(given: Sequence[str]) -> dict[str, list[str]]:
    """``B=10.0.2.0/24,10.0.1.7:6379`` as zone and parts; raises InputError."""
    zones: dict[str, list[str]] = {}
    for text in given:
        name, equals, parts = text.partition("=")
        if not equals or not name or not parts:
            raise InputError(f"{text!r} is no zone of the form NAME=ADDRESS,NETWORK,…")
        zones.setdefault(name, []).extend(part for part in parts.split(",") if part)
    return zones


def command(
    *,
    snapshot: str = "simulation",
    seeds: int = 100,
    first_seed: int = 1,
    profile: Paths = ("valkey-9.1",),
    node_timeout_ms: Numbers = (15_000,),
    shards: Numbers = (3,),
    replicas: Numbers = (1,),
    zones: Numbers = (3,),
    validity_factor: Numbers = (10,),
    migration_barrier: Numbers = (1,),
    fault: Paths = ("crash",),
    hit: Paths = ("1",),
    delay_ms: Fractions = (0.25,),
    clients: int = 0,
    limit_s: float = 160.0,
    engine: str = "auto",
    from_snapshot: str | None = None,
    at: str | None = None,
    observer: str = "all",
    zone: Paths = (),
    html: str | None = None,
    common: Common,
) -> int:
    """Simulate failures of a cluster, as many as it takes to see how long they last.

    Every combination of the options with several values is a case; each runs with every seed, one Spark task a run. The
    nodes are whole state machines of the server version asked for. Exit code 12 if a run broke an invariant.

    Parameters
    ----------
    snapshot
        Name of these runs in the tables; the same name replaces them.
    seeds
        Runs of each case.
    first_seed
        The first seed; a run is its parameters and its seed.
    profile
        Server versions: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1.
    node_timeout_ms
        cluster-node-timeout.
    shards
        Masters with slots.
    replicas
        Replicas of each master.
    zones
        Zones over which the nodes are spread; a shard has its nodes in different ones.
    validity_factor
        cluster-replica-validity-factor.
    migration_barrier
        cluster-migration-barrier.
    fault
        crash (processes of masters are killed), power (their machines go), freeze (they are stopped), zone (all of a zone
        goes), partition (a zone is cut off), or none.
    hit
        How many masters the fault takes; for zone and partition the zone, or a number for one by chance.
    delay_ms
        Delay of the network, one way.
    clients
        Clients that write ten times a second each.
    limit_s
        A run ends so many virtual seconds after the fault at the latest.
    engine
        auto (compiled code where the cluster is large), fast or plain: how, never what comes of it.
    from_snapshot
        Start from the cluster that bus-replay recorded under this name, instead of shards, replicas and zones.
    at
        When: ISO 8601 (UTC unless it says otherwise). Default: the last evidence.
    observer
        Whose view: a node id, its beginning, or host:port.
    zone
        NAME=ADDRESSES: what is in a zone of a recorded cluster: ips, ip:port, networks, beginnings of ids.
    html
        Where to write the report. Default: ROOT/reports.
    """
    from cluster_core.sim.experiment.grid import Grid
    from cluster_core.sim.experiment.runs import Trial
    from slotscope.reports.delivery import deliver_simulation

    one = Trial(
        profile=profile[0],
        node_timeout_ms=node_timeout_ms[0],
        validity_factor=validity_factor[0],
        migration_barrier=migration_barrier[0],
        clients=clients,
        limit_s=limit_s,
        engine=engine,
    )
    if from_snapshot is not None and max(map(len, (profile, node_timeout_ms, validity_factor, migration_barrier))) > 1:
        raise InputError("a recorded cluster is simulated with one profile, node timeout, validity factor and barrier")
    if from_snapshot is None and (at is not None or zone or observer != "all"):
        raise InputError("--at, --observer and --zone belong to --from-snapshot")
    grid = Grid(
        one, seeds, first_seed, profile, node_timeout_ms, shards, replicas, zones, validity_factor, migration_barrier,
        fault, hit, delay_ms,
    )  # fmt: skip
    start = None
    if from_snapshot is not None:
        start = Start(snapshot=from_snapshot, at=at, observer=observer, zones=zone)
    report = run(common.session("simulate"), grid, root=common.root, snapshot=snapshot, start=start)
    deliver_simulation(report, root=common.root, html=html, stream=sys.stdout)
    return BROKEN if report.violations else cli.OK


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
