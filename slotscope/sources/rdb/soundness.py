"""Every value of a dump decoded, beside the skim that finds its bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import MODULE, STRING
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.soundness import ValueFlaw, value_flaws
from slotscope.runtime.stores import is_live
from slotscope.sources.held_bytes import HeldBytes
from slotscope.sources.rdb.files import RdbUnitReader
from slotscope.sources.rdb.survey import RangeReader

VALUE_BYTES_MAX = 256 << 20
"""A larger record is not held: it is counted, not decoded."""

FLAWS_MAX = 10_000
"""Flaws of one unit beyond this are counted, not listed."""


class FlawedKey(NamedTuple):
    """One flaw of the value of a key; *elements* are what its header counts."""

    key: bytes
    db: int
    slot: int
    type: int
    encoding: int
    offset: int
    elements: int
    found: ValueFlaw


class SoundnessCheck:
    """Decodes the values of each batch of *reader* that is added: strings hold what their prefix says, and only a module knows its own."""

    def __init__(self, reader: RdbUnitReader) -> None:
        self.decoded = self.flawed = self.too_large = 0
        self.flaws: list[FlawedKey] = []
        self._records = records_of(reader)

    def add(self, batch: KeyBatch, head: RdbHead) -> None:
        """Decode the collections and streams of *batch*."""
        for row in np.flatnonzero((batch.type != STRING) & (batch.type != MODULE)).tolist():
            size, at, elements = int(batch.serialized_bytes[row]), int(batch.offset[row]), int(batch.elements[row])
            if size > VALUE_BYTES_MAX:
                self.too_large += 1
                continue
            self.decoded += 1
            found = value_flaws(self._records.read(at, size), head.dialect, elements)
            self.flawed += bool(found)
            place = (
                int(batch.db[row]),
                int(batch.slot[row]),
                int(batch.type[row]),
                int(batch.encoding[row]),
                at,
                elements,
            )
            room = FLAWS_MAX - len(self.flaws)
            self.flaws += [FlawedKey(batch.key(row), *place, flaw) for flaw in found[:room]]

    def close(self) -> None:
        """Release the file."""
        self._records.close()


def records_of(reader: RdbUnitReader) -> RangeReader | HeldBytes:
    """The records of what *reader* skims, in rising order; those of a live server are held until all have used them."""
    path = reader.unit.path
    return reader.hold() if is_live(path) else RangeReader(path)
