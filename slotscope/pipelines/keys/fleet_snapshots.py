"""Snapshots of many clusters in one application: each is a run of its own, and one that fails stops no other."""

from __future__ import annotations

import glob
import os
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from cluster_core.errors import ClusterCoreError, MissingInputError
from cluster_core.formats.landing import read_path
from slotscope.options import SnapshotOptions
from slotscope.pipelines.keys.inputs import check_request
from slotscope.pipelines.keys.options import KeyOptions
from slotscope.pipelines.keys.snapshot import JOB, count_keys
from slotscope.reports.delivery import deliver
from slotscope.reports.keyspace.tables import load_report
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.failure import OK, PARTIAL, UNEXPECTED, Failure, describe
from slotscope.runtime.progress import progress, silence
from slotscope.runtime.storage.runs import running
from slotscope.sources.files import expand, is_uri, open_raw
from slotscope.transforms.snapshot_warnings import with_age

MANIFEST_BYTES_MAX: Final = 16 << 20
SUFFIX: Final = ".toml"
HOMES: Final = ("*", "*/*")
"""Folders of a cluster in a landing: its own, and those of its points."""
FILES: Final = {"rdb": ("rdb/*",), "aof": ("aof/*.manifest", "aof/*/*.manifest"), "keys": ("keys/*",)}
"""Options, and the files of a home that are meant."""
NAMED: Final = frozenset({"aof"})
"""Options that name these files; others name their folders, in which other files may lie, too."""
TOPOLOGIES: Final = ("nodes.txt", "nodes.conf")
POLLS: Final = "polls/*"
PATHS: Final = frozenset({*FILES, "topology"})
"""Options with paths; in a manifest they are relative to its folder."""

Options = dict[str, Any]


AT_ONCE: Final = 4
"""Clusters that are read at a time: much of a small job is waiting for its commits."""
OF_ALL: Final = frozenset(field.name for field in fields(SnapshotOptions)) - {"mode", "snapshot"} | {"manifest"}
"""Options of the whole fleet."""
OF_ONE: Final = (*sorted(PATHS), "cluster", "html")
"""Options of one cluster."""


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
    """What the manifest of *request* asks of each cluster, its own options over those of *request*; *parse* reads options as a command line does.

    Raises InputError for a file that is no manifest, and for options that one cluster, or all together, cannot have.
    """
    manifest = request.manifest or ""
    for name in OF_ONE:
        if getattr(request, name):
            raise InputError(
                f"--{name.replace('_', '-')}: with --manifest that is said of each cluster, in the manifest"
            )
    found = []
    for cluster, options in read_manifest(manifest).items():
        where = f"{manifest}: {cluster}"
        for name in options.keys() & OF_ALL:
            raise InputError(f"{where}: {name}: one cluster cannot have that of its own")
        asked = _parsed(options, where, parse)
        own = {name: getattr(asked, name) for name in options}
        snapshot = request.snapshot and f"{request.snapshot}-{cluster}"
        found.append(replace(request, **{"snapshot": snapshot, "cluster": cluster, "manifest": None, **own}))
    named = [one.snapshot for one in found if one.snapshot is not None]
    if len(set(named)) < len(named):
        raise InputError(f"{manifest}: two clusters write one snapshot: give each a name of its own")
    return found


def _parsed(options: Options, where: str, parse: Callable[[Sequence[str]], KeyOptions]) -> KeyOptions:
    known = {field.name for field in fields(KeyOptions)}
    words = []
    for name, value in options.items():
        if name not in known:
            raise InputError(f"{where}: {name}: there is no such option (slotscope key-slots --help)")
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, str | int | float):
                raise InputError(f"{where}: {name}: write a text, a number, true or false, or a list of texts")
            words.append(f"--{name.replace('_', '-')}={str(one).lower() if isinstance(one, bool) else one}")
    try:
        return parse(words)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def count_clusters(spark: SparkSession, requests: Sequence[KeyOptions]) -> Iterator[Counted]:
    """Read the inputs of each request into a snapshot with a page, several at a time; yield the outcomes as they end."""
    done = 0
    pool = ThreadPoolExecutor(AT_ONCE, "cluster")
    with progress("reading clusters", lambda: f"{done} of {len(requests)}"):
        pending = {pool.submit(_count, spark, request): request for request in requests}
        try:
            for ended in as_completed(pending):
                done += 1
                yield _told(pending[ended], ended)
        finally:
            if done < len(requests):  # interrupted
                spark.interruptAll()
            pool.shutdown(cancel_futures=True)


