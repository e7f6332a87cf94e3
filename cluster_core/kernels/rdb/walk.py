"""The RDB skim as one resumable state machine over a window of the file, compiled.

The batch twin of `tests.reference.rdb.reader`.

How this works.  The caller owns a window of bytes and a small array of numbers, `st`.  `skim` decodes *atoms*
(a record's attributes, type and key; a length; the prefix of a string; the header of a packed value) as long as
each lies whole in the window, and writes a row whenever a value has ended.  The bytes of a string are never
looked at: they are a number to pass over, `SKIP`, which may reach far beyond the window.  Compressed strings
are the exception: their control bytes are followed to see that they give the length that they claim (a liar
would falsify the sizes), but nothing is expanded.

An atom that is cut by the window's end is begun anew with the next window, so all that must survive is in `st`:
the phase, the record at hand and a few counters.  `skim` answers with a code (`NEED` bytes, `BATCH` full, an
`EVENT` for Python, `FAULT`, ...) and never raises.

Packed values (listpack, ziplist, intset, zipmap) state their entry count in their first bytes; compressed ones
have just those bytes expanded.  Where the header says "unknown", the entries are walked.
"""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import faults, grammar
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.rdb import memory_sizes as sizes
from cluster_core.kernels.rdb import skim_state as state
from cluster_core.kernels.rdb import tables as columns
from cluster_core.kernels.rdb.atoms import ask, note_fault
from cluster_core.kernels.rdb.keys import read_attributes, read_key, read_string_value
from cluster_core.kernels.rdb.other_records import (
    pass_function,
    pass_key_meta,
    pass_module,
    pass_slot_import,
    pass_template,
    read_record,
)
from cluster_core.kernels.rdb.packed import count_entries, end_packed, resume_entries
from cluster_core.kernels.rdb.streams import (
    pass_consumer_pending,
    pass_nodes,
    pass_pending,
    pass_producers,
    read_stream,
)
from cluster_core.kernels.rdb.strings import resume_compressed
from cluster_core.kernels.rdb.tables import Batch, Declared, Tables
from cluster_core.kernels.rdb.values import begin_elements, begin_value, pass_array, pass_elements, pass_node

STRING_TYPE = 0
"""The value type that is decoded with its key, in one go."""


@borrowing()
def _memory(st: Any, m: Any, g: Any) -> int:
    """Return the size in memory of the key at hand, or -1 where the layout is not known."""
    measure = g[st[state.TYPE_BYTE], columns.MEASURE]
    expires = st[state.EXPIRE] >= 0
    if measure == grammar.M_STRING:
        return sizes.string_size(m, st[state.KEY_LENGTH], expires, st[state.ENCODING], st[state.ELEMENTS])
    if measure != grammar.M_UNKNOWN and st[state.SIZE_KNOWN]:
        parts = sizes.Parts(st[state.SIZE_BYTES], st[state.SIZE_UNITS], st[state.MARKS])
        return sizes.whole_size(
            m, measure, st[state.ENCODING], st[state.ELEMENTS], st[state.KEY_LENGTH], expires, parts
        )
    return np.int64(-1)


@borrowing(forceinline=True)
def _emit(st: Any, m: Any, g: Any, batch: Batch, pos: int, memory: int) -> None:
    """Write a row for the key at hand, which ends at *pos*."""
    row = st[state.ROW]
    batch.db[row] = st[state.DB]
    batch.slot[row] = st[state.SLOT]
    batch.tag_start[row] = st[state.TAG_START]
    batch.tag_length[row] = st[state.TAG_LENGTH]
    batch.type[row] = g[st[state.TYPE_BYTE], columns.KEY_TYPE]
    batch.encoding[row] = st[state.ENCODING]
    batch.elements[row] = st[state.ELEMENTS]
    batch.serialized_bytes[row] = st[state.BASE] + pos - st[state.REC]
    batch.expire_at_ms[row] = st[state.EXPIRE]
    batch.idle_s[row] = st[state.IDLE]
    batch.freq[row] = st[state.FREQ]
    batch.offset[row] = st[state.REC]
    batch.memory_bytes[row] = memory
    batch.estimate[row] = m[sizes.ESTIMATE]
    st[state.KEY_POS] += st[state.KEY_LENGTH]
    batch.key_offsets[row + 1] = st[state.KEY_POS]
    st[state.ROW] = row + 1


