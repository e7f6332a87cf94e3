"""Dumps cut by slots into parts: one file a master, each whole under its name or not there.

Bytes of keys are copied as they are; what lies between keys is written anew, with the counts of the part.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyRuns, key_runs
from cluster_core.rdb.writer import RdbWriter, Target
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.rdb.survey import RangeReader, Survey

SPAN_BYTES = 8 << 20
"""Bytes of a dump that are read at once; a key that is larger passes through in pieces."""

BUFFERED_BYTES = 256 << 20
"""Bytes that all parts together hold back before they are written."""

PARTIAL = ".partial"


@dataclass(slots=True)
class Part:
    """One file to be: *counts* are (keys, expiring keys) by database, *preamble* and *epilogue* what every part holds."""

    path: str
    target: Target
    aux: Mapping[str, str | int]
    counts: Mapping[int, tuple[int, int]]
    preamble: Sequence[bytes]
    epilogue: Sequence[bytes]
    flush_bytes: int = 4 << 20
    size: int = 0
    _writer: RdbWriter = field(init=False)
    _held: bytearray = field(default_factory=bytearray)
    _announced: set[int] = field(default_factory=set)
    _db: int | None = None

    def begin(self) -> None:
        """Create the file under a name of its own with all that stands before the keys."""
        self._writer = RdbWriter(self.target)
        with open(self.path + PARTIAL, "wb") as out:
            out.write(self._writer.head(self.aux))
            for record in self.preamble:
                out.write(self._writer.raw_preamble(record))

    def select(self, db: int) -> None:
        """Go on with database *db*; its size is told once."""
        if db == self._db:
            return
        self.flush()
        keys, expires = self.counts[db]
        is_known = db in self._announced
        self._append(self._writer.database(db, keys=None if is_known else keys, expires=expires))
        self._announced.add(db)
        self._db = db

    def add(self, piece: bytes | bytearray) -> None:
        """Add whole records, or the next piece of one."""
        self._held += piece
        if len(self._held) >= self.flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is held back."""
        if self._held:
            self._append(self._writer.raw(self._held))
            self._held.clear()

    def end(self) -> None:
        """Write what stands after the keys."""
        self.flush()
        parts = [self._writer.raw_preamble(record) for record in self.epilogue]
        self._append(b"".join([*parts, self._writer.end()]))
        self.size = self._writer.bytes

    def _append(self, data: bytes | bytearray) -> None:
        with open(self.path + PARTIAL, "ab") as out:  # opened anew: parts may be more than files may be open
            out.write(data)


def write_parts(
    parts: Sequence[Part], part_of: NDArray[np.int64], surveys: Sequence[Survey], units: Iterable[RdbUnit]
) -> None:
    """Write all *parts* from the dumps, then give them their names; without a trace if that fails.

    Raises DecodeError if a dump is no longer what its survey says.
    """
    try:
        for part in parts:
            part.flush_bytes = min(part.flush_bytes, BUFFERED_BYTES // len(parts))
            part.begin()
        for survey, unit in zip(surveys, units, strict=True):
            _copy_dump(survey, unit, parts, part_of)
        for part in parts:
            part.end()
        for part in parts:
            os.replace(part.path + PARTIAL, part.path)
    finally:
        for part in parts:
            if os.path.exists(part.path + PARTIAL):
                os.unlink(part.path + PARTIAL)


def _copy_dump(survey: Survey, unit: RdbUnit, parts: Sequence[Part], part_of: NDArray[np.int64]) -> None:
    reader = RdbUnitReader(unit, check_crc=False)
    others = RangeReader(unit.path)
    by_slot = bool(survey.slot_info)
    copied: set[tuple[int, int]] = set()
    try:
        for batch in reader:
            hollow = batch.hollow()
            for runs in key_runs(batch.where(~hollow) if hollow.any() else batch, part_of, by_slot=by_slot).spans(
                SPAN_BYTES
            ):
                _copy_runs(runs, others, survey, parts, copied)
    finally:
        others.close()
    if reader.skimmer.keys != int(survey.slot_keys.sum()) + survey.hollow:
        raise DecodeError("the file has changed while it was read", offset=survey.end, source=unit.path)


def _copy_runs(
    runs: KeyRuns,
    others: RangeReader,
    survey: Survey,
    parts: Sequence[Part],
    copied: set[tuple[int, int]],
) -> None:
    """Copy the keys of *runs*; slices are bytes, of which there are many: views would keep the garbage collector busy."""
    start, end = int(runs.start[0]), int(runs.end[-1])
    span = others.read(start, min(end - start, SPAN_BYTES))
    pieces: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for first, last, number, db, slot in zip(*(column.tolist() for column in runs), strict=True):
        held = pieces[number, db]
        if survey.slot_info and (db, slot) not in copied:
            copied.add((db, slot))
            held.append(survey.slot_info.get((db, slot), b""))
        held.append(span[first - start : last - start])
    for (number, db), held in pieces.items():
        parts[number].select(db)
        parts[number].add(b"".join(held))
    at = start + len(span)
    while at < end:  # one run, longer than a span
        piece = others.read(at, min(end - at, SPAN_BYTES))
        parts[int(runs.part[0])].add(piece)
        at += len(piece)
