"""Which slots should move?

Reads a snapshot of the key distribution, and files about what slots do; writes gold/rebalance_plans, rebalance_moves, rebalance_load,
rebalance_slots, rebalance_tolerances, rebalance_heavy and silver/slot_activity; prints a summary and writes an HTML report.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from slotscope.requests.rebalance_plan import Request
from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Flag, Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.pipelines.rebalance_plan import MadePlan
    from slotscope.reports.keyspace.report import Warning

JOB = "rebalance-plan"
GAIN_MIN_IF_NEEDED = 0.005
"""A scheduled report leaves alone what would bring less than this of a fair share."""
Words = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=False)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The plan that was made and stored, and what to know before trusting it."""

    made: MadePlan
    warnings: list[Warning] = field(default_factory=list)

    @property
    def is_partial(self) -> bool:
        """Whether something of its inputs could not be read."""
        return bool(self.made.stored.unread)


def run(request: Request, spark: SparkSession | None = None, *, now_ms: int | None = None) -> Outcome:
    """Make the plan of *request* and write its tables; *spark* is needed where `Request.needs_spark` says so."""
    from slotscope.pipelines.rebalance_inputs import find_inputs
    from slotscope.pipelines.rebalance_plan import make_plan
    from slotscope.transforms.rebalance_rows import heavy_parts, write_plan
    from slotscope.transforms.unread_findings import find_partial
    from slotscope.transforms.watched_findings import find_not_balanced

    found = find_inputs(request, spark)
    made = make_plan(
        found.problem, found.nodes, snapshot_id=found.snapshot_id, schedule=found.schedule,
        created_at_ms=round(time.time() * 1000) if now_ms is None else now_ms, join_ranges=request.defragment,
        tolerances=found.tolerances, unread=found.unread, others=found.others, other_tolerance=found.other_tolerance,
    )  # fmt: skip
    made = made.created_first(_created_at_ms(request.root, made.stored.plan_id))
    found.write(request.root)
    parts = heavy_parts(request.root, found.snapshot_id, made.stored.plan.heavy)
    warnings = [
        *find_partial(found.unread),
        *found.warnings,
        *find_not_balanced(made.watched, list(found.problem.loads)),
    ]
    write_plan(request.root, made, parts=parts, bad_records=found.unread.whole.bad_records, warnings=warnings)
    return Outcome(made, warnings)


def _created_at_ms(root: str, plan_id: str) -> int | None:
    from slotscope.plans.stored_plans import plan_rows

    return next((round(r["created_at"].timestamp() * 1000) for r in plan_rows(root) if r["plan_id"] == plan_id), None)


