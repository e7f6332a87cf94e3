"""Which snapshots a root holds, by the runs that wrote them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from schemas.rebalance import REBALANCE_PLANS
from schemas.runs import RUNS
from slotscope.runtime.answer import Answer
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.runtime.storage.runs import State

COLUMNS: Final = ("snapshot", "cluster", "job", "at", "rows", "inputs", "input_bytes", "state")


def list_snapshots(root: str) -> Answer:
    """Every snapshot under *root* by the job that made it, the youngest last: *at* is the latest time that its inputs tell of.

    ``state`` is finished, partial (some inputs could not be read), or, where no run of the job has finished it, running or failed.
    Raises `InputError` where *root* holds no snapshot.
    """
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for row in stored_runs(root):
        key = row["snapshot_id"], row["job"]
        if key not in latest or latest[key]["state"] != State.COMPLETE:
            latest[key] = row
    if not latest:
        raise InputError(f"{root}: no snapshot; is --root right, and did a job write tables there?")
    found = sorted(latest.values(), key=lambda row: (_seconds(row["data_at"]), row["job"], row["snapshot_id"]))
    return Answer(COLUMNS, [_line(row) for row in found])


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
