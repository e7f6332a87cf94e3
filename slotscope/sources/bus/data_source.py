"""``spark.read.format("cluster-bus")``: captures of the cluster bus as rows.

    spark.dataSource.register(ClusterBusDataSource)
    messages = spark.read.format("cluster-bus").load("bus.pcap*")                            # one row a message
    gossip = spark.read.format("cluster-bus").option("rows", "gossip").load("bus.pcap*")     # one row a gossip entry
    lost = spark.read.format("cluster-bus").option("rows", "bad").load("bus.pcap*")          # unreadable parts

Files of a path are one series: rotated ones follow each other, captures of one time are merged.  pcap and pcapng,
plain, gzip or zstd.  Options: ``rows`` (``messages``, ``gossip``, ``bad``); ``mode`` (``strict``: damage fails the
query; ``permissive``: readable rows are returned, ``rows=bad`` lists the rest).  One task reads a series.
``bitmap_id`` is made of the slots: equal in all captures where these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.columns import gossip_columns, message_columns
from cluster_core.kernels.bus.decoder import BusDecoder
from schemas.bronze import BAD_RECORDS
from schemas.history import GOSSIP_FIELDS, MESSAGE_FIELDS
from slotscope.sources.bus.files import CaptureFile, find_captures, measure_clocks, survey
from slotscope.sources.bus.point_series import PointSeries, SeriesState
from slotscope.sources.bus.sightings import BadRows, BatchTexts, files_of, used_bitmaps
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


def bitmap_digests(batch: BusBatch) -> NDArray[np.int64]:
    """Return a number of each of the batch's bitmaps, derived from its slots alone: equal in all tasks."""
    ids = np.full(len(batch.bitmaps), -1, dtype=np.int64)
    for number in used_bitmaps(batch)[1]:
        digest = blake2b(batch.bitmap(number), digest_size=8).digest()
        ids[number] = int.from_bytes(digest, "little") >> 1
    return ids


def read_series(files: Sequence[CaptureFile], rows: str, *, permissive: bool) -> Iterator[dict[str, pa.Array]]:
    """Columns of ``messages``, ``gossip`` or ``bad`` *rows* of a series; raises DecodeError in strict mode."""
    decoder, bad, tables = BusDecoder(), BadRows(strict=not permissive), BatchTexts()
    first_id, ahead_ns = 0, dict[str, int]()
    measure_clocks(files, ahead_ns, [], is_all=True)
    series = PointSeries(files, SeriesState(), ahead_ns)
    for batch in series.all_of(decoder):
        bad.take(series.place, batch, first_id)
        if len(batch) and rows != "bad":
            nodes, texts, addresses = tables.of(batch)
            if rows == "gossip":
                yield gossip_columns(batch, first_id=first_id, nodes=nodes, texts=texts)
            else:
                ids, file = bitmap_digests(batch), files_of(batch, series.place)
                yield message_columns(
                    batch, first_id=first_id, bitmap_ids=ids, file=file, nodes=nodes, texts=texts, addresses=addresses
                )
        first_id += len(batch)
    if rows == "bad" and bad.rows():
        table = pa.Table.from_pylist(bad.rows())
        yield {name: table.column(name).combine_chunks() for name in table.schema.names}
