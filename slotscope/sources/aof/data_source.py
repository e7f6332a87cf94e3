"""``spark.read.format("redis-aof")``: the commands of append-only logs as rows.

    spark.dataSource.register(AofDataSource)
    commands = spark.read.format("redis-aof").load("data/appendonlydir")                           # one row a command
    files = spark.read.format("redis-aof").option("rows", "files").load("data/appendonlydir")      # one row a file: how it ends

A path is a folder with a manifest, a manifest, or a single log; several with option ``paths`` (separated by commas).  Keys of an
RDB base are no commands: read the base with ``redis-rdb``.  Options: ``rows`` (``commands`` or ``files``); ``mode`` (``strict``: the
first bad byte fails the query; ``permissive``: what stands before it is returned, and ``rows=files`` tells the rest in ``error``);
``load_truncated`` (``true``: a last file that a crash has cut ends there, as with the server's ``aof-load-truncated yes``);
``split`` (``true``: a large file is read in ranges, one task each; a row's ``db`` is null before the first SELECT of a range);
``parallelism`` (tasks aimed at, default 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cluster_core.errors import DecodeError
from schemas.aof import AOF_SOURCE
from slotscope.sources.options import choice, refuse_unknown

if TYPE_CHECKING:
    from slotscope.sources.aof.files import AofUnit, AofUnitReader

FILES = StructType(
    [
        StructField("source", StringType(), nullable=False),
        StructField("role", StringType(), nullable=False),
        StructField("file_bytes", LongType(), nullable=False),
        StructField("commands", LongType(), nullable=False),
        StructField("commands_at", LongType(), nullable=False),
        StructField("loaded_end", LongType()),
        StructField("cut", StringType()),
        StructField("error", StringType()),
        StructField("error_offset", LongType()),
    ]
)
"""Schema of ``rows=files``: where commands begin (after an RDB preamble), up to where a server loads the file, and why not further."""

_OPTIONS = {"path", "paths", "rows", "mode", "load_truncated", "split", "parallelism"}


@dataclass
class AofPartition(InputPartition):
    """One unit of work."""

    unit: AofUnit


class AofDataSource(DataSource):
    """The source named ``redis-aof``; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "redis-aof"

    def schema(self) -> StructType:
        """Return the schema of the rows asked for."""
        return FILES if choice(self.options, "rows", ("commands", "files")) == "files" else AOF_SOURCE

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of all partitions."""
        refuse_unknown(self.options, _OPTIONS, self.name())
        return AofReader(dict(self.options))


class AofReader(DataSourceReader):
    """Plans units on the driver, reads them in Python workers as Arrow batches."""

    def __init__(self, options: dict[str, str]) -> None:
        self.files_only = choice(options, "rows", ("commands", "files")) == "files"
        self.permissive = choice(options, "mode", ("strict", "permissive")) == "permissive"
        self.load_truncated = choice(options, "load_truncated", ("true", "false")) == "true"
        self.split = choice(options, "split", ("true", "false")) == "true" and not self.files_only
        self.parallelism = int(options.get("parallelism", "2"))
        self.paths = [path for path in options.get("path", options.get("paths", "")).split(",") if path]

    def partitions(self) -> list[InputPartition]:
        """Return the units of work; raises DecodeError for a path that names nothing, or a manifest that names what is not there."""
        from slotscope.sources.aof.files import find_logs, plan_units

        split = self.split and not self.permissive
        return [
            AofPartition(unit) for unit in plan_units(find_logs(self.paths), parallelism=self.parallelism, split=split)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        from slotscope.sources.aof.files import AofUnitReader

        assert isinstance(partition, AofPartition)
        reader = AofUnitReader(partition.unit, load_truncated=self.load_truncated)
        if self.files_only:
            yield _file_row(reader, permissive=self.permissive)
            return
        yield from _command_rows(reader, permissive=self.permissive)


def _command_rows(reader: AofUnitReader, *, permissive: bool) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    from cluster_core.kernels.aof.command_columns import command_columns

    schema = to_arrow_schema(AOF_SOURCE, timezone="UTC")
    try:
        for _ in reader.preamble():
            pass
        for batch in reader:
            source = pa.array([reader.unit.path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
            columns = [*command_columns(batch, reader.names), source]
            arrays = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except DecodeError:
        if not permissive:
            raise


def _file_row(reader: AofUnitReader, *, permissive: bool) -> pa.RecordBatch:
    from pyspark.sql.pandas.types import to_arrow_schema

    error: DecodeError | None = None
    try:
        for _ in reader.preamble():
            pass
        for _ in reader:
            pass
    except DecodeError as caught:
        if not permissive:
            raise
        error = caught
    walker = reader.walker
    row = {
        "source": reader.unit.path,
        "role": reader.unit.role,
        "file_bytes": reader.unit.size,
        "commands": walker.commands if walker else 0,
        "commands_at": reader.commands_at,
        "loaded_end": (walker.tail.loaded_end if error is None else walker.valid_end) if walker else None,
        "cut": reader.cut.reason() if reader.cut else None,
        "error": error.reason if error else None,
        "error_offset": error.offset if error else None,
    }
    return pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(FILES))
