"""What a job has done, for programs: the rows of silver/runs that stand for what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from schemas.runs import RUNS
from slotscope.reports.records import json_value
from slotscope.runtime.storage.delta_files import any_of, exists, read_rows
from slotscope.runtime.storage.runs import State

COLUMNS: Final = (
    "job", "snapshot_id", "cluster", "run_id", "version", "started_at", "ended_at", "data_at", "partial", "inputs", "rows", "checks",
)  # fmt: skip


def summaries(root: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """The runs that make the snapshots, or plans, *names*, in the order in which they began.

    Each with its inputs as their number and bytes, its seconds, the rows that it wrote by table and the figures that were compared.
    """
    if not names or not exists(root, RUNS):
        return []
    where = any_of("snapshot_id", names)
    found = read_rows(root, RUNS, columns=COLUMNS, where=where, order_by="started_at", state=str(State.COMPLETE))
    return [_summary(row) for row in found]


def _summary(row: dict[str, Any]) -> dict[str, Any]:
    inputs = row.pop("inputs") or {}
    counts = {"input_files": len(inputs), "input_bytes": sum(inputs.values())}
    return {**row, "seconds": (row["ended_at"] - row["started_at"]).total_seconds(), **counts}


def with_runs(outcome: Any, root: str, name: str) -> dict[str, Any]:
    """What a job says of itself, and the runs that make the snapshot *name*."""
    return {**json_value(outcome), "runs": summaries(root, [name])}
