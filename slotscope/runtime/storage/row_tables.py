"""Rows of the core as Arrow tables, in the columns that their Delta table declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from cluster_core.columns import Column, Kind, columns_of
from schemas.table import Table

UNSIGNED_MAX: Final = 10**20 - 1
SMALL_MAX: Final = 2**31 - 1


def table_arrow(table: Table) -> pa.Schema:
    """The Arrow schema of *table* without what the run stamps."""
    return pa.schema([field for field in table.schema if field.name not in table.labels])


def rows_table(rows: Sequence[tuple[Any, ...]], row: type, table: Table) -> pa.Table:
    """*rows* of the NamedTuple *row* as *table* has them, but for what the run stamps; numbers that are too great are the greatest that fit."""
    columns = columns_of(row)
    schema = table_arrow(table)
    values: dict[str, list[Any]] = {}
    for place, column in enumerate(columns):
        told = values[column.name] = [_fitting(one[place], column) for one in rows]
        if column.timestamp:
            values[column.timestamp] = [None if ts_ns is None else ts_ns // 1000 for ts_ns in told]
    return pa.Table.from_arrays([pa.array(values[field.name], field.type) for field in schema], schema=schema)


def _fitting(value: Any, column: Column) -> Any:
    if value is None or (column.kind is Kind.MESSAGE and value < 0):
        return None
    if column.kind is Kind.UNSIGNED:
        return max(0, min(value, UNSIGNED_MAX))
    if isinstance(value, tuple) and value and hasattr(value[0], "_asdict"):
        return [one._asdict() for one in value]
    return max(-SMALL_MAX - 1, min(value, SMALL_MAX)) if column.kind is Kind.SMALL else value
