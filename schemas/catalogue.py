"""All tables, by the job that writes them."""

from __future__ import annotations

from typing import Final

from schemas.activity import SLOT_ACTIVITY
from schemas.advice import MEMORY_CONDITIONS, SAVING_CURVES, SAVINGS
from schemas.aof import COMMAND_LOAD, LOG_SAVINGS, UNCERTAIN_KEYS, WRITE_KEYS, WRITE_LOAD
from schemas.bronze import BAD_RECORDS, KEYS, VALUE_FLAWS
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_SIZES, KEY_TYPES, KEY_USE, NODE_LOAD, TTL_BUCKETS
from schemas.history import (
    BUS_MESSAGES,
    DISAGREEMENTS,
    EPOCHS,
    EVENTS,
    FAILURE_REPORTS,
    GAPS,
    GOSSIP_ENTRIES,
    IGNORED_INPUTS,
    LATE_FILES,
    LINKS,
    LOG_EVENTS,
    MEMBERSHIPS,
    NODE_POLLS,
    NODE_VIEWS,
    REPLAY_STATE,
    REPLAYS,
    SLOT_BITMAPS,
    SLOT_OWNERS,
    UNRECORDED,
    VOTES,
)
from schemas.incidents import FINDINGS, INCIDENT_STATES, INCIDENT_STEPS, INCIDENTS
from schemas.rebalance import (
    PLAN_AUDITS,
    PLAN_STEPS,
    REBALANCE_CURVE,
    REBALANCE_HEAVY,
    REBALANCE_LOAD,
    REBALANCE_MOVES,
    REBALANCE_PLANS,
    REBALANCE_SLOTS,
    REBALANCE_TOLERANCES,
)
from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from schemas.runs import CLUSTERS, RUNS
from schemas.sentinel import SENTINEL_EVENTS, SENTINEL_VIEWS, SENTINEL_VOTES
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from schemas.simulation import SIMULATED_QUANTILES, SIMULATED_RUNS, SIMULATED_SHARDS
from schemas.table import Table

WRITTEN_BY: Final[dict[str, tuple[Table, ...]]] = {
    "key-slots": (
        SNAPSHOTS, SOURCES, SLOT_LOAD, NODE_LOAD, BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_TYPES, KEY_SIZES, TTL_BUCKETS, KEY_USE, KEYS, VALUE_FLAWS, BAD_RECORDS,
        WRITE_LOAD, COMMAND_LOAD, WRITE_KEYS, LOG_SAVINGS, UNCERTAIN_KEYS,
    ),
    "advise": (SAVINGS, SAVING_CURVES, MEMORY_CONDITIONS),
    "rebalance-plan": (
        REBALANCE_PLANS, REBALANCE_LOAD, REBALANCE_MOVES, REBALANCE_SLOTS, REBALANCE_HEAVY, REBALANCE_TOLERANCES,
        REBALANCE_CURVE, SLOT_ACTIVITY, BAD_RECORDS,
    ),
    "execute-plan": (PLAN_STEPS,),
    "audit-plan": (PLAN_AUDITS,),
    "split-rdb": (BAD_RECORDS,),
    "bus-replay": (
        REPLAYS, INCIDENTS, INCIDENT_STEPS, FINDINGS, NODE_VIEWS, SLOT_OWNERS, MEMBERSHIPS, VOTES, FAILURE_REPORTS, EPOCHS, EVENTS, LINKS,
        GAPS, DISAGREEMENTS, IGNORED_INPUTS, BUS_MESSAGES, SLOT_BITMAPS, GOSSIP_ENTRIES, LOG_EVENTS, NODE_POLLS, LATE_FILES, UNRECORDED, REPLAY_STATE,
        BAD_RECORDS,
    ),
    "follow": (INCIDENT_STATES, REPLAYS, INCIDENTS),
    "sentinel-replay": (
        SENTINEL_VIEWS, SENTINEL_EVENTS, SENTINEL_VOTES, REPLAYS, INCIDENTS, INCIDENT_STEPS, FINDINGS, NODE_VIEWS, LINKS, BAD_RECORDS,
    ),
    "replication-replay": (RESYNCS, REPLICATION_LINKS, REPLICATION_OFFSETS, BAD_RECORDS),
    "simulate": (SIMULATED_QUANTILES, SIMULATED_RUNS, SIMULATED_SHARDS),
}  # fmt: skip
"""What each job writes, the tables that are its own before those that it shares with jobs above it."""

OF_ALL: Final = (RUNS, CLUSTERS)
"""What every job writes."""

TABLES: Final[tuple[Table, ...]] = (
    *dict.fromkeys(table for tables in WRITTEN_BY.values() for table in tables),
    *OF_ALL,
)
"""Every table once."""


def writers(table: Table) -> list[str]:
    """The jobs that write *table*."""
    if table in OF_ALL:
        return list(WRITTEN_BY)
    return [job for job, tables in WRITTEN_BY.items() if table in tables]
