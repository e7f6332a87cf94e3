"""Which snapshots a root holds: names and rows from the logs of its tables, times, inputs and states from the rows that are written last."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from schemas.catalogue import WRITTEN_BY, writers
from schemas.history import REPLAYS
from schemas.silver import SNAPSHOTS, SOURCES
from schemas.table import Table
from slotscope.runtime.answer import Answer
from slotscope.runtime.delta_files import exists, query_rows, read_rows
from slotscope.runtime.errors import InputError
from slotscope.sources.slot_weights import is_partial

COLUMNS: Final = ("snapshot", "job", "at", "rows", "inputs", "input_bytes", "state")


class Closing(NamedTuple):
    """What the row says that a job writes last: the latest time that the inputs tell of, how many they were, and what to know of them."""

    at: datetime | None
    inputs: int
    input_bytes: int | None
    state: str


def list_snapshots(root: str) -> Answer:
    """Every snapshot under *root* by the job that made it, the youngest last; *rows* are those of tables that no other job writes.

    ``state`` is finished, partial (some inputs could not be read) or not finished; of jobs that write no row last it is not known.
    Raises `InputError` where *root* holds no snapshot.
    """
    closings = {"key-slots": _key_snapshots(root), "bus-replay": _replays(root), "sentinel-replay": _replays(root)}
    found = []
    for job in WRITTEN_BY:
        known = closings.get(job)
        for snapshot, rows in _rows_by_snapshot(root, _own_tables(job)).items():
            closing = None if known is None else known.get(snapshot, Closing(None, 0, None, "not finished"))
            found.append((snapshot, job, rows, closing))
    if not found:
        raise InputError(f"{root}: no snapshot; is --root right, and did a job write tables there?")
    found.sort(key=lambda one: (one[3].at.timestamp() if one[3] and one[3].at else 0.0, one[1], one[0]))
    return Answer(
        COLUMNS,
        [
            (snapshot, job, closing.at, rows, closing.inputs or None, closing.input_bytes, closing.state)
            if closing
            else (snapshot, job, None, rows, None, None, None)
            for snapshot, job, rows, closing in found
        ],
    )


def _own_tables(job: str) -> list[Table]:
    return [table for table in WRITTEN_BY[job] if writers(table) == [job] and "snapshot_id" in table.partition_by]


def _rows_by_snapshot(root: str, tables: Iterable[Table]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for table in tables:
        if exists(root, table):
            noun = table.name.rpartition("/")[2]
            sql = f"SELECT snapshot_id, COUNT(*) AS count FROM {noun} GROUP BY snapshot_id"
            for row in query_rows(root, sql, table):
                sums[row["snapshot_id"]] = sums.get(row["snapshot_id"], 0) + row["count"]
    return sums


def _key_snapshots(root: str) -> dict[str, Closing]:
    if not exists(root, SNAPSHOTS):
        return {}
    sql = "SELECT snapshot_id, COUNT(*) AS files, SUM(file_bytes) AS file_bytes FROM sources GROUP BY snapshot_id"
    sources = {row["snapshot_id"]: row for row in query_rows(root, sql, SOURCES)}
    found = {}
    for head in read_rows(root, SNAPSHOTS, columns=("snapshot_id", "taken_at", "partial", "bad_records")):
        inputs = sources.get(head["snapshot_id"], {"files": 0, "file_bytes": None})
        state = "partial" if is_partial(head) else "finished"
        found[head["snapshot_id"]] = Closing(head["taken_at"], inputs["files"], inputs["file_bytes"], state)
    return found


def _replays(root: str) -> dict[str, Closing]:
    if not exists(root, REPLAYS):
        return {}
    return {
        row["snapshot_id"]: Closing(
            row["last"], len(row["files"]), sum(row["files"].values()), "partial" if row["bad_records"] else "finished"
        )
        for row in read_rows(root, REPLAYS, columns=("snapshot_id", "last", "files", "bad_records"))
    }
