"""Tables of rebalance plans: inputs, moves, loads before and after, alternatives, execution journal, audits."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from cluster_core.rebalance.audit import Finding
from cluster_core.rebalance.table_rows import (
    CurveRow,
    HeavyRow,
    LoadRow,
    MoveRow,
    PlanStepRow,
    SlotRow,
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
    with_texts,
)

PLAN_ID = required("plan_id", TEXT, "digest of the plan and its inputs")


def _plan_table(name: str, about: str, columns: Iterable[pa.Field], key: tuple[str, ...]) -> Table:
    return Table(name, about, pa.schema([PLAN_ID, CLUSTER, RUN_ID, *columns, PARTIAL]), ("plan_id", *key))


def _by_resource(name: str, about: str) -> pa.Field:
    return required(name, by_name(DOUBLE), f"{about}, by resource")


REBALANCE_PLANS = Table(
    "gold/rebalance_plans",
    "Plans.",
    pa.schema(
        [
            PLAN_ID,
            CLUSTER,
            RUN_ID,
            required("snapshot_id", TEXT, "newest snapshot of its inputs; none without one"),
            required("created_at", TIME, "creation time"),
            required("verdict", TEXT, "balanced, gain too small, move, or move with not all limits reached"),
            required("cost", TEXT, "resource to minimize in moves"),
            required("moved_bytes", LONG, "moved amount of the cost resource"),
            required("lower_bound_bytes", LONG, "proven minimum"),
            optional("gap", DOUBLE, "moved over the bound, minus 1; null if nothing has to move"),
            _by_resource("tolerance", "asked for"),
            _by_resource("max_over_mean_before", "heaviest master over its fair share before"),
            _by_resource("max_over_mean_after", "heaviest master over its fair share afterwards"),
            _by_resource("limits", "limit of the heaviest master over its fair share"),
            _by_resource("floors", "proven minimum of the heaviest master over its fair share"),
            required("moved_slots", INTEGER, "moved slots"),
            required("ranges_before", INTEGER, "slot ranges of all masters before"),
            required("ranges_after", INTEGER, "slot ranges of all masters afterwards"),
            optional("ranges_bound", INTEGER, "proven minimum of slot ranges within the limits"),
            optional(
                "bytes_budget",
                DOUBLE,
                "allowed share of bytes above the bound for fewer slot ranges",
            ),
            required("batches", INTEGER, "batches"),
            required(
                "estimated_s",
                DOUBLE,
                "estimated duration, s: key by key, or by migrations of the servers where a live cluster has them",
            ),
            required("state_hash", TEXT, "digest of owners and config epochs at planning"),
            required("bad_records", LONG, "unreadable records of its inputs"),
            required("document", TEXT, "JSON for checking and execution"),
            optional(
                "memory_error",
                DOUBLE,
                "95 % error share of a master's sampled memory; null if not sampled",
            ),
            caveats("warnings, most severe first", always=False),
            PARTIAL,
        ]
    ),
    key=("plan_id",),
)

REBALANCE_MOVES = _plan_table("gold/rebalance_moves", "Moved slots.", fields_of(MoveRow), ("slot",))

REBALANCE_LOAD = _plan_table(
    "gold/rebalance_load",
    "Load of every master before and after, by resource.",
    fields_of(LoadRow),
    ("node_id", "resource"),
)

REBALANCE_SLOTS = _plan_table(
    "gold/rebalance_slots",
    "Inputs of the plan by slot; with the document, everything that a check needs.",
    fields_of(SlotRow),
    ("slot",),
)

REBALANCE_CURVE = _plan_table(
    "gold/rebalance_curve",
    "Slot ranges and slots at other byte budgets.",
    fields_of(CurveRow),
    ("number",),
)

REBALANCE_HEAVY = _plan_table(
    "gold/rebalance_heavy",
    "Slots above a limit on their own, with their heavy hash tags and keys.",
    with_texts(fields_of(HeavyRow)),
    ("slot", "resource", "rank"),
)

PLAN_STEPS = Table(
    "silver/plan_steps",
    "Journal of executions: intended steps and results.",
    pa.schema(fields_of(PlanStepRow)),
    key=("plan_id", "run_id", "seq"),
    of_runs=False,
)

PLAN_AUDITS = Table(
    "gold/plan_audits",
    "Audits by aspect and resource; a new audit of the same plan and source replaces the old one.",
    pa.schema(
        [
            required("plan_id", TEXT, "the audited plan"),
            required("source", TEXT, "what was measured: cluster HOST:PORT"),
            required("audited_at", TIME, "when, UTC"),
            *fields_of(Finding),
        ]
    ),
    key=("plan_id", "source", "aspect", "resource"),
    of_runs=False,
)
