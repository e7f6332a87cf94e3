"""The task of the key distribution: read units where Python runs, return partial sums.

Bulk bytes never cross to the JVM: a unit's keys are tallied in the worker and leave as at most 16384 slot rows, the largest keys,
and bounded tables of hash tags and prefixes (`schemas.interim.PARTIAL`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.facts import SplitError
from cluster_core.formats.rdb.grammar import KEY_TYPES
from cluster_core.kernels.columns import encoding_names, key_columns, known, memory_columns, part_of, type_names
from cluster_core.kernels.group_tally import GroupTally
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.key_list import batch_of_keys
from cluster_core.kernels.key_slots import key_slots
from cluster_core.kernels.rdb.key_twins import key_hashes
from cluster_core.kernels.slot_tally import SlotTally, TtlTally
from cluster_core.kernels.top_keys import TopKeys
from cluster_core.memory.model import ESTIMATES, MemoryModel, MemorySettings, model_name, model_of
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.bronze import KEY_ROWS
from schemas.interim import BAD, FLAW, LOG_DOUBT, PARTIAL, PREFIX, SLOT, TAG, TOP_OWNER, TOP_SLOT, TOP_TYPE, TTL, UNIT
from slotscope.reports.text import shown
from slotscope.sources.aof.files import AofUnit
from slotscope.sources.aof.state import AofStateReader, AofStateUnit
from slotscope.sources.aof.tally import AofTally
from slotscope.sources.key_lists import KeyListOptions, KeyListReader, KeyListUnit, KeyRows
from slotscope.sources.key_text import key_texts
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.rdb.soundness import FlawedKey, SoundnessCheck
from slotscope.sources.rdb.twins import find_twins
from slotscope.sources.unread_facts import list_facts, rest_of, unread_facts

Unit = RdbUnit | KeyListUnit | AofUnit | AofStateUnit
BAD_ROWS_MAX = 10_000
"""Bad records of one unit beyond this are counted in its last row, not listed."""

HASHES_MAX = 32 << 20
"""Keys of one unit among which those are sought that are there twice: 8 bytes each, and as much again at its end."""

TWINS_LISTED = FLAWS_SAID = 5
_UNKNOWN_TYPE = len(KEY_TYPES)


@dataclass(frozen=True, slots=True)
class TallyOptions:
    """What to tally; *owners* is the number of each slot's owner in *owner_ids*, 0 for nobody (both empty without topology)."""

    details: bool = True
    check_crc: bool = True
    permissive: bool = False
    deep: bool = False
    load_truncated: bool = True
    top: int = 100
    top_per_slot: int = 3
    groups_max: int = 65536
    separators: bytes = b":"
    prefix_depth: int = 3
    owners: tuple[int, ...] = ()
    owner_ids: tuple[str, ...] = ()
    lists: KeyListOptions = field(default_factory=KeyListOptions)
    memory: MemorySettings | None = None


@cache
def partial_schema() -> pa.Schema:
    """Return the Arrow schema of `PARTIAL`."""
    return to_arrow_schema(PARTIAL)


def tally_units(
    numbers: Iterator[pa.RecordBatch], units: list[Unit], options: TallyOptions
) -> Iterator[pa.RecordBatch]:
    """Read the units that the rows of *numbers* index, one after the other, and yield the partial rows of each.

    Raises DecodeError at the first bad byte; with ``options.permissive`` what was read before it is kept and the error becomes
    a row of kind `BAD`.
    """
    _settle_worker()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from _Tally(units[number], number, options).run()


@cache
def _settle_worker() -> None:
    """Once a worker process: take what is imported by now out of the garbage collector's sight.

    PySpark collects garbage after every task; with our modules loaded that takes 50 ms, as long as a small task.
    """
    gc.freeze()


