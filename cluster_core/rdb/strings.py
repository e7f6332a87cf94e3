"""Lengths and strings of an RDB file, integers and LZF included (`rdbLoadLen`, `rdbGenericLoadStringObject`, `lzf_d.c`).

A control byte below 32 announces that many literal bytes plus one; any other is a reference: its top three bits
(and, if all are set, one more byte) give a length, the rest with the next byte a distance back.

Everything here works on a buffer that may end too early: then IndexError is raised, and the caller tries again
with more. What can never become right raises `Fault`.
"""

from __future__ import annotations

from cluster_core.rdb import faults
from cluster_core.rdb.grammar import STRING_BYTES_MAX


def expand_into(data: bytes, at: int, stop: int, out: bytearray, start: int, size: int) -> bool:
    """Expand ``data[at:stop]`` to ``out[start:start + size]``; False if it does not give exactly *size* bytes.

    `cluster_core.rdb.atoms` compiles this for arrays of bytes.
    """
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
    """Write *run* bytes from *put* on, each the one as far before it as *back* is before *put*."""
    piece = out[back : min(put, back + run)]
    out[put : put + run] = piece if len(piece) == run else (piece * (run // len(piece) + 1))[:run]


def expand(data: bytes, size: int) -> bytes:
    """Return the *size* bytes that *data* stands for; ValueError if it stands for anything else."""
    out = bytearray(size)
    if not expand_into(data, 0, len(data), out, 0, size):
        raise ValueError(f"not {size} bytes, compressed")
    return bytes(out)


RAW_STRING, INT_STRING, LZF_STRING = 0, 1, 2
"""Forms of a string: its bytes, a small integer, compressed."""


class Fault(Exception):  # noqa: N818 - it never leaves the package
    """A place in the buffer that cannot be decoded; the reader turns it into a DecodeError."""

    def __init__(self, code: int, at: int, a: int = 0, b: int = 0) -> None:
        super().__init__(code, at, a, b)
        self.code = code
        self.at = at
        self.a = a
        self.b = b


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position after it) of the length whose prefix is at *at*."""
    first = data[at]
    if first < 0x40:
        return first, at + 1
    if first < 0x80:
        return (first & 0x3F) << 8 | data[at + 1], at + 2
    if first <= 0x81:
        stop = at + (5 if first == 0x80 else 9)
        if stop > len(data):
            raise IndexError
        return int.from_bytes(data[at + 1 : stop], "big"), stop
    raise Fault(faults.LENGTH_PREFIX if first < 0xC0 else faults.LENGTH_IS_STRING, at, first)


def string_prefix(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return (position of the body, bytes of the body, bytes of the string, form) of the string at *at*.

    An integer's string length is given as 0: it depends on the digits.
    """
    first = data[at]
    if first < 0xC0:
        body, start = length_at(data, at)
        if body > STRING_BYTES_MAX:
            raise Fault(faults.STRING_BYTES, at, body)
        return start, body, body, RAW_STRING
    if first < 0xC3:
        return at + 1, 1 << (first & 3), 0, INT_STRING
    if first != 0xC3:
        raise Fault(faults.STRING_PREFIX, at, first)
    try:
        body, start = length_at(data, at + 1)
        raw, start = length_at(data, start)
    except Fault as fault:
        raise Fault(fault.code, at, fault.a) from None
    if body > STRING_BYTES_MAX or raw > STRING_BYTES_MAX:
        raise Fault(faults.STRING_BYTES, at, body if body > STRING_BYTES_MAX else raw)
    if raw == 0 or raw > 88 * body:  # three bytes give at most 264
        raise Fault(faults.LZF, at, body, raw)
    return start, body, raw, LZF_STRING


def string_at(data: bytes, at: int) -> bytes:
    """Return the string at *at* as bytes, integers in decimal; the caller has bounded its length."""
    start, body, raw, form = string_prefix(data, at)
    if start + body > len(data):
        raise IndexError
    if form == INT_STRING:
        return b"%d" % int.from_bytes(data[start : start + body], "little", signed=True)
    if form == RAW_STRING:
        return data[start : start + body]
    try:
        return expand(data[start : start + body], raw)
    except ValueError:
        raise Fault(faults.LZF, at, body, raw) from None
