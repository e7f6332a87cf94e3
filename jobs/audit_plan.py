"""Did a plan keep its promise?  Compares what a plan promised with the live cluster or a new snapshot; writes gold/plan_audits."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.access import NO_OPTIONS, AccessOptions
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import PROMISE_BROKEN

if TYPE_CHECKING:
    from cluster_core.rebalance.audit import Finding, JournalRow, Measured
    from cluster_core.rebalance.record import StoredPlan
    from slotscope.servers.node_link import Access

SAMPLE_MAX = 10_000


def run(
    root: str,
    plan_id: str,
    *,
    cluster: str | None = None,
    snapshot: str | None = None,
    access: Access | None = None,
    sample: int = 20,
    window: float = 0.0,
) -> tuple[StoredPlan, list[Finding]]:
    """Audit a plan and write the findings; raises InputError for what is not there."""
    from cluster_core.rebalance.audit import audit_journal
    from cluster_core.rebalance.table_rows import PlanAuditRow
    from schemas.audit import PLAN_AUDITS
    from slotscope.plans.stored_moves import read_unchanged_plan
    from slotscope.plans.stored_plans import find_plan
    from slotscope.runtime.delta_files import replace_rows
    from slotscope.servers.node_link import Access

    if (cluster is None) == (snapshot is None):
        raise InputError("give either --cluster HOST:PORT or --snapshot NAME")
    if not 0 <= sample <= SAMPLE_MAX or not 0 <= window < math.inf:
        raise InputError(f"--sample must be 0 to {SAMPLE_MAX}, --window 0 or more")
    row = find_plan(root, plan_id)
    stored = read_unchanged_plan(root, row["plan_id"])
    steps = _journal(root, stored.plan_id)
    if cluster is not None:
        source = f"cluster {cluster}"
        findings = _audit_cluster(stored, steps, cluster, access or Access(), sample, window)
    else:
        source = f"snapshot {snapshot}"
        findings = _audit_snapshot(stored, steps, root, str(snapshot))
    findings += audit_journal(stored, steps, row["estimated_s"])
    audited_at = datetime.now(UTC)
    rows = [PlanAuditRow(stored.plan_id, source, audited_at, *astuple(one))._asdict() for one in findings]
    replace_rows(root, PLAN_AUDITS, rows, plan_id=stored.plan_id, source=source)
    return stored, findings


def _journal(root: str, plan_id: str) -> list[JournalRow]:
    from cluster_core.rebalance.audit import JournalRow
    from schemas.execution import PLAN_STEPS
    from slotscope.runtime.delta_files import exists, read_rows

    if not exists(root, PLAN_STEPS):
        return []
    rows = read_rows(root, PLAN_STEPS, plan_id=plan_id)
    rows.sort(key=lambda row: (row["ts"], row["run_id"], row["seq"]))
    return [
        JournalRow(
            row["run_id"],
            round(row["ts"].timestamp() * 1000),
            row["step"],
            row["target"] or "",
            row["slots"] or "",
            row["keys"],
        )
        for row in rows
    ]


def _audit_cluster(
    stored: StoredPlan, steps: Sequence[JournalRow], cluster: str, access: Access, sample: int, window: float
) -> list[Finding]:
    from cluster_core.rebalance.audit import audit_keys, audit_left_behind, audit_load, audit_owners
    from slotscope.servers import audit as live_audit
    from slotscope.servers.cluster import parse_address

    with live_audit.connected(parse_address(cluster), access) as live:
        findings = audit_owners(stored, live.views)
        findings.append(
            audit_left_behind(stored, live.left_behind({move.slot: move.source for move in stored.plan.moves}))
        )
        masters = live.masters()
        keys = audit_keys(stored, sum(sum(master.keys.values()) for master in masters))
        findings += [keys] if keys is not None else []
        measured = _measure_live(stored, steps, live, masters, sample, window)
    return findings + [audit_load(stored, one) for one in measured]


def _measure_live(
    stored: StoredPlan, steps: Sequence[JournalRow], live: Any, masters: Sequence[Any], sample: int, window: float
) -> list[Measured]:
    """Measure every resource of the plan as well as the servers allow, in its order."""
    from cluster_core.rebalance.audit import Measured, measure_window, moved_until_ms
    from slotscope.servers import audit as live_audit

    wanted = list(stored.problem.loads)
    found = {"keys": live_audit.measure_keys(masters)}
    memory = live_audit.measure_memory_bytes(live_audit.read_slot_stats(masters)) if "memory_bytes" in wanted else None
    if memory is not None:
        found["memory_bytes"] = memory
    missing = [name for name in ("serialized_bytes", "memory_bytes") if name in wanted and name not in found]
    if missing and sample:
        found |= {one.resource: one for one in live_audit.measure_bytes(missing, masters, sample)}
    elif missing:
        found |= {name: live_audit.measure_dataset(name, live, masters) for name in missing}
    if window:
        moved_ms = moved_until_ms(steps)
        windows = live_audit.watch_counters(masters, window)
        found |= {one.resource: measure_window(one, moved_ms) for one in windows}
    how = "SLOT-STATS tells it over a time: give --window" if not window else "the servers do not tell it"
    return [found.get(name) or Measured(name, {}, "not measured", doubt=how) for name in wanted]


def _audit_snapshot(stored: StoredPlan, steps: Sequence[JournalRow], root: str, name: str) -> list[Finding]:
    from cluster_core.rebalance.audit import audit_keys, audit_left_behind, audit_load, audit_owners, moved_until_ms
    from slotscope.plans.snapshot_audit import read_snapshot

    evidence = read_snapshot(root, name)
    moved = {move.slot: move.source for move in stored.plan.moves}
    moved_ms = moved_until_ms(steps)
    left = audit_left_behind(stored, evidence.left_behind(moved))
    if evidence.is_partial and left.kept:
        left = replace(left, kept=None, detail=f"{left.detail}; not proven, because the snapshot is partial")
    findings = [*audit_owners(stored, [evidence.view]), left]
    keys = audit_keys(stored, evidence.keys())
    findings += [keys] if keys is not None else []
    return findings + [audit_load(stored, evidence.measure(one, moved, moved_ms)) for one in stored.problem.loads]


def command(
    *,
    root: str,
    plan: str = "latest",
    cluster: str | None = None,
    snapshot: str | None = None,
    sample: int = 20,
    window: float = 0.0,
    access: AccessOptions = NO_OPTIONS,
    debug: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Compare what a plan promised with what is measured after it was carried out.

    Owners on every node, open slots, keys that were left behind, the heaviest master of each resource, moved bytes and
    time. Only reads; writes gold/plan_audits. Exit code 0: every promise was kept; 11: one was not.

    Parameters
    ----------
    root
        Folder of the tables.
    plan
        Id of the plan, the beginning of it, or latest.
    cluster
        HOST:PORT of one node of the live cluster; the others are found from its answer.
    snapshot
        Name of a snapshot that key-slots made of dumps after the moves, instead of the live cluster.
    sample
        Keys a slot whose size is asked for; 0 takes the memory that INFO tells.
    window
        Seconds over which to measure the counters of SLOT-STATS; 0 leaves them out.
    debug
        Show the trace of an error.
    """
    from rich.console import Console

    from cluster_core.rebalance.audit import is_kept
    from slotscope.reports.rebalance.audit_terminal import print_audit

    way = access.with_password(access.password())
    stored, findings = run(root, plan, cluster=cluster, snapshot=snapshot, access=way, sample=sample, window=window)
    print_audit(stored, findings, Console(file=sys.stdout))
    return cli.OK if is_kept(findings) else PROMISE_BROKEN


def main(argv: Sequence[str] | None = None) -> None:
    """What ``python -m jobs.audit_plan`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
