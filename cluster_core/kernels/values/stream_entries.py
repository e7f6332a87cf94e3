"""The entries of a stream, node by node; what stands behind them is left to the plain decoder."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb.grammar import F_LISTPACK
from cluster_core.formats.rdb.stream_elements import DELETED, SAME_FIELDS
from cluster_core.formats.rdb.strings import RAW_STRING
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.rdb.atoms import big_endian, read_string
from cluster_core.kernels.rdb.packed import listpack_entry_bytes
from cluster_core.kernels.values import state
from cluster_core.kernels.values.decimals import put_unsigned
from cluster_core.kernels.values.places import find_entry, listpack_integer, open_packed
from cluster_core.kernels.values.texts import put, put_bulk, put_json, put_line_end, quote_json
from cluster_core.kernels.values.writing import begin_line, has_room, put_key

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
    is_integer, value = listpack_integer(source, at)
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
    if st[state.FORMAT] == state.CSV:
        at = _put_id(out, begin_line(st, out, at, names), ms, seq)
        out[at] = 44
        return at + 1
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
        begin = put_at
        if st[state.FORMAT] == state.CSV:
            out[put_at] = 91
            put_at += 1
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
            put_at += 1
        if st[state.FORMAT] == state.JSON:
            out[put_at] = 125
            put_at += 1
        elif is_json:
            put_at = quote_json(out, begin, put_at)
            out[put_at] = 44
            put_at = put_line_end(out, put_at + 1)
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
