"""Audit a plan: from the stored plan, its journal and the live cluster or a new snapshot to findings."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster_core.rebalance.audit import (
    STANDARD_ERRORS,
    Finding,
    Measured,
    audit_left_behind,
    audit_load,
    audit_owners,
    measure_window,
)
from cluster_core.rebalance.execution.journal import Journal, StepKind, read_journal
from cluster_core.rebalance.execution.succession import at_present
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.rebalance.table_rows import PlanAuditRow
from schemas.rebalance import PLAN_AUDITS, PLAN_STEPS
from slotscope.plans.snapshot_audit import read_snapshot
from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import all_equal, commit_rows, exists, read_rows
from slotscope.runtime.storage.snapshot_names import KEY_JOBS, find_name
from slotscope.servers import audit as live_audit
from slotscope.servers.cluster import parse_address
from slotscope.servers.node_link import Access, Address
from slotscope.servers.plan_journal import PlanJournal
from slotscope.servers.slot_weights import weigh_slots

if TYPE_CHECKING:
    from slotscope.pipelines.rebalance.options import AuditOptions

SAMPLE_MAX = 10_000

NEWS_S, NEWS_PAUSE_S = 10.0, 0.5
"""How long after the last move gossip may take to tell replicas the owners, and the pause between two looks."""


def audit_plan(request: AuditOptions) -> tuple[StoredPlan, list[Finding]]:
    """Audit a plan and write the findings; raises InputError for a missing plan or snapshot."""
    if (request.cluster is None) == (request.snapshot is None):
        raise InputError("give either --cluster HOST:PORT or --snapshot NAME")
    if (
        not 0 <= request.sample <= SAMPLE_MAX
        or not 0 <= request.window < math.inf
        or not 0 <= request.seconds < math.inf
    ):
        raise InputError(f"--sample must be 0 to {SAMPLE_MAX}, --window and --seconds 0 or more")
    stored = read_unchanged_plan(request.root, request.plan)
    if request.cluster is None:
        name = find_name(request.root, str(request.snapshot), KEY_JOBS)
        findings = _audit_snapshot(stored, _moved_until_ms(request.root, stored.plan_id), request.root, name)
        return stored, _written(request.root, stored, f"snapshot {name}", findings)
    access = request.access.with_password(request.access.password())
    how = Measuring(request.seconds, request.rate, request.sample, request.window)
    return stored, audit_cluster(request.root, stored, request.cluster, access, how)


class Measuring(NamedTuple):
    """Limits of measuring a live cluster: *seconds* and *rate* for memory, *sample* keys a slot for dumps, *window* for counters."""

    seconds: float
    rate: float | None = None
    sample: int = 0
    window: float = 0.0


def audit_cluster(root: str, stored: StoredPlan, cluster: str, access: Access, how: Measuring) -> list[Finding]:
    """Audit *stored* on the cluster of the node *cluster*, and write the findings; as `audit_plan`."""
    moved_ms = _moved_until_ms(root, stored.plan_id)
    journal = read_journal(PlanJournal(root, stored.plan_id).read())
    until_s = min((moved_ms or 0) / 1000, time.time()) + NEWS_S
    while time.time() < until_s and not _is_known(stored, journal, cluster, access):
        time.sleep(NEWS_PAUSE_S)
    return _written(root, stored, f"cluster {cluster}", _audit_cluster(stored, journal, moved_ms, cluster, access, how))


def _written(root: str, stored: StoredPlan, source: str, findings: list[Finding]) -> list[Finding]:
    """Return *findings* after writing them."""
    audited_at = datetime.now(UTC)
    rows = [PlanAuditRow(stored.plan_id, source, audited_at, *astuple(one))._asdict() for one in findings]
    commit_rows(root, PLAN_AUDITS, rows, all_equal({"plan_id": stored.plan_id, "source": source}))
    return findings


def _moved_until_ms(root: str, plan_id: str) -> int | None:
    """Return when the last slot moved, by the journal; None if none did."""
    rows = (
        read_rows(root, PLAN_STEPS, columns=("ts",), plan_id=plan_id, step=StepKind.DONE.value)
        if exists(root, PLAN_STEPS)
        else []
    )
    return max((round(row["ts"].timestamp() * 1000) for row in rows), default=None)


def _is_known(stored: StoredPlan, journal: Journal, cluster: str, access: Access) -> bool:
    """Return whether every node knows the planned owners."""
    with live_audit.connected(parse_address(cluster), access) as live:
        return all(one.kept for one in audit_owners(at_present(stored, live.sight(), journal), live.views))


def _audit_cluster(
    stored: StoredPlan, journal: Journal, moved_ms: int | None, cluster: str, access: Access, how: Measuring
) -> list[Finding]:
    with live_audit.connected(parse_address(cluster), access) as live:
        stored = at_present(stored, live.sight(), journal)
        findings = audit_owners(stored, live.views)
        left = live.left_behind({move.slot: move.source for move in stored.plan.moves})
        findings.append(audit_left_behind(stored, left))
        memory = NOT_MEASURED
        if "memory_bytes" in stored.problem.loads and how.seconds:
            memory = _measure_memory(parse_address(cluster), access, how)
        measured = _measure_live(stored, moved_ms, live, live.masters(), how, memory)
    return findings + [audit_load(stored, one) for one in measured]


NOT_MEASURED = Measured("memory_bytes", {}, "not measured", doubt="memory was not measured")


def _measure_memory(first: Address, access: Access, how: Measuring) -> Measured:
    """Return the memory of each master, measured as for a plan."""
    try:
        weights = weigh_slots(first, access, seconds=how.seconds, rate=how.rate)
    except InputError as error:
        return replace(NOT_MEASURED, doubt=str(error))
    sizes = weights.loads["memory_bytes"]
    loads: dict[str, float] = {}
    errors: dict[str, float] = {}
    for node in weights.topology.masters():
        if node.slots:
            loads[node.id] = float(sum(sizes[slot] for slot in node.slots))
            off = next((one.error for one in weights.memory if next(iter(node.slots)) in one.bytes_by_slot), 0.0)
            errors[node.id] = off * loads[node.id] / STANDARD_ERRORS
    measured, keys = sum(one.measured for one in weights.memory), sum(one.keys for one in weights.memory)
    basis = f"MEMORY USAGE of {measured:,} of {keys:,} keys" if weights.memory else "memory-bytes of SLOT-STATS"
    return Measured("memory_bytes", loads, basis, {node: error for node, error in errors.items() if error})


def _measure_live(
    stored: StoredPlan, moved_ms: int | None, live: Any, masters: Sequence[Any], how: Measuring, memory: Measured
) -> list[Measured]:
    """Measure every resource of the plan, in its order."""
    wanted = list(stored.problem.loads)
    found = {"keys": live_audit.measure_keys(masters)}
    if memory is not NOT_MEASURED:
        found["memory_bytes"] = memory
    if "serialized_bytes" in wanted and how.sample:
        found["serialized_bytes"] = live_audit.measure_dumps(masters, how.sample)
    for name in ("serialized_bytes", "memory_bytes"):
        if name in wanted and name not in found:
            found[name] = live_audit.measure_dataset(name, masters)
    if how.window:
        windows = live_audit.watch_counters(masters, how.window)
        found |= {one.resource: measure_window(one, moved_ms) for one in windows}
    reason = "SLOT-STATS needs a window: give --window" if not how.window else "the servers do not report it"
    return [found.get(name) or Measured(name, {}, "not measured", doubt=reason) for name in wanted]


def _audit_snapshot(stored: StoredPlan, moved_ms: int | None, root: str, name: str) -> list[Finding]:
    evidence = read_snapshot(root, name)
    moved = {move.slot: move.source for move in stored.plan.moves}
    left = audit_left_behind(stored, evidence.left_behind(moved))
    if evidence.is_partial and left.kept:
        left = replace(left, kept=None, detail=f"{left.detail}; not proven, because the snapshot is partial")
    loads = [audit_load(stored, evidence.measure(one, moved, moved_ms)) for one in stored.problem.loads]
    return [*audit_owners(stored, [evidence.view]), left, *loads]
