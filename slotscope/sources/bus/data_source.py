"""``spark.read.format("cluster-bus")``: captures of the cluster bus as rows.

    spark.dataSource.register(ClusterBusDataSource)
    messages = spark.read.format("cluster-bus").load("bus.pcap*")                            # one row a message
    gossip = spark.read.format("cluster-bus").option("rows", "gossip").load("bus.pcap*")     # one row a gossip entry
    lost = spark.read.format("cluster-bus").option("rows", "bad").load("bus.pcap*")          # what was not understood

Files of a path are one series: rotated ones follow each other, captures of one time are merged.  pcap, pcapng and JSON
lines, plain, gzip or zstd.  Options: ``rows`` (``messages``, ``gossip``, ``bad``); ``mode`` (``strict``: damage fails the
query; ``permissive``: what can be read is returned, ``rows=bad`` tells the rest).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from schemas.history import GOSSIP_FIELDS, MESSAGE_FIELDS
from slotscope.sources.bus.capture_reader import BAD, CaptureReader
from slotscope.sources.bus.files import CaptureFile
from slotscope.sources.bus.series import read_series
from slotscope.sources.data_source import UnitSource


class ClusterBusReader(CaptureReader):
    """Decodes a series of captures of the bus."""

    schemas: ClassVar = {"messages": pa.schema(MESSAGE_FIELDS), "gossip": pa.schema(GOSSIP_FIELDS), "bad": BAD}

    def batches(self, unit: tuple[CaptureFile, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        schema = self.arrow_schema()
        for columns in read_series(unit, self.rows, permissive=self.permissive):
            arrays = [
                columns[name] if columns[name].type == kind else columns[name].cast(kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class ClusterBusDataSource(UnitSource):
    """The source named ``cluster-bus``; see the module for its options."""

    format = "cluster-bus"
    reads = ClusterBusReader
