"""``spark.read.format("redis-aof")``: the commands of append-only logs as rows.

    spark.dataSource.register(AofDataSource)
    commands = spark.read.format("redis-aof").load("data/appendonlydir")                           # one row a command

A path is a folder with a manifest, a manifest, or a single log; several as a list.  Keys of an
RDB base are no commands: read the base with ``redis-rdb``.  Options: ``mode`` (``strict``: the first bad byte fails the query;
``permissive``: the commands before it are returned);
``load_truncated`` (``true``: a last file that a crash has cut ends there, as with the server's ``aof-load-truncated yes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import pyarrow as pa

from cluster_core.kernels.aof.walker import CommandBatch, command_columns
from schemas.aof import AOF_SOURCE
from slotscope.sources.aof.files import AofUnit, AofUnitReader, find_logs, plan_units
from slotscope.sources.data_source import UnitReader, UnitSource, choice


class AofReader(UnitReader):
    """Reads files of logs."""

    schemas: ClassVar = {"commands": AOF_SOURCE}
    known = frozenset({"load_truncated"})

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.load_truncated = choice(options, "load_truncated", ("true", "false")) == "true"

    def units(self) -> Iterable[AofUnit]:
        """Find the files of the logs; raises DecodeError, also for a manifest that names a missing file."""
        return plan_units(find_logs(self.paths))

    def batches(self, unit: AofUnit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        reader, schema = AofUnitReader(unit, load_truncated=self.load_truncated), self.schema
        for batch in self.until_damage(_commands(reader)):
            source = pa.array([unit.path], pa.string()).take(pa.array([0] * len(batch), pa.int8()))
            columns = [*command_columns(batch, reader.names), source]
            arrays = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class AofDataSource(UnitSource):
    """The source named ``redis-aof``; see the module for its options."""

    format = "redis-aof"
    reads = AofReader


def _commands(reader: AofUnitReader) -> Iterator[CommandBatch]:
    """The commands behind a preamble, which is passed over."""
    for _ in reader.preamble():
        pass
    yield from reader
