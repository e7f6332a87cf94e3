"""One unit of a dump, written out as one part: chosen keys with their values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.columns import key_columns
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.key_filter import KeyFilter
from cluster_core.kernels.values.columns import ValueColumns, value_type
from cluster_core.kernels.values.release import Release
from cluster_core.kernels.values.state import CSV, JSON, RESP
from cluster_core.kernels.values.writer import ValueWriter
from schemas.bronze import RDB_SOURCE
from slotscope.runtime.errors import InputError
from slotscope.sources.aof.state import AofStateUnit
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.values.plain_bytes import local_file, mapped_bytes
from slotscope.sources.values.replayed import replayed_dump

PARQUET = -1
"""The style of Parquet, which is made of columns."""
HEADS = {CSV: b"db,key,type,expire_at_ms,name,value,field_expire_at_ms\r\n"}
"""What a file begins with."""
STYLES = {"json": JSON, "csv": CSV, "resp": RESP, "parquet": PARQUET, "delta": PARQUET}
COLUMNS = pa.schema(
    [
        *(field for field in RDB_SOURCE if field.name not in ("memory_bytes", "estimate")),
        pa.field(
            "value",
            value_type(),
            metadata={"comment": "what the key holds: a field for each kind of value, the others null"},
        ),
    ]
)
"""Columns of Parquet and Delta."""
PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "write_statistics": [
        field.name for field in COLUMNS if pa.types.is_integer(field.type)
    ],  # others tell readers nothing
}


@dataclass(slots=True)
class PartFacts:
    """What one part holds, and what it leaves out: *left_out* counts values by type and reason, *hollow* keys without elements."""

    source: str
    keys: int = 0
    seen: int = 0
    not_text: int = 0
    hollow: int = 0
    functions: int = 0
    idle_known: int = 0
    freq_known: int = 0
    bytes: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    bad: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be written, and how: *keys_max* of the keys that *filter* chooses, for a server of *release* if as commands."""

    filter: KeyFilter
    style: int
    release: Release
    permissive: bool = False
    check_crc: bool = True
    keys_max: int | None = None


class PartReader:
    """Iterate over (bytes of the file, batch, chosen rows) of a *dump*, which stands for *source*; *facts* grow meanwhile.

    Raises DecodeError with path, offset and reason at the first byte that is wrong unless the request is permissive; InputError if times to
    live are asked of a dump that does not say when it was taken.
    """

    def __init__(self, source: str, dump: RdbUnit, wanted: Wanted) -> None:
        self.facts = PartFacts(source)
        self.reader = RdbUnitReader(dump, check_crc=wanted.check_crc)
        self._wanted = wanted
        self._data = mapped_bytes(dump.path)

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], KeyBatch, NDArray[np.int64]]]:
        facts, wanted = self.facts, self._wanted
        left = wanted.keys_max
        try:
            for batch in self.reader:
                facts.seen += len(batch)
                facts.idle_known += int((batch.idle_s != NONE).sum())
                facts.freq_known += int((batch.freq != NONE).sum())
                rows = wanted.filter.rows(batch, self._taken_at_ms())
                hollow = batch.hollow()[rows]
                facts.hollow += int(hollow.sum())
                rows = rows[~hollow][:left]
                left = None if left is None else left - len(rows)
                yield self._data, batch, rows
                if left == 0:
                    break
        except DecodeError as error:
            if not wanted.permissive:
                raise
            facts.bad = {"offset": error.offset, "reason": error.reason}
        facts.functions = self.reader.skimmer.function_count

    def _taken_at_ms(self) -> int | None:
        if self._wanted.filter.ttl is None:
            return None
        if self.reader.taken_at_ms is None:
            raise InputError(
                f"{self.facts.source}: the dump does not say when it was taken (ctime): --ttl cannot be told"
            )
        return self.reader.taken_at_ms


Source = RdbUnit | AofStateUnit
"""A dump, or a range of one; a log, of which the state is written that it leaves."""


@contextmanager
def _local_dump(unit: Source, folder: str | None) -> Iterator[tuple[RdbUnit, dict[str, int]]]:
    """Give *unit* as a local dump, and count the keys that are not in it by reason; copies are in *folder*, and gone afterwards."""
    if isinstance(unit, AofStateUnit):
        with replayed_dump(unit, folder) as (path, left_out):
            yield RdbUnit(path, os.path.getsize(path)), dict(left_out)
    else:
        with local_file(unit.path, folder) as path:
            yield replace(unit, path=path), {}


def write_part(unit: Source, wanted: Wanted, out: IO[bytes], *, folder: str | None = None) -> PartFacts:
    """Write the wanted keys of *unit* to *out* as text or commands; *folder* is for copies of what is not a local file.

    Raises DecodeError, EncodeError and InputError.
    """
    with _local_dump(unit, folder) as (dump, left_out):
        parts = PartReader(unit.path, dump, wanted)
        writer: ValueWriter | None = None
        for data, batch, rows in parts:
            if writer is None:
                writer = ValueWriter(
                    parts.reader.skimmer.head,
                    wanted.style,
                    source=unit.path,
                    release=wanted.release,
                    permissive=wanted.permissive,
                )
            for piece in writer.pieces(data, batch, rows):
                parts.facts.bytes += len(piece)
                out.write(piece)
    facts = parts.facts
    if writer is not None:
        facts.keys, facts.not_text = writer.keys, writer.not_text
        left_out |= writer.left_out
    facts.left_out = left_out
    return facts


def write_columns(unit: Source, wanted: Wanted, out: str, *, folder: str | None = None) -> PartFacts:
    """Write the wanted keys of *unit* to the Parquet file *out*, otherwise like `write_part`; a value that cannot be read is null if that is permissive."""
    with _local_dump(unit, folder) as (dump, left_out), pq.ParquetWriter(out, COLUMNS, **PARQUET_OPTIONS) as file:
        parts, unread = PartReader(unit.path, dump, wanted), 0
        facts = parts.facts
        for data, batch, rows in parts:
            chosen = np.zeros(len(batch), np.bool_)
            chosen[rows] = True
            maker = ValueColumns(parts.reader.skimmer.head, source=dump.path, permissive=wanted.permissive)
            for piece in maker.pieces(batch.where(chosen)):
                source = pa.repeat(pa.scalar(unit.path), len(piece))
                columns = dict(zip(RDB_SOURCE.names, [*key_columns(piece), source], strict=True))
                columns["value"] = maker.array(data, piece)
                file.write_batch(pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS.names], schema=COLUMNS))
                facts.keys += len(piece)
            unread += maker.unread
    facts.bytes = os.path.getsize(out)
    facts.left_out = left_out
    if unread:
        facts.left_out["value that is not what its header says: null"] = unread
    return facts
