"""Delta tables without Spark: for commands that need no JVM, because they read little or cannot wait for it at every step.

The tables are the same ones: what is written here is read by Spark, and the other way round.  Reads are SQL of DataFusion, which
comes with delta-rs: columns, conditions and limits go into the files, and no table is held as a whole.  Object storage takes its
credentials from the environment, as its own tools do (AWS_…, AZURE_…, GOOGLE_…).
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from schemas.runs import RUNS
from schemas.table import Table
from slotscope.runtime.errors import InputError, PlaceError, TryAgainError
from slotscope.runtime.storage import stores
from slotscope.runtime.storage.writable import check_room

Done = TypeVar("Done")
Given = ParamSpec("Given")

ATTEMPTS_MAX: Final = 30
"""Of a commit that others come before: jobs of a whole fleet may end in the same second."""
PAUSE_S: Final = 0.02
"""Between two attempts at first; ten times as much in the end, and never the same for two jobs."""
LAYOUT: Final = {
    "delta.dataSkippingNumIndexedCols": "5",
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.setTransactionRetentionDuration": "interval 1 days",
}
"""Of every table: files are skipped by what its rows belong to; a log is read from its last checkpoint, and holds little that is gone."""
COUNTED: Final = "run_id IN (SELECT UNNEST(counted) FROM runs WHERE state = 'complete')"
"""The SQL condition that a row counts."""
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
    return f"{stores.plain(root).rstrip('/') if '://' in root else os.path.abspath(root)}/{table.name}"


def exists(root: str, table: Table) -> bool:
    """Whether *table* was ever written under *root*."""
    place = location(root, table)
    if "://" not in place:
        return os.path.isdir(f"{place}/_delta_log")
    try:
        return bool(DeltaTable.is_deltatable(place, stores.storage_options(place)))
    except OSError as error:
        raise PlaceError(f"{place}: cannot be read: {stores.reason(error)}") from error


def append_rows(root: str, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add *rows* in one commit; the table is created at first use."""
    append_table(root, table, as_table(table, rows))


def append_table(root: str, table: Table, rows: pa.Table) -> None:
    """Add *rows*, which have the columns of *table*, in one commit that no other one hinders; the table is created at first use.

    They are added once, also where the store took the commit and its answer was lost.
    """
    place = location(root, table)

    def add(marked: CommitProperties) -> None:
        opened = _opened_to_write(place, table)
        check_room(place, rows.nbytes)
        _commit(opened, rows.cast(arrow_schema(table)), None, marked)

    add_once(place, add)


