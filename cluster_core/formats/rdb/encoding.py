"""Lengths, strings and packed values as bytes: the way back from `strings` and `packed_elements`."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cluster_core.errors import EncodeError

INTEGER_DIGITS_MAX = 11
"""A string of more digits is never written as an integer (`rdbSaveRawString`)."""
LISTPACK_INTEGER_DIGITS_MAX = 20
_PACKED_BYTES_MAX = 1 << 30
_COUNT_MAX = 65_535


def length_bytes(value: int) -> bytes:
    """Return a length or count, 0 to 2**64 - 1 (`rdbSaveLen`)."""
    if value < 0x40:
        if value < 0:
            raise EncodeError(f"{value} is no length")
        return bytes((value,))
    if value < 0x4000:
        return bytes((0x40 | value >> 8, value & 0xFF))
    if value < 1 << 32:
        return b"\x80" + value.to_bytes(4, "big")
    if value < 1 << 64:
        return b"\x81" + value.to_bytes(8, "big")
    raise EncodeError(f"{value} is longer than a length can say")


def raw_string_bytes(data: bytes) -> bytes:
    """Return a string as length and bytes."""
    return length_bytes(len(data)) + data


def string_bytes(data: bytes) -> bytes:
    """Return a string, as an integer if it is one of up to 32 bits, else uncompressed (`rdbSaveRawString`)."""
    if 0 < len(data) <= INTEGER_DIGITS_MAX:
        number = canonical_integer(data)
        if number is not None:
            for form, code in enumerate("bhi"):
                limit = 1 << (8 << form) - 1
                if -limit <= number < limit:
                    return bytes((0xC0 | form,)) + struct.pack(f"<{code}", number)
    return length_bytes(len(data)) + data


def canonical_integer(text: bytes) -> int | None:
    """Return the 64-bit integer that *text* is, written as a server writes it (`string2ll`), or None."""
    if not 0 < len(text) <= LISTPACK_INTEGER_DIGITS_MAX:
        return None
    digits = text[1:] if text[0] == 45 else text
    if not digits.isdigit() or (digits[0] == 48 and len(text) > 1):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def listpack_bytes(entries: Sequence[bytes]) -> bytes:
    """Return a listpack of *entries*; those that are integers become integers (`lpEncodeGetType`)."""
    body = b"".join(map(listpack_entry, entries))
    return struct.pack("<IH", _packed_bytes(len(body) + 7), min(len(entries), _COUNT_MAX)) + body + b"\xff"


def listpack_entry(entry: bytes) -> bytes:
    """Return one entry of a listpack with its back length."""
    number = canonical_integer(entry)
    if number is not None:
        body = _listpack_integer(number)
    elif len(entry) < 64:
        body = bytes((0x80 | len(entry),)) + entry
    elif len(entry) < 4096:
        body = bytes((0xE0 | len(entry) >> 8, len(entry) & 0xFF)) + entry
    else:
        body = b"\xf0" + struct.pack("<I", _packed_bytes(len(entry))) + entry
    return body + _back_length(len(body))


def _listpack_integer(number: int) -> bytes:
    if 0 <= number < 128:
        return bytes((number,))
    if -4096 <= number < 4096:
        return bytes((0xC0 | (number & 0x1FFF) >> 8, number & 0xFF))
    for code, width in ((0xF1, 2), (0xF2, 3), (0xF3, 4), (0xF4, 8)):
        if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
            return bytes((code,)) + (number & (1 << 8 * width) - 1).to_bytes(width, "little")
    raise EncodeError(f"{number} is no 64-bit integer")


def _back_length(size: int) -> bytes:
    """The size of an entry, seven bits a byte, to be read from its end; all bytes but the first are marked (`lpEncodeBacklen`)."""
    if size <= 127:
        return bytes((size,))
    count = 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5
    parts = [size >> 7 * place & 127 | 128 for place in range(count - 1, -1, -1)]
    parts[0] &= 127
    return bytes(parts)


def ziplist_bytes(entries: Sequence[bytes]) -> bytes:
    """Return a ziplist of *entries*; those that are integers become integers (`zipTryEncoding`)."""
    out = bytearray()
    before = tail = 0
    for entry in entries:
        tail = len(out)
        head = bytes((before,)) if before < 254 else b"\xfe" + struct.pack("<I", before)
        out += head + _ziplist_entry(entry)
        before = len(out) - tail
    head = struct.pack("<IIH", _packed_bytes(len(out) + 11), 10 + tail, min(len(entries), _COUNT_MAX))
    return head + bytes(out) + b"\xff"


def _ziplist_entry(entry: bytes) -> bytes:
    number = canonical_integer(entry)
    if number is not None:
        if 0 <= number <= 12:
            return bytes((0xF1 + number,))
        for code, width in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8)):
            if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
                return bytes((code,)) + (number & (1 << 8 * width) - 1).to_bytes(width, "little")
    if len(entry) < 64:
        return bytes((len(entry),)) + entry
    if len(entry) < 16384:
        return bytes((0x40 | len(entry) >> 8, len(entry) & 0xFF)) + entry
    return b"\x80" + _packed_bytes(len(entry)).to_bytes(4, "big") + entry


def intset_bytes(numbers: Sequence[int]) -> bytes:
    """Return an intset of *numbers*, sorted, in the narrowest width that holds them all."""
    ordered = sorted(numbers)
    width = next(width for width in (2, 4, 8) if all(-(1 << 8 * width - 1) <= n < 1 << 8 * width - 1 for n in ordered))
    code = {2: "h", 4: "i", 8: "q"}[width]
    return struct.pack(f"<II{len(ordered)}{code}", width, len(ordered), *ordered)


def _packed_bytes(size: int) -> int:
    if size > _PACKED_BYTES_MAX:
        raise EncodeError(f"a packed value of {size} bytes is larger than a server takes ({_PACKED_BYTES_MAX})")
    return size
