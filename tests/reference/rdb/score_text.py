"""Scores of sorted sets as servers write them from Redis 7.2 on and in Valkey; before, see `printf_score`.

fpconv is Grisu2 (Loitsch, "Printing floating-point numbers quickly and accurately with integers", 2010): nearly always the
shortest digits that read back as the same number, but not always, so it is followed step by step.
"""

from __future__ import annotations

import math
import struct
from functools import cache

_MASK = (1 << 64) - 1
_HIDDEN = 1 << 52
_FIRST_POWER, _STEP = -348, 8
_EXPONENT_MIN, _EXPONENT_MAX = -60, -32
_DIGITS_MAX = 18


def fpconv_score(score: float) -> str:
    """Return *score* as `fpconv_dtoa` prints it.

    >>> fpconv_score(0.1), fpconv_score(1.2345678901234568e17), fpconv_score(1e-7)
    ('0.1', '123456789012345680', '1e-7')
    """
    sign = "-" if math.copysign(1.0, score) < 0 else ""
    if score == 0:
        return sign + "0"
    if not math.isfinite(score):
        return sign + ("nan" if math.isnan(score) else "inf")
    digits, power = _grisu2(abs(score))
    return sign + _placed(digits, power, bool(sign))


def _placed(digits: str, power: int, negative: bool) -> str:
    """*digits* times ten to the *power*, with a point or an exponent (`emit_digits`)."""
    exponent = power + len(digits) - 1
    if power >= 0 and abs(exponent) < len(digits) + 7:
        return digits + "0" * power
    if power < 0 and (power > -7 or abs(exponent) < 4):
        whole = len(digits) + power
        return f"0.{'0' * -whole}{digits}" if whole <= 0 else f"{digits[:whole]}.{digits[whole:]}"
    digits = digits[: _DIGITS_MAX - negative]
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent)}"


@cache
def _power(index: int) -> tuple[int, int, int]:
    """The *index*-th cached power of ten: (64 bits, binary exponent, decimal exponent)."""
    decimal = _FIRST_POWER + _STEP * index
    above, below = (10**decimal, 1) if decimal >= 0 else (1, 10**-decimal)
    exponent = above.bit_length() - below.bit_length() - 64
    while True:
        scaled, unit = (above << -exponent, below) if exponent < 0 else (above, below << exponent)
        bits = (2 * scaled + unit) // (2 * unit)
        if bits >> 64:
            exponent += 1
        elif not bits >> 63:
            exponent -= 1
        else:
            return bits, exponent, decimal


def _near_power(exponent: int) -> tuple[int, int, int]:
    index = int((int(-(exponent + 87) * 0.30102999566398114) - _FIRST_POWER) / _STEP)
    while True:
        power = _power(index)
        sum_exponent = exponent + power[1] + 64
        if sum_exponent < _EXPONENT_MIN:
            index += 1
        elif sum_exponent > _EXPONENT_MAX:
            index -= 1
        else:
            return power


def _grisu2(value: float) -> tuple[str, int]:
    """Return (digits, power of ten) of a positive number."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    fraction, biased = bits & (_HIDDEN - 1), bits >> 52
    fraction, exponent = (fraction + _HIDDEN, biased - 1075) if biased else (fraction, -1074)
    upper, upper_exponent = _shifted((fraction << 1) + 1, exponent - 1)
    step = 2 if fraction == _HIDDEN else 1
    lower = ((fraction << step) - 1) << (exponent - step - upper_exponent)
    middle, _ = _shifted(fraction, exponent)
    power, power_exponent, decimal = _near_power(upper_exponent)
    middle, upper, lower = (
        (part * power + (1 << 63)) >> 64 for part in (middle, upper & _MASK, lower & _MASK)
    )  # each to 64 bits, rounded
    digits, kappa = _digits(middle, upper - 1, lower + 1, upper_exponent + power_exponent + 64)
    return digits, kappa - decimal


def _shifted(fraction: int, exponent: int) -> tuple[int, int]:
    shift = 64 - fraction.bit_length()
    return fraction << shift, exponent - shift


def _digits(middle: int, upper: int, lower: int, exponent: int) -> tuple[str, int]:
    """Generate digits of *upper* until what is left lies within the bounds, then turn the last one towards *middle*."""
    gap, delta, bits = upper - middle, upper - lower, -exponent
    one = 1 << bits
    whole, part = upper >> bits, upper & (one - 1)
    found: list[int] = []
    for kappa in range(9, -1, -1):
        digit, whole = divmod(whole, 10**kappa)
        if digit or found:
            found.append(digit)
        rest = (whole << bits) + part
        if rest <= delta:
            return _rounded(found, delta, rest, 10**kappa << bits, gap), kappa
    kappa, unit = 0, 1
    while True:
        part, delta, unit, kappa = part * 10, delta * 10, unit * 10, kappa - 1
        digit, part = part >> bits, part & (one - 1)
        if digit or found:
            found.append(digit)
        if part < delta:
            return _rounded(found, delta, part, one, gap * unit & _MASK), kappa


def _rounded(digits: list[int], delta: int, rest: int, unit: int, gap: int) -> str:
    last = digits[-1]
    while rest < gap and delta - rest >= unit and (rest + unit < gap or gap - rest > rest + unit - gap):
        last -= 1
        rest += unit
    return "".join(map(str, digits[:-1])) + str(last)
