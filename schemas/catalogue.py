"""All tables, by the job that writes them."""

from __future__ import annotations

from typing import Final

from schemas import (
    activity,
    advice,
    aof,
    bronze,
    gold,
    history,
    incidents,
    rebalance,
    runs,
    sentinel,
    silver,
    simulation,
)
from schemas.table import Table

WRITTEN_BY: Final[dict[str, tuple[Table, ...]]] = {
    "key-slots": (
        silver.SNAPSHOTS, silver.SOURCES, silver.SLOT_LOAD, gold.NODE_LOAD, gold.BIG_KEYS, gold.HASH_TAGS, gold.KEY_PREFIXES, gold.KEY_TYPES, gold.KEY_SIZES, gold.TTL_BUCKETS, gold.KEY_USE, bronze.KEYS, bronze.BAD_RECORDS,
        aof.WRITE_LOAD, aof.COMMAND_LOAD, aof.WRITE_KEYS, aof.UNCERTAIN_KEYS,
    ),
    "advise": (advice.SAVINGS, advice.SAVING_CURVES, advice.MEMORY_CONDITIONS),
    "rebalance-plan": (
        rebalance.REBALANCE_PLANS, rebalance.REBALANCE_LOAD, rebalance.REBALANCE_MOVES, rebalance.REBALANCE_SLOTS, rebalance.REBALANCE_HEAVY,
        rebalance.REBALANCE_CURVE, activity.SLOT_ACTIVITY, bronze.BAD_RECORDS,
    ),
    "execute-plan": (rebalance.PLAN_STEPS,),
    "audit-plan": (rebalance.PLAN_AUDITS,),
    "history": (
        history.REPLAYS, incidents.INCIDENTS, incidents.INCIDENT_STEPS, incidents.FINDINGS, history.NODE_VIEWS, history.SLOT_OWNERS, history.VOTES, history.FAILURE_REPORTS, history.EPOCHS, history.EVENTS, history.LINKS,
        history.GAPS, history.DISAGREEMENTS, history.BUS_MESSAGES, history.SLOT_BITMAPS, history.LOG_EVENTS, history.NODE_POLLS, history.METRIC_SAMPLES, history.LATE_FILES, history.UNRECORDED, history.REPLAY_STATE,
        bronze.BAD_RECORDS,
    ),
    "follow": (incidents.INCIDENT_STATES, history.REPLAYS, incidents.INCIDENTS),
    "sentinel-replay": (
        sentinel.SENTINEL_VIEWS, sentinel.SENTINEL_EVENTS, sentinel.SENTINEL_VOTES, history.REPLAYS, incidents.INCIDENTS, incidents.INCIDENT_STEPS, incidents.FINDINGS, history.NODE_VIEWS, history.LINKS, bronze.BAD_RECORDS,
    ),
    "simulate": (simulation.SIMULATED_QUANTILES, simulation.SIMULATED_RUNS, simulation.SIMULATED_SHARDS),
}  # fmt: skip
"""Tables by job, its own ones before those shared with jobs above it."""

_COMMANDS: Final = {
    "rebalance-plan": "plan make",
    "execute-plan": "plan execute",
    "audit-plan": "plan audit",
    "sentinel-replay": "lab sentinel-replay",
}
"""Commands of jobs with another name."""

OF_ALL: Final = (runs.RUNS, runs.CLUSTERS)
"""Tables that every job writes."""

TABLES: Final[tuple[Table, ...]] = (
    *dict.fromkeys(table for tables in WRITTEN_BY.values() for table in tables),
    *OF_ALL,
)
"""Every table once."""


def writers(table: Table) -> list[str]:
    """Return the commands that write *table*, its main writer first."""
    return [_COMMANDS.get(job, job) for job, tables in WRITTEN_BY.items() if table in tables or table in OF_ALL]
