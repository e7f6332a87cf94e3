"""Snapshots that go, and tables that stay small: what is removed, in an order that no reader is misled by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.catalogue import TABLES
from schemas.runs import RUNS
from schemas.table import Table
from slotscope.pipelines.stored_snapshots import list_snapshots, stored_runs
from slotscope.requests.upkeep import ForgetRequest, MaintainRequest
from slotscope.runtime.answer import Answer
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.storage.delta_files import any_of, exists, read_rows, revise_rows
from slotscope.runtime.storage.delta_upkeep import compact, delete_rows, stored_values, vacuum
from slotscope.runtime.storage.runs import State
from slotscope.runtime.storage.stamps import LASTING
from slotscope.runtime.text import plural

_AGE = re.compile(r"(\d+)\s*([dhm])")
FORGET: Final = "slotscope forget --snapshot"
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


def age_of(words: str) -> timedelta:
    """Return the time that *words* name, ``90d``, ``12h`` or ``30m``; raises InputError for others."""
    match = _AGE.fullmatch(words.strip())
    if match is None:
        raise InputError(f"--older-than {words}: write a number of days, hours or minutes: 90d, 12h, 30m")
    return int(match[1]) * _UNITS[match[2]]


def forget(request: ForgetRequest, *, now: datetime | None = None) -> Answer:
    """Remove the snapshots that *request* names; each with the rows that its tables held, and why.

    Raises InputError where none is named, or one is not there.
    """
    if not request.snapshot and request.older_than is None:
        raise InputError("say which snapshots: --snapshot NAME, or --older-than 90d; slotscope snapshots lists them")
    times: dict[str, datetime | None] = {}
    held: dict[str, int] = {}
    for run in stored_runs(request.root):
        name, at = run["snapshot_id"], run["data_at"] or (run["ended_at"] if run["state"] == State.COMPLETE else None)
        known = times.get(name)
        times[name] = max(at, known) if at is not None and known is not None else at or known
        held[name] = held.get(name, 0) + sum((run["rows"] or {}).values())
    if not times:
        list_snapshots(request.root)
    for name in request.snapshot:
        if name not in times:
            raise InputError(f"{request.root}: no snapshot {name!r}; slotscope snapshots lists them")
    chosen = dict.fromkeys(request.snapshot, "named")
    if request.older_than is not None:
        before = (now or datetime.now(UTC)) - age_of(request.older_than)
        for name, at in times.items():
            if at is not None and at < before:
                chosen.setdefault(name, f"older than {request.older_than}")
    if request.apply and chosen:
        with progress(f"removing {plural(len(chosen), 'snapshot')}"):
            _remove(request.root, chosen)
    what = "removed" if request.apply else "would be removed; --apply does it"
    rows = [(name, why, held[name], what) for name, why in chosen.items()]
    return Answer(("snapshot", "because", "rows", "what"), rows)


def _remove(root: str, names: Iterable[str]) -> None:
    """Remove the snapshots *names* from every table, in one commit each, which writes files that hold other snapshots, too, anew.

    First goes what says that they are finished.
    """
    where = any_of("snapshot_id", names)
    for table in (RUNS, *_tables_of_runs(root)):
        if table.schema.names[0] == "snapshot_id":
            delete_rows(root, table, where)


def _tables_of_runs(root: str) -> list[Table]:
    return [table for table in TABLES if table.of_runs and exists(root, table)]


def maintain(request: MaintainRequest, *, now: datetime | None = None) -> Answer:
    """Remove rows that no run stands for, join small files and remove old ones, table by table.

    Then name the snapshots that were never finished.
    """
    if request.retention_hours < 1 or request.abandoned_hours < 1:
        raise InputError("--retention-hours and --abandoned-hours: at least 1, else who reads or writes now fails")
    if exists(request.root, RUNS):
        _bury(request.root, (now or datetime.now(UTC)) - timedelta(hours=request.abandoned_hours))
    rows: list[tuple[str, int | None, int | None, int | None, str]] = []
    for table in TABLES:
        if exists(request.root, table):
            with progress(f"tidying {table.name}"):
                dropped = _drop_dead(request.root, table) if table.of_runs else 0
                joined = compact(request.root, table)
                gone, waiting = vacuum(request.root, table, request.retention_hours)
            note = f"{plural(waiting, 'file')} more, when {request.retention_hours} h without use" if waiting else ""
            rows.append((table.name, dropped, joined, gone, note))
    if not rows:
        raise InputError(f"{request.root}: no tables; is --root right, and did a job write there?")
    listed = list_snapshots(request.root).rows if stored_runs(request.root) else []
    rows += [
        (f"snapshot {row[0]}", None, None, None, f"{row[-1]}: if no job is at work on it, {FORGET} {row[0]} --apply")
        for row in listed
        if row[-1] in (State.RUNNING, State.FAILED)
    ]
    return Answer(("table", "rows_removed", "files_joined", "files_removed", "note"), rows)


def _bury(root: str, before: datetime) -> None:
    """Take runs that began *before* and never ended for dead."""
    where = f"state = '{State.RUNNING}' AND started_at < TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}Z'"
    names = [row["run_id"] for row in read_rows(root, RUNS, columns=("run_id",), where=where)]
    if names:
        ended = {"state": str(State.FAILED), "reason": "it was never heard of again"}
        revise_rows(root, RUNS, any_of("run_id", names), lambda rows: [{**row, **ended} for row in rows])


def _drop_dead(root: str, table: Table) -> int:
    """Remove rows of *table* that do not count and that nobody is writing; how many.

    A run stands in silver/runs before it writes a row: what is looked up there after its rows were seen is known.
    """
    seen = stored_values(root, table, "run_id")
    known: set[str] = set()
    for run in read_rows(root, RUNS, columns=("run_id", "state", "counted")) if exists(root, RUNS) else []:
        known |= {run["run_id"]} if run["state"] == State.RUNNING else set(run["counted"])
    dead = [run_id for run_id in seen if known.isdisjoint((run_id, run_id.rstrip(LASTING)))]
    return delete_rows(root, table, any_of("run_id", dead)) if dead else 0
