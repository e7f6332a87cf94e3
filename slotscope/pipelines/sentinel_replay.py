"""From what is known of sentinels to their tables: one task folds, every table is a selection of its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial as bind
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.kinds import Severity
from schemas.bronze import BAD_RECORDS
from schemas.caveats import Caveat, Code
from schemas.history import REPLAYS
from schemas.incidents import INCIDENT_STEPS, INCIDENTS
from schemas.sentinel import SENTINEL_EVENTS, SENTINEL_VIEWS, SENTINEL_VOTES
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import Run, running
from slotscope.runtime.storage.tables import Change
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.polls_and_logs import instant
from slotscope.sources.files import expand
from slotscope.sources.folder_kinds import POLLS
from slotscope.sources.sentinel import task
from slotscope.sources.sentinel.evidence import SentinelFiles
from slotscope.sources.server_logs import find_logs, whole_ids, zone_of
from slotscope.transforms.history_frames import of_kind, unpacked

DOWN_AFTER_MS_MAX = 86_400_000
QUORUM_MAX = 1_000
PROFILE = "sentinel"
"""In silver/replays: the snapshot has sentinels, and no cluster."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay came to; *strangers* are files and nodes that belong to no sentinel that is known."""

    values: int
    lines: int
    answers: int
    sentinels: int
    events: int
    bad_records: int
    down_after_ms: int
    first_ns: int
    last_ns: int
    strangers: tuple[str, ...] = ()
    snapshot: str = ""


def read_options(
    *,
    pcap: Sequence[str] = (),
    log: Sequence[str] = (),
    polls: Sequence[str] = (),
    log_zone: str = "UTC",
    log_node: Sequence[str] = (),
    down_after_ms: int | None = None,
    quorum: int | None = None,
    permissive: bool = False,
) -> task.SentinelOptions:
    """Find the files and check the numbers; raises InputError and DecodeError for what cannot work."""
    if not (pcap or log or polls):
        raise InputError("nothing to read: name captures with --pcap, logs with --log, or polls with --polls")
    if down_after_ms is not None and not 1 <= down_after_ms <= DOWN_AFTER_MS_MAX:
        raise InputError(f"--down-after-ms is {down_after_ms}; it must be from 1 to {DOWN_AFTER_MS_MAX}")
    if quorum is not None and not 1 <= quorum <= QUORUM_MAX:
        raise InputError(f"--quorum is {quorum}; it must be from 1 to {QUORUM_MAX}")
    zone_of(log_zone)
    files = SentinelFiles(
        tuple(survey(find_captures(pcap))) if pcap else (),
        tuple(file.path for file in find_logs(log, log_node)) if log or log_node else (),
        tuple(file.path for file in expand(list(polls), POLLS)) if polls else (),
        log_zone,
    )
    told = (*files.logs, *files.polls, *(file.path for file in files.captures))
    files = replace(files, log_node=whole_ids(log_node, told))
    return task.SentinelOptions(files, down_after_ms, quorum, permissive)


def replay_sentinels(
    spark: SparkSession, options: task.SentinelOptions, *, root: str, snapshot: str | None, cluster: str | None = None
) -> Outcome:
    """Replay into the tables of *snapshot*; raises DecodeError for bad input in strict mode.

    Incidents of a cluster that the snapshot has stay; those of sentinels are numbered behind them.
    """
    with running(root, task.JOB, snapshot, cluster=cluster, inputs=_files_of(options)) as run:
        return _replay(spark, options, run)


def _replay(spark: SparkSession, options: task.SentinelOptions, run: Run) -> Outcome:
    rows = spark.range(0, 1, 1, 1).mapInArrow(bind(task.sentinel_task, options=options), spark_schema(task.SCHEMA))
    read = rows.persist(StorageLevel.MEMORY_AND_DISK)
    with progress("replaying"):
        facts: dict[str, Any] = json.loads(bytes(of_kind(read, task.FACTS).select("blob").collect()[0]["blob"]))
    with progress("writing tables"):
        first = _others(run)
        changes = [
            Change(unpacked(read, task.BAD, BAD_RECORDS), BAD_RECORDS),
            Change(unpacked(read, task.VIEWS, SENTINEL_VIEWS), SENTINEL_VIEWS),
            Change(unpacked(read, task.EVENTS, SENTINEL_EVENTS), SENTINEL_EVENTS),
            Change(unpacked(read, task.VOTES, SENTINEL_VOTES), SENTINEL_VOTES),
            Change(_behind(unpacked(read, task.STEPS, INCIDENT_STEPS), first), INCIDENT_STEPS),
            Change(_behind(unpacked(read, task.STORIES, INCIDENTS), first), INCIDENTS),
        ]
        tables.apply_changes(changes, run)
        _write_replay(run, facts)
    read.unpersist()
    run.data_at = instant(facts["last_ns"]) if facts["last_ns"] else None
    run.partial = bool(facts["bad_records"])
    return Outcome(**{**facts, "strangers": tuple(facts["strangers"])}, snapshot=run.name)


def _files_of(options: task.SentinelOptions) -> dict[str, int]:
    files = options.files
    told = expand([*files.logs, *files.polls])
    return {file.path: file.size for file in files.captures} | {file.path: file.size for file in told}


def _write_replay(run: Run, facts: dict[str, Any]) -> None:
    """The row of silver/replays without which no report shows the snapshot; that of a cluster's replay stays."""
    if read_rows(run.root, REPLAYS, columns=("cluster",), parts=run.parts(REPLAYS)):
        return
    row = {
        **_times("first", facts["first_ns"]), **_times("last", facts["last_ns"]),
        "messages": facts["values"], "observers": facts["sentinels"], "node_timeout_ms": facts["down_after_ms"],
        "node_timeout_from": "estimated" if facts["down_after_ms"] else "default", "profile": PROFILE,
        "polls": facts["answers"], "log_events": facts["lines"], "bad_records": facts["bad_records"], "repeated_bytes": 0, "files": list(run.inputs.items()),
        "warnings": [warning._asdict() for warning in _warnings(facts)],
    }  # fmt: skip
    run.append(REPLAYS, [row])


def _warnings(facts: dict[str, Any]) -> list[Caveat]:
    found = [
        Caveat(Severity.WARNING, Code.UNKNOWN_SENTINEL, f"{name} belongs to no sentinel that is known", name)
        for name in facts["strangers"]
    ]
    if facts["bad_records"]:
        found.append(
            Caveat(Severity.WARNING, Code.BAD_EVIDENCE, f"{facts['bad_records']} bad records: see bronze/bad_records")
        )
    return found


def _times(name: str, ts_ns: int) -> dict[str, Any]:
    return {name: instant(ts_ns) if ts_ns else None, f"{name}_ns": ts_ns or None}


def _others(run: Run) -> int:
    """The number of the last incident of the snapshot that does not come from sentinels."""
    others = read_rows(run.root, INCIDENTS, columns=("incident",), parts=run.parts(INCIDENTS))
    return max((row["incident"] for row in others), default=0)


def _behind(rows: DataFrame, first: int) -> DataFrame:
    return rows.withColumn("incident", F.col("incident") + F.lit(first))
