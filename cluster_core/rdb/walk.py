"""The RDB skim as a compiled, resumable state machine over a window of the file.

`skim` decodes *atoms* (a record's attributes, type and key; a length; a string's prefix; the head of a packed value) that
lie whole in the window, and writes a row after each value. String bytes are skipped (`SKIP`), but the control bytes of
compressed strings are followed to check their length. An atom cut by the window's end is decoded again in the next
window, so `st` has all state. Answers are codes (`NEED` bytes, `BATCH` full, an `EVENT` for Python, `FAULT`, ...).

Packed values state their entry count in their first bytes; only these bytes of compressed ones are expanded. Entries
are walked if the head says "unknown".
"""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing
from cluster_core.memory.model import LONG_ELEMENT_BYTES
from cluster_core.rdb import faults, grammar, steps
from cluster_core.rdb import memory_sizes as sizes
from cluster_core.rdb import skim_state as state
from cluster_core.rdb.atoms import (
    ask,
    begin_compressed,
    digits_of,
    is_whole,
    is_wild,
    little_endian,
    note_fault,
    pass_over,
    pass_string,
    read_length,
    read_lengths,
    read_string,
    resume_compressed,
    signed_integer,
)
from cluster_core.rdb.skim_state import Batch, Tables
from cluster_core.rdb.steps import begin_steps, take_steps
from cluster_core.rdb.strings import INT_STRING, LZF_STRING
from cluster_core.rdb.walk_packed import (
    begin_tree,
    count_entries,
    end_packed,
    pass_nodes,
    resume_entries,
)
from cluster_core.rdb.walk_records import (
    read_attributes,
    read_key,
    read_record,
    read_string_value,
)


@borrowing()
def begin_value(st: Any, g: Any) -> None:
    """Choose the first phase of the value of type `TYPE_BYTE`."""
    kind = st[state.TYPE_BYTE]
    layout = g[kind, state.LAYOUT]
    st[state.SIZE_KNOWN] = g[kind, state.MEASURE] != grammar.M_UNKNOWN
    if st[state.SIZE_KNOWN]:
        st[state.SIZE_BYTES] = 0
        st[state.SIZE_UNITS] = 0
        st[state.FIELD] = -1
        st[state.FIELD_EXPIRES] = 0
        st[state.MARKS] = 0
        st[state.LIST_COMPRESSED] = 0
        st[state.LIST_ENDS] = 0
        st[state.STREAM_NODE] = 0
        if layout == grammar.L_STREAM:
            begin_tree(st)
    if layout == grammar.L_STREAM:
        st[state.STEP] = steps.STREAMS[g[kind, state.GENERATION]]
    st[state.UNITS] = 0
    st[state.ENCODING] = g[kind, state.ENCODED]
    st[state.SKIP] = g[kind, state.LEAD_BYTES]
    st[state.PHASE] = state.P_COUNT
    if layout == grammar.L_MODULE:
        st[state.ELEMENTS] = -1
        begin_steps(st, steps.MODULE)
    elif layout == grammar.L_PACKED:
        st[state.PHASE] = state.P_BLOB


