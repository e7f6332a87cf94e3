"""The walk over the values of chosen keys: it stops where the output is full, and goes on at the next element."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import grammar
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.rdb import tables as columns
from cluster_core.kernels.rdb.atoms import little_endian, read_length, read_string
from cluster_core.kernels.values import state
from cluster_core.kernels.values.decimals import put_double
from cluster_core.kernels.values.places import find_entry, find_integer, find_string, integer_of, open_packed
from cluster_core.kernels.values.stream_entries import write_stream
from cluster_core.kernels.values.writing import Keys, begin_key, end_key, has_room, put_element

_THIRD = state.DIGITS_BYTES // 3
_NAN, _MINUS_INFINITY = 253, 255
_SPECIAL = np.frombuffer(b"naninf-inf", np.uint8).copy()  # by length byte, from `_NAN` on


@borrowing()
def _value_at(data: Any, st: Any, g: Any, begin: int, end: int) -> int:
    """Find the type and the value of the record in ``data[begin:end]``: `GO`, `RARE` or `FAULT`."""
    at = begin
    while at < end:
        op = np.int64(data[at])
        if op == grammar.OP_EXPIRE_MS:
            at += 9
        elif op == grammar.OP_EXPIRE_S:
            at += 5
        elif op == grammar.OP_FREQ:
            at += 2
        elif g[op, columns.BEGINS] in (grammar.B_ATTRIBUTE, grammar.B_INNER_ATTRIBUTE):
            size, _ = read_length(data, at + 1, end)
            if size <= 0:
                return np.int64(state.FAULT)
            at += 1 + size
        elif g[op, columns.BEGINS] == grammar.B_KEY_META:
            return np.int64(state.RARE)
        else:
            break
    if at >= end:
        return np.int64(state.FAULT)
    kind = np.int64(data[at])
    size, body, _, _ = read_string(data, at + 1, end)
    pos = at + 1 + size + body
    if size <= 0 or pos > end or g[kind, columns.BEGINS] != grammar.B_TYPE:
        return np.int64(state.FAULT)
    st[state.KIND] = kind
    st[state.END] = end
    layout = g[kind, columns.LAYOUT]
    if g[kind, columns.SKIPPED_ENTRIES] != 0:
        return np.int64(state.RARE)
    if layout == grammar.L_STRING:
        st[state.PHASE] = state.P_STRING
        st[state.LEFT] = 1
    elif layout == grammar.L_PACKED or layout == grammar.L_ELEMENTS:
        lead = g[kind, columns.LEAD_BYTES]
        if pos + lead > end:
            return np.int64(state.FAULT)
        st[state.EARLIEST] = little_endian(data, pos, lead) - 1 if lead else np.int64(0)
        pos += lead
        if layout == grammar.L_ELEMENTS:
            size, _ = read_length(data, pos, end)
            if size <= 0:
                return np.int64(state.FAULT)
            pos += size
            st[state.PHASE] = state.P_ELEMENTS
        else:
            st[state.NODES] = 1
            st[state.PHASE] = state.P_NODES
    elif layout == grammar.L_QUICKLIST:
        size, nodes = read_length(data, pos, end)
        if size <= 0:
            return np.int64(state.FAULT)
        pos += size
        st[state.NODES] = nodes
        st[state.PHASE] = state.P_NODES
    elif layout == grammar.L_STREAM and st[state.FORMAT] != state.WORDS:
        size, nodes = read_length(data, pos, end)
        if size <= 0:
            return np.int64(state.FAULT)
        pos += size
        st[state.NODES] = nodes
        st[state.PHASE] = state.P_STREAM
    else:
        return np.int64(state.RARE)
    st[state.POS] = pos
    return np.int64(state.GO)


@borrowing()
def _begin(data: Any, st: Any, g: Any, out: Any, keys: Keys, row: int) -> int:
    """Begin a key: find its value, write what stands before it."""
    st[state.BEGUN] = st[state.OUT]
    st[state.BEGUN_NOT_TEXT] = st[state.NOT_TEXT]
    st[state.KEY_AT] = keys.key_offsets[row]
    st[state.KEY_BYTES] = keys.key_offsets[row + 1] - keys.key_offsets[row]
    st[state.KEY_DB] = keys.db[row]
    st[state.EXPIRE] = keys.expire_at_ms[row]
    if not has_room(st, out, np.int64(0)):
        return np.int64(state.FULL)
    begin = keys.offset[row] - st[state.BASE]
    end = begin + keys.serialized_bytes[row]
    if begin < 0 or end > data.size:
        return np.int64(state.FAULT)
    st[state.LEFT] = keys.elements[row]
    rc = _value_at(data, st, g, begin, end)
    if rc != state.GO:
        st[state.PHASE] = state.P_BEGIN
        return rc
    kind = st[state.KIND]
    st[state.TYPE] = g[kind, columns.KEY_TYPE]
    st[state.DONE_ELEMENTS] = 0
    st[state.CHUNK] = 0
    st[state.ONE_EXPIRE] = -1
    st[state.WORDS_OF_ONE] = 2 if st[state.TYPE] in (grammar.ZSET, grammar.HASH) else 1
    st[state.SECOND_INSIDE] = st[state.SECOND_AT] = st[state.SECOND_BYTES] = 0
    st[state.IS_ROOMY] = (
        g[kind, columns.ELEMENT] not in (grammar.E_EXPIRY_AFTER, grammar.E_EXPIRY_BEFORE)
        and g[kind, columns.ENCODED] != grammar.LISTPACKEX
    )
    begin_key(st, out, keys.key_data, keys.idle_s[row], np.int64(keys.freq[row]))
    return np.int64(state.GO)


@borrowing(forceinline=True)
def _put_place(st: Any, first: int, inside: int, begin: int, size: int) -> None:
    """Say where a word of the element at hand is; *first* is `FIRST_INSIDE` or `SECOND_INSIDE`."""
    st[first] = inside
    st[first + 1] = begin
    st[first + 2] = size


@borrowing(forceinline=True)
def _find_word(data: Any, st: Any, scratch: Any, at: int, free: int, first: int) -> tuple[int, int, int]:
    """Find the string at *at* as a word (`_put_place`): the answer, the position after it, the first free place of *scratch*."""
    rc, inside, begin, size, after, free = find_string(data, at, st[state.END], st, scratch, free)
    _put_place(st, first, inside, begin, size)
    return rc, after, free


@borrowing(forceinline=True)
def _find_one(data: Any, st: Any, scratch: Any, at: int) -> int:
    """Find the string at *at*, which is an element: a value, or a node of a list."""
    rc, after, _ = _find_word(data, st, scratch, at, np.int64(state.DIGITS_BYTES), state.FIRST_INSIDE)
    st[state.AFTER] = after
    return rc


@borrowing()
def _find_score(data: Any, at: int, end: int, st: Any, scratch: Any) -> int:
    """Find the score in digits whose length is at *at* (`rdbLoadDoubleValue`); return the position after it, -1 where there is none."""
    if at >= end:
        return np.int64(-1)
    size = np.int64(data[at])
    if size >= _NAN:
        special = 3 * (size - _NAN)
        count = 4 if size == _MINUS_INFINITY else 3
        for i in range(count):
            scratch[i] = _SPECIAL[special + i]
        _put_place(st, state.SECOND_INSIDE, 1, 0, count)
        return at + 1
    if size == 0 or at + 1 + size > end:
        return np.int64(-1)
    _put_place(st, state.SECOND_INSIDE, 0, at + 1, size)
    return at + 1 + size


@borrowing()
def _find_element(data: Any, st: Any, g: Any, scratch: Any) -> int:
    """Find the next element of a value that is not packed: `GO`, `DONE` behind the last, or what is in the way."""
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
    rc, at, free = _find_word(data, st, scratch, at, np.int64(state.DIGITS_BYTES), state.FIRST_INSIDE)
    if rc != state.GO:
        return rc
    if mode == grammar.E_SCORE:
        if at + 8 > end:
            return np.int64(state.FAULT)
        st[state.SECOND_INSIDE] = 1
        st[state.SECOND_BYTES] = put_double(scratch, np.int64(0), little_endian(data, at, 8))
        at += 8
    elif mode == grammar.E_SCORE_TEXT:
        at = _find_score(data, at, end, st, scratch)
        if at < 0:
            return np.int64(state.FAULT)
    elif mode != grammar.E_ONE:
        rc, at, free = _find_word(data, st, scratch, at, free, state.SECOND_INSIDE)
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
def _open_node(data: Any, st: Any, g: Any, scratch: Any) -> int:
    """Go into the next packed value: `GO`; a node that is one element is found: `PLAIN`; `DONE` behind the last node."""
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
def _find_packed(source: Any, st: Any, g: Any, scratch: Any) -> int:
    """Find the next element of the packed value at hand: `GO`, `DONE` behind the last, or `FAULT`."""
    at = st[state.PACKED_AT]
    stop = st[state.PACKED_END]
    if at >= stop:
        return np.int64(state.DONE)
    kind = st[state.KIND]
    form = g[kind, columns.FORM]
    is_inside = st[state.IN_SCRATCH]
    no = np.int64(0)
    third = np.int64(_THIRD)
    if form == grammar.F_INTSET:
        rc, inside, begin, size, at, _ = find_integer(source, at, stop, scratch, no, st[state.WIDTH])
    else:
        rc, inside, begin, size, at, _ = find_entry(source, at, stop, form, no, scratch, no)
    if rc != state.GO:
        return rc
    _put_place(st, state.FIRST_INSIDE, inside | is_inside, begin, size)
    if st[state.WORDS_OF_ONE] > 1:
        rc, inside, begin, size, at, _ = find_entry(source, at, stop, form, np.int64(1), scratch, third)
        if rc != state.GO:
            return rc
        _put_place(st, state.SECOND_INSIDE, inside | is_inside, begin, size)
        if g[kind, columns.ENTRIES] > 2:  # field, value, expiry
            rc, inside, begin, size, at, _ = find_entry(source, at, stop, form, no, scratch, 2 * third)
            if rc != state.GO:
                return rc
            is_known, expire = integer_of(scratch if inside else source, begin, size)
            if not is_known:
                return np.int64(state.FAULT)
            st[state.ONE_EXPIRE] = expire if expire > 0 else np.int64(-1)
    st[state.AFTER] = at
    return np.int64(state.GO)


@borrowing(forceinline=True)
def _find(data: Any, st: Any, g: Any, scratch: Any) -> int:
    """Find the next element of the key at hand, and go on to `P_END` behind the last: `GO`, or what is in the way; `PLAIN` is `GO` for a node."""
    while True:
        phase = st[state.PHASE]
        if phase == state.P_STRING:
            return _find_one(data, st, scratch, st[state.POS])
        if phase == state.P_ELEMENTS:
            rc = _find_element(data, st, g, scratch)
        elif phase == state.P_PACKED:
            rc = _find_packed(scratch if st[state.IN_SCRATCH] else data, st, g, scratch)
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
def _pass(st: Any) -> None:
    """Go behind the element that was written."""
    phase = st[state.PHASE]
    if phase == state.P_PACKED:
        st[state.PACKED_AT] = st[state.AFTER]
        return
    st[state.POS] = st[state.AFTER]
    if phase == state.P_STRING:
        st[state.PHASE] = state.P_END
    elif phase == state.P_NODES:
        st[state.NODES] -= 1


@borrowing()
def write_values(
    data: Any, keys: Keys, rows: Any, g: Any, st: Any, out: Any, ends: Any, row_words: Any, scratch: Any
) -> int:
    """Write the keys *rows* (indices) from `ROW` on to *out*: `DONE`, or what is in the way.

    `FULL`: *out* (or *ends*, if `WANT` is 0) has no room; `SCRATCH`: it must have `WANT` bytes; `RARE`: the key at hand is for the plain
    decoder, `TAIL`: so is what stands behind the entries of a stream, from `POS` on; `FAULT`: its value cannot be read; `REFUSED`: the server cannot hold it.  The first two go on where they stopped.
    """
    names = keys.key_data
    while st[state.ROW] < rows.size:
        row = rows[st[state.ROW]]
        if st[state.PHASE] == state.P_BEGIN:
            rc = _begin(data, st, g, out, keys, row)
            if rc != state.GO:
                return rc
        if st[state.PHASE] == state.P_STREAM or st[state.PHASE] == state.P_ENTRIES:
            return write_stream(data, st, out, names, scratch)
        while st[state.PHASE] != state.P_END:
            rc = _find(data, st, g, scratch)
            if rc == state.DONE:
                break
            if rc != state.GO and rc != state.PLAIN:
                return rc
            first = scratch if st[state.FIRST_INSIDE] else data
            second = scratch if st[state.SECOND_INSIDE] else data
            rc = put_element(st, out, ends, names, first, second)
            if rc != state.GO:
                return rc
            _pass(st)
        if st[state.LEFT] != 0:
            return np.int64(state.FAULT)
        if not has_room(st, out, np.int64(0)):
            return np.int64(state.FULL)
        end_key(st, out, names)
        st[state.PHASE] = state.P_BEGIN
        if row_words.size:
            row_words[st[state.ROW]] = st[state.WORD_COUNT]
        st[state.ROW] += 1
    return np.int64(state.DONE)
