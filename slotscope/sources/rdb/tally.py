"""The task of some dumps, or of a range of one: their keys as sums, and what is wrong with each."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.load.unread import attribute
from cluster_core.memory.model import ESTIMATES, MemoryModel, model_name, model_of
from cluster_core.rdb.head import SplitError
from cluster_core.rdb.memory_sizes import keyspace_bytes
from schemas.interim import ADVICE, UnitFacts
from slotscope.runtime.stores import is_live
from slotscope.runtime.text import shown
from slotscope.sources.held_bytes import HeldBytes
from slotscope.sources.keys.advice_tally import AdviceTally, advice_tally
from slotscope.sources.keys.partial_rows import PartialRows, TallyOptions, note_unread, rest_of
from slotscope.sources.keys.sums import KeySums, KnownLoads
from slotscope.sources.rdb.files import RangeReader, RdbTask, RdbUnit, RdbUnitReader


def tally_dumps(task: RdbTask, part: int, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Read the dumps of one task, one after the other, and yield their sums and what is wrong with each; raises DecodeError in strict mode."""
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
    """One dump, or a range of one, of a task; *facts* say what was found in it."""

    def __init__(self, unit: RdbUnit, sums: KeySums, options: TallyOptions) -> None:
        self.unit = unit
        self.options = options
        self.facts = UnitFacts()
        self.bad: list[DecodeError] = []
        self.skipped_bytes: int | None = None
        self._sums = sums
        self._one = sums.begin(unit.path, KnownLoads(sizes=True, expiry=True))
        self._reader = RdbUnitReader(unit, memory=options.memory, live=options.live)
        self.advice: AdviceTally | None = None
        self._records: RangeReader | HeldBytes | None = None
        if options.advice:
            self._records = self._reader.hold() if is_live(unit.path) else RangeReader(unit.path)

    def read(self) -> None:
        """Tally the keys that a server would load; raises DecodeError in strict mode, and keeps what ended the reading otherwise."""
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
            self.skipped_bytes = 0 if at_end else rest_of(unit.path, unit.end or unit.size, error, self._one.keys)
            note_unread(self.facts, self.bad, self.skipped_bytes)
        finally:
            if self._records is not None:
                self._records.close()
        self._note()

    def _read(self) -> None:
        sums, part, reader = self._sums, self._one, self._reader
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
        """Say what was found, once all is read."""
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
        self._sums.end(self._one, facts, self._node_id(), is_whole=self.unit.parts == 1)

    def _node_id(self) -> str | None:
        """The node whose dump it is; None where no topology tells, and of a range: the others may hold more."""
        if self.options.topology is None or self.unit.parts > 1:
            return None
        return attribute(self.unit.path, self._sums.keys_by_owner(self._one), self.options.topology).node_id

    def _note_memory(self, model: MemoryModel | None) -> None:
        """Say by which model the keys were measured, and what the server would hold in all."""
        facts, tally = self.facts, self._one.tally
        self._one.loads.memory = model is not None
        facts.memory_model = model_name(model)
        facts.unmeasured_keys = tally.unmeasured
        if model is not None:
            facts.memory_estimate = ESTIMATES[model.estimate]
            tables = keyspace_bytes(model, self._one.keys, int(tally.slots[:, 2].sum()))
            facts.memory_total = int(tally.slots[:, 3].sum()) + tables


def _advice_rows(rows: PartialRows, source: str, advice: AdviceTally) -> Iterator[pa.RecordBatch]:
    """The sums of *advice*, by kind, number and name, each in a column that is as wide."""
    for sums in advice.rows():
        yield rows.of(
            ADVICE, len(sums), source=pa.array([source] * len(sums), pa.string()),
            text=sums["kind"], offset=sums["number"], name=sums["name"], amounts=sums["amounts"],
        )  # fmt: skip