@borrowing()
def begin_elements(data: Any, st: Any, g: Any, templates: Any) -> int:
    """Read a value's element count and choose how to skip its elements."""
    rc, pos, count, last = read_lengths(data, st, st[state.POS], 1)
    if rc != state.GO:
        return rc
    if is_wild(count):
        return note_fault(st, faults.COUNT, last, count, 0)
    kind = st[state.TYPE_BYTE]
    layout = g[kind, state.LAYOUT]
    if layout == grammar.L_TEMPLATE:
        if count >= len(templates) or templates[count] < 0:
            return note_fault(st, faults.TEMPLATE, last, count, 0)
        count = templates[count]
    st[state.POS] = pos
    st[state.ELEMENTS] = count
    st[state.LEFT] = count
    st[state.MODE] = grammar.E_ONE
    st[state.PHASE] = state.P_ELEMENTS
    if layout == grammar.L_ARRAY:
        begin_steps(st, steps.ARRAY)
    elif layout == grammar.L_QUICKLIST:
        st[state.PHASE] = state.P_QUICK
        st[state.NODES] = 0
    elif layout == grammar.L_STREAM:
        st[state.PHASE] = state.P_STREAM_NODES
        st[state.NODES] = count
        st[state.LEFT] = 2 * count
    elif layout == grammar.L_ELEMENTS:
        element = g[kind, state.ELEMENT]
        st[state.MODE] = element
        if element == grammar.E_EXPIRY_AFTER:
            st[state.LEFT] = 3 * count
        elif element != grammar.E_ONE and element != grammar.E_SCORE:
            st[state.LEFT] = 2 * count
    return state.GO


@borrowing(forceinline=True)
def _element(st: Any, m: Any, measure: int, element: int, length: int, form: int) -> None:
    """Add the cost of one unpacked string of a value."""
    if length >= LONG_ELEMENT_BYTES:
        st[state.MARKS] |= sizes.HAS_LONG
    if form != INT_STRING:
        st[state.MARKS] |= sizes.HAS_TEXT
    if measure == grammar.M_SET:
        st[state.SIZE_BYTES] += sizes.set_member_size(m, length)
    elif measure == grammar.M_ZSET:
        st[state.SIZE_UNITS] += sizes.scored_member_units(m, length)
    elif st[state.FIELD] < 0:
        st[state.FIELD] = length
    elif element == grammar.E_EXPIRY_AFTER:
        st[state.FIELD_VALUE] = length
    else:
        st[state.SIZE_BYTES] += sizes.field_size(m, st[state.FIELD], length, st[state.FIELD_EXPIRES] != 0)
        st[state.FIELD] = -1


@borrowing()
def pass_elements(data: Any, st: Any, m: Any, g: Any) -> int:
    """Skip the strings of an unpacked value; `MODE` gives the bytes around each."""
    pos = st[state.POS]
    end = st[state.STOP]
    left = st[state.LEFT]
    mode = st[state.MODE]
    is_measured = st[state.SIZE_KNOWN] != 0
    measure = g[st[state.TYPE_BYTE], state.MEASURE]
    while left > 0:
        at = pos
        if mode == grammar.E_SCORE_TEXT and left & 1:
            if at >= end:
                st[state.LEFT] = left
                return ask(st, pos, 1)
            size = np.int64(data[at])
            if size == 0:
                return note_fault(st, faults.SCORE, at, 0, 0)
            pos += 1 + (0 if size >= 253 else size)
        elif mode == grammar.E_EXPIRY_AFTER and left % 3 == 1:
            if at + 8 > end:
                st[state.LEFT] = left
                return ask(st, pos, 8)
            if is_measured:
                expires = little_endian(data, at, 8) != -1
                if expires:
                    st[state.MARKS] += sizes.EXPIRING
                st[state.SIZE_BYTES] += sizes.field_size(m, st[state.FIELD], st[state.FIELD_VALUE], expires)
                st[state.FIELD] = -1
            pos += 8
        else:
            if mode == grammar.E_EXPIRY_BEFORE and not left & 1:
                size, body = read_length(data, at, end)
                if size <= 0:
                    st[state.LEFT] = left
                    return ask(st, pos, 9) if size == 0 else note_fault(st, -size, at, body, 0)
                at += size
                st[state.FIELD_EXPIRES] = body != 0
            size, body, raw, kind = read_string(data, at, end)
            if size <= 0:
                st[state.LEFT] = left
                return ask(st, pos, at - pos + 20) if size == 0 else note_fault(st, -size, at, body, raw)
            post = np.int64(8 if mode == grammar.E_SCORE else 0)
            if kind == INT_STRING:
                if at + size + body > end:
                    st[state.LEFT] = left
                    return ask(st, pos, at + size + body - pos)
                if is_measured:
                    raw = digits_of(signed_integer(data, at + size, body))
            pos = at + size + body
            if kind == LZF_STRING:
                if pos > end:
                    begin_compressed(st, at, at + size, body, raw)
                    st[state.SKIP] = post
                    left -= 1
                    if is_measured:
                        _element(st, m, measure, mode, raw, kind)
                    break
                if not is_whole(data, at + size, pos, raw):
                    return note_fault(st, faults.LZF, at, body, raw)
            if is_measured:
                _element(st, m, measure, mode, raw, kind)
            pos += post
        left -= 1
        if pos > end:
            pass_over(st, pos)
            break
        st[state.POS] = pos
    st[state.LEFT] = left
    if left == 0:
        st[state.PHASE] = state.P_EMIT
    return state.GO


