"""Check the bound, the limits and the sums of a stored plan in exact arithmetic, from the tables alone."""

from __future__ import annotations

import sys

from slotscope.options import PlanOptions as Request
from slotscope.runtime import cli


def command(request: Request = Request()) -> int | None:
    """Verify bound, limits and sums of a stored plan in exact arithmetic, without the planner.

    Exit code 0 if all hold, else 1 and a line for each violation.
    """
    from cluster_core.rebalance.check import check_plan
    from slotscope.plans.stored_plans import compare_tables, read_stored_plan
    from slotscope.reports.rebalance.report import resource_label
    from slotscope.reports.records import print_records
    from slotscope.reports.unread import partial_lines
    from slotscope.runtime.progress import progress
    from slotscope.runtime.text import plural, printable

    stored = read_stored_plan(request.root, request.plan)
    with progress("checking"):
        wrong = [*compare_tables(request.root, stored), *check_plan(stored.problem, stored.plan)]
    stored_plan = stored.plan
    moved, least = stored_plan.moved // stored_plan.unit, -(-stored_plan.bound // stored_plan.unit)
    priced = len({*stored_plan.prices.masters, *stored_plan.prices.staying})
    result = {
        "plan_id": stored.plan_id,
        "holds": not wrong,
        "wrong": wrong,
        "partial": partial_lines(stored.unread),
        "verdict": stored_plan.verdict,
        "slots": len(stored_plan.moves),
        "cost": stored_plan.cost,
        "moved": moved,
        "bound": least,
        "priced": priced,
    }

    def lines() -> list[str]:
        if wrong:
            last = f"plan {stored.plan_id} does not hold: wrong claims: {len(wrong)}"
            return [*(f"wrong: {printable(line)}" for line in wrong), last]
        return [
            *partial_lines(stored.unread),
            f"plan {stored.plan_id} holds: {stored_plan.verdict}, {plural(len(stored_plan.moves), 'slot')}; {moved:,} {resource_label(stored_plan.cost)} move, "
            f"at least {least:,} must move{' to leave the headroom' if stored.has_headroom else ''}, proven by the prices of {plural(priced, 'master')}"
            + (f" and {plural(len(stored_plan.prices.zones), 'zone')}" if stored_plan.prices.zones else ""),
        ]

    print_records(result, lines, as_json=request.json, stream=sys.stdout)
    return cli.UNEXPECTED if wrong else None


if __name__ == "__main__":
    cli.main(command)
