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
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructType

from schemas.replication import RESP_FIELDS
from schemas.table import required
from slotscope.sources.bus.capture_reader import BAD, OPTIONS, CaptureReader, SeriesPartition
from slotscope.sources.options import choice, refuse_unknown

SCHEMAS = {
    "values": StructType([*RESP_FIELDS, required("file", StringType(), "capture file in which it ended")]),
    "bad": BAD,
}
ROWS_PER_BATCH: Final = 5_000


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
        refuse_unknown(self.options, OPTIONS, self.name())
        return RespStreamReader(dict(self.options))


class RespStreamReader(CaptureReader):
    """Decodes a series as Arrow batches."""

    schemas = SCHEMAS

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, SeriesPartition)
        schema = to_arrow_schema(SCHEMAS[self.rows], timezone="UTC")
        for rows in self._batches(partition):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _batches(self, partition: SeriesPartition) -> Iterator[list[dict[str, Any]]]:
        from slotscope.sources.resp.rows import BadRecords, resp_rows, value_of

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
