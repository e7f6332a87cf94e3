"""The replication backlog: which of the last bytes of the stream a master still has for replicas that come back (P1, P3)."""

from __future__ import annotations


def first_kept(created: int, end: int, size_bytes: int, block_bytes: int) -> int:
    """The first byte that a backlog of *size_bytes* still has when the stream has come to byte *end*.

    *created* is the first byte that it ever had.  It is made of blocks and drops the first one as soon as the others
    hold more than its size, so it holds up to one block more than that (`incrementalTrimReplicationBacklog`); with
    *block_bytes* 0 it is a circle of exactly its size.  Blocks that a slow replica still reads are not dropped: then the
    first byte is an earlier one.

    >>> first_kept(1, 319922, 65536, 20440)
    245281
    """
    surplus = end - created + 1 - size_bytes
    if surplus <= 0:
        return created
    if not block_bytes:
        return created + surplus
    return created + (-(-surplus // block_bytes) - 1) * block_bytes
