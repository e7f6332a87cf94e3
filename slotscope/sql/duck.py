"""Tables and views of a root in DuckDB, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.catalogue import TABLES, writers
from schemas.table import Table
from slotscope.runtime.answer import Answer
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import check_format, dataset, exists
from slotscope.sql.views import VIEWS, tables_named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connect(root: str) -> DuckDBPyConnection:
    """Return a DuckDB connection with the tables and views of *root* by their last names; times are UTC.

    Tables without rows are empty.  Raises InputError if *root* has no table.
    """
    import duckdb

    if not any(exists(root, table) for table in TABLES):
        raise InputError(f"{root}: no tables; is --root right, and did a job write there?")
    check_format(root)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for table in TABLES:
        connection.register(table.sql_name, dataset(root, table))
    for view in VIEWS:
        connection.execute(f"CREATE TEMP VIEW {view.name} AS {view.query}")
    return connection


def ask(connection: DuckDBPyConnection, query: str) -> Answer:
    """Return the result of *query*; raises InputError with DuckDB's message on one line."""
    import duckdb

    try:
        result = connection.execute(query)
        return Answer(tuple(column[0] for column in result.description or ()), result.fetchall())
    except duckdb.CatalogException as error:
        message = str(error).partition("\n")[0].strip().rstrip(".!")
        raise InputError(f"{message}; slotscope sql lists tables and views") from error
    except duckdb.Error as error:
        raise InputError(" ".join(str(error).partition("\n\nLINE ")[0].split())) from error


def contents(root: str) -> Answer:
    """Return the views, and the tables of *root* with the commands that write them."""
    rows = [(view.name, "view", view.about) for view in VIEWS]
    for table in TABLES:
        written = "" if exists(root, table) else f" Not written yet: run {' or '.join(writers(table))}."
        rows.append((table.sql_name, table.name.partition("/")[0], table.about + written))
    return Answer(("name", "layer", "content"), rows)


def find_unwritten(root: str, query: str) -> list[Table]:
    """Return tables that *query* reads, directly or by views, and that *root* does not have."""
    return [table for table in tables_named(query) if not exists(root, table)]
