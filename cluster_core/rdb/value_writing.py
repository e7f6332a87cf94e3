"""Write chosen keys of a dump in an output format: prefix, elements or entries, and suffix of each value."""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing
from cluster_core.rdb import grammar
from cluster_core.rdb import skim_state as columns
from cluster_core.rdb import value_state as state
from cluster_core.rdb.atoms import big_endian, read_string
from cluster_core.rdb.strings import RAW_STRING
from cluster_core.rdb.texts import (
    JSON_BYTES_MAX,
    is_json_number,
    put,
    put_bulk,
    put_double,
    put_integer,
    put_json,
    put_line_end,
    put_unsigned,
)
from cluster_core.rdb.value_state import DOUBLE, IN_SCRATCH, INTEGER
from cluster_core.rdb.value_walk import begin_value, find_element, find_entry, open_packed, pass_element
from cluster_core.rdb.walk_packed import entry_value, listpack_entry_bytes

Numbers = NDArray[np.int64]
FRAME_BYTES_MAX = 512
"""Maximum bytes around the parts of an element, and around a value, without the key."""
CHUNK_ELEMENTS = 128
"""Elements per command."""


class KeyColumns(NamedTuple):
    """Columns of `KeyBatch` to write, and the position of each record."""

    db: NDArray[np.int32]
    expire_at_ms: Numbers
    idle_s: Numbers
    freq: NDArray[np.int16]
    elements: Numbers
    serialized_bytes: Numbers
    offset: Numbers
    key_offsets: NDArray[np.int32]
    key_data: NDArray[np.uint8]


def _fixed(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8).copy()


def _fixed_rows(texts: list[str]) -> NDArray[np.uint8]:
    """Return texts as rows with the length in the first byte."""
    rows = np.zeros((len(texts), 32), np.uint8)
    for row, text in zip(rows, texts, strict=True):
        row[0] = len(text)
        row[1 : 1 + len(text)] = _fixed(text)
    return rows


_J_DB, _J_KEY, _J_TYPE = _fixed('{"db":'), _fixed(',"key":'), _fixed(',"type":"')
_J_EXPIRE, _J_IDLE, _J_FREQ = _fixed('"expire_at_ms":'), _fixed('"idle_s":'), _fixed('"freq":')
_J_VALUE, _J_FIELD, _J_FIELD_EXPIRE = _fixed('"value":'), _fixed('{"value":'), _fixed(',"expire_at_ms":')
_SELECT = _fixed("*2\r\n$6\r\nSELECT\r\n")
_PEXPIREAT = _fixed("*3\r\n$9\r\nPEXPIREAT\r\n")
_HPEXPIREAT, _FIELDS = _fixed("*6\r\n$10\r\nHPEXPIREAT\r\n"), _fixed("$6\r\nFIELDS\r\n$1\r\n1\r\n")
_NAMES = _fixed_rows(list(grammar.KEY_TYPES))
_COMMANDS = _fixed_rows(["SET", "RPUSH", "SADD", "ZADD", "HSET"])
_J_ENTRIES = _fixed('"entries":[')
_INFINITY_BITS = np.int64(0x7FF << 52)
_OPEN = np.array([0, 91, 91, 123, 123, 123, 0, 91], np.uint8)
_CLOSE = np.array([0, 93, 93, 125, 125, 0, 0, 93], np.uint8)


@borrowing()
def _put_row(out: Any, at: int, rows: Any, row: int) -> int:
    size = np.int64(rows[row, 0])
    for i in range(size):
        out[at + i] = rows[row, 1 + i]
    return at + size


@borrowing()
def _put_number(out: Any, at: int, label: Any, value: int, after: int) -> int:
    at = put_integer(out, put(out, at, label, np.int64(0), label.size), value)
    out[at] = after
    return at + 1


@borrowing()
def _put_bulk_number(out: Any, at: int, form: int, value: int) -> int:
    """Write the number *value* of *form* (`value_state`) as a bulk string."""
    begin = at + 5
    end = put_double(out, begin, value) if form == DOUBLE else put_integer(out, begin, value)
    out[at] = 36
    at = put_line_end(out, put_integer(out, at + 1, end - begin))
    for i in range(begin, end):  # shift by one byte if the length has one digit
        out[at + i - begin] = out[i]
    return put_line_end(out, at + end - begin)


@borrowing(forceinline=True)
def _put_bulk_part(out: Any, at: int, source: Any, form: int, begin: int, size: int) -> int:
    if form >= INTEGER:
        return _put_bulk_number(out, at, form, begin)
    return put_bulk(out, at, source, begin, size)