def _told(request: KeyOptions, ended: Future[str]) -> Counted:
    """Return the outcome of one cluster; pages are written one by one, since they share the list of pages."""
    cluster = str(request.cluster)
    error = ended.exception()
    if error is not None:
        return Counted(cluster, failure=describe(error))
    try:
        report = with_age(load_report(request.root, ended.result()), time.time_ns() // 1_000_000)
        page = deliver(report, root=request.root, html=request.html, stream=None)
    except (ClusterCoreError, InputError, TryAgainError, OSError) as trouble:
        return Counted(cluster, ended.result(), failure=describe(trouble))
    state = "partial" if report.bad_records else "finished"
    return Counted(cluster, report.snapshot_id, state, report.keys, sum(one.file_bytes for one in report.sources), page)


def _count(spark: SparkSession, request: KeyOptions) -> str:
    with silence():
        try:
            settings = request.settings()
            check_request(request)
        except (ClusterCoreError, InputError, OSError):
            with running(request.root, JOB, request.snapshot, cluster=request.cluster):
                raise
        return count_keys(spark, request, settings)


def exit_code(clusters: Sequence[Counted]) -> int:
    """Return the common exit code of *clusters*, or the one of partial results."""
    codes = {one.failure.code for one in clusters if one.failure is not None}
    if all(one.failure is not None for one in clusters):
        return codes.pop() if len(codes) == 1 else UNEXPECTED
    return PARTIAL if codes or any(one.state == "partial" for one in clusters) else OK


def read_manifest(path: str) -> dict[str, Options]:
    """The clusters that *path* names, and the options of each, by their names with underscores.

    Raises InputError for a file that is no manifest, DecodeError where it cannot be read.
    """
    path = stores.plain(path)
    clusters = _read_toml(path) if path.endswith(SUFFIX) else _find_clusters(path.rstrip("/"))
    if not clusters:
        raise InputError(f"{path}: no cluster in it: [NAME] and rdb = [...], or NAME/POINT/rdb/*.rdb (docs/fleet.md)")
    return clusters


def _read_toml(path: str) -> dict[str, Options]:
    with open_raw(path) as raw:
        data = raw.read(MANIFEST_BYTES_MAX + 1) or b""
    if len(data) > MANIFEST_BYTES_MAX:
        raise InputError(f"{path}: larger than {MANIFEST_BYTES_MAX} bytes: not a manifest")
    try:
        told = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from error
    home = path.rpartition("/")[0]
    clusters = {}
    for name, options in told.items():
        if not isinstance(options, dict):
            raise InputError(f"{path}: {name}: options stand below the name of their cluster: [NAME]")
        clusters[name] = {option.replace("-", "_"): value for option, value in options.items()}
        for option in clusters[name].keys() & PATHS:
            clusters[name][option] = _from(home, clusters[name][option])
    return clusters


def _from(home: str, value: Any) -> Any:
    """The paths *value*, taken from *home* where they are relative."""
    if isinstance(value, list):
        return [_from(home, one) for one in value]
    if not home or not isinstance(value, str) or is_uri(value) or value.startswith("/"):
        return value
    return f"{home}/{value}"


def _find_clusters(landing: str) -> dict[str, Options]:
    """Return the inputs in *landing* by cluster."""
    clusters: dict[str, Options] = {}
    for option, patterns in FILES.items():
        for cluster, path in _found(landing, *patterns):
            named = path if option in NAMED else path.rpartition("/")[0]
            known = clusters.setdefault(cluster, {}).setdefault(option, [])
            if named not in known:
                known.append(named)
    described = dict(_found(landing, *TOPOLOGIES))
    polled = _newest_polls(landing) if clusters.keys() - described.keys() else {}
    for cluster, options in clusters.items():
        topology = described.get(cluster) or polled.get(cluster)
        if topology is not None:
            options["topology"] = topology
    return dict(sorted(clusters.items()))


def _newest_polls(landing: str) -> dict[str, str]:
    """The file of polls that ended last, by cluster."""
    newest: dict[str, tuple[int, str]] = {}
    for cluster, path in _found(landing, POLLS):
        place = read_path(path)
        if place is not None:
            newest[cluster] = max(newest.get(cluster, (0, "")), (place.file.to_ns or 0, path))
    return {cluster: path for cluster, (_, path) in newest.items()}


def _found(landing: str, *patterns: str) -> Iterator[tuple[str, str]]:
    """Files of *patterns*, each with its cluster."""
    start = len(landing if is_uri(landing) else os.path.abspath(landing)) + 1
    for home in HOMES:
        for pattern in patterns:
            with suppress(MissingInputError):
                for file in expand([f"{glob.escape(landing)}/{home}/{pattern}"]):
                    yield file.path[start:].partition("/")[0], file.path
