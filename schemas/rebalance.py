"""Tables of rebalancing plans: what was planned with, what is to move, what it brings, and what stands in the way."""

from __future__ import annotations

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cluster_core.rebalance.table_rows import HeavyRow, LoadRow, MoveRow, SlotRow, ToleranceRow
from schemas.caveats import caveats
from schemas.table import PARTIAL, Table, fields_of, optional, required, with_texts

PLAN_ID = required("plan_id", StringType(), "digest of what was planned with and of the plan")


def _told(name: str, about: str) -> StructField:
    return optional(name, MapType(StringType(), DoubleType(), valueContainsNull=False), f"{about}, by resource")


def _by_resource(name: str, about: str) -> StructField:
    return required(name, MapType(StringType(), DoubleType(), valueContainsNull=False), f"{about}, by resource")


REBALANCE_PLANS = Table(
    "gold/rebalance_plans",
    "One row a plan, written last: a plan without it is incomplete.",
    StructType(
        [
            PLAN_ID,
            required("snapshot_id", StringType(), "newest snapshot that it was made from; none if there was none"),
            required("created_at", TimestampType(), "when it was first made, UTC"),
            required("verdict", StringType(), "balanced, gain too small, move, or move with not all limits reached"),
            required("cost", StringType(), "resource of which as little as possible moves"),
            required("moved_bytes", LongType(), "what moves, in the resource of cost"),
            required("lower_bound_bytes", LongType(), "what has to move at least, proven"),
            optional("gap", DoubleType(), "moved over the bound, less 1; null where nothing has to move"),
            _by_resource("tolerance", "asked for"),
            _by_resource("max_over_mean_before", "heaviest master over its fair share before"),
            _by_resource("max_over_mean_after", "heaviest master over its fair share afterwards"),
            _by_resource("limits", "what the heaviest master may hold over its fair share"),
            _by_resource("floors", "proven least that the heaviest master can hold over its fair share"),
            required("moved_slots", IntegerType(), "slots that move"),
            required("ranges_before", IntegerType(), "slot ranges of all masters before"),
            required("ranges_after", IntegerType(), "slot ranges of all masters afterwards"),
            required("batches", IntegerType(), "batches in which it runs"),
            required("estimated_s", DoubleType(), "seconds it should take by the model in the document"),
            required("state_hash", StringType(), "digest of the owners and config epochs it was made for"),
            required("bad_records", LongType(), "records of its inputs that could not be read"),
            required("document", StringType(), "JSON: everything else that checking and executing it need"),
            _told("watched_before", "heaviest master over its fair share before, of loads that were not balanced"),
            _told("watched_after", "the same afterwards"),
            _told("watched_limits", "the same that they would be allowed, if they were balanced"),
            caveats("what to know before trusting it, the gravest first", always=False),
            PARTIAL,
        ]
    ),
    key=("plan_id",),
)

REBALANCE_MOVES = Table(
    "gold/rebalance_moves",
    "One row a slot that moves.",
    StructType([PLAN_ID, *fields_of(MoveRow), PARTIAL]),
    key=("plan_id", "slot"),
    partition_by=("plan_id",),
)

REBALANCE_LOAD = Table(
    "gold/rebalance_load",
    "Load of every master before and after, one row a resource.",
    StructType([PLAN_ID, *fields_of(LoadRow), PARTIAL]),
    key=("plan_id", "node_id", "resource"),
    partition_by=("plan_id",),
)

REBALANCE_SLOTS = Table(
    "gold/rebalance_slots",
    "What was planned with, one row a slot: with the plan's document, all that checking it needs.",
    StructType([PLAN_ID, *fields_of(SlotRow), PARTIAL]),
    key=("plan_id", "slot"),
    partition_by=("plan_id",),
)

REBALANCE_TOLERANCES = Table(
    "gold/rebalance_tolerances",
    "What other tolerances would cost: balance against bytes, slots, ranges and time.",
    StructType([PLAN_ID, *fields_of(ToleranceRow), PARTIAL]),
    key=("plan_id", "tolerance"),
    partition_by=("plan_id",),
)

REBALANCE_HEAVY = Table(
    "gold/rebalance_heavy",
    "Slots that alone are over a limit, with the hash tags and keys that make them so.",
    StructType([PLAN_ID, *with_texts(fields_of(HeavyRow)), PARTIAL]),
    key=("plan_id", "slot", "resource", "rank"),
    partition_by=("plan_id",),
)
