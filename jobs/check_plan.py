"""Does a plan hold?  Bound, limits and sums of a stored plan once more, in exact arithmetic, from the tables alone; writes none."""

from __future__ import annotations

import sys

from slotscope.requests.check_plan import Request
from slotscope.runtime import cli


def command(request: Request = Request()) -> int | None:
    """Verify a plan without the program that made it: its bound, its limits and all its sums, in whole numbers and fractions.

    Ends with 0 if everything holds, with 1 and a line for each thing that does not.
    """
    from cluster_core.rebalance.bound.check import check_plan
    from slotscope.plans.stored_moves import compare_tables
    from slotscope.plans.stored_plans import read_stored_plan
    from slotscope.reports.unread import partial_lines
    from slotscope.runtime.progress import progress
    from slotscope.runtime.text import printable

    stored = read_stored_plan(request.root, request.plan)
    with progress("checking"):
        wrong = [*compare_tables(request.root, stored), *check_plan(stored.problem, stored.plan)]
    for line in wrong:
        sys.stdout.write(f"wrong: {printable(line)}\n")
    if wrong:
        sys.stdout.write(f"plan {stored.plan_id} does not hold: {len(wrong)} of its claims are wrong\n")
        return cli.UNEXPECTED
    found = stored.plan
    for line in partial_lines(stored.unread):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(
        f"plan {stored.plan_id} holds: {found.verdict}, {len(found.moves)} slots; {found.moved // found.unit} {found.cost} move, "
        f"at least {-(-found.bound // found.unit)} have to, proven by {len(found.certificates)} certificates\n"
    )
    return None


if __name__ == "__main__":
    cli.main(command)
