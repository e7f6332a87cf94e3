"""Numbers and strings as text: decimals, JSON strings, RESP bulk strings.

Strings that are not UTF-8, or start like this, are ``base64:`` and their Base64, so every string can be restored.
"""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.raw_bytes import address, copy_bytes, word64
from cluster_core.rdb import value_state as state

_DIGITS_MIN, _DIGITS_MAX = 15, 17
"""Significant digits of a double: any 15 are kept, 17 always read back."""
_WHOLE_MAX = 1 << 53
_format_double: Any = types.ExternalFunction("gcvt", types.uint64(types.float64, types.intc, types.uint64))
_parse_double: Any = types.ExternalFunction("strtod", types.float64(types.uint64, types.uint64))
_HUNDRED = np.uint64(100)
_PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), np.uint8).copy()


@borrowing()
def put_integer(out: Any, at: int, value: int) -> int:
    """Write the 64-bit integer *value* in decimal to *out* from *at*; return the place after it."""
    left = np.uint64(value)
    if value < 0:
        out[at] = 45
        at += 1
        left = np.uint64(0) - left
    return put_unsigned(out, at, left)


@borrowing(forceinline=True)
def put_unsigned(out: Any, at: int, left: int) -> int:
    """Write *left* (uint64) in decimal to *out* from *at*; return the place after it."""
    ten = np.uint64(10)
    count = np.int64(1)
    limit = ten
    while left >= limit and count < 20:
        count += 1
        limit = limit * ten if count < 20 else np.uint64(0)
    end = at + count
    place = end
    while left >= _HUNDRED:
        rest = left // _HUNDRED
        place -= 2
        copy_bytes(out, place, _PAIRS, 2 * np.int64(left - rest * _HUNDRED), 2)
        left = rest
    if left >= ten:
        copy_bytes(out, at, _PAIRS, 2 * np.int64(left), 2)
    else:
        out[at] = np.uint8(np.uint64(48) + left)
    return end


@borrowing()
def put_double(out: Any, at: int, bits: int) -> int:
    """Write the double of 64 *bits* to *out* from *at* (at most 26 bytes, 15 to 17 round-trip digits); return the end.

    ``inf``, ``-inf`` and ``nan`` as servers write them; a whole number has no fraction.
    """
    value = np.int64(bits).view(np.float64)
    if value != value:
        out[at], out[at + 1], out[at + 2] = 110, 97, 110
        return at + 3
    if value == 0:
        if bits < 0:  # without a point, readers of JSON take -0 for an integer
            out[at] = 45
            at += 1
        out[at], out[at + 1], out[at + 2] = 48, 46, 48
        return at + (3 if bits < 0 else 1)
    if -_WHOLE_MAX < value < _WHOLE_MAX and value == np.float64(np.int64(value)):
        return put_integer(out, at, np.int64(value))
    text = address(out, at)
    for digits in range(_DIGITS_MIN, _DIGITS_MAX + 1):
        _format_double(value, digits, text)
        if _parse_double(text, np.uint64(0)) == value:
            break
    while out[at] != 0:
        at += 1
    return at


BASE64_MARK: Final = b"base64:"
JSON_BYTES_MAX = 6
"""Maximum bytes of one string byte in JSON."""

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).copy()
_MARK = np.frombuffer(BASE64_MARK, np.uint8).copy()
_WORD_BYTES, _HALF_BYTES = 8, 4
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_PLAIN, _UNICODE, _BEYOND_ASCII = 0, 1, 2


def _json_escapes() -> NDArray[np.uint8]:
    """Return the JSON form per byte: as is, ``\\u00xx``, part of UTF-8, or a backslash with the given letter."""
    table = np.zeros(256, np.uint8)
    table[:32] = _UNICODE
    table[127] = _UNICODE
    table[128:] = _BEYOND_ASCII
    for byte, letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
        table[byte] = letter
    return table


_ESCAPES = _json_escapes()


@borrowing(forceinline=True)
def put(out: Any, at: int, data: Any, begin: int, size: int) -> int:
    """Copy *size* bytes of *data* from *begin* on to *out*; return the place after them."""
    if size >= 2 * _WORD_BYTES:
        copy_bytes(out, at, data, begin, size)
    elif size >= _WORD_BYTES:  # two words that overlap
        copy_bytes(out, at, data, begin, _WORD_BYTES)
        copy_bytes(out, at + size - _WORD_BYTES, data, begin + size - _WORD_BYTES, _WORD_BYTES)
    elif size >= _HALF_BYTES:
        copy_bytes(out, at, data, begin, _HALF_BYTES)
        copy_bytes(out, at + size - _HALF_BYTES, data, begin + size - _HALF_BYTES, _HALF_BYTES)
    else:
        for i in range(size):
            out[at + i] = data[begin + i]
    return at + size


@borrowing(forceinline=True)
def _plain_bytes(word: int) -> int:
    """Return the number of leading bytes of eight that JSON strings hold as is: 32 to 126, no quote or backslash."""
    quotes = word ^ (_ONES * np.uint64(34))
    slashes = word ^ (_ONES * np.uint64(92))
    deletes = word ^ (_ONES * np.uint64(127))
    odd = (word - _ONES * np.uint64(32)) | word
    odd |= (quotes - _ONES) | (slashes - _ONES) | (deletes - _ONES)
    odd &= _TOPS
    if odd == 0:
        return np.int64(_WORD_BYTES)
    count = np.int64(0)
    while odd & np.uint64(0x80) == 0:  # subtraction may mark bytes after the first odd one, never before
        odd >>= np.uint64(_WORD_BYTES)
        count += 1
    return count


