"""One unit of a dump, written out as one file of Parquet: chosen keys with their values as columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cluster_core.kernels.key_batch import key_columns
from cluster_core.rdb.value_columns import ValueColumns, value_type
from schemas.bronze import RDB_SOURCE
from slotscope.sources.rdb.files import RdbUnit
from slotscope.sources.values.part import PartFacts, PartReader, Wanted, local_dump

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
_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "write_statistics": [
        field.name for field in COLUMNS if pa.types.is_integer(field.type)
    ],  # others tell readers nothing
}


def write_columns(unit: RdbUnit, wanted: Wanted, out: str, *, folder: str | None = None) -> PartFacts:
    """Write the wanted keys of *unit* to the Parquet file *out*, otherwise like `part.write_part`; a value that cannot be read is null if that is permissive."""
    with local_dump(unit, folder) as dump, pq.ParquetWriter(out, COLUMNS, **_OPTIONS) as file:
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
    if unread:
        facts.left_out["value that is not what its header says: null"] = unread
    return facts


def join_columns(parts: Sequence[str], whole: str) -> None:
    """Put the files *parts* behind each other into one."""
    with pq.ParquetWriter(whole, COLUMNS, **_OPTIONS) as out:
        for part in parts:
            file = pq.ParquetFile(part)
            for group in range(file.num_row_groups):
                out.write_table(file.read_row_group(group))
