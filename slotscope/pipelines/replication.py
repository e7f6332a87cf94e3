"""From captures of client ports to the replication tables: one task replays, every table is a selection of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial as bind

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from schemas.bronze import BAD_RECORDS
from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from slotscope.runtime import tables
from slotscope.runtime.progress import progress
from slotscope.runtime.tables import Change
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.resp import replication_task as task
from slotscope.transforms.history_frames import unpacked


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay came to."""

    values: int
    bad_records: int


def replay_replication(
    spark: SparkSession,
    captures: Sequence[str],
    *,
    root: str,
    snapshot: str,
    backlog_bytes: Mapping[str, int],
    permissive: bool,
) -> Outcome:
    """Replay *captures* into the tables of *snapshot*; raises DecodeError for bad input in strict mode."""
    files = tuple(survey(find_captures(captures)))
    options = task.ReplicationOptions(files, dict(backlog_bytes), permissive)
    rows = spark.range(0, 1, 1, 1).mapInArrow(bind(task.replication_task, options=options), task.REPLAYED)
    read = rows.persist(StorageLevel.MEMORY_AND_DISK)
    with progress("replaying"):
        counts = read.where(F.col("kind") == task.COUNTS).select("blob").collect()[0]["blob"]
    with progress("writing tables"):
        changes = [
            Change(unpacked(read, task.BAD, BAD_RECORDS, snapshot), BAD_RECORDS, f"job = '{task.JOB}'"),
            Change(unpacked(read, task.LINKS, REPLICATION_LINKS, snapshot), REPLICATION_LINKS),
            Change(unpacked(read, task.OFFSETS, REPLICATION_OFFSETS, snapshot), REPLICATION_OFFSETS),
        ]
        tables.apply_changes(changes, root, snapshot)
        tables.apply_change(Change(unpacked(read, task.ASKED, RESYNCS, snapshot), RESYNCS), root, snapshot)
    read.unpersist()
    values, bad_records = (int(number) for number in bytes(counts).split())
    return Outcome(values, bad_records)
