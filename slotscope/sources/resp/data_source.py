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
from typing import Any, ClassVar, Final

import pyarrow as pa

from schemas.replication import RESP_FIELDS
from schemas.table import required
from slotscope.sources.bus.capture_reader import BAD, CaptureReader
from slotscope.sources.bus.files import CaptureFile
from slotscope.sources.data_source import UnitSource
from slotscope.sources.resp.rows import BadRecords, resp_rows, value_of

VALUES = pa.schema([*RESP_FIELDS, required("file", pa.string(), "capture file in which it ended")])
ROWS_PER_BATCH: Final = 5_000


class RespStreamReader(CaptureReader):
    """Decodes a series of captures of client ports."""

    schemas: ClassVar = {"values": VALUES, "bad": BAD}

    def batches(self, unit: tuple[CaptureFile, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        schema = self.arrow_schema()
        for rows in self._pieces(unit):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _pieces(self, files: tuple[CaptureFile, ...]) -> Iterator[list[dict[str, Any]]]:
        bad, rows, number = BadRecords(strict=not self.permissive), [], 0
        for file, row in resp_rows(files, bad):
            value = value_of(row) if self.rows == "values" else None
            if value is None:
                continue
            rows.append({"value_id": number, "ts": value["ts_ns"] // 1000, "file": file, **value})
            number += 1
            if len(rows) == ROWS_PER_BATCH:
                yield rows
                rows = []
        yield bad.listed if self.rows == "bad" else rows


class RespStreamDataSource(UnitSource):
    """The source named ``resp-stream``; see the module for its options."""

    format = "resp-stream"
    reads = RespStreamReader
