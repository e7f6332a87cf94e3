"""``spark.read.format("redis-aof")``: the commands of append-only logs as rows.

    spark.dataSource.register(AofDataSource)
    commands = spark.read.format("redis-aof").load("data/appendonlydir")                           # one row a command
    files = spark.read.format("redis-aof").option("rows", "files").load("data/appendonlydir")      # one row a file: how it ends

A path is a folder with a manifest, a manifest, or a single log; several as a list.  Keys of an
RDB base are no commands: read the base with ``redis-rdb``.  Options: ``rows`` (``commands`` or ``files``); ``mode`` (``strict``: the
first bad byte fails the query; ``permissive``: what stands before it is returned, and ``rows=files`` tells the rest in ``error``);
``load_truncated`` (``true``: a last file that a crash has cut ends there, as with the server's ``aof-load-truncated yes``);
``split`` (``true``: a large file is read in ranges, one task each; a row's ``db`` is null before the first SELECT of a range);
``parallelism`` (tasks aimed at, default 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import pyarrow as pa

from cluster_core.kernels.aof.walker import CommandBatch, command_columns
from schemas.aof import AOF_SOURCE
from slotscope.sources.aof.files import AofUnit, AofUnitReader, find_logs, plan_units
from slotscope.sources.data_source import ERROR_COLUMNS, UnitReader, UnitSource, choice

FILES = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("file_bytes", pa.int64(), nullable=False),
        pa.field("commands", pa.int64(), nullable=False),
        pa.field("commands_at", pa.int64(), nullable=False),
        pa.field("loaded_end", pa.int64()),
        pa.field("cut", pa.string()),
        *ERROR_COLUMNS,
    ]
)
"""Schema of ``rows=files``: where commands begin (after an RDB preamble), up to where a server loads the file, and why not further."""


class AofReader(UnitReader):
    """Reads files of logs, or ranges of them."""

    schemas: ClassVar = {"commands": AOF_SOURCE, "files": FILES}
    known = frozenset({"load_truncated", "split", "parallelism"})

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.load_truncated = choice(options, "load_truncated", ("true", "false")) == "true"

    def units(self) -> Iterable[AofUnit]:
        """The files of the logs, large ones in ranges; raises DecodeError also for a manifest that names what is not there."""
        split = self.split and not self.permissive
        return plan_units(find_logs(self.paths), parallelism=self.parallelism, split=split)

    def batches(self, unit: AofUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        reader, schema = AofUnitReader(unit, load_truncated=self.load_truncated), self.arrow_schema()
        if self.rows == "files":
            yield pa.RecordBatch.from_pylist([self._file_row(reader)], schema=schema)
            return
        for batch in self.until_damage(_commands(reader)):
            source = pa.array([unit.path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
            columns = [*command_columns(batch, reader.names), source]
            arrays = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _file_row(self, reader: AofUnitReader) -> dict[str, object]:
        damage = self.damage_of(_commands(reader))
        walker = reader.walker
        loaded_end = None
        if walker is not None:
            loaded_end = walker.tail.loaded_end if damage["error"] is None else walker.valid_end
        return {
            "source": reader.unit.path,
            "role": reader.unit.role,
            "file_bytes": reader.unit.size,
            "commands": walker.commands if walker else 0,
            "commands_at": reader.commands_at,
            "loaded_end": loaded_end,
            "cut": reader.cut.reason() if reader.cut else None,
            **damage,
        }


class AofDataSource(UnitSource):
    """The source named ``redis-aof``; see the module for its options."""

    format = "redis-aof"
    reads = AofReader


def _commands(reader: AofUnitReader) -> Iterator[CommandBatch]:
    """The commands behind a preamble, which is passed over."""
    for _ in reader.preamble():
        pass
    yield from reader
