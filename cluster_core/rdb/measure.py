"""Batches of keys with their records: measured under several conditions at once, and compressed one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.advice.changes import UNIT_BITS, VALUE_BYTES_MAX
from cluster_core.advice.conditions import Condition
from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.memory.model import UNMEASURED, MemorySettings
from cluster_core.rdb import shapes
from cluster_core.rdb.atoms import expand
from cluster_core.rdb.grammar import STREAM
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.memory_sizes import model_array
from cluster_core.rdb.shapes import ACCUMULATED, PARTS
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.skim_state import Tables, grammar_array
from cluster_core.rdb.value_state import STATE_LENGTH

SCRATCH_BYTES_MAX = 256 << 20
"""A packed value that expands to more is not measured."""
_SCRATCH_BYTES = 1 << 16


class Measured(NamedTuple):
    """Of each key: *memory* int64[keys, conditions], its *shapes* int64[keys, `value_shapes.SHAPES`]."""

    memory: NDArray[np.int64]
    shapes: NDArray[np.int64]


class ValueMeasure:
    """Measures values of one file, whose head is *head*, under *conditions*, the dump's own first."""

    def __init__(self, head: RdbHead, conditions: Sequence[Condition]) -> None:
        models = np.array([model_array(item.model) for item in conditions])
        rules = np.array([item.rules() for item in conditions], np.int64)
        self._conditions = grammar_array(head.dialect, head.version, conditions[0].model), models, rules
        self._head = head
        self._scratch = np.empty(_SCRATCH_BYTES, np.uint8)
        self._walk = np.zeros(STATE_LENGTH, np.int64)
        self._sums = np.zeros(ACCUMULATED, np.int64), np.zeros((len(conditions), PARTS), np.int64)

    def unmeasured(self, count: int) -> Measured:
        """What is said of *count* keys of which nothing is known."""
        shape = np.zeros((count, shapes.SHAPES), np.int64)
        return Measured(np.zeros((count, len(self._conditions[1])), np.int64), shape)

    def measure(self, batch: KeyBatch, data: NDArray[np.uint8], begin: int) -> Measured:
        """Measure the keys of *batch*, whose records lie in *data*; its first byte is that at *begin* in the file."""
        count = len(batch)
        result = self.unmeasured(count)
        starts = batch.offset - begin
        records = starts, starts + batch.serialized_bytes
        keys = np.diff(batch.key_offsets).astype(np.int64), batch.expire_at_ms, batch.encoding, batch.elements
        first = 0
        while first < count:
            work = self._scratch, self._walk, *self._sums
            first, need = shapes.measure_values(first, data, records, keys, self._conditions, work, tuple(result))
            if need > SCRATCH_BYTES_MAX:
                first += 1
            elif need > len(self._scratch):
                self._scratch = np.empty(2 * int(need), np.uint8)
        self._measure_streams(batch, data, records, result)
        return result

    def _measure_streams(
        self, batch: KeyBatch, data: NDArray[np.uint8], records: tuple[NDArray[np.int64], ...], result: Measured
    ) -> None:
        rows = np.flatnonzero(batch.type == STREAM)
        if not len(rows):
            return
        begins, ends = (places[rows].tolist() for places in records)
        pieces = [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
        grammar, models, _ = self._conditions
        sizes = measure_streams(self._head, np.concatenate(pieces), len(rows), grammar, models)
        result.memory[rows] = sizes
        result.shapes[rows, shapes.IS_KNOWN] = (sizes >= 0).all(axis=1)


def texts_of(
    result: Measured, batch: KeyBatch, data: NDArray[np.uint8], begin: int, chosen: NDArray[np.bool_]
) -> Iterator[memoryview]:
    """Yield the strings of the *chosen* keys of *batch*, whose records lie in *data* as `ValueMeasure.measure` has them: each ends a record."""
    ends = (batch.offset + batch.serialized_bytes)[chosen] - begin
    raw, lzf = (result.shapes[chosen, at] for at in (shapes.RAW_BYTES, shapes.LZF_BYTES))
    for end, size, packed in zip(ends.tolist(), raw.tolist(), lzf.tolist(), strict=True):
        if not packed:
            yield data[end - size : end].data
            continue
        out = np.empty(size, np.uint8)
        expand(data, end - packed, end, out, 0, size)
        yield out.data


_START = 1
"""Records without a file's beginning do not begin at 0."""


class _OneModelSkimmer(RdbSkimmer):
    """Skims *count* records of a file whose head is *head*, and measures them by one model, whatever server wrote them."""

    def __init__(self, head: RdbHead, count: int, size: int, tables: Tables) -> None:
        self._given = tables
        super().__init__(
            "", start=_START, end=_START + size, head=head, check_crc=False, batch_keys=count, memory=MemorySettings()
        )

    def _new_tables(self) -> Tables:
        return self._given


def measure_streams(
    head: RdbHead,
    records: NDArray[np.uint8],
    count: int,
    grammar: NDArray[np.int64],
    models: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return int64[count, models]: what each of the *count* streams whose *records* follow each other takes; `UNMEASURED` where one is damaged."""
    result = np.full((count, len(models)), UNMEASURED, np.int64)
    for column, model in enumerate(models):
        skimmer = _OneModelSkimmer(head, count, len(records), Tables(grammar, model, np.empty(0, np.int64)))
        row = 0
        try:
            while not skimmer.done:
                skimmer.feed(lambda at, count: records[at - _START : at - _START + count].data)
                for batch in skimmer.batches():
                    assert batch.memory_bytes is not None
                    result[row : row + len(batch), column] = batch.memory_bytes
                    row += len(batch)
        except DecodeError:
            result[:] = UNMEASURED
            break
    return result


SAMPLED_BYTES = 2 << 20
"""Of a file about so many bytes are compressed, all of a smaller one."""


def sample_shifts(places: NDArray[np.int64], size: int = 0) -> NDArray[np.int64]:
    """Return n for each of *places* in a file of *size* bytes where one value of 2**n is compressed.

    Of a file whose size is not known (0) all at the beginning are, and of each doubling behind it half as many as of the one before.
    """
    before = np.full(len(places), size - 1) if size else places
    digits: NDArray[np.int32] = np.frexp(before // SAMPLED_BYTES)[1]
    return digits.astype(np.int64)


def compressed_sizes(values: Iterable[memoryview]) -> list[int]:
    """Return the bytes that zstd makes of each of *values*, at its usual level."""
    codec = pa.Codec("zstd")
    result = []
    for value in values:
        head = value[:VALUE_BYTES_MAX]
        result.append(len(codec.compress(head, asbytes=True)) * len(value) // max(len(head), 1))
    return result


def sampled_columns(held: NDArray[np.int64], saved: NDArray[np.int64], shifts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the columns of `TextSums` from *sampled* on, a row a compressed value that takes *held* bytes in memory, of which *saved* are saved."""
    weight = np.where(held < VALUE_BYTES_MAX, 1 << shifts, 1)
    spread = weight * (weight - 1)
    saved_units, held_units = saved >> UNIT_BITS, held >> UNIT_BITS
    columns = (
        np.ones_like(held),
        weight * held,
        weight * saved,
        spread * saved_units**2,
        spread * saved_units * held_units,
    )
    return np.column_stack((*columns, spread * held_units**2))
