"""Tables of sentinels: what each believed, what it announced, whom it voted for.

Times stand twice, as in `schemas.history`: ``*_ns`` are nanoseconds since the epoch, the other column is a timestamp.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from cluster_core.sentinel_history.table_rows import SentinelEventRow, SentinelViewRow, SentinelVoteRow
from schemas.bronze import SNAPSHOT_ID
from schemas.table import Table, fields_of

SENTINEL_VIEWS = Table(
    "silver/sentinel_views",
    "What every sentinel believed about every master, replica and other sentinel, and for how long (SCD type 2).",
    StructType([SNAPSHOT_ID, *fields_of(SentinelViewRow)]),
    key=("snapshot_id", "observer", "kind", "master", "name", "valid_from_ns"),
    partition_by=("snapshot_id",),
)

SENTINEL_EVENTS = Table(
    "silver/sentinel_events",
    "Every event of every sentinel, as on its own channel.",
    StructType([SNAPSHOT_ID, *fields_of(SentinelEventRow)]),
    key=("snapshot_id", "event_id"),
    partition_by=("snapshot_id",),
)

SENTINEL_VOTES = Table(
    "silver/sentinel_votes",
    "Who was asked for a vote by whom, and for whom it voted.",
    StructType([SNAPSHOT_ID, *fields_of(SentinelVoteRow)]),
    key=("snapshot_id", "vote_id"),
    partition_by=("snapshot_id",),
)
