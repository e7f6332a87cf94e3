"""Whether a plan kept its promise: from the stored plan, its journal and the live cluster or a new snapshot to findings."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cluster_core.rebalance.audit import (
    Finding,
    JournalRow,
    Measured,
    audit_journal,
    audit_keys,
    audit_left_behind,
    audit_load,
    audit_owners,
    measure_window,
    moved_until_ms,
)
from cluster_core.rebalance.execution.journal import Journal, read_journal
from cluster_core.rebalance.execution.succession import at_present
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.rebalance.table_rows import PlanAuditRow
from schemas.rebalance import PLAN_AUDITS, PLAN_STEPS
from slotscope.plans.snapshot_audit import read_snapshot
from slotscope.plans.stored_moves import read_unchanged_plan
from slotscope.plans.stored_plans import find_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, read_rows, replace_rows
from slotscope.runtime.storage.snapshot_names import KEY_JOBS, find_name
from slotscope.servers import audit as live_audit
from slotscope.servers.cluster import parse_address
from slotscope.servers.node_link import Access
from slotscope.servers.plan_journal import PlanJournal

if TYPE_CHECKING:
    from slotscope.requests.audit_plan import Request

SAMPLE_MAX = 10_000

NEWS_S, NEWS_PAUSE_S = 10.0, 0.5
"""How long after the last move news of owners may be on their way to replicas, which hear of them by gossip, and between two looks whether all know."""


def audit_plan(request: Request) -> tuple[StoredPlan, list[Finding]]:
    """Audit a plan and write the findings; raises InputError for what is not there."""
    if (request.cluster is None) == (request.snapshot is None):
        raise InputError("give either --cluster HOST:PORT or --snapshot NAME")
    if not 0 <= request.sample <= SAMPLE_MAX or not 0 <= request.window < math.inf:
        raise InputError(f"--sample must be 0 to {SAMPLE_MAX}, --window 0 or more")
    stored = read_unchanged_plan(request.root, request.plan)
    if request.cluster is None:
        steps = _journal(request.root, stored.plan_id)
        name = find_name(request.root, str(request.snapshot), KEY_JOBS)
        findings = _audit_snapshot(stored, steps, request.root, name)
        return stored, _written(request.root, stored, steps, f"snapshot {name}", findings)
    access = request.access.with_password(request.access.password())
    return stored, audit_cluster(
        request.root, stored, request.cluster, access, sample=request.sample, window=request.window
    )


def audit_cluster(
    root: str, stored: StoredPlan, cluster: str, access: Access, *, sample: int = 0, window: float = 0.0
) -> list[Finding]:
    """Audit *stored* on the cluster of which *cluster* is a node, and write the findings; as `audit_plan`."""
    steps = _journal(root, stored.plan_id)
    journal = read_journal(PlanJournal(root, stored.plan_id).read())
    until_s = min((moved_until_ms(steps) or 0) / 1000, time.time()) + NEWS_S
    while time.time() < until_s and not _is_known(stored, journal, cluster, access):
        time.sleep(NEWS_PAUSE_S)
    findings = _audit_cluster(stored, journal, steps, cluster, access, sample, window)
    return _written(root, stored, steps, f"cluster {cluster}", findings)


def _written(
    root: str, stored: StoredPlan, steps: Sequence[JournalRow], source: str, findings: Sequence[Finding]
) -> list[Finding]:
    """*findings*, and what the journal says, when they are in the table."""
    found = [*findings, *audit_journal(stored, steps, find_plan(root, stored.plan_id)["estimated_s"])]
    audited_at = datetime.now(UTC)
    rows = [PlanAuditRow(stored.plan_id, source, audited_at, *astuple(one))._asdict() for one in found]
    replace_rows(root, PLAN_AUDITS, rows, plan_id=stored.plan_id, source=source)
    return found


def _journal(root: str, plan_id: str) -> list[JournalRow]:
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
            row["path"] or "",
        )
        for row in rows
    ]


def _is_known(stored: StoredPlan, journal: Journal, cluster: str, access: Access) -> bool:
    """Whether every node says what was planned."""
    with live_audit.connected(parse_address(cluster), access) as live:
        return all(one.kept for one in audit_owners(at_present(stored, live.sight(), journal), live.views))


def _audit_cluster(
    stored: StoredPlan,
    journal: Journal,
    steps: Sequence[JournalRow],
    cluster: str,
    access: Access,
    sample: int,
    window: float,
) -> list[Finding]:
    with live_audit.connected(parse_address(cluster), access) as live:
        stored = at_present(stored, live.sight(), journal)
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
