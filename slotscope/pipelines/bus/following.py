"""A landing that is followed: a stream whose batches are new files, each batch a fold of `bus_history`.

Spark lists the landing, remembers in its checkpoint what it has seen, and numbers the batches; a batch has the names of files, which
the tasks of the fold open.  The states of all machines are rows of silver/replay_state, written last and with the number of the batch:
a batch that is carried out again, because the follower was killed before Spark took note of it, finds its number there and does nothing
(`slotscope.pipelines.bus.fleet`).
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cluster_core.errors import ClusterCoreError
from cluster_core.instants import write_instant
from cluster_core.kinds import Severity
from schemas.caveats import Caveat, Code
from schemas.history import REPLAYS
from slotscope.pipelines.bus.fleet import fold_alone, fold_together, standing
from slotscope.pipelines.bus.history import HistoryReplay
from slotscope.pipelines.bus.incident_news import Hooks, spread_news
from slotscope.pipelines.bus.inputs import Inputs
from slotscope.pipelines.bus.outcome import Outcome
from slotscope.pipelines.bus.states import Batch
from slotscope.runtime.errors import InputError, PlaceError, TryAgainError
from slotscope.runtime.failure import TRY_AGAIN, complaint, describe, no_room
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.text import plural, printable
from slotscope.sources.bus.files import RecordedInput, recorded_inputs
from slotscope.sources.files import expand

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import FollowOptions

CHECKPOINT: Final = "checkpoints/follow"
"""Under the root: what Spark remembers of the landing; for a set of clusters with a hash of it."""
FILES: Final = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""What Spark knows of files; their content is not asked for, and so not read."""
FOLDERS_MAX: Final = 1_000_000
"""Folders of this machine that Spark lists by itself: a task for each of a hundred takes seconds, which to list them does not."""
PATIENCE_S: Final = 60.0
"""The longest time until a batch that failed is tried again."""
BYTES_TOGETHER_MAX: Final = 8 << 20
"""New files of a cluster that one task folds; more are read by one process and replayed by others."""
NEWS_S: Final = 1
"""How often is looked whether the stream has ended."""


class Followed(NamedTuple):
    """One batch of one cluster."""

    cluster: str
    batch: int
    files: int
    seconds: float
    outcome: Outcome

    def line(self) -> str:
        """What is said of it."""
        outcome = self.outcome
        doubts = sum(caveat.severity != Severity.NOTE for caveat in outcome.warnings)
        amiss = ((outcome.bad_records, "bad record"), (doubts, "warning"))
        problems = "".join(f", {plural(count, noun)}" for count, noun in amiss if count)
        return f"{self.cluster}: {plural(self.files, 'file')} in {self.seconds:.1f} s; {outcome.lines()[0]}{problems}"


class Follower:
    """Follows one landing; *told* hears of each batch of each cluster."""

    def __init__(self, spark: SparkSession, request: FollowOptions, told: Callable[[Followed], None]) -> None:
        self._spark = spark
        self._request = request
        self._told = told
        self._hooks = Hooks.of(request)
        self._has_warned = False
        self._set_aside: set[str] = set()
        self._error: Exception | None = None
        self._stream_id = ""
        self._is_named = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Take what is there, and what comes until *stop* is set; raises what went wrong where it is of no use to try again."""
        failures = 0
        while not stop.is_set():
            started = time.monotonic()
            error = self._follow(stop)
            if error is None:
                return
            is_lasting = isinstance(error, InputError | ClusterCoreError) and not isinstance(error, PlaceError)
            failure = describe(error)
            may_pass = isinstance(error, PlaceError | OSError) or failure.code == TRY_AGAIN or no_room(error)
            if self._request.once and may_pass:
                raise TryAgainError(failure.line) from error
            if self._request.once or is_lasting:
                raise error
            if stop.is_set():
                return
            failures = 1 if time.monotonic() - started > PATIENCE_S else failures + 1
            wait_s = min(PATIENCE_S, 2.0**failures)
            sys.stderr.write(f"{complaint(failure.line)}; trying again in {wait_s:.0f} s\n")
            stop.wait(wait_s)

    def _follow(self, stop: threading.Event) -> Exception | None:
        """Take batches until *stop*, or the end of a single pass; return the error that ended it."""
        try:
            query = self._start()
            while not stop.is_set() and not _has_ended(query):
                continue
            query.stop()
            return self._error or query.exception()
        except (PySparkException, Py4JJavaError) as error:  # the checkpoint cannot be read or written
            return self._error or error
        finally:
            self._error = None

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
        """One batch: the new files of all clusters."""
        self._is_named.wait()
        try:
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
        except (
            InputError,
            TryAgainError,
            ClusterCoreError,
            OSError,
            PySparkException,
        ) as error:  # Spark tells of it as text only
            self._error = error
            raise

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
        for one in chain(folded, map(fold_alone, alone)):
            if one.outcome is None:
                self._set_cluster_aside(one.cluster, one.line)
            else:
                self._told(Followed(one.cluster, batch.number, len(todo[one.cluster]), one.seconds, one.outcome))
        news = sys.stderr if self._request.json else sys.stdout  # which then holds JSON only
        for line in spread_news(root, sorted(files), self._hooks):
            news.write(f"{line}\n")
            news.flush()

    def _set_cluster_aside(self, cluster: str, why: str) -> None:
        """Leave *cluster* as it is until the next start; in strict mode raise InputError."""
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
            warnings=[self._lost(cluster, files)] if is_anew else [],
        )

    def _landed(self, cluster: str) -> list[RecordedInput]:
        """All files of *cluster* that the landing still holds."""
        files = expand([f"{self._request.landing.rstrip('/')}/{cluster}/*/*/*.gz"])
        return recorded_inputs((file.path, file.size) for file in files)

    def _lost(self, cluster: str, files: Sequence[RecordedInput]) -> Caveat:
        """What is lost where the state of another version cannot be read."""
        first_ns = min(file.place.file.from_ns for file in files)
        rows = read_rows(self._request.root, REPLAYS, columns=("first_ns",), snapshot_id=cluster)
        known_ns = min((row["first_ns"] for row in rows if row["first_ns"]), default=first_ns)
        reason = f"read anew after an upgrade or a failure: {plural(len(files), 'file')} of the landing"
        if first_ns <= known_ns:
            return Caveat(Severity.NOTE, Code.STATE, f"{reason}; nothing is lost")
        since = write_instant(first_ns)
        return Caveat(Severity.WARNING, Code.STATE, f"{reason}; history before {since} is lost: its files are gone")


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
