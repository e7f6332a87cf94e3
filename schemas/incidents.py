"""Tables of what happened to a cluster: incidents, their steps, findings.

Times stand twice, as in `schemas.history`: as timestamp (UTC, microseconds) and as ``*_ns`` since the epoch.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from cluster_core.incidents.rows import FindingRow, IncidentRow, StepRow
from schemas.bronze import SNAPSHOT_ID
from schemas.table import Table, fields_of

INCIDENTS = Table(
    "gold/incidents",
    "One row a failure, failover, resharding, epoch collision, partition, membership change or flapping node.",
    StructType([SNAPSHOT_ID, *fields_of(IncidentRow)]),
    key=("snapshot_id", "incident"),
    partition_by=("snapshot_id",),
)

INCIDENT_STEPS = Table(
    "gold/incident_steps",
    "What happened in each incident, one row a step, in order.",
    StructType([SNAPSHOT_ID, *fields_of(StepRow)]),
    key=("snapshot_id", "incident", "step"),
    partition_by=("snapshot_id",),
)

FINDINGS = Table(
    "gold/findings",
    "What should not be, or is worth knowing: broken invariants, contradictions, risks of the layout, costs.",
    StructType([SNAPSHOT_ID, *fields_of(FindingRow)]),
    key=("snapshot_id", "finding"),
    partition_by=("snapshot_id",),
)
