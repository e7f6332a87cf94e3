"""``spark.read.format("resp-stream")``: captures of client ports as rows, one a command, reply or piece of a stream.

    spark.dataSource.register(RespStreamDataSource)
    said = spark.read.format("resp-stream").load("clients.pcap*")                            # one row a value
    lost = spark.read.format("resp-stream").option("rows", "bad").load("clients.pcap*")      # what was not understood

Files of a path are one series: rotated ones follow each other, captures of one time are merged.  pcap and pcapng, plain,
gzip or zstd.  Long strings are cut; dumps inside replication streams are skipped.  Options: ``rows`` (``values``,
``bad``); ``mode`` (``strict``: damage of a file fails the query; ``permissive``: what can be read is returned).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructType

from cluster_core.errors import DecodeError
from jobs.sources.cluster_bus import BAD
from jobs.sources.options import choice
from schemas.replication import RESP_FIELDS
from schemas.table import required

if TYPE_CHECKING:
    from jobs.sources.bus_files import CaptureFile

SCHEMAS = {
    "values": StructType([*RESP_FIELDS, required("file", StringType(), "capture file in which it ended")]),
    "bad": BAD,
}
ROWS_PER_BATCH: Final = 5_000
_OPTIONS = {"path", "paths", "rows", "mode"}


@dataclass
class SeriesPartition(InputPartition):
    """One series of files."""

    files: tuple[CaptureFile, ...]


class RespStreamDataSource(DataSource):
    """The source named ``resp-stream``; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "resp-stream"

    def schema(self) -> StructType:
        """Return the schema of the rows asked for."""
        return SCHEMAS[choice(self.options, "rows", tuple(SCHEMAS))]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of all partitions."""
        unknown = sorted(set(self.options) - _OPTIONS)
        if unknown:
            raise DecodeError(f"no option {unknown[0]!r} of resp-stream", offset=0, source=self.options.get("path", ""))
        return RespStreamReader(dict(self.options))


class RespStreamReader(DataSourceReader):
    """Finds the files on the driver, decodes a series in one Python worker as Arrow batches."""

    def __init__(self, options: dict[str, str]) -> None:
        self.rows = choice(options, "rows", tuple(SCHEMAS))
        self.permissive = choice(options, "mode", ("strict", "permissive")) == "permissive"
        self.path = options.get("path", "")

    def partitions(self) -> list[InputPartition]:
        """Return the series; raises DecodeError for a path that names nothing."""
        from jobs.sources.bus_files import find_captures, survey

        return [SeriesPartition(tuple(survey(find_captures([self.path]))))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, SeriesPartition)
        schema = to_arrow_schema(SCHEMAS[self.rows], timezone="UTC")
        for rows in self._batches(partition):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _batches(self, partition: SeriesPartition) -> Iterator[list[dict[str, Any]]]:
        from jobs.sources.resp_rows import BadRecords, resp_rows, value_of

        bad, rows, number = BadRecords(strict=not self.permissive), [], 0
        for file, row in resp_rows(partition.files, bad):
            value = value_of(row) if self.rows == "values" else None
            if value is None:
                continue
            rows.append({"value_id": number, "ts": value["ts_ns"] // 1000, "file": file, **value})
            number += 1
            if len(rows) == ROWS_PER_BATCH:
                yield rows
                rows = []
        yield bad.listed if self.rows == "bad" else rows
