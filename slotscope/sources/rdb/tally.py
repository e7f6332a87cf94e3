"""The task of a dump, or of a range of one: its keys as sums, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.facts import SplitError
from cluster_core.kernels.columns import encoding_names, known, type_names
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.rdb.key_twins import key_hashes
from cluster_core.memory.model import ESTIMATES, MemoryModel, model_name, model_of
from schemas.interim import FLAW
from slotscope.runtime.text import shown
from slotscope.sources.key_sums import KeySums, Knows
from slotscope.sources.partial_rows import TallyOptions, UnitTally
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.rdb.soundness import FlawedKey, SoundnessCheck
from slotscope.sources.rdb.twins import find_twins
from slotscope.sources.unread_facts import rest_of

HASHES_MAX = 32 << 20
"""Keys of one unit among which those are sought that are there twice: 8 bytes each, and as much again at its end."""

TWINS_LISTED = FLAWS_SAID = 5


class RdbTally(UnitTally[RdbUnit]):
    """The sums of one unit of a dump."""

    def __init__(self, unit: RdbUnit, part: int, options: TallyOptions) -> None:
        super().__init__(unit, part, options)
        self._sums = KeySums(self.rows, options, Knows(sizes=True, expiry=True))
        self._reader = RdbUnitReader(unit, check_crc=options.check_crc, memory=options.memory)
        self._hashes: list[NDArray[np.uint64]] = []
        self._check = SoundnessCheck(unit.path) if options.deep else None

    @staticmethod
    def source_of(unit: RdbUnit) -> str:
        """Return the file."""
        return unit.path

    @classmethod
    def keys_of(cls, unit: RdbUnit, options: TallyOptions) -> Iterator[KeyBatch]:
        """The keys that a server would load."""
        for batch in RdbUnitReader(unit, check_crc=options.check_crc, memory=options.memory):
            hollow = batch.hollow()
            yield batch.where(~hollow) if hollow.any() else batch

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read, tally and yield the rows; raises DecodeError in strict mode."""
        try:
            self._read()
        except SplitError as error:
            self.facts.split_failed = error.reason
        except DecodeError as error:
            at_end = (
                self._reader.skimmer.stored_crc is not None
            )  # all was read: only the checksum is not that of its bytes
            unit = self.unit
            self.note_bad(error, 0 if at_end else rest_of(unit.path, unit.end or unit.size, error, self._sums.keys))
        finally:
            if self._check is not None:
                self._check.close()
        self._note()
        yield self._sums.slot_rows()
        yield self.rows.unit(self.facts)
        if self.bad:
            yield self.rows.bad(self.bad, self.skipped_bytes)
        if self._check is not None and self._check.flaws:
            yield self._flaw_rows(self._check.flaws)
        yield from self._sums.detail_rows()

    def _read(self) -> None:
        sums, reader = self._sums, self._reader
        for batch in reader:
            if sums.ttl is None:
                sums.set_time(reader.taken_at_ms or 0)
            sums.add(self._without_hollow(batch))
            if self._check is not None:
                self._check.add(batch, reader.skimmer.head)

    def _without_hollow(self, batch: KeyBatch) -> KeyBatch:
        """Set the collections without elements aside, and remember what tells the other keys apart."""
        hollow = batch.hollow()
        if hollow.any():
            self.facts.hollow_key = self.facts.hollow_key or shown(batch.key(int(hollow.argmax())))
            self.facts.hollow_keys = (self.facts.hollow_keys or 0) + int(hollow.sum())
            batch = batch.where(~hollow)
        if self._sums.keys <= HASHES_MAX:
            self._hashes.append(key_hashes(batch))
        return batch

    def _note(self) -> None:
        """Say what was found, once all is read."""
        facts, reader, skimmer = self.facts, self._reader, self._reader.skimmer
        facts.kind, facts.file_bytes = "rdb", self.unit.size
        if skimmer.databases:
            facts.records = sum(counts.keys for counts in skimmer.databases.values())
        self._note_twins()
        if self._check is not None:
            self._note_flaws(self._check)
        self._sums.declared = skimmer.declared_slot_keys
        facts.slot_info = bool((skimmer.declared_slot_keys != NONE).any())
        facts.aux = dict(reader.facts)
        facts.ctime = None if reader.taken_at_ms is None else reader.taken_at_ms // 1000
        if reader.head is not None:
            facts.rdb = f"{reader.head.dialect} {reader.head.version}"
            if self.options.memory is not None:
                self._note_memory(model_of(reader.head, self.options.memory))
        if skimmer.stored_crc is not None:
            facts.stored_crc = f"{skimmer.stored_crc:016x}"
        facts.functions = skimmer.function_count
        facts.trailing_bytes = reader.trailing_bytes
        self._sums.note(facts)

    def _note_twins(self) -> None:
        """Say which keys are in the unit more than once."""
        if self._sums.keys > HASHES_MAX:
            self.facts.twins_sought = sum(map(len, self._hashes))
        found = find_twins([self.unit], self._hashes, listed_max=TWINS_LISTED)
        self._hashes.clear()
        if found is not None:
            self.facts.twin_keys = found.count
            self.facts.twins = [
                f"key {shown(twin.key)} of database {twin.db} at offsets {twin.first[1]} and {twin.second[1]}"
                for twin in found.twins
            ]

    def _note_flaws(self, check: SoundnessCheck) -> None:
        """Say what decoding every value found."""
        facts = self.facts
        facts.decoded_values, facts.flawed_values, facts.undecoded_values = check.decoded, check.flawed, check.too_large
        facts.flaws = [
            f"key {shown(flawed.key)} (slot {flawed.slot}): {flawed.found.detail}"
            + (f"; the value has {flawed.found.real} elements" if flawed.elements != flawed.found.real >= 0 else "")
            for flawed in check.flaws[:FLAWS_SAID]
        ]

    def _note_memory(self, model: MemoryModel | None) -> None:
        """Say by which model the keys were measured, and what the server would hold in all."""
        facts, slots = self.facts, self._sums.slots
        self._sums.knows.memory = model is not None
        facts.memory_model = model_name(model)
        facts.unmeasured_keys = int(slots.unmeasured)
        if model is not None:
            facts.memory_estimate = ESTIMATES[model.estimate]
            tables = model.keyspace_bytes(self._sums.keys, int(slots.slots[:, 2].sum()))
            facts.memory_total = int(slots.memory.sum()) + tables

    def _flaw_rows(self, flaws: list[FlawedKey]) -> pa.RecordBatch:
        key, db, slot, type_, encoding, offset, elements, found = zip(*flaws, strict=True)
        return self.rows.of(
            FLAW, len(flaws),
            name=pa.array(key, pa.binary()), db=pa.array(db, pa.int32()), slot=pa.array(slot, pa.int64()), type=type_names(np.array(type_)),
            encoding=encoding_names(np.array(encoding)), offset=pa.array(offset, pa.int64()), elements=known(np.array(elements), pa.int64()),
            keys=known(np.array([one.real for one in found]), pa.int64()), text=pa.array([one.detail for one in found]),
            flaw=pa.array([one.flaw.value for one in found]),
        )  # fmt: skip