def tally_rows(batches: Iterator[pa.RecordBatch], source: str, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Yield the partial rows of keys that are a DataFrame already: columns ``key`` and, if known, ``size`` and ``ops``."""
    yield from _Tally(KeyListUnit(source, "delta", 0), _partition_number(), options).run(batches)


def _partition_number() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def read_keys(numbers: Iterator[pa.RecordBatch], units: list[Unit], options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Yield every key of the units that the rows of *numbers* index, as rows of ``schemas.bronze.KEY_ROWS``.

    What cannot be read is left out with ``options.permissive``, and raises DecodeError otherwise.
    """
    schema = to_arrow_schema(KEY_ROWS)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            try:
                for keys in _key_batches(units[number], options):
                    source = pa.array([units[number].path], pa.string()).take(pa.array(np.zeros(len(keys), np.int8)))
                    yield pa.RecordBatch.from_arrays([*_with_texts(key_columns(keys)), source], schema=schema)
            except DecodeError:
                if not options.permissive:
                    raise


def _with_texts(columns: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """*columns* as `schemas.table.with_texts` has them."""
    for column in columns:
        yield column
        if pa.types.is_binary(column.type):
            yield key_texts(column)


def _key_batches(unit: Unit, options: TallyOptions) -> Iterator[KeyBatch]:
    if isinstance(unit, RdbUnit):
        for batch in RdbUnitReader(unit, check_crc=options.check_crc, memory=options.memory):
            hollow = batch.hollow()
            yield batch.where(~hollow) if hollow.any() else batch
        return
    if isinstance(unit, AofStateUnit):
        state = AofStateReader(unit, load_truncated=options.load_truncated)
        state.replay()
        yield from state
        return
    if isinstance(unit, AofUnit):
        return
    row = 0
    for rows in KeyListReader(unit, options.lists, permissive=options.permissive):
        yield batch_of_keys(rows.keys, rows.sizes, row)
        row += len(rows.keys)


def _kind_of(unit: Unit) -> str:
    if isinstance(unit, KeyListUnit):
        return unit.kind
    return "rdb" if isinstance(unit, RdbUnit) else "aof"


class _Tally:
    """The sums of one unit; *part* is its number within the snapshot."""

    def __init__(self, unit: Unit, part: int, options: TallyOptions) -> None:
        self.unit = unit
        self.part = part
        self.options = options
        self.keys = 0
        self.facts: dict[str, str] = {}
        self.bad: list[DecodeError] = []
        self.skipped_bytes: int | None = None
        self.slots = SlotTally()
        self.ops: NDArray[np.int64] | None = None
        self.declared = np.full(SLOT_COUNT, NONE, np.int64)
        self._knows_memory = False
        self.sized = self._tells_expiry = isinstance(unit, RdbUnit | AofStateUnit)
        self.ttl: TtlTally | None = None
        self._hashes: list[NDArray[np.uint64]] = []
        self._check: SoundnessCheck | None = None
        self._owner_of = owners = np.array(options.owners or [0] * SLOT_COUNT, np.int64)
        self._owner_ids = pa.array([None, *options.owner_ids], pa.string())
        if options.details:
            self.top_slot = TopKeys(SLOT_COUNT, options.top_per_slot)
            self.top_type = TopKeys(_UNKNOWN_TYPE + 1, options.top)
            self.top_owner = TopKeys(int(owners.max()) + 1, options.top if options.owners else 0)
            self.tags = GroupTally(options.groups_max)
            self.prefixes = GroupTally(options.groups_max)

    def run(self, batches: Iterator[pa.RecordBatch] | None = None) -> Iterator[pa.RecordBatch]:
        """Read, tally and yield the rows; *batches* are the unit's rows if Spark has read them."""
        if batches is not None:
            self._read_batches(batches)
        elif isinstance(self.unit, RdbUnit):
            self._read_rdb(self.unit)
        elif isinstance(self.unit, KeyListUnit):
            self._read_list(self.unit)
        elif isinstance(self.unit, AofStateUnit):
            yield from self._read_state(self.unit)
        elif isinstance(self.unit, AofUnit):
            yield from AofTally(self.unit, self.options, self._record).run()
            return
        yield from self._rows()

    def _read_state(self, unit: AofStateUnit) -> Iterator[pa.RecordBatch]:
        """Replay a log; in permissive mode what stands before an error counts, and the log's load says what is wrong."""
        reader = AofStateReader(unit, load_truncated=self.options.load_truncated)
        try:
            reader.replay()
        except DecodeError as error:
            if not self.options.permissive:
                raise
            self.facts["replayed_to"] = f"{error.source}: offset {error.offset}"
            self.facts |= unread_facts([error], reader.rest_after(error))
        self.ttl = None if reader.taken_at_ms is None else TtlTally(reader.taken_at_ms)
        self.ops = np.zeros(SLOT_COUNT, np.int64)
        for batch in reader:
            self._add(batch)
        self.facts |= reader.facts()
        doubts = reader.uncertain
        names = pa.array([row.key for row in doubts], pa.binary())
        yield self._record(
            LOG_DOUBT, len(doubts), name=names, db=pa.array([row.db for row in doubts], pa.int32()),
            slot=pa.array(key_slots(names).astype(np.int64)), text=pa.array([row.why for row in doubts], pa.string()),
        )  # fmt: skip

    def _read_rdb(self, unit: RdbUnit) -> None:
        reader = RdbUnitReader(unit, check_crc=self.options.check_crc, memory=self.options.memory)
        skimmer = reader.skimmer
        check = self._check = SoundnessCheck(unit.path) if self.options.deep else None
        try:
            for batch in reader:
                if self.ttl is None:
                    self.ttl = TtlTally(reader.taken_at_ms or 0)
                self._add(self._without_hollow(batch))
                if check is not None:
                    check.add(batch, skimmer.head)
        except SplitError as error:
            self.facts["split_failed"] = error.reason
        except DecodeError as error:
            if not self.options.permissive:
                raise
            self.bad.append(error)
            at_end = skimmer.stored_crc is not None  # all was read: only the checksum is not that of its bytes
            self.skipped_bytes = 0 if at_end else rest_of(unit.path, unit.end or unit.size, error, self.keys)
            self.facts |= unread_facts(self.bad, self.skipped_bytes)
        finally:
            if check is not None:
                check.close()
        if skimmer.databases:
            self.facts["records"] = str(sum(counts.keys for counts in skimmer.databases.values()))
        self._note_twins(unit)
        if check is not None:
            self._note_flaws(check)
        self.declared = skimmer.declared_slot_keys
        if (self.declared != NONE).any():
            self.facts["slot_info"] = "true"
        self.facts |= reader.facts
        if reader.head is not None:
            self.facts["rdb"] = f"{reader.head.dialect} {reader.head.version}"
            if self.options.memory is not None:
                self._note_memory(model_of(reader.head, self.options.memory))
        if skimmer.stored_crc is not None:
            self.facts["stored_crc"] = f"{skimmer.stored_crc:016x}"
        self.facts["functions"] = str(skimmer.function_count)
        self.facts["trailing_bytes"] = str(reader.trailing_bytes)

    def _without_hollow(self, batch: KeyBatch) -> KeyBatch:
        """Set the collections without elements aside, and remember what tells the other keys apart."""
        hollow = batch.hollow()
        if hollow.any():
            self.facts.setdefault("hollow_key", shown(batch.key(int(hollow.argmax()))))
            self.facts["hollow_keys"] = str(int(self.facts.get("hollow_keys", "0")) + int(hollow.sum()))
            batch = batch.where(~hollow)
        if self.keys <= HASHES_MAX:
            self._hashes.append(key_hashes(batch))
        return batch

    def _note_twins(self, unit: RdbUnit) -> None:
        """Say which keys are in the unit more than once."""
        if self.keys > HASHES_MAX:
            self.facts["twins_sought"] = str(sum(map(len, self._hashes)))
        found = find_twins([unit], self._hashes, listed_max=TWINS_LISTED)
        self._hashes.clear()
        if found is not None:
            self.facts["twin_keys"] = str(found.count)
            self.facts["twins"] = "\n".join(
                f"key {shown(twin.key)} of database {twin.db} at offsets {twin.first[1]} and {twin.second[1]}"
                for twin in found.twins
            )

    def _note_flaws(self, check: SoundnessCheck) -> None:
        """Say what decoding every value found."""
        counts = {"decoded_values": check.decoded, "flawed_values": check.flawed, "undecoded_values": check.too_large}
        self.facts |= {name: str(count) for name, count in counts.items()}
        self.facts["flaws"] = "\n".join(
            f"key {shown(flawed.key)} (slot {flawed.slot}): {flawed.found.detail}"
            + (f"; the value has {flawed.found.real} elements" if flawed.elements != flawed.found.real >= 0 else "")
            for flawed in check.flaws[:FLAWS_SAID]
        )

    def _note_memory(self, model: MemoryModel | None) -> None:
        """Say by which model the keys were measured, and what the server would hold in all."""
        self._knows_memory = model is not None
        self.facts["memory_model"] = model_name(model)
        self.facts["unmeasured_keys"] = str(self.slots.unmeasured)
        if model is not None:
            self.facts["memory_estimate"] = ESTIMATES[model.estimate]
            tables = model.keyspace_bytes(self.keys, int(self.slots.slots[:, 2].sum()))
            self.facts["memory_total"] = str(int(self.slots.memory.sum()) + tables)

    def _read_list(self, unit: KeyListUnit) -> None:
        self._read_rows(KeyListReader(unit, self.options.lists, permissive=self.options.permissive))

    def _read_batches(self, batches: Iterator[pa.RecordBatch]) -> None:
        unit = KeyListUnit(self.unit.path, "parquet", 0)
        reader = KeyListReader(unit, self.options.lists, permissive=self.options.permissive)
        self._read_rows(reader, reader.rows_of(batches))

    def _read_rows(self, reader: KeyListReader, rows_of: Iterator[KeyRows] | None = None) -> None:
        try:
            for rows in reader if rows_of is None else rows_of:
                self._add_rows(rows)
        except DecodeError as error:
            if not self.options.permissive:
                raise
            reader.bad.append(error)
            reader.broke_off = True
        self.bad = reader.bad
        self.facts |= list_facts(reader, self.keys)

    def _add_rows(self, rows: KeyRows) -> None:
        self.sized |= rows.sizes is not None
        if self.options.details:
            batch = batch_of_keys(rows.keys, rows.sizes, self.keys)
            slots = batch.slot
            self._add(batch)
        else:
            slots = key_slots(rows.keys)
            self.keys += len(slots)
            self.slots.add_slots(slots, rows.sizes)
        if rows.ops is not None:
            if self.ops is None:
                self.ops = np.zeros(SLOT_COUNT, np.int64)
            np.add.at(self.ops, slots, np.maximum(rows.ops, 0))

    def _add(self, batch: KeyBatch) -> None:
        options = self.options
        self.keys += len(batch)
        self.slots.add(batch)
        if not options.details:
            return
        if self.ttl is not None:
            self.ttl.add(batch)
        if self.sized:
            self.top_slot.add(batch, batch.slot.astype(np.int64))
            self.top_type.add(batch, np.minimum(batch.type, _UNKNOWN_TYPE).astype(np.int64))
            if options.owners:
                self.top_owner.add(batch, self._owner_of[batch.slot])
        self.tags.add_tags(batch)
        self.prefixes.add_prefixes(batch, options.separators, options.prefix_depth)

    # rows

    def _rows(self) -> Iterator[pa.RecordBatch]:
        yield self._slot_rows()
        yield self._unit_row()
        if self.bad:
            yield self._bad_rows()
        if self._check is not None and self._check.flaws:
            yield self._flaw_rows(self._check.flaws)
        if not self.options.details:
            return
        for kind, top in ((TOP_SLOT, self.top_slot), (TOP_TYPE, self.top_type), (TOP_OWNER, self.top_owner)):
            yield self._top_rows(kind, top)
        yield self._group_rows(TAG, self.tags)
        yield self._group_rows(PREFIX, self.prefixes)
        if self.ttl is not None:
            yield self._ttl_rows(self.ttl)

    def _record(self, kind: int, count: int, **columns: Any) -> pa.RecordBatch:
        """A batch of *count* rows; a column not given is null."""
        unit = self.unit
        if "slot" in columns:
            columns["owner_id"] = self._owner_ids.take(pa.array(self._owner_of[columns["slot"].to_numpy()]))
        texts = {f"{name}_text": key_texts(columns[name]) for name in ("name", "hash_tag") if name in columns}
        given = {
            "kind": pa.array(np.full(count, kind, np.int32)),
            "source": pa.array([unit.log if isinstance(unit, AofUnit) else unit.path] * count, pa.string()),
            "part": pa.array(np.full(count, self.part, np.int32)),
            **columns,
            **texts,
        }
        schema = partial_schema()
        arrays = [
            given[name].cast(kind_) if name in given else pa.nulls(count, kind_)
            for name, kind_ in zip(schema.names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _slot_rows(self) -> pa.RecordBatch:
        present = np.flatnonzero((self.slots.slots[:, 0] > 0) | (self.declared > 0))
        keys, sizes, expires = (self.slots.slots[present, column] for column in range(3))
        return self._record(
            SLOT, len(present),
            slot=pa.array(present), keys=pa.array(keys),
            **({"serialized_bytes": pa.array(sizes)} if self.sized else {}),
            **({"expires": pa.array(expires)} if self._tells_expiry else {}),
            **({"ops": pa.array(self.ops[present])} if self.ops is not None else {}),
            **({"memory_bytes": pa.array(self.slots.memory[present])} if self._knows_memory else {}),
            number=pa.array(self.declared[present]),
        )  # fmt: skip

    def _unit_row(self) -> pa.RecordBatch:
        errors: dict[str, str] = {}
        if self.options.details:
            errors = {
                "missed_tag_keys": str(self.tags.missed_keys), "missed_tag_bytes": str(self.tags.missed_bytes),
                "missed_prefix_keys": str(self.prefixes.missed_keys),
                "missed_prefix_bytes": str(self.prefixes.missed_bytes),
                "untracked_keys": str(self.tags.untracked_keys + self.prefixes.untracked_keys),
            }  # fmt: skip
        if self.sized:
            errors["knows_serialized_bytes"] = "true"
        if self._tells_expiry:
            errors["knows_expires"] = "true"
        if self.ops is not None:
            errors["knows_ops"] = "true"
        if self._knows_memory:
            errors["knows_memory_bytes"] = "true"
        facts = pa.array([list((self.facts | errors).items())], pa.map_(pa.string(), pa.string()))
        return self._record(
            UNIT, 1,
            keys=pa.array([self.keys]), facts=facts, text=pa.array([_kind_of(self.unit)]),
            serialized_bytes=pa.array([0 if isinstance(self.unit, AofStateUnit) else self.unit.size]),
        )  # fmt: skip

    def _bad_rows(self) -> pa.RecordBatch:
        listed = self.bad[:BAD_ROWS_MAX]
        reasons = [error.reason for error in listed]
        if len(self.bad) > BAD_ROWS_MAX:
            reasons[-1] = f"{len(self.bad) - BAD_ROWS_MAX + 1} further bad records are not listed"
        return self._record(
            BAD, len(listed),
            offset=pa.array([error.offset for error in listed], pa.int64()), text=pa.array(reasons),
            serialized_bytes=pa.array([self.skipped_bytes] * len(listed), pa.int64()),
        )  # fmt: skip

    def _flaw_rows(self, flaws: list[FlawedKey]) -> pa.RecordBatch:
        key, db, slot, type_, encoding, offset, elements, found = zip(*flaws, strict=True)
        words = [[("flaw", one.flaw.value)] for one in found]
        return self._record(
            FLAW, len(flaws),
            name=pa.array(key, pa.binary()), db=pa.array(db, pa.int32()), slot=pa.array(slot, pa.int64()), type=type_names(np.array(type_)),
            encoding=encoding_names(np.array(encoding)), offset=pa.array(offset, pa.int64()), elements=known(np.array(elements), pa.int64()),
            keys=known(np.array([one.real for one in found]), pa.int64()), text=pa.array([one.detail for one in found]),
            facts=pa.array(words, pa.map_(pa.string(), pa.string())),
        )  # fmt: skip

    def _top_rows(self, kind: int, top: TopKeys) -> pa.RecordBatch:
        facts = top.facts()
        names = top.keys()
        group, db, slot, tag_start, tag_length, type_, encoding, elements, size, expire, idle, freq, offset = facts.T[
            :13
        ]
        memory_bytes, estimate = memory_columns(facts.T[13], facts.T[14], len(facts))
        return self._record(
            kind, len(facts),
            name=names, hash_tag=part_of(names, tag_start, tag_length), slot=pa.array(slot), db=pa.array(db), number=pa.array(group),
            type=type_names(type_), encoding=encoding_names(encoding), elements=known(elements, pa.int64()),
            serialized_bytes=known(size, pa.int64()), expire_at_ms=known(expire, pa.int64()),
            idle_s=known(idle, pa.int64()), freq=known(freq, pa.int16()), offset=known(offset, pa.int64()),
            memory_bytes=memory_bytes, estimate=estimate,
        )  # fmt: skip

    def _group_rows(self, kind: int, tally: GroupTally) -> pa.RecordBatch:
        keys, sizes, expires, keys_error, bytes_error, depth = tally.counts().T
        names = tally.names()
        slots = {"slot": pa.array(key_slots(names))} if kind == TAG else {}
        return self._record(
            kind, len(names),
            name=names, keys=pa.array(keys), expires=pa.array(expires), keys_error=pa.array(keys_error),
            serialized_bytes=pa.array(sizes), bytes_error=pa.array(bytes_error), number=pa.array(depth), **slots,
        )  # fmt: skip

    def _ttl_rows(self, ttl: TtlTally) -> pa.RecordBatch:
        keys, sizes = ttl.buckets.T
        return self._record(
            TTL, len(keys),
            number=pa.array(np.arange(len(keys))), keys=pa.array(keys), serialized_bytes=pa.array(sizes),
        )  # fmt: skip
