"""The state that an append-only log leaves, with its values, as a dump of our own: what reads dumps reads logs."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cluster_core.aof.keyspace import records
from cluster_core.errors import EncodeError
from cluster_core.rdb.batch_crc64 import crc64
from cluster_core.rdb.encoding import target_of
from cluster_core.rdb.grammar import DIALECT_VALKEY
from cluster_core.rdb.writer import RdbWriter
from slotscope.sources.aof.state import AofStateReader, AofStateUnit

_VERSION = 80
_WRITE_BYTES = 1 << 20


@contextmanager
def replayed_dump(unit: AofStateUnit, folder: str | None) -> Iterator[tuple[str, Counter[str]]]:
    """Give the path of a dump of what the log leaves, gone afterwards, and count the keys that are not in it by reason.

    The whole key space is held in memory meanwhile.  Raises DecodeError where a server would not load the log.
    """
    reader = AofStateReader(unit, keeps_values=True)
    reader.replay()
    left_out = Counter(
        f"uncertain since {row.why}, whose effect the log does not tell"
        for row in reader.keyspace.rows()
        if row.type is None
    )
    with tempfile.TemporaryDirectory(prefix="slotscope-", dir=folder) as made:
        path = os.path.join(made, "replayed.rdb")
        writer = RdbWriter(
            target_of(DIALECT_VALKEY, _VERSION), crc_of=lambda data, crc: crc64(np.frombuffer(data, np.uint8), crc)
        )
        with open(path, "wb", buffering=_WRITE_BYTES) as out:
            taken_at_ms = reader.taken_at_ms
            out.write(writer.head({} if taken_at_ms is None else {"ctime": taken_at_ms // 1000}))
            selected = None
            for db, record in records(reader.keyspace.store):
                if db != selected:
                    out.write(writer.database(db))
                    selected = db
                try:
                    out.write(writer.record(record))
                except EncodeError as error:
                    left_out[f"{record.type}: {error}"] += 1
            out.write(writer.end())
        yield path, left_out
