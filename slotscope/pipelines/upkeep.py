"""Snapshots that go, and tables that stay small: what is removed, in an order that no reader is misled by."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from schemas.catalogue import TABLES, WRITTEN_BY
from schemas.history import REPLAYS
from schemas.silver import SNAPSHOTS
from schemas.table import Table
from slotscope.pipelines.stored_snapshots import list_snapshots
from slotscope.requests.upkeep import ForgetRequest, MaintainRequest
from slotscope.runtime.answer import Answer
from slotscope.runtime.delta_files import compact, count_rows, delete_rows, exists, read_rows, vacuum
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress

CLOSING: Final = (SNAPSHOTS, REPLAYS)
"""Tables whose row says that a snapshot is finished: it goes first."""
_AGE = re.compile(r"(\d+)\s*([dhm])")
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
    found = list_snapshots(request.root)
    names = {row[0] for row in found.rows}
    for name in request.snapshot:
        if name not in names:
            raise InputError(f"{request.root}: no snapshot {name!r}; slotscope snapshots lists them")
    chosen = dict.fromkeys(request.snapshot, "named")
    if request.older_than is not None:
        before = (now or datetime.now(UTC)) - age_of(request.older_than)
        for name, at in _newest_times(request.root, found).items():
            if at is not None and at < before:
                chosen.setdefault(name, f"older than {request.older_than}")
    rows = []
    for name, why in chosen.items():
        with progress(f"removing {name}"):
            held = sum(_rows_in(request, table, name) for table in _tables_of_snapshots())
        rows.append((name, why, held, "removed" if request.apply else "would be removed; --apply does it"))
    return Answer(("snapshot", "because", "rows", "what"), rows)


def _tables_of_snapshots() -> list[Table]:
    """Every table with rows by snapshot, those first that say that it is finished."""
    return [*CLOSING, *(t for t in TABLES if "snapshot_id" in t.partition_by and t not in CLOSING)]


def _rows_in(request: ForgetRequest, table: Table, name: str) -> int:
    """Count the rows of snapshot *name* in *table*; with --apply remove them."""
    if not exists(request.root, table):
        return 0
    count = count_rows(request.root, table, snapshot_id=name)
    if count and request.apply:
        delete_rows(request.root, table, snapshot_id=name)
    return count


def _newest_times(root: str, found: Answer) -> dict[str, datetime | None]:
    """When each snapshot is of, by its newest part: what its inputs tell, else when it was written; None where neither is known."""
    written = {}
    if exists(root, SNAPSHOTS):
        written = {
            row["snapshot_id"]: row["written_at"]
            for row in read_rows(root, SNAPSHOTS, columns=("snapshot_id", "written_at"))
        }
    times: dict[str, datetime | None] = {}
    for name, _, at, *_ in found.rows:
        at = at or written.get(name)
        known = times.get(name)
        times[name] = at if known is None else known if at is None else max(known, at)
    return times


def maintain(request: MaintainRequest) -> Answer:
    """Join small files and remove old ones, table by table; then name the snapshots that were never finished."""
    if request.retention_hours < 1:
        raise InputError(f"--retention-hours {request.retention_hours}: at least 1, else who reads now fails")
    rows: list[tuple[str, int | None, int | None, str]] = []
    for table in TABLES:
        if exists(request.root, table):
            with progress(f"tidying {table.name}"):
                joined = compact(request.root, table)
                gone = vacuum(request.root, table, request.retention_hours)
            rows.append((table.name, joined, gone, ""))
    if not rows:
        raise InputError(f"{request.root}: no tables; is --root right, and did a job write there?")
    unfinished = [row[0] for row in _listed(request.root) if row[-1] == "not finished"]
    rows += [
        (
            f"snapshot {name}",
            None,
            None,
            f"not finished: if no job is at work on it, slotscope forget --snapshot {name} --apply",
        )
        for name in unfinished
    ]
    return Answer(("table", "files_joined", "files_removed", "note"), rows)


def _listed(root: str) -> list[tuple[object, ...]]:
    own = {table for job in ("key-slots", "bus-replay", "sentinel-replay") for table in WRITTEN_BY[job]}
    return list_snapshots(root).rows if any(exists(root, t) for t in own if "snapshot_id" in t.partition_by) else []