@borrowing()
def utf8_bytes(data: Any, at: int, end: int) -> int:
    """Return the bytes of the non-ASCII character at *at*, 0 for an invalid one (RFC 3629)."""
    first = np.int64(data[at])
    if first < 0xC2 or first > 0xF4 or at + 1 >= end:
        return np.int64(0)
    second = np.int64(data[at + 1])
    if second & 0xC0 != 0x80:
        return np.int64(0)
    if first < 0xE0:
        return np.int64(2)
    if at + 2 >= end or np.int64(data[at + 2]) & 0xC0 != 0x80:
        return np.int64(0)
    if first < 0xF0:
        is_undefined = (first == 0xE0 and second < 0xA0) or (first == 0xED and second >= 0xA0)
        return np.int64(0 if is_undefined else 3)
    if at + 3 >= end or np.int64(data[at + 3]) & 0xC0 != 0x80:
        return np.int64(0)
    return np.int64(0 if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second >= 0x90) else 4)


@borrowing()
def _looks_marked(data: Any, begin: int, size: int) -> bool:
    if size < _MARK.size:
        return False
    for i in range(_MARK.size):  # noqa: SIM110 - numba needs the loop
        if data[begin + i] != _MARK[i]:
            return False
    return True


@borrowing()
def _put_base64(st: Any, out: Any, at: int, data: Any, begin: int, size: int) -> int:
    """Write the mark and the Base64 of *size* bytes."""
    st[state.NOT_TEXT] += 1
    at = put(out, at, _MARK, np.int64(0), _MARK.size)
    left = size
    while left > 0:
        first = np.int64(data[begin])
        second = np.int64(data[begin + 1]) if left > 1 else np.int64(0)
        third = np.int64(data[begin + 2]) if left > 2 else np.int64(0)
        out[at] = _LETTERS[first >> 2]
        out[at + 1] = _LETTERS[(first & 3) << 4 | second >> 4]
        out[at + 2] = _LETTERS[(second & 15) << 2 | third >> 6] if left > 1 else 61
        out[at + 3] = _LETTERS[third & 63] if left > 2 else 61
        at += 4
        begin += 3
        left -= 3
    return at


@borrowing()
def put_json(st: Any, out: Any, at: int, data: Any, begin: int, size: int) -> int:
    """Write *size* bytes of *data* as a JSON string; return the place after it."""
    out[at] = 34
    to = at + 1
    end = begin + size
    from_ = begin
    is_text = not (size > 0 and data[begin] == 98 and _looks_marked(data, begin, size))
    while is_text and from_ < end:
        count = np.int64(_WORD_BYTES)
        while from_ + _WORD_BYTES <= end and count == _WORD_BYTES:
            copy_bytes(out, to, data, from_, _WORD_BYTES)
            count = _plain_bytes(word64(data, from_))
            from_ += count
            to += count
        if from_ >= end:
            break
        byte = data[from_]
        kind = _ESCAPES[byte]
        if kind == _PLAIN:
            out[to] = byte
            to += 1
            from_ += 1
        elif kind == _BEYOND_ASCII:
            count = utf8_bytes(data, from_, end)
            is_text = count > 0
            to = put(out, to, data, from_, count)
            from_ += count
        else:
            out[to] = 92
            if kind == _UNICODE:
                out[to + 1], out[to + 2], out[to + 3] = 117, 48, 48
                out[to + 4] = _HEX[byte >> 4]
                out[to + 5] = _HEX[byte & 15]
                to += 6
            else:
                out[to + 1] = kind
                to += 2
            from_ += 1
    if not is_text:
        to = _put_base64(st, out, at + 1, data, begin, size)
    out[to] = 34
    return to + 1


@borrowing(forceinline=True)
def put_line_end(out: Any, at: int) -> int:
    """Write CR and LF."""
    out[at] = 13
    out[at + 1] = 10
    return at + 2


@borrowing(forceinline=True)
def put_bulk(out: Any, at: int, data: Any, begin: int, size: int) -> int:
    """Write *size* bytes of *data* as a bulk string of RESP; return the place after it."""
    out[at] = 36
    at = put_line_end(out, put_integer(out, at + 1, size))
    return put_line_end(out, put(out, at, data, begin, size))


@borrowing()
def is_json_number(data: Any, begin: int, size: int) -> bool:
    """Return whether *size* bytes of *data* are a JSON number."""
    at = begin
    end = begin + size
    if at < end and data[at] == 45:
        at += 1
    if at >= end or data[at] < 48 or data[at] > 57:
        return False
    if data[at] == 48 and at + 1 < end and 48 <= data[at + 1] <= 57:
        return False
    at = _digits_end(data, at, end)
    if at < end and data[at] == 46:
        after = _digits_end(data, at + 1, end)
        if after == at + 1:
            return False
        at = after
    if at < end and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        after = _digits_end(data, at, end)
        if after == at:
            return False
        at = after
    return at == end


@borrowing()
def _digits_end(data: Any, at: int, end: int) -> int:
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at
