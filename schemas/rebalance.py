"""Tables of rebalancing plans: what was planned with, what is to move, what it brings, and what stands in the way."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.table import PARTIAL, Table, optional, required, with_texts

PLAN_ID = required("plan_id", StringType(), "digest of what was planned with and of the plan")


def _told(name: str, about: str) -> StructField:
    return optional(name, MapType(StringType(), DoubleType(), valueContainsNull=False), f"{about}, by resource")


WARNING = StructType(
    [
        required("severity", StringType(), "error, warning or note"),
        required("code", StringType(), "which warning it is"),
        required("text", StringType(), "the warning in words"),
    ]
)


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
            optional(
                "warnings", ArrayType(WARNING, containsNull=False), "what to know before trusting it, the gravest first"
            ),
            PARTIAL,
        ]
    ),
    key=("plan_id",),
)

REBALANCE_MOVES = Table(
    "gold/rebalance_moves",
    "One row a slot that moves.",
    StructType(
        [
            PLAN_ID,
            required("batch", IntegerType(), "1 runs first; moves of one batch run together"),
            required("slot", IntegerType(), "0 to 16383"),
            required("source", StringType(), "node id of the master that gives it away"),
            required("target", StringType(), "node id of the master that gets it"),
            optional("bytes", LongType(), "bytes that move; null where no source knows sizes"),
            optional("keys", LongType(), "keys that move; null where no source counts keys"),
            PARTIAL,
        ]
    ),
    key=("plan_id", "slot"),
    partition_by=("plan_id",),
)

REBALANCE_LOAD = Table(
    "gold/rebalance_load",
    "Load of every master before and after, one row a resource.",
    StructType(
        [
            PLAN_ID,
            required("node_id", StringType(), "master"),
            required("address", StringType(), "host:port"),
            required("zone", StringType(), "zone or rack; empty if none was given"),
            required("role", StringType(), "stays, added, drained or excluded"),
            required("resource", StringType(), "what is measured"),
            optional(
                "balanced",
                BooleanType(),
                "whether the plan balances it; false: its fair share and limit are what they would be",
            ),
            required("before", DoubleType(), "load before"),
            required("after", DoubleType(), "load afterwards"),
            required("fair", DoubleType(), "its fair share; 0 for a drained or excluded master"),
            required("limit", DoubleType(), "what it may hold; 0 for a drained master"),
            optional("capacity", DoubleType(), "what it can hold; null if none was given"),
            required("slots_before", IntegerType(), "slots before"),
            required("slots_after", IntegerType(), "slots afterwards"),
            required("ranges_before", IntegerType(), "slot ranges before"),
            required("ranges_after", IntegerType(), "slot ranges afterwards"),
            PARTIAL,
        ]
    ),
    key=("plan_id", "node_id", "resource"),
    partition_by=("plan_id",),
)

REBALANCE_SLOTS = Table(
    "gold/rebalance_slots",
    "What was planned with, one row a slot: with the plan's document, all that checking it needs.",
    StructType(
        [
            PLAN_ID,
            required("slot", IntegerType(), "0 to 16383"),
            required("owner", StringType(), "node id of its master before"),
            required("planned_owner", StringType(), "node id of its master afterwards"),
            _by_resource("loads", "load of the slot"),
            PARTIAL,
        ]
    ),
    key=("plan_id", "slot"),
    partition_by=("plan_id",),
)

REBALANCE_TOLERANCES = Table(
    "gold/rebalance_tolerances",
    "What other tolerances would cost: balance against bytes, slots, ranges and time.",
    StructType(
        [
            PLAN_ID,
            required("tolerance", DoubleType(), "above the fair share, of every resource"),
            required("moved_bytes", LongType(), "what would move, in the resource of cost"),
            required("lower_bound_bytes", LongType(), "what would have to move at least"),
            required("moved_slots", IntegerType(), "slots that would move"),
            required("ranges", IntegerType(), "slot ranges afterwards"),
            required("estimated_s", DoubleType(), "seconds it should take"),
            required("max_over_mean", DoubleType(), "heaviest master over its fair share afterwards, worst resource"),
            optional("verdict", StringType(), "what became of its limits, in the words of gold/rebalance_plans"),
            PARTIAL,
        ]
    ),
    key=("plan_id", "tolerance"),
    partition_by=("plan_id",),
)

REBALANCE_HEAVY = Table(
    "gold/rebalance_heavy",
    "Slots that alone are over a limit, with the hash tags and keys that make them so.",
    StructType(
        [
            PLAN_ID,
            required("slot", IntegerType(), "0 to 16383"),
            required("node_id", StringType(), "master that is to hold it"),
            required("resource", StringType(), "resource that is too much"),
            required("ratio", DoubleType(), "load of the slot over a fair share"),
            required("pieces", IntegerType(), "slots over which its keys must be spread to fit"),
            optional("rank", IntegerType(), "1 is the heaviest part; null if no part is known"),
            *with_texts(
                [optional("hash_tag", BinaryType(), "hash tag of the part; null where it has none, or none is known")]
            ),
            *with_texts([optional("key", BinaryType(), "the key, where one key is the part")]),
            optional("keys", LongType(), "keys of the part"),
            optional("bytes", LongType(), "bytes of the part"),
            optional("share", DoubleType(), "of the slot's load, 0 to 1"),
            optional("part_pieces", IntegerType(), "into how many pieces the tag must be split"),
            PARTIAL,
        ]
    ),
    key=("plan_id", "slot", "resource", "rank"),
    partition_by=("plan_id",),
)
