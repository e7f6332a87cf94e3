"""Views of plans: what they promise, what they move, and what came of it."""

from __future__ import annotations

from typing import Final

from slotscope.sql.view import View

PLAN_VIEWS: Final = (
    View(
        "plan_promises",
        "Promised and measured balance of each plan by resource, with its cost.",
        ("rebalance_plans", "rebalance_load", "plan_audits"),
        {
            **dict.fromkeys(("plan_id", "created_at", "snapshot_id", "verdict", "resource", "balanced"), ""),
            "over_fair_before": "heaviest master over its fair share before",
            "over_fair_promised": "heaviest master over its fair share afterwards, as planned",
            "over_fair_measured": "heaviest master over its fair share afterwards, as measured by plan audit; null without an audit",
            "kept": "",
            "audited_by": "source of the audit: cluster HOST:PORT or snapshot NAME; null without an audit",
            **dict.fromkeys(
                ("cost", "moved_bytes", "lower_bound_bytes", "moved_slots", "ranges_before", "ranges_after"), ""
            ),
            **dict.fromkeys(("estimated_s", "partial"), ""),
        },
        """
SELECT
  plans.plan_id, plans.created_at, plans.snapshot_id, plans.verdict, loads.resource, loads.balanced,
  loads.over_fair_before, loads.over_fair_promised, audits.measured AS over_fair_measured, audits.kept, audits.source AS audited_by,
  plans.cost, plans.moved_bytes, plans.lower_bound_bytes, plans.moved_slots, plans.ranges_before, plans.ranges_after,
  plans.estimated_s, plans.partial
FROM rebalance_plans AS plans
JOIN (
  SELECT
    plan_id, resource, max(balanced) AS balanced, max(before / nullif(fair, 0)) AS over_fair_before,
    max(after / nullif(fair, 0)) AS over_fair_promised
  FROM rebalance_load GROUP BY plan_id, resource
) AS loads ON loads.plan_id = plans.plan_id
LEFT JOIN plan_audits AS audits ON audits.plan_id = plans.plan_id AND audits.aspect = 'load' AND audits.resource = loads.resource
""",
    ),
    View(
        "plan_moves",
        "Moves of each plan, one row a run of adjacent slots in a batch.",
        ("rebalance_moves", "rebalance_load"),
        {
            "plan_id": "",
            "batch": "",
            "source_address": "host:port of the source master",
            "target_address": "host:port of the target master",
            "first_slot": "first slot of the run",
            "last_slot": "last slot of the run",
            "slots": "slots in the run",
            "keys": "moved keys; null if no source counts keys",
            "bytes": "moved bytes; null if no source has sizes",
            "source": "",
            "target": "",
        },
        """
WITH placed AS (
  SELECT
    plan_id, batch, slot, source, target, keys, bytes,
    slot - row_number() OVER (PARTITION BY plan_id, batch, source, target ORDER BY slot) AS run
  FROM rebalance_moves
), addresses AS (
  SELECT DISTINCT plan_id, node_id, address FROM rebalance_load
)
SELECT
  placed.plan_id, batch, max(givers.address) AS source_address, max(takers.address) AS target_address,
  min(slot) AS first_slot, max(slot) AS last_slot, CAST(count(*) AS INT) AS slots,
  CAST(sum(keys) AS BIGINT) AS keys, CAST(sum(bytes) AS BIGINT) AS bytes, source, target
FROM placed
LEFT JOIN addresses AS givers ON givers.plan_id = placed.plan_id AND givers.node_id = source
LEFT JOIN addresses AS takers ON takers.plan_id = placed.plan_id AND takers.node_id = target
GROUP BY placed.plan_id, batch, source, target, run
""",
    ),
)
