"""Numbers in decimal: integers, and doubles in the fewest digits that read back as the same (R. Giulietti's Schubfach)."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.rdb.memory import copy_bytes

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