@borrowing(forceinline=True)
def _put_json_part(st: Any, out: Any, at: int, source: Any, form: int, begin: int, size: int) -> int:
    if form < INTEGER:
        return put_json(st, out, at, source, begin, size)
    out[at] = 34
    at = put_double(out, at + 1, begin) if form == DOUBLE else put_integer(out, at + 1, begin)
    out[at] = 34
    return at + 1


@borrowing(forceinline=True)
def _put_bare_part(out: Any, at: int, source: Any, form: int, begin: int, size: int) -> int:
    if form == DOUBLE:
        return put_double(out, at, begin)
    return put_integer(out, at, begin) if form == INTEGER else put(out, at, source, begin, size)


@borrowing(forceinline=True)
def _put_key(out: Any, at: int, st: Any, names: Any) -> int:
    return put_bulk(out, at, names, st[state.KEY_AT], st[state.KEY_BYTES])


@borrowing(forceinline=True)
def _has_room(st: Any, out: Any, part_bytes: int) -> bool:
    """Return whether the key's name and *part_bytes* of parts fit into *out*; else set `WANT`."""
    need = FRAME_BYTES_MAX + JSON_BYTES_MAX * st[state.KEY_BYTES]
    need += part_bytes if st[state.FORMAT] == state.RESP else JSON_BYTES_MAX * part_bytes
    st[state.WANT] = need
    return st[state.OUT] + need <= out.size


@borrowing()
def _begin_key(st: Any, out: Any, names: Any, idle: int, freq: int) -> None:
    """Write the prefix of the current key's value, with its idle time and frequency."""
    at = st[state.OUT]
    style = st[state.FORMAT]
    if style == state.JSON:
        at = put_integer(out, put(out, at, _J_DB, np.int64(0), _J_DB.size), st[state.KEY_DB])
        at = put(out, at, _J_KEY, np.int64(0), _J_KEY.size)
        at = put_json(st, out, at, names, st[state.KEY_AT], st[state.KEY_BYTES])
        at = _put_row(out, put(out, at, _J_TYPE, np.int64(0), _J_TYPE.size), _NAMES, st[state.TYPE])
        out[at] = 34
        out[at + 1] = 44
        at += 2
        if st[state.EXPIRE] >= 0:
            at = _put_number(out, at, _J_EXPIRE, st[state.EXPIRE], 44)
        if idle >= 0:
            at = _put_number(out, at, _J_IDLE, idle, 44)
        if freq >= 0:
            at = _put_number(out, at, _J_FREQ, freq, 44)
        at = put(out, at, _J_VALUE, np.int64(0), _J_VALUE.size)
        if st[state.TYPE] != grammar.STRING:
            out[at] = _OPEN[st[state.TYPE]]
            at += 1
        if st[state.TYPE] == grammar.STREAM:
            at = put(out, at, _J_ENTRIES, np.int64(0), _J_ENTRIES.size)
    elif st[state.DB] != st[state.KEY_DB]:
        st[state.DB] = st[state.KEY_DB]
        at = put(out, at, _SELECT, np.int64(0), _SELECT.size)
        at = _put_bulk_number(out, at, np.int64(INTEGER), st[state.DB])
    st[state.OUT] = at


@borrowing(forceinline=True)
def _end_key(st: Any, out: Any, names: Any) -> None:
    """Write the suffix of the value."""
    at = st[state.OUT]
    style = st[state.FORMAT]
    if style == state.JSON:
        if st[state.TYPE] != grammar.STRING:
            out[at] = _CLOSE[st[state.TYPE]]
            at += 1
        out[at] = 125
        out[at + 1] = 10
        at += 2
    elif st[state.EXPIRE] >= 0:
        at = _put_key(out, put(out, at, _PEXPIREAT, np.int64(0), _PEXPIREAT.size), st, names)
        at = _put_bulk_number(out, at, np.int64(INTEGER), st[state.EXPIRE])
    st[state.OUT] = at


@borrowing()
def _put_command(st: Any, out: Any, at: int, names: Any) -> int:
    """Begin a command for the next elements."""
    kind = st[state.TYPE]
    left = np.int64(1)
    if st[state.IS_ROOMY]:
        left = min(st[state.LEFT], np.int64(CHUNK_ELEMENTS))
    st[state.CHUNK] = left
    out[at] = 42
    at = put_line_end(out, put_integer(out, at + 1, 2 + left * st[state.ELEMENT_PARTS]))
    out[at] = 36
    at = put_line_end(out, put_integer(out, at + 1, np.int64(_COMMANDS[kind, 0])))
    return _put_key(out, put_line_end(out, _put_row(out, at, _COMMANDS, kind)), st, names)


