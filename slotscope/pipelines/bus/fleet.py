"""One batch of many clusters: a Spark task folds the new files of a cluster, the driver commits each table once for all of them.

A fold reads the state that the batch before left in silver/replay_state, and returns its run with the rows that it staged.  The state is
committed last, so a batch that was killed is carried out again for all clusters, and one that was committed for none.  A cluster that
cannot be folded is set aside: its tables stay as they are, and the next follower reads all of its files anew.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache
from functools import partial as bind
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from cluster_core.replay.saving import STATE_VERSION
from schemas.history import (
    BUS_MESSAGES,
    GAPS,
    LINKS,
    LOG_EVENTS,
    METRIC_SAMPLES,
    NODE_POLLS,
    REPLAY_STATE,
    SLOT_BITMAPS,
)
from schemas.incidents import FINDINGS, INCIDENTS
from schemas.runs import CLUSTERS, RUNS
from schemas.table import Table
from slotscope.pipelines.bus.findings import HAS_OPEN_SLOTS, ROWS, polls_since, recent_since
from slotscope.pipelines.bus.history import HistoryReplay
from slotscope.pipelines.bus.outcome import Outcome
from slotscope.pipelines.bus.states import CAPTURE_PART, Batch
from slotscope.runtime.errors import InputError, PlaceError, TryAgainError
from slotscope.runtime.failure import describe
from slotscope.runtime.progress import silence
from slotscope.runtime.spark.session import parallelism
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.runs import Run, State, begin_together, close_together
from slotscope.sources.bus.evidence import JOB

SET_ASIDE: Final = "set aside: "
"""What the reason in silver/runs begins with where a cluster is not followed any longer."""
TASKS_A_CORE: Final = 2
"""Tasks for each that runs at the same time: clusters differ in how much is new."""
READ_BY_FOLDS: Final = (
    *(table for table, _ in ROWS), LOG_EVENTS, METRIC_SAMPLES, GAPS, LINKS, SLOT_BITMAPS, INCIDENTS, FINDINGS,
)  # fmt: skip
"""Tables with rows of earlier batches that a fold reads as a whole; of polls, messages and states it reads a part."""


class Standing(NamedTuple):
    """The clusters of a batch that were carried out already, and those to read anew: they were set aside, or have a state of another version."""

    done: frozenset[str]
    anew: frozenset[str]


class Failed(Enum):
    """What a failure means for the batch."""

    REFUSED = "refused"
    """The follower was asked for what cannot be: it ends."""
    MAY_PASS = "may pass"
    """A store did not answer, a disk was full: the batch is carried out again."""
    SET_ASIDE = "set aside"
    """Something is wrong with this cluster: the others go on."""


class Folded(NamedTuple):
    """One cluster of a batch: its *outcome*, or the *line* that says why there is none."""

    cluster: str
    seconds: float
    outcome: Outcome | None
    failed: Failed | None = None
    line: str = ""


def standing(root: str, clusters: Sequence[str], batch: Batch) -> Standing:
    """Return how far *clusters* have come, by the runs and states under *root*."""
    where = delta_files.any_of("snapshot_id", clusters)
    failed = _failed(root, where)
    if not delta_files.exists(root, REPLAY_STATE):
        return Standing(frozenset(), failed)
    columns = ("snapshot_id", "version", "options")
    rows = delta_files.read_rows(root, REPLAY_STATE, columns=columns, where=where, part=CAPTURE_PART)
    readable = [row for row in rows if row["version"] == STATE_VERSION]
    reached = {row["snapshot_id"]: Batch(*json.loads(row["options"])["batch"]) for row in readable}
    return Standing(
        frozenset(
            name for name, last in reached.items() if batch.stream == last.stream and batch.number <= last.number
        ),
        failed | (frozenset(row["snapshot_id"] for row in rows) - reached.keys()),
    )


def _failed(root: str, where: str) -> frozenset[str]:
    """The snapshots that were set aside by their last run."""
    if not delta_files.exists(root, RUNS):
        return frozenset()
    ended = f"{where} AND {delta_files.any_of('state', (State.COMPLETE, State.FAILED))}"
    columns = ("snapshot_id", "reason")
    rows = delta_files.read_rows(root, RUNS, columns=columns, where=ended, order_by="started_at", job=JOB)
    last = {row["snapshot_id"]: row["reason"] or "" for row in rows}
    return frozenset(name for name, reason in last.items() if reason.startswith(SET_ASIDE))


def fold_together(spark: SparkSession, replays: Sequence[HistoryReplay]) -> list[Folded]:
    """Fold all *replays*, each in a task, and commit what they staged; a cluster that fails changes no table, and the others go on."""

    def fold(runs: Sequence[Run]) -> list[tuple[Run, Folded]]:
        blobs = [pickle.dumps(pair) for pair in zip(replays, runs, strict=True)]
        tasks = min(len(blobs), TASKS_A_CORE * parallelism(spark))
        answers = spark.range(0, len(blobs), 1, tasks).mapInArrow(bind(_fold_each, blobs=blobs), "answer binary")
        return [pickle.loads(blob) for blob in answers.toArrow().column("answer").to_pylist()]

    return _complete(replays, fold)


def fold_alone(replay: HistoryReplay) -> Folded:
    """Fold one cluster with all that its Spark session has; raises what may pass."""
    return _complete([replay], lambda runs: [_folded(replay, runs[0])])[0]


def _complete(
    replays: Sequence[HistoryReplay], fold: Callable[[Sequence[Run]], list[tuple[Run, Folded]]]
) -> list[Folded]:
    """Begin the runs of *replays*, let *fold* fill them, and commit those with an outcome."""
    begun = [replay.new_run() for replay in replays]
    begin_together(begun)
    runs = {run.run_id: run for run in begun}
    try:
        results = fold(begun)
        runs |= {run.run_id: run for run, _ in results}  # tasks return copies
        for _, folded in results:
            _raise_for_all(folded)
        good = [run for run, folded in results if folded.outcome is not None]
        if good:
            close_together(good)
    except BaseException as error:
        for run in runs.values():
            if not run.is_closed:
                run.abandon(error)
        raise
    for run, folded in results:
        if folded.outcome is None:
            run.abandon(RuntimeError(f"{SET_ASIDE}{folded.line}"))
    return [folded for _, folded in results]


def _raise_for_all(folded: Folded) -> None:
    """Raise what concerns the whole batch."""
    if folded.failed is Failed.REFUSED:
        raise InputError(folded.line)
    if folded.failed is Failed.MAY_PASS:
        raise TryAgainError(folded.line)


def _fold_each(batches: Iterator[pa.RecordBatch], blobs: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Fold the clusters by the numbers in *batches*."""
    for batch in batches:
        pairs = [pickle.loads(blobs[number]) for number in batch.column("id").to_pylist()]
        stored = cache(bind(stored_rows, [run for _, run in pairs]))
        for replay, run in pairs:
            with silence():
                answer = pickle.dumps(_folded(replay, run, stored))
            yield pa.record_batch({"answer": pa.array([answer], pa.binary())})


