"""What a skim works with besides its window and its state: what the file's bytes mean, the batch that it fills, declared counts."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.rdb.grammar import M_UNKNOWN, grammar_of
from cluster_core.memory.model import MemoryModel
from cluster_core.slots.key_slot import SLOT_COUNT

# Columns of the grammar as numbers, a row for each of the 256 bytes; all but the first belong to value types.
(
    BEGINS,
    LAYOUT,
    ELEMENT,
    FORM,
    ENTRIES,
    LEAD_BYTES,
    SKIPPED_ENTRIES,
    GENERATION,
    KEY_TYPE,
    ENCODED,
    MEASURE,
    COLUMNS,
) = range(12)

Numbers = NDArray[np.int64]


class Tables(NamedTuple):
    """*grammar* of the file (`grammar_array`), the memory *model* (`memory_sizes.model_array`), the fields of each hash template of
    the file by its number, -1 where there is none.
    """

    grammar: Numbers
    model: Numbers
    templates: Numbers


class Batch(NamedTuple):
    """The columns of `KeyBatch` while they are filled; *key_offsets* has one place more than the others, *key_data* as many as it needs."""

    db: NDArray[np.int32]
    slot: NDArray[np.uint16]
    tag_start: NDArray[np.int32]
    tag_length: NDArray[np.int32]
    type: NDArray[np.uint8]
    encoding: NDArray[np.uint8]
    elements: Numbers
    serialized_bytes: Numbers
    expire_at_ms: Numbers
    idle_s: Numbers
    freq: NDArray[np.int16]
    offset: Numbers
    memory_bytes: Numbers
    estimate: NDArray[np.uint8]
    key_offsets: NDArray[np.int32]
    key_data: NDArray[np.uint8]


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("db", "tag_start", "tag_length"), np.int32),
    **dict.fromkeys(("elements", "serialized_bytes", "expire_at_ms", "idle_s", "offset", "memory_bytes"), np.int64),
    **dict.fromkeys(("type", "encoding", "estimate"), np.uint8),
    "slot": np.uint16,
    "freq": np.int16,
}
ROW_COLUMNS = Batch._fields[:-2]
"""The columns that have a value a row."""


class Declared(NamedTuple):
    """What slot info declares, by slot: keys and expiring keys, -1 where nothing is declared."""

    keys: Numbers
    expires: Numbers


def new_batch(rows: int, key_bytes: int) -> Batch:
    """Return an empty batch of that many rows and bytes of key names."""
    columns = {name: np.empty(rows, dtype=_KINDS[name]) for name in ROW_COLUMNS}
    return Batch(
        **columns, key_offsets=np.zeros(rows + 1, dtype=np.int32), key_data=np.empty(key_bytes, dtype=np.uint8)
    )


def nothing_declared() -> Declared:
    """Return the counts of a file without slot info."""
    return Declared(np.full(SLOT_COUNT, -1, dtype=np.int64), np.full(SLOT_COUNT, -1, dtype=np.int64))


@cache
def grammar_array(dialect: str, version: int, model: MemoryModel | None) -> Numbers:
    """Return the grammar of a file as numbers; `MEASURE` is `M_UNKNOWN` for types whose memory *model* does not know."""
    grammar = grammar_of(dialect, version)
    array = np.zeros((256, COLUMNS), dtype=np.int64)
    array[:, BEGINS] = grammar.begins
    for number, row in grammar.types.items():
        is_measured = model is not None and row.name in model.layout.types
        array[number, LAYOUT:] = (
            row.layout, row.element, row.form, row.entries, row.lead_bytes, row.skipped_entries, row.generation, row.key_type,
            row.encoding, row.measure if is_measured else M_UNKNOWN,
        )  # fmt: skip
    return array
