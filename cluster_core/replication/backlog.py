"""The replication backlog: the last bytes of the stream, kept for replicas that come back (P1, P3)."""

from __future__ import annotations

from collections import deque

from cluster_core.errors import ClusterCoreError


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


class Backlog:
    """The bytes themselves, in blocks; *next_offset* is the offset that the next byte of the stream will have."""

    __slots__ = ("_block_bytes", "_blocks", "first_offset", "keep_from", "length", "size_bytes")

    def __init__(self, size_bytes: int, next_offset: int, *, block_bytes: int = 0) -> None:
        if size_bytes < 1 or block_bytes < 0 or next_offset < 1:
            raise ClusterCoreError("a backlog needs a size, and offsets begin at 1")
        self.size_bytes = size_bytes
        self.first_offset = next_offset
        self.length = 0
        self.keep_from: int | None = None
        """Somebody still reads from this offset on: what stands behind it stays, whatever the size."""
        self._block_bytes = block_bytes
        self._blocks: deque[bytearray] = deque()

    @property
    def next_offset(self) -> int:
        """The offset of the byte that comes next."""
        return self.first_offset + self.length

    def feed(self, data: bytes) -> None:
        """Add the next bytes of the stream; what is too old goes."""
        block_bytes = self._block_bytes or max(1, min(self.size_bytes, 1 << 16))
        at = 0
        while at < len(data):
            if not self._blocks or len(self._blocks[-1]) == block_bytes:
                self._blocks.append(bytearray())
            part = data[at : at + block_bytes - len(self._blocks[-1])]
            self._blocks[-1] += part
            at += len(part)
            self.length += len(part)
            self._trim()

    def resize(self, size_bytes: int) -> None:
        """CONFIG SET repl-backlog-size: the newest bytes stay (`resizeReplicationBacklog`)."""
        if size_bytes < 1:
            raise ClusterCoreError("a backlog needs a size")
        self.size_bytes = size_bytes
        self._trim()

    def holds(self, offset: int) -> bool:
        """Whether a replica may go on at *offset*: the last condition of P3, the end included."""
        return self.first_offset <= offset <= self.next_offset

    def read_from(self, offset: int) -> bytes:
        """The bytes from *offset* on; raises ClusterCoreError where `holds` says no."""
        if not self.holds(offset):
            raise ClusterCoreError(f"the backlog holds {self.first_offset} to {self.next_offset}, not {offset}")
        return b"".join(self._blocks)[offset - self.first_offset :]

    def _trim(self) -> None:
        spare = self.length if self.keep_from is None else self.keep_from - self.first_offset
        if not self._block_bytes:
            self._drop_bytes(max(0, min(self.length - self.size_bytes, spare)))
            return
        while len(self._blocks) > 1 and self.length - len(self._blocks[0]) > self.size_bytes:
            if len(self._blocks[0]) > spare:
                return
            spare -= len(self._blocks[0])
            self._drop_bytes(len(self._blocks[0]))

    def _drop_bytes(self, count: int) -> None:
        self.first_offset += count
        self.length -= count
        while count:
            part = min(count, len(self._blocks[0]))
            del self._blocks[0][:part]
            if not self._blocks[0]:
                self._blocks.popleft()
            count -= part
