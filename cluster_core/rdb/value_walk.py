"""Walk the elements of one value that is whole in memory.

`begin_value` finds the value of a record, `find_element` the next element; `pass_element` skips it. An element has one or
two parts: form, place and bytes (`value_state`). Strings lie in the data or, if compressed, in the scratch.
"""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing
from cluster_core.rdb import grammar, packed
from cluster_core.rdb import skim_state as columns
from cluster_core.rdb import value_state as state
from cluster_core.rdb.atoms import expand, little_endian, read_length, read_string, signed_integer
from cluster_core.rdb.strings import INT_STRING, LZF_STRING
from cluster_core.rdb.value_state import DOUBLE, IN_DATA, IN_SCRATCH, INTEGER
from cluster_core.rdb.walk_packed import entry_bytes, entry_value
from cluster_core.rdb.walk_records import find_value

_SPECIAL_SCORE_MIN = 253
_SPECIAL_SCORES = np.array([float("nan"), float("inf"), float("-inf")]).view(np.int64)


@borrowing()
def _find_string(data: Any, st: Any, scratch: Any, at: int, free: int, place: int) -> tuple[int, int, int]:
    """Record the string at *at* as the part *place*, expanded to *scratch* from *free* on if compressed.

    Return the answer, the position after it, and the first free place of *scratch*.
    """
    size, body, raw, kind = read_string(data, at, st[state.END])
    begin = at + size
    after = begin + body
    if size <= 0 or after > st[state.END]:
        return np.int64(state.FAULT), at, free
    if kind == INT_STRING:
        _note_part(st, place, INTEGER, signed_integer(data, begin, body), np.int64(0))
    elif kind == LZF_STRING:
        _note_part(st, place, IN_SCRATCH, free, raw)
        if st[state.FORMAT] == state.SIZES:
            return np.int64(state.GO), after, free
        if free + raw > scratch.size:
            st[state.WANT] = free + raw
            return np.int64(state.SCRATCH), at, free
        if not expand(data, begin, after, scratch, free, raw):
            return np.int64(state.FAULT), at, free
        free += raw
    else:
        _note_part(st, place, IN_DATA, begin, body)
    return np.int64(state.GO), after, free


@borrowing()
def find_entry(data: Any, at: int, end: int, form: int, side: int) -> tuple[int, int, int, int]:
    """Return the part for the packed entry at *at* before the end mark *end*, and the position after it (-1: no entry).

    *side* is 0 for a name and 1 for a value of a zipmap.
    """
    none = np.int64(0), at, np.int64(0), np.int64(-1)
    if at >= end or data[at] == 255:
        return none
    size = entry_bytes(data, at, end, form, side)
    after = at + size
    if size <= 0 or after > end:
        return none
    is_integer, value, begin, length = entry_value(data, at, form, side)
    if is_integer:
        return np.int64(INTEGER), value, np.int64(0), after
    if length < 0 or begin + length > after:
        return none
    return np.int64(IN_DATA), begin, length, after


@borrowing()
def open_packed(data: Any, at: int, end: int, form: int, st: Any, scratch: Any) -> int:
    """Find the first entry of the packed value with its string at *at*, and set `POS` after it: `GO`, `SCRATCH` or `FAULT`."""
    size, body, raw, string_form = read_string(data, at, end)
    start = at + size
    if size <= 0 or start + body > end or raw == 0:
        return np.int64(state.FAULT)
    source = data
    inside = np.int64(0)
    begin = start
    if string_form == LZF_STRING:
        if raw + state.RESERVED_BYTES > scratch.size:
            st[state.WANT] = raw + state.RESERVED_BYTES
            return np.int64(state.SCRATCH)
        if not expand(data, start, start + body, scratch, np.int64(state.RESERVED_BYTES), raw):
            return np.int64(state.FAULT)
        source = scratch
        inside = np.int64(1)
        begin = np.int64(state.RESERVED_BYTES)
    head = np.int64(packed.HEAD_BYTES[form])
    stop = begin + raw - (0 if form == grammar.F_INTSET else 1)
    if begin + head > stop:
        return np.int64(state.FAULT)
    if form == grammar.F_INTSET:
        width = little_endian(source, begin, 4)
        if width != 2 and width != 4 and width != 8:
            return np.int64(state.FAULT)
        st[state.WIDTH] = width
    elif source[stop] != 255:
        return np.int64(state.FAULT)
    st[state.IS_EXPANDED] = inside
    st[state.PACKED_AT] = begin + head
    st[state.PACKED_END] = stop
    st[state.POS] = start + body
    return np.int64(state.GO)


