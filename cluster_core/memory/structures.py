"""Memory of a server's structures: allocations, strings, tables, skip lists, packed entries.

Tables have their size right after the last insertion (docs/design/memory-model.md). A *presized* table was created for
the known number of elements: from a packed value, or by one command.
"""

from __future__ import annotations

from functools import cache
from math import exp

JEMALLOC, JEMALLOC_16, LIBC = range(3)
"""Allocators: jemalloc as the servers build it (quantum 8), as distributions package it (quantum 16), glibc."""

ALLOCATORS = ("jemalloc", "jemalloc-16", "libc")
"""Allocator names of ``--allocator``, by code."""

SMALL_ALLOCATION_BYTES = 1024
"""Smaller allocations are looked up in a table."""

_PAGE_BYTES = 4096
_MMAP_BYTES = 128 * 1024


def allocated_bytes(allocator: int, size: int) -> int:
    """Return the usable bytes of an allocation of *size* bytes (`zmalloc_size`).

    jemalloc has four size classes per doubling, at least its quantum apart (``lg_quantum``), and one of 8 bytes. glibc adds
    eight bytes, rounds to 16, and uses whole pages from 128 KiB on (initial ``M_MMAP_THRESHOLD``).
    """
    if allocator == LIBC:
        chunk = (size + 8 + 15) & ~15
        if chunk < 32:
            return 24
        if chunk < _MMAP_BYTES:
            return chunk - 8
        return ((chunk + 8 + _PAGE_BYTES - 1) & ~(_PAGE_BYTES - 1)) - 16
    if size <= 8:
        return 8
    shift = 4 if allocator == JEMALLOC_16 or size > 64 else 3
    while (size - 1) >> (shift + 3) > 0:
        shift += 1
    return (size + (1 << shift) - 1) >> shift << shift


@cache
def small_allocations(allocator: int) -> tuple[int, ...]:
    """Return `allocated_bytes` of 0 to `SMALL_ALLOCATION_BYTES` - 1 bytes."""
    return tuple(allocated_bytes(allocator, size) for size in range(SMALL_ALLOCATION_BYTES))


def sds_bytes(length: int) -> int:
    """Return the bytes of a string of *length* allocated by `sdsnewlen`: header, text, terminator.

    The header has 1, 3, 5, 9 or 17 bytes by length; an empty string gets 3, as it is expected to grow.
    """
    return embedded_sds_bytes(length) if length else 4


def embedded_sds_bytes(length: int) -> int:
    """Return the bytes of a string inside another allocation (`sdsReqSize` of `sdsReqType`)."""
    if length < 32:
        return length + 2
    if length < 256:
        return length + 4
    if length < 65_536:
        return length + 6
    return length + (10 if length < 1 << 32 else 18)


def field_sds_bytes(length: int) -> int:
    """Return the bytes of an embedded string with flags in its header (at least ``sdshdr8``)."""
    return embedded_sds_bytes(length) if length >= 32 else length + 4


def mstr_bytes(length: int, expires: bool) -> int:
    """Return the bytes of a Redis 7.4 hash field (`mstrNew`, `mstrNewWithMeta`): an expiry adds 16 bytes and flags."""
    header = 1 if length < 32 else 3 if length < 65_536 else 9
    return header + length + 1 + (18 if expires else 0)


UNIT_BITS = 14
"""Expected values are integers in units of 1 / 2**14 byte, so that sums do not depend on order."""

