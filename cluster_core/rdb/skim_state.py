"""Data of a skim: state array, grammar columns, current batch, declared counts."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.memory.model import MemoryModel
from cluster_core.rdb.grammar import M_UNKNOWN, grammar_of

# Answers.
NEED, BATCH, KEYS, EVENT, END, FAULT, SCRATCH, RECORD, GO = range(9)

# Events.
EVENT_AUX, EVENT_SELECTDB, EVENT_RESIZEDB, EVENT_TEMPLATE = range(1, 5)

# Phases.
(
    P_RECORD,
    P_EMIT,
    P_ELEMENTS,
    P_COUNT,
    P_BLOB,
    P_BLOB_END,
    P_QUICK,
    P_STREAM_NODES,
    P_STEPS,
) = range(9)

# Places in the state array.
(
    PHASE,
    POS,  # start of the next atom, in the window
    STOP,  # end of the filled part of the window
    BASE,  # offset in the file of the window's first byte
    WANT,  # bytes that the next atom needs, a lower bound
    SKIP,  # bytes to skip
    ROW,  # rows in the batch
    KEY_POS,  # bytes in the batch's key buffer
    DB,
    REC,  # file offset of the current record
    EXPIRE,
    IDLE,
    FREQ,
    TYPE_BYTE,
    KEY_LENGTH,
    SLOT,
    TAG_START,
    TAG_LENGTH,
    ELEMENTS,
    ENCODING,
    LEFT,
    MODE,
    UNITS,  # packed entries counted so far
    NODES,  # of a quicklist
    LZF_LEFT,
    LZF_MADE,
    LZF_RAW,
    LZF_LITERALS,
    LZF_AT,
    LZF_SIZE,
    WALK_LEFT,
    WALK_FORM,
    WALK_COUNT,
    WALK_SIDE,
    WALK_AT,
    GROUPS,
    PEL,
    CONSUMERS,
    STEP,  # row of `steps`
    FAULT_CODE,
    FAULT_AT,
    FAULT_A,
    FAULT_B,
    EVENT_KIND,
    EVENT_A,
    EVENT_B,
    VALKEY,  # dialect
    LISTPACK_LISTS,
    EMBSTR_RULE,
    FUNCTIONS,
    # Sums of the memory model for the current value.
    SIZE_KNOWN,
    SIZE_BYTES,
    SIZE_UNITS,  # expected units, see `cluster_core.memory.structures`
    TEXT,  # bytes of the last skipped string
    TEXT_LZF,  # its compressed bytes, or -1
    FIELD,
    FIELD_VALUE,
    FIELD_EXPIRES,
    MARKS,  # of the elements, see `memory_sizes.whole_size`
    LIST_COMPRESSED,  # bytes of a list with nodes compressed in memory
    LIST_ENDS,  # state of its ends: see `_list_node`
    STREAM_NODE,  # bytes of the last listpack
    TREE_IDS,
    TREE_NODES,
    TREE_BYTES,
    TREE_HIGH,  # the last id
    TREE_LOW,
    META_AT,  # file offset of the record with skipped metadata, plus 1; 0 for none
    BY_RECORD,  # whether to answer RECORD after each record other than a key
    OTHER_OP,  # of such a record, 0 if none was skipped; offset of its first byte
    OTHER_BEGIN,
    TREE_CHILDREN,  # of the open branch at each depth, 16 places
) = range(72)
STATE_LENGTH = 96


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
    """*grammar* of the file (`grammar_array`), memory *model* (`memory_sizes.model_array`), fields per hash template (-1:
    none).
    """

    grammar: Numbers
    model: Numbers
    templates: Numbers


class Batch(NamedTuple):
    """Columns of `KeyBatch` under construction; *key_offsets* has one entry more, *key_data* is bytes."""

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
"""Columns with one value per row."""


def new_batch(rows: int, key_bytes: int) -> Batch:
    """Return an empty batch of that many rows and bytes of key names."""
    columns = {name: np.empty(rows, dtype=_KINDS[name]) for name in ROW_COLUMNS}
    return Batch(
        **columns, key_offsets=np.zeros(rows + 1, dtype=np.int32), key_data=np.empty(key_bytes, dtype=np.uint8)
    )


@cache
def grammar_array(dialect: str, version: int, model: MemoryModel | None) -> Numbers:
    """Return the grammar of a file as numbers; `MEASURE` is `M_UNKNOWN` for types outside the memory *model*."""
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
