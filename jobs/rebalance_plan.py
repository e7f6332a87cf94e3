"""Plan the moves of slots that balance a snapshot.

Reads a snapshot of key-slots and files with activity per slot; writes gold/rebalance_plans, rebalance_moves, rebalance_load,
rebalance_slots, rebalance_curve, rebalance_heavy and silver/slot_activity; prints a summary and writes an HTML report.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from slotscope.pipelines.rebalance.options import PlanningOptions as Request
from slotscope.runtime import cli

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.rows import Outcome


def run(request: Request, *, now_ms: int | None = None) -> Outcome:
    """Make the plan of *request* and write its tables."""
    from slotscope.pipelines.rebalance.inputs import find_inputs
    from slotscope.pipelines.rebalance.rows import store_plan

    return store_plan(request.root, find_inputs(request), join_ranges=request.defragment, now_ms=now_ms)


def command(request: Request = Request()) -> int | None:
    """Plan slot moves that keep every master within its limits with few bytes moved, and prove a lower bound of the bytes.

    Changes no cluster: slotscope plan execute applies a plan.  Exit code 13 if the limits provably contradict each other; the plan then
    keeps the smallest relaxed limits.
    """
    from slotscope.reports.delivery import deliver
    from slotscope.reports.rebalance.tables import load_rebalance_report

    if request.manifest is not None:
        return plan_fleet(request)
    outcome = run(request)
    plan = outcome.made.stored
    report = load_rebalance_report(request.root, plan.plan_id)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    if outcome.is_partial:
        return cli.PARTIAL
    if plan.plan.conflicts:
        return cli.IMPOSSIBLE
    return cli.NEW_PLAN if request.if_needed and plan.plan.moves else None


def plan_fleet(request: Request) -> int:
    """Make the plan of each cluster of a manifest; print those that need a move as text, or all as JSON lines."""
    from slotscope.pipelines.rebalance.fleet_plans import exit_code, plan_clusters, requests_of
    from slotscope.reports.delivery import deliver
    from slotscope.reports.rebalance.fleet import FleetPlansReport
    from slotscope.reports.records import json_text

    now_ms = time.time_ns() // 1_000_000
    asked = requests_of(request, lambda arguments: cli.read_options(Request, arguments))
    clusters = []
    for planned in plan_clusters(asked, now_ms):
        clusters.append(planned)
        if request.json:
            sys.stdout.write(json_text(planned) + "\n")
    report = FleetPlansReport(request.root, now_ms, clusters)
    deliver(report, root=request.root, html=None, stream=None if request.json else sys.stdout)
    return exit_code(report, if_needed=request.if_needed)


if __name__ == "__main__":
    cli.main(command)
