"""Balance a live cluster from one address: measure, plan, dry run or move, audit; needs no dumps and no Spark."""

from __future__ import annotations

import sys

from slotscope.pipelines.rebalance.options import RebalanceOptions as Request
from slotscope.runtime import cli
from slotscope.runtime.failure import PROMISE_BROKEN


def command(cluster: str, /, *, request: Request = Request()) -> int:
    """Balance a live cluster: weigh its slots, plan which should move, show that, and with --apply do it and audit the result.

    Without --apply nothing is changed.  Weights are counts of keys, and memory as CLUSTER SLOT-STATS or MEMORY USAGE of all keys tells it.
    An unfinished plan is resumed.  Tables and page are those of `plan make`, `plan execute` and `plan audit`.
    Exit codes: 0 in place, nothing to do, or a dry run; 2 refused; 10 a plan to carry out (--if-needed); 11 in place and a promise broken;
    12 paused; 13 limits that cannot be met together.

    Parameters
    ----------
    cluster
        HOST:PORT of one node; it names the others
    """
    from rich.console import Console

    from cluster_core.rebalance.audit import LOAD, Finding, is_kept
    from slotscope.pipelines.rebalance.execution import tell
    from slotscope.pipelines.rebalance.live import carry_out_chosen, choose_plan
    from slotscope.reports.delivery import deliver
    from slotscope.reports.rebalance.execution import audit_document
    from slotscope.reports.rebalance.tables import load_rebalance_report
    from slotscope.reports.records import write_json
    from slotscope.reports.terminal import print_document

    stored, is_new = choose_plan(cluster, request)
    stream = None if request.json or not is_new else sys.stdout
    report = load_rebalance_report(request.root, stored.plan_id)
    report.asked = (cluster, *request.access.arguments())
    page = deliver(report, root=request.root, html=request.html, stream=stream)
    only_asked = request.if_needed and not request.apply
    executed = None
    findings: list[Finding] = []
    if stored.plan.moves and not only_asked:
        executed, findings = carry_out_chosen(cluster, request, stored)
    if request.json:
        dry_run = executed.dry_run if executed is not None else None
        write_json({"page": page, "report": report, "execution": dry_run, "audit": findings}, sys.stdout)
    elif not stored.plan.moves and not is_new:
        sys.stdout.write("nothing to do\n")
    elif findings:
        print_document(audit_document(stored, findings), Console(file=sys.stdout))
    if only_asked and stored.plan.moves:
        return cli.NEW_PLAN
    if executed is not None and executed.code != cli.OK:
        return executed.code
    if not is_kept(findings):
        loads = all(finding.aspect == LOAD for finding in findings if finding.kept is False)
        why = (
            "loads changed since the plan was made, or its estimates were off"
            if loads
            else "owners, open slots or keys left behind are not as planned"
        )
        tell(f"{why}: run this again for a new plan")
        return PROMISE_BROKEN
    return cli.IMPOSSIBLE if stored.plan.conflicts else cli.OK


if __name__ == "__main__":
    cli.main(command)
