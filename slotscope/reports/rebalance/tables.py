"""The report on a rebalancing plan, read from its tables without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster_core.rebalance.plan import slot_ranges
from schemas import rebalance
from schemas.caveats import Caveat, Code
from schemas.table import Table
from slotscope.plans.stored_plans import epoch_ms, find_plan, read_stored_plan
from slotscope.reports.rebalance.conflicts import limit_warnings
from slotscope.reports.rebalance.report import RebalanceReport
from slotscope.reports.records import Row, grouped, read

CODES = frozenset(Code)
"""Warnings with other codes, which earlier versions wrote, are left out."""
RECOMMENDED = "recommended"
"""The plan itself among the budgets."""


def load_rebalance_report(root: str, plan_id: str = "latest") -> RebalanceReport:
    """Return the report on a plan of the tables under *root*; InputError if it is missing, PlanError if its tables are damaged."""
    row = find_plan(root, plan_id)
    stored = read_stored_plan(root, row["plan_id"])
    plan = stored.plan
    known = row["max_over_mean_before"].keys() & row["limits"].keys()
    warnings = [Caveat.of(**warning) for warning in row.get("warnings") or () if warning["code"] in CODES]
    left_out = ("document", "created_at", "warnings")
    own = {name: row.get(name) for name in rebalance.REBALANCE_PLANS.columns if name not in left_out}
    return RebalanceReport(
        **own,
        created_at_ms=epoch_ms(row["created_at"]),
        root=root,
        asked=(),
        gain_min=float(stored.problem.gain_min),
        is_partial=bool(stored.unread),
        warnings=[*warnings, *limit_warnings(stored)],
        reaches=[_reach(row, reach.resource) for reach in plan.reach if reach.resource in known],
        nodes=_nodes(_rows(root, rebalance.REBALANCE_LOAD, stored.plan_id)),
        transfers=_transfers(_rows(root, rebalance.REBALANCE_MOVES, stored.plan_id)),
        curve=_curve(_rows(root, rebalance.REBALANCE_CURVE, stored.plan_id)),
        heavy=_heavy(_rows(root, rebalance.REBALANCE_HEAVY, stored.plan_id)),
    )


def _rows(root: str, table: Table, plan_id: str) -> list[dict[str, Any]]:
    return [vars(row) for row in read(root, table, plan_id=plan_id)]


def _reach(row: Mapping[str, Any], name: str) -> Row:
    return Row(
        resource=name, tolerance=row["tolerance"].get(name, 0.0), before=row["max_over_mean_before"][name],
        after=row["max_over_mean_after"][name], limit=row["limits"][name], floor=row["floors"].get(name, 1.0),
    )  # fmt: skip


def _nodes(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    by_node = sorted(grouped(rows, "node_id").items())
    return [Row(**{**mine[0], "shares": {row["resource"]: Row(**row) for row in mine}}) for _, mine in by_node]


def _transfers(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the slots of each batch, source and target as one transfer."""
    joined = grouped(sorted(rows, key=lambda row: int(row["slot"])), "batch", "source", "target")
    transfers = []
    for (batch, source, target), moves in sorted(joined.items()):
        slots = tuple(row["slot"] for row in moves)
        sums = {"bytes": _sum(moves, "bytes"), "keys": _sum(moves, "keys")}
        transfers.append(Row(batch=batch, source=source, target=target, slots=slots, ranges=slot_ranges(slots), **sums))
    return transfers


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def _curve(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Budgets in their order; those that give the same are one row, named after the plan if it is among them."""
    points = []
    ordered = sorted(rows, key=lambda row: int(row["number"]))
    for alike in grouped(ordered, "moved_bytes", "ranges", "moved_slots").values():
        names = [row["choice"] for row in alike if row["choice"]]
        name = RECOMMENDED if RECOMMENDED in names else next(iter(names), None)
        points.append(Row(**{**alike[0], "choice": name}))
    return points


def _heavy(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    lines = []
    for alike in grouped(rows, "slot", "resource").values():
        ranked = sorted((row for row in alike if row["rank"] is not None), key=lambda row: int(row["rank"]))
        lines.append(Row(**{**alike[0], "parts": [Row(**row) for row in ranked]}))
    return sorted(lines, key=lambda line: (-line.ratio, line.slot, line.resource))
