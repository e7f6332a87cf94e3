"""Tables of plans that are carried out."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

from schemas.table import Table, optional, required

PLAN_STEPS = Table(
    "silver/plan_steps",
    "Journal of executions: what was about to be done, and what came of it.",
    StructType(
        [
            required("plan_id", StringType(), "the plan that is carried out"),
            required("run_id", StringType(), "one run of execute-plan"),
            required("seq", IntegerType(), "number of the row within its run, from 1"),
            required("ts", TimestampType(), "when it was written, UTC"),
            required("batch", IntegerType(), "batch of the plan, 0 where it concerns none"),
            optional("source", StringType(), "master that gives, null where it concerns none"),
            optional("target", StringType(), "master that takes, null where it concerns none"),
            optional("slots", StringType(), "slots as in CLUSTER NODES: 1-3 7"),
            required(
                "step",
                StringType(),
                "started, intent, done, failed, cancelled, paused, refused, revived, rolled-back, finished",
            ),
            optional("detail", StringType(), "more in words"),
            optional("keys", LongType(), "keys that were sent, if counted"),
            optional("seconds", DoubleType(), "how long it took"),
        ]
    ),
    key=("plan_id", "run_id", "seq"),
    partition_by=("plan_id",),
)
