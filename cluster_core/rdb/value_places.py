"""Where the words of a value are: in the file's bytes, or in a scratch where compressed ones are expanded and numbers written out."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing
from cluster_core.rdb import grammar, packed
from cluster_core.rdb import value_state as state
from cluster_core.rdb.atoms import expand, little_endian, read_string, signed_integer
from cluster_core.rdb.strings import INT_STRING, LZF_STRING
from cluster_core.rdb.texts import put_integer
from cluster_core.rdb.walk_packed import entry_bytes, entry_value

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