BUCKET_BYTES = 64
BUCKET_ENTRIES = 7
_CHILD_ENTRIES = BUCKET_ENTRIES - 1
_LOAD_MAX = 32
_CHANCE_MIN = 1e-7  # lowest probability of a bucket load that is counted
_CHILDREN = tuple(max(0, -(-(load - BUCKET_ENTRIES) // _CHILD_ENTRIES)) for load in range(_LOAD_MAX + 1))
"""Further buckets of a chain, by its number of elements (`bucketConvertToChained`)."""

SMALL_MAX = 512
"""Largest table with exact chain lengths; larger ones treat elements as independent."""

LOADS = 32
"""Steps, of one element, of the average bucket load in the table of chains."""


@cache
def small_tables(steps: int) -> tuple[int, ...]:
    """Return the expected size, in units, of a ``hashtable`` of 0 to `SMALL_MAX` elements (`hashtableMemUsage`).

    Buckets of 64 bytes hold 7 elements, chained ones 6; the table doubles at 7 elements a bucket (``MAX_FILL_PERCENT_SOFT``),
    and every insertion moves *steps* buckets (0: presized, at most 6.4 elements a bucket, `nextBucketExp`).
    """
    return tuple(_small_table(count, steps) for count in range(SMALL_MAX + 1))


def _small_table(count: int, steps: int) -> int:
    if not count:
        return 0
    buckets = 1 << ((count + BUCKET_ENTRIES - 1) // BUCKET_ENTRIES - 1).bit_length()
    old = buckets >> 1
    moved = (count - BUCKET_ENTRIES * old - 1) * steps
    if not steps:
        buckets, moved = 1 << ((count * 5 - 1) // 32).bit_length(), old
    bytes_ = buckets * (BUCKET_BYTES + _chained_bytes(count, buckets))
    if moved < old:
        bytes_ = BUCKET_BYTES * (buckets + old) + (old - moved) * _chained_bytes(BUCKET_ENTRIES * old, old)
        bytes_ += 2 * moved * _chained_bytes(count, buckets)
    return round(bytes_ * (1 << UNIT_BITS))


@cache
def _chained_bytes(count: int, buckets: int) -> float:
    """Return the expected bytes of chained buckets behind one bucket, with *count* elements in *buckets*."""
    if buckets == 1:
        return _CHILDREN[count] * BUCKET_BYTES
    odds = 1 / (buckets - 1)
    chance, expected = (1 - 1 / buckets) ** count, 0.0
    for load in range(1, min(count, _LOAD_MAX) + 1):
        chance *= odds * (count - load + 1) / load
        if load > BUCKET_ENTRIES:
            expected += chance * _CHILDREN[load]
            if chance < _CHANCE_MIN:
                break
    return expected * BUCKET_BYTES


@cache
def chained_units() -> tuple[int, ...]:
    """Return the expected units of chained buckets behind one, by average load in steps of 1 / `LOADS`."""
    result = []
    for step in range(BUCKET_ENTRIES * LOADS + 1):
        mean = step / LOADS
        chance, expected = exp(-mean), 0.0
        for load in range(1, _LOAD_MAX + 1):
            chance *= mean / load
            expected += chance * _CHILDREN[load]
        result.append(round(expected * BUCKET_BYTES * (1 << UNIT_BITS)))
    return tuple(result)


LEVEL_BYTES = 16
LEVEL_WEIGHTS = (12_288, 3072, 768, 192, 48, 12, 3, 1)
"""Probabilities of heights 1, 2, 3, … in units (``ZSKIPLIST_P`` = 1/4); the last covers all greater heights."""


def node_units(allocator: int, fixed_bytes: int) -> int:
    """Return the expected allocation, in units, of a node of *fixed_bytes* and 16 bytes per level."""
    units = 0
    for level, weight in enumerate(LEVEL_WEIGHTS, 1):
        units += weight * allocated_bytes(allocator, fixed_bytes + level * LEVEL_BYTES)
    return units


def listpack_integer_bytes(number: int) -> int:
    """Return the bytes of an integer in a listpack, back length included (`lpEncodeIntegerGetType`)."""
    if 0 <= number <= 127:
        return 2
    if -4096 <= number <= 4095:
        return 3
    if -32768 <= number <= 32767:
        return 4
    if -8388608 <= number <= 8388607:
        return 5
    return 6 if -2147483648 <= number <= 2147483647 else 10


def listpack_string_bytes(length: int) -> int:
    """Return the bytes of a string of *length* in a listpack, back length included (`lpEncodeString`)."""
    size = length + (1 if length < 64 else 2 if length < 4096 else 5)
    if size <= 127:
        return size + 1
    return size + (2 if size < 16_383 else 3 if size < 2_097_151 else 4 if size < 268_435_455 else 5)


def ziplist_entry_payload(length: int, number: int, is_number: bool) -> int:
    """Return the bytes of a ziplist entry after the previous entry's length (`zipEncoding`)."""
    if not is_number:
        return length + (1 if length < 64 else 2 if length < 16_384 else 5)
    if 0 <= number <= 12:
        return 1
    if -128 <= number <= 127:
        return 2
    if -32768 <= number <= 32767:
        return 3
    if -8388608 <= number <= 8388607:
        return 4
    return 5 if -2147483648 <= number <= 2147483647 else 9


def intset_width(number: int) -> int:
    """Return the bytes per element of an intset with *number* (`_intsetValueEncoding`)."""
    if -32768 <= number <= 32767:
        return 2
    return 4 if -2147483648 <= number <= 2147483647 else 8
