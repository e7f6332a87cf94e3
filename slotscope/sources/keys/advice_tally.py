"""Every value of a dump measured under all conditions, as sums that add up over dumps: what `slotscope advise` is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial as bind
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.advice.changes import LIST_SETTING, LIST_SIZES, SETTINGS, VALUE_BYTES_MAX, Setting, TextSums
from cluster_core.advice.conditions import conditions_for
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.kernels.keys.key_hashes import key_hashes
from cluster_core.kernels.keys.slot_tally import add_by_group
from cluster_core.memory.model import MemoryModel, model_of
from cluster_core.rdb import shapes
from cluster_core.rdb.grammar import HASHTABLE, KEY_TYPES, LIST, SKIPLIST, STRING
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.measure import (
    Measured,
    ValueMeasure,
    compressed_sizes,
    sample_shifts,
    sampled_columns,
    texts_of,
)
from cluster_core.rdb.memory_sizes import fill_allocations, model_array
from cluster_core.rdb.shapes import fill_entries
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import ADVICE_PARTIAL
from slotscope.sources.keys.partial_rows import TallyOptions, amount_lists

SPAN_BYTES = 32 << 20
"""Records are read in pieces of about this many bytes; a larger record than `RECORD_BYTES_MAX` counts as it is now."""
RECORD_BYTES_MAX = 256 << 20
BUCKET_VALUE_MAX = BUCKET_FIELD_MAX = 64
TEXT_MIN = BUCKET_VALUE_MAX + 1
"""Shorter values are not worth compressing; what a bucket would hold is none of these."""
NO_PREFIX = b""
"""What keys without a separator stand under."""
_ONE = np.ones(1, np.int64)
_ENTRY_OVERHEAD = 8
"""What a server adds to an element when it asks whether a list's node has room for it (``SIZE_ESTIMATE_OVERHEAD``)."""
_LISTPACK_HEAD_BYTES = 7

BEHIND = (
    "bucket_keys", "bucket_now", "bucket_payload", "bucket_squares", "lzf_saving", *TextSums._fields,
)  # fmt: skip
"""Amounts of a prefix: bytes now, under each condition, keys that count as now, what each condition saves of keys that a bucket would hold,
and these.
"""


class Records(Protocol):
    """The bytes of the records that were skimmed."""

    def read(self, start: int, count: int) -> bytes:
        """Return the *count* bytes from *start* on."""


