"""Tables of incidents, their steps, findings, and the states that `follow` reported.

Times have two columns, as in `schemas.history`.
"""

from __future__ import annotations

from cluster_core.incidents.rows import FindingRow, IncidentRow, StepRow
from schemas.table import INTEGER, TEXT, fields_of, instant, optional, required, snapshot_table

INCIDENTS = snapshot_table(
    "gold/incidents",
    "One row a failure, failover, resharding, epoch collision, partition, membership change or flapping node.",
    fields_of(IncidentRow),
    key=("incident",),
)

INCIDENT_STEPS = snapshot_table(
    "gold/incident_steps",
    "Steps of each incident, in order.",
    fields_of(StepRow),
    key=("incident", "step"),
)

FINDINGS = snapshot_table(
    "gold/findings",
    "Broken invariants, contradictions and layout risks.",
    fields_of(FindingRow),
    key=("finding",),
    each_batch=True,  # the last time of a finding that lasts
)

INCIDENT_STATES = snapshot_table(
    "gold/incident_states",
    "Last reported state of each incident in `follow`: open, closed or withdrawn.",
    [
        required("incident_id", TEXT, "incident, as in gold/incidents"),
        required("state", TEXT, "open, closed or withdrawn"),
        required("summary", TEXT, "summary in one sentence"),
        required("page", TEXT, "page of the incident"),
        *instant("told", "time of the report, by the follower's clock"),
        optional(
            "failure",
            TEXT,
            "why the command or webhook failed; null if delivered or not configured",
        ),
        required("attempts", INTEGER, "delivery attempts of the state"),
    ],
    key=("incident_id",),
)
