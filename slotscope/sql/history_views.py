"""Views of what happened to a cluster, and of what its nodes believed."""

from __future__ import annotations

from typing import Final

from slotscope.sql.view import View

HISTORY_VIEWS: Final = (
    View(
        "node_addresses",
        "The last address at which each node was known to anybody.",
        ("node_views",),
        {"snapshot_id": "", "node_id": "", "address": "ip:port, the last that any observer believed"},
        """
SELECT snapshot_id, node_id, max_by(concat(ip, ':', CAST(port AS STRING)), valid_from_ns) AS address
FROM node_views
WHERE ip <> ''
GROUP BY snapshot_id, node_id
""",
    ),
    View(
        "node_views_at",
        "What every observer believed about every node at one moment: what CLUSTER NODES would have said.",
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
        "Who owned which slots at one moment: as each observer believed, and, with an empty observer, as all agreed.",
        ("slot_owners",),
        dict.fromkeys(
            ("snapshot_id", "observer", "first_slot", "last_slot", "owner", "owners", "valid_from", "valid_to"), ""
        ),
        """
SELECT snapshot_id, observer, first_slot, last_slot, owner, owners, valid_from, valid_to
FROM slot_owners
WHERE valid_from <= moment AND (valid_to IS NULL OR valid_to > moment)
""",
        parameter=("moment", "TIMESTAMP"),
    ),
    View(
        "outages",
        "When slots, or a master that sentinels watch, were out of service: each failover once, and each failure that none ended.",
        ("incidents",),
        {
            **dict.fromkeys(("snapshot_id", "incident", "kind", "variant", "subject", "subject_address"), ""),
            **dict.fromkeys(("winner_address", "slot_count", "slots", "started_at"), ""),
            "outage_ms": "from the last sign of life to the new master's win, or to the return; null if the capture ends before",
            "is_over": "whether somebody served again before the capture ends",
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
        "Failures that no failover ended, one row for each thing that kept a replica from taking over.",
        ("incidents", "incident_steps"),
        {
            **dict.fromkeys(("snapshot_id", "incident", "subject", "subject_address", "slot_count", "started_at"), ""),
            "hindrance": "kind of the step: no-replica, barred, voter-gone, election-stalled, none-chosen ...; null: none is known",
            "actor": "node that it holds for",
            "at_ms": "since the incident began",
            "why": "the step in plain words; null where the evidence does not tell",
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
        "How every voting master answered each request for its vote; replicas, which have none, are left out.",
        ("votes", "node_addresses"),
        {
            **dict.fromkeys(("snapshot_id", "epoch", "candidate"), ""),
            "candidate_address": "its ip:port; null if nobody knew it",
            "voter": "",
            "voter_address": "its ip:port; null if nobody knew it",
            **dict.fromkeys(("asked", "answered", "granted"), ""),
            "refusal": "why it gave no vote; null where it gave one",
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