class AdviceTally:
    """The sums of one unit of *size* bytes (0: not known), which begins with *head*."""

    def __init__(self, model: MemoryModel, head: RdbHead, options: TallyOptions, *, size: int = 0) -> None:
        self.conditions = conditions_for(model)
        conditions = len(self.conditions)
        self._size, self._start = size, -1
        self._measure, self._options = ValueMeasure(head, self.conditions), options
        self.model, self._layout = model, model_array(model)
        self._slots = np.zeros((SLOT_COUNT, conditions + 2), np.int64)
        self._types = np.zeros((256, conditions + 2), np.int64)
        self._prefixes = GroupTally(options.groups_max, 2 + 2 * conditions + len(BEHIND))
        self._curves = {setting.name: np.zeros((len(setting.tried), 3 + conditions), np.int64) for setting in SETTINGS}
        self._lists = np.zeros((len(LIST_SIZES), 3 + conditions), np.int64)
        self._keys = 0
        self._keys_apart, self._apart = 0, np.zeros((1, 2 + 2 * conditions + len(BEHIND)), np.int64)
        self._separator = np.zeros(256, np.bool_)
        self._separator[np.frombuffer(options.separators, np.uint8)] = True

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
        self._keys += len(batch)
        now, result, is_known = self.measured(batch, data, begin)
        memory = result.memory
        data = np.empty(0, np.uint8) if data is None else data
        both = np.column_stack((now, memory, ~is_known)).astype(np.int64, copy=False)
        add_by_group(batch.slot, both, self._slots)
        add_by_group(np.minimum(batch.type, 255), both, self._types)
        saved = now[:, None] - memory
        self._add_curves(batch, result, is_known, saved)
        self._add_lists(batch, result, is_known, saved)
        self._add_prefixes(batch, result, is_known, saved, both, bind(texts_of, result, batch, data, begin))

    def measured(
        self, batch: KeyBatch, data: NDArray[np.uint8] | None, begin: int
    ) -> tuple[NDArray[np.int64], Measured, NDArray[np.bool_]]:
        """Return of each key of *batch* its bytes now, its measures, and whether they are known; else it counts under all conditions as now."""
        assert batch.memory_bytes is not None
        measure = self._measure
        result = measure.unmeasured(len(batch)) if data is None else measure.measure(batch, data, begin)
        now = np.maximum(batch.memory_bytes, 0)
        is_known = (result.shapes[:, shapes.IS_KNOWN] > 0) & (batch.memory_bytes >= 0)
        result.memory[~is_known] = now[~is_known, None]
        return now, result, is_known

    def _add_curves(
        self, batch: KeyBatch, result: Measured, is_known: NDArray[np.bool_], saved: NDArray[np.int64]
    ) -> None:
        """Count tables that a wider limit would pack: those that no other limit keeps from it."""
        tables = is_known & np.isin(batch.encoding, (HASHTABLE, SKIPLIST))
        rows = np.flatnonzero(tables)
        if not len(rows):
            return
        shape, types = result.shapes[rows], batch.type[rows]
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

    def _add_lists(
        self, batch: KeyBatch, result: Measured, is_known: NDArray[np.bool_], saved: NDArray[np.int64]
    ) -> None:
        """Estimate lists of several nodes as if each node were as full as a larger limit allows."""
        shape = result.shapes
        chosen = is_known & (batch.type == LIST) & (shape[:, shapes.NODES] > 1)
        chosen &= shape[:, shapes.LONGEST] < min(LIST_SIZES.values())
        payload, count, held = (shape[chosen, at] for at in (shapes.PAYLOAD, shapes.ELEMENTS, shapes.PACKED))
        for step, limit in enumerate(LIST_SIZES.values() if len(held) else ()):
            filled = (
                limit - _ENTRY_OVERHEAD - payload / np.maximum(count, 1) / 2
            )  # half an element, at an average, finds no room
            full = (payload // filled).astype(np.int64)
            rest = np.maximum(payload - (full * filled).astype(np.int64), 0)
            nodes = full * self._node_bytes(filled.astype(np.int64)) + np.where(rest > 0, self._node_bytes(rest), 0)
            self._lists[step, :2] += len(held), (held - nodes).sum()
            self._lists[step, 2] = limit
            self._lists[step, 3:] += saved[chosen].sum(axis=0)

    def _node_bytes(self, payload: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of a list's nodes whose elements take *payload*."""
        whole = payload + _LISTPACK_HEAD_BYTES
        layout = self.model.layout
        return layout.list_node + (whole if layout.packed_exact else self._allocated(whole, are_strings=False))

    def _allocated(self, sizes: NDArray[np.int64], *, are_strings: bool = True) -> NDArray[np.int64]:
        """Bytes of strings of *sizes* in memory, or of what is as it is."""
        result = np.empty(len(sizes), np.int64)
        fill_allocations(self._layout, sizes, are_strings, result)
        return result

    def _add_prefixes(
        self,
        batch: KeyBatch,
        result: Measured,
        is_known: NDArray[np.bool_],
        saved: NDArray[np.int64],
        both: NDArray[np.int64],
        texts_of_rows: Callable[[NDArray[np.bool_]], Iterator[memoryview]],
    ) -> None:
        lengths = np.diff(batch.key_offsets).astype(np.int64)
        prefix = self._first_prefixes(batch, lengths)
        raw, lzf = result.shapes[:, shapes.RAW_BYTES], result.shapes[:, shapes.LZF_BYTES]
        is_text = is_known & (batch.type == STRING)
        fields = lengths - prefix
        buckets = (
            is_text & (batch.expire_at_ms < 0) & (prefix > 0) & (raw <= BUCKET_VALUE_MAX) & (fields <= BUCKET_FIELD_MAX)
        )
        ends = batch.key_offsets[1:].astype(np.int64)
        payload = np.empty(len(batch), np.int64)
        fill_entries(batch.key_data, ends - fields, ends, payload)
        payload += result.shapes[:, shapes.PAYLOAD]
        texts = is_text & (raw >= TEXT_MIN)
        held, lzf_saving = np.zeros((2, len(batch)), np.int64)
        held[texts] = self._allocated(raw[texts])
        packed = texts & (lzf > 0)
        lzf_saving[packed] = held[packed] - self._allocated(lzf[packed])
        shifts = self._shifts(batch)
        chances = (1 << shifts).astype(np.uint64)
        sampled = texts & ((key_hashes(batch) & (chances - np.uint64(1)) == 0) | (held >= VALUE_BYTES_MAX))
        sizes = np.array(compressed_sizes(texts_of_rows(sampled)), np.int64)
        saved_by_zstd = np.maximum(held[sampled] - self._allocated(sizes), 0)
        behind = both.shape[1] + saved.shape[1]
        amounts = np.zeros((len(batch), behind + len(BEHIND)), np.int64)
        amounts[:, : both.shape[1]] = both
        amounts[buckets, both.shape[1] : behind] = saved[buckets]
        in_bucket = np.column_stack((buckets, both[:, 0], payload, payload**2))[buckets]
        amounts[buckets, behind : behind + 4] = in_bucket
        amounts[:, behind + 4], amounts[:, behind + 5], amounts[:, behind + 6] = lzf_saving, texts, held
        amounts[sampled, behind + 7 :] = sampled_columns(held[sampled], saved_by_zstd, shifts[sampled])
        self._prefixes.add_prefixes(batch, self._options.separators, 1, amounts)
        self._apart += amounts[prefix == 0].sum(axis=0)
        self._keys_apart += int((prefix == 0).sum())

    def _shifts(self, batch: KeyBatch) -> NDArray[np.int64]:
        """How rarely values of *batch* are compressed."""
        if self._start < 0:
            self._start = int(batch.offset[0])
        return sample_shifts(batch.offset - self._start, self._size)

    def _first_prefixes(self, batch: KeyBatch, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of each key up to its first separator, 0 where it has none."""
        data = batch.key_data[: int(batch.key_offsets[-1])]
        places = np.flatnonzero(self._separator[data])
        result = np.searchsorted(places, batch.key_offsets[:-1])
        ends = np.append(places, len(data) + 1)[result] + 1 - batch.key_offsets[:-1]
        return np.where(ends <= lengths, ends, 0).astype(np.int64)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the sums as rows of `ADVICE_PARTIAL`."""
        used = np.flatnonzero(self._slots.any(axis=1))
        yield _rows("slot", used, self._slots[used])
        types = np.flatnonzero(self._types.any(axis=1))
        yield _rows("type", types, self._types[types])
        yield _rows("keys", _ONE * self._keys, np.zeros((1, 1), np.int64))
        yield _rows("prefix", self._prefixes.counts()[:, 0], self._prefixes.amounts(), self._prefixes.names())
        yield _rows("prefix", _ONE * self._keys_apart, self._apart, pa.array([NO_PREFIX]))
        for setting in SETTINGS:
            yield _curve_rows(setting, self._curves[setting.name])
        yield _rows(
            "curve", np.array(list(LIST_SIZES)), self._lists, pa.array([LIST_SETTING.encode()] * len(LIST_SIZES))
        )


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


def _curve_rows(setting: Setting, sums: NDArray[np.int64]) -> pa.RecordBatch:
    return _rows("curve", np.array(setting.tried), sums, pa.array([setting.name.encode()] * len(sums)))


def advice_tally(head: RdbHead, options: TallyOptions, *, size: int = 0) -> AdviceTally | None:
    """Return the tally of a file of *size* bytes (0: not known) that begins with *head*; None where no model knows the memory of its server."""
    model = None if options.memory is None else model_of(head, options.memory)
    return None if model is None else AdviceTally(model, head, options, size=size)


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
