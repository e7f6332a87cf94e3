"""What an entry takes in a packed value (listpack, ziplist, intset), by its length or its number; see `cluster_core.rdb.packed` for their bytes."""

from __future__ import annotations


def listpack_integer_bytes(number: int) -> int:
    """Return the bytes of an integer in a listpack (`lpEncodeIntegerGetType`), its back length included."""
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
    """Return the bytes of a string of *length* in a listpack (`lpEncodeString`), its back length included."""
    size = length + (1 if length < 64 else 2 if length < 4096 else 5)
    if size <= 127:
        return size + 1
    return size + (2 if size < 16_383 else 3 if size < 2_097_151 else 4 if size < 268_435_455 else 5)


def ziplist_entry_payload(length: int, number: int, is_number: bool) -> int:
    """Return the bytes of an entry of a ziplist (`zipEncoding`) behind the length of the one before it."""
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
    """Return the bytes of an integer of an intset (`_intsetValueEncoding`)."""
    if -32768 <= number <= 32767:
        return 2
    return 4 if -2147483648 <= number <= 2147483647 else 8
