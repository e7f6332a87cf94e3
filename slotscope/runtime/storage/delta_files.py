"""Delta tables without Spark: the one writer of every table, and the reader of commands that need no JVM.

A commit replaces rows by predicate (`commit_rows`), so a retry never adds rows twice, and each version of a table is complete for
any reader.  delta-rs makes all commits: of two writers one wins on every root, on object stores by conditional put.
"""

from __future__ import annotations

import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from schemas.runs import FORMAT, OLDEST_FORMAT, RUNS
from schemas.table import Table
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError, PlaceError, TryAgainError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow.dataset import Dataset

Done = TypeVar("Done")

TIDY_EVERY: Final = 50
"""Versions of a table after which its small files are joined and its old ones removed."""
ATTEMPTS_MAX: Final = 30
"""Attempts at a commit: jobs of a whole fleet may end in the same second."""
PAUSE_S: Final = 0.02
"""First pause between attempts; random, and ten times as long at the end."""
JOINED_BYTES: Final = 16 << 20
"""Files are joined up to this size; a join writes as much again every `TIDY_EVERY` versions."""
JOINING: Final = "slotscope-joining"
"""Application id of the transactions that claim a table for a join of files; their version is the end of the claim in ms."""
CLAIM_MS: Final = 3_600_000
"""A claim of a process that was killed ends after this time."""
_NULLS: Final = {
    pa.int32(): "CAST(NULL AS INT)", pa.int64(): "CAST(NULL AS BIGINT)", pa.float64(): "CAST(NULL AS DOUBLE)",
}  # fmt: skip


def as_table(table: Table, rows: Iterable[Mapping[str, Any]] | pa.Table) -> pa.Table:
    """*rows* by column name in the columns of *table*, where missing values are null; an Arrow table is returned unchanged."""
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=table.stored)


def base(root: str) -> str:
    """*root* as a URI without a slash at its end, or as an absolute path."""
    return stores.plain(root).rstrip("/") if "://" in root else os.path.abspath(root)


def location(root: str, table: Table) -> str:
    """The URI or absolute path of *table* below *root*."""
    return f"{base(root)}/{table.name}"


def exists(root: str, table: Table) -> bool:
    """Whether *table* was ever written under *root*."""
    place = location(root, table)
    with _reading(place):
        return DeltaTable.is_deltatable(place, stores.storage_options(place))


@cache
def check_format(root: str) -> None:
    """Raise `InputError` where the tables of *root* have a newer format than this version writes, or one older than the last two."""
    with _reading(location(root, RUNS)):
        opened = _opened(location(root, RUNS))
    is_numbered = opened is None or "format" in {field.name for field in opened.schema().fields}
    files = pa.table(opened.get_add_actions(flatten=True)).to_pylist() if opened is not None else []
    written = max((file.get("max.format") or OLDEST_FORMAT for file in files), default=FORMAT)
    if not is_numbered or written < OLDEST_FORMAT:
        raise InputError(f"{root}: tables of an older version; run: slotscope tables migrate --root {root}")
    if written > FORMAT:
        raise InputError(f"{root}: tables of a newer version; upgrade slotscope")


