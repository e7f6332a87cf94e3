"""Tables of plans that are carried out."""

from __future__ import annotations

from pyspark.sql.types import StructType

from cluster_core.rebalance.table_rows import PlanStepRow
from schemas.table import Table, fields_of

PLAN_STEPS = Table(
    "silver/plan_steps",
    "Journal of executions: what was about to be done, and what came of it.",
    StructType(fields_of(PlanStepRow)),
    key=("plan_id", "run_id", "seq"),
    partition_by=("plan_id",),
)
