"""Tables of what happened to a cluster: incidents, their steps, findings.

Times stand twice, as in `schemas.history`: as timestamp (UTC, microseconds) and as ``*_ns`` since the epoch.
"""

from __future__ import annotations

from cluster_core.incidents.rows import FindingRow, IncidentRow, StepRow
from schemas.table import fields_of, snapshot_table

INCIDENTS = snapshot_table(
    "gold/incidents",
    "One row a failure, failover, resharding, epoch collision, partition, membership change or flapping node.",
    fields_of(IncidentRow),
    key=("incident",),
)

INCIDENT_STEPS = snapshot_table(
    "gold/incident_steps",
    "What happened in each incident, one row a step, in order.",
    fields_of(StepRow),
    key=("incident", "step"),
)

FINDINGS = snapshot_table(
    "gold/findings",
    "What should not be, or is worth knowing: broken invariants, contradictions, risks of the layout, costs.",
    fields_of(FindingRow),
    key=("finding",),
)
