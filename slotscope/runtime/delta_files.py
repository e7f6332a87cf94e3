"""Delta tables without Spark: for commands that need no JVM, because they read little or cannot wait for it at every step.

The tables are the same ones: what is written here is read by Spark, and the other way round.  Reads are SQL of DataFusion, which
comes with delta-rs: columns, conditions and limits go into the files, and no table is held as a whole.  Object storage takes its
credentials from the environment, as its own tools do (AWS_…, AZURE_…, GOOGLE_…).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from schemas.table import Table
from slotscope.runtime.errors import InputError

Done = TypeVar("Done")

ATTEMPTS_MAX = 4
"""Writers of different snapshots meet only when both create the table; the second try finds it there."""
OLDER = "{}: written by an older version of the program, in another form: choose another --root, or remove the folder and make it anew"


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of *table*, with the comments of its columns; each may be null, as in all Delta tables that Spark makes."""
    return pa.schema([_nullable(field) for field in table.schema])


def _nullable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _of_nullable(field.type), metadata=field.metadata)


def _of_nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_of_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_of_nullable(kind.key_type), _of_nullable(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([_nullable(field) for field in kind])
    return kind


def missing(root: str, table: Table) -> str:
    """That *table* is not there, and what writes it."""
    from schemas.catalogue import writers

    jobs = " or ".join(writers(table)) or "the job that writes it"
    return f"{location(root, table)}: no such table; is --root right, and did {jobs} run?"


def location(root: str, table: Table) -> str:
    """Where *table* lies; *root* is any URI that who reads or writes it knows, or a path: from here, wherever a JVM was started."""
    return f"{root.rstrip('/') if '://' in root else os.path.abspath(root)}/{table.name}"


def exists(root: str, table: Table) -> bool:
    """Whether *table* was ever written under *root*."""
    return bool(DeltaTable.is_deltatable(location(root, table)))


def append_rows(root: str, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Add *rows* in one commit; the table is created at first use."""
    _write(root, table, _as_table(table, rows), where=None)


def replace_rows(root: str, table: Table, rows: Sequence[dict[str, Any]], **equal: str) -> None:
    """Put *rows* in the place of those whose columns equal *equal*, in one commit."""
    replace_table(root, table, _as_table(table, rows), all_equal(equal))


def replace_table(root: str, table: Table, rows: pa.Table, where: str) -> None:
    """Put *rows*, which have the columns of *table*, in the place of those for which the SQL condition *where* holds, in one commit."""
    _write(root, table, rows.cast(arrow_schema(table)), where)


def all_equal(values: Mapping[str, str]) -> str:
    """The SQL condition that columns have these *values*."""
    return " AND ".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in values.items())


def _as_table(table: Table, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(table))


def _write(root: str, table: Table, rows: pa.Table, where: str | None) -> None:
    place = location(root, table)
    _tried(place, lambda: _commit(place, table, rows, where))


def _tried(place: str, commit: Callable[[], Done]) -> Done:
    """What *commit* returns, tried again while other writers come first; raises InputError where it cannot be written."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return commit()
        except CommitFailedError:
            continue
        except (DeltaError, OSError) as error:
            raise InputError(f"{place}: cannot be written: {_first_line(error)}") from error
    try:
        return commit()
    except (DeltaError, OSError) as error:
        raise InputError(f"{place}: cannot be written: {_first_line(error)}") from error


def _commit(place: str, table: Table, rows: pa.Table, where: str | None) -> None:
    try:
        opened = DeltaTable(place)
    except TableNotFoundError:
        write_deltalake(place, rows, partition_by=list(table.partition_by) or None, mode="error")
        return
    _refuse_older(opened, table, place)
    there = pa.schema(opened.schema())
    data = rows.cast(pa.schema([there.field(f.name) if f.name in there.names else f for f in rows.schema]))
    how: dict[str, Any] = {"mode": "append"} if where is None else {"mode": "overwrite", "predicate": where}
    write_deltalake(opened, data, schema_mode="merge", **how)


def read_rows(
    root: str,
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    order_by: str = "",
    limit: int | None = None,
    **equal: str,
) -> list[dict[str, Any]]:
    """Rows of *table* whose columns equal *equal* and for which the SQL condition *where* holds: the first *limit* by *order_by*.

    A row is a dict of the columns asked for, or of all; null where it was written before a column was added.  Raises `InputError` where the
    table is not there, or is of a form that is not read.
    """
    opened = _open(root, table)
    there = {field.name for field in opened.schema().fields}
    chosen = [f'"{name}"' if name in there else f'NULL AS "{name}"' for name in columns or table.columns]
    sql = _selection(table, chosen, where, equal) + (f" ORDER BY {order_by}" if order_by else "")
    return _as_rows(_answer(sql + (f" LIMIT {limit}" if limit is not None else ""), {table: opened}, root))


def few_rows(
    root: str, table: Table, selected: Sequence[str], count_max: int, *, where: str, order_by: str, **equal: str
) -> pa.Table | None:
    """The SQL expressions *selected* of rows of *table* as `read_rows` chooses them; None where these are more than *count_max*."""
    sql = f"{_selection(table, selected, where, equal)} LIMIT {count_max + 1}"
    found = _answer(f"SELECT * FROM ({sql}) ORDER BY {order_by}", {table: _open(root, table)}, root)
    return None if found.num_rows > count_max else found


def _selection(table: Table, selected: Sequence[str], where: str | None, equal: Mapping[str, str]) -> str:
    conditions = [*([all_equal(equal)] if equal else []), *([f"({where})"] if where else [])]
    return f"SELECT {', '.join(selected)} FROM {_noun(table)}" + (
        f" WHERE {' AND '.join(conditions)}" if conditions else ""
    )


def query_rows(root: str, sql: str, *tables: Table) -> list[dict[str, Any]]:
    """What *sql* says of *tables*, which go by their names without the layer; raises `InputError` as `read_rows` does."""
    return _as_rows(_answer(sql, {table: _open(root, table) for table in tables}, root))


def _answer(sql: str, tables: Mapping[Table, DeltaTable], root: str) -> pa.Table:
    engine = QueryBuilder()
    try:
        for table, opened in tables.items():
            engine.register(_noun(table), opened)
        return pa.RecordBatchReader.from_stream(engine.execute(sql)).read_all()
    except (DeltaError, OSError) as error:
        places = ", ".join(location(root, table) for table in tables)
        raise InputError(f"{places}: cannot be read: {_first_line(error)}") from error


def _as_rows(answer: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = answer.to_pylist(maps_as_pydicts="strict")
    return rows


def _noun(table: Table) -> str:
    return table.name.rpartition("/")[2]


def _open(root: str, table: Table) -> DeltaTable:
    place = location(root, table)
    try:
        opened = DeltaTable(place)
    except TableNotFoundError as error:
        raise InputError(missing(root, table)) from error
    except (DeltaError, OSError) as error:
        raise InputError(f"{place}: cannot be read: {_first_line(error)}") from error
    _refuse_older(opened, table, place)
    return opened


def _refuse_older(opened: DeltaTable, table: Table, where: str) -> None:
    """Lists whose elements were once of another kind are not read; a column may not be there at all."""
    known = {field.name: field.type for field in opened.schema().fields}
    for field in table.schema:
        if pa.types.is_list(field.type) and (found := known.get(field.name)) is not None:
            element = getattr(found, "element_type", None)
            if element is None or (element.type == "struct") != pa.types.is_struct(field.type.value_type):
                raise InputError(OLDER.format(where))


def count_rows(root: str, table: Table, **equal: str) -> int:
    """How many rows of *table* have columns that equal *equal*."""
    return int(query_rows(root, f"{_selection(table, ['COUNT(*) AS count'], None, equal)}", table)[0]["count"])


def delete_rows(root: str, table: Table, **equal: str) -> None:
    """Remove the rows of *table* whose columns equal *equal*, in one commit."""
    _tried(location(root, table), lambda: _open(root, table).delete(all_equal(equal)))


def compact(root: str, table: Table) -> int:
    """Join the small files that many small commits leave; how many."""
    place = location(root, table)

    def join() -> int:
        opened = DeltaTable(place)
        joined = int(opened.optimize.compact()["numFilesRemoved"])
        opened.create_checkpoint()
        return joined

    return _tried(place, join)


def vacuum(root: str, table: Table, retention_h: int) -> int:
    """Remove the files that *table* has not held for *retention_h* hours; how many."""
    place = location(root, table)
    return len(
        _tried(
            place,
            lambda: DeltaTable(place).vacuum(retention_h, dry_run=False, enforce_retention_duration=False),
        )
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