@borrowing()
def begin_value(data: Any, st: Any, g: Any, begin: int, end: int) -> int:
    """Find the type and the value of the record in ``data[begin:end]``: `GO`, `RARE` or `FAULT`."""
    kind, pos = find_value(data, begin, end, g)
    if kind < 0:
        return np.int64(state.FAULT)
    st[state.KIND] = kind
    st[state.END] = end
    st[state.TYPE] = g[kind, columns.KEY_TYPE]
    st[state.ONE_EXPIRE] = -1
    st[state.ELEMENT_PARTS] = 2 if st[state.TYPE] in (grammar.ZSET, grammar.HASH) else 1
    st[state.SECOND_FORM] = st[state.SECOND_AT] = st[state.SECOND_BYTES] = 0
    layout = g[kind, columns.LAYOUT]
    if g[kind, columns.SKIPPED_ENTRIES] != 0:
        return np.int64(state.RARE)
    phase = np.int64(state.P_NODES)
    nodes = np.int64(1)
    has_count = True
    if layout == grammar.L_STRING:
        phase = np.int64(state.P_STRING)
        st[state.LEFT] = 1
        has_count = False
    elif layout == grammar.L_PACKED or layout == grammar.L_ELEMENTS:
        lead = g[kind, columns.LEAD_BYTES]
        if pos + lead > end:
            return np.int64(state.FAULT)
        st[state.EARLIEST] = little_endian(data, pos, lead) - 1 if lead else np.int64(0)
        pos += lead
        has_count = layout == grammar.L_ELEMENTS
        if has_count:
            phase = np.int64(state.P_ELEMENTS)
    elif layout == grammar.L_STREAM and st[state.FORMAT] != state.SIZES:
        phase = np.int64(state.P_STREAM)
    elif layout == grammar.L_ARRAY and st[state.FORMAT] != state.SIZES:
        phase = np.int64(state.P_ARRAY)
    elif layout != grammar.L_QUICKLIST:
        return np.int64(state.RARE)
    if has_count:
        size, nodes = read_length(data, pos, end)
        if size <= 0:
            return np.int64(state.FAULT)
        pos += size
    if phase == state.P_ARRAY:
        size, has_place = read_length(data, pos, end)
        pos += size
        if size > 0 and has_place != 0:
            size, _ = read_length(data, pos, end)
            pos += size
        if size <= 0:
            return np.int64(state.FAULT)
    st[state.NODES] = nodes
    st[state.PHASE] = phase
    st[state.POS] = pos
    return np.int64(state.GO)


@borrowing(forceinline=True)
def _note_part(st: Any, place: int, form: int, at: int, size: int) -> None:
    """Record a part of the current element; *place* is `FIRST_FORM` or `SECOND_FORM`."""
    st[place] = form
    st[place + 1] = at
    st[place + 2] = size


@borrowing(forceinline=True)
def _find_one(data: Any, st: Any, scratch: Any, at: int) -> int:
    """Find the string at *at* as an element: a value, or a node of a list."""
    rc, after, _ = _find_string(data, st, scratch, at, np.int64(state.RESERVED_BYTES), state.FIRST_FORM)
    st[state.AFTER] = after
    return rc


