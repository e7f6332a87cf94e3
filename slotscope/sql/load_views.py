"""Views of what keys weigh and where they lie."""

from __future__ import annotations

from typing import Final

from slotscope.sql.view import View

_NEW_SNAPSHOT = {"snapshot_id": "the newest snapshot of a cluster"}
_GROWN = "; null where it is not among the listed of one of them"

LOAD_VIEWS: Final = (
    View(
        "snapshot_order",
        "Finished snapshots of the key space, oldest first, each cluster by itself.",
        ("snapshots",),
        {
            "place": "1 is the oldest of its cluster: by time of the dumps, then by when the snapshot was written",
            "is_newest": "whether it is the last of its cluster",
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
            "memory_over_mean": "memory divided by the mean of the masters; null where it is not known",
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
        "How many keys of each type the newest snapshot has, and what they weigh.",
        ("key_types", "snapshot_order"),
        {
            **_NEW_SNAPSHOT,
            **dict.fromkeys(("type", "keys", "serialized_bytes", "memory_bytes", "expires"), ""),
            "keys_share": "of all keys of the snapshot, 0 to 1",
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
        "How many keys of each type lie below each prefix, exactly; of snapshots that were made with --keep-keys.",
        ("keys",),
        {
            "snapshot_id": "",
            "prefix_text": "beginning of the keys up to their first colon, as text; empty for keys without one",
            "type": "",
            "keys": "keys of that type below it",
            "serialized_bytes": "bytes of these keys",
            "memory_bytes": "estimated bytes in memory of those that a model knows",
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
        "The biggest keys of the newest snapshot, among those that gold/big_keys lists: by memory, where it is known.",
        ("big_keys", "snapshot_order"),
        {
            **_NEW_SNAPSHOT,
            "rank": "1 is the biggest: by memory, where no model knows it by bytes in the dump",
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
        "The hash tags of the newest snapshot with most memory, or bytes: each ties all its keys to one slot.",
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
            "keys_share": "of all keys of the snapshot, 0 to 1",
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
        "How keys and bytes below each listed prefix grew from one snapshot to any later one.",
        ("key_prefixes", "snapshot_order"),
        {
            "snapshot_before": "the earlier snapshot",
            "snapshot_after": "the later one",
            "snapshots_apart": "1: the very next",
            **dict.fromkeys(("prefix_text", "prefix", "depth"), ""),
            "keys_before": "keys in the earlier snapshot; null where the prefix is not among its listed ones",
            "keys_after": "keys in the later snapshot; null where the prefix is not among its listed ones",
            "keys_grown": f"keys after less keys before{_GROWN}",
            "bytes_before": "bytes in the earlier snapshot; null where the prefix is not among its listed ones",
            "bytes_after": "bytes in the later snapshot; null where the prefix is not among its listed ones",
            "bytes_grown": f"bytes after less bytes before{_GROWN}",
            "memory_before": "bytes in memory in the earlier snapshot; null where the prefix is not among its listed ones, or memory is not known",
            "memory_after": "bytes in memory in the later snapshot; null where the prefix is not among its listed ones, or memory is not known",
            "memory_grown": f"bytes in memory after less those before{_GROWN}, or memory is not known",
            "keys_error": "the true growth is at most this much more or less",
            "bytes_error": "the true growth is at most this much more or less",
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
