"""``spark.read.format("redis-rdb")``: RDB dumps of Redis and Valkey as rows.

    spark.dataSource.register(RdbDataSource)
    keys = spark.read.format("redis-rdb").load("dumps/*.rdb")                              # one row a key
    files = spark.read.format("redis-rdb").option("rows", "files").load("dumps/*.rdb")     # one row a file: aux fields and checks

Options: ``rows`` (``keys`` or ``files``); ``mode`` (``strict``: the first bad byte fails the query; ``permissive``: what stands before it is
returned, and ``rows=files`` tells the rest in ``error``); ``crc`` (``true``: check the file's CRC64); ``split`` (``true``: a large cluster
dump is read in ranges of slots, one task each); ``parallelism`` (tasks aimed at, default 2).

What the server's memory holds (columns ``memory_bytes`` and ``estimate``, docs/memory.md): ``memory`` (``true``), ``allocator`` (``auto``,
``jemalloc``, ``jemalloc-16``, ``libc``), ``cluster`` (``false``: whether the server ran in cluster mode), ``loaded`` (``false``: whether its keys are as it loaded them from a
file), ``list-compress-depth`` (default 0), ``server`` (``redis-8.0``: whose layout, whatever the dump says).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from cluster_core.errors import DecodeError
from cluster_core.memory.allocators import ALLOCATORS
from cluster_core.memory.layouts import LAYOUT_NAMES
from cluster_core.memory.model import MemorySettings
from schemas.bronze import RDB_SOURCE
from slotscope.sources.options import choice, refuse_unknown

if TYPE_CHECKING:
    from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader

FILES = StructType(
    [
        StructField("source", StringType(), nullable=False),
        StructField("keys", LongType(), nullable=False),
        StructField("file_bytes", LongType(), nullable=False),
        StructField("dialect", StringType()),
        StructField("version", LongType()),
        StructField("aux", MapType(StringType(), StringType()), nullable=False),
        StructField("trailing_bytes", LongType()),
        StructField("error", StringType()),
        StructField("error_offset", LongType()),
    ]
)
"""Schema of ``rows=files``."""

_MEMORY_OPTIONS = ("memory", "allocator", "cluster", "loaded", "list-compress-depth", "server")
_OPTIONS = {"path", "rows", "mode", "crc", "split", "parallelism", "paths", *_MEMORY_OPTIONS}


@dataclass
class RdbPartition(InputPartition):
    """One unit of work."""

    unit: RdbUnit


class RdbDataSource(DataSource):
    """The source named ``redis-rdb``; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "redis-rdb"

    def schema(self) -> StructType:
        """Return the schema of the rows asked for."""
        return FILES if choice(self.options, "rows", ("keys", "files")) == "files" else RDB_SOURCE

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of all partitions."""
        refuse_unknown(self.options, _OPTIONS, self.name())
        return RdbReader(dict(self.options))


class RdbReader(DataSourceReader):
    """Plans units on the driver, reads them in Python workers as Arrow batches."""

    def __init__(self, options: dict[str, str]) -> None:
        self.files_only = choice(options, "rows", ("keys", "files")) == "files"
        self.permissive = choice(options, "mode", ("strict", "permissive")) == "permissive"
        self.check_crc = choice(options, "crc", ("true", "false")) == "true"
        self.split = choice(options, "split", ("true", "false")) == "true" and not self.files_only
        self.parallelism = int(options.get("parallelism", "2"))
        self.path = options.get("path", "")
        self.memory = _memory_settings(options)

    def partitions(self) -> list[InputPartition]:
        """Return the units of work; raises DecodeError for a path that names nothing."""
        from slotscope.sources.files import expand
        from slotscope.sources.rdb.files import plan_units

        units = plan_units(expand([self.path]), parallelism=self.parallelism, split=self.split and not self.permissive)
        return [RdbPartition(unit) for unit in units]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        from slotscope.sources.rdb.files import RdbUnitReader

        assert isinstance(partition, RdbPartition)
        reader = RdbUnitReader(partition.unit, check_crc=self.check_crc, memory=self.memory)
        if self.files_only:
            yield _file_row(reader, permissive=self.permissive)
            return
        yield from _key_rows(reader, permissive=self.permissive)


def _memory_settings(options: dict[str, str]) -> MemorySettings | None:
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


def _key_rows(reader: RdbUnitReader, *, permissive: bool) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    from cluster_core.kernels.columns import key_columns

    schema = to_arrow_schema(RDB_SOURCE)
    try:
        for batch in reader:
            source = pa.array([reader.unit.path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
            yield pa.RecordBatch.from_arrays([*key_columns(batch), source], schema=schema)
    except DecodeError:
        if not permissive:
            raise


def _file_row(reader: RdbUnitReader, *, permissive: bool) -> pa.RecordBatch:
    from pyspark.sql.pandas.types import to_arrow_schema

    error: DecodeError | None = None
    try:
        for _ in reader:
            pass
    except DecodeError as caught:
        if not permissive:
            raise
        error = caught
    skimmer, head = reader.skimmer, reader.head
    row = {
        "source": reader.unit.path,
        "keys": skimmer.keys,
        "file_bytes": reader.unit.size,
        "dialect": head.dialect if head else None,
        "version": head.version if head else None,
        "aux": list(reader.facts.items()),
        "trailing_bytes": reader.trailing_bytes,
        "error": error.reason if error else None,
        "error_offset": error.offset if error else None,
    }
    return pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(FILES))