@borrowing(forceinline=True)
def _put_resp(st: Any, out: Any, at: int, names: Any, first: Any, second: Any) -> int:
    if st[state.CHUNK] == 0:
        at = _put_command(st, out, at, names)
    st[state.CHUNK] -= 1
    kind = st[state.TYPE]
    form, place, size = st[state.FIRST_FORM], st[state.FIRST_AT], st[state.FIRST_BYTES]
    if kind == grammar.ZSET:
        at = _put_bulk_part(out, at, second, st[state.SECOND_FORM], st[state.SECOND_AT], st[state.SECOND_BYTES])
    at = _put_bulk_part(out, at, first, form, place, size)
    if kind == grammar.HASH:
        at = _put_bulk_part(out, at, second, st[state.SECOND_FORM], st[state.SECOND_AT], st[state.SECOND_BYTES])
        if st[state.ONE_EXPIRE] >= 0:
            at = _put_key(out, put(out, at, _HPEXPIREAT, np.int64(0), _HPEXPIREAT.size), st, names)
            at = _put_bulk_number(out, at, np.int64(INTEGER), st[state.ONE_EXPIRE])
            at = put(out, at, _FIELDS, np.int64(0), _FIELDS.size)
            at = _put_bulk_part(out, at, first, form, place, size)
    return at


@borrowing(forceinline=True)
def _is_json_number(source: Any, form: int, at: int, size: int) -> bool:
    if form == DOUBLE:
        return at & _INFINITY_BITS != _INFINITY_BITS
    return form == INTEGER or is_json_number(source, at, size)


@borrowing(forceinline=True)
def _put_json(st: Any, out: Any, at: int, first: Any, second: Any) -> int:
    if st[state.DONE_ELEMENTS] > 0:
        out[at] = 44
        at += 1
    at = _put_json_part(st, out, at, first, st[state.FIRST_FORM], st[state.FIRST_AT], st[state.FIRST_BYTES])
    if st[state.ELEMENT_PARTS] == 1:
        return at
    out[at] = 58
    at += 1
    form, second_at, second_bytes = st[state.SECOND_FORM], st[state.SECOND_AT], st[state.SECOND_BYTES]
    if st[state.TYPE] == grammar.ZSET and _is_json_number(second, form, second_at, second_bytes):
        return _put_bare_part(out, at, second, form, second_at, second_bytes)
    if st[state.ONE_EXPIRE] >= 0:
        at = put(out, at, _J_FIELD, np.int64(0), _J_FIELD.size)
    at = _put_json_part(st, out, at, second, form, second_at, second_bytes)
    if st[state.ONE_EXPIRE] >= 0:
        at = _put_number(out, at, _J_FIELD_EXPIRE, st[state.ONE_EXPIRE], 125)
    return at


@borrowing(forceinline=True)
def _put_element(st: Any, out: Any, names: Any, first: Any, second: Any) -> int:
    """Write the current element with the parts *first* and *second*: `GO`, or without output `FULL`, `FAULT` if there are
    too many, `REFUSED` if the target server does not support it.
    """
    if st[state.LEFT] <= 0:
        return np.int64(state.FAULT)
    if st[state.ONE_EXPIRE] >= 0 and st[state.FIELDS_STAY]:
        return np.int64(state.REFUSED)
    twice = 2 if st[state.ONE_EXPIRE] >= 0 else 1
    if not _has_room(st, out, twice * st[state.FIRST_BYTES] + st[state.SECOND_BYTES]):
        return np.int64(state.FULL)
    at = st[state.OUT]
    if st[state.FORMAT] == state.JSON:
        at = _put_json(st, out, at, first, second)
    else:
        at = _put_resp(st, out, at, names, first, second)
    st[state.OUT] = at
    st[state.LEFT] -= 1
    st[state.DONE_ELEMENTS] += 1
    return np.int64(state.GO)


_J_ENTRY_ID, _J_ENTRY_FIELDS = _fixed('{"id":"'), _fixed('","fields":[')
_XADD = _fixed("$4\r\nXADD\r\n")
_ID_BYTES = 16
_PART_FRAME_BYTES = 32
"""Bytes of a part beyond its entry: integers are written in decimal."""
_ENTRY_FIELDS_MAX = 1 << 28
_DELETED, _SAME_FIELDS = 1, 2
"""Flags of an entry of a stream."""


