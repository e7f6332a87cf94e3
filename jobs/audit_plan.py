"""Compare the promises of a plan with the live cluster; writes gold/plan_audits."""

from __future__ import annotations

import sys

from slotscope.pipelines.rebalance.options import AuditOptions as Request
from slotscope.runtime import cli
from slotscope.runtime.failure import PROMISE_BROKEN


def command(request: Request) -> int:
    """Compare the promises of a plan with the cluster after its moves.

    Checks owners on every node, open slots, leftover keys, and the heaviest master of each resource.  Sends read-only
    commands; writes gold/plan_audits.  Exit code 0: all promises kept; 11: one broken.
    """
    from rich.console import Console

    from cluster_core.rebalance.audit import is_kept
    from slotscope.pipelines.rebalance.audit import audit_plan
    from slotscope.reports.rebalance.execution import audit_document
    from slotscope.reports.records import write_json
    from slotscope.reports.terminal import print_document

    stored, findings = audit_plan(request)
    if request.json:
        write_json({"plan_id": stored.plan_id, "kept": is_kept(findings), "findings": findings}, sys.stdout)
    else:
        print_document(audit_document(stored, findings), Console(file=sys.stdout))
    return cli.OK if is_kept(findings) else PROMISE_BROKEN


if __name__ == "__main__":
    cli.main(command)
