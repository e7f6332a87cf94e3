"""``spark.read.format("redis-rdb")``: RDB dumps of Redis and Valkey as rows.

    spark.dataSource.register(RdbDataSource)
    keys = spark.read.format("redis-rdb").load("dumps/*.rdb")                              # one row a key
    files = spark.read.format("redis-rdb").option("rows", "files").load("dumps/*.rdb")     # one row a file: aux fields and checks

Options: ``rows`` (``keys`` or ``files``); ``mode`` (``strict``: the first bad byte fails the query; ``permissive``: what stands before it is
returned, and ``rows=files`` tells the rest in ``error``); ``crc`` (``true``: check the file's CRC64); ``split`` (``true``: a large cluster
dump is read in ranges of slots, one task each); ``parallelism`` (tasks aimed at, default 2).

Values: ``values`` (``false``; ``true`` adds column ``value``, a struct with a field for each kind of value, docs/export.md); ``columns``
(``key,value.hash``: these alone are made). Which keys: ``match``, ``prefix``, ``regex``, ``type``, ``db``, ``slot``, ``size``, ``ttl``, ``idle``, ``freq`` and
``sample``, as ``slotscope export`` takes them; after `slotscope.register` conditions of SQL on ``key``, ``type`` and numbers are handed to the
skim as well. No value of another key is looked at.

What the server's memory holds (columns ``memory_bytes`` and ``estimate``, docs/design/memory-model.md): ``memory`` (``true``), ``allocator`` (``auto``,
``jemalloc``, ``jemalloc-16``, ``libc``), ``cluster`` (``false``: whether the server ran in cluster mode), ``loaded`` (``false``: whether its keys are as it loaded them from a
file), ``list-compress-depth`` (default 0), ``server`` (``redis-8.0``: whose layout, whatever the dump says).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch, key_columns
from cluster_core.kernels.keys.filter import CONDITIONS
from cluster_core.memory.layouts import LAYOUT_NAMES
from cluster_core.memory.model import MemorySettings
from cluster_core.memory.structures import ALLOCATORS
from cluster_core.rdb.value_columns import ValueColumns
from schemas.bronze import RDB_SOURCE
from slotscope.sources.data_source import ERROR_COLUMNS, UnitReader, UnitSource, choice
from slotscope.sources.files import expand
from slotscope.sources.folder_kinds import DUMPS
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader, plan_units
from slotscope.sources.values.conditions import PushedCondition, asked_columns, filter_of, pushed_condition
from slotscope.sources.values.plain_bytes import local_file, mapped_bytes

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

FILES = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("keys", pa.int64(), nullable=False),
        pa.field("file_bytes", pa.int64(), nullable=False),
        pa.field("dialect", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("aux", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("trailing_bytes", pa.int64()),
        *ERROR_COLUMNS,
    ]
)
"""Schema of ``rows=files``."""


class RdbReader(UnitReader):
    """Reads dumps, or ranges of them."""

    schemas: ClassVar = {"keys": RDB_SOURCE, "files": FILES}
    known = frozenset(
        [
            *(
                "crc",
                "split",
                "parallelism",
                "memory",
                "allocator",
                "cluster",
                "loaded",
                "list-compress-depth",
                "server",
            ),
            *("values", "columns", *CONDITIONS),
        ]
    )

    def __init__(self, options: Mapping[str, str], schema: pa.Schema | None = None) -> None:
        super().__init__(options)
        self.schema = self.schema_of(options) if schema is None else asked_columns(schema, options)
        self.filter = filter_of(options)
        self.pushed: list[PushedCondition] = []
        self.check_crc = choice(options, "crc", ("true", "false")) == "true"
        self.memory = _memory_settings(options)

    @classmethod
    def schema_of(cls, options: Mapping[str, str]) -> pa.Schema:
        """The columns that *options* ask for, with the value if that is one of them; raises DecodeError for one that is not known."""
        schema = super().schema_of(options)
        return schema if schema is FILES else asked_columns(schema, options)

    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows asked for."""
        return self.schema

    def units(self) -> Iterable[RdbUnit]:
        """The files of the path, large ones in ranges."""
        split = self.split and not self.permissive
        return plan_units(expand([self.path], DUMPS), parallelism=self.parallelism, split=split)

    def batches(self, unit: RdbUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        reader = RdbUnitReader(unit, check_crc=self.check_crc, memory=self.memory)
        if self.rows == "files":
            row = self._file_row(reader)
            yield pa.RecordBatch.from_pylist([row], schema=self.schema)
        elif "value" in self.schema.names:
            with local_file(unit.path) as path:
                yield from self.keys_of(unit.path, replace(unit, path=path))
        else:
            for batch in self.until_damage(reader):
                yield self._rows(unit.path, self._wanted(reader, batch))

    def _wanted(self, reader: RdbUnitReader, batch: KeyBatch) -> KeyBatch:
        """The keys of *batch* that all conditions choose."""
        if self.filter is None and not self.pushed:
            return batch
        chosen = np.ones(len(batch), np.bool_)
        for condition in self.pushed:
            chosen &= condition.mark(batch)
        if self.filter is not None:
            rows = self.filter.rows(batch, reader.taken_at_ms, self.path)
            chosen &= np.isin(np.arange(len(batch)), rows)
        return batch.where(chosen)

    def _rows(self, path: str, batch: KeyBatch, value: pa.Array | None = None) -> pa.RecordBatch:
        source = pa.array([path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
        columns = dict(zip(RDB_SOURCE.names, [*key_columns(batch), source], strict=True)) | {"value": value}
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def keys_of(self, source: str, dump: RdbUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a local *dump* that stands for *source*, with values if they are asked for."""
        reader = RdbUnitReader(dump, check_crc=self.check_crc, memory=self.memory)
        has_values = "value" in self.schema.names
        data = mapped_bytes(dump.path)
        fields = [field.name for field in self.schema.field("value").type] if has_values else []
        for batch in self.until_damage(reader):
            wanted = self._wanted(reader, batch)
            maker = ValueColumns(reader.skimmer.head, source=dump.path, permissive=self.permissive)
            for piece in maker.pieces(wanted):
                yield self._rows(source, piece, maker.array(data, piece, fields) if has_values else None)

    def _file_row(self, reader: RdbUnitReader) -> dict[str, object]:
        damage = self.damage_of(reader)
        head = reader.head
        return {
            "source": reader.unit.path,
            "keys": reader.skimmer.keys,
            "file_bytes": reader.unit.size,
            "dialect": head.dialect if head else None,
            "version": head.version if head else None,
            "aux": list(reader.facts.items()),
            "trailing_bytes": reader.trailing_bytes,
            **damage,
        }


class PushingRdbReader(RdbReader):
    """The same where Spark hands conditions over (``spark.sql.python.filterPushdown.enabled``, since 4.1)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep what the skim can tell, return the rest."""
        for one in filters:
            condition = None if self.rows == "files" else pushed_condition(one)
            if condition is None:
                yield one
            else:
                self.pushed.append(condition)


class RdbDataSource(UnitSource):
    """The source named ``redis-rdb``; see the module for its options."""

    format = "redis-rdb"
    reads = RdbReader


class PushingRdbDataSource(RdbDataSource):
    """The source named ``redis-rdb`` in a session that hands conditions over."""

    reads = PushingRdbReader


def _memory_settings(options: Mapping[str, str]) -> MemorySettings | None:
    if choice(options, "memory", ("true", "false")) == "false":
        return None
    depth = options.get("list-compress-depth", "0")
    if not depth.isdecimal() or len(depth) > 9:
        raise DecodeError(
            f"option list-compress-depth is {depth!r}, not a number", offset=0, source=options.get("path", "")
        )
    allocator = choice(options, "allocator", ("auto", *ALLOCATORS))
    is_cluster, is_loaded = (choice(options, name, ("false", "true")) == "true" for name in ("cluster", "loaded"))
    server = choice(options, "server", ("", *LAYOUT_NAMES))
    return MemorySettings(allocator, is_cluster, int(depth), is_loaded, server)
