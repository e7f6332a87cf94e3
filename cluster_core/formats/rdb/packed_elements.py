"""Entries of packed values (listpack, ziplist, intset, zipmap), one by one; `packed` counts them and knows their sizes."""

from __future__ import annotations

import struct

from cluster_core.formats.rdb.grammar import F_INTSET, F_LISTPACK, F_ZIPLIST
from cluster_core.formats.rdb.packed import entry_places

_LETTERS = {2: "h", 4: "i", 8: "q"}


def packed_elements(data: bytes, form: int) -> list[bytes]:
    """Return all entries of a packed value of *form* as bytes, integers in decimal.

    Raises ValueError, IndexError or struct.error where they stand for nothing.
    """
    if form == F_INTSET:
        width, count = struct.unpack_from("<II", data)
        if width not in (2, 4, 8) or 8 + width * count > len(data):
            raise ValueError
        return [b"%d" % number for number in struct.unpack_from(f"<{count}{_LETTERS[width]}", data, 8)]
    places = entry_places(data, form)
    if form == F_LISTPACK:
        return [_listpack_entry(data, at) for at, _, _ in places]
    if form == F_ZIPLIST:
        return [_ziplist_entry(data, at) for at, _, _ in places]
    return [_zipmap_entry(data, at, side) for at, _, side in places]


def _signed(data: bytes, at: int, width: int) -> bytes:
    if at + width > len(data):
        raise IndexError
    return b"%d" % int.from_bytes(data[at : at + width], "little", signed=True)


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError
    return data[at : at + size]


def _listpack_entry(data: bytes, at: int) -> bytes:
    first = data[at]
    if first < 0x80:
        return b"%d" % first
    if first < 0xC0:
        return _cut(data, at + 1, first & 63)
    if first < 0xE0:
        number = (first & 31) << 8 | data[at + 1]
        return b"%d" % (number - 8192 if number >= 4096 else number)
    if first < 0xF0:
        return _cut(data, at + 2, (first & 15) << 8 | data[at + 1])
    if first == 0xF0:
        return _cut(data, at + 5, int.from_bytes(data[at + 1 : at + 5], "little"))
    return _signed(data, at + 1, (2, 3, 4, 8)[first - 0xF1])


def _ziplist_entry(data: bytes, at: int) -> bytes:
    at += 1 if data[at] < 254 else 5
    first = data[at]
    if first < 0x40:
        return _cut(data, at + 1, first)
    if first < 0x80:
        return _cut(data, at + 2, (first & 63) << 8 | data[at + 1])
    if first == 0x80:
        return _cut(data, at + 5, int.from_bytes(data[at + 1 : at + 5], "big"))
    if 0xF1 <= first <= 0xFD:
        return b"%d" % (first - 0xF1)
    return _signed(data, at + 1, {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}[first])


def _zipmap_entry(data: bytes, at: int, side: int) -> bytes:
    size, head = (data[at], 1) if data[at] < 254 else (int.from_bytes(data[at + 1 : at + 5], "little"), 5)
    return _cut(data, at + head + side, size)
