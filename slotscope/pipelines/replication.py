"""From captures of client ports to the replication tables: one task replays, every table is a selection of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial as bind
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from cluster_core.replication.forecast import EVERY_SERVER
from cluster_core.sizes import read_bytes
from schemas.bronze import BAD_RECORDS
from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.runs import Run, running
from slotscope.runtime.storage.tables import Change
from slotscope.sources.bus.files import CaptureFile, find_captures, survey
from slotscope.sources.resp import replication_task as task
from slotscope.transforms.history_frames import of_kind, unpacked


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay came to."""

    values: int
    bad_records: int
    snapshot: str = ""


class Inputs(NamedTuple):
    """The captures of a replay, and the sizes of the servers' backlogs as far as they were given."""

    captures: tuple[CaptureFile, ...]
    backlog_bytes: dict[str, int]


def find_inputs(pcap: Sequence[str], backlog_size: Sequence[str] = (), snapshot: str | None = None) -> Inputs:
    """Find the captures *pcap*; raises InputError and DecodeError for what cannot work, before Spark starts."""
    if not pcap:
        raise InputError("nothing to read: name captures with --pcap")
    if snapshot == "":
        raise InputError("the snapshot needs a name")
    sizes = read_sizes(backlog_size)
    return Inputs(tuple(survey(find_captures(pcap))), sizes)


def read_sizes(words: Sequence[str]) -> dict[str, int]:
    """``SIZE`` for all servers, ``ADDRESS:PORT=SIZE`` for one; raises InputError for what is neither."""
    found = {}
    for word in words:
        server, _, size = word.rpartition("=")
        count = read_bytes(size)
        if not count:
            raise InputError(
                f"--backlog-size {word!r}: it is SIZE or ADDRESS:PORT=SIZE, with a SIZE such as 64kb or 1mb"
            )
        found[server or EVERY_SERVER] = count
    return found


def replay_replication(
    spark: SparkSession,
    inputs: Inputs,
    *,
    root: str,
    snapshot: str | None = None,
    cluster: str | None = None,
    permissive: bool = False,
) -> Outcome:
    """Replay *inputs* into the tables of *snapshot*; raises DecodeError for bad input in strict mode."""
    sizes = {file.path: file.size for file in inputs.captures}
    with running(root, task.JOB, snapshot, cluster=cluster, inputs=sizes) as run:
        return _replay(spark, inputs, run, permissive=permissive)


def _replay(spark: SparkSession, inputs: Inputs, run: Run, *, permissive: bool) -> Outcome:
    options = task.ReplicationOptions(inputs.captures, inputs.backlog_bytes, permissive)
    rows = spark.range(0, 1, 1, 1).mapInArrow(bind(task.replication_task, options=options), spark_schema(task.REPLAYED))
    read = rows.persist(StorageLevel.MEMORY_AND_DISK)
    with progress("replaying"):
        counts = of_kind(read, task.COUNTS).select("blob").collect()[0]["blob"]
    with progress("writing tables"):
        changes = [
            Change(unpacked(read, task.BAD, BAD_RECORDS), BAD_RECORDS),
            Change(unpacked(read, task.LINKS, REPLICATION_LINKS), REPLICATION_LINKS),
            Change(unpacked(read, task.OFFSETS, REPLICATION_OFFSETS), REPLICATION_OFFSETS),
            Change(unpacked(read, task.ASKED, RESYNCS), RESYNCS),
        ]
        tables.apply_changes(changes, run)
    read.unpersist()
    values, bad_records = (int(number) for number in bytes(counts).split())
    run.partial = bool(bad_records)
    return Outcome(values, bad_records, run.name)
