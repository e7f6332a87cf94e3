"""Heads and entries of packed values (listpack, ziplist, intset, zipmap), one string each in the file.

These functions read any bytes by index; `cluster_core.rdb.walk_packed` compiles them for arrays.
"""

from __future__ import annotations

from cluster_core.rdb import faults
from cluster_core.rdb.grammar import F_INTSET, F_LISTPACK, F_ZIPLIST, F_ZIPMAP
from cluster_core.rdb.strings import big_endian

HEAD_BYTES = (6, 10, 8, 1)
"""Bytes before the first entry, by form."""

UNKNOWN = -1
"""As a count: walk the entries. As a size: the entry is invalid."""


def little_endian(data: bytes, at: int, count: int) -> int:
    """Return the unsigned integer of *count* bytes at *at*, lowest first."""
    return int.from_bytes(data[at : at + count], "little")


def signed_integer(data: bytes, at: int, count: int) -> int:
    """Return the signed integer of *count* bytes at *at*, lowest first."""
    return int.from_bytes(data[at : at + count], "little", signed=True)


def stated_count(data: bytes, at: int, total: int, form: int) -> tuple[int, int, int]:
    """Return the entry count in the head of a packed value of *total* bytes, `UNKNOWN` if it does not fit there.

    A zipmap's entries are pairs. A count below -1 is the fault -1 - count with two numbers.
    """
    if form == F_ZIPMAP:
        if total < 2:
            return -1 - faults.PACKED_EMPTY, total, 0
        count = data[at] + 0
        if count >= 254:
            return UNKNOWN, 0, 0
        least = 3 * count + 2
    elif form == F_INTSET:
        if total < 8:
            return -1 - faults.PACKED_EMPTY, total, 0
        width = little_endian(data, at, 4)
        count = little_endian(data, at + 4, 4)
        if width != 2 and width != 4 and width != 8:
            return -1 - faults.INTSET_WIDTH, width, 0
        if 8 + count * width != total:
            return -1 - faults.PACKED_BYTES, 8 + count * width, total
        return count, 0, 0
    else:
        head = 7 if form == F_LISTPACK else 11
        if total < head:
            return -1 - faults.PACKED_EMPTY, total, 0
        stated = little_endian(data, at, 4)
        if stated != total:
            return -1 - faults.PACKED_BYTES, stated, total
        count = little_endian(data, at + head - 3, 2)
        if count == 65535:
            return UNKNOWN, 0, 0
        least = 2 * count + head
    if least > total:
        return -1 - faults.PACKED_COUNT, count, total
    return count, 0, 0


def listpack_entry_bytes(data: bytes, at: int, end: int) -> int:
    """Return the size of the listpack entry at *at* with its back length: 0 if cut, `UNKNOWN` if undefined."""
    first = data[at] + 0
    if first < 0x80:
        return 2
    if first < 0xC0:
        size = 1 + (first & 63)
    elif first < 0xE0:
        return 3
    elif first < 0xF0:
        if at + 2 > end:
            return 0
        size = 2 + ((first & 15) << 8 | data[at + 1])
    elif first == 0xF0:
        if at + 5 > end:
            return 0
        size = 5 + little_endian(data, at + 1, 4)
    elif first < 0xF4:
        return first - 0xF1 + 4
    elif first == 0xF4:
        return 10
    else:
        return UNKNOWN
    if size <= 127:
        return size + 1
    return size + (2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5)


def ziplist_entry_bytes(data: bytes, at: int, end: int) -> int:
    """Return the size of the ziplist entry at *at* with the previous length: 0 if cut, `UNKNOWN` if undefined."""
    head = 1 if data[at] < 254 else 5
    at += head
    if at >= end:
        return 0
    first = data[at] + 0
    if first < 0x40:
        return head + 1 + first
    if first < 0x80:
        if at + 2 > end:
            return 0
        return head + 2 + ((first & 0x3F) << 8 | data[at + 1])
    if first == 0x80:
        if at + 5 > end:
            return 0
        return head + 5 + big_endian(data, at + 1, 4)
    if first == 0xC0:
        return head + 3
    if first == 0xD0:
        return head + 5
    if first == 0xE0:
        return head + 9
    if first == 0xF0:
        return head + 4
    if first == 0xFE:
        return head + 2
    return head + 1 if 0xF1 <= first <= 0xFD else UNKNOWN


def zipmap_entry_bytes(data: bytes, at: int, end: int, side: int) -> int:
    """Return the size of the zipmap key (*side* 0) or value (1, with free bytes) at *at*: 0 if cut, `UNKNOWN` if undefined."""
    first = data[at] + 0
    if first < 254:
        if side == 0:
            return 1 + first
        return 2 + first + data[at + 1] if at + 2 <= end else 0
    if first == 255:
        return UNKNOWN
    if at + 5 + side > end:
        return 0
    size = 5 + little_endian(data, at + 1, 4)
    return size + 1 + data[at + 5] if side else size


def entry_bytes(data: bytes, at: int, end: int, form: int, side: int) -> int:
    """Return the bytes of the entry of *form* at *at*: 0 if more are needed, `UNKNOWN` if it is undefined."""
    if form == F_LISTPACK:
        return listpack_entry_bytes(data, at, end)
    if form == F_ZIPLIST:
        return ziplist_entry_bytes(data, at, end)
    return zipmap_entry_bytes(data, at, end, side)


def entry_value(data: bytes, at: int, form: int, side: int) -> tuple[bool, int, int, int]:
    """Return whether the whole entry at *at* is an integer, the integer, or else the position and length of its bytes."""
    first = data[at] + 0
    if form == F_LISTPACK:
        if first < 0x80:
            return True, first, at, 0
        if first < 0xC0:
            return False, 0, at + 1, first & 63
        if first < 0xE0:
            number = (first & 31) << 8 | data[at + 1]
            return True, number - 8192 if number >= 4096 else number, at, 0
        if first < 0xF0:
            return False, 0, at + 2, (first & 15) << 8 | data[at + 1]
        if first == 0xF0:
            return False, 0, at + 5, little_endian(data, at + 1, 4)
        return True, signed_integer(data, at + 1, 8 if first == 0xF4 else first - 0xF1 + 2), at, 0
    if form == F_ZIPMAP:
        if first < 254:
            return False, 0, at + 1 + side, first
        return False, 0, at + 5 + side, little_endian(data, at + 1, 4)
    at += 1 if first < 254 else 5
    first = data[at] + 0
    if first < 0x40:
        return False, 0, at + 1, first
    if first < 0x80:
        return False, 0, at + 2, (first & 63) << 8 | data[at + 1]
    if first == 0x80:
        return False, 0, at + 5, big_endian(data, at + 1, 4)
    if 0xF1 <= first <= 0xFD:
        return True, first - 0xF1, at, 0
    width = 2 if first == 0xC0 else 4 if first == 0xD0 else 8 if first == 0xE0 else 3 if first == 0xF0 else 1
    return True, signed_integer(data, at + 1, width), at, 0
