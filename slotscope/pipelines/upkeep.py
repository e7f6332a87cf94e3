"""Upkeep of a root: list and remove snapshots, join small files, remove old ones, migrate older tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from deltalake import write_deltalake

from schemas.catalogue import TABLES
from schemas.rebalance import REBALANCE_PLANS
from schemas.runs import FORMAT, RUNS
from schemas.table import Table
from slotscope.runtime import stores
from slotscope.runtime.answer import Answer
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.storage.delta_files import (
    any_of,
    as_table,
    commit_rows,
    compact,
    dataset,
    exists,
    location,
    open_at,
    query_sources,
    read_rows,
    remove_old_files,
    retry,
)
from slotscope.runtime.storage.runs import FAILURES, State, drop_stage
from slotscope.runtime.text import plural

_AGE = re.compile(r"(\d+)\s*([dhm])")
FORGET: Final = "slotscope tables forget --snapshot"
COLUMNS: Final = ("snapshot", "cluster", "job", "at", "rows", "inputs", "input_bytes", "state")
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


def list_snapshots(root: str) -> Answer:
    """Return every snapshot under *root* by its job, the youngest last: *at* is the latest time in its inputs.

    ``state`` is finished, partial (some inputs could not be read), or, where no run of the job has finished it, running, failed or set aside.
    Raises `InputError` where *root* holds no snapshot.
    """
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in stored_runs(root):
        key = row["snapshot_id"], row["job"]
        if key not in latest or latest[key]["state"] != State.COMPLETE:
            latest[key] = row
    if not latest:
        raise InputError(f"{root}: no snapshot; is --root right, and did a job write tables there?")
    snapshots = sorted(latest.values(), key=lambda row: (_seconds(row["data_at"]), row["job"], row["snapshot_id"]))
    return Answer(COLUMNS, [_line(row) for row in snapshots])


def stored_runs(root: str) -> list[dict[str, Any]]:
    """Rows of silver/runs about snapshots (plans are listed elsewhere), in the order in which the runs began."""
    if not exists(root, RUNS):
        return []
    rows = read_rows(root, RUNS, where="state <> 'replaced'", order_by="started_at, run_id")
    return [row for row in rows if REBALANCE_PLANS.name not in row["rows"]]


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    state = row["state"]
    if state == State.COMPLETE:
        state = "partial" if row["partial"] else "finished"
    inputs = row["inputs"] or {}
    return (
        row["snapshot_id"], row["cluster"], row["job"], row["data_at"], sum((row["rows"] or {}).values()),
        len(inputs) or None, sum(inputs.values()) if inputs else None, state,
    )  # fmt: skip


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def age_of(text: str) -> timedelta:
    """Return the time that *words* name, ``90d``, ``12h`` or ``30m``; raises InputError for others."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"--older-than {text}: write a number of days, hours or minutes: 90d, 12h, 30m")
    return int(match[1]) * _UNITS[match[2]]


def forget(
    *,
    root: str,
    snapshot: Sequence[str] = (),
    older_than: str | None = None,
    apply: bool = False,
    now: datetime | None = None,
) -> Answer:
    """Remove the snapshots with the names *snapshot* and those with data *older_than* an age such as ``90d``.

    The answer has a row a snapshot: the reason and the rows that its tables held; without *apply* nothing is removed.  Raises InputError
    where none is named, or one does not exist.
    """
    if not snapshot and older_than is None:
        raise InputError(
            "no snapshot named: give --snapshot NAME or --older-than 90d; slotscope tables snapshots lists them"
        )
    times: dict[str, datetime | None] = {}
    held: dict[str, int] = {}
    for run in stored_runs(root):
        name, at = run["snapshot_id"], run["data_at"] or (run["ended_at"] if run["state"] == State.COMPLETE else None)
        known = times.get(name)
        times[name] = max(at, known) if at is not None and known is not None else at or known
        held[name] = held.get(name, 0) + sum((run["rows"] or {}).values())
    if not times:
        list_snapshots(root)
    for name in snapshot:
        if name not in times:
            raise InputError(f"{root}: no snapshot {name!r}; slotscope tables snapshots lists them")
    chosen = dict.fromkeys(snapshot, "named")
    if older_than is not None:
        before = (now or datetime.now(UTC)) - age_of(older_than)
        for name, at in times.items():
            if at is not None and at < before:
                chosen.setdefault(name, f"older than {older_than}")
    if apply and chosen:
        with progress(f"removing {plural(len(chosen), 'snapshot')}"):
            _remove(root, chosen)
    effect = "removed" if apply else "would be removed; --apply does it"
    rows = [(name, why, held[name], effect) for name, why in chosen.items()]
    return Answer(("snapshot", "because", "rows", "what"), rows)


def _remove(root: str, names: Iterable[str]) -> None:
    """Remove the snapshots *names* from every table, in one commit each; silver/runs last: an interrupted removal is run again."""
    where = any_of("snapshot_id", names)
    for table in (*(table for table in TABLES if table.of_runs), RUNS):
        if table.named_by == "snapshot_id" and exists(root, table):
            commit_rows(root, table, None, where)


