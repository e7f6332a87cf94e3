"""What a walk reads at one place of its window: numbers, lengths, the prefix of a string; and how it asks for more or notes a fault."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import faults, limits
from cluster_core.formats.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.rdb import skim_state as state


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
    """Return the signed little-endian integer of 1, 2 or 4 bytes at *at*."""
    value = little_endian(data, at, count)
    top = np.int64(1) << (8 * count - 1)
    return (value ^ top) - top


@borrowing(forceinline=True)
def digits_of(value: int) -> int:
    """Return how many characters *value*, of 32 bits, has in decimal."""
    count = np.int64(1)
    if value < 0:
        count = np.int64(2)
        value = -value
    limit = np.int64(10)
    while value >= limit:
        count += 1
        limit *= 10
    return count


@borrowing(forceinline=True)
def read_length(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return (bytes of the prefix, value): 0 bytes if more are needed, a negative fault code with its number."""
    if at >= end:
        return np.int64(0), np.int64(0)
    first = np.int64(data[at])
    if first < 0x40:
        return np.int64(1), first
    if first < 0x80:
        if at + 2 > end:
            return np.int64(0), np.int64(0)
        return np.int64(2), ((first & 0x3F) << 8) | np.int64(data[at + 1])
    if first == 0x80:
        if at + 5 > end:
            return np.int64(0), np.int64(0)
        return np.int64(5), big_endian(data, at + 1, 4)
    if first == 0x81:
        if at + 9 > end:
            return np.int64(0), np.int64(0)
        return np.int64(9), big_endian(data, at + 1, 8)
    if first < 0xC0:
        return np.int64(-faults.LENGTH_PREFIX), first
    return np.int64(-faults.LENGTH_IS_STRING), first


@borrowing(forceinline=True)
def read_string(data: Any, at: int, end: int) -> tuple[int, int, int, int]:
    """Return (bytes of the prefix, bytes of the body, bytes of the string, form), or faults as `_length` does."""
    if at >= end:
        return np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    first = np.int64(data[at])
    if first < 0xC0:
        size, body = read_length(data, at, end)
        if size > 0 and (body < 0 or body > limits.STRING_BYTES_MAX):
            return np.int64(-faults.STRING_BYTES), body, np.int64(0), np.int64(0)
        return size, body, body, np.int64(RAW_STRING)
    if first < 0xC3:
        return np.int64(1), np.int64(1) << (first & 3), np.int64(0), np.int64(INT_STRING)
    if first == 0xC3:
        size, body = read_length(data, at + 1, end)
        if size <= 0:
            return size, body, np.int64(0), np.int64(0)
        more, raw = read_length(data, at + 1 + size, end)
        if more <= 0:
            return more, raw, np.int64(0), np.int64(0)
        if body < 0 or body > limits.STRING_BYTES_MAX:
            return np.int64(-faults.STRING_BYTES), body, np.int64(0), np.int64(0)
        if raw < 0 or raw > limits.STRING_BYTES_MAX:
            return np.int64(-faults.STRING_BYTES), raw, np.int64(0), np.int64(0)
        if raw == 0 or raw > 88 * body:
            return np.int64(-faults.LZF), body, raw, np.int64(0)
        return 1 + size + more, body, raw, np.int64(LZF_STRING)
    return np.int64(-faults.STRING_PREFIX), first, np.int64(0), np.int64(0)


@borrowing()
def note_fault(st: Any, code: int, at: int, a: int, b: int) -> int:
    """Note a fault whose first byte is at *at* in the window."""
    st[state.FAULT_CODE] = code
    st[state.FAULT_AT] = st[state.BASE] + at
    st[state.FAULT_A] = a
    st[state.FAULT_B] = b
    return state.FAULT


@borrowing()
def ask(st: Any, pos: int, want: int) -> int:
    """Ask for *want* bytes from *pos* on."""
    st[state.POS] = pos
    st[state.WANT] = want
    return state.NEED


@borrowing(forceinline=True)
def pass_over(st: Any, to: int) -> int:
    """Go on at *to*, which may lie beyond the window."""
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
    return count < 0 or count > limits.ELEMENTS_MAX
