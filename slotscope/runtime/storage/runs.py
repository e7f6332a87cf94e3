"""Runs: a job stages its rows, then replaces those of its snapshot table by table, each in one commit.

A run begins with a row in ``silver/runs``, stages rows in memory or, where tasks write them, below ``ROOT/_staging/RUN_ID``, checks
them, and closes: one commit a table, then its row of ``silver/runs`` in the place of those of earlier runs, an audit and not a condition
for readers.  A killed run leaves each table old or new and its row ``running``.  Of two runs of one snapshot the later one, by the numbers
in ``began_at``, wins: the other finds its row before it commits, and a table that holds a greater number refuses its rows.  It
waits for the later run before it fails, so jobs that restart each time both end.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial as bind
from itertools import product
from typing import Any, Final

import pyarrow as pa

from schemas.history import REPLAY_STATE
from schemas.runs import CLUSTERS, FORMAT, RUNS
from schemas.table import Table
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.program import LATEST, program_version
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.delta_files import all_equal, any_of, location

HELD_ROWS_MAX: Final = 50_000
"""Rows of a query that are staged in memory; tasks stage more."""
THREADS: Final = 4
"""Tables that are committed at a time: most of a small commit is waiting."""
WAIT_S: Final = 0.2
"""Between two looks at a later run."""
KEY_JOBS: Final = ("key-slots",)
HISTORY_JOBS: Final = ("history", "bus-replay")
"""The job that writes cluster history, and its former name in older tables."""
REPLAY_JOBS: Final = (*HISTORY_JOBS, "sentinel-replay")
_LISTED: Final = "slotscope tables snapshots lists them"
_COUNTING: Final = threading.Lock()


class State(StrEnum):
    """The state of a run; one that stays ``running`` was killed."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    SET_ASIDE = "set aside"
    """It failed, and the follower leaves its snapshot out until the next start, which reads all files of that again."""


FAILURES: Final = (State.FAILED, State.SET_ASIDE)