@borrowing()
def _list_node(st: Any, m: Any) -> None:
    """Add the cost of a list node (`KeyMeter.list_node`); `LIST_ENDS` bits: 1 the first is raw, 2 the last, 4 one is not."""
    plain = m[sizes.LIST_NODE] + sizes.packed_size(m, st[state.TEXT])
    is_lzf = st[state.TEXT_LZF] >= 0
    st[state.SIZE_BYTES] += plain
    st[state.LIST_COMPRESSED] += sizes.compressed_size(m, st[state.TEXT_LZF]) if is_lzf else plain
    ends = st[state.LIST_ENDS] & 5
    if is_lzf:
        ends |= 4
    else:
        ends |= 2 if st[state.ELEMENTS] != st[state.LEFT] else 3
    st[state.LIST_ENDS] = ends


@borrowing()
def pass_node(data: Any, st: Any, m: Any, g: Any, scratch: Any) -> int:
    """Count the entries of one node of a quicklist."""
    form = g[st[state.TYPE_BYTE], state.FORM]
    if st[state.LEFT] == 0:
        if st[state.LIST_ENDS] == 7:
            st[state.SIZE_BYTES] = st[state.LIST_COMPRESSED]
        st[state.ELEMENTS] = st[state.UNITS]
        if form == grammar.F_LISTPACK and st[state.NODES] == 1 and st[state.LISTPACK_LISTS]:
            st[state.ENCODING] = grammar.LISTPACK
        st[state.PHASE] = state.P_EMIT
        return state.GO
    begin = st[state.POS]
    at = begin
    nodes = np.int64(1)
    container = np.int64(grammar.PACKED_NODE)
    if form == grammar.F_LISTPACK:
        rc, at, container, _ = read_lengths(data, st, begin, 1)
        if rc != state.GO:
            return rc
    if container == grammar.PACKED_NODE:
        rc = count_entries(data, st, begin, at, form, scratch)
    elif container == grammar.PLAIN_NODE:
        st[state.TEXT_LZF] = -1
        size, body, _, kind = read_string(data, at, st[state.STOP])
        if size > 0 and kind == LZF_STRING:
            st[state.TEXT_LZF] = body
        rc = pass_string(data, st, begin, at)
        nodes = np.int64(2)  # a single plain node is still a quicklist
        if rc == state.GO:
            st[state.UNITS] += 1
    else:
        return note_fault(st, faults.CONTAINER, begin, container, 0)
    if rc == state.GO:
        if st[state.SIZE_KNOWN]:
            _list_node(st, m)
        st[state.LEFT] -= 1
        st[state.NODES] += nodes
    return rc


STRING_TYPE = 0
"""Value type decoded together with its key."""


