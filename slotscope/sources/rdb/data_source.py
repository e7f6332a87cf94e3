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

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.columns import key_columns
from cluster_core.memory.allocators import ALLOCATORS
from cluster_core.memory.layouts import LAYOUT_NAMES
from cluster_core.memory.model import MemorySettings
from schemas.bronze import RDB_SOURCE
from slotscope.sources.data_source import ERROR_COLUMNS, UnitReader, UnitSource, choice
from slotscope.sources.files import expand
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader, plan_units

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
        ["crc", "split", "parallelism", "memory", "allocator", "cluster", "loaded", "list-compress-depth", "server"]
    )

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.check_crc = choice(options, "crc", ("true", "false")) == "true"
        self.memory = _memory_settings(options)

    def units(self) -> Iterable[RdbUnit]:
        """The files of the path, large ones in ranges."""
        split = self.split and not self.permissive
        return plan_units(expand([self.path]), parallelism=self.parallelism, split=split)

    def batches(self, unit: RdbUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        reader, schema = RdbUnitReader(unit, check_crc=self.check_crc, memory=self.memory), self.arrow_schema()
        if self.rows == "files":
            row = self._file_row(reader)
            yield pa.RecordBatch.from_pylist([row], schema=schema)
            return
        for batch in self.until_damage(reader):
            source = pa.array([unit.path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
            yield pa.RecordBatch.from_arrays([*key_columns(batch), source], schema=schema)

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


class RdbDataSource(UnitSource):
    """The source named ``redis-rdb``; see the module for its options."""

    format = "redis-rdb"
    reads = RdbReader


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
