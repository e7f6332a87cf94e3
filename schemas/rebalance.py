"""Tables of rebalance plans: inputs, moves, loads before and after, alternatives, execution journal, audits."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from cluster_core.rebalance.audit import Finding
from cluster_core.rebalance.stored_plan import SlotRow
from schemas.caveats import caveats
from schemas.table import (
    BYTES,
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
            _by_resource("tolerance", "tolerance"),
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
                "estimated duration, s: by key, or by server-side migration if a live cluster has it",
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

REBALANCE_MOVES = _plan_table(
    "gold/rebalance_moves",
    "Moved slots.",
    [
        required("batch", INTEGER, "1 runs first; moves of one batch run together"),
        required("slot", INTEGER, "0 to 16383"),
        required("source", TEXT, "node id of the source master"),
        required("target", TEXT, "node id of the target master"),
        optional("bytes", LONG, "moved bytes; null if no source has sizes"),
        optional("keys", LONG, "moved keys; null if no source counts keys"),
    ],
    ("slot",),
)

REBALANCE_LOAD = _plan_table(
    "gold/rebalance_load",
    "Load of every master before and after, by resource.",
    [
        required("node_id", TEXT, "master"),
        required("address", TEXT, "host:port"),
        required("zone", TEXT, "zone or rack; empty if none was given"),
        required("role", TEXT, "stays, added, drained or excluded"),
        required("resource", TEXT, "resource of the figures"),
        required("before", DOUBLE, "load before"),
        required("after", DOUBLE, "load afterwards"),
        required("fair", DOUBLE, "its fair share; 0 for a drained or excluded master"),
        required("limit", DOUBLE, "largest allowed load; 0 for a drained master"),
        optional("capacity", DOUBLE, "capacity; null if none was given"),
        required("slots_before", INTEGER, "slots before"),
        required("slots_after", INTEGER, "slots afterwards"),
        required("ranges_before", INTEGER, "slot ranges before"),
        required("ranges_after", INTEGER, "slot ranges afterwards"),
    ],
    ("node_id", "resource"),
)

REBALANCE_SLOTS = _plan_table(
    "gold/rebalance_slots",
    "Inputs of the plan by slot; with the document, all that a check needs.",
    fields_of(SlotRow),
    ("slot",),
)

REBALANCE_CURVE = _plan_table(
    "gold/rebalance_curve",
    "Slot ranges and slots at other byte budgets.",
    [
        required("number", INTEGER, "1 has the smallest budget"),
        optional("budget", DOUBLE, "allowed share of bytes above the bound; null: no limit"),
        optional("choice", TEXT, "recommended (the plan), fewest bytes or fewest ranges; null for points between"),
        required("moved_bytes", LONG, "amount to move, in the cost resource"),
        optional("over_bound", DOUBLE, "moved over the bound, minus 1; null if nothing has to move"),
        required("ranges", INTEGER, "slot ranges of all masters afterwards"),
        required("moved_slots", INTEGER, "slots that would move"),
    ],
    ("number",),
)

REBALANCE_HEAVY = _plan_table(
    "gold/rebalance_heavy",
    "Slots above a limit on their own, with their heavy hash tags and keys.",
    with_texts(
        [
            required("slot", INTEGER, "0 to 16383"),
            required("node_id", TEXT, "planned master of the slot"),
            required("resource", TEXT, "resource above the limit"),
            required("ratio", DOUBLE, "load of the slot over a fair share"),
            required("pieces", INTEGER, "number of slots that its keys need to fit"),
            optional("rank", INTEGER, "1 is the heaviest part; null if no part is known"),
            optional("hash_tag", BYTES, "hash tag of the part; null if none or unknown"),
            optional("key", BYTES, "key of a part with a single key"),
            optional("keys", LONG, "keys of the part"),
            optional(
                "bytes",
                LONG,
                "bytes of the part: memory if memory is above the limit or nothing else is known, else dump bytes",
            ),
            optional("share", DOUBLE, "share of the slot's load, 0 to 1"),
            optional("part_pieces", INTEGER, "number of pieces to split the tag into"),
        ]
    ),
    ("slot", "resource", "rank"),
)

PLAN_STEPS = Table(
    "silver/plan_steps",
    "Journal of executions: intended steps and results.",
    pa.schema(
        [
            required("plan_id", TEXT, "plan of the execution"),
            required("run_id", TEXT, "one run of an execution"),
            required("seq", INTEGER, "number of the row within its run, from 1"),
            required("ts", TIME, "time of the row, UTC"),
            required("batch", INTEGER, "batch of the plan; 0: none"),
            optional("source", TEXT, "source master; null: none"),
            optional("target", TEXT, "target master; null: none"),
            optional("slots", TEXT, "slots as in CLUSTER NODES: 1-3 7"),
            required(
                "step",
                TEXT,
                "started, intent, done, failed, cancelled, paused, refused, rolled-back, finished; held: an execution extends its lease of an object store",
            ),
            optional("detail", TEXT, "details"),
            optional("keys", LONG, "sent keys, if counted"),
            optional("seconds", DOUBLE, "duration in seconds"),
            optional("path", TEXT, "migration path of a started run: setslot, migrateslots or migration import"),
        ]
    ),
    key=("plan_id", "run_id", "seq"),
    of_runs=False,
)

PLAN_AUDITS = Table(
    "gold/plan_audits",
    "Audits by aspect and resource; a new audit of the same plan and source replaces the old one.",
    pa.schema(
        [
            required("plan_id", TEXT, "the audited plan"),
            required("source", TEXT, "measured cluster: cluster HOST:PORT"),
            required("audited_at", TIME, "time of the audit, UTC"),
            *fields_of(Finding),
        ]
    ),
    key=("plan_id", "source", "aspect", "resource"),
    of_runs=False,
)