@borrowing()
def _memory(st: Any, m: Any, g: Any) -> int:
    """Return the size in memory of the current key, or -1 for an unknown layout."""
    measure = g[st[state.TYPE_BYTE], state.MEASURE]
    expires = st[state.EXPIRE] >= 0
    if measure == grammar.M_STRING:
        return sizes.string_size(m, st[state.KEY_LENGTH], expires, st[state.ENCODING], st[state.ELEMENTS])
    if measure != grammar.M_UNKNOWN and st[state.SIZE_KNOWN]:
        parts = sizes.ValueParts(st[state.SIZE_BYTES], st[state.SIZE_UNITS], st[state.MARKS])
        return sizes.whole_size(
            m, measure, st[state.ENCODING], st[state.ELEMENTS], st[state.KEY_LENGTH], expires, parts
        )
    return np.int64(-1)


@borrowing(forceinline=True)
def _emit(st: Any, m: Any, g: Any, batch: Batch, pos: int, memory: int) -> None:
    """Write a row for the current key, which ends at *pos*."""
    row = st[state.ROW]
    batch.db[row] = st[state.DB]
    batch.slot[row] = st[state.SLOT]
    batch.tag_start[row] = st[state.TAG_START]
    batch.tag_length[row] = st[state.TAG_LENGTH]
    batch.type[row] = g[st[state.TYPE_BYTE], state.KEY_TYPE]
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
def _records(data: Any, st: Any, m: Any, g: Any, batch: Batch) -> int:
    """Decode records from a record's start until one needs another phase."""
    end = st[state.STOP]
    base = st[state.BASE]
    capacity = np.int64(batch.db.size)
    keys = batch.key_data
    knows_strings = g[0, state.MEASURE] != grammar.M_UNKNOWN
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
        begins = g[op, state.BEGINS]
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
                begins = g[op, state.BEGINS]
            if begins == grammar.B_KEY_META:
                st[state.META_AT] = base + begin + 1
                st[state.EXPIRE] = expire
                st[state.IDLE] = idle
                st[state.FREQ] = freq
                st[state.POS] = pos + 1
                return begin_steps(st, steps.KEY_META)
        if begins != grammar.B_TYPE:
            if begins == grammar.B_UNREAD_TYPE:
                return note_fault(st, faults.UNREAD_TYPE, pos, op, 0)
            if pos != begin or meta > 0:
                return note_fault(st, faults.ATTRIBUTE, pos, op, 0)
            rc = read_record(data, st, g, op, pos)
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
def skim(data: Any, st: Any, file_tables: Any, columns_to_fill: Any, scratch: Any) -> int:
    """Decode the window; return an answer of `skim_state`.

    *data* uint8 window, filled to ``st[STOP]``; *st* int64 state; *file_tables*, *columns_to_fill*: fields of `Tables` and
    `Batch` as plain tuples, which numba unpacks faster; *scratch* uint8 for expanded packed values.
    """
    tables = Tables(*file_tables)
    batch = Batch(*columns_to_fill)
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
            rc = _records(data, st, m, g, batch)
        elif phase == state.P_EMIT:
            _emit(st, m, g, batch, st[state.POS], _memory(st, m, g))
            st[state.PHASE] = state.P_RECORD
            rc = state.GO
        elif phase == state.P_STEPS:
            rc = take_steps(data, st, m)
        else:
            rc = _value_phase(data, st, m, g, tables.templates, scratch)
        if rc != state.GO:
            return rc


@borrowing()
def _value_phase(data: Any, st: Any, m: Any, g: Any, templates: Any, scratch: Any) -> int:
    """Continue with the current key's value."""
    phase = st[state.PHASE]
    if phase == state.P_COUNT:
        return begin_elements(data, st, g, templates)
    if phase == state.P_ELEMENTS:
        return pass_elements(data, st, m, g)
    if phase == state.P_BLOB:
        rc = count_entries(data, st, st[state.POS], st[state.POS], g[st[state.TYPE_BYTE], state.FORM], scratch)
        if rc == state.GO:
            st[state.PHASE] = state.P_BLOB_END
        return rc
    if phase == state.P_BLOB_END:
        return end_packed(st, m, g)
    if phase == state.P_QUICK:
        return pass_node(data, st, m, g, scratch)
    return pass_nodes(data, st, m)
