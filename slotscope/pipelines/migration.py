"""Bring the tables of an older version to the current form.

Tables of form 1 hold rows of all runs; those count whose ``run_id`` is in ``silver/runs.counted``.  Other rows are removed first, which
changes nothing for readers of form 1.  One commit to ``silver/runs`` then makes the root one of the current form.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import write_deltalake

from schemas.catalogue import TABLES
from schemas.runs import FORMAT, RUNS
from schemas.table import Table
from slotscope.runtime import stores
from slotscope.runtime.answer import Answer
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import progress
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.delta_files import any_of, location


def migrate(root: str) -> Answer:
    """Migrate *root*; a table with the rows removed from each.  Raises InputError where *root* holds no tables."""
    if not delta_files.exists(root, RUNS):
        raise InputError(f"{root}: no tables; is --root right?")
    place = location(root, RUNS)
    opened = delta_files.open_at(place)
    is_old = "counted" in {field.name for field in opened.schema().fields}
    tables = [table for table in TABLES if table is not RUNS and delta_files.exists(root, table)]
    rows: list[tuple[str, int]] = []
    if is_old:
        stored = pa.table(opened.to_pyarrow_table())
        complete = stored.filter(pa.compute.equal(stored["state"], "complete"))
        counted = {run_id for ids in complete["counted"].to_pylist() for run_id in ids}
        for table in tables:
            with progress(f"migrating {table.name}"):
                rows.append((table.name, _remove_uncounted(root, table, counted) if table.of_runs else 0))
        marked = delta_files.as_table(RUNS, [row | {"format": FORMAT} for row in stored.to_pylist()])
        delta_files.retry(place, lambda opened: _overwrite(place, marked))
    for table in (*tables, RUNS):
        with progress(f"migrating {table.name}"):
            _set_layout(root, table)
    return Answer(("table", "rows_removed"), rows or [(table.name, 0) for table in tables])


def _remove_uncounted(root: str, table: Table, counted: set[str]) -> int:
    sql = f"SELECT DISTINCT run_id FROM {table.sql_name}"
    rows = delta_files.query_sources(sql, table, [(delta_files.dataset(root, table), "TRUE")])
    dead = sorted(set(rows["run_id"].to_pylist()) - counted)
    if not dead:
        return 0
    place, where = location(root, table), any_of("run_id", dead)
    return int(delta_files.retry(place, lambda opened: opened.delete(where))["num_deleted_rows"] or 0)


def _set_layout(root: str, table: Table) -> None:
    """Give *table* the properties of new tables, and rows that outlived their run the plain id of that run."""
    place = location(root, table)
    layout = table.properties
    opened = delta_files.open_at(place)
    known = opened.metadata().configuration
    if any(known.get(name) != value for name, value in layout.items()):
        delta_files.retry(place, lambda opened: opened.alter.set_table_properties(layout))
    if table.of_runs:
        plain = {"run_id": "rtrim(run_id, '+')"}
        delta_files.retry(place, lambda opened: opened.update(updates=plain, predicate="run_id LIKE '%+'"))


def _overwrite(place: str, rows: pa.Table) -> None:
    write_deltalake(
        place, rows, mode="overwrite", schema_mode="overwrite", storage_options=stores.storage_options(place)
    )
