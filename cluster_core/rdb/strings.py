"""Lengths and strings of an RDB file, integers and LZF included (`rdbLoadLen`, `rdbGenericLoadStringObject`, `lzf_d.c`).

A control byte below 32 precedes that many literal bytes plus one; any other is a reference: its top three bits (and, if
all are set, one more byte) give a length, the rest with the next byte a distance back.

`length_at` and `string_at` raise IndexError for truncated, ValueError for invalid bytes. The other functions read any
bytes by index; `cluster_core.rdb.atoms` compiles them for arrays.
"""

from __future__ import annotations

from cluster_core.rdb import faults
from cluster_core.rdb.grammar import STRING_BYTES_MAX


def expand_into(data: bytes, at: int, stop: int, out: bytearray, start: int, size: int) -> bool:
    """Expand ``data[at:stop]`` to ``out[start:start + size]``; False if it does not give exactly *size* bytes."""
    put = start
    last = start + size
    while at < stop:
        control = data[at] + 0
        at += 1
        if control < 32:
            run = control + 1
            if at + run > stop or put + run > last:
                return False
            copy_run(out, put, data, at, run)
            at += run
        else:
            run = control >> 5
            if run == 7:
                if at >= stop:
                    return False
                run += data[at]
                at += 1
            if at >= stop:
                return False
            back = put - ((control & 31) << 8) - data[at] - 1
            at += 1
            run += 2
            if back < start or put + run > last:
                return False
            repeat_run(out, put, back, run)
        put += run
    return put == last


def copy_run(out: bytearray, put: int, data: bytes, at: int, run: int) -> None:
    """Copy *run* bytes of *data* from *at* on to *out* from *put* on."""
    out[put : put + run] = data[at : at + run]


def repeat_run(out: bytearray, put: int, back: int, run: int) -> None:
    """Write *run* bytes from *put* on, each copied from *back* bytes before."""
    piece = out[back : min(put, back + run)]
    out[put : put + run] = piece if len(piece) == run else (piece * (run // len(piece) + 1))[:run]


def expand(data: bytes, size: int) -> bytes:
    """Expand *data* to *size* bytes; ValueError for invalid data."""
    out = bytearray(size)
    if not expand_into(data, 0, len(data), out, 0, size):
        raise ValueError(f"not {size} bytes, compressed")
    return bytes(out)


RAW_STRING, INT_STRING, LZF_STRING = 0, 1, 2
"""Forms of a string: its bytes, a small integer, compressed."""


def big_endian(data: bytes, at: int, count: int) -> int:
    """Return the unsigned integer of *count* bytes at *at*, highest first."""
    return int.from_bytes(data[at : at + count], "big")


def read_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (bytes of the prefix, value): 0 bytes if more are needed, a negative fault code with its number."""
    if at >= end:
        return 0, 0
    first = data[at] + 0
    if first < 0x40:
        return 1, first
    if first < 0x80:
        if at + 2 > end:
            return 0, 0
        return 2, (first & 0x3F) << 8 | data[at + 1]
    if first <= 0x81:
        size = 4 if first == 0x80 else 8
        if at + 1 + size > end:
            return 0, 0
        return 1 + size, big_endian(data, at + 1, size)
    return -faults.LENGTH_PREFIX if first < 0xC0 else -faults.LENGTH_IS_STRING, first


def read_string(data: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Return (prefix bytes, body bytes, string bytes, form), or faults as in `read_length`; an integer has 0 string bytes."""
    if at >= end:
        return 0, 0, 0, 0
    first = data[at] + 0
    if first < 0xC0:
        size, body = read_length(data, at, end)
        if size > 0 and (body < 0 or body > STRING_BYTES_MAX):
            return -faults.STRING_BYTES, body, 0, 0
        return size, body, body, RAW_STRING
    if first < 0xC3:
        return 1, 1 << (first & 3), 0, INT_STRING
    if first != 0xC3:
        return -faults.STRING_PREFIX, first, 0, 0
    size, body = read_length(data, at + 1, end)
    if size <= 0:
        return size, body, 0, 0
    more, raw = read_length(data, at + 1 + size, end)
    if more <= 0:
        return more, raw, 0, 0
    if body < 0 or body > STRING_BYTES_MAX:
        return -faults.STRING_BYTES, body, 0, 0
    if raw < 0 or raw > STRING_BYTES_MAX:
        return -faults.STRING_BYTES, raw, 0, 0
    if raw == 0 or raw > 88 * body:  # three bytes give at most 264
        return -faults.LZF, body, raw, 0
    return 1 + size + more, body, raw, LZF_STRING


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position after it) of the length with its prefix at *at*."""
    size, value = read_length(data, at, len(data))
    if size <= 0:
        raise IndexError if size == 0 else ValueError(f"fault {-size}")
    return value, at + size


def string_at(data: bytes, at: int) -> tuple[bytes, int]:
    """Return (bytes, position after it) of the string at *at*, integers in decimal."""
    size, body, raw, form = read_string(data, at, len(data))
    start = at + size
    if size < 0:
        raise ValueError(f"fault {-size}")
    if size == 0 or start + body > len(data):
        raise IndexError
    value = data[start : start + body]
    if form == INT_STRING:
        value = b"%d" % int.from_bytes(value, "little", signed=True)
    elif form == LZF_STRING:
        value = expand(value, raw)
    return value, start + body
