"""Table of audits: what plans promised, and what was measured after they were carried out."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, DoubleType, StringType, StructType, TimestampType

from schemas.table import Table, optional, required

PLAN_AUDITS = Table(
    "gold/plan_audits",
    "One row an aspect of an audit, for loads one a resource; an audit of the same plan and source replaces the one before.",
    StructType(
        [
            required("plan_id", StringType(), "the plan that is audited"),
            required("source", StringType(), "what was measured: cluster HOST:PORT or snapshot NAME"),
            required("audited_at", TimestampType(), "when, UTC"),
            required("aspect", StringType(), "owners, open slots, keys left behind, sum of keys, load, moved or time"),
            required("resource", StringType(), "resource of a load, unit of the others; empty for counts"),
            optional("promised", DoubleType(), "for loads the heaviest master over its fair share that was announced"),
            optional("measured", DoubleType(), "the same as measured; null if it could not be"),
            optional("allowed", DoubleType(), "the most that keeps the promise; null where nothing was promised"),
            optional("kept", BooleanType(), "whether the promise was kept; null if nothing can be compared"),
            required("detail", StringType(), "how it was measured, what is wrong or why it was not compared"),
        ]
    ),
    key=("plan_id", "source", "aspect", "resource"),
    partition_by=("plan_id",),
)
