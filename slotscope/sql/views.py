"""Views over the tables of a root, in SQL of DuckDB."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from schemas.catalogue import TABLES
from schemas.table import Table


class View(NamedTuple):
    """A *query* over tables and views by their last names, with one sentence *about* it and its *columns*, in order.

    A column maps to its comment; an empty comment is inherited from the first of *uses* with that column.
    """

    name: str
    about: str
    uses: tuple[str, ...]
    columns: dict[str, str]
    query: str


_NEW_SNAPSHOT = {"snapshot_id": "newest snapshot of the cluster"}
_GROWN = "; null where one snapshot does not list the prefix"

VIEWS: Final = (
    View(
        "snapshot_order",
        "Finished snapshots in order of time, per cluster.",
        ("snapshots",),
        {
            "place": "position in its cluster, 1 is the oldest: by time of the dumps, then time of writing",
            "is_newest": "whether it is the newest of its cluster",
            **dict.fromkeys(
                ("snapshot_id", "cluster", "taken_at", "written_at", "keys", "serialized_bytes", "partial"), ""
            ),
        },
        """
SELECT
  place, place = max(place) OVER (PARTITION BY cluster) AS is_newest, snapshot_id, cluster, taken_at, written_at, keys, serialized_bytes, partial
FROM (
  SELECT
    CAST(row_number() OVER (
      PARTITION BY cluster ORDER BY taken_at NULLS FIRST, written_at NULLS FIRST, snapshot_id
    ) AS INT) AS place,
    snapshot_id, cluster, taken_at, written_at, keys, serialized_bytes, partial
  FROM snapshots
) AS placed
""",
    ),
    View(
        "node_load_now",
        "Load of every master in the newest snapshot.",
        ("node_load", "snapshot_order"),
        {
            **_NEW_SNAPSHOT,
            **dict.fromkeys(
                ("taken_at", "node_id", "address", "slots", "keys", "serialized_bytes", "memory_bytes"), ""
            ),
            **dict.fromkeys(("expires", "ops", "keys_share", "bytes_share", "keys_over_mean", "bytes_over_mean"), ""),
            "memory_over_mean": "memory over the mean of all masters; null without a model",
            "partial": "",
        },
        """
SELECT
  loads.snapshot_id, newest.taken_at, node_id, address, slots, loads.keys, loads.serialized_bytes, memory_bytes, expires, ops,
  keys_share, bytes_share, keys_over_mean, bytes_over_mean,
  CAST(memory_bytes AS DOUBLE) * count(node_id) OVER (PARTITION BY loads.snapshot_id)
    / nullif(sum(memory_bytes) OVER (PARTITION BY loads.snapshot_id), 0) AS memory_over_mean,
  loads.partial
FROM node_load AS loads
JOIN snapshot_order AS newest ON newest.snapshot_id = loads.snapshot_id AND newest.is_newest
""",
    ),
    View(
        "biggest_keys",
        "Biggest keys of the newest snapshot in gold/big_keys.",
        ("big_keys", "snapshot_order"),
        {
            **_NEW_SNAPSHOT,
            "rank": "rank by memory, without a model by dump bytes; 1 is the biggest",
            **dict.fromkeys(
                ("db", "key_text", "key", "type", "encoding", "elements", "memory_bytes", "serialized_bytes"), ""
            ),
            **dict.fromkeys(("slot", "node_id", "partial"), ""),
        },
        """
SELECT
  snapshot_id,
  CAST(row_number() OVER (
    PARTITION BY snapshot_id ORDER BY coalesce(memory_bytes, serialized_bytes) DESC NULLS LAST, serialized_bytes DESC NULLS LAST, key, db, node_id
  ) AS INT) AS rank,
  db, key_text, key, type, encoding, elements, memory_bytes, serialized_bytes, slot, node_id, partial
FROM (
  SELECT DISTINCT
    listed.snapshot_id, db, key_text, key, type, encoding, elements, memory_bytes, listed.serialized_bytes, slot, node_id,
    listed.partial, source
  FROM big_keys AS listed
  JOIN snapshot_order AS newest ON newest.snapshot_id = listed.snapshot_id AND newest.is_newest
) AS listed_once
""",
    ),
    View(
        "prefix_growth",
        "Growth of keys and bytes below each listed prefix between two snapshots.",
        ("key_prefixes", "snapshot_order"),
        {
            "snapshot_before": "earlier snapshot",
            "snapshot_after": "later snapshot",
            "snapshots_apart": "distance in snapshots; 1: adjacent",
            **dict.fromkeys(("prefix_text", "prefix", "depth"), ""),
            "keys_before": "keys in the earlier snapshot; null if not listed there",
            "keys_after": "keys in the later snapshot; null if not listed there",
            "keys_grown": f"growth of keys{_GROWN}",
            "bytes_before": "dump bytes in the earlier snapshot; null if not listed there",
            "bytes_after": "dump bytes in the later snapshot; null if not listed there",
            "bytes_grown": f"growth of dump bytes{_GROWN}",
            "memory_before": "memory in the earlier snapshot; null if not listed there or without a model",
            "memory_after": "memory in the later snapshot; null if not listed there or without a model",
            "memory_grown": f"growth of memory{_GROWN} or without a model",
            "keys_error": "bound of the error of the growth",
            "bytes_error": "bound of the error of the growth",
        },
        """