def maintain(
    *,
    root: str,
    retention_hours: int | None = None,
    log_retention_days: int | None = None,
    abandoned_hours: int,
    now: datetime | None = None,
) -> Answer:
    """Join small files and remove old ones, table by table; then name the snapshots that no run has finished."""
    if (retention_hours is not None and retention_hours < 1) or abandoned_hours < 1:
        raise InputError(
            "--retention-hours and --abandoned-hours must be at least 1: readers and writers at work need them"
        )
    if log_retention_days is not None and log_retention_days < 1:
        raise InputError("--log-retention-days must be at least 1")
    if exists(root, RUNS):
        _mark_killed(root, (now or datetime.now(UTC)) - timedelta(hours=abandoned_hours))
    rows: list[tuple[str, int | None, int | None, str]] = []
    for table in TABLES:
        if exists(root, table):
            with progress(f"tidying {table.name}"):
                if log_retention_days is not None:
                    _keep_log(location(root, table), log_retention_days)
                joined = compact(root, table)
                gone = remove_old_files(root, table, retention_hours)
                waiting = len(open_at(location(root, table)).vacuum(0, enforce_retention_duration=False, full=True))
            note = f"{plural(waiting, 'file')} of recent versions kept" if waiting else ""
            rows.append((table.name, joined, gone, note))
    if not rows:
        raise InputError(f"{root}: no tables; is --root right, and did a job write there?")
    listed = list_snapshots(root).rows if stored_runs(root) else []
    rows += [
        (f"snapshot {row[0]}", None, None, f"{row[-1]}: run {row[2]} again, or {FORGET} {row[0]} --apply")
        for row in listed
        if row[-1] in (State.RUNNING, *FAILURES)
    ]
    return Answer(("table", "files_joined", "files_removed", "note"), rows)


def _keep_log(place: str, days: int) -> None:
    """Keep the log of a table, and with it its history, for *days*; no commit if unchanged."""
    name, value = "delta.logRetentionDuration", f"interval {days} days"
    if retry(place, lambda opened: opened.metadata()).configuration.get(name) != value:
        retry(place, lambda opened: opened.alter.set_table_properties({name: value}))


def _mark_killed(root: str, before: datetime) -> None:
    """Mark runs that began *before* and did not end as failed, and remove their staged rows."""
    where = f"state = '{State.RUNNING}' AND started_at < TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}Z'"
    rows = read_rows(root, RUNS, where=where)
    names = [row["run_id"] for row in rows]
    if names:
        ended = {"state": str(State.FAILED), "reason": "killed: it did not end"}
        commit_rows(root, RUNS, [row | ended for row in rows], any_of("run_id", names))
    for name in names:
        drop_stage(root, name)


def migrate(root: str) -> Answer:
    """Bring the tables of an older version to the current form; return the rows removed from each.  InputError where *root* holds none.

    Tables of form 1 hold rows of all runs; those with a ``run_id`` in ``silver/runs.counted`` count.  Other rows are removed first, which
    changes nothing for readers of form 1.  One commit to ``silver/runs`` then makes the root one of the current form.
    """
    if not exists(root, RUNS):
        raise InputError(f"{root}: no tables; is --root right?")
    place = location(root, RUNS)
    opened = open_at(place)
    is_old = "counted" in {field.name for field in opened.schema().fields}
    tables = [table for table in TABLES if table is not RUNS and exists(root, table)]
    rows: list[tuple[str, int]] = []
    if is_old:
        stored = pa.table(opened.to_pyarrow_table())
        complete = stored.filter(pa.compute.equal(stored["state"], "complete"))
        counted = {run_id for ids in complete["counted"].to_pylist() for run_id in ids}
        for table in tables:
            with progress(f"migrating {table.name}"):
                rows.append((table.name, _remove_uncounted(root, table, counted) if table.of_runs else 0))
        marked = as_table(RUNS, [row | {"format": FORMAT} for row in stored.to_pylist()])
        retry(place, lambda opened: _overwrite(place, marked))
    for table in (*tables, RUNS):
        with progress(f"migrating {table.name}"):
            _set_layout(root, table)
    return Answer(("table", "rows_removed"), rows or [(table.name, 0) for table in tables])


def _remove_uncounted(root: str, table: Table, counted: set[str]) -> int:
    sql = f"SELECT DISTINCT run_id FROM {table.sql_name}"
    rows = query_sources(sql, table, [(dataset(root, table), "TRUE")])
    dead = sorted(set(rows["run_id"].to_pylist()) - counted)
    if not dead:
        return 0
    place, where = location(root, table), any_of("run_id", dead)
    return int(retry(place, lambda opened: opened.delete(where))["num_deleted_rows"] or 0)


def _set_layout(root: str, table: Table) -> None:
    """Give *table* the properties of new tables, and rows that outlived their run the plain id of that run."""
    place = location(root, table)
    layout = table.properties
    opened = open_at(place)
    known = opened.metadata().configuration
    if any(known.get(name) != value for name, value in layout.items()):
        retry(place, lambda opened: opened.alter.set_table_properties(layout))
    if table.of_runs:
        plain = {"run_id": "rtrim(run_id, '+')"}
        retry(place, lambda opened: opened.update(updates=plain, predicate="run_id LIKE '%+'"))


def _overwrite(place: str, rows: pa.Table) -> None:
    write_deltalake(
        place, rows, mode="overwrite", schema_mode="overwrite", storage_options=stores.storage_options(place)
    )