def add_once(place: str, add: Callable[[CommitProperties], object]) -> None:
    """Let *add* commit to the table at *place*, with what its commit is known by where its answer is lost."""
    mark = commit_mark()

    def once() -> None:
        try:
            add(CommitProperties(app_transactions=[Transaction(mark, 1, time.time_ns() // 1_000_000)]))
        except (DeltaError, OSError):
            if not holds(place, mark):
                raise

    tried(place, once)


def commit_mark() -> str:
    """What tells one commit from all others, as the application id of a Delta transaction."""
    return secrets.token_hex(8)


def holds(place: str, mark: str) -> bool:
    """Whether the table at *place* took the commit of *mark*."""
    return opened_table(place).transaction_version(mark) is not None


def replace_rows(root: str, table: Table, rows: Sequence[Mapping[str, Any]], **equal: str) -> None:
    """Put *rows* in the place of those whose columns equal *equal*, in one commit."""
    place = location(root, table)
    tried(place, lambda: _commit(_opened_to_write(place, table), as_table(table, rows), all_equal(equal)))


def revise_rows(
    root: str, table: Table, where: str, revise: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> int:
    """Put what *revise* makes of the rows for which *where* holds in their place, in one commit; the version that this made.

    Nobody adds or changes such rows in between: then *revise* is asked again.  It may add rows for which *where* holds.
    """
    place = location(root, table)

    def once() -> int:
        opened = _opened_to_write(place, table)
        found = _as_rows(_answer(f"SELECT * FROM {_noun(table)} WHERE {where}", {table: opened}, root))
        same = any_of(table.key[0], (row[table.key[0]] for row in found))
        return _commit(opened, as_table(table, revise(found)), f"({where}) OR {same}")

    return tried(place, once)


def all_equal(values: Mapping[str, str]) -> str:
    """The SQL condition that columns have these *values*."""
    return " AND ".join(f"{name} = {_text(value)}" for name, value in values.items())


def any_of(column: str, values: Iterable[str]) -> str:
    """The SQL condition that *column* has one of *values*."""
    texts = ", ".join(_text(value) for value in values)
    return f"{column} IN ({texts})" if texts else "FALSE"


def _text(value: str) -> str:
    return f"'{value.replace(chr(39), chr(39) * 2)}'"


def as_table(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """*rows*, by the names of their columns, as *table* has them; what a row lacks is null."""
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(table))


def tried(place: str, commit: Callable[[], Done], *conflicts: type[Exception]) -> Done:
    """What *commit* returns, tried again while other writers come first, as delta-rs or one of *conflicts* says.

    Raises `TryAgainError` where they always do, `PlaceError` where *place* cannot be written.
    """
    known: tuple[type[Exception], ...] = (DeltaError, OSError, *conflicts)
    for attempt in range(ATTEMPTS_MAX):
        try:
            return commit()
        except known as error:
            if not isinstance(error, (CommitFailedError, *conflicts)):
                raise PlaceError(f"{place}: cannot be written: {stores.reason(error)}") from error
            time.sleep(random.uniform(1, 2) * PAUSE_S * (1 + 9 * attempt / ATTEMPTS_MAX))
    raise TryAgainError(f"{place}: other jobs write there all the time: run this again")


def create(root: str, table: Table) -> None:
    """Make *table* without rows, if it is not there: with its words, and a layout that files are skipped by."""
    place = location(root, table)
    tried(place, lambda: _opened_to_write(place, table))


def _opened_to_write(place: str, table: Table) -> DeltaTable:
    try:
        opened = opened_table(place)
    except TableNotFoundError:
        DeltaTable.create(
            place,
            schema=arrow_schema(table),
            mode="ignore",
            description=table.about,
            configuration=dict(LAYOUT),
            storage_options=stores.storage_options(place),
        )
        opened = opened_table(place)
    _refuse_older(opened, table, place)
    return opened


def _commit(opened: DeltaTable, rows: pa.Table, where: str | None, properties: CommitProperties | None = None) -> int:
    """Add *rows*, or put them in the place of those for which *where* holds; the version that this made."""
    there = pa.schema(opened.schema())
    data = rows.cast(pa.schema([there.field(f.name) if f.name in there.names else f for f in rows.schema]))
    how: dict[str, Any] = {"mode": "append"} if where is None else {"mode": "overwrite", "predicate": where}
    if not set(rows.schema.names) <= set(there.names):
        how["schema_mode"] = "merge"
    write_deltalake(opened, data, commit_properties=properties, **how)
    return int(opened.version())


# -- which rows count --------------------------------------------------------------------------------------------------

_PINNED: ContextVar[dict[tuple[str, str | None], tuple[str, ...]] | None] = ContextVar("pinned", default=None)


def counted_runs(root: str, name: str | None = None) -> tuple[str, ...]:
    """The run ids of the rows that make snapshot, or plan, *name*: of all jobs that wrote one of that name and were finished.

    Without *name*: of all rows that count.
    """
    pinned = _PINNED.get()
    if pinned is not None and (root, name) in pinned:
        return pinned[root, name]
    found: tuple[str, ...] = ()
    if exists(root, RUNS):
        where = all_equal({"snapshot_id": name}) if name is not None else None
        rows = read_rows(root, RUNS, columns=("counted",), where=where, state="complete")
        found = tuple(sorted(run_id for row in rows for run_id in row["counted"]))
    if pinned is not None:
        pinned[root, name] = found
    return found


def settled(read: Callable[Given, Done]) -> Callable[Given, Done]:
    """*read*, made again where a job replaced rows that it counted in between: what it returns is no mix of two runs."""

    @wraps(read)
    def read_settled(*args: Given.args, **kwargs: Given.kwargs) -> Done:
        if _PINNED.get() is not None:
            return read(*args, **kwargs)
        for _ in range(ATTEMPTS_MAX):
            pinned: dict[tuple[str, str | None], tuple[str, ...]] = {}
            token = _PINNED.set(pinned)
            try:
                found = read(*args, **kwargs)
            finally:
                _PINNED.reset(token)
            if all(counted_runs(root, name) == runs for (root, name), runs in pinned.items()):
                return found
        raise TryAgainError("the tables change all the time: run this again")

    return read_settled


# -- reading -----------------------------------------------------------------------------------------------------------


def read_rows(
    root: str,
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    order_by: str = "",
    limit: int | None = None,
    runs: Sequence[str] | None = None,
    **equal: str,
) -> list[dict[str, Any]]:
    """Rows of *table* whose columns equal *equal* and for which the SQL condition *where* holds: the first *limit* by *order_by*.

    A row is a dict of the columns asked for, or of all; null where it was written before a column was added.  Rows of runs count as
    `counted_runs` says, or are those of *runs*.  Raises `InputError` where the table is not there, or is of a form that is not read.
    """
    opened = existing_table(root, table)
    there = {field.name for field in opened.schema().fields}
    chosen = [f'"{name}"' if name in there else f'NULL AS "{name}"' for name in columns or table.columns]
    sql = _selection(table, chosen, where, equal) + (f" ORDER BY {order_by}" if order_by else "")
    sql += f" LIMIT {limit}" if limit is not None else ""
    return _as_rows(_answer(sql, {table: opened}, root, _runs_of(root, table, equal, runs)))


def few_rows(
    root: str,
    table: Table,
    selected: Sequence[str],
    count_max: int,
    *,
    where: str,
    order_by: str,
    runs: Sequence[str] | None = None,
    **equal: str,
) -> pa.Table | None:
    """The SQL expressions *selected* of rows of *table* as `read_rows` chooses them; None where these are more than *count_max*."""
    sql = f"{_selection(table, selected, where, equal)} LIMIT {count_max + 1}"
    opened = {table: existing_table(root, table)}
    found = _answer(f"SELECT * FROM ({sql}) ORDER BY {order_by}", opened, root, _runs_of(root, table, equal, runs))
    return None if found.num_rows > count_max else found


def _runs_of(root: str, table: Table, equal: Mapping[str, str], runs: Sequence[str] | None) -> Sequence[str] | None:
    """The ids of the rows that count, where one snapshot or plan is read; None: of all."""
    if runs is None and table.of_runs and table.named_by in equal:
        return counted_runs(root, equal[table.named_by])
    return runs


def _selection(table: Table, selected: Sequence[str], where: str | None, equal: Mapping[str, str]) -> str:
    conditions = [*([all_equal(equal)] if equal else []), *([f"({where})"] if where else [])]
    return f"SELECT {', '.join(selected)} FROM {_noun(table)}" + (
        f" WHERE {' AND '.join(conditions)}" if conditions else ""
    )


def query_rows(root: str, sql: str, *tables: Table) -> list[dict[str, Any]]:
    """What *sql* says of *tables*, which go by their names without the layer; raises `InputError` as `read_rows` does."""
    return _as_rows(_answer(sql, {table: existing_table(root, table) for table in tables}, root))


def _answer(sql: str, tables: Mapping[Table, DeltaTable], root: str, runs: Sequence[str] | None = None) -> pa.Table:
    """What *sql* says of the rows of *tables* that count: those of *runs*, or of every run that is complete."""
    engine = QueryBuilder()
    counted = COUNTED if runs is None else any_of("run_id", runs)
    parts = []
    try:
        for table, opened in tables.items():
            engine.register(f"stored_{_noun(table)}" if table.of_runs else _noun(table), opened)
            if table.of_runs:
                parts.append(f"{_noun(table)} AS (SELECT * FROM stored_{_noun(table)} WHERE {counted})")
        if parts and runs is None and RUNS not in tables:
            engine.register(_noun(RUNS), existing_table(root, RUNS))
        own = sql.removeprefix("WITH ")
        listed = f"WITH {', '.join(parts)}{' ' if own is sql else ', '}" if parts else ""
        return pa.RecordBatchReader.from_stream(engine.execute(listed + (own if parts else sql))).read_all()
    except (DeltaError, OSError) as error:
        places = ", ".join(location(root, table) for table in tables)
        raise PlaceError(f"{places}: cannot be read: {stores.reason(error)}") from error


def _as_rows(answer: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = answer.to_pylist(maps_as_pydicts="strict")
    return rows


def _noun(table: Table) -> str:
    return table.name.rpartition("/")[2]


def existing_table(root: str, table: Table) -> DeltaTable:
    """The table; raises InputError where it is not there, or cannot be read."""
    place = location(root, table)
    try:
        opened = opened_table(place)
    except TableNotFoundError as error:
        raise InputError(missing(root, table)) from error
    except (DeltaError, OSError) as error:
        raise PlaceError(f"{place}: cannot be read: {stores.reason(error)}") from error
    _refuse_older(opened, table, place)
    return opened


def opened_table(place: str) -> DeltaTable:
    """The table at *place* (`location`); raises as delta-rs does."""
    return DeltaTable(place, storage_options=stores.storage_options(place))


def _refuse_older(opened: DeltaTable, table: Table, where: str) -> None:
    """Rows that no run stamped, and lists whose elements were once of another kind, are not read; another column may not be there at all."""
    known = {field.name: field.type for field in opened.schema().fields}
    if not set(table.labels) <= set(known):
        raise InputError(OLDER.format(where))
    for field in table.schema:
        if pa.types.is_list(field.type) and (found := known.get(field.name)) is not None:
            element = getattr(found, "element_type", None)
            if element is None or (element.type == "struct") != pa.types.is_struct(field.type.value_type):
                raise InputError(OLDER.format(where))


def figures(root: str, table: Table, runs: Sequence[str], **selected: str) -> dict[str, int | None]:
    """What the SQL aggregates *selected* say of the rows of *table* that *runs* wrote, whether they count or not."""
    sql = f"SELECT {', '.join(f'{what} AS {name}' for name, what in selected.items())} FROM {_noun(table)}"
    (row,) = _as_rows(_answer(sql, {table: existing_table(root, table)}, root, runs))
    return row
