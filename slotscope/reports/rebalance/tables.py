"""The report on a rebalancing plan, read from its tables without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster_core.rebalance.execution.journal import StepKind
from cluster_core.rebalance.execution.remaining import Path, seconds_of
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.rebalance.table_rows import CurveRow
from schemas import rebalance
from schemas.caveats import Caveat
from schemas.gold import BIG_KEYS, HASH_TAGS
from schemas.table import Table
from slotscope.plans.growth import LIVE
from slotscope.plans.stored_plans import epoch_ms, find_plan, plan_rows, read_stored_plan
from slotscope.reports.rebalance.conflicts import limit_warnings
from slotscope.reports.rebalance.report import (
    EarlierPlan,
    HeavyLine,
    HeavyPart,
    MovingPart,
    NodeShare,
    PlanNode,
    RebalanceReport,
    Transfer,
    WorstLoad,
)
from slotscope.reports.records import grouped, record
from slotscope.runtime.storage.delta_files import exists, read_rows

Row = Mapping[str, Any]
PARTS_LISTED = 12
RECOMMENDED = "recommended"
"""The plan itself among the budgets."""


def load_rebalance_report(root: str, plan_id: str = "latest") -> RebalanceReport:
    """Return the report on a plan of the tables under *root*; InputError if it is missing, PlanError if its tables are damaged."""
    row = find_plan(root, plan_id)
    own_id = row["plan_id"]
    stored = read_stored_plan(root, own_id)
    plan = stored.plan
    return record(
        RebalanceReport,
        row,
        created_at_ms=epoch_ms(row["created_at"]),
        moved=row["moved_bytes"],
        bound=row["lower_bound_bytes"],
        root=root,
        gain_min=float(stored.problem.gain_min),
        is_partial=bool(stored.unread),
        warnings=[*(Caveat.of(**warning) for warning in row.get("warnings") or ()), *limit_warnings(stored)],
        reaches=_reaches(row, [reach.resource for reach in plan.reach]),
        watched=_watched(row),
        nodes=_nodes(_rows(root, rebalance.REBALANCE_LOAD, own_id)),
        transfers=_transfers(_rows(root, rebalance.REBALANCE_MOVES, own_id)),
        curve=_curve(_rows(root, rebalance.REBALANCE_CURVE, own_id)),
        heavy=_heavy(_rows(root, rebalance.REBALANCE_HEAVY, own_id)),
        history=_history(root, row),
        parts=_moving_parts(root, stored),
        by_hand_s=sum(seconds_of(stored, stored.batches, Path.LEGACY)) if plan.moves else None,
        key_by_key=stored.problem.slot_cost > 0 if stored.snapshot_id == LIVE else None,
    )


def _rows(root: str, table: Table, plan_id: str) -> list[dict[str, Any]]:
    """Return the rows of one plan; none if the table does not exist."""
    return read_rows(root, table, plan_id=plan_id) if exists(root, table) else []


def _reaches(row: Row, resources: Sequence[str]) -> list[WorstLoad]:
    return [
        WorstLoad(
            name,
            row["tolerance"].get(name, 0.0),
            row["max_over_mean_before"][name],
            row["max_over_mean_after"][name],
            row["limits"][name],
            row["floors"].get(name, 1.0),
        )
        for name in resources
        if name in row["max_over_mean_before"] and name in row["limits"]
    ]


def _watched(row: Row) -> list[WorstLoad]:
    """Return the known loads that were not balanced."""
    after = row.get("watched_after") or {}
    return [
        WorstLoad(name, 0.0, row["watched_before"][name], after[name], row["watched_limits"][name], 1.0, balanced=False)
        for name in sorted(after)
    ]


def _nodes(rows: Sequence[Row]) -> list[PlanNode]:
    by_node = sorted(grouped(rows, "node_id").items())
    return [
        record(PlanNode, mine[0], shares={row["resource"]: record(NodeShare, row) for row in mine})
        for _, mine in by_node
    ]


def _transfers(rows: Sequence[Row]) -> list[Transfer]:
    """Return the slots of each batch, source and target as one transfer."""
    joined = grouped(sorted(rows, key=lambda row: int(row["slot"])), "batch", "source", "target")
    return [
        Transfer(batch, source, target, tuple(row["slot"] for row in slots), _sum(slots, "bytes"), _sum(slots, "keys"))
        for (batch, source, target), slots in sorted(joined.items())
    ]


def _sum(rows: Sequence[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def _curve(rows: Sequence[Row]) -> list[CurveRow]:
    """Budgets in their order; those that give the same are one row, named after the plan if it is among them."""
    found = []
    ordered = sorted(rows, key=lambda row: int(row["number"]))
    for alike in grouped(ordered, "moved_bytes", "ranges", "moved_slots").values():
        names = [row["choice"] for row in alike if row["choice"]]
        name = RECOMMENDED if RECOMMENDED in names else next(iter(names), None)
        found.append(record(CurveRow, alike[0], choice=name))
    return found


def _moving_parts(root: str, stored: StoredPlan) -> list[MovingPart] | None:
    """Return the heaviest hash tags and keys of slots that move; None where the snapshot lists none at all."""
    moves = {move.slot: move for move in stored.plan.moves}
    snapshot_id = stored.snapshot_id
    if not moves or not snapshot_id or not exists(root, HASH_TAGS) or not exists(root, BIG_KEYS):
        return None
    tags = read_rows(root, HASH_TAGS, where="keys > 1", snapshot_id=snapshot_id)
    keys = read_rows(root, BIG_KEYS, snapshot_id=snapshot_id, scope="slot")
    if not tags and not keys:
        return None
    found = []
    for row, name in [*((row, "hash_tag") for row in tags), *((row, "key") for row in keys)]:
        if row["slot"] in moves:
            move, memory = moves[row["slot"]], row.get("memory_bytes")
            size = row["serialized_bytes"] if memory is None else memory
            keys_of = row.get("keys") or 1
            found.append(
                MovingPart(bytes(row[name]), name == "hash_tag", row["slot"], move.source, move.target, keys_of, size)
            )
    return sorted(found, key=lambda part: (-(part.size_bytes or 0), -part.keys, part.name))[:PARTS_LISTED]


def _heavy(rows: Sequence[Row]) -> list[HeavyLine]:
    lines = []
    for found in grouped(rows, "slot", "resource").values():
        ranked = sorted((row for row in found if row["rank"] is not None), key=lambda row: int(row["rank"]))
        parts = [record(HeavyPart, row, size_bytes=row["bytes"], pieces=row["part_pieces"]) for row in ranked]
        lines.append(record(HeavyLine, found[0], parts=parts))
    return sorted(lines, key=lambda line: (-line.ratio, line.slot, line.resource))


def _history(root: str, own: Row) -> list[EarlierPlan]:
    """Return the earlier plans of the same cluster, the newest first, with their audits and journals."""
    earlier = [
        row
        for row in plan_rows(root)
        if row["plan_id"] != own["plan_id"]
        and row["created_at"] <= own["created_at"]
        and row["cluster"] == own["cluster"]
    ]
    if not earlier:
        return []
    audits = grouped(read_rows(root, rebalance.PLAN_AUDITS), "plan_id") if exists(root, rebalance.PLAN_AUDITS) else {}
    steps = grouped(read_rows(root, rebalance.PLAN_STEPS), "plan_id") if exists(root, rebalance.PLAN_STEPS) else {}
    return [_earlier(row, audits.get(row["plan_id"], []), steps.get(row["plan_id"], [])) for row in reversed(earlier)]


def _earlier(row: Row, audits: Sequence[Row], steps: Sequence[Row]) -> EarlierPlan:
    """Return one plan with its newest audit."""
    newest = max((audit["audited_at"] for audit in audits), default=None)
    last = [audit for audit in audits if audit["audited_at"] == newest]
    promised = dict(row["max_over_mean_after"])
    measured = {
        audit["resource"]: audit["measured"]
        for audit in last
        if audit["aspect"] == "load" and audit["measured"] is not None and audit["resource"] in promised
    }
    return record(
        EarlierPlan,
        row,
        created_at_ms=epoch_ms(row["created_at"]),
        moved=row["moved_bytes"],
        promised=promised,
        audited=measured,
        kept=_kept(last),
        executed=_executed(steps),
    )


def _kept(audits: Sequence[Row]) -> bool | None:
    """Return whether a plan kept its promise; None without an audit, and where it is unknown."""
    if any(audit["kept"] is False for audit in audits):
        return False
    unknown = any(audit["kept"] is None and audit["allowed"] is not None and audit.get("error") for audit in audits)
    return None if unknown or not audits else True


def _executed(steps: Sequence[Row]) -> str | None:
    """Return the outcome of a plan by its journal; None if no slot moved."""
    moving = [step for step in steps if step["step"] != StepKind.HELD]
    ordered = sorted(moving, key=lambda step: (step["ts"], step["seq"]))
    if not any(step["step"] == StepKind.DONE for step in ordered):
        return None
    last = ordered[-1]["step"]
    return "executed" if last == StepKind.FINISHED else "rolled back" if last == StepKind.ROLLED_BACK else "begun"