@borrowing()
def _integer_at(source: Any, at: int, stop: int) -> tuple[bool, int, int]:
    """Return whether the entry at *at* is an integer, the integer, and the position after it."""
    total, after = _skip_entries(source, at, stop, np.int64(1))
    if total < 0:
        return False, np.int64(0), at
    is_integer, value, _, _ = entry_value(source, at, np.int64(grammar.F_LISTPACK), np.int64(0))
    return is_integer, value, after


@borrowing()
def _skip_entries(source: Any, at: int, stop: int, count: int) -> tuple[int, int]:
    """Skip *count* entries: return (their bytes, position after them), or -1 bytes for an invalid entry."""
    begin = at
    for _ in range(count):
        size = listpack_entry_bytes(source, at, stop) if at < stop else np.int64(0)
        if size <= 0 or at + size > stop:
            return np.int64(-1), at
        at += size
    return at - begin, at


@borrowing()
def _open_stream_node(data: Any, st: Any, scratch: Any) -> int:
    """Enter the next node: its id, and the field names that its entries share."""
    at = st[state.POS]
    end = st[state.END]
    size, body, _, form = read_string(data, at, end)
    start = at + size
    if size <= 0 or form != RAW_STRING or body != _ID_BYTES or start + body > end:
        return np.int64(state.FAULT)
    rc = open_packed(data, start + body, end, np.int64(grammar.F_LISTPACK), st, scratch)
    if rc != state.GO:
        return rc
    st[state.NODE_MS] = big_endian(data, start, 8)
    st[state.NODE_SEQ] = big_endian(data, start + 8, 8)
    source = scratch if st[state.IS_EXPANDED] else data
    stop = st[state.PACKED_END]
    _, at = _skip_entries(source, st[state.PACKED_AT], stop, np.int64(2))
    is_known, fields, at = _integer_at(source, at, stop)
    if not is_known or fields < 0 or fields > _ENTRY_FIELDS_MAX:
        return np.int64(state.FAULT)
    st[state.FIELDS_AT] = at
    st[state.FIELDS] = fields
    total, at = _skip_entries(source, at, stop, fields + 1)
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
    """Write the prefix of a stream entry's fields; return the position after it."""
    at = st[state.OUT]
    no = np.int64(0)
    if st[state.FORMAT] == state.JSON:
        if st[state.DONE_ELEMENTS] > 0:
            out[at] = 44
            at += 1
        at = _put_id(out, put(out, at, _J_ENTRY_ID, no, _J_ENTRY_ID.size), ms, seq)
        return put(out, at, _J_ENTRY_FIELDS, no, _J_ENTRY_FIELDS.size)
    out[at] = 42
    at = put_line_end(out, put_unsigned(out, at + 1, np.uint64(3 + 2 * fields)))
    at = _put_key(out, put(out, at, _XADD, no, _XADD.size), st, names)
    return put_bulk(out, at, scratch, no, _put_id(scratch, no, ms, seq))


@borrowing()
def _put_part(st: Any, out: Any, at: int, source: Any, from_: int) -> tuple[int, int]:
    """Write the valid entry at *from_*: return the positions after it in the output and in the node."""
    form, begin, size, after = find_entry(
        source, from_, st[state.PACKED_END], np.int64(grammar.F_LISTPACK), np.int64(0)
    )
    if st[state.FORMAT] == state.JSON:
        return _put_json_part(st, out, at, source, form, begin, size), after
    return _put_bulk_part(out, at, source, form, begin, size), after


@borrowing()
def _write_entry(st: Any, out: Any, names: Any, source: Any, scratch: Any) -> int:
    """Write the current entry unless it is deleted, and skip it."""
    stop = st[state.PACKED_END]
    is_flag, flags, at = _integer_at(source, st[state.PACKED_AT], stop)
    is_ms, ms, at = _integer_at(source, at, stop)
    is_seq, seq, at = _integer_at(source, at, stop)
    if not (is_flag and is_ms and is_seq):
        return np.int64(state.FAULT)
    fields = st[state.FIELDS]
    names_at = st[state.FIELDS_AT]
    shares = flags & _SAME_FIELDS
    if not shares:
        is_known, fields, at = _integer_at(source, at, stop)
        if not is_known or fields < 0 or fields > _ENTRY_FIELDS_MAX:
            return np.int64(state.FAULT)
    values_at = at
    entry_bytes, at = _skip_entries(source, at, stop, (fields if shares else 2 * fields) + 1)
    if entry_bytes < 0:
        return np.int64(state.FAULT)
    entry_bytes += st[state.FIELDS_BYTES] if shares else 0
    if not flags & _DELETED:
        if not _has_room(st, out, entry_bytes + 2 * _PART_FRAME_BYTES * fields):
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
                put_at, names_at = _put_part(st, out, put_at, source, names_at)
            else:
                put_at, values_at = _put_part(st, out, put_at, source, values_at)
            if is_json:
                out[put_at] = 44
                put_at += 1
            put_at, values_at = _put_part(st, out, put_at, source, values_at)
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
def _write_stream(data: Any, st: Any, out: Any, names: Any, scratch: Any) -> int:
    """Write the entries of the current stream: `TAIL` after the last, or another answer."""
    while True:
        if st[state.PHASE] == state.P_ENTRIES:
            source = scratch if st[state.IS_EXPANDED] else data
            while st[state.PACKED_AT] < st[state.PACKED_END]:
                rc = _write_entry(st, out, names, source, scratch)
                if rc != state.GO:
                    return rc
            st[state.PHASE] = state.P_STREAM
        if st[state.NODES] <= 0:
            return np.int64(state.TAIL)
        rc = _open_stream_node(data, st, scratch)
        if rc != state.GO:
            return rc


