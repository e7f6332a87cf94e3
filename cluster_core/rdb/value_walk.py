"""The walk over the values of chosen keys, element by element, entries of streams included; it stops where the output is full."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing
from cluster_core.rdb import grammar, packed
from cluster_core.rdb import skim_state as columns
from cluster_core.rdb import value_state as state
from cluster_core.rdb.atoms import big_endian, expand, little_endian, read_length, read_string, signed_integer
from cluster_core.rdb.grammar import F_LISTPACK
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING
from cluster_core.rdb.texts import put, put_bulk, put_double, put_integer, put_json, put_line_end, put_unsigned
from cluster_core.rdb.value_writing import Keys, begin_key, end_key, has_room, put_element, put_key
from cluster_core.rdb.values import DELETED, SAME_FIELDS
from cluster_core.rdb.walk_packed import entry_bytes, entry_value, listpack_entry_bytes
from cluster_core.rdb.walk_records import KEEPS_METADATA, find_value

Place = tuple[int, int, int, int, int, int]
"""Answer (`GO`, `SCRATCH` or `FAULT`), whether the word is in the scratch, where it begins, its bytes, the position after its form in
the file, the first free place of the scratch.
"""


@borrowing()
def find_string(data: Any, at: int, end: int, st: Any, scratch: Any, free: int) -> Place:
    """Find the string whose prefix is at *at*; compressed ones and integers go to *scratch* from *free* on."""
    no = np.int64(0)
    size, body, raw, kind = read_string(data, at, end)
    begin = at + size
    after = begin + body
    if size <= 0 or after > end:
        return np.int64(state.FAULT), no, no, no, at, free
    if kind in (INT_STRING, LZF_STRING):
        room = max(raw, np.int64(32))
        if free + room > scratch.size:
            st[state.WANT] = free + room
            return np.int64(state.SCRATCH), no, no, no, at, free
        if kind == INT_STRING:
            raw = put_integer(scratch, free, signed_integer(data, begin, body)) - free
        elif not expand(data, begin, after, scratch, free, raw):
            return np.int64(state.FAULT), no, no, no, at, free
        return np.int64(state.GO), np.int64(1), free, raw, after, free + raw
    return np.int64(state.GO), no, begin, body, after, free


@borrowing(forceinline=True)
def _number(scratch: Any, free: int, value: int, after: int) -> Place:
    stop = put_integer(scratch, free, value)
    return np.int64(state.GO), np.int64(1), free, stop - free, after, stop


@borrowing(forceinline=True)
def _word(at: int, size: int, after: int, free: int) -> Place:
    """A word that lies in the packed value itself."""
    if size < 0 or at + size > after:
        return np.int64(state.FAULT), np.int64(0), at, np.int64(0), after, free
    return np.int64(state.GO), np.int64(0), at, size, after, free


@borrowing()
def find_entry(data: Any, at: int, end: int, form: int, side: int, scratch: Any, free: int) -> Place:
    """Find the entry of a packed value of *form* at *at*, before *end*, its end mark; integers go to *scratch* at *free*.

    *side* is 0 for a name and 1 for a value of a zipmap.
    """
    bad = np.int64(state.FAULT), np.int64(0), at, np.int64(0), at, free
    if at >= end or data[at] == 255:
        return bad
    size = entry_bytes(data, at, end, form, side)
    after = at + size
    if size <= 0 or after > end:
        return bad
    is_integer, value, begin, length = entry_value(data, at, form, side)
    if is_integer:
        return _number(scratch, free, value, after)
    return _word(begin, length, after, free)


@borrowing()
def find_integer(data: Any, at: int, end: int, scratch: Any, free: int, width: int) -> Place:
    """Find the integer of *width* bytes at *at* in an intset that ends at *end*."""
    if at + width > end:
        return np.int64(state.FAULT), np.int64(0), at, np.int64(0), at, free
    return _number(scratch, free, signed_integer(data, at, width), at + width)


@borrowing()
def integer_of(data: Any, at: int, size: int) -> tuple[bool, int]:
    """Return whether *size* bytes of *data* are an unsigned integer below 10**18, and it."""
    value = np.int64(0)
    if size < 1 or size > 18:
        return False, value
    for i in range(size):
        digit = np.int64(data[at + i]) - 48
        if digit < 0 or digit > 9:
            return False, value
        value = value * 10 + digit
    return True, value


@borrowing()
def open_packed(data: Any, at: int, end: int, form: int, st: Any, scratch: Any) -> int:
    """Go to the first entry of the packed value whose string is at *at*, and set `POS` behind it: `GO`, `SCRATCH` or `FAULT`."""
    size, body, raw, string_form = read_string(data, at, end)
    start = at + size
    if size <= 0 or start + body > end or raw == 0:
        return np.int64(state.FAULT)
    source = data
    inside = np.int64(0)
    begin = start
    if string_form == LZF_STRING:
        if raw + state.DIGITS_BYTES > scratch.size:
            st[state.WANT] = raw + state.DIGITS_BYTES
            return np.int64(state.SCRATCH)
        if not expand(data, start, start + body, scratch, np.int64(state.DIGITS_BYTES), raw):
            return np.int64(state.FAULT)
        source = scratch
        inside = np.int64(1)
        begin = np.int64(state.DIGITS_BYTES)
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
    st[state.IN_SCRATCH] = inside
    st[state.PACKED_AT] = begin + head
    st[state.PACKED_END] = stop
    st[state.POS] = start + body
    return np.int64(state.GO)


_ID_BYTES = 16
_WORD_FRAME_BYTES = 32
"""What a word takes beyond the bytes of its entry: integers are written out."""
_ENTRY_WORDS_MAX = 1 << 28
_XADD = np.frombuffer(b"$4\r\nXADD\r\n", np.uint8).copy()
_J_ID, _J_FIELDS = np.frombuffer(b'{"id":"', np.uint8).copy(), np.frombuffer(b'","fields":[', np.uint8).copy()


@borrowing()
def _integer_at(source: Any, at: int, stop: int) -> tuple[bool, int, int]:
    """Read the entry at *at* as an integer: whether it is one, it, the position after it."""
    total, after = _pass_words(source, at, stop, np.int64(1))
    if total < 0:
        return False, np.int64(0), at
    is_integer, value, _, _ = entry_value(source, at, np.int64(F_LISTPACK), np.int64(0))
    return is_integer, value, after


@borrowing()
def _pass_words(source: Any, at: int, stop: int, count: int) -> tuple[int, int]:
    """Pass over *count* entries: return (their bytes, position after them), or -1 bytes where one is no entry."""
    begin = at
    for _ in range(count):
        size = listpack_entry_bytes(source, at, stop) if at < stop else np.int64(0)
        if size <= 0 or at + size > stop:
            return np.int64(-1), at
        at += size
    return at - begin, at


@borrowing()
def _open(data: Any, st: Any, scratch: Any) -> int:
    """Go into the next node: its id, and the names of fields that its entries share."""
    at = st[state.POS]
    end = st[state.END]
    size, body, _, form = read_string(data, at, end)
    start = at + size
    if size <= 0 or form != RAW_STRING or body != _ID_BYTES or start + body > end:
        return np.int64(state.FAULT)
    rc = open_packed(data, start + body, end, np.int64(F_LISTPACK), st, scratch)
    if rc != state.GO:
        return rc
    st[state.NODE_MS] = big_endian(data, start, 8)
    st[state.NODE_SEQ] = big_endian(data, start + 8, 8)
    source = scratch if st[state.IN_SCRATCH] else data
    stop = st[state.PACKED_END]
    _, at = _pass_words(source, st[state.PACKED_AT], stop, np.int64(2))
    is_known, fields, at = _integer_at(source, at, stop)
    if not is_known or fields < 0 or fields > _ENTRY_WORDS_MAX:
        return np.int64(state.FAULT)
    st[state.FIELDS_AT] = at
    st[state.FIELDS] = fields
    total, at = _pass_words(source, at, stop, fields + 1)
    if total < 0:
        return np.int64(state.FAULT)
    st[state.FIELDS_BYTES] = total
    st[state.PACKED_AT] = at
    st[state.NODES] -= 1
    st[state.PHASE] = state.P_ENTRIES
    return np.int64(state.GO)


@borrowing()
def _put_id(out: Any, at: int, ms: int, seq: int) -> int:
    at = put_unsigned(out, at, np.uint64(ms))
    out[at] = 45
    return put_unsigned(out, at + 1, np.uint64(seq))


@borrowing()
def _begin_entry(st: Any, out: Any, names: Any, scratch: Any, ms: int, seq: int, fields: int) -> int:
    """Write what stands before the fields of an entry; return the place after it."""
    at = st[state.OUT]
    no = np.int64(0)
    if st[state.FORMAT] == state.JSON:
        if st[state.DONE_ELEMENTS] > 0:
            out[at] = 44
            at += 1
        at = _put_id(out, put(out, at, _J_ID, no, _J_ID.size), ms, seq)
        return put(out, at, _J_FIELDS, no, _J_FIELDS.size)
    out[at] = 42
    at = put_line_end(out, put_unsigned(out, at + 1, np.uint64(3 + 2 * fields)))
    at = put_key(out, put(out, at, _XADD, no, _XADD.size), st, names)
    return put_bulk(out, at, scratch, no, _put_id(scratch, no, ms, seq))


@borrowing()
def _put_word(st: Any, out: Any, at: int, source: Any, from_: int, scratch: Any) -> tuple[int, int]:
    """Write the entry at *from_*, which was passed before: return the places after it in the output and in the node."""
    no = np.int64(0)
    _, inside, begin, size, after, _ = find_entry(
        source, from_, st[state.PACKED_END], np.int64(F_LISTPACK), no, scratch, no
    )
    words = scratch if inside else source
    if st[state.FORMAT] != state.RESP:
        return put_json(st, out, at, words, begin, size), after
    return put_bulk(out, at, words, begin, size), after


@borrowing()
def _write_entry(st: Any, out: Any, names: Any, source: Any, scratch: Any) -> int:
    """Write the entry at hand, unless it is deleted, and go behind it."""
    stop = st[state.PACKED_END]
    is_flag, flags, at = _integer_at(source, st[state.PACKED_AT], stop)
    is_ms, ms, at = _integer_at(source, at, stop)
    is_seq, seq, at = _integer_at(source, at, stop)
    if not (is_flag and is_ms and is_seq):
        return np.int64(state.FAULT)
    fields = st[state.FIELDS]
    names_at = st[state.FIELDS_AT]
    shares = flags & SAME_FIELDS
    if not shares:
        is_known, fields, at = _integer_at(source, at, stop)
        if not is_known or fields < 0 or fields > _ENTRY_WORDS_MAX:
            return np.int64(state.FAULT)
    values_at = at
    word_bytes, at = _pass_words(source, at, stop, (fields if shares else 2 * fields) + 1)
    if word_bytes < 0:
        return np.int64(state.FAULT)
    word_bytes += st[state.FIELDS_BYTES] if shares else 0
    if not flags & DELETED:
        if not has_room(st, out, word_bytes + 2 * _WORD_FRAME_BYTES * fields):
            return np.int64(state.FULL)
        put_at = _begin_entry(st, out, names, scratch, st[state.NODE_MS] + ms, st[state.NODE_SEQ] + seq, fields)
        is_json = st[state.FORMAT] != state.RESP
        for field in range(fields):
            if is_json:
                out[put_at] = 44
                put_at += 1 if field else 0
                out[put_at] = 91
                put_at += 1
            if shares:
                put_at, names_at = _put_word(st, out, put_at, source, names_at, scratch)
            else:
                put_at, values_at = _put_word(st, out, put_at, source, values_at, scratch)
            if is_json:
                out[put_at] = 44
                put_at += 1
            put_at, values_at = _put_word(st, out, put_at, source, values_at, scratch)
            if is_json:
                out[put_at] = 93
                put_at += 1
        if is_json:
            out[put_at] = 93
            out[put_at + 1] = 125
            put_at += 2
        st[state.OUT] = put_at
        st[state.DONE_ELEMENTS] += 1
    st[state.PACKED_AT] = at
    return np.int64(state.GO)


@borrowing()
def write_stream(data: Any, st: Any, out: Any, names: Any, scratch: Any) -> int:
    """Write the entries of the stream at hand: `TAIL` behind the last, or what is in the way."""
    while True:
        if st[state.PHASE] == state.P_ENTRIES:
            source = scratch if st[state.IN_SCRATCH] else data
            while st[state.PACKED_AT] < st[state.PACKED_END]:
                rc = _write_entry(st, out, names, source, scratch)
                if rc != state.GO:
                    return rc
            st[state.PHASE] = state.P_STREAM
        if st[state.NODES] <= 0:
            return np.int64(state.TAIL)
        rc = _open(data, st, scratch)
        if rc != state.GO:
            return rc


_THIRD = state.DIGITS_BYTES // 3
_NAN, _MINUS_INFINITY = 253, 255
_SPECIAL = np.frombuffer(b"naninf-inf", np.uint8).copy()  # by length byte, from `_NAN` on


@borrowing()
def _value_at(data: Any, st: Any, g: Any, begin: int, end: int) -> int:
    """Find the type and the value of the record in ``data[begin:end]``: `GO`, `RARE` or `FAULT`."""
    kind, pos = find_value(data, begin, end, g)
    if kind == KEEPS_METADATA:
        return np.int64(state.RARE)
    if kind < 0:
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
