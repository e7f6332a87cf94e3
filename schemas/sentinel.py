"""Tables of sentinels: what each believed, what it announced, whom it voted for.

Times stand twice, as in `schemas.history`: ``*_ns`` are nanoseconds since the epoch, the other column is a timestamp.
"""

from __future__ import annotations

from cluster_core.sentinel_history.table_rows import SentinelEventRow, SentinelViewRow, SentinelVoteRow
from schemas.table import fields_of, snapshot_table

SENTINEL_VIEWS = snapshot_table(
    "silver/sentinel_views",
    "What every sentinel believed about every master, replica and other sentinel, and for how long (SCD type 2).",
    fields_of(SentinelViewRow),
    key=("observer", "kind", "master", "name", "valid_from_ns"),
)

SENTINEL_EVENTS = snapshot_table(
    "silver/sentinel_events",
    "Every event of every sentinel, as on its own channel.",
    fields_of(SentinelEventRow),
    key=("event_id",),
)

SENTINEL_VOTES = snapshot_table(
    "silver/sentinel_votes",
    "Who was asked for a vote by whom, and for whom it voted.",
    fields_of(SentinelVoteRow),
    key=("vote_id",),
)
