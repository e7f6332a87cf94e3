"""Tables of rebalancing plans: what was planned with, what is to move, what it brings, what stands in the way, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from cluster_core.rebalance.table_rows import (
    CurveRow,
    HeavyRow,
    LoadRow,
    MoveRow,
    PlanAuditRow,
    PlanStepRow,
    SlotRow,
    ToleranceRow,
)
from schemas.caveats import caveats
from schemas.table import (
    CLUSTER,
    DOUBLE,
    INTEGER,
    LONG,
    PARTIAL,
    RUN_ID,
    TEXT,
    TIME,
    Table,
    by_name,
    fields_of,
    optional,
    required,
    several,
    with_texts,
)

PLAN_ID = required("plan_id", TEXT, "digest of what was planned with and of the plan")


def _plan_table(name: str, about: str, columns: Iterable[pa.Field], key: tuple[str, ...]) -> Table:
    return Table(name, about, pa.schema([PLAN_ID, CLUSTER, RUN_ID, *columns, PARTIAL]), ("plan_id", *key))


def _told(name: str, about: str) -> pa.Field:
    return optional(name, by_name(DOUBLE), f"{about}, by resource")


def _by_resource(name: str, about: str) -> pa.Field:
    return required(name, by_name(DOUBLE), f"{about}, by resource")


REBALANCE_PLANS = Table(
    "gold/rebalance_plans",
    "One row a plan.",
    pa.schema(
        [
            PLAN_ID,
            CLUSTER,
            RUN_ID,
            required("snapshot_id", TEXT, "newest snapshot that it was made from; none if there was none"),
            required("created_at", TIME, "when it was first made, UTC"),
            required("verdict", TEXT, "balanced, gain too small, move, or move with not all limits reached"),
            required("cost", TEXT, "resource of which as little as possible moves"),
            required("moved_bytes", LONG, "what moves, in the resource of cost"),
            required("lower_bound_bytes", LONG, "what has to move at least, proven"),
            optional("gap", DOUBLE, "moved over the bound, less 1; null where nothing has to move"),
            _by_resource("tolerance", "asked for"),
            _by_resource("max_over_mean_before", "heaviest master over its fair share before"),
            _by_resource("max_over_mean_after", "heaviest master over its fair share afterwards"),
            _by_resource("limits", "what the heaviest master may hold over its fair share"),
            _by_resource("floors", "proven least that the heaviest master can hold over its fair share"),
            required("moved_slots", INTEGER, "slots that move"),
            required("ranges_before", INTEGER, "slot ranges of all masters before"),
            required("ranges_after", INTEGER, "slot ranges of all masters afterwards"),
            optional("ranges_bound", INTEGER, "slot ranges that there are at least within the limits, proven"),
            optional(
                "bytes_budget",
                DOUBLE,
                "bytes above the bound that were allowed for fewer slot ranges, as a share of it",
            ),
            required("batches", INTEGER, "batches in which it runs"),
            required("estimated_s", DOUBLE, "seconds it should take by the model in the document"),
            required("state_hash", TEXT, "digest of the owners and config epochs it was made for"),
            required("bad_records", LONG, "records of its inputs that could not be read"),
            required("document", TEXT, "JSON: everything else that checking and executing it need"),
            _told("watched_before", "heaviest master over its fair share before, of loads that were not balanced"),
            _told("watched_after", "the same afterwards"),
            _told("watched_limits", "the same that they would be allowed, if they were balanced"),
            _told(
                "capacity_due_s",
                "seconds after the newest measurement until the first master reaches its capacity if loads grow on as in growth_s (not there: none does; null: not known, no earlier measurement with a date)",
            ),
            _told("balance_due_s", "the same until the first master is out of balance again"),
            optional(
                "growth_s", DOUBLE, "seconds between the two measurements that tell how loads grow; null: not known"
            ),
            optional("growth_since", TEXT, "the earlier one: a snapshot, or a plan"),
            optional("growth_of", several(TEXT), "resources whose growth they tell"),
            optional(
                "memory_error",
                DOUBLE,
                "share by which memory_bytes of a master may be off (95 of 100 times) where keys of live servers were measured; null: where not",
            ),
            caveats("what to know before trusting it, the gravest first", always=False),
            PARTIAL,
        ]
    ),
    key=("plan_id",),
)

REBALANCE_MOVES = _plan_table("gold/rebalance_moves", "One row a slot that moves.", fields_of(MoveRow), ("slot",))

REBALANCE_LOAD = _plan_table(
    "gold/rebalance_load",
    "Load of every master before and after, one row a resource.",
    fields_of(LoadRow),
    ("node_id", "resource"),
)

REBALANCE_SLOTS = _plan_table(
    "gold/rebalance_slots",
    "What was planned with, one row a slot: with the plan's document, all that checking it needs.",
    fields_of(SlotRow),
    ("slot",),
)

REBALANCE_TOLERANCES = _plan_table(
    "gold/rebalance_tolerances",
    "What other tolerances would cost: balance against bytes, slots, ranges and time.",
    fields_of(ToleranceRow),
    ("tolerance",),
)

REBALANCE_CURVE = _plan_table(
    "gold/rebalance_curve",
    "What other budgets of bytes would give: bytes against slot ranges and slots.",
    fields_of(CurveRow),
    ("number",),
)

REBALANCE_HEAVY = _plan_table(
    "gold/rebalance_heavy",
    "Slots that alone are over a limit, with the hash tags and keys that make them so.",
    with_texts(fields_of(HeavyRow)),
    ("slot", "resource", "rank"),
)

PLAN_STEPS = Table(
    "silver/plan_steps",
    "Journal of executions: what was about to be done, and what came of it.",
    pa.schema(fields_of(PlanStepRow)),
    key=("plan_id", "run_id", "seq"),
    of_runs=False,
)

PLAN_AUDITS = Table(
    "gold/plan_audits",
    "One row an aspect of an audit, for loads one a resource; an audit of the same plan and source replaces the one before.",
    pa.schema(fields_of(PlanAuditRow)),
    key=("plan_id", "source", "aspect", "resource"),
    of_runs=False,
)
