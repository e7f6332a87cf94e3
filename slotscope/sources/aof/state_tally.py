"""The task that replays a log: the keys that live at its end as sums, and those of which it does not tell all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_slots import key_slots
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import LOG_DOUBT
from slotscope.sources.aof.state import AofStateReader, AofStateUnit
from slotscope.sources.keys.partial_rows import TallyOptions, UnitTally
from slotscope.sources.keys.sums import KeySums, Knows
from slotscope.sources.keys.unread_facts import note_unread


class AofStateTally(UnitTally[AofStateUnit]):
    """The sums of the keys that one log leaves."""

    def __init__(self, unit: AofStateUnit, part: int, options: TallyOptions) -> None:
        super().__init__(unit, part, options)
        self._sums = KeySums(self.rows, options)

    @staticmethod
    def source_of(unit: AofStateUnit) -> str:
        """Return the log."""
        return unit.path

    def run(self) -> Iterator[pa.RecordBatch]:
        """Replay, tally and yield the rows; in permissive mode what stands before an error counts, and the log's load says what is wrong."""
        reader, sums, facts = (
            AofStateReader(self.unit, load_truncated=self.options.load_truncated),
            self._sums,
            self.facts,
        )
        try:
            reader.replay()
        except DecodeError as error:
            if not self.options.permissive:
                raise
            facts.replayed_to = f"{error.source}: offset {error.offset}"
            note_unread(facts, [error], reader.rest_after(error))
        one = sums.begin(self.unit.path, Knows(sizes=True, expiry=True))
        if reader.taken_at_ms is not None:
            one.set_time(reader.taken_at_ms)
        one.ops = np.zeros(SLOT_COUNT, np.int64)
        for batch in reader:
            sums.add(one, batch)
        facts.kind = "aof"
        reader.note(facts)
        sums.end(one, facts)
        sums.note_missed(facts)
        yield self._doubt_rows(reader)
        yield self.rows.units(facts)
        yield from sums.yield_rows()

    def _doubt_rows(self, reader: AofStateReader) -> pa.RecordBatch:
        doubts = reader.uncertain
        names = pa.array([row.key for row in doubts], pa.binary())
        return self.rows.of(
            LOG_DOUBT, len(doubts), name=names, db=pa.array([row.db for row in doubts], pa.int32()),
            slot=pa.array(key_slots(names).astype(np.int64)), text=pa.array([row.why for row in doubts], pa.string()),
        )  # fmt: skip
