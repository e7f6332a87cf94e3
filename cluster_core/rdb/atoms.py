"""Read numbers, lengths and strings in a walk's window, request more bytes, or record a fault."""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.raw_bytes import copy_bytes
from cluster_core.rdb import faults, grammar, strings
from cluster_core.rdb import skim_state as state
from cluster_core.rdb.strings import INT_STRING, LZF_STRING


@borrowing(forceinline=True)
def big_endian(data: Any, at: int, count: int) -> int:
    value = np.int64(0)
    for i in range(count):
        value = (value << 8) | np.int64(data[at + i])
    return value


@borrowing(forceinline=True)
def little_endian(data: Any, at: int, count: int) -> int:
    value = np.int64(0)
    for i in range(count):
        value |= np.int64(data[at + i]) << (8 * i)
    return value


@borrowing(forceinline=True)
def signed_integer(data: Any, at: int, count: int) -> int:
    """Return the signed little-endian integer of 1 to 8 bytes at *at*."""
    value = little_endian(data, at, count)
    top = np.int64(1) << (8 * count - 1)
    return (value ^ top) - top


@borrowing(forceinline=True)
def digits_of(value: int) -> int:
    """Return the number of decimal digits of a 32-bit *value*."""
    count = np.int64(1)
    if value < 0:
        count = np.int64(2)
        value = -value
    limit = np.int64(10)
    while value >= limit:
        count += 1
        limit *= 10
    return count


_PREFIXES = compiled(
    strings, "read_length", "read_string", known={"big_endian": big_endian}, forceinline=True, boundscheck=False, _nrt=False
)  # fmt: skip
read_length, read_string = _PREFIXES["read_length"], _PREFIXES["read_string"]


@borrowing()
def note_fault(st: Any, code: int, at: int, a: int, b: int) -> int:
    """Record a fault with its first byte at *at* in the window."""
    st[state.FAULT_CODE] = code
    st[state.FAULT_AT] = st[state.BASE] + at
    st[state.FAULT_A] = a
    st[state.FAULT_B] = b
    return state.FAULT


@borrowing()
def ask(st: Any, pos: int, want: int) -> int:
    """Request *want* bytes from *pos* on."""
    st[state.POS] = pos
    st[state.WANT] = want
    return state.NEED


@borrowing(forceinline=True)
def pass_over(st: Any, to: int) -> int:
    """Continue at *to*, which may lie beyond the window."""
    end = st[state.STOP]
    if to > end:
        st[state.SKIP] += to - end
        st[state.POS] = end
    else:
        st[state.POS] = to
    return state.GO


@borrowing()
def read_lengths(data: Any, st: Any, at: int, count: int) -> tuple[int, int, int, int]:
    """Read *count* lengths: return (`GO` or the answer, position after, last value, its position)."""
    begin = at
    last = at
    value = np.int64(0)
    for _ in range(count):
        last = at
        size, value = read_length(data, at, st[state.STOP])
        if size == 0:
            return np.int64(ask(st, begin, at - begin + 9)), at, value, last
        if size < 0:
            return np.int64(note_fault(st, -size, at, value, 0)), at, value, last
        at += size
    return np.int64(state.GO), at, value, last


@borrowing()
def is_wild(count: int) -> bool:
    return count < 0 or count > grammar.ELEMENTS_MAX


@borrowing()
def is_whole(data: Any, at: int, stop: int, raw: int) -> bool:
    """Return whether ``data[at:stop]`` expands to exactly *raw* bytes, by its control bytes only."""
    made = np.int64(0)
    while at < stop:
        control = np.int64(data[at])
        if control < 32:
            at += control + 2
            made += control + 1
            continue
        run = control >> 5
        low = at + 1
        if run == 7:
            if at + 2 >= stop:
                return False
            run += np.int64(data[low])
            low += 1
        if low >= stop:
            return False
        if ((control & 31) << 8) + np.int64(data[low]) >= made:
            return False
        made += run + 2
        at = low + 1
    return at == stop and made == raw


_LITERALS_MAX = 32
"""Maximum literal bytes of one LZF control byte."""
_WORD_BYTES = 8


@borrowing(forceinline=True)
def _copy_run(out: Any, put: int, data: Any, at: int, run: int) -> None:
    """Copy a run of literals, in whole words if there is room; later runs overwrite the excess."""
    if put + _LITERALS_MAX <= out.size and at + _LITERALS_MAX <= data.size:
        copy_bytes(out, put, data, at, _LITERALS_MAX)
        return
    for i in range(run):
        out[put + i] = data[at + i]


