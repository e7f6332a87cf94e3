"""Follower of a landing: each batch of new files is a fold of `slotscope.pipelines.bus.history`, of one cluster or of many at once.

Spark lists the landing, remembers known files in its checkpoint, and numbers the batches.  A batch has the names of files; the tasks
of the fold open them.  The states of all machines are rows of silver/replay_state, written last with the number of the batch:
a batch that is repeated, because the follower was killed before Spark took note of it, finds its number there and does nothing.

With many clusters a Spark task folds the new files of each, and the driver commits each table once for all of them.  A cluster that
cannot be folded is set aside: its tables stay unchanged, and the next follower reads all of its files again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from functools import partial as bind
from hashlib import sha256
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cluster_core.errors import ClusterCoreError
from cluster_core.instants import write_instant
from cluster_core.kinds import Severity
from cluster_core.replay.saving import STATE_VERSION
from schemas.caveats import Caveat, Code
from schemas.history import (
    BUS_MESSAGES,
    GAPS,
    LINKS,
    LOG_EVENTS,
    METRIC_SAMPLES,
    NODE_POLLS,
    REPLAY_STATE,
    REPLAYS,
    SLOT_BITMAPS,
)
from schemas.incidents import FINDINGS, INCIDENTS
from schemas.runs import CLUSTERS, RUNS
from schemas.table import Table
from slotscope.pipelines.bus.findings import HAS_OPEN_SLOTS, ROWS, polls_since, recent_since
from slotscope.pipelines.bus.history import HistoryReplay
from slotscope.pipelines.bus.incident_news import Hooks, spread_news
from slotscope.pipelines.bus.inputs import Inputs
from slotscope.pipelines.bus.outcome import Outcome
from slotscope.pipelines.bus.states import CAPTURE_PART, Batch
from slotscope.runtime.errors import InputError, PlaceError, TryAgainError
from slotscope.runtime.failure import TRY_AGAIN, complaint, describe, no_room
from slotscope.runtime.progress import silence
from slotscope.runtime.spark.session import parallelism
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import FAILURES, Run, State, begin_together, close_together, observers
from slotscope.runtime.text import plural, printable
from slotscope.sources.bus.evidence import JOB
from slotscope.sources.bus.files import RecordedInput, recorded_inputs
from slotscope.sources.files import expand

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import FollowOptions

TASKS_A_CORE: Final = 2
"""Tasks for each that runs at the same time: clusters differ in how much is new."""
READ_BY_FOLDS: Final = (
    *(table for table, _ in ROWS), LOG_EVENTS, METRIC_SAMPLES, GAPS, LINKS, SLOT_BITMAPS, INCIDENTS, FINDINGS,
)  # fmt: skip
"""Tables with rows of earlier batches that a fold reads as a whole; of polls, messages and states it reads a part."""


class BatchClusters(NamedTuple):
    """The clusters of a batch that were carried out already, and those to read anew: they were set aside, or have a state of another version."""

    done: frozenset[str]
    anew: frozenset[str]


class BatchFailure(Enum):
    """Effects of a failure on the batch."""

    REFUSED = "refused"
    """The options cannot work: the follower ends."""
    MAY_PASS = "may pass"
    """A store did not answer, or a disk was full: the batch is repeated."""
    SET_ASIDE = "set aside"
    """This cluster failed: the others continue."""


class FoldOutcome(NamedTuple):
    """One cluster of a batch: its *outcome*, or the *line* that says why there is none."""

    cluster: str
    seconds: float
    outcome: Outcome | None
    failed: BatchFailure | None = None
    line: str = ""


def standing(root: str, clusters: Sequence[str], batch: Batch) -> BatchClusters:
    """Return how far *clusters* have come, by the runs and states under *root*."""
    if not delta_files.exists(root, RUNS):
        return BatchClusters(frozenset(), frozenset())
    where = delta_files.any_of("snapshot_id", clusters)
    set_aside = _set_aside(root, where)
    columns = ("snapshot_id", "version", "options")
    rows = delta_files.read_rows(root, REPLAY_STATE, columns=columns, where=where, part=CAPTURE_PART)
    readable = [row for row in rows if row["version"] == STATE_VERSION]
    reached = {row["snapshot_id"]: Batch(*json.loads(row["options"])["batch"]) for row in readable}
    return BatchClusters(
        frozenset(
            name for name, last in reached.items() if batch.stream == last.stream and batch.number <= last.number
        ),
        set_aside | (frozenset(row["snapshot_id"] for row in rows) - reached.keys()),
    )


def _set_aside(root: str, where: str) -> frozenset[str]:
    """The snapshots that were set aside by their last run."""
    ended = f"{where} AND {delta_files.any_of('state', (State.COMPLETE, *FAILURES))}"
    columns = ("snapshot_id", "state")
    rows = delta_files.read_rows(root, RUNS, columns=columns, where=ended, order_by="started_at", job=JOB)
    last = {row["snapshot_id"]: row["state"] for row in rows}
    return frozenset(name for name, state in last.items() if state == State.SET_ASIDE)


def fold_together(spark: SparkSession, replays: Sequence[HistoryReplay]) -> list[FoldOutcome]:
    """Fold all *replays*, each in a task, and commit their staged rows; a failed cluster changes no table and stops no other."""

    def fold(runs: Sequence[Run]) -> list[tuple[Run, FoldOutcome]]:
        blobs = [pickle.dumps(pair) for pair in zip(replays, runs, strict=True)]
        tasks = min(len(blobs), TASKS_A_CORE * parallelism(spark))
        answers = spark.range(0, len(blobs), 1, tasks).mapInArrow(bind(_fold_each, blobs=blobs), "answer binary")
        return [pickle.loads(blob) for blob in answers.toArrow().column("answer").to_pylist()]

    return _complete(replays, fold)


def fold_alone(replay: HistoryReplay) -> FoldOutcome:
    """Fold one cluster with the whole Spark session; raises errors that may pass."""
    return _complete([replay], lambda runs: [_folded(replay, runs[0])])[0]


def _complete(
    replays: Sequence[HistoryReplay], fold: Callable[[Sequence[Run]], list[tuple[Run, FoldOutcome]]]
) -> list[FoldOutcome]:
    """Begin the runs of *replays*, let *fold* fill them, and commit those with an outcome."""
    new_runs = [replay.new_run() for replay in replays]
    begin_together(new_runs)
    runs = {run.run_id: run for run in new_runs}
    try:
        results = fold(new_runs)
        runs |= {run.run_id: run for run, _ in results}  # tasks return copies
        for _, folded in results:
            _raise_for_all(folded)
        good = [run for run, folded in results if folded.outcome is not None]
        if good:
            close_together(good)
    except BaseException as error:
        for run in runs.values():
            if not run.is_closed:
                run.abandon(describe(error).line)
        raise
    for run, folded in results:
        if folded.outcome is None:
            run.abandon(folded.line, State.SET_ASIDE)
    return [folded for _, folded in results]


def _raise_for_all(folded: FoldOutcome) -> None:
    """Raise failures of the whole batch."""
    if folded.failed is BatchFailure.REFUSED:
        raise InputError(folded.line)
    if folded.failed is BatchFailure.MAY_PASS:
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
    polls = " OR ".join(_recent_polls(name, states[name]) for name in names)
    for name, rows in _rows_by_snapshot(root, NODE_POLLS, polls, names).items():
        tables[name][NODE_POLLS] = rows
    where = " OR ".join(filter(None, map(_unsettled_messages, names, states.values()))) or "FALSE"
    for name, rows in _rows_by_snapshot(root, BUS_MESSAGES, where, names).items():
        tables[name][BUS_MESSAGES] = rows
    return tables


def _recent_polls(name: str, states: pa.Table) -> str:
    """The condition of stored polls that a fold reads again."""
    capture = states.filter(pc.field("part") == CAPTURE_PART).select(["options"]).to_pylist()
    options = [json.loads(row["options"]) for row in capture]
    since_ns = max((recent_since(option["last_ns"], option["lateness_ns"]) for option in options), default=0)
    return f"({delta_files.any_of('snapshot_id', [name])} AND {polls_since(since_ns)})"


def _unsettled_messages(name: str, states: pa.Table) -> str:
    """The condition of stored messages that a fold reads again: until the node timeout is known, all."""
    rows = states.filter(pc.field("part") == CAPTURE_PART).select(["settled_by", "messages"]).to_pylist()
    counts = [row["messages"] for row in rows if row["messages"] and not row["settled_by"]]
    return f"({delta_files.any_of('snapshot_id', [name])} AND message_id < {counts[0]})" if counts else ""


def _rows_by_snapshot(root: str, table: Table, where: str, names: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of *table* that meet *where*, by its first column; of polls only texts with open slots."""
    tables, start = dict.fromkeys(names, table.stored.empty_table()), 0
    if where == "FALSE":
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
) -> tuple[Run, FoldOutcome]:
    started = time.monotonic()
    try:
        run.stored = stored().pop(run.name) if stored is not None else None
        folded = FoldOutcome(run.name, 0.0, replay.fold(run))
    except Exception as error:  # a failure of one cluster does not stop the others
        failed = BatchFailure.REFUSED if isinstance(error, InputError) else BatchFailure.SET_ASIDE
        if isinstance(error, PlaceError | TryAgainError | OSError):
            failed = BatchFailure.MAY_PASS
        folded = FoldOutcome(run.name, 0.0, None, failed, describe(error).line)
    run.stored = None
    return run, folded._replace(seconds=time.monotonic() - started)


