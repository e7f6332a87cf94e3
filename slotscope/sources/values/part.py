"""One unit of a dump, written out as one part: chosen keys with their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.key_filter import KeyFilter
from cluster_core.kernels.values.release import Release
from cluster_core.kernels.values.state import CSV, JSON, RESP
from cluster_core.kernels.values.writer import ValueWriter
from slotscope.runtime.errors import InputError
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.values.plain_bytes import local_file, mapped_bytes

STYLES = {"json": JSON, "csv": CSV, "resp": RESP}
"""Formats that are written byte by byte."""
HEADS = {CSV: b"db,key,type,expire_at_ms,name,value,field_expire_at_ms\r\n"}
"""What a file begins with."""


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
    """Iterate over (bytes of the file, batch, chosen rows) of a unit; *facts* grow meanwhile.

    Raises DecodeError with path, offset and reason at the first byte that is wrong unless the request is permissive; InputError if times to
    live are asked of a dump that does not say when it was taken.
    """

    def __init__(self, unit: RdbUnit, wanted: Wanted, path: str) -> None:
        self.facts = PartFacts(unit.path)
        self.reader = RdbUnitReader(
            RdbUnit(path, unit.size, unit.start, unit.end, unit.part, unit.parts), check_crc=wanted.check_crc
        )
        self._wanted = wanted
        self._data = mapped_bytes(path)

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


def write_part(unit: RdbUnit, wanted: Wanted, out: IO[bytes], *, folder: str | None = None) -> PartFacts:
    """Write the wanted keys of *unit* to *out* as text or commands; *folder* is for copies of what is not a local file.

    Raises DecodeError, EncodeError and InputError.
    """
    with local_file(unit.path, folder) as path:
        parts = PartReader(unit, wanted, path)
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
        facts.left_out = dict(writer.left_out)
    return facts
