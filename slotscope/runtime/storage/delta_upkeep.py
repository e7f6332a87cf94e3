"""Delta tables as they grow: rows that go or change hands, small files that are joined, old ones that are removed."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, QueryBuilder, write_deltalake

from schemas.table import Table
from slotscope.runtime.storage.delta_files import add_once, existing_table, location, opened_table, tried

JOINED_BYTES: Final = 64 << 20
"""Files are joined up to this size."""


def stored_values(root: str, table: Table, column: str) -> list[str]:
    """The values that *column* has in any row of *table*, also in those that do not count."""
    engine = QueryBuilder().register("stored", existing_table(root, table))
    found = pa.RecordBatchReader.from_stream(engine.execute(f"SELECT DISTINCT {column} FROM stored")).read_all()
    return [str(value) for value in found.column(0).to_pylist()]


def delete_rows(root: str, table: Table, where: str) -> int:
    """Remove the rows of *table* for which *where* holds, in one commit; how many."""
    return int(tried(location(root, table), lambda: existing_table(root, table).delete(where))["num_deleted_rows"])


def compact(root: str, table: Table) -> int:
    """Join the small files that many small commits leave; how many."""
    place = location(root, table)

    def join() -> int:
        opened = opened_table(place)
        joined = int(opened.optimize.compact(target_size=JOINED_BYTES)["numFilesRemoved"])
        opened.create_checkpoint()
        return joined

    return tried(place, join)


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
