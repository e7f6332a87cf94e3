"""Views of what happened to a cluster, and of what its nodes believed."""

from __future__ import annotations

from typing import Final

from slotscope.sql.view import View

HISTORY_VIEWS: Final = (
    View(
        "node_addresses",
        "Last known address of each node.",
        ("node_views",),
        {"snapshot_id": "", "node_id": "", "address": "ip:port, last one in any view"},
        """
SELECT snapshot_id, node_id, max_by(concat(ip, ':', CAST(port AS STRING)), valid_from_ns) AS address
FROM node_views
WHERE ip <> ''
GROUP BY snapshot_id, node_id
""",
    ),
    View(
        "node_views_at",
        "State of every node in the view of every observer at one moment, as in CLUSTER NODES.",
        ("node_views",),
        dict.fromkeys(
            (
                "snapshot_id",
                "observer",
                "node_id",
                "ip",
                "port",
                "flags",
                "master_id",
                "config_epoch",
                "slots",
                "link_known",
                "valid_from",
                "valid_to",
                "cause",
            ),
            "",
        ),
        """
SELECT
  snapshot_id, observer, node_id, ip, port, flags, master_id, config_epoch, slots, link_known, valid_from, valid_to, cause
FROM node_views
WHERE valid_from <= moment AND (valid_to IS NULL OR valid_to > moment)
""",
        parameter=("moment", "TIMESTAMP"),
    ),
    View(
        "slot_owners_at",
        "Slot owners at one moment, in the view of each observer and (empty observer) where all agreed.",
        ("slot_owners",),
        dict.fromkeys(
            (
                "snapshot_id",
                "observer",
                "first_slot",
                "last_slot",
                "owner",
                "owners",
                "valid_from_min",
                "valid_from",
                "valid_to_min",
                "valid_to",
                "evidence",
            ),
            "",
        ),
        """
SELECT
  snapshot_id, observer, first_slot, last_slot, owner, owners, valid_from_min, valid_from, valid_to_min, valid_to, evidence
FROM slot_owners
WHERE valid_from <= moment AND (valid_to IS NULL OR valid_to > moment)
""",
        parameter=("moment", "TIMESTAMP"),
    ),
    View(
        "outages",
        "Outages of slots, or of masters under Sentinel: each failover, and each failure without one.",
        ("incidents",),
        {
            **dict.fromkeys(("snapshot_id", "incident", "kind", "variant", "subject", "subject_address"), ""),
            **dict.fromkeys(("winner_address", "slot_count", "slots", "started_at"), ""),
            "outage_ms": "longest time without service; null while its end is not known",
            "is_over": "whether service returned before the capture ends",
            "rests_on_gap": "",
            "summary": "",
        },
        """
SELECT
  snapshot_id, incident, kind, variant, subject, subject_address, winner_address, slot_count, slots, started_at, outage_ms,
  outage_ms IS NOT NULL AS is_over, rests_on_gap, summary
FROM incidents
WHERE kind IN ('failure', 'failover') AND (slot_count > 0 OR incident_id LIKE 'sentinel-%')
""",
    ),
    View(
        "why_no_failover",
        "Failures without a failover, one row a reason.",
        ("incidents", "incident_steps"),
        {
            **dict.fromkeys(("snapshot_id", "incident", "subject", "subject_address", "slot_count", "started_at"), ""),
            "hindrance": "reason: no-replica, barred, voter-gone, election-stalled, none-chosen …; null if unknown",
            "actor": "node with this reason",
            "at_ms": "ms since the start of the incident",
            "why": "explanation; null if unknown",
        },
        """
SELECT
  failed.snapshot_id, failed.incident, failed.subject, failed.subject_address, failed.slot_count, failed.started_at,
  steps.kind AS hindrance, steps.actor, steps.offset_ms AS at_ms, steps.text AS why
FROM incidents AS failed
LEFT JOIN incident_steps AS steps
  ON steps.snapshot_id = failed.snapshot_id AND steps.incident = failed.incident AND steps.kind IN (
    'no-replica', 'barred', 'voter-gone', 'no-vote', 'election-stalled', 'manual-failover-timed-out',
    'none-chosen', 'not-elected', 'no-failover', 'delayed', 'failover-timed-out'
  )
WHERE failed.kind = 'failure' AND (failed.slot_count > 0 OR failed.incident_id LIKE 'sentinel-%')
""",
    ),
    View(
        "election_votes",
        "Answers of voting masters to vote requests; replicas have no vote and are left out.",
        ("votes", "node_addresses"),
        {
            **dict.fromkeys(("snapshot_id", "epoch", "candidate"), ""),
            "candidate_address": "its ip:port; null if unknown",
            "voter": "",
            "voter_address": "its ip:port; null if unknown",
            **dict.fromkeys(("asked", "answered", "granted"), ""),
            "refusal": "reason of a refusal; null for a vote",
        },
        """
SELECT
  votes.snapshot_id, epoch, candidate, candidates.address AS candidate_address, voter, voters.address AS voter_address,
  asked, answered, granted, CASE WHEN NOT granted THEN reason END AS refusal
FROM votes
LEFT JOIN node_addresses AS candidates ON candidates.snapshot_id = votes.snapshot_id AND candidates.node_id = candidate
LEFT JOIN node_addresses AS voters ON voters.snapshot_id = votes.snapshot_id AND voters.node_id = voter
WHERE granted OR reason <> 'not a voting master'
""",
    ),
)
