"""Tables of sentinels: views, events, votes.

Times have two columns, as in `schemas.history`.
"""

from __future__ import annotations

from cluster_core.sentinel_history.rows import SentinelEventRow, SentinelViewRow, SentinelVoteRow
from schemas.table import fields_of, snapshot_table

SENTINEL_VIEWS = snapshot_table(
    "silver/sentinel_views",
    "State of every master in the view of every sentinel, with validity (SCD type 2).",
    fields_of(SentinelViewRow),
    key=("observer", "master", "valid_from_ns"),
)

SENTINEL_EVENTS = snapshot_table(
    "silver/sentinel_events",
    "Events of sentinels, as on their own channels.",
    fields_of(SentinelEventRow),
    key=("event_id",),
)

SENTINEL_VOTES = snapshot_table(
    "silver/sentinel_votes",
    "Vote requests and votes of sentinels.",
    fields_of(SentinelVoteRow),
    key=("vote_id",),
)
