"""Strings of a value as they are met one by one: what they add to its packed forms, and to its table under each model."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, Final

import numpy as np

from cluster_core.formats.rdb import grammar
from cluster_core.formats.rdb.strings import INT_STRING, RAW_STRING
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.rdb import memory_sizes as sizes
from cluster_core.kernels.rdb.atoms import digits_of, little_endian, read_string
from cluster_core.kernels.rdb.keys import is_integer
from cluster_core.kernels.rdb.packed import entry_bytes
from cluster_core.kernels.rdb.strings import expand
from cluster_core.memory import packed_sizes
from cluster_core.memory.allocators import LIBC

DONE, SCRATCH, UNKNOWN = 0, 1, -1
"""A value was walked; a packed one needs more room to be expanded; it is none that all models know."""
(
    COUNT,  # of strings, without scores
    LONGEST_STRING,
    LISTPACK_BYTES,
    ZIPLIST_BYTES,
    ENTRY_BEFORE,  # bytes of the last entry of a ziplist
    TEXTS,  # strings that are no numbers
    WIDTH,  # of an intset
    FIELD,  # length of a field whose value is to come, or -1
    NODES_MET,
    FROM_ZIPLIST,  # whether the file holds ziplists, which a later server converts
) = range(10)
ACCUMULATED: Final = 10
PART_BYTES, PART_UNITS, PART_NODES = range(3)
PARTS: Final = 3
"""Under each model: bytes and units of a table's elements, bytes of a list's nodes."""
_LONG_SCORE_BYTES = 18
_ZIPLIST_HEAD, _LISTPACK_HEAD = 11, 7
_CHUNK_MIN = 32
_INTEGER_DIGITS_MAX = 20

_PLAIN = compiled(
    packed_sizes, "listpack_integer_bytes", "listpack_string_bytes", "ziplist_entry_payload", "intset_width",
    forceinline=True,
)  # fmt: skip
_listpack_integer_bytes, _listpack_string_bytes = _PLAIN["listpack_integer_bytes"], _PLAIN["listpack_string_bytes"]
_ziplist_entry_payload, _intset_width = _PLAIN["ziplist_entry_payload"], _PLAIN["intset_width"]


@borrowing()
def take_string(acc: Any, parts: Any, models: Any, measure: int, length: int, number: int, is_number: bool) -> None:
    """Add one string of a value: its *length* in characters, and *number* where it is one."""
    acc[COUNT] += 1
    acc[LONGEST_STRING] = max(acc[LONGEST_STRING], length)
    if is_number:
        acc[LISTPACK_BYTES] += _listpack_integer_bytes(number)
        acc[WIDTH] = max(acc[WIDTH], _intset_width(number))
    else:
        acc[LISTPACK_BYTES] += _listpack_string_bytes(length)
        acc[TEXTS] += 1
    zipped = _ziplist_entry_payload(length, number, is_number) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
    acc[ZIPLIST_BYTES] += zipped
    acc[ENTRY_BEFORE] = zipped
    if measure == grammar.M_HASH and acc[FIELD] < 0:
        acc[FIELD] = length
        return
    for k in range(len(models)):
        m = models[k]
        if measure == grammar.M_SET:
            parts[k, PART_BYTES] += sizes.set_member_size(m, length)
        elif measure == grammar.M_ZSET:
            parts[k, PART_UNITS] += sizes.scored_member_units(m, length)
        elif measure == grammar.M_HASH:
            parts[k, PART_BYTES] += sizes.field_size(m, acc[FIELD], length, False)
    acc[FIELD] = -1


@borrowing()
def take_score(acc: Any, number: int, is_number: bool) -> None:
    """Add the score of a sorted set's member: part of a packed value, nothing of its own in a table."""
    length = digits_of(number) if is_number else _LONG_SCORE_BYTES
    acc[LISTPACK_BYTES] += _listpack_integer_bytes(number) if is_number else _listpack_string_bytes(length)
    zipped = _ziplist_entry_payload(length, number, is_number) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
    acc[ZIPLIST_BYTES] += zipped
    acc[ENTRY_BEFORE] = zipped


@borrowing()
def _integer_of(data: Any, at: int, size: int) -> int:
    """Return the integer whose digits are at *at*."""
    value = np.int64(0)
    first = 1 if data[at] == 45 else 0
    for i in range(first, size):
        value = value * 10 + np.int64(data[at + i]) - 48
    return -value if first else value


@borrowing()
def take_text(data: Any, at: int, size: int, acc: Any, parts: Any, models: Any, measure: int) -> None:
    """Add the string at *at*, a number where a server would take it for one."""
    if 0 < size <= _INTEGER_DIGITS_MAX and is_integer(data, at, size):
        take_string(acc, parts, models, measure, size, _integer_of(data, at, size), True)
    else:
        take_string(acc, parts, models, measure, size, np.int64(0), False)


@borrowing()
def fill_entries(data: Any, starts: Any, ends: Any, found: Any) -> None:
    """Write what the string between each of *starts* and *ends* takes as an entry of a listpack."""
    for i in range(len(starts)):
        size = ends[i] - starts[i]
        if 0 < size <= _INTEGER_DIGITS_MAX and is_integer(data, starts[i], size):
            found[i] = _listpack_integer_bytes(_integer_of(data, starts[i], size))
        else:
            found[i] = _listpack_string_bytes(size)


@borrowing()
def _digits(value: int) -> int:
    count = np.int64(1)
    if value < 0:
        count = np.int64(2)
        if value == np.int64(-9223372036854775808):
            return np.int64(20)
        value = -value
    while value >= 10:
        value //= 10
        count += 1
    return count