@borrowing()
def _find_score(data: Any, at: int, end: int, st: Any) -> int:
    """Find the score in digits with its length at *at* (`rdbLoadDoubleValue`); return the position after it, -1 for none."""
    if at >= end:
        return np.int64(-1)
    size = np.int64(data[at])
    if size >= _SPECIAL_SCORE_MIN:
        _note_part(st, state.SECOND_FORM, DOUBLE, _SPECIAL_SCORES[size - _SPECIAL_SCORE_MIN], np.int64(0))
        return at + 1
    if size == 0 or at + 1 + size > end:
        return np.int64(-1)
    _note_part(st, state.SECOND_FORM, IN_DATA, at + 1, size)
    return at + 1 + size


@borrowing()
def _find_unpacked(data: Any, st: Any, g: Any, scratch: Any) -> int:
    """Find the next element of a value that is not packed: `GO`, `DONE` at the end, or another answer."""
    if st[state.LEFT] <= 0:
        return np.int64(state.DONE)
    end = st[state.END]
    mode = g[st[state.KIND], columns.ELEMENT]
    at = st[state.POS]
    if mode == grammar.E_EXPIRY_BEFORE:
        size, delta = read_length(data, at, end)
        if size <= 0:
            return np.int64(state.FAULT)
        at += size
        st[state.ONE_EXPIRE] = delta + st[state.EARLIEST] if delta != 0 else np.int64(-1)
    rc, at, free = _find_string(data, st, scratch, at, np.int64(state.RESERVED_BYTES), state.FIRST_FORM)
    if rc != state.GO:
        return rc
    if mode == grammar.E_SCORE:
        if at + 8 > end:
            return np.int64(state.FAULT)
        _note_part(st, state.SECOND_FORM, DOUBLE, little_endian(data, at, 8), np.int64(0))
        at += 8
    elif mode == grammar.E_SCORE_TEXT:
        at = _find_score(data, at, end, st)
        if at < 0:
            return np.int64(state.FAULT)
    elif mode != grammar.E_ONE:
        rc, at, free = _find_string(data, st, scratch, at, free, state.SECOND_FORM)
        if rc != state.GO:
            return rc
        if mode == grammar.E_EXPIRY_AFTER:
            if at + 8 > end:
                return np.int64(state.FAULT)
            st[state.ONE_EXPIRE] = little_endian(data, at, 8)
            at += 8
    st[state.AFTER] = at
    return np.int64(state.GO)


@borrowing()
def _find_array_element(data: Any, st: Any, scratch: Any) -> int:
    """Find the next element of an array, after its index: `GO`, `DONE` at the end, or another answer."""
    if st[state.LEFT] <= 0:
        return np.int64(state.DONE)
    end = st[state.END]
    at = st[state.POS]
    size, _ = read_length(data, at, end)
    if size <= 0:
        return np.int64(state.FAULT)
    at += size
    size, kind = read_length(data, at, end)
    if size <= 0:
        return np.int64(state.FAULT)
    at += size
    if kind == grammar.ARRAY_STRING or kind == grammar.ARRAY_SHORT_STRING:
        return _find_one(data, st, scratch, at)
    if at + 8 > end:
        return np.int64(state.FAULT)
    form = INTEGER if kind == grammar.ARRAY_INTEGER else DOUBLE
    _note_part(st, state.FIRST_FORM, form, little_endian(data, at, 8), np.int64(0))
    st[state.AFTER] = at + 8
    return np.int64(state.GO)


