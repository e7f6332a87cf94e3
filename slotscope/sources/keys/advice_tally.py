"""Every value of a dump measured under all conditions, as sums that add up over dumps: what `slotscope advise` is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.advice.changes import SETTINGS, conditions_for
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.kernels.keys.slot_tally import add_by_group
from cluster_core.memory.model import MemoryModel, model_of
from cluster_core.rdb import shapes
from cluster_core.rdb.grammar import HASHTABLE, KEY_TYPES, SKIPLIST
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.shapes import ValueMeasure
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import ADVICE_PARTIAL
from slotscope.sources.keys.partial_rows import TallyOptions, amount_lists

SPAN_BYTES = 32 << 20
"""Records are read in pieces of about this many bytes; a larger record than `RECORD_BYTES_MAX` counts as it is now."""
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
        """Measure the keys of *batch*; those whose records are too large count as they are."""
        is_large = batch.serialized_bytes > RECORD_BYTES_MAX
        if is_large.any():
            self.add(batch.where(is_large), None, 0)
            batch = batch.where(~is_large)
        for part, begin, end in _spans(batch):
            self.add(part, np.frombuffer(records.read(begin, end - begin), np.uint8), begin)

    def add(self, batch: KeyBatch, data: NDArray[np.uint8] | None, begin: int) -> None:
        """Measure the keys of *batch*, whose records are in *data*, which begins at *begin* in the file; without it they count as they are."""
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
