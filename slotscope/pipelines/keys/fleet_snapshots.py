"""Snapshots of many clusters in one application: each is a run of its own, and one that fails stops no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import fields, replace
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from cluster_core.errors import ClusterCoreError
from slotscope.options import SnapshotOptions
from slotscope.pipelines.keys.inputs import check_request
from slotscope.pipelines.keys.options import KeyOptions
from slotscope.pipelines.keys.snapshot import JOB, count_keys
from slotscope.reports.delivery import deliver
from slotscope.reports.keyspace.report import load_report
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.failure import Failure, code_of_all, describe
from slotscope.runtime.progress import progress, silence
from slotscope.runtime.storage.runs import running
from slotscope.sources import fleet_manifest

AT_ONCE: Final = 4
"""Clusters that are read at a time: much of a small job is waiting for its commits."""
OF_ALL: Final = frozenset(field.name for field in fields(SnapshotOptions)) - {"mode", "snapshot"} | {"manifest"}
"""Options that one cluster cannot have of its own."""
OF_ONE: Final = ("aof", "keys", "rdb", "topology", "cluster", "html")
"""Options that are set per cluster."""


class Counted(NamedTuple):
    """The outcome of one cluster: its snapshot and *page*, or the *failure*."""

    cluster: str
    snapshot: str | None = None
    state: str = "failed"
    keys: int | None = None
    input_bytes: int | None = None
    page: str | None = None
    failure: Failure | None = None

    @property
    def row(self) -> tuple[str | int | None, ...]:
        """Its values by `COLUMNS`."""
        return (*self[:-1], self.failure.line if self.failure else None)


COLUMNS: Final = (*Counted._fields[:-1], "reason")


def requests_of(request: KeyOptions, parse: Callable[[Sequence[str]], KeyOptions]) -> list[KeyOptions]:
    """Return a request per cluster of the manifest of *request*, with a snapshot of its own; raises InputError."""
    manifest = request.manifest or ""
    for name in OF_ONE:
        if getattr(request, name):
            raise InputError(f"--{name.replace('_', '-')}: set it per cluster, in the manifest")
    asked = fleet_manifest.requests_of(replace(request, snapshot=None), manifest, parse, OF_ALL)
    if request.snapshot:
        asked = [replace(entry, snapshot=entry.snapshot or f"{request.snapshot}-{entry.cluster}") for entry in asked]
    named = [entry.snapshot for entry in asked if entry.snapshot is not None]
    if len(set(named)) < len(named):
        raise InputError(f"{manifest}: two clusters write one snapshot: give each a name of its own")
    return asked


def count_clusters(spark: SparkSession, requests: Sequence[KeyOptions]) -> Iterator[Counted]:
    """Read the inputs of each request into a snapshot with a page, several at a time; yield the outcomes as they end."""
    done = 0
    pool = ThreadPoolExecutor(AT_ONCE, "cluster")
    with progress("reading clusters", lambda: f"{done} of {len(requests)}"):
        pending = {pool.submit(_count, spark, request): request for request in requests}
        try:
            for ended in as_completed(pending):
                done += 1
                yield _outcome(pending[ended], ended)
        finally:
            if done < len(requests):  # interrupted
                spark.interruptAll()
            pool.shutdown(cancel_futures=True)


def _outcome(request: KeyOptions, ended: Future[str]) -> Counted:
    """Return the outcome of one cluster; pages are written one by one, since they share the list of pages."""
    cluster = str(request.cluster)
    error = ended.exception()
    if error is not None:
        return Counted(cluster, failure=describe(error))
    try:
        report = load_report(request.root, ended.result(), time.time_ns() // 1_000_000)
        page = deliver(report, root=request.root, html=request.html, stream=None)
    except (ClusterCoreError, InputError, TryAgainError, OSError) as trouble:
        return Counted(cluster, ended.result(), failure=describe(trouble))
    state = "partial" if report.bad_records else "finished"
    return Counted(
        cluster, report.snapshot_id, state, report.keys, sum(source.file_bytes for source in report.sources), page
    )


def _count(spark: SparkSession, request: KeyOptions) -> str:
    with silence():
        try:
            check_request(request)
        except (ClusterCoreError, InputError, OSError):
            with running(request.root, JOB, request.snapshot, cluster=request.cluster):
                raise
        return count_keys(spark, request)


def exit_code(clusters: Sequence[Counted]) -> int:
    """The exit code of a job over *clusters*."""
    return code_of_all(
        [outcome.failure for outcome in clusters], is_partial=any(outcome.state == "partial" for outcome in clusters)
    )