@borrowing(forceinline=True)
def _repeat_run(out: Any, put: int, back: int, run: int) -> None:
    if put - back >= _WORD_BYTES and put + run + _WORD_BYTES <= out.size:
        for i in range(0, run, _WORD_BYTES):
            copy_bytes(out, put + i, out, back + i, _WORD_BYTES)
        return
    for i in range(run):
        out[put + i] = out[back + i]


expand = compiled(
    strings,
    "expand_into",
    known={"copy_run": _copy_run, "repeat_run": _repeat_run},
    boundscheck=False,
    _nrt=False,
)["expand_into"]


@borrowing()
def expand_head(data: Any, at: int, stop: int, out: Any, want: int) -> bool:
    """Expand the first *want* bytes (<= 16) of ``data[at:stop]`` to *out*; False if they are missing."""
    put = np.int64(0)
    while put < want:
        if at >= stop:
            return False
        control = np.int64(data[at])
        at += 1
        if control < 32:
            for _ in range(min(control + 1, want - put)):
                if at >= stop:
                    return False
                out[put] = data[at]
                put += 1
                at += 1
            continue
        run = control >> 5
        if run == 7:
            if at >= stop:
                return False
            run += np.int64(data[at])
            at += 1
        if at >= stop:
            return False
        back = put - ((control & 31) << 8) - np.int64(data[at]) - 1
        at += 1
        if back < 0:
            return False
        for _ in range(min(run + 2, want - put)):
            out[put] = out[back]
            put += 1
            back += 1
    return True


@borrowing()
def begin_compressed(st: Any, prefix_at: int, at: int, body: int, raw: int) -> None:
    """Record a compressed string, prefix at *prefix_at*, that ends beyond the window."""
    st[state.LZF_LEFT] = body
    st[state.LZF_MADE] = 0
    st[state.LZF_RAW] = raw
    st[state.LZF_LITERALS] = 0
    st[state.LZF_AT] = st[state.BASE] + prefix_at
    st[state.LZF_SIZE] = body
    st[state.POS] = at


@borrowing()
def _lies(st: Any) -> int:
    return note_fault(st, faults.LZF, st[state.LZF_AT] - st[state.BASE], st[state.LZF_SIZE], st[state.LZF_RAW])


@borrowing()
def resume_compressed(data: Any, st: Any) -> int:
    """Follow the control bytes of a compressed string (`_lzf_is_whole`) to the end of the window."""
    at = st[state.POS]
    end = st[state.STOP]
    left = st[state.LZF_LEFT]
    made = st[state.LZF_MADE]
    literals = st[state.LZF_LITERALS]
    while left > 0:
        if literals > 0:
            take = min(literals, end - at)
            at += take
            left -= take
            literals -= take
            if literals == 0:
                continue
            break
        if at >= end:
            break
        control = np.int64(data[at])
        if control < 32:
            literals = control + 1
            if literals + 1 > left:
                return _lies(st)
            at += 1
            left -= 1
            made += literals
            continue
        run = control >> 5
        size = np.int64(3 if run == 7 else 2)
        if size > left:
            return _lies(st)
        if at + size > end:
            break
        if run == 7:
            run += np.int64(data[at + 1])
        if ((control & 31) << 8) + np.int64(data[at + size - 1]) >= made:
            return _lies(st)
        made += run + 2
        at += size
        left -= size
    st[state.POS] = at
    st[state.LZF_LEFT] = left
    st[state.LZF_MADE] = made
    st[state.LZF_LITERALS] = literals
    if left > 0:
        return ask(st, at, 3)
    if made != st[state.LZF_RAW]:
        return _lies(st)
    st[state.LZF_RAW] = 0
    return state.GO


@borrowing()
def pass_string(data: Any, st: Any, begin: int, at: int) -> int:
    """Skip the string with its prefix at *at*; the atom starts at *begin*."""
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    if size <= 0:
        return ask(st, begin, at - begin + 20) if size == 0 else note_fault(st, -size, at, body, raw)
    start = at + size
    if kind == INT_STRING:
        if start + body > end:
            return ask(st, begin, start + body - begin)
        raw = digits_of(signed_integer(data, start, body))
    st[state.TEXT] = raw
    if kind == LZF_STRING:
        if start + body > end:
            begin_compressed(st, at, start, body, raw)
            return state.GO
        if not is_whole(data, start, start + body, raw):
            return note_fault(st, faults.LZF, at, body, raw)
    return pass_over(st, start + body)
