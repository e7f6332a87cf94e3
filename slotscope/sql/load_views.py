"""Views of the key space: load per master, big keys, hash tags, prefixes, growth."""

from __future__ import annotations

from typing import Final

from slotscope.sql.view import View

_NEW_SNAPSHOT = {"snapshot_id": "newest snapshot of the cluster"}
_GROWN = "; null where one snapshot does not list the prefix"

LOAD_VIEWS: Final = (
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
        "key_types_now",
        "Keys and bytes by type in the newest snapshot.",
        ("key_types", "snapshot_order"),
        {
            **_NEW_SNAPSHOT,
            **dict.fromkeys(("type", "keys", "serialized_bytes", "memory_bytes", "expires"), ""),
            "keys_share": "share of all keys of the snapshot",
        },
        """
SELECT
  types.snapshot_id, type, CAST(sum(types.keys) AS BIGINT) AS keys, CAST(sum(types.serialized_bytes) AS BIGINT) AS serialized_bytes,
  CAST(sum(memory_bytes) AS BIGINT) AS memory_bytes, CAST(sum(expires) AS BIGINT) AS expires,
  CAST(sum(types.keys) AS DOUBLE) / nullif(max(newest.keys), 0) AS keys_share
FROM key_types AS types
JOIN snapshot_order AS newest ON newest.snapshot_id = types.snapshot_id AND newest.is_newest
GROUP BY types.snapshot_id, type
""",
    ),
    View(
        "prefix_types",
        "Exact numbers of keys by prefix and type, of snapshots with --keep-keys.",
        ("keys",),
        {
            "snapshot_id": "",
            "prefix_text": "prefix up to the first colon, as text; empty for keys without one",
            "type": "",
            "keys": "keys of the type below the prefix",
            "serialized_bytes": "dump bytes",
            "memory_bytes": "estimated memory of keys with a model",
        },
        """
SELECT
  snapshot_id, regexp_extract(key_text, '^([^:]*:)', 1) AS prefix_text, type, count(*) AS keys,
  CAST(sum(serialized_bytes) AS BIGINT) AS serialized_bytes, CAST(sum(memory_bytes) AS BIGINT) AS memory_bytes
FROM keys
GROUP BY snapshot_id, regexp_extract(key_text, '^([^:]*:)', 1), type
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
        "heaviest_hash_tags",
        "Heaviest hash tags of the newest snapshot; all keys of a tag share one slot.",
        ("hash_tags", "snapshot_order"),
        {
            **_NEW_SNAPSHOT,
            **dict.fromkeys(
                (
                    *("hash_tag_text", "hash_tag", "slot", "node_id", "keys", "keys_error"),
                    *("memory_bytes", "memory_error", "serialized_bytes", "bytes_error"),
                ),
                "",
            ),
            "keys_share": "share of all keys of the snapshot",
            "rank_bytes": "",
            "partial": "",
        },
        """
SELECT
  tags.snapshot_id, hash_tag_text, hash_tag, slot, node_id, tags.keys, keys_error,
  memory_bytes, memory_error, tags.serialized_bytes, bytes_error,
  CAST(tags.keys AS DOUBLE) / nullif(newest.keys, 0) AS keys_share,
  rank_bytes, tags.partial
FROM hash_tags AS tags
JOIN snapshot_order AS newest ON newest.snapshot_id = tags.snapshot_id AND newest.is_newest
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
)
