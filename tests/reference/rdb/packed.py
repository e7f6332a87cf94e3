"""Packed values (listpack, ziplist, intset, zipmap): how many entries, from the head or by walking.

All four are one string in the file.  Their first bytes hold the entry count, unless that did not fit its field.
"""

from __future__ import annotations

from cluster_core.rdb import faults
from cluster_core.rdb.grammar import F_INTSET, F_LISTPACK, F_ZIPMAP
from cluster_core.rdb.strings import Fault

HEAD_BYTES = (6, 10, 8, 1)
"""Bytes before the first entry, by form."""

HEAD_BYTES_MAX = 10
UNKNOWN = -1


def entry_count(head: bytes, total: int, form: int, at: int) -> int:
    """Return the entries that a packed value of *total* bytes states in its *head*, or `UNKNOWN`.

    A zipmap's entries are pairs.  Raises Fault, at *at*, for a size or count that cannot be.
    """
    if form == F_ZIPMAP:
        if total < 2:
            raise Fault(faults.PACKED_EMPTY, at, total)
        count, least = head[0], 3 * head[0] + 2
        if count >= 254:
            return UNKNOWN
    elif form == F_INTSET:
        if total < 8:
            raise Fault(faults.PACKED_EMPTY, at, total)
        width = int.from_bytes(head[:4], "little")
        count = int.from_bytes(head[4:8], "little")
        if width not in (2, 4, 8):
            raise Fault(faults.INTSET_WIDTH, at, width)
        if 8 + count * width != total:
            raise Fault(faults.PACKED_BYTES, at, 8 + count * width, total)
        return count
    else:
        size = 7 if form == F_LISTPACK else 11
        if total < size:
            raise Fault(faults.PACKED_EMPTY, at, total)
        said = int.from_bytes(head[:4], "little")
        if said != total:
            raise Fault(faults.PACKED_BYTES, at, said, total)
        count = int.from_bytes(head[size - 3 : size - 1], "little")
        if count == 65535:
            return UNKNOWN
        least = 2 * count + size
    if least > total:
        raise Fault(faults.PACKED_COUNT, at, count, total)
    return count


def listpack_entry_bytes(data: bytes, at: int) -> int:
    """Return the size of the listpack entry at *at*, its back length included, -1 if it is undefined."""
    first = data[at]
    if first < 0x80:
        return 2
    if first < 0xC0:
        size = 1 + (first & 63)
    elif first < 0xE0:
        return 3
    elif first < 0xF0:
        size = 2 + ((first & 15) << 8 | data[at + 1])
    elif first == 0xF0:
        if at + 5 > len(data):
            raise IndexError
        size = 5 + int.from_bytes(data[at + 1 : at + 5], "little")
    elif first < 0xF5:
        return (4, 5, 6, 10)[first - 0xF1]
    else:
        return -1
    if size <= 127:
        return size + 1
    return size + (2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5)


def ziplist_entry_bytes(data: bytes, at: int) -> int:
    """Return the size of the ziplist entry at *at* with the length of the one before it, -1 if undefined."""
    head = 1 if data[at] < 254 else 5
    at += head
    first = data[at]
    if first < 0x40:
        return head + 1 + first
    if first < 0x80:
        return head + 2 + ((first & 0x3F) << 8 | data[at + 1])
    if first == 0x80:
        if at + 5 > len(data):
            raise IndexError
        return head + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
    if 0xF1 <= first <= 0xFD:
        return head + 1
    size = {0xC0: 3, 0xD0: 5, 0xE0: 9, 0xF0: 4, 0xFE: 2}.get(first)
    return -1 if size is None else head + size


def zipmap_entry_bytes(data: bytes, at: int, side: int) -> int:
    """Return the size of the zipmap key (*side* 0) or value (1, with its free bytes) at *at*, -1 if undefined."""
    first = data[at]
    if first < 254:
        return 2 + first + data[at + 1] if side else 1 + first
    if first == 255:
        return -1
    if at + 5 + side > len(data):
        raise IndexError
    size = 5 + int.from_bytes(data[at + 1 : at + 5], "little")
    return size + 1 + data[at + 5] if side else size
