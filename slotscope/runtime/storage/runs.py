"""Runs: a job stages its rows, then replaces those of its snapshot table by table, each in one commit.

Rows are staged below ``ROOT/_staging/RUN_ID``, where no reader looks, and checked there.  `Run.close` then commits each table once and
writes ``silver/runs`` last: an audit, not a condition for readers.  A killed run leaves each table old or new and its row ``running``.
Of two runs of one snapshot the later one wins: its commits carry the version of ``silver/runs`` at which it began, and a table that
holds a greater number refuses the earlier run.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial as bind
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NamedTuple

import pyarrow as pa

from schemas.catalogue import WRITTEN_BY
from schemas.runs import FORMAT, RUNS
from schemas.table import Table
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.program import LATEST
from slotscope.runtime.storage import delta_files, stores
from slotscope.runtime.storage.delta_files import Part, all_equal, any_of, arrow_schema, location
from slotscope.runtime.storage.snapshot_names import fresh_name, recognise

COMPACT_EVERY: Final = 50
"""Versions of silver/runs after which the small files of its tables are joined."""
VERSIONS_OF_RUN: Final = 2
"""Versions of silver/runs that a run makes: at its begin and at its end."""
REASON_CHARS_MAX: Final = 200
HELD_ROWS_MAX: Final = 50_000
"""Rows of a table that wait in memory; more are staged on disk."""
COMMIT_THREADS: Final = 4
"""Tables that are committed at a time: most of a small commit is waiting."""
STAGING: Final = "_staging"


class State(StrEnum):
    """The state of a run; one that stays ``running`` was killed."""

    RUNNING = "running"
    COMPLETE = "complete"
    REPLACED = "replaced"
    FAILED = "failed"


class Stage(NamedTuple):
    """The place of staged rows of one table, which tasks write to; *name* is that of the snapshot or plan."""

    root: str
    table: Table
    name: str
    cluster: str | None
    run_id: str

    @property
    def place(self) -> str:
        """The URI or path of the staged table."""
        return f"{delta_files.base(self.root)}/{STAGING}/{self.run_id}/{self.table.name}"

    def labelled(self, rows: pa.Table) -> pa.Table:
        """*rows* with the columns that name snapshot, cluster and run, in the columns of the table."""
        values = {self.table.named_by: self.name, "cluster": self.cluster, "run_id": self.run_id}
        for name, value in values.items():
            label = pa.repeat(pa.scalar(value, pa.string()), len(rows))
            rows = (rows.drop_columns([name]) if name in rows.column_names else rows).append_column(name, label)
        return rows.select(self.table.columns).cast(arrow_schema(self.table))

    def add(self, rows: pa.Table) -> None:
        """Append *rows*, labelled, to the staged table; several processes may do so at the same time."""
        delta_files.append_table(self.place, self.table, self.labelled(rows))


@dataclass(slots=True)
class _Staged:
    """Rows of one table that wait for their commit."""

    tail: str
    held: list[pa.Table] = field(default_factory=list)
    is_stored: bool = False


@dataclass(slots=True)
class Run:
    """One run of *job* that writes the snapshot or plan *name*; rows of that name by the jobs *replaces* are replaced, too.

    A run that *continues* an earlier one keeps the rows outside of each table's tail (`append`); tables in *last* are committed after
    all others.
    """

    root: str
    job: str
    name: str
    cluster: str | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    last: tuple[Table, ...] = ()
    continues: bool = False
    data_at: datetime | int | None = None
    """Latest time in the inputs; a number is microseconds since the epoch."""
    partial: bool | None = None
    rows: dict[Table, int] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    run_id: str = ""
    is_closed: bool = False
    _number: int = 0
    """Version of silver/runs at which this run began."""
    _cluster_before: str | None = None
    _has_earlier: bool = False
    _complete_before: tuple[str, ...] = ()
    """Complete runs of the snapshot when this run began."""
    _staged: dict[Table, _Staged] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def _jobs(self) -> tuple[str, ...]:
        return (self.job, *self.replaces)

    # -- begin -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write the row that announces this run: a root that cannot be written fails before anything is read.

        A snapshot without a name gets one that no other run has.  Raises InputError, also where the snapshot is one of another cluster.
        """
        if self.name == LATEST:
            raise InputError(f"--snapshot {LATEST}: reserved for the newest snapshot; choose another name")
        is_named = bool(self.name)
        self._announce()
        while not is_named and self._is_taken():
            delta_files.delete_rows(self.root, RUNS, all_equal({"run_id": self.run_id}))
            time.sleep(random.random())
            self.name = ""
            self._announce()

    def _announce(self) -> None:
        self.name = self.name or fresh_name(self.root, self.started_at, self.cluster)
        self.run_id = f"{self.job}-{self.started_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        stored = (
            delta_files.read_rows(self.root, RUNS, snapshot_id=self.name) if delta_files.exists(self.root, RUNS) else []
        )
        for row in stored:
            if row["state"] == State.COMPLETE:
                if row["job"] in self._jobs:
                    self._cluster_before = row["cluster"]
                    self._complete_before = (*self._complete_before, row["run_id"])
                self._check_cluster(row["cluster"])
        self._has_earlier = any(row["job"] in self._jobs for row in stored)
        mine = all_equal({"run_id": self.run_id})
        self._number = delta_files.revise_rows(self.root, RUNS, mine, lambda rows: [self._row(State.RUNNING)])

    def _is_taken(self) -> bool:
        """Whether another run chose the same name."""
        rows = delta_files.read_rows(self.root, RUNS, columns=("run_id", "job"), snapshot_id=self.name)
        return any(row["run_id"] != self.run_id for row in rows if row["job"] in self._jobs)

    def belongs_to(self, node_ids: Iterable[str]) -> None:
        """Find the cluster by the ids of its nodes, where it was not given; raises InputError where the snapshot is one of another."""
        self.cluster = recognise(self.root, node_ids, self.cluster)
        self._check_cluster(self._cluster_before)

    def _check_cluster(self, known: str | None) -> None:
        if None not in (known, self.cluster) and known != self.cluster:
            raise InputError(
                f"--snapshot {self.name}: that is one of cluster {known}, not of {self.cluster}: choose another name"
            )

    # -- stage -------------------------------------------------------------------------------------------------------

    def stage(self, table: Table, tail: str = "TRUE") -> Stage:
        """Where tasks put rows of *table* themselves; `wrote` counts them."""
        with self._lock:
            self._staged.setdefault(table, _Staged(tail)).is_stored = True
        return self._stage(table)

    def _stage(self, table: Table) -> Stage:
        return Stage(self.root, table, self.name, self.cluster, self.run_id)

    def append(self, table: Table, rows: Iterable[Mapping[str, Any]] | pa.Table, tail: str = "TRUE") -> None:
        """Stage *rows* of *table*.

        *tail* is the SQL condition of the snapshot's rows that they replace where this run continues an earlier one; all of them else.
        """
        made = rows if isinstance(rows, pa.Table) else delta_files.as_table(table, rows)
        with self._lock:
            staged = self._staged.setdefault(table, _Staged(tail))
            staged.held.append(self._stage(table).labelled(made))
            self.wrote(table, len(made))
            if sum(map(len, staged.held)) > HELD_ROWS_MAX:
                self._store(table, staged)

    def wrote(self, table: Table, rows: int) -> None:
        """Count so many staged *rows* of *table*."""
        with self._lock:
            self.rows[table] = self.rows.get(table, 0) + rows

    def _store(self, table: Table, staged: _Staged) -> None:
        rows, staged.held = pa.concat_tables(staged.held), []
        if len(rows):
            self._stage(table).add(rows)
            staged.is_stored = True

    def parts(self, table: Table) -> list[Part]:
        """The rows of *table* that its snapshot will have: staged ones, kept ones, and those of other jobs."""
        with self._lock:
            staged = self._staged.get(table)
            if staged is not None and staged.held:
                self._store(table, staged)
            found = []
            if staged is not None and staged.is_stored and delta_files.is_table(self._stage(table).place):
                found.append(Part(self._stage(table).place, "TRUE"))
            if delta_files.exists(self.root, table):
                same = all_equal({table.named_by: self.name})
                kept = f"{same} AND NOT ({self._replaced(table, staged)})" if self._writes(table) else same
                found.append(Part(location(self.root, table), kept))
            return found

    def own_parts(self, table: Table) -> list[Part]:
        """The rows of *table* that this run itself has staged."""
        return [part for part in self.parts(table) if part.place == self._stage(table).place]

    def figures(self, table: Table, **selected: str) -> dict[str, int | None]:
        """The SQL aggregates *selected* of the rows of *table* that this run has staged."""
        names = [f"{what} AS {name}" for name, what in selected.items()]
        (row,) = delta_files.select_rows(self.root, table, names, self.own_parts(table))
        return row

    def _writes(self, table: Table) -> bool:
        return table in self._staged or table in self._tables()

    def _replaced(self, table: Table, staged: _Staged | None) -> str:
        """The SQL condition of the stored rows of *table* that this run replaces."""
        mine = " OR ".join(f"run_id LIKE '{job}-%'" for job in self._jobs)
        tail = "TRUE" if not self.continues else staged.tail if staged is not None else "FALSE"
        return f"{all_equal({table.named_by: self.name})} AND ({mine})" + (f" AND ({tail})" if tail != "TRUE" else "")

    def begin_anew(self) -> None:
        """Forget everything that was staged, and replace the snapshot as a whole."""
        drop_stage(self.root, self.run_id)
        self.rows, self.checks, self._staged, self.continues = {}, [], {}, False

    def check(self, name: str, values: Mapping[str, int | None]) -> None:
        """Record that the figure *name* is equal in all of *values*, by table; raises InputError where it is not."""
        known = {value for value in values.values() if value is not None}
        self.checks += [{"name": name, "of": of, "value": value} for of, value in values.items()]
        if len(known) > 1:
            listed = ", ".join(f"{value:,} by {of}" for of, value in values.items() if value is not None)
            raise InputError(f"{self.root}: consistency check failed, nothing was replaced: {name}: {listed}")

    # -- commit ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Replace the rows of the snapshot, one commit a table, then write silver/runs.

        Raises `TryAgainError` where the snapshot was deleted, or another run of it came first.
        """
        is_contended = self._is_contended()
        earlier = self._tables() if is_contended or (self._has_earlier and not self.continues) else []
        tables = dict.fromkeys((*self._staged, *earlier))
        with ThreadPoolExecutor(COMMIT_THREADS, "commits") as pool:
            for done in [pool.submit(self._commit, table, is_contended) for table in tables if table not in self.last]:
                done.result()
        for table in self.last:
            self._commit(table, is_contended)
        version_made = delta_files.revise_rows(self.root, RUNS, self._same_snapshot(), self._closed)
        self.is_closed = True
        drop_stage(self.root, self.run_id)
        if version_made % COMPACT_EVERY < VERSIONS_OF_RUN:
            self._compact()

    def _same_snapshot(self) -> str:
        live = any_of("state", (State.RUNNING, State.COMPLETE))
        same = f"{all_equal({'snapshot_id': self.name})} AND {any_of('job', self._jobs)}"
        return f"run_id = '{self.run_id}' OR ({same} AND {live})"

    def _is_contended(self) -> bool:
        """Whether another run of the snapshot may be at work: then tables without rows are claimed, too."""
        rows = delta_files.read_rows(self.root, RUNS, columns=("run_id", "state"), where=self._same_snapshot())
        self._check_announced(rows)
        if any(row["state"] == State.COMPLETE and row["run_id"] not in self._complete_before for row in rows):
            raise self._lose()
        return any(row["state"] == State.RUNNING and row["run_id"] != self.run_id for row in rows)

    def _check_announced(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.run_id not in {row["run_id"] for row in rows}:
            raise TryAgainError(f"{self.root}: snapshot {self.name} was deleted during this run; run it again")

    def _lose(self) -> TryAgainError:
        return TryAgainError(f"{self.root}: another {self.job} replaced {self.name} during this run; run it again")

    def _commit(self, table: Table, is_contended: bool) -> None:
        staged = self._staged.get(table)
        where = self._replaced(table, staged)
        if not self.rows.get(table) and not is_contended:
            if delta_files.exists(self.root, table):
                delta_files.delete_rows(self.root, table, where)
            return
        held = staged.held if staged is not None else []
        parts = self.own_parts(table) if staged is not None and staged.is_stored else []
        rows = bind(delta_files.read_part, table, parts[0]) if parts else _joined(table, held)
        claims = {f"slotscope {job} {self.name}": self._number for job in self._jobs}
        delta_files.commit_rows(self.root, table, rows, where, claims)

    def _closed(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of silver/runs about the snapshot once this run is complete."""
        self._check_announced(rows)
        if any(row["state"] == State.COMPLETE and (row["began_at"] or 0) > self._number for row in rows):
            raise self._lose()
        return [self._row(State.COMPLETE), *(_ended(row) for row in rows if row["run_id"] != self.run_id)]

    def abandon(self, error: BaseException) -> None:
        """Record that this run failed, and remove its staged rows, as far as the root can be written."""
        words = (str(error).splitlines() or [""])[0] or type(error).__name__
        with suppress(InputError, TryAgainError):
            mine = all_equal({"run_id": self.run_id})
            failed = self._row(State.FAILED) | {"reason": words[:REASON_CHARS_MAX]}
            delta_files.revise_rows(self.root, RUNS, mine, lambda rows: [failed])
        drop_stage(self.root, self.run_id)

    def _compact(self) -> None:
        for table in (*self._tables(), RUNS):
            with suppress(InputError, TryAgainError):
                if delta_files.exists(self.root, table):
                    delta_files.compact(self.root, table)

    def _tables(self) -> list[Table]:
        """The tables of snapshots that its jobs write."""
        known = (table for job in self._jobs for table in WRITTEN_BY.get(job, ()))
        return [table for table in dict.fromkeys(known) if table.of_runs]

    def _row(self, state: State) -> dict[str, Any]:
        ended = state is not State.RUNNING
        return {
            "snapshot_id": self.name, "cluster": self.cluster, "run_id": self.run_id, "job": self.job, "state": str(state),
            "version": program_version(), "started_at": self.started_at, "ended_at": datetime.now(UTC) if ended else None,
            "data_at": self.data_at, "partial": self.partial, "inputs": list(self.inputs.items()),
            "rows": sorted((table.name, count) for table, count in self.rows.items()), "checks": self.checks,
            "reason": None, "began_at": self._number if ended else None, "format": FORMAT,
        }  # fmt: skip


_observers: list[Callable[[Run], None]] = []


def observe_runs(*observers: Callable[[Run], None]) -> None:
    """Call *observers*, and no others, with each complete run: a catalog registers its tables so."""
    _observers[:] = observers


@contextmanager
def running(root: str, job: str, name: str | None, **more: Any) -> Iterator[Run]:
    """A `Run` that is committed when its block ends; one that ends with an error before that changes no table.

    Without *name* it is called by the time at which it began.
    """
    run = Run(root, job, name or "", **more)
    run.begin()
    try:
        yield run
        run.close()
        for observe in _observers:
            observe(run)
    finally:
        error = sys.exc_info()[1]
        if not run.is_closed and error is not None:
            run.abandon(error)


def drop_stage(root: str, run_id: str) -> None:
    """Remove the staged rows of a run, as far as the root can be written."""
    place = f"{delta_files.base(root)}/{STAGING}/{run_id}"
    if "://" not in root:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):
            os.rmdir(os.path.dirname(place))
        return
    with suppress(OSError, ValueError):
        system, path = stores.file_system(place)
        system.delete_dir(path)


def program_version() -> str:
    """The version of this program."""
    try:
        return version("slotscope")
    except PackageNotFoundError:  # the code came in a zip
        return "unknown (not installed)"


def _joined(table: Table, rows: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(rows) if rows else arrow_schema(table).empty_table()


def _ended(row: dict[str, Any]) -> dict[str, Any]:
    """The row of another run of the snapshot once a later one is complete."""
    if row["state"] == State.COMPLETE:
        return {**row, "state": str(State.REPLACED)}
    return {**row, "state": str(State.FAILED), "reason": "it did not finish; a later run replaced the snapshot"}