@contextmanager
def _reading(place: str) -> Iterator[None]:
    """Raise `PlaceError` where *place* cannot be read."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise PlaceError(f"{place}: cannot be read: {stores.reason(error)}") from error


def open_at(place: str) -> DeltaTable:
    """The table at *place*; raises as delta-rs does."""
    return DeltaTable(place, storage_options=stores.storage_options(place))


def _opened(place: str) -> DeltaTable | None:
    try:
        return open_at(place)
    except TableNotFoundError:
        return None


def all_equal(values: Mapping[str, str]) -> str:
    """The SQL condition that columns have these *values*."""
    return " AND ".join(any_of(name, [value]) for name, value in values.items())


def any_of(column: str, values: Iterable[str]) -> str:
    """The SQL condition that *column* has one of *values*."""
    texts = ["'" + value.replace("'", "''") + "'" for value in values]
    return f"{column} IN ({', '.join(texts)})" if len(texts) > 1 else f"{column} = {texts[0]}" if texts else "FALSE"


def commit_rows(
    root: str,
    table: Table,
    rows: pa.Table | Sequence[Mapping[str, Any]] | Callable[[], pa.RecordBatchReader] | None,
    where: str,
    claims: Mapping[str, int] | None = None,
) -> None:
    """Replace the rows that meet *where* by *rows*, in one commit; the first one creates the table.

    Without *rows* it only deletes, and makes no commit where there is nothing to delete.  Every new row must meet *where*, so a commit
    that the store took without answering is made again without harm.  *claims* are numbers by transaction id: a table that holds a
    greater number of one of them was replaced by a later run.  Raises as `retry`, and `TryAgainError` for such a table.
    """
    check_format(root)
    place, numbers = location(root, table), dict(claims or {})

    def commit(opened: DeltaTable | None) -> int:
        if opened is not None and any((opened.transaction_version(name) or 0) > no for name, no in numbers.items()):
            raise TryAgainError(f"{place}: a later run replaced these rows; run this again")
        if rows is not None:
            made = rows() if callable(rows) else as_table(table, rows)
            _write(opened or place, table, made, numbers, mode="overwrite", predicate=where)
        elif opened is not None:
            opened.delete(where)
        return opened.version() if opened is not None else 0

    version = retry(place, commit)
    if version > 1 and version % TIDY_EVERY <= 1:  # a run makes two of silver/runs
        with suppress(PlaceError, TryAgainError):
            compact(root, table)
            remove_old_files(root, table)


def append_rows(root: str, table: Table, rows: Iterable[Mapping[str, Any]] | pa.Table) -> None:
    """Add *rows* in one commit, once also where its answer is lost; the table is created at first use."""
    place, mark, made = location(root, table), secrets.token_hex(8), as_table(table, rows)

    def commit(opened: DeltaTable | None) -> None:
        if opened is None or opened.transaction_version(mark) is None:
            _write(opened or place, table, made, {mark: 1}, mode="append")

    retry(place, commit)


def _write(
    target: Any, table: Table, rows: pa.Table | pa.RecordBatchReader, numbers: Mapping[str, int], **how: Any
) -> None:
    """Commit *rows* to an open or new table; of two writers that create it one fails with `CommitFailedError`."""
    is_new, now_ms = isinstance(target, str), time.time_ns() // 1_000_000
    if isinstance(rows, pa.Table):
        stores.check_room(target if is_new else target.table_uri.removeprefix("file://"), rows.nbytes)
    if not is_new:  # its comments stay: Delta refuses others
        stored = {field.name: field for field in pa.schema(target.schema())}
        fields = (stored[f.name] if f.name in stored and stored[f.name].type == f.type else f for f in rows.schema)
        rows = rows.cast(pa.schema(fields))
    marks = [Transaction(name, number, now_ms) for name, number in numbers.items()]
    write_deltalake(
        target, rows, **how, schema_mode="merge", name=table.name, description=table.about, configuration=table.properties,
        partition_by=list(table.partition_by) or None if is_new else None, commit_properties=CommitProperties(app_transactions=marks),
        storage_options=stores.storage_options(target) if is_new else None,
    )  # fmt: skip


def retry(place: str, commit: Callable[[Any], Done]) -> Done:
    """Call *commit* with the table at *place*, or None, until no other writer comes first.

    Raises `TryAgainError` where one always does, `PlaceError` where *place* cannot be written.
    """
    for attempt in range(ATTEMPTS_MAX):
        try:
            return commit(_opened(place))
        except CommitFailedError:
            time.sleep(random.uniform(1, 2) * PAUSE_S * (1 + 9 * attempt / ATTEMPTS_MAX))
        except (DeltaError, OSError) as error:
            raise PlaceError(f"{place}: cannot be written: {stores.reason(error)}") from error
    raise TryAgainError(f"{place}: too many concurrent commits; retry later")


def compact(root: str, table: Table) -> int:
    """Join small files; return their number, 0 where another process is joining.

    delta-rs lets two joins of the same files pass, which doubles their rows.  So a join claims the table first: of two transactions of
    one application at one version one fails, on every root.
    """
    place, now_ms = location(root, table), time.time_ns() // 1_000_000

    def claim(opened: DeltaTable, until_ms: int) -> None:
        mark = CommitProperties(app_transactions=[Transaction(JOINING, until_ms)], max_commit_retries=0)
        opened.create_write_transaction([], "append", opened.schema(), commit_properties=mark)

    def join(opened: DeltaTable | None) -> int:
        if opened is None:
            return 0
        sizes = pa.table(opened.get_add_actions()).column("size_bytes").to_pylist()
        if (opened.transaction_version(JOINING) or 0) > now_ms or sum(size < JOINED_BYTES for size in sizes) < 2:
            return 0
        claim(opened, now_ms + CLAIM_MS)
        try:
            return int(retry(place, lambda mine: mine.optimize.compact(target_size=JOINED_BYTES)["numFilesRemoved"]))
        finally:
            retry(place, lambda mine: claim(mine, now_ms))

    return retry(place, join)


def remove_old_files(root: str, table: Table, retention_h: int | None = None) -> int:
    """Remove the files that *table* has not held for *retention_h* hours, or as long as its versions are kept; return their number.

    A checkpoint forgets files that were replaced long ago, so all files are listed.
    """
    place = location(root, table)
    return len(retry(place, lambda opened: opened.vacuum(retention_h, False, False, full=True)))


def read_rows(
    root: str,
    table: Table,
    *,
    columns: Sequence[str] = (),
    where: str = "TRUE",
    order_by: str = "",
    limit: int | None = None,
    **equal: str,
) -> list[dict[str, Any]]:
    """Rows of *table* that equal *equal* and meet the SQL condition *where*: the first *limit* by *order_by*.

    A row is a dict of *columns*, or of all; null where it was written before a column was added.  A table that no job of the root has
    had rows for is empty.  Raises `InputError` where the root has no tables.
    """
    where = " AND ".join([f"({where})", *([all_equal(equal)] if equal else [])])
    sql = select(table, columns, where) + (f" ORDER BY {order_by}" if order_by else "")
    return query_rows(root, sql + (f" LIMIT {limit}" if limit is not None else ""), table)


def select(table: Table, columns: Sequence[str], where: str) -> str:
    """The SQL that reads *columns*, or all, of the rows of *table* that meet *where*."""
    names = ", ".join(f'"{name}"' for name in columns or table.columns)
    return f"SELECT {names} FROM {table.sql_name} WHERE {where}"


def query_rows(root: str, sql: str, *tables: Table) -> list[dict[str, Any]]:
    """The answer to *sql* as `query_table` gives it, as dicts, also of its maps."""
    rows: list[dict[str, Any]] = query_table(root, sql, *tables).to_pylist(maps_as_pydicts="strict")
    return rows


def query_table(root: str, sql: str, *tables: Table) -> pa.Table:
    """The answer of DataFusion to *sql*, which names *tables* without their layers; raises as `read_rows` does."""
    check_format(root)
    engine = QueryBuilder()
    with _reading(", ".join(location(root, table) for table in tables)):
        for table in tables:
            there, source, opened = set[str](), "(SELECT 1) WHERE FALSE", _opened(location(root, table))
            if opened is not None:
                source = f"{table.sql_name}_stored"
                engine.register(source, opened)
                there = {field.name for field in opened.schema().fields}
            elif not exists(root, RUNS):
                from schemas.catalogue import writers  # all tables

                jobs = " or ".join(writers(table)) or "the job that writes it"
                raise InputError(f"{location(root, table)}: no such table; is --root right, and did {jobs} run?")
            columns = (
                f'"{f.name}"' if f.name in there else f'{_NULLS.get(f.type, "NULL")} AS "{f.name}"'
                for f in table.schema
            )
            engine.execute(f"CREATE VIEW {table.sql_name} AS SELECT {', '.join(columns)} FROM {source}").read_all()
        return pa.RecordBatchReader.from_stream(engine.execute(sql)).read_all()


def query_sources(sql: str, table: Table, sources: Iterable[tuple[pa.Table | Dataset, str]]) -> pa.Table:
    """The answer of DuckDB to *sql* about the rows of each of *sources* that meet its SQL condition, in place of *table*."""
    with _memory_engine().cursor() as engine:
        named, selects = [name for name in table.columns if name in sql] or table.columns[:1], []
        columns = ", ".join(f'"{name}"' for name in named)
        for number, (rows, where) in enumerate(sources or [(table.stored.empty_table(), "TRUE")]):
            used = [name for name in table.columns if name in named or name in where]  # each column costs time
            engine.register(f"source_{number}", rows.select(used) if isinstance(rows, pa.Table) else rows)
            selects.append(f"SELECT {columns} FROM source_{number} WHERE {where}")
        return engine.sql(f"WITH {table.sql_name} AS ({' UNION ALL '.join(selects)}) {sql}").to_arrow_table()


@cache
def _memory_engine() -> DuckDBPyConnection:
    """An empty database that knows the functions of DataFusion in queries."""
    import duckdb

    engine = duckdb.connect(config={"threads": 1, "temp_directory": tempfile.gettempdir()})
    engine.execute("SET TimeZone = 'UTC'")
    engine.execute("CREATE MACRO regexp_like(value, pattern) AS regexp_matches(value, pattern)")
    return engine


def dataset(root: str, table: Table) -> Dataset | pa.Table:
    """The current rows of *table*, read lazily, null in columns that older rows lack; none where it was never written."""
    with _reading(location(root, table)):
        opened = _opened(location(root, table))
        if opened is None:
            return table.stored.empty_table()
        there = pa.schema(opened.schema())
        fields = [there.field(field.name) if field.name in there.names else field for field in table.stored]
        return opened.to_pyarrow_dataset(schema=pa.schema(fields))


def stream(table: Table, places: Iterable[str]) -> pa.RecordBatchReader:
    """All rows of the Delta tables at *places*, each with the columns of *table*."""
    engine, selects = QueryBuilder(), []
    for number, place in enumerate(places):
        engine.register(f"place_{number}", open_at(place))
        selects.append(f"SELECT * FROM place_{number}")
    answer = engine.execute(" UNION ALL ".join(selects))  # before the writer runs: its threads cannot ask
    return pa.RecordBatchReader.from_stream(answer).cast(table.stored)
