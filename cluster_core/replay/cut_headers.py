"""Events from truncated messages of one process: elections, votes, wins.

A header cut after its sender (R3) lacks role, flags, master and slots, so views cannot be replayed; type, sender and
epochs remain.
"""

from __future__ import annotations

from cluster_core.gossip.causes import Mechanism, Refusal
from cluster_core.kinds import EventKind
from cluster_core.replay.evidence import MessageSeen
from cluster_core.replay.rows import EpochRow, EventRow, ReplayRow, VoteRow
from cluster_core.wire.bus import MessageType, PartialHeader

CONNECTIONS_MAX = 10_000


class CutHeaders:
    """Takes one process's sent and received messages; returns events, votes and epochs."""

    def __init__(self) -> None:
        self._ends: dict[int, str] = {}
        self._election_epoch = 0
        self._won_epoch = 0

    def note(self, seen: MessageSeen) -> list[ReplayRow]:
        """Add one message with a truncated header."""
        header = seen.message.header
        if not isinstance(header, PartialHeader) or not header.sender:
            return []
        sender, epoch = header.sender, header.current_epoch or 0
        if not seen.sent:
            if len(self._ends) < CONNECTIONS_MAX:
                self._ends[seen.connection] = sender
            return []
        rows: list[ReplayRow] = []
        if header.type == MessageType.AUTH_REQUEST and epoch != self._election_epoch:
            self._election_epoch = epoch
            rows.append(EventRow(sender, seen.ts_ns, EventKind.ELECTION_STARTED, "", epoch, "", seen.ref))
        elif header.type == MessageType.AUTH_ACK:
            candidate = self._ends.get(seen.connection, "")
            rows.append(EventRow(sender, seen.ts_ns, EventKind.VOTE, candidate, epoch, "", seen.ref))
            rows.append(VoteRow(sender, candidate, epoch, seen.ts_ns, seen.ts_ns, True, Refusal.NONE, seen.ref))
        if self._election_epoch and header.config_epoch == self._election_epoch != self._won_epoch:
            self._won_epoch = self._election_epoch
            detail = str(header.offset or 0)
            rows.append(EventRow(sender, seen.ts_ns, EventKind.ELECTION_WON, sender, self._won_epoch, detail, seen.ref))
            rows.append(EpochRow(sender, self._won_epoch, seen.ts_ns, Mechanism.ELECTION, seen.ref))
        return rows