@dataclass(slots=True)
class Run:
    """One run of *job* that writes the snapshot or plan *name*; rows of that name by the jobs *replaces* are replaced, too.

    A run that *continues* an earlier one keeps the rows outside of each table's tail (`append`).  Without a name it is called by the
    time at which it began and a random number, with the cluster where one was given.
    """

    root: str
    job: str
    name: str
    cluster: str | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    continues: bool = False
    data_at: datetime | int | None = None
    """Latest time in the inputs; a number is microseconds since the epoch."""
    partial: bool | None = None
    rows: dict[Table, int] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    """End of a run that is shown again."""
    run_id: str = ""
    is_closed: bool = False
    stored: Mapping[Table, pa.Table] | None = None
    """The stored rows of its snapshot, where a task has read them for several runs."""
    new_nodes: list[dict[str, Any]] = field(default_factory=list)
    """Rows of silver/clusters that it adds."""
    _number: int = 0
    """Sequence number, greater than those of earlier runs of its snapshot; by default nanoseconds since the epoch."""
    _clusters: set[str | None] = field(default_factory=set)
    """Clusters of earlier complete runs of its snapshot."""
    _tails: dict[Table, str] = field(default_factory=dict)
    """Tables with staged rows, and the condition of the rows that these replace."""
    _held: dict[Table, list[pa.Table]] = field(default_factory=dict)
    _by_tasks: set[Table] = field(default_factory=set)
    _is_contended: bool = False
    """Whether another run of its snapshot is at work."""

    @property
    def _jobs(self) -> tuple[str, ...]:
        return (self.job, *self.replaces)

    @property
    def _folder(self) -> str:
        return f"{delta_files.base(self.root)}/_staging/{self.run_id}"

    def _mine(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those of *rows* of silver/runs that are about runs of this snapshot and job."""
        return [row for row in rows if row["snapshot_id"] == self.name and row["job"] in self._jobs]

    def belongs_to(self, node_ids: Iterable[str]) -> None:
        """Find the cluster with nodes *node_ids* where it was not given: the last that had one of them, or a name made of an id.

        Raises InputError where the snapshot is one of another cluster.
        """
        from cluster_core.topology.nodes_text import NODE_ID

        ids = sorted({node_id for node_id in node_ids if NODE_ID.fullmatch(node_id)})
        if ids:
            if self.stored is None:
                rows = delta_files.read_rows(self.root, CLUSTERS, where=any_of("node_id", ids), order_by="since")
            else:
                rows = self.stored[CLUSTERS].to_pylist()
            self.cluster = self.cluster or (rows[-1]["cluster"] if rows else f"cluster-{ids[0][:8]}")
            new = set(ids) - {row["node_id"] for row in rows if row["cluster"] == self.cluster}
            now = datetime.now(UTC)
            self.new_nodes = [{"cluster": self.cluster, "node_id": node_id, "since": now} for node_id in sorted(new)]
        self._check_cluster()

    def _check_cluster(self) -> None:
        other = min(filter(None, self._clusters), default=self.cluster)
        if self.cluster is not None and other != self.cluster:
            raise InputError(
                f"--snapshot {self.name}: belongs to cluster {other}, not {self.cluster}; choose another name"
            )

    def for_tasks(self, table: Table, tail: str = "TRUE") -> Run:
        """This run for tasks that `stage` rows of *table*; *tail* as in `append`."""
        self._tails.setdefault(table, tail)
        self._by_tasks.add(table)
        return replace(self, _held={})

    def stage(self, table: Table, rows: pa.Table) -> None:
        """Stage *rows* in a task, as several may at the same time; `wrote` counts them."""
        delta_files.append_rows(self._folder, table, self._labelled(table, rows))

    def append(self, table: Table, rows: Iterable[Mapping[str, Any]] | pa.Table, tail: str = "TRUE") -> None:
        """Stage *rows* of *table* in memory.

        *tail* is the SQL condition of the snapshot's rows that they replace where this run continues an earlier one; all of them else.
        """
        self._tails.setdefault(table, tail)
        made = self._labelled(table, delta_files.as_table(table, rows))
        self._held.setdefault(table, []).append(made)
        self.wrote(table, len(made))

    def _labelled(self, table: Table, rows: pa.Table) -> pa.Table:
        """*rows* with the names of snapshot or plan, cluster and run, in the columns of *table*."""
        rows = rows.select([name for name in rows.column_names if name not in table.labels])
        for name, value in zip(table.labels, (self.name, self.cluster, self.run_id), strict=True):
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(rows)))
        return rows.select(table.columns).cast(table.stored)

    def wrote(self, table: Table, rows: int) -> None:
        """Count *rows* staged rows of *table*."""
        with _COUNTING:
            self.rows[table] = self.rows.get(table, 0) + rows

    def _has_staged(self, table: Table) -> bool:
        """Whether tasks have staged rows of *table*."""
        return table in self._by_tasks and delta_files.exists(self._folder, table)

    def _sources(self, table: Table, staged: bool, stored: bool) -> list[tuple[Any, str]]:
        sources: list[tuple[Any, str]] = []
        if staged:
            sources += [(rows, "TRUE") for rows in self._held.get(table, ()) if len(rows)]
            sources += [(delta_files.dataset(self._folder, table), "TRUE")] if self._has_staged(table) else []
        if stored:
            where = all_equal({table.named_by: self.name})
            if staged and (table in self._tails or table in self._tables):
                where += f" AND NOT ({self._replaced(table)})"
            if self.stored is not None and table in self.stored:
                sources += [(self.stored[table], where)] if len(self.stored[table]) else []
            else:
                sources.append((delta_files.dataset(self.root, table), where))
        return sources

    def query(self, sql: str, table: Table, *, staged: bool = True, stored: bool = True) -> pa.Table:
        """The answer to *sql* about the rows of *table* that the snapshot will have, those that other jobs keep there included.

        Without *stored* about *staged* rows alone, without *staged* about those that the snapshot has now.
        """
        return delta_files.query_sources(sql, table, self._sources(table, staged, stored))

    def read(
        self, table: Table, columns: Sequence[str] = (), where: str = "TRUE", *, staged: bool = True
    ) -> list[dict[str, Any]]:
        """The rows that meet *where*, as `query` knows them."""
        sources = self._sources(table, staged, stored=True)
        if not sources:
            return []
        answer = delta_files.query_sources(delta_files.select(table, columns, where), table, sources)
        rows: list[dict[str, Any]] = answer.to_pylist(maps_as_pydicts="strict")
        return rows

    def forget_read(self, table: Table) -> None:
        """Read *table* again where a task has read a part of its rows."""
        if self.stored is not None:
            self.stored = {other: rows for other, rows in self.stored.items() if other is not table}

    def begin_anew(self) -> None:
        """Forget everything that was staged, and replace the snapshot as a whole."""
        drop_stage(self.root, self.run_id)
        self.rows, self.checks, self._tails, self._held, self.continues = {}, [], {}, {}, False

    def check(self, name: str, values: Mapping[str, int | None]) -> None:
        """Record that the figure *name* is equal in all of *values*, by table; raises InputError where it is not."""
        self.checks += [{"name": name, "of": of, "value": value} for of, value in values.items()]
        known = {of: value for of, value in values.items() if value is not None}
        if len(set(known.values())) > 1:
            listed = ", ".join(f"{value:,} by {of}" for of, value in known.items())
            raise InputError(f"{self.root}: consistency check failed, nothing was replaced: {name}: {listed}")

    @property
    def _tables(self) -> list[Table]:
        """The tables of snapshots that its jobs write."""
        from schemas.catalogue import WRITTEN_BY  # readers do not pay for all tables

        return [table for job in self._jobs for table in WRITTEN_BY.get(job, ()) if table.of_runs]

    def _replaced(self, table: Table) -> str:
        """The SQL condition of the snapshot's stored rows of *table* that this run replaces."""
        tail = self._tails.get(table, "FALSE") if self.continues else "TRUE"
        jobs = " OR ".join(f"run_id LIKE '{job}-%'" for job in self._jobs)
        return f"({jobs}) AND ({tail})"

    def _earlier(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The earlier runs among *rows* of silver/runs; raises TryAgainError where there is a later one, or this one is not there."""
        mine = self._mine(rows)
        earlier = [row for row in mine if (row["began_at"] or 0) < self._number]
        if any(row["state"] not in FAILURES for row in mine if row not in earlier and row["run_id"] != self.run_id):
            raise TryAgainError(f"{self.root}: another {self.job} of {self.name} began during this run; run it again")
        if self.run_id not in {row["run_id"] for row in mine}:
            raise TryAgainError(f"{self.root}: snapshot {self.name} was deleted during this run; run it again")
        return earlier

    def abandon(self, reason: str, state: State = State.FAILED) -> None:
        """Record with *state* that this run failed for *reason*, and remove its staged rows, if the root is writable."""
        failed = self._row(state) | {"reason": reason[: stores.REASON_CHARS_MAX]}
        with suppress(InputError, TryAgainError):
            delta_files.commit_rows(self.root, RUNS, [failed], all_equal({"run_id": self.run_id}))
        drop_stage(self.root, self.run_id)

    def await_later_run(self) -> None:
        """Wait until no later run of the snapshot is at work, at most as long as this one was: two jobs that restart each time both end."""
        now = datetime.now(UTC)
        until = now + (now - self.started_at)
        running = all_equal({"state": State.RUNNING, "snapshot_id": self.name})
        where = f"{any_of('job', self._jobs)} AND {running} AND began_at > {self._number}"
        while datetime.now(UTC) < until and delta_files.read_rows(self.root, RUNS, where=where):
            time.sleep(WAIT_S)

    def _row(self, state: State) -> dict[str, Any]:
        return {
            "snapshot_id": self.name, "cluster": self.cluster, "run_id": self.run_id, "job": self.job, "state": str(state),
            "version": program_version(), "started_at": self.started_at,
            "ended_at": None if state is State.RUNNING else datetime.now(UTC),
            "data_at": self.data_at, "partial": self.partial, "inputs": list(self.inputs.items()),
            "rows": sorted((table.name, count) for table, count in self.rows.items()), "checks": self.checks,
            "reason": None, "began_at": self._number, "format": FORMAT,
        }  # fmt: skip


def _known(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The rows of silver/runs about the snapshots of *runs*."""
    return _stored(runs[0].root, snapshot_id=list(dict.fromkeys(run.name for run in runs)))


def _stored(root: str, order_by: str = "", **values: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of silver/runs that have one of *values* in each column; a column without values may have any."""
    where = " AND ".join(["TRUE", *(any_of(name, known) for name, known in values.items() if known)])
    columns = ("run_id", "snapshot_id", "job", "state", "cluster", "began_at")
    is_there = delta_files.exists(root, RUNS)
    return delta_files.read_rows(root, RUNS, columns=columns, where=where, order_by=order_by) if is_there else []


def _finished(root: str, **values: Sequence[str]) -> list[dict[str, Any]]:
    """Finished runs as `_stored`, by the time of their data, then by their end; unknown times come first."""
    order = "data_at NULLS FIRST, ended_at NULLS FIRST, snapshot_id"
    return _stored(root, order, state=[State.COMPLETE], **values)


def find_name(root: str, name: str, jobs: Sequence[str], cluster: str | None = None) -> str:
    """The snapshot that *name* means: for ``latest`` the newest finished one of *jobs*, of one cluster or of all.

    Raises InputError where there is none, or where there are several clusters and none is named.
    """
    if name != LATEST:
        return name
    runs = _finished(root, job=jobs, cluster=[cluster] if cluster else ())
    if not runs:
        of = f" of cluster {cluster}" if cluster else ""
        raise InputError(f"{root}: no finished snapshot{of} of slotscope {jobs[0]}; {_LISTED}")
    clusters = {run["cluster"] for run in runs}
    if len(clusters) > 1:
        names = ", ".join(sorted(filter(None, clusters)))
        raise InputError(
            f"{root} holds snapshots of several clusters: select one with --cluster or --snapshot: {names}"
        )
    return str(runs[-1]["snapshot_id"])


def name_before(root: str, name: str, jobs: Sequence[str]) -> str:
    """The finished snapshot before *name*, of the same cluster; raises InputError where there is none."""
    runs = _finished(root, job=jobs)
    own = {run["cluster"] for run in runs if run["snapshot_id"] == name}
    names = [str(run["snapshot_id"]) for run in runs if run["cluster"] in own]
    if name not in names[1:]:
        raise InputError(f"{root}: no finished snapshot before {name}: name both; {_LISTED}")
    return names[names.index(name) - 1]


def finished_names(root: str, jobs: Sequence[str], cluster: str | None) -> list[str]:
    """The finished snapshots of *jobs*, of one cluster or of all, the newest last."""
    return [run["snapshot_id"] for run in _finished(root, job=jobs, cluster=[cluster] if cluster else ())]


def cluster_of(root: str, name: str) -> str | None:
    """The cluster of the finished snapshot *name*; None where it is unknown."""
    return next((str(run["cluster"]) for run in _finished(root, snapshot_id=[name]) if run["cluster"]), None)


def begin_together(runs: Sequence[Run]) -> None:
    """Announce *runs* of one root in one commit: a root that cannot be written fails before anything is read.

    Raises InputError, also where a snapshot is one of another cluster.
    """
    for run in runs:
        if run.name == LATEST:
            raise InputError(f"--snapshot {LATEST}: reserved for the newest snapshot; choose another name")
        began, token = run.started_at.astimezone(UTC), secrets.token_hex(3)
        run.run_id = f"{run.job}-{began:%Y%m%dT%H%M%SZ}-{token}"
        run.name = run.name or "-".join(filter(None, (f"{began:%Y-%m-%dT%H%M%SZ}", run.cluster, token)))
    known = _known(runs)
    for run in runs:
        mine = run._mine(known)
        run._clusters = {row["cluster"] for row in mine if row["state"] == State.COMPLETE}
        run._check_cluster()
        run._number = max([time.time_ns(), *((row["began_at"] or 0) + 1 for row in mine)])
    delta_files.append_rows(runs[0].root, RUNS, [run._row(State.RUNNING) for run in runs])


def close_together(runs: Sequence[Run]) -> None:
    """Replace the rows of the snapshots of *runs*, in one commit a table, then write silver/runs.

    Raises `TryAgainError` where a snapshot was deleted, or a later run of it began.
    """
    root, known = runs[0].root, _known(runs)
    by_table: dict[Table, list[Run]] = {}
    for run in runs:
        earlier = run._earlier(known)
        run._is_contended = any(row["state"] == State.RUNNING for row in earlier)
        cleared = run._tables if earlier and (run._is_contended or not run.continues) else ()
        for table in dict.fromkeys((*run._tails, *cleared)):
            by_table.setdefault(table, []).append(run)
    states = by_table.pop(REPLAY_STATE, ())  # last, because a fold goes on from there
    with ThreadPoolExecutor(THREADS, "commits") as pool:
        list(pool.map(_commit, by_table, by_table.values()))
    new_nodes = [row for run in runs for row in run.new_nodes]
    if new_nodes:
        delta_files.append_rows(root, CLUSTERS, new_nodes)
    if states:
        _commit(REPLAY_STATE, states)
    named = ((run, f"{all_equal({'snapshot_id': run.name})} AND {any_of('job', run._jobs)}") for run in runs)
    earlier_rows = _any(f"{mine} AND COALESCE(began_at, 0) <= {run._number}" for run, mine in named)
    delta_files.commit_rows(root, RUNS, [run._row(State.COMPLETE) for run in runs], earlier_rows)
    for run in runs:
        run.is_closed = True
        drop_stage(root, run.run_id)
    for run, observe in product(runs, observers):
        observe(run)


def _commit(table: Table, runs: Sequence[Run]) -> None:
    """Put the rows of *runs* in the place of those that they replace, in one commit; none where there are none.

    Where another run of a snapshot is at work a table without rows is claimed, too.
    """
    from schemas.catalogue import WRITTEN_BY

    claims = {
        f"slotscope {job} {run.name}": run._number
        for run in runs
        for job in run._jobs
        if job == run.job or table in WRITTEN_BY.get(job, ())  # each costs time that grows with their number
    }
    held = [rows for run in runs for rows in run._held.get(table, ())]
    folders = [run._folder for run in runs if run._has_staged(table)]
    rows: pa.Table | Callable[[], pa.RecordBatchReader] | None = None
    if folders:
        if held:
            delta_files.append_rows(folders[0], table, pa.concat_tables(held))
        rows = bind(delta_files.stream, table, [location(folder, table) for folder in folders])
    elif any(map(len, held)) or any(run._is_contended for run in runs):
        rows = pa.concat_tables([*held, table.stored.empty_table()])
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(run._replaced(table), []).append(run.name)
    where = _any(f"{any_of(table.named_by, of)} AND {condition}" for condition, of in names.items())
    delta_files.commit_rows(runs[0].root, table, rows, where, claims)


def _any(conditions: Iterable[str]) -> str:
    """The SQL condition that one of *conditions* is met."""
    return " OR ".join(f"({condition})" for condition in conditions)


observers: list[Callable[[Run], None]] = []
"""Called with each complete run."""


def running(root: str, job: str, name: str | None, **more: Any) -> AbstractContextManager[Run]:
    """`completing` for a new `Run`."""
    return completing(Run(root, job, name or "", **more))


@contextmanager
def completing(run: Run) -> Iterator[Run]:
    """Begin *run*, and commit it when the block ends; a run that ends with an error before that changes no table."""
    begin_together([run])
    try:
        yield run
        close_together([run])
    finally:
        error = sys.exc_info()[1]
        if not run.is_closed and error is not None:
            from slotscope.runtime.failure import describe  # readers do not pay for the command line

            run.abandon(describe(error).line)
            if isinstance(error, TryAgainError):
                with suppress(InputError):
                    run.await_later_run()


def drop_stage(root: str, run_id: str) -> None:
    """Remove the staged rows of a run, if the root is writable."""
    place = f"{delta_files.base(root)}/_staging/{run_id}"
    with suppress(OSError, ValueError):
        system, path = stores.file_system(place)
        system.delete_dir(path)
        os.rmdir(os.path.dirname(place))  # of a local root, where it is empty
