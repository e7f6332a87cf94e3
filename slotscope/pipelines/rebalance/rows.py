"""A plan as rows of the gold/rebalance_* tables, and the parts of its heavy slots."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cluster_core.load.sampling import Part, parts_of_slots
from cluster_core.rebalance.goal.problem import exact
from cluster_core.rebalance.goal.targets import rehost
from cluster_core.rebalance.plan import Plan
from cluster_core.rebalance.planner import pieces_of_tag
from cluster_core.slots.slot_set import SlotSet
from schemas import rebalance
from schemas.caveats import Caveat
from schemas.gold import BIG_KEYS, HASH_TAGS
from schemas.table import Table
from slotscope.pipelines.rebalance.inputs import JOB, PlannerInput
from slotscope.pipelines.rebalance.plan import BYTES, MadePlan, make_plan
from slotscope.plans.stored_plans import plan_rows
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import cluster_of, running
from slotscope.sources.keys.text import key_text
from slotscope.transforms.snapshot_warnings import find_partial

PARTS_LISTED = 5
"""Keys and hash tags listed of a heavy slot."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The stored plan and its warnings."""

    made: MadePlan
    warnings: list[Caveat] = field(default_factory=list)

    @property
    def is_partial(self) -> bool:
        """Whether some inputs could not be read in full."""
        return bool(self.made.stored.unread)


def store_plan(root: str, prepared: PlannerInput, *, join_ranges: bool, now_ms: int | None = None) -> Outcome:
    """Make the plan for the *prepared* inputs and write its tables; the same plan keeps the time of its first run."""
    inputs = prepared.inputs
    made = make_plan(
        prepared.problem, prepared.nodes, snapshot_id=inputs.snapshot_id,
        created_at_ms=round(time.time() * 1000) if now_ms is None else now_ms, join_ranges=join_ranges,
        unread=inputs.unread,
    )  # fmt: skip
    known = (row["created_at"] for row in plan_rows(root) if row["plan_id"] == made.stored.plan_id)
    made = made.created_first(next((round(created.timestamp() * 1000) for created in known), None))
    inputs.write(root)
    heavy_slots = {heavy.slot for heavy in made.stored.plan.heavy}
    parts = measured_parts(inputs.parts, heavy_slots) or heavy_parts(root, inputs.snapshot_id, heavy_slots)
    warnings = [*find_partial(inputs.unread), *prepared.warnings]
    write_plan(
        root, made, parts=parts, bad_records=inputs.unread.whole.bad_records, warnings=warnings,
        memory_error=inputs.memory_error,
    )  # fmt: skip
    return Outcome(made, warnings)


def write_plan(
    root: str,
    made: MadePlan,
    *,
    parts: Mapping[int, Sequence[Row]],
    bad_records: int = 0,
    warnings: Sequence[Caveat] = (),
    memory_error: float | None = None,
) -> None:
    """Replace the rows of the plan in all tables."""
    partial = bool(made.stored.unread)
    head = {**_plan_row(made, bad_records, warnings), "memory_error": memory_error}
    tables: list[tuple[Table, list[Row]]] = [
        (rebalance.REBALANCE_SLOTS, [row._asdict() for row in made.slots]),
        (rebalance.REBALANCE_MOVES, _move_rows(made)),
        (rebalance.REBALANCE_LOAD, _load_rows(made)),
        (rebalance.REBALANCE_CURVE, _curve_rows(made.stored.plan)),
        (rebalance.REBALANCE_HEAVY, _heavy_rows(made, parts)),
        (rebalance.REBALANCE_PLANS, [head]),
    ]
    cluster = cluster_of(root, made.stored.snapshot_id)
    with running(root, JOB, made.stored.plan_id, cluster=cluster, partial=partial) as run:
        run.belongs_to(node.id for node in made.stored.nodes)
        for table, rows in tables:
            run.append(table, ({"partial": partial, **row} for row in rows))