@borrowing()
def _records(data: Any, st: Any, m: Any, g: Any, batch: Batch, declared: Declared) -> int:
    """Decode records from a record's boundary on, until one needs another phase."""
    end = st[state.STOP]
    base = st[state.BASE]
    capacity = np.int64(batch.db.size)
    keys = batch.key_data
    knows_strings = g[0, columns.MEASURE] != grammar.M_UNKNOWN
    by_record = st[state.BY_RECORD] != 0
    while True:
        begin = st[state.POS]
        if by_record and st[state.OTHER_OP] != 0:
            return state.RECORD
        if st[state.ROW] >= capacity:
            return state.BATCH
        if begin >= end:
            return ask(st, begin, 1)
        pos = begin
        meta = st[state.META_AT]
        op = np.int64(data[pos])
        begins = g[op, columns.BEGINS]
        expire = np.int64(-1)
        idle = np.int64(-1)
        freq = np.int64(-1)
        if meta > 0:
            expire = st[state.EXPIRE]
            idle = st[state.IDLE]
            freq = st[state.FREQ]
        else:
            if begins == grammar.B_ATTRIBUTE:
                rc, pos, expire, idle, freq = read_attributes(data, st, g, begin, end)
                if rc != state.GO:
                    return rc
                op = np.int64(data[pos])
                begins = g[op, columns.BEGINS]
            if begins == grammar.B_KEY_META:
                st[state.META_AT] = base + begin + 1
                st[state.EXPIRE] = expire
                st[state.IDLE] = idle
                st[state.FREQ] = freq
                st[state.POS] = pos + 1
                st[state.STEP] = 0
                st[state.PHASE] = state.P_KEY_META
                return state.GO
        if begins != grammar.B_TYPE:
            if begins == grammar.B_UNREAD_TYPE:
                return note_fault(st, faults.UNREAD_TYPE, pos, op, 0)
            if pos != begin or meta > 0:
                return note_fault(st, faults.ATTRIBUTE, pos, op, 0)
            rc = read_record(data, st, g, op, pos, declared)
            if rc in (state.GO, state.EVENT):
                st[state.OTHER_OP] = op
                st[state.OTHER_BEGIN] = base + pos
            if rc != state.GO:
                return rc
            if st[state.PHASE] != state.P_RECORD or st[state.SKIP] > 0 or st[state.LZF_RAW] > 0:
                return state.GO
            continue
        rc, pos = read_key(data, st, keys, begin, pos + 1)
        if rc != state.GO:
            return rc
        st[state.REC] = base + begin if meta == 0 else meta - 1
        st[state.TYPE_BYTE] = op
        st[state.EXPIRE] = expire
        st[state.IDLE] = idle
        st[state.FREQ] = freq
        if op != STRING_TYPE:
            st[state.POS] = pos
            st[state.META_AT] = 0
            begin_value(st, g)
            return state.GO
        rc, pos = read_string_value(data, st, begin, pos, expire >= 0, idle < 0 and freq < 0)
        if rc != state.GO:
            return rc
        st[state.META_AT] = 0
        if st[state.PHASE] == state.P_EMIT:
            return state.GO
        st[state.POS] = pos
        memory = np.int64(-1)
        if knows_strings:
            memory = sizes.string_size(
                m, st[state.KEY_LENGTH], st[state.EXPIRE] >= 0, st[state.ENCODING], st[state.ELEMENTS]
            )
        _emit(st, m, g, batch, pos, memory)


@borrowing()
def skim(data: Any, st: Any, file_tables: Any, columns_to_fill: Any, counts: Any, scratch: Any) -> int:
    """Decode as much of the window as there is; return an answer of `skim_state`.

    *data* uint8 window, filled to ``st[STOP]``; *st* int64 state; *file_tables*, *columns_to_fill* and *counts* are the fields of `Tables`, `Batch` and
    `Declared`, as plain tuples: numba looks long at records that come from Python; *scratch* uint8, for packed values that
    must be expanded.
    """
    tables = Tables(*file_tables)
    batch = Batch(*columns_to_fill)
    declared = Declared(*counts)
    m = tables.model
    g = tables.grammar
    while True:
        if st[state.LZF_RAW] > 0:
            rc = resume_compressed(data, st)
            if rc != state.GO:
                return rc
        if st[state.SKIP] > 0:
            take = min(st[state.SKIP], st[state.STOP] - st[state.POS])
            st[state.SKIP] -= take
            st[state.POS] += take
            if st[state.SKIP] > 0:
                st[state.WANT] = 1
                return state.NEED
        if st[state.WALK_LEFT] > 0:
            rc = resume_entries(data, st)
            if rc != state.GO:
                return rc
            continue
        phase = st[state.PHASE]
        if phase == state.P_RECORD:
            rc = _records(data, st, m, g, batch, declared)
        elif phase == state.P_EMIT:
            _emit(st, m, g, batch, st[state.POS], _memory(st, m, g))
            st[state.PHASE] = state.P_RECORD
            rc = state.GO
        elif phase >= state.P_MODULE:
            rc = _other_phase(data, st, phase)
        else:
            rc = _value_phase(data, st, m, g, tables.templates, scratch)
        if rc != state.GO:
            return rc


@borrowing()
def _value_phase(data: Any, st: Any, m: Any, g: Any, templates: Any, scratch: Any) -> int:
    """Go on with the value of the key at hand."""
    phase = st[state.PHASE]
    if phase == state.P_COUNT:
        return begin_elements(data, st, g, templates)
    if phase == state.P_ELEMENTS:
        return pass_elements(data, st, m, g)
    if phase == state.P_BLOB:
        rc = count_entries(data, st, st[state.POS], st[state.POS], g[st[state.TYPE_BYTE], columns.FORM], scratch)
        if rc == state.GO:
            st[state.PHASE] = state.P_BLOB_END
        return rc
    if phase == state.P_BLOB_END:
        return end_packed(st, m, g)
    if phase == state.P_QUICK:
        return pass_node(data, st, m, g, scratch)
    if phase == state.P_STREAM_NODES:
        return pass_nodes(data, st, m)
    if phase == state.P_STREAM_PEL:
        return pass_pending(data, st, m)
    if phase == state.P_STREAM_CONSUMER_PEL:
        return pass_consumer_pending(data, st, m)
    if phase == state.P_PRODUCERS:
        return pass_producers(data, st)
    if phase == state.P_ARRAY:
        return pass_array(data, st)
    return read_stream(data, st, g)


@borrowing()
def _other_phase(data: Any, st: Any, phase: int) -> int:
    """Go on with a record that is no key, or with what belongs to a module."""
    if phase == state.P_MODULE:
        return pass_module(data, st)
    if phase == state.P_FUNCTION_PRE_GA:
        return pass_function(data, st)
    if phase == state.P_TEMPLATE:
        return pass_template(data, st)
    if phase == state.P_KEY_META:
        return pass_key_meta(data, st)
    return pass_slot_import(data, st)
