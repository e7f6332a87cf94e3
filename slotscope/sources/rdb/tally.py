"""Task over dumps, or a range of one: sums of their keys, their errors, and every value under all conditions of `slotscope advise`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.advice.changes import SETTINGS, conditions_for
from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.kernels.keys.slot_tally import add_by_group
from cluster_core.load.unread import attribute
from cluster_core.memory.model import ESTIMATES, MemoryModel, model_name, model_of
from cluster_core.rdb import shapes
from cluster_core.rdb.grammar import HASHTABLE, KEY_TYPES, SKIPLIST
from cluster_core.rdb.head import RdbHead, SplitError
from cluster_core.rdb.memory_sizes import keyspace_bytes
from cluster_core.rdb.shapes import ValueMeasure
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import ADVICE, ADVICE_PARTIAL, UnitFacts
from slotscope.runtime.stores import is_live
from slotscope.runtime.text import shown
from slotscope.sources.byte_streams import HeldBytes
from slotscope.sources.keys.partial_rows import PartialRows, TallyOptions, amount_lists, note_unread, rest_of
from slotscope.sources.keys.sums import KeySums, KnownLoads
from slotscope.sources.rdb.files import RangeReader, RdbTask, RdbUnit, RdbUnitReader

SPAN_BYTES = 32 << 20
"""Records are read in pieces of about this many bytes; a record above `RECORD_BYTES_MAX` counts at its present size."""
RECORD_BYTES_MAX = 256 << 20


class Records(Protocol):
    """The bytes of the records that were skimmed."""

    def read(self, start: int, count: int) -> bytes:
        """Return the *count* bytes from *start* on."""


class AdviceTally:
    """The sums of one unit, which begins with *head*."""

    def __init__(self, model: MemoryModel, head: RdbHead, options: TallyOptions) -> None:
        self.conditions = conditions_for(model)
        conditions = len(self.conditions)
        self._measure, self._options = ValueMeasure(head, self.conditions), options
        self._slots = np.zeros((SLOT_COUNT, conditions + 2), np.int64)
        self._types = np.zeros((256, conditions + 2), np.int64)
        self._prefixes = GroupTally(options.groups_max, conditions + 2)
        self._curves = {setting.name: np.zeros((len(setting.tried), 3 + conditions), np.int64) for setting in SETTINGS}
        self._keys = 0

    def add_records(self, batch: KeyBatch, records: Records) -> None:
        """Measure the keys of *batch*; keys with too large records count at their present size."""
        is_large = batch.serialized_bytes > RECORD_BYTES_MAX
        if is_large.any():
            self.add(batch.where(is_large), None, 0)
            batch = batch.where(~is_large)
        for part, begin, end in _spans(batch):
            self.add(part, np.frombuffer(records.read(begin, end - begin), np.uint8), begin)

    def add(self, batch: KeyBatch, data: NDArray[np.uint8] | None, begin: int) -> None:
        """Measure the keys of *batch*; *data* holds their records from offset *begin* of the file.  Without it keys count at their present size."""
        if not len(batch):
            return
        assert batch.memory_bytes is not None
        self._keys += len(batch)
        measure = self._measure
        memory, shape = measure.unmeasured(len(batch)) if data is None else measure.measure(batch, data, begin)
        now = np.maximum(batch.memory_bytes, 0)
        is_known = (shape[:, shapes.IS_KNOWN] > 0) & (batch.memory_bytes >= 0)
        memory[~is_known] = now[~is_known, None]
        both = np.column_stack((now, memory, ~is_known)).astype(np.int64, copy=False)
        add_by_group(batch.slot, both, self._slots)
        add_by_group(np.minimum(batch.type, 255), both, self._types)
        self._prefixes.add_prefixes(batch, self._options.separators, 1, both)
        self._add_curves(batch, shape, is_known, now[:, None] - memory)

    def _add_curves(
        self, batch: KeyBatch, shapes_: NDArray[np.int64], is_known: NDArray[np.bool_], saved: NDArray[np.int64]
    ) -> None:
        """Count tables that a wider limit would pack: those that no other limit keeps from it."""
        tables = is_known & np.isin(batch.encoding, (HASHTABLE, SKIPLIST))
        rows = np.flatnonzero(tables)
        if not len(rows):
            return
        shape, types = shapes_[rows], batch.type[rows]
        gain = shape[:, shapes.TABLE] - shape[:, shapes.PACKED]
        limits = {(item.type, item.by_entries): item.usual for item in SETTINGS if not item.integers}
        for setting in SETTINGS:
            of_type = (types == KEY_TYPES.index(setting.type)) & ((shape[:, shapes.IS_KNOWN] == 2) == setting.integers)
            counted, other = (
                (shapes.ELEMENTS, shapes.LONGEST) if setting.by_entries else (shapes.LONGEST, shapes.ELEMENTS)
            )
            fits = shape[:, other] <= (limits[setting.type, not setting.by_entries] if not setting.integers else np.inf)
            steps = np.searchsorted(setting.tried, shape[:, counted])
            beyond = shape[:, counted] > (setting.usual if not setting.by_entries else 0)
            chosen = of_type & fits & beyond & (steps < len(setting.tried)) & (gain > 0)
            for step in np.unique(steps[chosen]).tolist():
                there = chosen & (steps == step)
                sums = self._curves[setting.name][step]
                sums[0] += there.sum()
                sums[1] += gain[there].sum()
                sums[2] = max(sums[2], int(shape[there, shapes.ELEMENTS].max()))
                sums[3:] += saved[rows[there]].sum(axis=0)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the sums as rows of `ADVICE_PARTIAL`."""
        used = np.flatnonzero(self._slots.any(axis=1))
        yield _rows("slot", used, self._slots[used])
        types = np.flatnonzero(self._types.any(axis=1))
        yield _rows("type", types, self._types[types])
        yield _rows("keys", np.array([self._keys]), np.zeros((1, 1), np.int64))
        yield _rows("prefix", self._prefixes.counts()[:, 0], self._prefixes.amounts(), self._prefixes.names())
        for setting in SETTINGS:
            sums = self._curves[setting.name]
            yield _rows("curve", np.array(setting.tried), sums, pa.array([setting.name.encode()] * len(sums)))


