"""Declaration of Delta tables and their columns.  A column comment is a noun phrase with its unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, get_args, get_origin

import pyarrow as pa

from cluster_core.columns import Column, Kind, columns_of

TEXT: Final = pa.string()
BYTES: Final = pa.binary()
FLAG: Final = pa.bool_()
SHORT: Final = pa.int16()
INTEGER: Final = pa.int32()
LONG: Final = pa.int64()
DOUBLE: Final = pa.float64()
TIME: Final = pa.timestamp("us", tz="UTC")
UNSIGNED: Final = pa.decimal128(20, 0)
"""Unsigned 64-bit number: epochs, offsets and module ids on the wire."""
UNSIGNED_MAX: Final = 10**20 - 1
SMALL_MAX: Final = 2**31 - 1
LAYOUT: Final = {"delta.checkpointInterval": "20", "delta.setTransactionRetentionDuration": "interval 1 days"}
"""Properties of every new table."""
VERSIONS_KEPT: Final = "interval 6 hours"
"""How long versions of tables can be read that each batch of a follower may change: some thousands a day."""
GOLD_VERSIONS_KEPT: Final = "interval 30 days"
"""How long versions of other tables can be read."""
_BY_KIND: Final[dict[Kind, pa.DataType]] = {Kind.SMALL: INTEGER, Kind.UNSIGNED: UNSIGNED}
_BY_TYPE: Final[dict[type, pa.DataType]] = {bool: FLAG, int: LONG, float: DOUBLE, bytes: BYTES, datetime: TIME}


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table at ``ROOT/<name>`` with *name* ``layer/table``, one sentence *about* it, and the *key* of a row.

    A table *of_runs* has rows of snapshots or plans, which a run replaces in one commit.  Tables with a row a key or
    message are partitioned by the columns *partition_by*.  Gold tables change rarely, except those of *each_batch*.
    """

    name: str
    about: str
    schema: pa.Schema
    key: tuple[str, ...]
    of_runs: bool = True
    partition_by: tuple[str, ...] = ()
    each_batch: bool = False

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def sql_name(self) -> str:
        """Name without the layer, as SQL calls the table."""
        return self.name.rpartition("/")[2]

    @property
    def named_by(self) -> str:
        """First column: id of the snapshot or plan."""
        return str(self.schema.names[0])

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that a run fills in for every row."""
        return (self.named_by, "cluster", "run_id") if self.of_runs else ()

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.schema.names)

    @property
    def properties(self) -> dict[str, str]:
        """The Delta properties of a new table; consumers of gold tables can read the changes between two versions."""
        is_gold = self.name.startswith("gold/")
        kept = GOLD_VERSIONS_KEPT if is_gold and not self.each_batch else VERSIONS_KEPT
        lasting = {"delta.logRetentionDuration": kept, "delta.deletedFileRetentionDuration": kept}
        return LAYOUT | lasting | ({"delta.enableChangeDataFeed": "true"} if is_gold else {})

    @property
    def unlabelled(self) -> pa.Schema:
        """The columns without those that the run stamps."""
        return _unlabelled(self)

    @property
    def stored(self) -> pa.Schema:
        """The columns with their comments as Delta stores them: each may be null."""
        return _stored(self)


@cache
def _unlabelled(table: Table) -> pa.Schema:
    return pa.schema([field for field in table.schema if field.name not in table.labels])


@cache
def _stored(table: Table) -> pa.Schema:
    return pa.schema([_nullable(field) for field in table.schema])


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field).type)
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_type, _nullable(kind.item_field).type)
    elif pa.types.is_struct(kind):
        kind = pa.struct([_nullable(inner) for inner in kind])
    return pa.field(field.name, kind, metadata=field.metadata)


def several(kind: pa.DataType) -> pa.DataType:
    """Return the type of a list without nulls."""
    return pa.list_(pa.field("element", kind, nullable=False))


def by_name(kind: pa.DataType) -> pa.DataType:
    """Return the type of a map from names to values without nulls."""
    return pa.map_(TEXT, pa.field("value", kind, nullable=False))


def required(name: str, kind: pa.DataType, about: str) -> pa.Field:
    """Return a column that is never null, with the comment *about*."""
    return pa.field(name, kind, nullable=False, metadata={"comment": about})


def optional(name: str, kind: pa.DataType, about: str) -> pa.Field:
    """Return a nullable column with the comment *about*."""
    return pa.field(name, kind, nullable=True, metadata={"comment": about})


def snapshot_table(
    name: str,
    about: str,
    columns: Iterable[pa.Field],
    key: tuple[str, ...] = (),
    *,
    is_large: bool = False,
    each_batch: bool = False,
) -> Table:
    """Return a table with rows per snapshot, identified by *key* within it; a large one is partitioned by snapshot."""
    partition_by = ("snapshot_id",) if is_large else ()
    schema = pa.schema([SNAPSHOT_ID, CLUSTER, RUN_ID, *columns])
    return Table(name, about, schema, ("snapshot_id", *key), partition_by=partition_by, each_batch=each_batch)


def instant(name: str, about: str, *, always: bool = True, name_ns: str = "") -> list[pa.Field]:
    """Return a timestamp column *name* and a column of nanoseconds, named *name_ns* or else *name* with ``_ns``."""
    field = required if always else optional
    ns = field(name_ns or f"{name}_ns", LONG, f"{about}; ns since the epoch")
    return [field(name, TIME, about), ns]


def fields_of(row: type) -> list[pa.Field]:
    """Return the columns of a row type of the core (`cluster_core.columns`), times twice as in `instant`."""
    return [field for column in columns_of(row) for field in _fields(column)]


def rows_table(rows: Sequence[tuple[Any, ...]], row: type, table: Table) -> pa.Table:
    """*rows* of the NamedTuple *row* in the `Table.unlabelled` columns of *table*, null where *row* lacks the column; numbers out of range become the nearest in range."""
    values: dict[str, list[Any]] = {}
    for place, column in enumerate(columns_of(row)):
        fitted = values[column.name] = [_fitting(each[place], column) for each in rows]
        if column.timestamp:
            values[column.timestamp] = [None if ts_ns is None else ts_ns // 1000 for ts_ns in fitted]
    nothing = [None] * len(rows)
    columns = [pa.array(values.get(field.name, nothing), field.type) for field in table.unlabelled]
    return pa.Table.from_arrays(columns, schema=table.unlabelled)


def _fitting(value: Any, column: Column) -> Any:
    if value is None or (column.kind is Kind.MESSAGE and value < 0):
        return None
    if column.kind is Kind.UNSIGNED:
        return max(0, min(value, UNSIGNED_MAX))
    if isinstance(value, tuple) and value and hasattr(value[0], "_asdict"):
        return [item._asdict() for item in value]
    return max(-SMALL_MAX - 1, min(value, SMALL_MAX)) if column.kind is Kind.SMALL else value


def side_by_side(rows: Iterable[type]) -> list[pa.Field]:
    """Return the union of the columns of several row types, nullable, times as nanoseconds only.

    Tasks that return rows of several types use it as their schema.
    """
    fields: dict[str, pa.Field] = {}
    for field in (field for row in rows for field in fields_of(row) if field.type != TIME):
        fields.setdefault(field.name, pa.field(field.name, field.type))
    return list(fields.values())


def _fields(column: Column) -> list[pa.Field]:
    if column.timestamp:
        return instant(column.timestamp, column.about, always=not column.optional, name_ns=column.name)
    kind = _BY_KIND.get(column.kind) or _data_type(column.type)
    return [pa.field(column.name, kind, column.optional, {"comment": column.about})]


def _data_type(kind: Any) -> pa.DataType:
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return by_name(_data_type(arguments[1]))
    if get_origin(kind) is tuple:
        return several(_data_type(arguments[0]))
    if issubclass(kind, tuple):
        return pa.struct(fields_of(kind))
    return TEXT if issubclass(kind, str) else _BY_TYPE[kind]


SNAPSHOT_ID = required("snapshot_id", TEXT, "name of the snapshot")
CLUSTER = optional("cluster", TEXT, "cluster of the row; null without a name and known node ids")
RUN_ID = required("run_id", TEXT, "run that wrote the row, see silver/runs")
PARTIAL = optional(
    "partial",
    FLAG,
    "some input was unreadable: sums are too small, ranks and shares may be wrong",
)


def with_texts(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Return *fields* with a text column ``NAME_text`` after each column of bytes, escaped by `slotscope.runtime.text.shown`."""
    result: list[pa.Field] = []
    for field in fields:
        result.append(field)
        if field.type == BYTES:
            result.append(optional(f"{field.name}_text", TEXT, f"{field.name} as escaped text"))
    return result
