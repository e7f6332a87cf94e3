"""PSYNC: may a replica go on where it was, or must it take everything?  A pure decision, every reason by name (P3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

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


FORCED_ID: Final = "?"
"""What a replica without a history asks for (P2)."""


class AnswerKind(Enum):
    """What a master answers."""

    FULL = "full"
    PARTIAL = "partial"
    DUAL_CHANNEL = "dual-channel"
    REFUSED = "refused"


class Reason(Enum):
    """Why it answers so; the value is what the tables say."""

    SAME_ID = "same-id"
    SECOND_ID = "second-id"
    FAILOVER = "failover"
    """The asker hands over: the replica that it asks promotes itself, then the asker's id is its second one (P12)."""
    MAIN_CHANNEL = "main-channel"
    """The dump goes over a connection of its own; this one carries what was written since (dual channel)."""

    FORCED = "forced"
    """The replica asked for everything: ``?``."""
    SYNC_COMMAND = "sync-command"
    """SYNC knows no history."""
    DUMP_CHANNEL = "dump-channel"
    """SYNC on the connection that dual channel opens for the dump."""
    ID_MISMATCH = "id-mismatch"
    """The id is neither the master's nor its second one."""
    SECOND_ID_PASSED = "second-id-passed"
    """The id is the second one, but the replica has bytes of it that the master never had (P6)."""
    NO_BACKLOG = "no-backlog"
    """The master keeps no backlog."""
    BACKLOG_PASSED = "backlog-passed"
    """The backlog begins behind the byte asked for."""
    AHEAD = "ahead"
    """The replica is ahead of the master."""

    NO_MASTER_LINK = "no-master-link"
    """The one asked is a replica without a link to its own master."""
    FAILING_OVER = "failing-over"
    LOADING = "loading"
    BAD_OFFSET = "bad-offset"
    NOT_A_REPLICA = "failover-to-a-master"
    OTHER_ID = "failover-of-another-id"


@dataclass(frozen=True, slots=True)
class Request:
    """``PSYNC replid offset [FAILOVER]``, or SYNC; *offset* None: no number stood there."""

    replid: str
    offset: int | None
    failover: bool = False
    is_sync: bool = False
    dual_channel: bool = False
    """The replica said ``capa dual-channel``."""
    is_main_channel: bool = False
    """It has an open channel for the dump (``REPLCONF set-rdb-client-id``)."""
    is_dump_channel: bool = False
    """The connection is such a channel (``REPLCONF rdb-channel 1``)."""


@dataclass(frozen=True, slots=True)
class MasterView:
    """What a server knows of itself when it is asked.  *backlog*: first byte and length, None without one."""

    lineage: Lineage
    backlog: tuple[int, int] | None
    is_replica: bool = False
    is_link_up: bool = True
    """Of a replica: whether its own master sends to it."""
    is_failing_over: bool = False
    is_loading: bool = False
    dual_channel: bool = False
    """dual-channel-replication-enabled, with diskless sync (Valkey)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back and why; *promotes*: the server becomes a master first (P12)."""

    kind: AnswerKind
    reason: Reason
    promotes: bool = False


def decide_psync(request: Request, view: MasterView) -> Answer:
    """Return the answer to *request* (P3, P12; `syncCommand`, `masterTryPartialResynchronization`).

    >>> view = MasterView(Lineage("a" * 40, 500), (101, 400))
    >>> decide_psync(Request("a" * 40, 100), view)
    Answer(kind=<AnswerKind.FULL: 'full'>, reason=<Reason.BACKLOG_PASSED: 'backlog-passed'>, promotes=False)
    """
    if view.is_loading:
        return _refused(Reason.LOADING)
    if request.failover:
        if not view.is_replica:
            return _refused(Reason.NOT_A_REPLICA)
        if request.replid.lower() != view.lineage.replid:
            return _refused(Reason.OTHER_ID)
        return _after_promotion(request, view)
    if view.is_failing_over:
        return _refused(Reason.FAILING_OVER)
    if view.is_replica and not view.is_link_up:
        return _refused(Reason.NO_MASTER_LINK)
    if request.is_sync:
        return Answer(AnswerKind.FULL, Reason.DUMP_CHANNEL if request.is_dump_channel else Reason.SYNC_COMMAND)
    if request.offset is None:
        return _refused(Reason.BAD_OFFSET)
    reason = find_obstacle(request, view)
    if reason is None:
        return Answer(AnswerKind.PARTIAL, _why_partial(request, view))
    wants_channel = request.dual_channel and view.dual_channel and not request.is_main_channel
    return Answer(AnswerKind.DUAL_CHANNEL if wants_channel else AnswerKind.FULL, reason)


def find_obstacle(request: Request, view: MasterView) -> Reason | None:
    """Why a replica cannot go on where it was; None if it can."""
    replid, offset, mine = request.replid.lower(), request.offset or 0, view.lineage
    if not mine.knows(replid, offset):
        if replid[:1] == FORCED_ID:
            return Reason.FORCED
        return Reason.SECOND_ID_PASSED if replid and replid == mine.replid2 else Reason.ID_MISMATCH
    if view.backlog is None:
        return Reason.NO_BACKLOG
    first, length = view.backlog
    if offset < first:
        return Reason.BACKLOG_PASSED
    return Reason.AHEAD if offset > first + length else None


def _why_partial(request: Request, view: MasterView) -> Reason:
    if request.is_main_channel:
        return Reason.MAIN_CHANNEL
    return Reason.SAME_ID if request.replid.lower() == view.lineage.replid else Reason.SECOND_ID


def _after_promotion(request: Request, view: MasterView) -> Answer:
    """The one asked became a master with a new id, so the asker's id is its second one now."""
    if request.offset is None:
        return Answer(AnswerKind.REFUSED, Reason.BAD_OFFSET, promotes=True)
    old = view.lineage
    promoted = Lineage("promoted", old.offset, old.replid, old.offset + 1)  # no id of 40 digits equals this one
    reason = find_obstacle(request, MasterView(promoted, view.backlog))
    if reason is None:
        return Answer(AnswerKind.PARTIAL, Reason.FAILOVER, promotes=True)
    return Answer(AnswerKind.FULL, reason, promotes=True)


def _refused(reason: Reason) -> Answer:
    return Answer(AnswerKind.REFUSED, reason)
