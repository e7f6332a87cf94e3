"""Delta tables as they grow: rows that go or change hands, small files that are joined, old ones that are removed."""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from schemas.table import Table
from slotscope.runtime.storage.delta_files import add_once, existing_table, location, opened_table, tried

JOINED_BYTES: Final = 64 << 20
"""Files are joined up to this size."""
JOINING: Final = "slotscope-joining"
JOINED: Final = "slotscope-joined"
"""Applications of Delta transactions: a join of files was begun, and ended, numbered by when it was begun in milliseconds since 1970."""
CLAIM_MS_MAX: Final = 3_600_000
"""Who claimed a join so long ago was killed."""


def stored_values(root: str, table: Table, column: str) -> list[str]:
    """The values that *column* has in any row of *table*, also in those that do not count."""
    engine = QueryBuilder().register("stored", existing_table(root, table))
    found = pa.RecordBatchReader.from_stream(engine.execute(f"SELECT DISTINCT {column} FROM stored")).read_all()
    return [str(value) for value in found.column(0).to_pylist()]


def delete_rows(root: str, table: Table, where: str) -> int:
    """Remove the rows of *table* for which *where* holds, in one commit; how many."""
    return int(tried(location(root, table), lambda: existing_table(root, table).delete(where))["num_deleted_rows"])


def compact(root: str, table: Table) -> int:
    """Join the small files that many small commits leave; how many: none where somebody else is at it.

    delta-rs lets two joins of the same files pass, and each row is there twice.  So who joins first commits a claim, without rows: of two
    transactions of one application at the same version one fails, on every store that takes commits.
    """
    place = location(root, table)
    opened = tried(place, lambda: opened_table(place))
    begun_ms, ended_ms = (opened.transaction_version(mark) for mark in (JOINING, JOINED))
    now_ms = time.time_ns() // 1_000_000
    if begun_ms is not None and begun_ms != ended_ms and now_ms - begun_ms < CLAIM_MS_MAX:
        return 0
    sizes = pa.table(opened.get_add_actions()).column("size_bytes").to_pylist()
    if sum(size < JOINED_BYTES for size in sizes) < 2:
        return 0
    try:
        _mark(opened, JOINING, now_ms)
    except CommitFailedError:
        return 0

    def join() -> int:
        claimed = opened_table(place)
        joined = int(claimed.optimize.compact(target_size=JOINED_BYTES)["numFilesRemoved"])
        claimed.create_checkpoint()
        return joined

    try:
        return tried(place, join)
    finally:
        tried(place, lambda: _mark(opened_table(place), JOINED, now_ms))


def _mark(opened: DeltaTable, mark: str, number: int) -> None:
    """Commit no rows, as transaction *number* of *mark*; raises `CommitFailedError` where another one of that mark came first."""
    nothing = pa.schema(opened.schema()).empty_table()
    properties = CommitProperties(app_transactions=[Transaction(mark, number, number)], max_commit_retries=0)
    write_deltalake(opened, nothing, mode="append", commit_properties=properties)


def vacuum(root: str, table: Table, retention_h: int) -> tuple[int, int]:
    """Remove the files that *table* has not held for *retention_h* hours; how many, and how many it has not held for less."""
    place = location(root, table)

    def remove() -> tuple[int, int]:
        opened = opened_table(place)
        gone = opened.vacuum(retention_h, dry_run=False, enforce_retention_duration=False)
        return len(gone), len(opened.vacuum(0, dry_run=True, enforce_retention_duration=False))

    return tried(place, remove)


def copy_rows(root: str, table: Table, where: str, run_id: str) -> None:
    """Add the rows of *table* for which *where* holds once more, as those of *run_id*; a stream, however many they are."""
    place = location(root, table)
    columns = ", ".join(f"'{run_id}' AS run_id" if name == "run_id" else f'"{name}"' for name in table.columns)

    def add(marked: CommitProperties) -> None:
        opened = existing_table(root, table)
        there = pa.schema(opened.schema())
        engine = QueryBuilder().register("stored", opened)
        found = pa.RecordBatchReader.from_stream(engine.execute(f"SELECT {columns} FROM stored WHERE {where}"))
        kinds = pa.schema([there.field(name) for name in found.schema.names])
        write_deltalake(opened, found.cast(kinds), mode="append", commit_properties=marked)

    add_once(place, add)
