"""Which slots should move?

Reads a snapshot of the key distribution, and files about what slots do; writes gold/rebalance_plans, rebalance_moves, rebalance_load,
rebalance_slots, rebalance_tolerances, rebalance_heavy and silver/slot_activity; prints a summary and writes an HTML report.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slotscope.requests.rebalance_plan import Request
from slotscope.runtime import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from schemas.caveats import Caveat
    from slotscope.pipelines.rebalance_plan import MadePlan


@dataclass(frozen=True, slots=True)
class Outcome:
    """The plan that was made and stored, and what to know before trusting it."""

    made: MadePlan
    warnings: list[Caveat] = field(default_factory=list)

    @property
    def is_partial(self) -> bool:
        """Whether something of its inputs could not be read."""
        return bool(self.made.stored.unread)


def run(request: Request, spark: SparkSession | None = None, *, now_ms: int | None = None) -> Outcome:
    """Make the plan of *request* and write its tables; *spark* is needed where `Request.needs_spark` says so."""
    from slotscope.pipelines.rebalance_inputs import find_inputs
    from slotscope.pipelines.rebalance_plan import make_plan
    from slotscope.pipelines.rebalance_rows import heavy_parts, write_plan
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


def command(request: Request = Request()) -> int | None:
    """Plan which slots should move so that no master has too much, with the fewest bytes moved, and prove how near that is to the least.

    Nothing is changed in any cluster: slotscope execute-plan carries a plan out.  Ends with 13 where it is proven that the limits cannot
    be met together; the plan is then the best that was found under the least that has to give way.
    """
    from slotscope.reports.delivery import deliver
    from slotscope.reports.rebalance.tables import load_rebalance_report

    outcome = run(request, request.session("rebalance-plan") if request.needs_spark else None)
    plan = outcome.made.stored
    report = load_rebalance_report(request.root, plan.plan_id)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    if outcome.is_partial:
        return cli.PARTIAL
    if plan.plan.conflicts:
        return cli.IMPOSSIBLE
    if not request.if_needed:
        return None
    if not plan.plan.moves:
        if not request.json:
            sys.stdout.write("nothing to do\n")
        return None
    return cli.NEW_PLAN


if __name__ == "__main__":
    cli.main(command)
