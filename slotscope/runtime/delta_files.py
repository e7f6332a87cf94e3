"""Delta tables without Spark: for commands that act on a live cluster and cannot wait for a JVM at every step.

The tables are the same ones: what is written here is read by Spark, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.table import Table
from slotscope.runtime.errors import InputError

_ARROW: dict[type[DataType], pa.DataType] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    DoubleType: pa.float64(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    StringType: pa.string(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of *table*, with the comments of its columns."""
    return pa.schema([_field(field) for field in table.schema.fields])


def _field(field: StructField) -> pa.Field:
    return pa.field(field.name, _arrow(field.dataType), field.nullable, metadata=field.metadata)


def _arrow(kind: DataType) -> pa.DataType:
    if isinstance(kind, ArrayType):
        return pa.list_(_arrow(kind.elementType))
    if isinstance(kind, MapType):
        return pa.map_(_arrow(kind.keyType), _arrow(kind.valueType))
    if isinstance(kind, StructType):
        return pa.struct([_field(field) for field in kind.fields])
    return _ARROW[type(kind)]


def location(root: str, table: Table) -> str:
    """Where *table* lies; *root* is a path or a URI."""
    return f"{root.rstrip('/')}/{table.name}"


def exists(root: str, table: Table) -> bool:
    """Whether *table* was ever written under *root*."""
    return bool(DeltaTable.is_deltatable(location(root, table)))


def append_rows(root: str, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Add *rows* in one commit; the table is created at first use."""
    _write(root, table, rows, mode="append")


def replace_rows(root: str, table: Table, rows: Sequence[dict[str, Any]], **equal: str) -> None:
    """Put *rows* in the place of those whose columns equal *equal*, in one commit."""
    if not exists(root, table):
        _write(root, table, rows, mode="append")
        return
    where = " AND ".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in equal.items())
    _write(root, table, rows, mode="overwrite", predicate=where)


def _write(root: str, table: Table, rows: Sequence[dict[str, Any]], **how: Any) -> None:
    data = pa.Table.from_pylist(list(rows), schema=arrow_schema(table))
    try:
        write_deltalake(
            location(root, table), data, partition_by=list(table.partition_by) or None, schema_mode="merge", **how
        )
    except (DeltaError, OSError) as error:
        raise InputError(f"{location(root, table)}: cannot be written: {_first_line(error)}") from error


def read_rows(root: str, table: Table, **equal: str) -> list[dict[str, Any]]:
    """Rows of *table* whose columns equal *equal*, maps as dicts; InputError where the table is not there."""
    where = location(root, table)
    try:
        opened = DeltaTable(where)
        names = [name for name in table.columns if name in {field.name for field in opened.schema().fields}]
        data = opened.to_pyarrow_table(columns=names, filters=[(k, "=", v) for k, v in equal.items()] or None)
    except TableNotFoundError as error:
        raise InputError(f"{where}: no such table; is --root right, and did the job that writes it run?") from error
    except (DeltaError, OSError) as error:
        raise InputError(f"{where}: cannot be read: {_first_line(error)}") from error
    maps = [f.name for f in table.schema.fields if isinstance(f.dataType, MapType) and f.name in names]
    rows: list[dict[str, Any]] = data.to_pylist()
    for row in rows:
        for name in maps:
            row[name] = dict(row[name]) if row[name] is not None else None
    return rows


def compact(root: str, table: Table) -> None:
    """Join the small files that many small commits leave."""
    opened = DeltaTable(location(root, table))
    opened.optimize.compact()
    opened.create_checkpoint()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
