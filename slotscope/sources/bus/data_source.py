"""``spark.read.format("cluster-bus")``: captures of the cluster bus as rows.

    spark.dataSource.register(ClusterBusDataSource)
    messages = spark.read.format("cluster-bus").load("bus.pcap*")                            # one row a message
    gossip = spark.read.format("cluster-bus").option("rows", "gossip").load("bus.pcap*")     # one row a gossip entry
    lost = spark.read.format("cluster-bus").option("rows", "bad").load("bus.pcap*")          # what was not understood

Files of a path are one series: rotated ones follow each other, captures of one time are merged.  pcap and pcapng,
plain, gzip or zstd.  Options: ``rows`` (``messages``, ``gossip``, ``bad``); ``mode`` (``strict``: damage fails the
query; ``permissive``: what can be read is returned, ``rows=bad`` tells the rest); ``split`` (default ``true``: a large
series of pcap files, plain or zstd, on this machine, is read by several tasks, each for its part of the connections);
``parallelism`` (those tasks, default 2).  All rows, numbers and times are those of one task; ``message_id`` gives their
order back.  ``bitmap_id`` is made of the slots: equal in all captures where these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import pyarrow as pa

from cluster_core.kernels.bus.follower import Share
from schemas.bronze import BAD_RECORDS
from schemas.history import GOSSIP_FIELDS, MESSAGE_FIELDS
from slotscope.sources.bus.files import CaptureFile, find_captures, is_splittable, survey
from slotscope.sources.bus.series import read_series
from slotscope.sources.data_source import UnitReader, UnitSource

_BAD = pa.schema([field for field in BAD_RECORDS.schema if field.name not in (*BAD_RECORDS.labels, "job")])
_Unit = tuple[tuple[CaptureFile, ...], Share | None]


class ClusterBusReader(UnitReader):
    """Decodes a series of captures of the bus."""

    schemas: ClassVar = {"messages": pa.schema(MESSAGE_FIELDS), "gossip": pa.schema(GOSSIP_FIELDS), "bad": _BAD}

    known = frozenset({"split", "parallelism"})

    def units(self) -> Iterable[_Unit]:
        """The series, in shares of its connections where that pays; raises DecodeError for a path that names nothing."""
        files = tuple(survey(find_captures([self.path])))
        of = self.parallelism if self.split and self.rows != "bad" and is_splittable(files) else 1
        return [(files, Share(at, of) if of > 1 else None) for at in range(of)]

    def batches(self, unit: _Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one series or share; raises DecodeError in strict mode."""
        files, share = unit
        schema = self.arrow_schema()
        for columns in read_series(files, self.rows, permissive=self.permissive, share=share):
            arrays = [
                columns[name] if columns[name].type == kind else columns[name].cast(kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class ClusterBusDataSource(UnitSource):
    """The source named ``cluster-bus``; see the module for its options."""

    format = "cluster-bus"
    reads = ClusterBusReader