def command(
    *,
    snapshot: Words = (),
    topology: str | None = None,
    slot_stats: Paths = (),
    monitor: Paths = (),
    counts: Paths = (),
    combine: Literal["last", "mean", "p95", "ewma"] = "last",
    smoothing: float = 0.3,
    window: float = 60.0,
    resources: Words = (),
    cost: str | None = None,
    tolerance: Words = (),
    placement: str | None = None,
    if_needed: Flag = False,
    gain_min: float | None = None,
    defragment: Flag = False,
    slot_cost: float | None = None,
    range_cost: float | None = None,
    seed: int | None = None,
    iterations: int = 0,
    compare_tolerances: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, show_default=False)] = None,
    jobs: int = 1,
    zone_jobs: int = 0,
    job_slots: int = 0,
    bytes_per_s: float | None = None,
    allow_partial: Flag = False,
    html: str | None = None,
    common: Common,
) -> int | None:
    """Plan which slots should move so that no master has too much, with the fewest bytes moved, and prove how near that is to the least.

    Nothing is changed in any cluster: slotscope execute-plan carries a plan out.  Ends with 13 where it is proven that the limits cannot
    be met together; the plan is then the best that was found under the least that has to give way.

    Parameters
    ----------
    snapshot
        Snapshots of key-slots whose weights count, oldest first. Default: current, unless --counts is given.
    topology
        CLUSTER NODES, nodes.conf, CLUSTER SHARDS or CLUSTER SLOTS output. Default: that of the newest snapshot.
    slot_stats
        Polls of CLUSTER SLOT-STATS: JSON lines that collect --slot-stats wrote, or single replies.
    monitor
        Logs of MONITOR.
    counts
        Lines SLOT COUNT, as COUNTKEYSINSLOT answered.
    combine
        How several windows, or snapshots, become one load.
    smoothing
        Weight of a new window for ewma.
    window
        Seconds of one window of MONITOR.
    resources
        What is balanced, all at once: serialized_bytes, memory_bytes, keys, ops, cpu_usec, network_bytes_in, network_bytes_out.
        Default: memory (else bytes), keys and operations, as far as they are known, and what has a capacity.
    cost
        Resource of which as little as possible moves. Default: bytes or memory, as is balanced, else keys.
    tolerance
        How far above its fair share a master may be: 0.02, 2%, or by resource: keys=0.05. Default: 0.02.
    placement
        TOML or JSON file with weights, capacities, zones, pinned slots, nodes that drain, join or are left out.
    if_needed
        End with 0 where nothing has to move, with 10 where there is a plan to carry out.
    gain_min
        Leave masters alone that are over by less than this share of a fair share. Default: 0, with --if-needed 0.005.
    defragment
        Also join slot ranges.
    slot_cost
        What one more moved slot weighs, in slots of mean size.
    range_cost
        What one more slot range weighs, in slots of mean size.
    seed
        Which way the search takes; the same seed gives the same plan.
    iterations
        Steps of the search. Default: by size.
    compare_tolerances
        Other tolerances to compare with; no value, or the word none: leave that out. Default: 0.01 0.02 0.05 0.1 0.2.
    jobs
        Moves at a time from one source, and to one target.
    zone_jobs
        Moves at a time into one zone. Default: no limit.
    job_slots
        Slots of one move. Default: no limit.
    bytes_per_s
        Speed of one move, for the estimated time. Default: 90e6.
    allow_partial
        Plan although some of the snapshot's inputs could not be read; the plan, and all that is done with it, says so. Ends with 3.
    html
        Where the HTML report goes. Default: ROOT/reports/plan-ID.html.
    """
    from slotscope.pipelines.rebalance_inputs import read_shares

    request = Request(
        root=common.root, snapshots=snapshot or (() if counts else ("current",)), topology=topology, slot_stats=slot_stats,
        monitor=monitor, counts=counts, combine=combine, smoothing=smoothing, window_s=window, resources=resources, cost=cost,
        tolerance=tolerance, placement=placement,
        gain_min=gain_min if gain_min is not None else GAIN_MIN_IF_NEEDED if if_needed else 0.0, defragment=defragment,
        slot_cost=slot_cost, range_cost=range_cost, seed=seed, iterations=iterations,
        tolerances=read_shares(compare_tolerances), jobs=jobs, zone_jobs=zone_jobs, job_slots=job_slots,
        bytes_per_s=bytes_per_s, permissive=common.mode == "permissive", allow_partial=allow_partial,
    )  # fmt: skip
    outcome = run(request, common.session(JOB) if request.needs_spark else None)
    from slotscope.reports.delivery import deliver_rebalance
    from slotscope.reports.rebalance.tables import load_rebalance_report

    plan = outcome.made.stored
    report = load_rebalance_report(common.root, plan.plan_id)
    deliver_rebalance(report, root=common.root, html=html, stream=sys.stdout)
    if outcome.is_partial:
        return cli.PARTIAL
    if plan.plan.conflicts:
        return cli.IMPOSSIBLE
    if not if_needed:
        return None
    if not plan.plan.moves:
        sys.stdout.write("nothing to do\n")
        return None
    return cli.NEW_PLAN


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
