"""Strings of a server (``sds``): the bytes that are asked of the allocator for them."""

from __future__ import annotations


def sds_bytes(length: int) -> int:
    """Return the bytes of a string of *length* as `sdsnewlen` allocates it: header, text, terminator.

    The header has 1, 3, 5, 9 or 17 bytes by length; an empty string gets the second, since it is thought to grow.
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
    """Return the bytes of a string inside another allocation that keeps flags in its header (at least ``sdshdr8``)."""
    return embedded_sds_bytes(length) if length >= 32 else length + 4


def mstr_bytes(length: int, expires: bool) -> int:
    """Return the bytes of a hash field of Redis 7.4 (`mstrNew`, `mstrNewWithMeta`): with expiry, 16 bytes and flags before it."""
    header = 1 if length < 32 else 3 if length < 65_536 else 9
    return header + length + 1 + (18 if expires else 0)
