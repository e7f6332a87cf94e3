"""Table of audits: what plans promised, and what was measured after they were carried out."""

from __future__ import annotations

from pyspark.sql.types import StructType

from cluster_core.rebalance.table_rows import PlanAuditRow
from schemas.table import Table, fields_of

PLAN_AUDITS = Table(
    "gold/plan_audits",
    "One row an aspect of an audit, for loads one a resource; an audit of the same plan and source replaces the one before.",
    StructType(fields_of(PlanAuditRow)),
    key=("plan_id", "source", "aspect", "resource"),
    partition_by=("plan_id",),
)