CHECKPOINT: Final = "checkpoints/follow"
"""Folder under the root for Spark's record of the landing; for a set of clusters with a hash of it."""
FILES: Final = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""Spark's columns of files; unselected content is not read."""
FOLDERS_MAX: Final = 1_000_000
"""Folders of this machine that Spark lists by itself: a task for each of a hundred takes seconds, which to list them does not."""
BATCHES_A_LIST: Final = 100
"""Batches after which Spark writes the list of all known files again, which grows with each file."""
PATIENCE_S: Final = 60.0
"""The longest time until a batch that failed is tried again."""
BYTES_TOGETHER_MAX: Final = 8 << 20
"""New files of a cluster that one task folds; more are read by one process and replayed by others."""
NEWS_S: Final = 1
"""How often is looked whether the stream has ended."""


class StoppedError(Exception):
    """The follower was stopped before a batch that failed could be repeated."""


class ClusterBatch(NamedTuple):
    """One batch of one cluster."""

    cluster: str
    batch: int
    files: int
    seconds: float
    outcome: Outcome

    def line(self) -> str:
        """The batch in one line."""
        outcome = self.outcome
        warnings = sum(caveat.severity != Severity.NOTE for caveat in outcome.warnings)
        amiss = ((outcome.bad_records, "bad record"), (warnings, "warning"))
        problems = "".join(f", {plural(count, noun)}" for count, noun in amiss if count)
        return f"{self.cluster}: {plural(self.files, 'file')} in {self.seconds:.1f} s; {outcome.summary}{problems}"


