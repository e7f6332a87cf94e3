"""A dump on its way to a replica, skipped: by its announced length, or up to its end mark; only its first bytes are kept."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 256
"""First bytes of a dump that are kept: magic, version and replication id stand there."""
EOF_MARK_BYTES: Final = 40
"""`CONFIG_RUN_ID_SIZE`: what `$EOF:` announces and what ends the dump."""
_TRAILER_BYTES: Final = 9  # the opcode of the end and a checksum stand before the mark
_RDB_END: Final = 0xFF


class DumpSkimmer:
    """Feed it bytes; it says how many of them belong to the dump.

    *announced* is its length, or None when *terminator* ends it.  *received* counts its bytes without the terminator;
    *is_damaged*: some of them are missing, so the terminator may have been missed.
    """

    __slots__ = ("_tail", "announced", "head", "is_damaged", "is_ended", "received", "terminator")

    def __init__(self, announced: int | None, terminator: bytes = b"") -> None:
        self.announced = announced
        self.terminator = terminator
        self.received = 0
        self.head = b""
        self.is_damaged = False
        self.is_ended = announced == 0
        self._tail = b""

    def feed(self, data: bytes) -> int:
        """Take what belongs to the dump from the beginning of *data* and return how much that is."""
        if self.announced is None:
            return self._feed_to_mark(data)
        count = min(len(data), self.announced - self.received)
        self._keep_head(data[:count])
        self.received += count
        self.is_ended = self.received == self.announced
        return count

    def skip(self, count: int) -> bool:
        """*count* bytes are missing; False when they would go beyond the dump."""
        if self.announced is not None and self.received + count > self.announced:
            return False
        self.received += count
        self._tail, self.is_damaged = b"", True
        self.is_ended = self.received == self.announced
        return True

    def _feed_to_mark(self, data: bytes) -> int:
        """Look for the mark, which stands right behind the end of a dump; the same text inside the dump is none."""
        self._keep_head(data[:HEAD_BYTES])
        known = self._tail + data
        at = known.find(self.terminator, max(0, len(self._tail) - EOF_MARK_BYTES + 1))
        while at >= 0 and not (at < _TRAILER_BYTES or known[at - _TRAILER_BYTES] == _RDB_END):
            at = known.find(self.terminator, at + 1)
        if at < 0:
            self.received += len(data)
            self._tail = known[-(EOF_MARK_BYTES + _TRAILER_BYTES) :]
            return len(data)
        used = at + EOF_MARK_BYTES - len(self._tail)
        self.received += used - EOF_MARK_BYTES
        self.head = self.head[: max(0, self.received)]
        self.is_ended = True
        return used

    def _keep_head(self, data: bytes) -> None:
        if len(self.head) < HEAD_BYTES and not self.is_damaged:
            self.head += data[: HEAD_BYTES - len(self.head)]