@borrowing()
def _begin(data: Any, st: Any, g: Any, out: Any, keys: KeyColumns, row: int) -> int:
    """Begin a key: find its value and write its prefix."""
    st[state.BEGUN] = st[state.OUT]
    st[state.BEGUN_NOT_TEXT] = st[state.NOT_TEXT]
    st[state.KEY_AT] = keys.key_offsets[row]
    st[state.KEY_BYTES] = keys.key_offsets[row + 1] - keys.key_offsets[row]
    st[state.KEY_DB] = keys.db[row]
    st[state.EXPIRE] = keys.expire_at_ms[row]
    if not _has_room(st, out, np.int64(0)):
        return np.int64(state.FULL)
    begin = keys.offset[row] - st[state.BASE]
    end = begin + keys.serialized_bytes[row]
    if begin < 0 or end > data.size:
        return np.int64(state.FAULT)
    st[state.LEFT] = keys.elements[row]
    rc = begin_value(data, st, g, begin, end)
    if rc != state.GO:
        st[state.PHASE] = state.P_BEGIN
        return rc
    if st[state.FORMAT] == state.RESP and st[state.TYPE] == grammar.ARRAY:
        st[state.PHASE] = state.P_BEGIN
        return np.int64(state.REFUSED)
    kind = st[state.KIND]
    st[state.DONE_ELEMENTS] = 0
    st[state.CHUNK] = 0
    st[state.IS_ROOMY] = (
        g[kind, columns.ELEMENT] not in (grammar.E_EXPIRY_AFTER, grammar.E_EXPIRY_BEFORE)
        and g[kind, columns.ENCODED] != grammar.LISTPACKEX
    )
    _begin_key(st, out, keys.key_data, keys.idle_s[row], np.int64(keys.freq[row]))
    return np.int64(state.GO)


@borrowing()
def write_values(data: Any, keys: KeyColumns, rows: Any, g: Any, st: Any, out: Any, scratch: Any) -> int:
    """Write the keys *rows* (indices) from `ROW` on to *out*: `DONE` or another answer.

    `FULL`: *out* has no room; `SCRATCH`: it needs `WANT` bytes; `RARE`: a module value or hash by template; `TAIL`: the part
    of a stream after its entries, at `POS`; `FAULT`: unreadable value; `REFUSED`: unsupported by the server. Calls after the
    first two resume.
    """
    names = keys.key_data
    while st[state.ROW] < rows.size:
        row = rows[st[state.ROW]]
        if st[state.PHASE] == state.P_BEGIN:
            rc = _begin(data, st, g, out, keys, row)
            if rc != state.GO:
                return rc
        if st[state.PHASE] == state.P_STREAM or st[state.PHASE] == state.P_ENTRIES:
            return _write_stream(data, st, out, names, scratch)
        while st[state.PHASE] != state.P_END:
            rc = find_element(data, st, g, scratch)
            if rc == state.DONE:
                break
            if rc != state.GO and rc != state.PLAIN:
                return rc
            first = scratch if st[state.FIRST_FORM] == IN_SCRATCH else data
            second = scratch if st[state.SECOND_FORM] == IN_SCRATCH else data
            rc = _put_element(st, out, names, first, second)
            if rc != state.GO:
                return rc
            pass_element(st)
        if st[state.LEFT] != 0:
            return np.int64(state.FAULT)
        if not _has_room(st, out, np.int64(0)):
            return np.int64(state.FULL)
        _end_key(st, out, names)
        st[state.PHASE] = state.P_BEGIN
        st[state.ROW] += 1
    return np.int64(state.DONE)
