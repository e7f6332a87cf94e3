"""The task of an append-only log's load: read a unit where Python runs, return sums (`schemas.interim.PARTIAL`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.aof.command_keys import known_commands
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import NO_TIME
from cluster_core.kernels.aof.walker import CommandBatch
from cluster_core.kernels.key_slots import key_slots
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import LOG_COMMAND, LOG_DOUBT, LOG_KEY, LOG_SLOT
from slotscope.sources.aof.files import BASE, AofUnit, AofUnitReader
from slotscope.sources.aof.state import AofStateReader, AofStateUnit
from slotscope.sources.keys.partial_rows import TallyOptions, UnitTally
from slotscope.sources.keys.sums import KeySums, KnownLoads
from slotscope.sources.keys.unread_facts import note_unread, rest_of

_MINUTE_S, _HOUR_S = 60, 3600
COMMAND_NAMES_MAX = 1 << 13
"""Names of commands that one unit tells apart."""


class TimedSums:
    """Counts and bytes by a code and by spans of *span_s* seconds; memory grows with the spans that are met."""

    def __init__(self, codes: int, span_s: int) -> None:
        self._codes = codes
        self._span_s = span_s
        self._sums: dict[int, NDArray[np.int64]] = {}

    def add(self, codes: NDArray[Any], size: NDArray[np.int64], time_s: NDArray[np.int64]) -> None:
        """Count one event a row; times rise within a file, so a batch meets few spans."""
        if not len(codes):
            return
        spans = time_s // self._span_s  # NO_TIME, -1, stays below all others
        present = [int(spans[0])] if spans[0] == spans[-1] == spans.max() == spans.min() else np.unique(spans).tolist()
        for span in present:
            chosen = slice(None) if len(present) == 1 else spans == span
            here, sizes = codes[chosen], size[chosen]
            if span not in self._sums:
                self._sums[span] = np.zeros((self._codes, 2), np.int64)
            self._sums[span][:, 0] += np.bincount(here, minlength=self._codes)
            np.add.at(self._sums[span][:, 1], here, sizes)

    def rows(self) -> NDArray[np.int64]:
        """Return int64[rows, 4]: begin of the span (epoch in s, -1 without times), code, count, bytes; rows without count left out."""
        result = [np.zeros((0, 4), np.int64)]
        for span in sorted(self._sums):
            sums = self._sums[span]
            present = np.flatnonzero(sums[:, 0])
            begin = np.full(len(present), NO_TIME if span < 0 else span * self._span_s)
            result.append(np.column_stack([begin, present, sums[present]]))
        return np.concatenate(result)


class AofTally(UnitTally[AofUnit]):
    """The sums of one unit of a log: what it writes."""

    def __init__(self, unit: AofUnit, part: int, options: TallyOptions) -> None:
        super().__init__(unit, part, options)
        self.commands = 0
        self.slots = TimedSums(SLOT_COUNT, _HOUR_S)
        self.names = TimedSums(COMMAND_NAMES_MAX, _MINUTE_S)
        self.hot = GroupTally(options.groups_max)
        self._is_base = unit.role == BASE
        self._last_s: int | None = None
        self._listed: list[bytes] = [b""]

    @staticmethod
    def source_of(unit: AofUnit) -> str:
        """Return the log."""
        return unit.log

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read, tally and yield the rows; raises DecodeError in strict mode."""
        reader = AofUnitReader(self.unit)
        try:
            for _ in reader.preamble():
                pass
            for batch in reader:
                self._add(batch)
        except DecodeError as error:
            self.note_bad(error, rest_of(self.unit.path, self.unit.size, error))
        self._listed = reader.names
        self._note(reader)
        yield from self._yield_rows()

    def _note(self, reader: AofUnitReader) -> None:
        facts, walker = self.facts, reader.walker
        self.commands = walker.commands if walker else 0
        facts.kind, facts.file_bytes = "aof", self.unit.size
        facts.role, facts.file, facts.commands = self.unit.role, self.unit.path, self.commands
        facts.aux = {f"dump_{name}": value for name, value in reader.dump_facts.items()}
        if reader.cut is not None:
            facts.cut, facts.loaded_end = reader.cut.reason(), reader.cut.loaded_end
        facts.last_s = self._last_s
        facts.knows_ops = True
        facts.missed_log_keys, facts.missed_log_bytes = int(self.hot.missed_keys), int(self.hot.missed_bytes)

    def _add(self, batch: CommandBatch) -> None:
        if self._is_base:  # a snapshot, no writes
            return
        keys = batch.keys
        self.slots.add(keys.slot, keys.serialized_bytes, batch.per_key(batch.time_s))
        self.names.add(batch.command, batch.size, batch.time_s)
        whole = dataclasses.replace(keys, tag_start=np.zeros(len(keys), np.int32), tag_length=np.diff(keys.key_offsets))
        self.hot.add_tags(whole)
        last_s = int(batch.time_s.max(initial=NO_TIME))
        if last_s != NO_TIME:
            self._last_s = max(last_s, self._last_s or 0)

    # rows

    def _yield_rows(self) -> Iterator[pa.RecordBatch]:
        yield self.rows.units(self.facts)
        if self.bad:
            yield self.rows.bad(self.bad, self.skipped_bytes)
        yield self._slot_rows()
        yield self._command_rows()
        yield self.rows.groups(LOG_KEY, self.hot, "ops", slot=pa.array(key_slots(self.hot.names()).astype(np.int64)))

    def _slot_rows(self) -> pa.RecordBatch:
        """Writes by slot and hour."""
        begin, slot, ops, size = self.slots.rows().T
        return self.rows.of(
            LOG_SLOT, len(slot), slot=pa.array(slot), ops=pa.array(ops), serialized_bytes=pa.array(size), offset=_time(begin)
        )  # fmt: skip

    def _command_rows(self) -> pa.RecordBatch:
        begin, code, count, size = self.names.rows().T
        names = [self._listed[number].decode("utf-8", "backslashreplace") for number in code.tolist()]
        known = known_commands()
        return self.rows.of(
            LOG_COMMAND, len(code), text=pa.array(names, pa.string()), ops=pa.array(count), serialized_bytes=pa.array(size),
            offset=_time(begin), number=pa.array([int(name in known) for name in names], pa.int32()),
        )  # fmt: skip


def _time(begin: NDArray[np.int64]) -> pa.Array:
    return pa.array(begin, pa.int64(), mask=begin == NO_TIME)


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
        """Replay, tally and yield the rows; in permissive mode the commands before an error count, and the log's load names the error."""
        reader, sums, facts = AofStateReader(self.unit), self._sums, self.facts
        try:
            reader.replay()
        except DecodeError as error:
            if not self.options.permissive:
                raise
            facts.replayed_to = f"{error.source}: offset {error.offset}"
            note_unread(facts, [error], reader.rest_after(error))
        part = sums.begin(self.unit.path, KnownLoads(sizes=True, expiry=True))
        if reader.taken_at_ms is not None:
            part.set_time(reader.taken_at_ms)
        part.ops = np.zeros(SLOT_COUNT, np.int64)
        for batch in reader:
            sums.add(part, batch)
        facts.kind = "aof"
        reader.note(facts)
        sums.end(part, facts)
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