def _rows(
    kind: str, numbers: NDArray[np.int64], amounts: NDArray[np.int64], names: pa.Array | None = None
) -> pa.RecordBatch:
    count = len(numbers)
    columns = [
        pa.array([kind] * count, pa.string()),
        pa.array(numbers.astype(np.int64)),
        pa.nulls(count, pa.binary()) if names is None else names.cast(pa.binary()),
        amount_lists(np.ascontiguousarray(amounts)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ADVICE_PARTIAL)


def advice_tally(head: RdbHead, options: TallyOptions) -> AdviceTally | None:
    """Return the tally of a file that begins with *head*; None where no model knows the memory of its server."""
    model = None if options.memory is None else model_of(head, options.memory)
    return None if model is None else AdviceTally(model, head, options)


def _spans(batch: KeyBatch) -> Iterator[tuple[KeyBatch, int, int]]:
    """Yield *batch* in pieces of about `SPAN_BYTES`, each with where its records begin and end."""
    ends = batch.offset + batch.serialized_bytes
    first = 0
    while first < len(batch):
        within = int(np.searchsorted(ends, batch.offset[first] + SPAN_BYTES, side="right"))
        last = max(within, first + 1)
        mask = np.zeros(len(batch), np.bool_)
        mask[first:last] = True
        yield batch.where(mask), int(batch.offset[first]), int(ends[last - 1])
        first = last


def tally_dumps(task: RdbTask, part: int, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Read the dumps of one task, one after the other, and yield their sums and errors; raises DecodeError in strict mode."""
    rows = PartialRows(task.units[0].path, part, options)
    sums = KeySums(rows, options)
    facts = []
    for unit in task.units:
        dump = _Dump(unit, sums, options)
        dump.read()
        facts.append(dump.facts)
        if dump.bad:
            yield rows.bad(dump.bad, dump.skipped_bytes)
        if dump.advice is not None:
            yield from _advice_rows(rows, unit.path, dump.advice)
    sums.note_missed(facts[0])
    yield rows.units(*facts)
    yield from sums.yield_rows()


class _Dump:
    """One dump, or a range of one, of a task, with its *facts*."""

    def __init__(self, unit: RdbUnit, sums: KeySums, options: TallyOptions) -> None:
        self.unit = unit
        self.options = options
        self.facts = UnitFacts()
        self.bad: list[DecodeError] = []
        self.skipped_bytes: int | None = None
        self._sums = sums
        self._input = sums.begin(unit.path, KnownLoads(sizes=True, expiry=True))
        self._reader = RdbUnitReader(unit, memory=options.memory, live=options.live)
        self.advice: AdviceTally | None = None
        self._records: RangeReader | HeldBytes | None = None
        if options.advice:
            self._records = self._reader.hold() if is_live(unit.path) else RangeReader(unit.path)

    def read(self) -> None:
        """Tally the keys that a server would load; raises DecodeError in strict mode, else keeps the error that ended the reading."""
        unit = self.unit
        try:
            self._read()
        except SplitError as error:
            self.facts.split_failed, self.advice = error.reason, None
        except DecodeError as error:
            if not self.options.permissive or is_live(unit.path):  # how much is missing nobody knows
                raise
            at_end = self._reader.skimmer.stored_crc is not None  # all was read: only its checksum is another
            self.bad.append(error)
            self.skipped_bytes = 0 if at_end else rest_of(unit.path, unit.end or unit.size, error, self._input.keys)
            note_unread(self.facts, self.bad, self.skipped_bytes)
        finally:
            if self._records is not None:
                self._records.close()
        self._note()

    def _read(self) -> None:
        sums, part, reader = self._sums, self._input, self._reader
        for batch in reader:
            if part.tally.ttl is None:
                part.set_time(reader.taken_at_ms or 0)
            loaded = self._without_hollow(batch)
            sums.add(part, loaded)
            if self._records is not None:
                self.advice = self.advice or advice_tally(reader.skimmer.head, self.options)
                if self.advice is not None:  # a model knows its server
                    self.advice.add_records(loaded, self._records)

    def _without_hollow(self, batch: KeyBatch) -> KeyBatch:
        """Set the collections without elements aside."""
        hollow = batch.hollow()
        if hollow.any():
            self.facts.hollow_key = self.facts.hollow_key or shown(batch.key(int(hollow.argmax())))
            self.facts.hollow_keys = (self.facts.hollow_keys or 0) + int(hollow.sum())
            batch = batch.where(~hollow)
        return batch

    def _note(self) -> None:
        """Fill *facts* and end the sums; call it after the last key."""
        facts, reader, skimmer = self.facts, self._reader, self._reader.skimmer
        facts.kind, facts.file_bytes = "rdb", skimmer.fed if is_live(self.unit.path) else self.unit.size
        if skimmer.databases:
            facts.records = sum(counts.keys for counts in skimmer.databases.values())
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
        self._sums.end(self._input, facts, self._node_id(), is_whole=self.unit.parts == 1)

    def _node_id(self) -> str | None:
        """Return the node of the dump; None without topology, and of a range: the others may hold more."""
        if self.options.topology is None or self.unit.parts > 1:
            return None
        return attribute(self.unit.path, self._sums.keys_by_owner(self._input), self.options.topology).node_id

    def _note_memory(self, model: MemoryModel | None) -> None:
        """Add to *facts* the model that measured the keys, and the server's memory in total."""
        facts, tally = self.facts, self._input.tally
        self._input.loads.memory = model is not None
        facts.memory_model = model_name(model)
        facts.unmeasured_keys = tally.unmeasured
        if model is not None:
            facts.memory_estimate = ESTIMATES[model.estimate]
            tables = keyspace_bytes(model, self._input.keys, int(tally.slots[:, 2].sum()))
            facts.memory_total = int(tally.slots[:, 3].sum()) + tables


def _advice_rows(rows: PartialRows, source: str, advice: AdviceTally) -> Iterator[pa.RecordBatch]:
    """The sums of *advice*, by kind, number and name, each in a column that is as wide."""
    for sums in advice.rows():
        yield rows.of(
            ADVICE, len(sums), source=pa.array([source] * len(sums), pa.string()),
            text=sums["kind"], offset=sums["number"], name=sums["name"], amounts=sums["amounts"],
        )  # fmt: skip