@borrowing()
def _open_node(data: Any, st: Any, g: Any, scratch: Any) -> int:
    """Enter the next packed value: `GO`; `PLAIN` for a node of one element; `DONE` after the last node."""
    if st[state.NODES] <= 0:
        return np.int64(state.DONE)
    kind = st[state.KIND]
    form = g[kind, columns.FORM]
    end = st[state.END]
    at = st[state.POS]
    if g[kind, columns.LAYOUT] == grammar.L_QUICKLIST and form == grammar.F_LISTPACK:
        size, container = read_length(data, at, end)
        if size <= 0 or (container != grammar.PACKED_NODE and container != grammar.PLAIN_NODE):
            return np.int64(state.FAULT)
        at += size
        if container == grammar.PLAIN_NODE:
            rc = _find_one(data, st, scratch, at)
            return np.int64(state.PLAIN) if rc == state.GO else rc
    rc = open_packed(data, at, end, form, st, scratch)
    if rc != state.GO:
        return rc
    st[state.NODES] -= 1
    st[state.PHASE] = state.P_PACKED
    return np.int64(state.GO)


@borrowing()
def _find_packed(source: Any, st: Any, g: Any) -> int:
    """Find the next element of the current packed value: `GO`, `DONE` at the end, or `FAULT`."""
    at = st[state.PACKED_AT]
    stop = st[state.PACKED_END]
    if at >= stop:
        return np.int64(state.DONE)
    kind = st[state.KIND]
    form = g[kind, columns.FORM]
    inside = st[state.IS_EXPANDED]
    if form == grammar.F_INTSET:
        width = st[state.WIDTH]
        if at + width > stop:
            return np.int64(state.FAULT)
        _note_part(st, state.FIRST_FORM, INTEGER, signed_integer(source, at, width), np.int64(0))
        st[state.AFTER] = at + width
        return np.int64(state.GO)
    entry, begin, size, at = find_entry(source, at, stop, form, np.int64(0))
    if at < 0:
        return np.int64(state.FAULT)
    _note_part(st, state.FIRST_FORM, inside if entry == IN_DATA else entry, begin, size)
    if st[state.ELEMENT_PARTS] > 1:
        entry, begin, size, at = find_entry(source, at, stop, form, np.int64(1))
        if at < 0:
            return np.int64(state.FAULT)
        _note_part(st, state.SECOND_FORM, inside if entry == IN_DATA else entry, begin, size)
        if g[kind, columns.ENTRIES] > 2:  # field, value, expiry
            entry, expire, _, at = find_entry(source, at, stop, form, np.int64(0))
            if at < 0 or entry != INTEGER:
                return np.int64(state.FAULT)
            st[state.ONE_EXPIRE] = expire if expire > 0 else np.int64(-1)
    st[state.AFTER] = at
    return np.int64(state.GO)


@borrowing(forceinline=True)
def find_element(data: Any, st: Any, g: Any, scratch: Any) -> int:
    """Find the next element of the current key, `P_END` after the last: `GO` or another answer; `PLAIN` becomes `GO`."""
    while True:
        phase = st[state.PHASE]
        if phase == state.P_STRING:
            return _find_one(data, st, scratch, st[state.POS])
        if phase == state.P_ELEMENTS:
            rc = _find_unpacked(data, st, g, scratch)
        elif phase == state.P_ARRAY:
            rc = _find_array_element(data, st, scratch)
        elif phase == state.P_PACKED:
            rc = _find_packed(scratch if st[state.IS_EXPANDED] else data, st, g)
            if rc == state.DONE:
                st[state.PHASE] = state.P_NODES
                continue
        else:
            rc = _open_node(data, st, g, scratch)
            if rc == state.GO:
                continue
        if rc == state.DONE:
            st[state.PHASE] = state.P_END
        return rc


@borrowing(forceinline=True)
def pass_element(st: Any) -> None:
    """Skip the current element."""
    phase = st[state.PHASE]
    if phase == state.P_PACKED:
        st[state.PACKED_AT] = st[state.AFTER]
        return
    st[state.POS] = st[state.AFTER]
    if phase == state.P_STRING:
        st[state.PHASE] = state.P_END
    elif phase == state.P_NODES:
        st[state.NODES] -= 1
