"""PSYNC: whether a replica may continue where it was, or needs a full resynchronization (P3)."""

from __future__ import annotations

from dataclasses import dataclass

NO_OFFSET = -1
UNKNOWN_ID = ""
"""A replication id not yet known; equal to no requested id."""


@dataclass(slots=True)
class Lineage:
    """Replication id *replid* with its *offset*; *replid2* was the id up to *second_offset*.

    `server.replid`, `master_repl_offset`, `replid2`, `second_replid_offset` (P1); an empty replid2 means none.
    """

    replid: str
    offset: int = 0
    replid2: str = UNKNOWN_ID
    second_offset: int = NO_OFFSET

    def promote(self, replid: str) -> None:
        """Promote: the old id stays valid up to this offset (`shiftReplicationId`, P5)."""
        self.replid2, self.second_offset = self.replid, self.offset + 1
        self.replid = replid

    def adopt(self, replid: str) -> None:
        """Take the new id of a master that continued (`replicaTryPartialResynchronization`, P4)."""
        if replid != self.replid:
            self.promote(replid)

    def replace(self, replid: str, offset: int) -> None:
        """Take id and offset of a full resynchronization (P7)."""
        self.replid, self.offset = replid, offset
        self.replid2, self.second_offset = UNKNOWN_ID, NO_OFFSET

    def knows(self, replid: str, offset: int) -> bool:
        """Return whether the byte *offset* of *replid* is in our history: the first two conditions of P3."""
        if replid == UNKNOWN_ID:
            return False
        return replid == self.replid or (replid == self.replid2 and offset <= self.second_offset)


def may_continue(lineage: Lineage, backlog: tuple[int, int] | None, replid: str, offset: int) -> bool:
    """Return whether a master can continue a replica from byte *offset* of the history *replid* (P3).

    *backlog* is its first byte and its length, None without one (`masterTryPartialResynchronization`).

    >>> may_continue(Lineage("a" * 40, 500), (101, 400), "a" * 40, 101)
    True
    >>> may_continue(Lineage("a" * 40, 500), (101, 400), "a" * 40, 100)
    False
    """
    if backlog is None or not lineage.knows(replid, offset):
        return False
    first, length = backlog
    return first <= offset <= first + length
