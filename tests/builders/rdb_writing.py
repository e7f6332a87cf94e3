"""Dumps as rows with values, and back: for tests of the writer and of what is built on it."""

from __future__ import annotations

from collections.abc import Iterable

from cluster_core.rdb.encoding import PACKED, Packing, Target
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.values import Record, decode_record
from cluster_core.rdb.writer import RdbWriter
from tests.builders.rdb_rows import sound_rows

UNORDERED = ("set", "zset", "hash")
Row = tuple[int, Record]


def read_rows(data: bytes) -> tuple[RdbSkimmer, list[Row]]:
    """The skim of a file, its CRC checked, and every key as (database, record)."""
    rows, skim = sound_rows(data)
    dialect = skim.head.dialect
    return skim, [
        (row.db, decode_record(data[row.offset : row.offset + row.serialized_bytes], dialect)) for row in rows
    ]


def write_rows(
    rows: Iterable[Row], target: Target, packing: Packing = PACKED, functions: Iterable[bytes] = (), **aux: str | int
) -> bytes:
    """A file of *rows*."""
    writer = RdbWriter(target, packing=packing)
    parts = [writer.head(aux), *map(writer.function, functions)]
    db = None
    for wanted, record in rows:
        if wanted != db:
            parts.append(writer.database(wanted))
            db = wanted
        parts.append(writer.record(record))
    return b"".join([*parts, writer.end()])


def settled(record: Record) -> Record:
    """A record whose elements stand in an order of their own, where order means nothing."""
    return record._replace(value=sorted(record.value)) if record.type in UNORDERED else record  # type: ignore[type-var]