WITH pairs AS (
  SELECT
    earlier.snapshot_id AS snapshot_before, later.snapshot_id AS snapshot_after, later.place - earlier.place AS snapshots_apart
  FROM snapshot_order AS earlier
  JOIN snapshot_order AS later ON earlier.place < later.place AND earlier.cluster IS NOT DISTINCT FROM later.cluster
), listed AS (
  SELECT snapshot_before, snapshot_after, snapshots_apart, prefix_text, prefix, depth, keys_error, bytes_error,
    keys AS keys_before, CAST(NULL AS BIGINT) AS keys_after,
    serialized_bytes AS bytes_before, CAST(NULL AS BIGINT) AS bytes_after,
    memory_bytes AS memory_before, CAST(NULL AS BIGINT) AS memory_after
  FROM key_prefixes JOIN pairs ON snapshot_id = snapshot_before
  UNION ALL
  SELECT snapshot_before, snapshot_after, snapshots_apart, prefix_text, prefix, depth, keys_error, bytes_error,
    CAST(NULL AS BIGINT), keys, CAST(NULL AS BIGINT), serialized_bytes, CAST(NULL AS BIGINT), memory_bytes
  FROM key_prefixes JOIN pairs ON snapshot_id = snapshot_after
)
SELECT
  snapshot_before, snapshot_after, snapshots_apart, min(prefix_text) AS prefix_text, prefix, depth,
  max(keys_before) AS keys_before, max(keys_after) AS keys_after, max(keys_after) - max(keys_before) AS keys_grown,
  max(bytes_before) AS bytes_before, max(bytes_after) AS bytes_after, max(bytes_after) - max(bytes_before) AS bytes_grown,
  max(memory_before) AS memory_before, max(memory_after) AS memory_after, max(memory_after) - max(memory_before) AS memory_grown,
  max(keys_error) AS keys_error, max(bytes_error) AS bytes_error
FROM listed
GROUP BY snapshot_before, snapshot_after, snapshots_apart, prefix, depth
""",
    ),
    View(
        "plan_promises",
        "Promised and measured balance of each plan by resource, with its cost.",
        ("rebalance_plans", "rebalance_load", "plan_audits"),
        {
            **dict.fromkeys(("plan_id", "created_at", "snapshot_id", "verdict", "resource"), ""),
            "over_fair_before": "heaviest master over its fair share before",
            "over_fair_promised": "heaviest master over its fair share afterwards, as planned",
            "over_fair_measured": "heaviest master over its fair share afterwards, as measured by plan audit; null without an audit",
            "kept": "",
            "audited_by": "source of the audit: cluster HOST:PORT; null without an audit",
            **dict.fromkeys(
                ("cost", "moved_bytes", "lower_bound_bytes", "moved_slots", "ranges_before", "ranges_after"), ""
            ),
            **dict.fromkeys(("estimated_s", "partial"), ""),
        },
        """
SELECT
  plans.plan_id, plans.created_at, plans.snapshot_id, plans.verdict, loads.resource,
  loads.over_fair_before, loads.over_fair_promised, audits.measured AS over_fair_measured, audits.kept, audits.source AS audited_by,
  plans.cost, plans.moved_bytes, plans.lower_bound_bytes, plans.moved_slots, plans.ranges_before, plans.ranges_after,
  plans.estimated_s, plans.partial
FROM rebalance_plans AS plans
JOIN (
  SELECT
    plan_id, resource, max(before / nullif(fair, 0)) AS over_fair_before,
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
)
"""In order of dependency."""

READ: Final = re.compile(r"\b(?:from|join)\s+(\w+)")
"""Tables and views in a query in lower case."""


def column_comments(view: View) -> dict[str, str]:
    """Return the comment of each column of *view*; raises KeyError for a column without one."""
    known = {table.sql_name: table for table in TABLES}
    views = {other.name: other for other in VIEWS}
    inherited: dict[str, str] = {}
    for used in view.uses:
        if used in views:
            comments = column_comments(views[used])
        else:
            comments = {field.name: field.metadata[b"comment"].decode() for field in known[used].schema}
        inherited = comments | inherited
    return {name: comment or inherited[name] for name, comment in view.columns.items()}


def tables_named(query: str) -> list[Table]:
    """Return the tables that *query* reads, directly or by views."""
    names = set(READ.findall(query.lower()))
    for view in reversed(VIEWS):
        if view.name in names:
            names.update(view.uses)
    return [table for table in TABLES if table.sql_name in names]