def stored_rows(runs: Sequence[Run]) -> dict[str, dict[Table, pa.Table]]:
    """The stored rows that folds of *runs* read, by snapshot: each table is read once for all of them."""
    root, names = runs[0].root, [run.name for run in runs]
    states = _rows_by_snapshot(root, REPLAY_STATE, delta_files.any_of("snapshot_id", names), names)
    tables: dict[str, dict[Table, pa.Table]] = {name: {REPLAY_STATE: states[name]} for name in names}
    for table in (*READ_BY_FOLDS, CLUSTERS):
        for name, rows in _rows_by_snapshot(root, table, delta_files.any_of(table.key[0], names), names).items():
            tables[name][table] = rows
    polls = " OR ".join(_recent_polls(name, states[name], tables[name][INCIDENTS]) for name in names)
    for name, rows in _rows_by_snapshot(root, NODE_POLLS, polls, names).items():
        tables[name][NODE_POLLS] = rows
    where = " OR ".join(filter(None, map(_unsettled_messages, names, states.values()))) or "FALSE"
    for name, rows in _rows_by_snapshot(root, BUS_MESSAGES, where, names).items():
        tables[name][BUS_MESSAGES] = rows
    return tables


def _recent_polls(name: str, states: pa.Table, incidents: pa.Table) -> str:
    """The condition of stored polls that a fold reads again."""
    capture = states.filter(pc.field("part") == CAPTURE_PART).select(["options"]).to_pylist()
    options = [json.loads(row["options"]) for row in capture]
    rows = incidents.select(["started_ns", "ended_ns"]).to_pylist()
    since_ns = max((recent_since(rows, option["last_ns"], option["lateness_ns"]) for option in options), default=0)
    return f"({delta_files.any_of('snapshot_id', [name])} AND ts_ns >= {polls_since(since_ns)})"


def _unsettled_messages(name: str, states: pa.Table) -> str:
    """The condition of stored messages that a fold reads again: until the node timeout is known, all."""
    rows = states.filter(pc.field("part") == CAPTURE_PART).select(["settled_by", "messages"]).to_pylist()
    counts = [row["messages"] for row in rows if row["messages"] and not row["settled_by"]]
    return f"({delta_files.any_of('snapshot_id', [name])} AND message_id < {counts[0]})" if counts else ""


def _rows_by_snapshot(root: str, table: Table, where: str, names: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of *table* that meet *where*, by its first column; of polls only texts with open slots."""
    tables, start = dict.fromkeys(names, table.stored.empty_table()), 0
    if where == "FALSE" or not delta_files.exists(root, table):
        return tables
    needed = {"text": f"CASE WHEN {HAS_OPEN_SLOTS} THEN text END AS text"} if table is NODE_POLLS else {}
    columns = ", ".join(needed.get(name, f'"{name}"') for name in table.columns)
    sql = f"SELECT {columns} FROM {table.sql_name} WHERE {where} ORDER BY {table.columns[0]}"
    rows = delta_files.query_table(root, sql, table).cast(table.stored)
    stretches = pc.run_end_encode(rows.column(0).combine_chunks())
    for name, end in zip(stretches.values.to_pylist(), stretches.run_ends.to_pylist(), strict=True):
        tables[name], start = rows.slice(start, end - start), end
    return tables


def _folded(
    replay: HistoryReplay, run: Run, stored: Callable[[], dict[str, dict[Table, pa.Table]]] | None = None
) -> tuple[Run, Folded]:
    started = time.monotonic()
    try:
        run.stored = stored().pop(run.name) if stored is not None else None
        folded = Folded(run.name, 0.0, replay.fold(run))
    except Exception as error:  # whatever is wrong with one cluster, the others go on
        failed = Failed.REFUSED if isinstance(error, InputError) else Failed.SET_ASIDE
        if isinstance(error, PlaceError | TryAgainError | OSError):
            failed = Failed.MAY_PASS
        folded = Folded(run.name, 0.0, None, failed, describe(error).line)
    run.stored = None
    return run, folded._replace(seconds=time.monotonic() - started)
