"""A key and its elements in each of the formats: what stands before the value, an element, what stands after it."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing
from cluster_core.rdb import grammar
from cluster_core.rdb import value_state as state
from cluster_core.rdb.texts import (
    JSON_BYTES_MAX,
    is_json_number,
    put,
    put_bulk,
    put_integer,
    put_json,
    put_line_end,
)

Numbers = NDArray[np.int64]
FRAME_BYTES_MAX = 512
"""What stands around the words of an element, and around a value, without the key."""
CHUNK_ELEMENTS = 128
"""Elements of one command."""
WORDS_MAX = 3
"""Words of one element."""


class Keys(NamedTuple):
    """The columns of `KeyBatch` that are written, and where each record lies."""

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
    """Texts as rows: the first byte is the length."""
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
_OPEN = np.array([0, 91, 91, 123, 123, 123], np.uint8)
_CLOSE = np.array([0, 93, 93, 125, 125], np.uint8)


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
def put_bulk_number(out: Any, at: int, value: int) -> int:
    size = np.int64(1)
    left = value
    while left > 9:
        left //= 10
        size += 1
    out[at] = 36
    at = put_line_end(out, put_integer(out, at + 1, size))
    return put_line_end(out, put_integer(out, at, value))


@borrowing(forceinline=True)
def put_key(out: Any, at: int, st: Any, names: Any) -> int:
    return put_bulk(out, at, names, st[state.KEY_AT], st[state.KEY_BYTES])


@borrowing(forceinline=True)
def has_room(st: Any, out: Any, word_bytes: int) -> bool:
    """Whether the key's name and *word_bytes* of words fit into the rest of *out*; else `WANT` is what they need."""
    need = FRAME_BYTES_MAX + JSON_BYTES_MAX * st[state.KEY_BYTES]
    need += word_bytes if st[state.FORMAT] in (state.RESP, state.WORDS) else JSON_BYTES_MAX * word_bytes
    st[state.WANT] = need
    return st[state.OUT] + need <= out.size


@borrowing()
def begin_key(st: Any, out: Any, names: Any, idle: int, freq: int) -> None:
    """Write what stands before the value of the key at hand, with its idle time and frequency."""
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
    elif style == state.RESP and st[state.DB] != st[state.KEY_DB]:
        st[state.DB] = st[state.KEY_DB]
        at = put_bulk_number(out, put(out, at, _SELECT, np.int64(0), _SELECT.size), st[state.DB])
    st[state.OUT] = at


@borrowing(forceinline=True)
def end_key(st: Any, out: Any, names: Any) -> None:
    """Write what stands after the value."""
    at = st[state.OUT]
    style = st[state.FORMAT]
    if style == state.JSON:
        if st[state.TYPE] != grammar.STRING:
            out[at] = _CLOSE[st[state.TYPE]]
            at += 1
        out[at] = 125
        out[at + 1] = 10
        at += 2
    elif style == state.RESP and st[state.EXPIRE] >= 0:
        at = put_key(out, put(out, at, _PEXPIREAT, np.int64(0), _PEXPIREAT.size), st, names)
        at = put_bulk_number(out, at, st[state.EXPIRE])
    st[state.OUT] = at


@borrowing()
def _put_command(st: Any, out: Any, at: int, names: Any) -> int:
    """Begin a command that holds the words of the next elements."""
    kind = st[state.TYPE]
    left = np.int64(1)
    if st[state.IS_ROOMY]:
        left = min(st[state.LEFT], np.int64(CHUNK_ELEMENTS))
    st[state.CHUNK] = left
    out[at] = 42
    at = put_line_end(out, put_integer(out, at + 1, 2 + left * st[state.WORDS_OF_ONE]))
    out[at] = 36
    at = put_line_end(out, put_integer(out, at + 1, np.int64(_COMMANDS[kind, 0])))
    return put_key(out, put_line_end(out, _put_row(out, at, _COMMANDS, kind)), st, names)


