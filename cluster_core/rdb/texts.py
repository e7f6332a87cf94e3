"""Numbers and strings as text: decimals, JSON strings, bulk strings of RESP.

Bytes that are not UTF-8, and those that begin like that, are written as ``base64:`` and their Base64: every string comes back as it was.
"""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.raw_bytes import copy_bytes, word64
from cluster_core.rdb import value_state as state

_POWER_MIN, _POWER_MAX = -292, 324
_MANTISSA_BITS = 52
_BIAS = 1075
_PLAIN_MIN, _PLAIN_MAX = -4, 17
"""Decimal exponents between which a double is written without an exponent."""


def _powers_of_ten() -> NDArray[np.uint64]:
    """Powers of ten as 128 bits each, the highest one set, rounded up."""
    table = np.empty((_POWER_MAX - _POWER_MIN + 1, 2), np.uint64)
    for row, power in enumerate(range(_POWER_MIN, _POWER_MAX + 1)):
        shift = 127 - (power * 1741647 >> 19)
        above, below = (10**power, 1) if power >= 0 else (1, 10**-power)
        above, below = (above << shift, below) if shift >= 0 else (above, below << -shift)
        value = -(-above // below)
        table[row] = value >> 64, value & (1 << 64) - 1
    return table


_POWERS = _powers_of_ten()
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


@borrowing(forceinline=True)
def _product_high(a: int, b: int) -> int:
    """The upper 64 bits of a product."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


@borrowing(forceinline=True)
def _round_to_odd(high: int, low: int, value: int) -> int:
    y0 = high * value
    y1 = _product_high(high, value)
    mixed = y0 + _product_high(low, value)
    if mixed < y0:
        y1 += np.uint64(1)
    return y1 | np.uint64(1 if mixed > np.uint64(1) else 0)


@borrowing()
def _shortest(fraction: int, exponent: int) -> tuple[int, int]:
    """Return (digits, power of ten) of the double with these bits (uint64, int64), which is neither 0 nor infinite."""
    one, two, four, ten, forty = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(10), np.uint64(40)
    if exponent != 0:
        c = np.uint64(1 << _MANTISSA_BITS) | fraction
        q = exponent - _BIAS
        if 0 <= -q <= _MANTISSA_BITS and c & ((one << np.uint64(-q)) - one) == 0:
            return c >> np.uint64(-q), np.int64(0)
    else:
        c = fraction
        q = np.int64(1 - _BIAS)
    is_odd = c & one
    is_closer = fraction == 0 and exponent > 1
    k = (q * 1262611 - (524031 if is_closer else 0)) >> 22
    h = np.uint64(q + (-k * 1741647 >> 19) + 1)
    high, low = _POWERS[-k - _POWER_MIN, 0], _POWERS[-k - _POWER_MIN, 1]
    lower = _round_to_odd(high, low, (four * c - (one if is_closer else two)) << h) + is_odd
    value = _round_to_odd(high, low, (four * c) << h)
    upper = _round_to_odd(high, low, (four * c + two) << h) - is_odd
    s = value // four
    if s >= ten:
        tens = s // ten
        is_up = lower <= forty * tens
        is_down = forty * tens + forty <= upper
        if is_up != is_down:
            return tens + (one if is_down else np.uint64(0)), k + 1
    is_up = lower <= four * s
    is_down = four * s + four <= upper
    if is_up != is_down:
        return s + (one if is_down else np.uint64(0)), k
    middle = four * s + two
    rounds = value > middle or (value == middle and s & one == one)
    return s + (one if rounds else np.uint64(0)), k


@borrowing()
def put_double(out: Any, at: int, bits: int) -> int:
    """Write the double of these 64 *bits* to *out* from *at*, at most 26 bytes; return the place after it.

    ``inf``, ``-inf`` and ``nan`` as servers write them; a whole number has no fraction.
    """
    fraction = np.uint64(bits) & np.uint64((1 << _MANTISSA_BITS) - 1)
    exponent = (bits >> _MANTISSA_BITS) & 0x7FF
    if exponent == 0x7FF and fraction != 0:
        out[at], out[at + 1], out[at + 2] = 110, 97, 110
        return at + 3
    if bits < 0:
        out[at] = 45
        at += 1
    if exponent == 0x7FF:
        out[at], out[at + 1], out[at + 2] = 105, 110, 102
        return at + 3
    if exponent == 0 and fraction == 0:
        out[at], out[at + 1], out[at + 2] = 48, 46, 48
        return at + (3 if bits < 0 else 1)  # without a point, readers of JSON take -0 for an integer
    digits, power = _shortest(fraction, exponent)
    ten = np.uint64(10)
    while digits % ten == 0:
        digits //= ten
        power += 1
    end = put_unsigned(out, at, digits)
    count = end - at
    point = count + power
    if _PLAIN_MIN < point <= _PLAIN_MAX:
        return _put_point(out, at, count, point)
    if count > 1:
        for i in range(end, at + 1, -1):
            out[i] = out[i - 1]
        out[at + 1] = 46
        end += 1
    out[end] = 101
    out[end + 1] = 45 if point < 1 else 43
    return put_integer(out, end + 2, abs(point - 1))


@borrowing(forceinline=True)
def _put_point(out: Any, at: int, count: int, point: int) -> int:
    """Put the decimal point of the *count* digits at *at* behind the first *point* of them, with the zeros that it takes."""
    if point >= count:
        for i in range(count, point):
            out[at + i] = 48
        return at + point
    if point > 0:
        for i in range(count, point, -1):
            out[at + i] = out[at + i - 1]
        out[at + point] = 46
        return at + count + 1
    shift = 2 - point
    for i in range(count - 1, -1, -1):
        out[at + shift + i] = out[at + i]
    for i in range(shift):
        out[at + i] = 48
    out[at + 1] = 46
    return at + shift + count


BASE64_MARK: Final = b"base64:"
JSON_BYTES_MAX = 6
"""Bytes that one byte of a string takes at most in JSON."""

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).copy()
_MARK = np.frombuffer(BASE64_MARK, np.uint8).copy()
_WORD_BYTES, _HALF_BYTES = 8, 4
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_PLAIN, _UNICODE, _BEYOND_ASCII = 0, 1, 2


def _json_escapes() -> NDArray[np.uint8]:
    """How a byte stands in a JSON string: as it is, as ``\\u00xx``, as part of UTF-8, or behind a backslash as the letter given."""
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
    """Return how many of eight bytes, from the first on, stand in a JSON string as they are: not below 32 or above 126, no quote, no backslash."""
    quotes = word ^ (_ONES * np.uint64(34))
    slashes = word ^ (_ONES * np.uint64(92))
    deletes = word ^ (_ONES * np.uint64(127))
    odd = (word - _ONES * np.uint64(32)) | word
    odd |= (quotes - _ONES) | (slashes - _ONES) | (deletes - _ONES)
    odd &= _TOPS
    if odd == 0:
        return np.int64(_WORD_BYTES)
    count = np.int64(0)
    while odd & np.uint64(0x80) == 0:  # subtraction may mark bytes behind the first odd one, never before it
        odd >>= np.uint64(_WORD_BYTES)
        count += 1
    return count


@borrowing()
def utf8_bytes(data: Any, at: int, end: int) -> int:
    """Return the bytes of the character beyond ASCII at *at*, 0 where there is none (RFC 3629)."""
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
    for i in range(_MARK.size):  # noqa: SIM110 - compiled as it stands
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
    """Whether *size* bytes of *data* are a number as JSON has it."""
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