class Follower:
    """Follows one landing; *report* hears of each batch of each cluster."""

    def __init__(self, spark: SparkSession, request: FollowOptions, report: Callable[[ClusterBatch], None]) -> None:
        self._spark = spark
        self._request = request
        self._report = report
        self._hooks = Hooks.of(request)
        self._has_warned = False
        self._set_aside: set[str] = set()
        self._error: Exception | None = None
        self._stream_id = ""
        self._is_named = threading.Event()
        self._stop = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Fold present and new files until *stop* is set; raises errors that a retry cannot cure."""
        self._stop = stop
        with suppress(StoppedError):
            self._retry(self._show_last_runs)
            self._retry(self._follow)

    def _show_last_runs(self) -> None:
        """Show the last run of each cluster to the observers of runs: in metrics, one without new files is behind, not absent."""
        root = self._request.root
        if not observers or not delta_files.exists(root, RUNS):
            return
        names = ("started_at", "ended_at", "data_at", "partial", "inputs")
        for row in read_rows(root, RUNS, where="snapshot_id = cluster", job=JOB, state=str(State.COMPLETE)):
            if self._follows(row["cluster"]):
                run = Run(root, JOB, row["cluster"], row["cluster"], **{name: row[name] for name in names})
                for observe in observers:
                    observe(run)

    def _retry(self, attempt: Callable[[], None]) -> None:
        """Call *attempt* until it succeeds; raises errors that a retry cannot cure, and `StoppedError` after a failure where *stop* is set."""
        failures = 0
        while True:
            started = time.monotonic()
            try:
                return attempt()
            except Exception as error:
                is_lasting = isinstance(error, InputError | ClusterCoreError) and not isinstance(error, PlaceError)
                failure = describe(error)
                may_pass = isinstance(error, PlaceError | OSError) or failure.code == TRY_AGAIN or no_room(error)
                if self._request.once and may_pass:
                    raise TryAgainError(failure.line) from error
                if self._request.once or is_lasting:
                    raise
                self._spark.conf.get("spark.master")  # raises where Spark's JVM has ended
                failures = 1 if time.monotonic() - started > PATIENCE_S else failures + 1
                wait_s = min(PATIENCE_S, 2.0**failures)
                if not self._stop.is_set():
                    sys.stderr.write(f"{complaint(failure.line)}; trying again in {wait_s:.0f} s\n")
                if self._stop.wait(wait_s):
                    raise StoppedError from error

    def _follow(self) -> None:
        """Take batches until *stop*, or the end of a single pass; raises the error that ended it."""
        self._error = None
        query = self._start()
        while not self._stop.is_set() and not _has_ended(query):
            continue
        query.stop()
        error = self._error or query.exception()
        if error is not None:
            raise error

    def _start(self) -> StreamingQuery:
        request = self._request
        files = (
            self._spark.readStream.format("binaryFile")
            .schema(FILES)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.gz")
            .option("ignoreMissingFiles", "true")
            .load(request.landing)
            .select("path", "length")
        )
        # A follower that is killed as its first batch begins leaves a file half written, which Spark 4.2 would refuse to begin beside.
        self._spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        self._spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", BATCHES_A_LIST)
        if "://" not in request.landing:
            self._spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", FOLDERS_MAX)
        self._is_named.clear()
        writer = files.writeStream.queryName("follow").foreachBatch(self._take)
        writer = writer.option("checkpointLocation", f"{request.root.rstrip('/')}/{checkpoint_of(request.clusters)}")
        seconds = max(request.every.total_seconds(), 0.1)
        writer = (
            writer.trigger(availableNow=True) if request.once else writer.trigger(processingTime=f"{seconds} seconds")
        )
        query = writer.start()
        self._stream_id = query.id
        self._is_named.set()
        return query

    def _take(self, files: DataFrame, number: int) -> None:
        """One batch; it is repeated here, because each start of a query costs a thread and a socket that PySpark keeps."""
        self._is_named.wait()
        try:
            self._retry(bind(self._fold_new, files, number))
        except Exception as error:  # Spark passes it on as text only
            self._error = error
            raise

    def _fold_new(self, files: DataFrame, number: int) -> None:
        """Fold the new files of all clusters."""
        listed = {_path_of(row["path"]): row["length"] for row in files.collect()}
        deep = {path for path in listed if self._lies_deeper(path)}
        if deep and not self._has_warned:
            self._has_warned = True
            place = printable(min(deep))
            sys.stderr.write(f"slotscope: {place}: not followed: it lies deeper than LANDING/CLUSTER/POINT/KIND\n")
        new_inputs = recorded_inputs((path, listed[path]) for path in listed.keys() - deep)
        by_cluster = {name: list(mine) for name, mine in groupby(new_inputs, key=lambda file: file.place.cluster)}
        own = {name: mine for name, mine in by_cluster.items() if self._follows(name)}
        self._fold_all(own, Batch(self._stream_id, number))

    def _follows(self, cluster: str) -> bool:
        patterns = self._request.clusters
        return not patterns or any(fnmatchcase(cluster, pattern) for pattern in patterns)

    def _lies_deeper(self, path: str) -> bool:
        """Whether the file at *path* lies deeper in the landing than recordings do."""
        scheme, mark, rest = self._request.landing.rpartition("://")
        place = rest.rstrip("/") if mark else os.path.abspath(rest)
        return path.count("/") - f"{scheme}{mark}{place}".count("/") > len(("cluster", "point", "kind", "name"))

    def _fold_all(self, files: Mapping[str, Sequence[RecordedInput]], batch: Batch) -> None:
        """Fold the new files of each cluster: those with little in tasks of one job, the others one by one, on all cores."""
        root = self._request.root
        known = standing(root, list(files), batch)
        todo = {name: mine for name, mine in files.items() if name not in known.done | self._set_aside}
        together, alone = [], []
        for cluster, mine in sorted(todo.items()):
            is_anew = cluster in known.anew
            mine = todo[cluster] = self._landed(cluster) or mine if is_anew else mine
            if sum(file.size for file in mine) <= BYTES_TOGETHER_MAX:
                together.append(self._replay(cluster, mine, batch, is_anew=is_anew))
            else:
                alone.append(self._replay(cluster, mine, batch, is_anew=is_anew, spark=self._spark))
        folded = fold_together(self._spark, together) if together else []
        for result in chain(folded, map(fold_alone, alone)):
            if result.outcome is None:
                self._set_cluster_aside(result.cluster, result.line)
            else:
                count = len(todo[result.cluster])
                self._report(ClusterBatch(result.cluster, batch.number, count, result.seconds, result.outcome))
        news = sys.stderr if self._request.json else sys.stdout  # which then holds JSON only
        for line in spread_news(root, list(files), self._hooks):
            news.write(f"{line}\n")
            news.flush()

    def _set_cluster_aside(self, cluster: str, why: str) -> None:
        """Do not follow *cluster* until the next start; in strict mode raise InputError."""
        if self._request.mode == "strict":
            raise InputError(f"{cluster}: {why}")
        self._set_aside.add(cluster)
        sys.stderr.write(f"{complaint(why)}; cluster {cluster} is set aside: restart follow to read it anew\n")

    def _replay(
        self,
        cluster: str,
        files: Sequence[RecordedInput],
        batch: Batch,
        *,
        is_anew: bool,
        spark: SparkSession | None = None,
    ) -> HistoryReplay:
        return HistoryReplay(
            spark,
            dataclasses.replace(self._request.replay(cluster), restart=is_anew),
            Inputs.of_landing(files, self._request.log_node),
            batch=batch,
            lateness_ns=int(self._request.lateness.total_seconds() * 1e9),
            keep_ns=int(self._request.keep.total_seconds() * 1e9),
            warnings=[self._lost(cluster, files)] if is_anew else [],
        )

    def _landed(self, cluster: str) -> list[RecordedInput]:
        """All files of *cluster* that the landing still holds."""
        files = expand([f"{self._request.landing.rstrip('/')}/{cluster}/*/*/*.gz"])
        return recorded_inputs((file.path, file.size) for file in files)

    def _lost(self, cluster: str, files: Sequence[RecordedInput]) -> Caveat:
        """Describe the loss where a state of another version cannot be read."""
        first_ns = min(file.place.file.from_ns for file in files)
        rows = read_rows(self._request.root, REPLAYS, columns=("first_ns",), snapshot_id=cluster)
        known_ns = min((row["first_ns"] for row in rows if row["first_ns"]), default=first_ns)
        reason = f"read again after an upgrade or a failure: {plural(len(files), 'file')} of the landing"
        if first_ns <= known_ns:
            return Caveat(Severity.NOTE, Code.STATE, f"{reason}; nothing is lost")
        since = write_instant(first_ns)
        return Caveat(Severity.WARNING, Code.STATE, f"{reason}; history before {since} is lost: its files were deleted")


def checkpoint_of(clusters: Sequence[str]) -> str:
    """The checkpoint of the follower of *clusters*, below its root."""
    names = "\n".join(sorted(set(clusters)))
    return f"{CHECKPOINT}-{sha256(names.encode()).hexdigest()[:8]}" if names else CHECKPOINT


def _has_ended(query: StreamingQuery) -> bool:
    try:
        return bool(query.awaitTermination(NEWS_S))
    except PySparkException:
        return True


def _path_of(uri: str) -> str:
    """The path of a file of this machine, the URI of another."""
    return "/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri
