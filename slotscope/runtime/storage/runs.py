"""Runs: all or nothing, for who reads, too.

A job appends its rows stamped with the id of its run, table by table: appending never conflicts with what other jobs do.  One commit to
``silver/runs`` then says that the run is complete, and which run ids make the snapshot from now on; every reader counts rows of those
only.  Rows of the run that was replaced are removed afterwards, and what a killed job leaves by the next run of that name, or by
``slotscope maintain``.  Who finds at that commit that another run of the same snapshot was first loses: its rows go.
"""

from __future__ import annotations

import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pyarrow as pa

from schemas.catalogue import WRITTEN_BY
from schemas.runs import RUNS
from schemas.table import Table
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.program import LATEST
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.delta_upkeep import compact, copy_rows, delete_rows
from slotscope.runtime.storage.snapshot_names import fresh_name, recognise
from slotscope.runtime.storage.stamps import LASTING, Lasting, Stamp

JOINED_EVERY: Final = 50
"""Versions of silver/runs after which the small files of its tables are joined."""
VERSIONS_OF_RUN: Final = 2
"""One says that it is at work, one what it came to."""
REASON_CHARS_MAX: Final = 200
LASTING_MAX: Final = 32
"""Ids of as many runs become one: a snapshot of any number of runs counts few, and a row changes hands once in a while."""


class State(StrEnum):
    """What became of a run."""

    RUNNING = "running"
    COMPLETE = "complete"
    REPLACED = "replaced"
    FAILED = "failed"


@dataclass(slots=True)
class Run:
    """One run of *job* that writes the snapshot, or plan, *name*; *replaces* are other jobs whose rows of that name go with their own.

    *kept* are run ids of earlier runs whose lasting rows stay a part of the snapshot (`keep`).
    """

    root: str
    job: str
    name: str
    cluster: str | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    data_at: datetime | int | None = None
    """Latest time that the inputs tell of; a number is microseconds since the epoch."""
    partial: bool | None = None
    rows: dict[Table, int] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    run_id: str = ""
    is_closed: bool = False
    """Whether its rows are the snapshot: from then on nothing that goes wrong takes them away."""
    lasts: bool = False
    """Whether some of its rows are lasting."""
    _before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Run ids that made the snapshot when this run began, by job."""
    _cluster_before: str | None = None
    _joined: tuple[str, ...] = ()
    """Under which ids this run took over lasting rows of earlier ones."""
    _others: bool = False
    """Whether there were runs of that name before."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def own(self) -> tuple[str, str]:
        """The run ids of the rows that this run itself writes."""
        return (self.run_id, f"{self.run_id}{LASTING}")

    @property
    def counted(self) -> tuple[str, ...]:
        """The run ids that make the snapshot once this run is complete, as far as its jobs write it."""
        return (*self.kept, *self._joined, *([f"{self.run_id}{LASTING}"] if self.lasts else []), self.run_id)

    @property
    def visible(self) -> tuple[str, ...]:
        """The run ids that this run itself reads of its snapshot: with those of other jobs."""
        others = (ids for job, ids in self._before.items() if job not in self._jobs)
        return (*(run_id for ids in others for run_id in ids), *self.counted)

    @property
    def before(self) -> tuple[str, ...]:
        """The run ids that made the snapshot when this run began, as far as its job wrote it."""
        return self._before.get(self.job, ())

    @property
    def lasting_before(self) -> tuple[str, ...]:
        """The lasting rows of the snapshot as it was when this run began."""
        return tuple(run_id for run_id in self.before if run_id.endswith(LASTING))

    def keep(self, run_ids: tuple[str, ...]) -> None:
        """Let the lasting rows of the earlier runs *run_ids* stay a part of the snapshot; those of many runs become rows of this one."""
        self.kept = run_ids
        depth = 1
        while True:
            alike = [one for one in self.kept if len(one) - len(one.rstrip(LASTING)) == depth]
            if len(alike) >= LASTING_MAX:
                self._take_over(alike, f"{self.run_id}{LASTING * (depth + 1)}")
            elif not any(len(one) - len(one.rstrip(LASTING)) > depth for one in self.kept):
                return
            depth += 1

    def _take_over(self, run_ids: Sequence[str], own: str) -> None:
        self._joined = (*self._joined, own)
        for table in self._tables():
            if delta_files.exists(self.root, table):
                where = (
                    f"{delta_files.all_equal({table.named_by: self.name})} AND {delta_files.any_of('run_id', run_ids)}"
                )
                copy_rows(self.root, table, where, own)
        self.kept = tuple(one for one in self.kept if one not in run_ids)

    @property
    def _jobs(self) -> tuple[str, ...]:
        return (self.job, *self.replaces)

    def begin(self) -> None:
        """Write the row that says that this run is at work: nothing is read where that cannot be written.

        A snapshot without a name gets one that no other run has.  Raises InputError, also where the snapshot is one of another cluster.
        """
        if self.name == LATEST:
            raise InputError(f"--snapshot {LATEST}: that is what readers call the newest one: choose another name")
        is_named = bool(self.name)
        self._announce()
        while not is_named and self._is_taken():
            self._withdraw()
            self.name = ""
            self._announce()

    def _announce(self) -> None:
        self.name = self.name or fresh_name(self.root, self.started_at, self.cluster)
        self.run_id = f"{self.job}-{self.started_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        found = (
            delta_files.read_rows(self.root, RUNS, snapshot_id=self.name) if delta_files.exists(self.root, RUNS) else []
        )
        for row in found:
            if row["state"] == State.COMPLETE:
                self._before[row["job"]] = tuple(row["counted"])
                if row["job"] in self._jobs:
                    self._cluster_before = row["cluster"]
                self._check_cluster(row["cluster"])
        self._others = any(row["job"] in self._jobs for row in found)
        delta_files.append_rows(self.root, RUNS, [self._row(State.RUNNING)])

    def _is_taken(self) -> bool:
        """Whether another run came to the same name; who sees nobody stays with it, since all that come later see that one."""
        rows = delta_files.read_rows(self.root, RUNS, columns=("run_id", "job"), snapshot_id=self.name)
        return any(row["run_id"] != self.run_id for row in rows if row["job"] in self._jobs)

    def _withdraw(self) -> None:
        delete_rows(self.root, RUNS, delta_files.all_equal({"run_id": self.run_id}))
        time.sleep(random.random())

    def belongs_to(self, node_ids: Iterable[str]) -> None:
        """Find the cluster by the ids of its nodes, where it was not given; raises InputError where the snapshot is one of another."""
        self.cluster = recognise(self.root, node_ids, self.cluster)
        self._check_cluster(self._cluster_before)

    def _check_cluster(self, known: str | None) -> None:
        if None not in (known, self.cluster) and known != self.cluster:
            raise InputError(
                f"--snapshot {self.name}: that is one of cluster {known}, not of {self.cluster}: choose another name"
            )

    def stamp(self, table: Table, lasting: Lasting = None) -> Stamp:
        """What rows of *table* that this run adds are marked with."""
        self.lasts = self.lasts or lasting is not None
        return Stamp(table, self.name, self.cluster, self.run_id, lasting)

    def append(self, table: Table, rows: Iterable[Mapping[str, Any]] | pa.Table, lasting: Lasting = None) -> None:
        """Add *rows* to *table*: they count when the run is complete."""
        made = rows if isinstance(rows, pa.Table) else delta_files.as_table(table, rows)
        delta_files.append_table(self.root, table, self.stamp(table, lasting if len(made) else None).on(made))
        self.wrote(table, len(made))

    def wrote(self, table: Table, rows: int) -> None:
        """Note that so many *rows* of *table* were added."""
        with self._lock:
            self.rows[table] = self.rows.get(table, 0) + rows

    def check(self, name: str, values: Mapping[str, int | None]) -> None:
        """Note that the figure *name* is the same in all tables, which *values* go by; raises InputError where it is not."""
        known = {value for value in values.values() if value is not None}
        self.checks += [{"name": name, "of": of, "value": value} for of, value in values.items()]
        if len(known) > 1:
            told = ", ".join(f"{value:,} by {of}" for of, value in values.items() if value is not None)
            raise InputError(f"{self.root}: the tables contradict each other, nothing was replaced: {name} are {told}")

    def close(self) -> None:
        """Make the rows of this run the snapshot, in one commit; then remove what they replace.

        Raises `TryAgainError` where another run of the snapshot was first.
        """
        jobs = delta_files.any_of("job", self._jobs)
        same = f"{delta_files.all_equal({'snapshot_id': self.name})} AND {jobs}"
        live = delta_files.any_of("state", (State.RUNNING, State.COMPLETE))
        version_made = delta_files.revise_rows(
            self.root, RUNS, f"{delta_files.all_equal({'run_id': self.run_id})} OR ({same} AND {live})", self._closed
        )
        self.is_closed = True
        if self._others:
            self._sweep()
        if version_made % JOINED_EVERY < VERSIONS_OF_RUN:
            self._join()

    def _closed(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of silver/runs that stand for the snapshot, as they are once this run is complete."""
        if any(row["run_id"] == self.run_id and row["state"] == State.COMPLETE for row in rows):
            return rows  # an attempt that seemed to fail
        before = {row["job"]: tuple(row["counted"]) for row in rows if row["state"] == State.COMPLETE}
        if self.run_id not in {row["run_id"] for row in rows}:
            raise TryAgainError(f"{self.root}: {self.name} was forgotten while {self.job} was at work: run this again")
        if before != {job: ids for job, ids in self._before.items() if job in self._jobs}:
            raise TryAgainError(
                f"{self.root}: another {self.job} replaced {self.name} while this one was at work: run this again"
            )
        self._others = self._others or len(rows) > 1
        return [self._row(State.COMPLETE), *(_ended(row) for row in rows if row["run_id"] != self.run_id)]

    def abandon(self, error: BaseException) -> None:
        """Say that this run failed, and remove its rows, as far as that can be done now."""
        words = (str(error).splitlines() or [""])[0] or type(error).__name__
        with suppress(InputError, TryAgainError):
            mine = delta_files.all_equal({"run_id": self.run_id})
            failed = self._row(State.FAILED) | {"reason": words[:REASON_CHARS_MAX]}
            delta_files.revise_rows(self.root, RUNS, mine, lambda rows: [failed])
        for table in self._tables():
            with suppress(InputError, TryAgainError):
                self._delete_own(table)

    def begin_anew(self) -> None:
        """Remove what this run has written so far."""
        for table in self._tables():
            self._delete_own(table)
        self.rows, self.checks, self.lasts, self._joined = {}, [], False, ()

    def _sweep(self) -> None:
        """Remove the rows of the snapshot that earlier runs left, and that do not count any more."""
        stale = " OR ".join(f"starts_with(run_id, '{job}-')" for job in self._jobs)
        for table in self._tables():
            with suppress(InputError, TryAgainError):  # they do not count; maintain removes them
                self._delete(table, f"({stale}) AND NOT {delta_files.any_of('run_id', self.counted)}")

    def _delete_own(self, table: Table) -> None:
        self._delete(table, delta_files.any_of("run_id", (*self.own, *self._joined)))

    def _delete(self, table: Table, where: str) -> None:
        if delta_files.exists(self.root, table):
            delete_rows(self.root, table, f"{delta_files.all_equal({table.named_by: self.name})} AND {where}")

    def _join(self) -> None:
        for table in (*self._tables(), RUNS):
            with suppress(InputError, TryAgainError):
                if delta_files.exists(self.root, table):
                    compact(self.root, table)

    def _tables(self) -> list[Table]:
        """The tables of runs that its jobs write."""
        known = (table for job in self._jobs for table in WRITTEN_BY.get(job, ()))
        return [table for table in dict.fromkeys((*known, *self.rows)) if table.of_runs]

    def _row(self, state: State) -> dict[str, Any]:
        ended = state is not State.RUNNING
        return {
            "snapshot_id": self.name, "cluster": self.cluster, "run_id": self.run_id, "job": self.job, "state": str(state),
            "version": program_version(), "started_at": self.started_at, "ended_at": datetime.now(UTC) if ended else None,
            "data_at": self.data_at, "partial": self.partial, "inputs": list(self.inputs.items()),
            "rows": sorted((table.name, count) for table, count in self.rows.items()), "checks": self.checks,
            "counted": self.counted if state is State.COMPLETE else (), "reason": None,
        }  # fmt: skip


_told: list[Callable[[Run], None]] = []


def tell_of_runs(*told: Callable[[Run], None]) -> None:
    """Let *told*, and nobody else, hear of each run that is complete: a catalog gets its tables so."""
    _told[:] = told


@contextmanager
def running(root: str, job: str, name: str | None, **more: Any) -> Iterator[Run]:
    """A `Run` that is complete when its block ends; one that ends with an error leaves everything as it was.

    Without *name* it is called by the time at which it began.
    """
    run = Run(root, job, name or "", **more)
    run.begin()
    try:
        yield run
        run.close()
        for told in _told:
            told(run)
    finally:
        error = sys.exc_info()[1]
        if not run.is_closed and error is not None:
            run.abandon(error)


def program_version() -> str:
    """The version of this program."""
    try:
        return version("slotscope")
    except PackageNotFoundError:  # the code came in a zip
        return "unknown (not installed)"


def _ended(row: dict[str, Any]) -> dict[str, Any]:
    """The row of another run of the snapshot, when one is complete."""
    if row["state"] == State.COMPLETE:
        return {**row, "state": str(State.REPLACED), "counted": []}
    return {**row, "state": str(State.FAILED), "reason": "another run of the same name ended first"}
