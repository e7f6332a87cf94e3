"""How many bytes an allocation takes: the size classes of jemalloc and the chunks of glibc's malloc."""

from __future__ import annotations

from functools import cache

JEMALLOC, JEMALLOC_16, LIBC = range(3)
"""Codes of allocators: jemalloc as the servers build it (quantum 8), as distributions package it (quantum 16), glibc."""

ALLOCATORS = ("jemalloc", "jemalloc-16", "libc")
"""Names of the codes, as ``--allocator`` takes them."""

SMALL_ALLOCATION_BYTES = 1024
"""Allocations below are looked up."""

_PAGE_BYTES = 4096
_MMAP_BYTES = 128 * 1024


def allocated_bytes(allocator: int, size: int) -> int:
    """Return the usable bytes of an allocation of *size* bytes (`zmalloc_size`).

    jemalloc has four classes a doubling, small ones no closer than its quantum (``lg_quantum``), and one of 8 bytes.  glibc adds
    eight bytes, rounds to 16, and takes whole pages from 128 KiB on (``M_MMAP_THRESHOLD``, before it adapts).
    """
    if allocator == LIBC:
        chunk = max((size + 8 + 15) & ~15, 32)
        if chunk < _MMAP_BYTES:
            return chunk - 8
        return ((chunk + 8 + _PAGE_BYTES - 1) & ~(_PAGE_BYTES - 1)) - 16
    if size <= 8:
        return 8
    quantum_bits = 4 if allocator == JEMALLOC_16 or size > 64 else 3
    shift = max((size - 1).bit_length() - 3, quantum_bits)
    return (size + (1 << shift) - 1) >> shift << shift


@cache
def small_allocations(allocator: int) -> tuple[int, ...]:
    """Return `allocated_bytes` of 0 to `SMALL_ALLOCATION_BYTES` - 1 bytes."""
    return tuple(allocated_bytes(allocator, size) for size in range(SMALL_ALLOCATION_BYTES))
