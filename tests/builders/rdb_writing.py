"""Dumps as rows with values."""

from __future__ import annotations

from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.values import Record, decode_record
from tests.builders.rdb_rows import sound_rows

Row = tuple[int, Record]


def read_rows(data: bytes) -> tuple[RdbSkimmer, list[Row]]:
    """The skim of a file, its CRC checked, and every key as (database, record)."""
    rows, skim = sound_rows(data)
    dialect = skim.head.dialect
    return skim, [
        (row.db, decode_record(data[row.offset : row.offset + row.serialized_bytes], dialect)) for row in rows
    ]
