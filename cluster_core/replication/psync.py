"""PSYNC: whether a replica may continue where it was, or needs a full resynchronization (P3)."""

from __future__ import annotations

from dataclasses import dataclass

NO_OFFSET = -1
UNKNOWN_ID = ""
"""An id that exists but that nobody has seen yet; it equals no id that is asked for."""


@dataclass(slots=True)
class Lineage:
    """*replid* names a history of writes and *offset* how far it goes; *replid2* was its name up to *second_offset*.

    `server.replid`, `master_repl_offset`, `replid2`, `second_replid_offset` (P1); an empty replid2 is none.
    """

    replid: str
    offset: int = 0
    replid2: str = UNKNOWN_ID
    second_offset: int = NO_OFFSET

    def promote(self, replid: str) -> None:
        """A replica becomes a master: the old id stays good up to here (`shiftReplicationId`, P5)."""
        self.replid2, self.second_offset = self.replid, self.offset + 1
        self.replid = replid

    def adopt(self, replid: str) -> None:
        """The master continued under another id: it became ours, too (`replicaTryPartialResynchronization`, P4)."""
        if replid != self.replid:
            self.promote(replid)

    def replace(self, replid: str, offset: int) -> None:
        """A full resync gave us another's data (P7)."""
        self.replid, self.offset = replid, offset
        self.replid2, self.second_offset = UNKNOWN_ID, NO_OFFSET

    def renew(self, replid: str) -> None:
        """The backlog begins anew, so no history counts: new id, no second one (P8)."""
        self.replace(replid, self.offset)

    def knows(self, replid: str, offset: int) -> bool:
        """Whether the byte *offset* of the history *replid* is ours: the first two conditions of P3."""
        if replid == UNKNOWN_ID:
            return False
        return replid == self.replid or (replid == self.replid2 and offset <= self.second_offset)


def may_continue(lineage: Lineage, backlog: tuple[int, int] | None, replid: str, offset: int) -> bool:
    """Whether a master sends a replica only what follows byte *offset* of the history *replid* (P3).

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
