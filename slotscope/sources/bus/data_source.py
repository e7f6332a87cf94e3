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

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from schemas.history import GOSSIP_FIELDS, MESSAGE_FIELDS
from slotscope.sources.bus.capture_reader import BAD, OPTIONS, CaptureReader, SeriesPartition
from slotscope.sources.options import choice, refuse_unknown

SCHEMAS = {"messages": StructType(MESSAGE_FIELDS), "gossip": StructType(GOSSIP_FIELDS), "bad": BAD}


class ClusterBusDataSource(DataSource):
    """The source named ``cluster-bus``; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "cluster-bus"

    def schema(self) -> StructType:
        """Return the schema of the rows asked for."""
        return SCHEMAS[choice(self.options, "rows", tuple(SCHEMAS))]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of all partitions."""
        refuse_unknown(self.options, OPTIONS, self.name())
        return ClusterBusReader(dict(self.options))


class ClusterBusReader(CaptureReader):
    """Decodes a series as Arrow batches."""

    schemas = SCHEMAS

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from slotscope.sources.bus.series import read_series

        assert isinstance(partition, SeriesPartition)
        schema = to_arrow_schema(SCHEMAS[self.rows], timezone="UTC")
        for columns in read_series(partition.files, self.rows, permissive=self.permissive):
            arrays = [
                columns[name] if columns[name].type == kind else columns[name].cast(kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