@borrowing(forceinline=True)
def _put_resp(st: Any, out: Any, at: int, names: Any, first: Any, second: Any) -> int:
    if st[state.CHUNK] == 0:
        at = _put_command(st, out, at, names)
    st[state.CHUNK] -= 1
    kind = st[state.TYPE]
    if kind == grammar.ZSET:
        at = put_bulk(out, at, second, st[state.SECOND_AT], st[state.SECOND_BYTES])
    at = put_bulk(out, at, first, st[state.FIRST_AT], st[state.FIRST_BYTES])
    if kind == grammar.HASH:
        at = put_bulk(out, at, second, st[state.SECOND_AT], st[state.SECOND_BYTES])
        if st[state.ONE_EXPIRE] >= 0:
            at = put_key(out, put(out, at, _HPEXPIREAT, np.int64(0), _HPEXPIREAT.size), st, names)
            at = put(out, put_bulk_number(out, at, st[state.ONE_EXPIRE]), _FIELDS, np.int64(0), _FIELDS.size)
            at = put_bulk(out, at, first, st[state.FIRST_AT], st[state.FIRST_BYTES])
    return at


@borrowing(forceinline=True)
def _put_json(st: Any, out: Any, at: int, first: Any, second: Any) -> int:
    if st[state.DONE_ELEMENTS] > 0:
        out[at] = 44
        at += 1
    at = put_json(st, out, at, first, st[state.FIRST_AT], st[state.FIRST_BYTES])
    if st[state.WORDS_OF_ONE] == 1:
        return at
    out[at] = 58
    at += 1
    second_at, second_bytes = st[state.SECOND_AT], st[state.SECOND_BYTES]
    if st[state.TYPE] == grammar.ZSET and is_json_number(second, second_at, second_bytes):
        return put(out, at, second, second_at, second_bytes)
    if st[state.ONE_EXPIRE] >= 0:
        at = put(out, at, _J_FIELD, np.int64(0), _J_FIELD.size)
    at = put_json(st, out, at, second, second_at, second_bytes)
    if st[state.ONE_EXPIRE] >= 0:
        at = _put_number(out, at, _J_FIELD_EXPIRE, st[state.ONE_EXPIRE], 125)
    return at


@borrowing(forceinline=True)
def _put_words(st: Any, out: Any, ends: Any, at: int, first: Any, second: Any) -> int:
    """The words one after the other; a hash has a third one, empty or the field's expiry in decimal."""
    word = st[state.WORD_COUNT]
    at = put(out, at, first, st[state.FIRST_AT], st[state.FIRST_BYTES])
    ends[word] = at
    word += 1
    if st[state.WORDS_OF_ONE] > 1:
        at = put(out, at, second, st[state.SECOND_AT], st[state.SECOND_BYTES])
        ends[word] = at
        word += 1
        if st[state.TYPE] == grammar.HASH:
            if st[state.ONE_EXPIRE] >= 0:
                at = put_integer(out, at, st[state.ONE_EXPIRE])
            ends[word] = at
            word += 1
    st[state.WORD_COUNT] = word
    return at


@borrowing(forceinline=True)
def put_element(st: Any, out: Any, ends: Any, names: Any, first: Any, second: Any) -> int:
    """Write the element at hand, whose words are in *first* and *second*: `GO`, or with nothing written `FULL`, `FAULT` if there are
    too many, `REFUSED` if the server that is written for cannot hold it.
    """
    if st[state.LEFT] <= 0:
        return np.int64(state.FAULT)
    if st[state.ONE_EXPIRE] >= 0 and st[state.FIELDS_STAY]:
        return np.int64(state.REFUSED)
    twice = 2 if st[state.ONE_EXPIRE] >= 0 else 1
    if not has_room(st, out, twice * st[state.FIRST_BYTES] + st[state.SECOND_BYTES]):
        return np.int64(state.FULL)
    at = st[state.OUT]
    style = st[state.FORMAT]
    if style == state.JSON:
        at = _put_json(st, out, at, first, second)
    elif style == state.RESP:
        at = _put_resp(st, out, at, names, first, second)
    else:
        if st[state.WORD_COUNT] + WORDS_MAX > ends.size:
            st[state.WANT] = 0
            return np.int64(state.FULL)
        at = _put_words(st, out, ends, at, first, second)
    st[state.OUT] = at
    st[state.LEFT] -= 1
    st[state.DONE_ELEMENTS] += 1
    return np.int64(state.GO)