@borrowing()
def _signed(data: Any, at: int, width: int) -> int:
    value = little_endian(data, at, width)
    if width == 8:
        return value
    top = np.int64(1) << (8 * width - 1)
    return (value ^ top) - top


@borrowing()
def _entry(data: Any, at: int, form: int) -> tuple[int, int, bool]:
    """Return (length in characters, number, whether it is one) of the listpack or ziplist entry at *at*."""
    first = np.int64(data[at])
    if form == grammar.F_LISTPACK:
        if first < 0x80:
            return digits_of(first), first, True
        if first < 0xC0:
            return first & 63, np.int64(0), False
        if first < 0xE0:
            number = (first & 31) << 8 | np.int64(data[at + 1])
            number = number - 8192 if number >= 4096 else number
            return digits_of(number), number, True
        if first < 0xF0:
            return (first & 15) << 8 | np.int64(data[at + 1]), np.int64(0), False
        if first == 0xF0:
            return little_endian(data, at + 1, 4), np.int64(0), False
        width = first - 0xF1 + 2 if first < 0xF4 else np.int64(8)
        number = _signed(data, at + 1, width)
        return _digits(number), number, True
    at += 1 if data[at] < 254 else 5
    first = np.int64(data[at])
    if first < 0x40:
        return first, np.int64(0), False
    if first < 0x80:
        return (first & 0x3F) << 8 | np.int64(data[at + 1]), np.int64(0), False
    if first == 0x80:
        length = np.int64(0)
        for i in range(4):
            length = length << 8 | np.int64(data[at + 1 + i])
        return length, np.int64(0), False
    if 0xF1 <= first <= 0xFD:
        return digits_of(first - 0xF1), first - 0xF1, True
    width = np.int64(2)
    if first == 0xD0:
        width = np.int64(4)
    elif first == 0xE0:
        width = np.int64(8)
    elif first == 0xF0:
        width = np.int64(3)
    elif first == 0xFE:
        width = np.int64(1)
    number = _signed(data, at + 1, width)
    return _digits(number), number, True


@borrowing()
def _walk_packed(data: Any, at: int, end: int, form: int, sums: Any, models: Any, measure: int) -> int:
    """Add the entries of the packed value that is ``data[at:end]``; return `DONE` or `UNKNOWN`."""
    acc, parts = sums
    is_zset = measure == grammar.M_ZSET
    side = np.int64(0)
    if form == grammar.F_INTSET:
        width = little_endian(data, at, 4)
        if width != 2 and width != 4 and width != 8:
            return UNKNOWN
        at += 8
        while at + width <= end:
            value = little_endian(data, at, width)
            if width < 8:
                value = (value ^ (np.int64(1) << (8 * width - 1))) - (np.int64(1) << (8 * width - 1))
            take_string(acc, parts, models, measure, _digits(value), value, True)
            at += width
        return DONE
    if form == grammar.F_ZIPMAP:
        return UNKNOWN
    at += 6 if form == grammar.F_LISTPACK else 10
    while at < end and data[at] != 255:
        size = entry_bytes(data, at, end, form, side)
        if size < 1 or at + size >= end:
            return UNKNOWN
        length, number, is_number = _entry(data, at, form)
        if is_zset and side == 1:
            if not is_number:
                acc[LISTPACK_BYTES] += _listpack_string_bytes(length)
                zipped = _ziplist_entry_payload(length, number, False) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
                acc[ZIPLIST_BYTES] += zipped
                acc[ENTRY_BEFORE] = zipped
            else:
                take_score(acc, number, True)
        else:
            take_string(acc, parts, models, measure, length, number, is_number)
        side = 1 - side if is_zset else side
        at += size
    return DONE


@borrowing()
def take_packed(
    data: Any, at: int, end: int, form: int, sums: Any, models: Any, measure: int, scratch: Any
) -> tuple[int, int, int]:
    """Add the packed value whose string prefix is at *at*: return (`DONE`, position after), or what else, with the scratch needed."""
    size, body, raw, kind = read_string(data, at, end)
    start = at + size
    if size <= 0 or start + body > end or kind == INT_STRING:
        return UNKNOWN, at, raw
    if kind == RAW_STRING:
        return _walk_packed(data, start, start + body, form, sums, models, measure), start + body, raw
    if raw > scratch.size:
        return SCRATCH, at, raw
    if not expand(data, start, start + body, scratch, 0, raw):
        return UNKNOWN, at, raw
    return _walk_packed(scratch, np.int64(0), raw, form, sums, models, measure), start + body, raw


@borrowing()
def packed_memory(m: Any, rule_ziplists: int, acc: Any, zip_bytes: int, pack_bytes: int) -> int:
    """Return what a packed value of that many bytes of entries takes, as a ziplist or as a listpack.

    A ziplist of a file becomes a listpack in an allocation as large as the ziplist, which is shrunk (`lpShrinkToFit`); glibc keeps what is
    too little for a chunk of its own (``MINSIZE``).
    """
    if rule_ziplists:
        return sizes.packed_size(m, zip_bytes + _ZIPLIST_HEAD)
    size = sizes.packed_size(m, pack_bytes + _LISTPACK_HEAD)
    if acc[FROM_ZIPLIST] and m[sizes.ALLOCATOR] == LIBC:
        begun = sizes.packed_size(m, zip_bytes + _ZIPLIST_HEAD)
        if 0 < begun - size < _CHUNK_MIN:
            return begun
    return size
