"""``spark.read.format("redis-rdb")``: RDB dumps of Redis and Valkey as rows.

    spark.dataSource.register(RdbDataSource)
    keys = spark.read.format("redis-rdb").load("dumps/*.rdb")                              # one row a key

Options: ``mode`` (``strict``: the first bad byte fails the query; ``permissive``: the keys before it are returned); ``crc`` (``true``: check the file's CRC64).

Values: ``values`` (``false``; ``true`` adds column ``value``, the value as JSON text, docs/export.md). Which keys: ``match``, ``prefix``, ``type``,
``db``, ``slot``, ``size``, ``ttl``, ``idle`` and ``freq``, as ``slotscope export`` takes them. Values of other keys are not decoded.

Memory in the server (columns ``memory_bytes`` and ``estimate``, docs/design/memory-model.md): ``memory`` (``true``), ``allocator`` (``auto``,
``jemalloc``, ``jemalloc-16``, ``libc``), ``cluster`` (``false``: whether the server ran in cluster mode), ``loaded`` (``false``: whether its keys are as it loaded them from a
file), ``server`` (``redis-8.0``: the release of the layout, instead of the dump's).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.kernels.key_batch import KeyBatch, key_columns
from cluster_core.kernels.keys.filter import CONDITIONS, KeyFilter, key_filter
from cluster_core.memory.layouts import LAYOUT_NAMES
from cluster_core.memory.model import MemorySettings
from cluster_core.memory.structures import ALLOCATORS
from cluster_core.rdb.export import ValueWriter
from cluster_core.rdb.value_state import JSON
from schemas.bronze import KEY_ROWS, RDB_SOURCE
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.sources.data_source import UnitReader, UnitSource, choice
from slotscope.sources.files import expand
from slotscope.sources.folder_kinds import DUMPS
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.keys.text import key_texts
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.values.part import local_file, mapped_bytes

VALUE_BATCH_BYTES = 32 << 20
"""Bytes of records that are decoded to values at once; one key may take more."""
VALUE_MARK = b',"value":'
"""Text before the value in a line of JSON; quotes in a key's name are escaped."""


class RdbReader(UnitReader):
    """Reads dumps, or ranges of them."""

    schemas: ClassVar = {"keys": RDB_SOURCE}
    known = frozenset({
        "crc", "memory", "allocator", "cluster", "loaded", "server", "values",
        *CONDITIONS,
    })  # fmt: skip

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.filter = _filter_of(options)
        self.check_crc = choice(options, "crc", ("true", "false")) == "true"
        self.memory = _memory_settings(options)

    @classmethod
    def schema_of(cls, options: Mapping[str, str]) -> pa.Schema:
        """The columns of a key, and its value if *options* ask for it."""
        schema = super().schema_of(options)
        has_values = choice(options, "values", ("false", "true")) == "true"
        return schema.append(pa.field("value", pa.string())) if has_values else schema

    def units(self) -> Iterable[RdbUnit]:
        """The files of the path."""
        return [RdbUnit(file.path, file.size) for file in expand(self.paths, DUMPS)]

    def batches(self, unit: RdbUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        reader = RdbUnitReader(unit, check_crc=self.check_crc, memory=self.memory)
        if "value" in self.schema.names:
            with local_file(unit.path) as path:
                yield from self._rows_with_values(unit.path, replace(unit, path=path))
        else:
            for batch in self.until_damage(reader):
                yield self._rows(unit.path, self._wanted(reader, batch))

    def _wanted(self, reader: RdbUnitReader, batch: KeyBatch) -> KeyBatch:
        """The keys of *batch* that all conditions choose."""
        if self.filter is None:
            return batch
        rows = self.filter.rows(batch, reader.taken_at_ms, self.path)
        return batch.where(np.isin(np.arange(len(batch)), rows))

    def _rows(self, path: str, batch: KeyBatch, value: pa.Array | None = None) -> pa.RecordBatch:
        source = pa.array([path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
        columns = [*key_columns(batch), source, *([] if value is None else [value])]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _rows_with_values(self, source: str, dump: RdbUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a local *dump* that stands for *source*, with values."""
        reader = RdbUnitReader(dump, check_crc=self.check_crc, memory=self.memory)
        data = mapped_bytes(dump.path)
        for batch in self.until_damage(reader):
            wanted = self._wanted(reader, batch)
            head = reader.skimmer.head
            writer = ValueWriter(head, JSON, source=dump.path, permissive=self.permissive)
            numbers = np.maximum(np.cumsum(wanted.serialized_bytes) - 1, 0) // VALUE_BATCH_BYTES
            for number in np.unique(numbers):
                piece = wanted.where(numbers == number)
                texts = [_value_text(writer, data, piece, row) for row in range(len(piece))]
                yield self._rows(source, piece, pa.array(texts, pa.string()))


def _value_text(writer: ValueWriter, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> str | None:
    """Return the value of one key as `slotscope export` writes it; None for one that *writer* leaves out."""
    line = b"".join(writer.pieces(data, batch, np.array([row])))
    return line[line.index(VALUE_MARK) + len(VALUE_MARK) : -2].decode() if line else None


class RdbDataSource(UnitSource):
    """The source named ``redis-rdb``; see the module for its options."""

    format = "redis-rdb"
    reads = RdbReader


def _memory_settings(options: Mapping[str, str]) -> MemorySettings | None:
    if choice(options, "memory", ("true", "false")) == "false":
        return None
    allocator = choice(options, "allocator", ("auto", *ALLOCATORS))
    is_cluster, is_loaded = (choice(options, name, ("false", "true")) == "true" for name in ("cluster", "loaded"))
    server = choice(options, "server", ("", *LAYOUT_NAMES))
    return MemorySettings(allocator, is_cluster, is_loaded, server)


def read_dumps(spark: SparkSession, paths: Sequence[str], options: TallyOptions) -> DataFrame:
    """Every key that a server would load from the dumps at *paths*, as `schemas.bronze.KEY_ROWS`."""
    spark.dataSource.register(RdbDataSource)
    given: dict[str, str | bool | int] = {"mode": "permissive" if options.permissive else "strict"}
    memory = options.memory
    if memory is None:
        given["memory"] = False
    else:
        given |= {"allocator": memory.allocator, "cluster": memory.cluster, "loaded": memory.loaded}
        given["server"] = memory.server
    keys = spark.read.format(RdbDataSource.format).options(**given).load(list(paths))
    hollow = (F.coalesce(F.col("elements"), F.lit(1)) == 0) & F.col("type").isin("list", "set", "zset", "hash")
    loaded = keys.where(~hollow)  # servers drop collections without elements
    return loaded.mapInArrow(_with_texts, spark_schema(KEY_ROWS))


def _with_texts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows with their names as text, too."""
    for batch in batches:
        columns: list[pa.Array] = []
        for column in batch.columns:
            columns.append(column)
            if pa.types.is_binary(column.type):
                columns.append(key_texts(column))
        yield pa.RecordBatch.from_arrays(columns, schema=KEY_ROWS)


def _filter_of(options: Mapping[str, str]) -> KeyFilter | None:
    """Return the filter that *options* ask for, None for none; raises ConditionError for one that cannot be read."""
    asked: dict[str, Any] = {name: options[name] for name in CONDITIONS if name in options}
    asked |= {name: [asked[name]] for name in ("match", "prefix", "type", "db") if name in asked}
    return key_filter(**asked) if asked else None