def _plan_row(made: MadePlan, bad_records: int, warnings: Sequence[Caveat]) -> Row:
    stored, plan = made.stored, made.stored.plan
    tolerance = made.scaled.tolerance
    return {
        "snapshot_id": stored.snapshot_id,
        "created_at": datetime.fromtimestamp(stored.created_at_ms / 1000, UTC),
        "verdict": plan.verdict,
        "cost": plan.cost,
        "moved_bytes": plan.moved // plan.unit,
        "lower_bound_bytes": -(-plan.bound // plan.unit),
        "gap": None if plan.gap is None else float(plan.gap),
        "tolerance": dict(zip(stored.problem.loads, map(float, tolerance), strict=True)),
        "max_over_mean_before": {reach.resource: float(reach.before) for reach in plan.reach},
        "max_over_mean_after": {reach.resource: float(reach.after) for reach in plan.reach},
        "limits": {reach.resource: float(reach.limit) for reach in plan.reach},
        "floors": {reach.resource: float(reach.floor) for reach in plan.reach},
        "moved_slots": len(plan.moves),
        "ranges_before": plan.ranges_before,
        "ranges_after": plan.ranges_after,
        "ranges_bound": plan.ranges_bound,
        "bytes_budget": float(plan.budget),
        "batches": len(stored.batches),
        "estimated_s": made.estimated_s,
        "state_hash": stored.state_hash,
        "bad_records": bad_records,
        "document": made.document,
        "warnings": [dict(zip(Caveat._fields, warning.columns(), strict=True)) for warning in warnings],
    }


def _move_rows(made: MadePlan) -> list[Row]:
    names = list(made.stored.problem.loads)
    sized = next((names.index(name) for name in BYTES if name in names), None)
    counted = names.index("keys") if "keys" in names else None
    batch = {slot: b.number for b in made.stored.batches for job in b.jobs for slot in job.slots}
    return [
        {
            "batch": batch[move.slot],
            "slot": move.slot,
            "source": move.source,
            "target": move.target,
            "bytes": None if sized is None else round(move.loads[sized]),
            "keys": None if counted is None else round(move.loads[counted]),
        }
        for move in made.stored.plan.moves
    ]


def _load_rows(made: MadePlan) -> list[Row]:
    stored, scaled = made.stored, made.scaled
    after = scaled.places(stored.plan.owners_after)
    targets = rehost(scaled, made.targets, after)
    sums = scaled.totals(scaled.owner), scaled.totals(after)
    slots = [_held(owner, len(scaled.masters)) for owner in (scaled.owner, after)]
    rows: list[Row] = []
    for n, (master, node) in enumerate(zip(scaled.masters, stored.nodes, strict=True)):
        role = "drained" if master.drained else "excluded" if master.excluded else "stays" if slots[0][n] else "added"
        for r, name in enumerate(scaled.resources):
            unit = scaled.units[r]
            capacity = master.capacity.get(name)
            rows.append(
                {
                    "node_id": master.id,
                    "address": node.address,
                    "zone": node.zone,
                    "role": role,
                    "resource": name,
                    "before": sums[0][n][r] / unit,
                    "after": sums[1][n][r] / unit,
                    "fair": float(targets.fair[n][r] / unit),
                    "limit": targets.caps[n][r] / unit,
                    "capacity": None if capacity is None else float(exact(capacity, name)),
                    "slots_before": len(slots[0][n]),
                    "slots_after": len(slots[1][n]),
                    "ranges_before": len(SlotSet(slots[0][n]).ranges()),
                    "ranges_after": len(SlotSet(slots[1][n]).ranges()),
                }
            )
    return rows


def _held(owner: Sequence[int], masters: int) -> list[list[int]]:
    held: list[list[int]] = [[] for _ in range(masters)]
    for slot, n in enumerate(owner):
        held[n].append(slot)
    return held


def _curve_rows(plan: Plan) -> list[Row]:
    """One row a budget; of equal plans the one with the smallest budget gets the name."""
    cheapest = min(plan.curve, key=lambda point: (point.moved, point.ranges), default=None)
    fewest = min(plan.curve, key=lambda point: (point.ranges, point.moved), default=None)
    return [
        {
            "number": number,
            "budget": None if point.budget is None else float(point.budget),
            "choice": "recommended" if point.budget == plan.budget else "fewest bytes" if point is cheapest
            else "fewest ranges" if point is fewest else None,
            "moved_bytes": point.moved // plan.unit,
            "over_bound": point.moved / plan.bound - 1 if plan.bound else None,
            "ranges": point.ranges,
            "moved_slots": point.slots,
        }
        for number, point in enumerate(plan.curve, 1)
    ]  # fmt: skip


def heavy_parts(root: str, snapshot_id: str, slots: Collection[int]) -> dict[int, list[Row]]:
    """Return the hash tags and keys of *slots* in the tables of the snapshot."""
    if not slots or not snapshot_id or not delta_files.exists(root, HASH_TAGS):
        return {}
    parts: dict[int, list[Row]] = {}
    for row in read_rows(root, HASH_TAGS, snapshot_id=snapshot_id):
        if row["slot"] in slots and row["keys"] > 1:
            parts.setdefault(row["slot"], []).append({**_part(row), "key": None, "keys": row["keys"]})
    for row in read_rows(root, BIG_KEYS, snapshot_id=snapshot_id, scope="slot"):
        if row["slot"] in slots:
            parts.setdefault(row["slot"], []).append({**_part(row), "key": row["key"], "keys": 1})
    return parts


def _part(row: Row) -> Row:
    return {name: row[name] for name in ("hash_tag", *BYTES)}


def measured_parts(parts: Sequence[Part], slots: Collection[int]) -> dict[int, list[Row]]:
    """Return the hash tags and keys of *slots* among the measured keys of live servers."""
    parts_by_slot = parts_of_slots(parts, slots) if slots else {}
    return {
        slot: [{**part._asdict(), "serialized_bytes": None} for part in some] for slot, some in parts_by_slot.items()
    }


def _heavy_rows(made: MadePlan, parts: Mapping[int, Sequence[Row]]) -> list[Row]:
    problem, plan, scaled, targets = made.stored.problem, made.stored.plan, made.scaled, made.targets
    after = scaled.places(plan.owners_after)
    rows: list[Row] = []
    for heavy in plan.heavy:
        r = scaled.resources.index(heavy.resource)
        n = after[heavy.slot]
        load = float(problem.loads[heavy.resource][heavy.slot])
        target = (1 + scaled.tolerance[r]) * targets.fair[n][r] / scaled.units[r]
        name = heavy.resource
        head = {
            "slot": heavy.slot, "node_id": scaled.masters[n].id, "resource": name, "ratio": float(heavy.ratio), "pieces": heavy.pieces,
        }  # fmt: skip
        known = sorted(parts.get(heavy.slot, ()), key=lambda part: (-(part.get(name) or 0), -part["keys"], part["key"] or b""))  # fmt: skip
        listed = known[:PARTS_LISTED]
        rows += [] if listed else [head]
        for rank, part in enumerate(listed, 1):
            weight = part.get(name)
            share = min(weight / load, 1.0) if weight is not None and load else None
            pieces = pieces_of_tag(weight, target) if weight is not None and target and part["key"] is None else None
            texts = {
                f"{column}_text": key_text(part[column])
                for column in ("hash_tag", "key")
                if part.get(column) is not None
            }
            size = part["memory_bytes"] if name == "memory_bytes" or part["serialized_bytes"] is None else part["serialized_bytes"]  # fmt: skip
            row = {"hash_tag": part["hash_tag"], "key": part["key"], "keys": part["keys"], "bytes": size}
            rows.append({**head, **row, **texts, "rank": rank, "share": share, "part_pieces": pieces})
    return rows
