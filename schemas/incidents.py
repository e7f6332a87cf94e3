"""Tables of what happened to a cluster: incidents, their steps, findings.

Times stand twice, as in `schemas.history`: as timestamp (UTC, microseconds) and as ``*_ns`` since the epoch.
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

INCIDENT_STATES = snapshot_table(
    "gold/incident_states",
    "What follow last said of each incident: that it is open, closed, or was withdrawn because later files showed something else.",
    [
        required("incident_id", TEXT, "the incident, as in gold/incidents"),
        required("state", TEXT, "open, closed or withdrawn"),
        required("summary", TEXT, "the whole in one sentence, as it was said"),
        required("page", TEXT, "its page"),
        *instant("told", "when it was said, by the clock of the follower"),
        optional(
            "failure",
            TEXT,
            "why the command or the webhook did not take its closing; null if they did, or there are none",
        ),
        required("attempts", INTEGER, "how often its closing was told"),
    ],
    key=("incident_id",),
)
