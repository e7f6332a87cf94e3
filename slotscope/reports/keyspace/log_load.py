"""What the append-only logs of a snapshot say, as plain values for both renderings: savings, commands over time, what is written most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from schemas.aof import COMMAND_LOAD, LOG_SAVINGS, WRITE_KEYS, WRITE_LOAD
from slotscope.reports.records import record
from slotscope.runtime import tables

SAVINGS_SHOWN = 100
COMMANDS_SHOWN = 100
KEYS_SHOWN = 100
SLOTS_SHOWN = 50
SPANS_SHOWN = 48
"""Rows of the course of time: minutes are joined to spans until they fit."""

_SPANS_S = (60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)


@dataclass(frozen=True, slots=True)
class Saving:
    """What a rewrite saves in one log, slot or prefix; true bytes of the log are at most *bytes_error* higher."""

    scope: str
    name: bytes
    log_bytes: int
    live_bytes: int
    saved_bytes: int
    bytes_error: int = 0


@dataclass(frozen=True, slots=True)
class CommandCount:
    """A command by name, in all logs."""

    name: str
    commands: int
    log_bytes: int
    known: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """Commands from *start_ms* on, for *seconds*; *busiest* is the command that came most."""

    start_ms: int
    seconds: int
    commands: int
    log_bytes: int
    busiest: str


@dataclass(frozen=True, slots=True)
class Written:
    """Writes to a key or a slot (*name* is None)."""

    name: bytes | None
    slot: int
    ops: int
    log_bytes: int
    ops_error: int = 0
    bytes_error: int = 0


@dataclass(frozen=True, slots=True)
class LogLoad:
    """The logs of one snapshot; every list is ordered as it is to be shown.  *spans* is empty without timestamps."""

    savings: dict[str, list[Saving]]
    commands: list[CommandCount]
    spans: list[Span]
    keys: list[Written]
    slots: list[Written]

    @property
    def whole(self) -> list[Saving]:
        """One row a log."""
        return self.savings.get("log", [])


def load_log_load(spark: SparkSession, root: str, snapshot_id: str) -> LogLoad | None:
    """Read what the tables of logs hold of a snapshot; None if it read no logs."""
    if not tables.exists(spark, COMMAND_LOAD, root):
        return None
    counted = tables.read_snapshot(spark, COMMAND_LOAD, root, snapshot_id)
    savings = _savings(spark, root, snapshot_id)
    by_name = counted.groupBy("command").agg(
        F.sum("commands").alias("commands"), F.sum("log_bytes").alias("log_bytes"), F.min("known").alias("known")
    )
    commands = [
        record(CommandCount, row, name=row["command"])
        for row in by_name.orderBy(F.desc("commands"), "command").limit(COMMANDS_SHOWN).collect()
    ]
    if not commands and not savings:
        return None
    minutes = counted.where("minute IS NOT NULL").groupBy("minute", "command")
    summed = minutes.agg(F.sum("commands").alias("commands"), F.sum("log_bytes").alias("log_bytes")).collect()
    written = tables.read_snapshot(spark, WRITE_KEYS, root, snapshot_id).where(F.col("rank_ops") <= KEYS_SHOWN)
    keys = [
        record(Written, row, name=bytes(row["key"]))
        for row in sorted(written.collect(), key=lambda row: int(row["rank_ops"]))
    ]
    per_slot = tables.read_snapshot(spark, WRITE_LOAD, root, snapshot_id).groupBy("slot")
    slots = per_slot.agg(F.sum("ops").alias("ops"), F.sum("log_bytes").alias("log_bytes"))
    heaviest = slots.orderBy(F.desc("ops"), "slot").limit(SLOTS_SHOWN).collect()
    return LogLoad(
        savings,
        commands,
        joined_spans(row.asDict() for row in summed),
        keys,
        [record(Written, row, name=None) for row in heaviest],
    )


def _savings(spark: SparkSession, root: str, snapshot_id: str) -> dict[str, list[Saving]]:
    rows = tables.read_snapshot(spark, LOG_SAVINGS, root, snapshot_id)
    found: dict[str, list[Saving]] = {}
    for scope in ("log", "slot", "prefix"):
        most = rows.where(F.col("scope") == scope).orderBy(F.desc("saved_bytes"), "scope_value").limit(SAVINGS_SHOWN)
        listed = [record(Saving, row, name=bytes(row["scope_value"])) for row in most.collect()]
        if listed:
            found[scope] = listed
    return found


def joined_spans(rows: Iterable[dict[str, Any]]) -> list[Span]:
    """Join rows (minute, command, commands, log_bytes) to at most `SPANS_SHOWN` spans of equal length, those without commands left out."""
    counted = [(_seconds(row["minute"]), row) for row in rows]
    if not counted:
        return []
    first, last = min(second for second, _ in counted), max(second for second, _ in counted)
    length = next(
        (length for length in _SPANS_S if last // length - first // length < SPANS_SHOWN),
        (last - first) // (SPANS_SHOWN - 1) + 60,
    )
    names: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    sizes: dict[int, int] = defaultdict(int)
    for second, row in counted:
        names[second // length][row["command"]] += row["commands"]
        sizes[second // length] += row["log_bytes"]
    return [
        Span(
            number * length * 1000,
            length,
            sum(counts.values()),
            sizes[number],
            max(sorted(counts), key=lambda name: counts[name]),
        )
        for number, counts in sorted(names.items())
    ]


def _seconds(minute: datetime) -> int:
    return int((minute if minute.tzinfo else minute.replace(tzinfo=UTC)).timestamp())
