"""The task of a key list, or of a piece of one: its keys as sums."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.key_list import batch_of_keys
from cluster_core.kernels.key_slots import key_slots
from slotscope.sources.key_lists import KeyListReader, KeyListUnit, KeyRows
from slotscope.sources.key_sums import KeySums, Knows
from slotscope.sources.partial_rows import TallyOptions, UnitTally
from slotscope.sources.unread_facts import note_list


class KeyListTally(UnitTally[KeyListUnit]):
    """The sums of one unit of a list."""

    def __init__(self, unit: KeyListUnit, part: int, options: TallyOptions) -> None:
        super().__init__(unit, part, options)
        self._sums = KeySums(self.rows, options)
        self._one = self._sums.begin(unit.path, Knows())

    @staticmethod
    def source_of(unit: KeyListUnit) -> str:
        """Return the file."""
        return unit.path

    @classmethod
    def keys_of(cls, unit: KeyListUnit, options: TallyOptions) -> Iterator[tuple[str, KeyBatch]]:
        """The keys in their order; *offset* is the row."""
        row = 0
        for rows in KeyListReader(unit, options.lists, permissive=options.permissive):
            yield unit.path, batch_of_keys(rows.keys, rows.sizes, row)
            row += len(rows.keys)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read, tally and yield the rows; raises DecodeError in strict mode."""
        reader = KeyListReader(self.unit, self.options.lists, permissive=self.options.permissive)
        yield from self._tally(reader, iter(reader))

    def run_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same for rows that Spark has read."""
        unit = KeyListUnit(self.unit.path, "parquet", 0)
        reader = KeyListReader(unit, self.options.lists, permissive=self.options.permissive)
        yield from self._tally(reader, reader.rows_of(batches))

    def _tally(self, reader: KeyListReader, found: Iterator[KeyRows]) -> Iterator[pa.RecordBatch]:
        try:
            for rows in found:
                self._add(rows)
        except DecodeError as error:
            if not self.options.permissive:
                raise
            reader.bad.append(error)
            reader.broke_off = True
        facts = self.facts
        facts.kind, facts.file_bytes = self.unit.kind, self.unit.size
        note_list(facts, reader, self._one.keys)
        self._sums.end(self._one, facts)
        self._sums.note_missed(facts)
        yield self.rows.units(facts)
        if reader.bad:
            yield self.rows.bad(reader.bad, None)
        yield from self._sums.yield_rows()

    def _add(self, rows: KeyRows) -> None:
        sums, one = self._sums, self._one
        one.knows.sizes |= rows.sizes is not None
        if self.options.details:
            batch = batch_of_keys(rows.keys, rows.sizes, one.keys)
            slots = batch.slot
            sums.add(one, batch)
        else:
            slots = key_slots(rows.keys)
            sums.add_slots(one, slots, rows.sizes)
        if rows.ops is not None:
            sums.add_ops(one, slots, rows.ops)
