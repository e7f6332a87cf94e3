"""``spark.read.format("cluster-bus")``: captures of the cluster bus as rows.

    spark.dataSource.register(ClusterBusDataSource)
    messages = spark.read.format("cluster-bus").load("bus.pcap*")                            # one row a message
    gossip = spark.read.format("cluster-bus").option("rows", "gossip").load("bus.pcap*")     # one row a gossip entry
    lost = spark.read.format("cluster-bus").option("rows", "bad").load("bus.pcap*")          # what was not understood

Files of a path are one series: rotated ones follow each other, captures of one time are merged.  pcap and pcapng,
plain, gzip or zstd.  Options: ``rows`` (``messages``, ``gossip``, ``bad``); ``mode`` (``strict``: damage fails the
query; ``permissive``: what can be read is returned, ``rows=bad`` tells the rest).  One task reads a series.
``bitmap_id`` is made of the slots: equal in all captures where these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import pyarrow as pa

from schemas.bronze import BAD_RECORDS
from schemas.history import GOSSIP_FIELDS, MESSAGE_FIELDS
from slotscope.sources.bus.files import CaptureFile, find_captures, survey
from slotscope.sources.bus.series import read_series
from slotscope.sources.data_source import UnitReader, UnitSource

_BAD = pa.schema([field for field in BAD_RECORDS.schema if field.name not in (*BAD_RECORDS.labels, "job")])
_Unit = tuple[CaptureFile, ...]


class ClusterBusReader(UnitReader):
    """Decodes a series of captures of the bus."""

    schemas: ClassVar = {"messages": pa.schema(MESSAGE_FIELDS), "gossip": pa.schema(GOSSIP_FIELDS), "bad": _BAD}

    known = frozenset()

    def units(self) -> Iterable[_Unit]:
        """The series; raises DecodeError for a path that names nothing."""
        return [tuple(survey(find_captures([self.path])))]

    def batches(self, unit: _Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series; raises DecodeError in strict mode."""
        schema = self.schema
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
