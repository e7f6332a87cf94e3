"""The coordinated FAILOVER: a master hands over to a replica that has all of its data (P12; `failoverCommand`).

Writes are paused; when the replica has acknowledged everything, the master becomes its replica and asks it with
``PSYNC id offset FAILOVER`` to take over.  With a timeout it gives up, or with FORCE hands over regardless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from cluster_core.errors import ProtocolError


class FailoverState(Enum):
    """`master_failover_state` of INFO."""

    NONE = "no-failover"
    WAITING = "waiting-for-sync"
    RUNNING = "failover-in-progress"


@dataclass(frozen=True, slots=True)
class Start:
    """FAILOVER [TO target [FORCE]] [TIMEOUT ms]; *timeout_ms* 0: none."""

    target: str = ""
    is_forced: bool = False
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class Abort:
    """FAILOVER ABORT."""


@dataclass(frozen=True, slots=True)
class Acked:
    """What the online replicas have acknowledged, and the master's own offset; also says that time has passed."""

    offsets: Mapping[str, int]
    offset: int


@dataclass(frozen=True, slots=True)
class Reply:
    """How the replica answered PSYNC … FAILOVER; *is_accepted*: +CONTINUE or +FULLRESYNC."""

    is_accepted: bool


Event = Start | Abort | Acked | Reply


@dataclass(frozen=True, slots=True)
class PauseWrites:
    """Clients' writes wait from now on."""


@dataclass(frozen=True, slots=True)
class ResumeWrites:
    """They go on; *reason* says how it ended."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """Become the replica of *target* and ask it to take over."""

    target: str


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Become a master again, with a new id (`abortFailover`, `replicationUnsetMaster`, P5)."""


Effect = PauseWrites | ResumeWrites | HandOver | TakeBack


class Failover:
    """Feed it events; it returns effects.  It owns no clock."""

    def __init__(self) -> None:
        self.state = FailoverState.NONE
        self._start = Start()
        self._end_ms: int | None = None

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms*; raises ProtocolError for a command that the server refuses."""
        match event:
            case Start():
                return self._on_start(event, now_ms)
            case Abort():
                if self.state is FailoverState.NONE:
                    raise ProtocolError("ERR No failover in progress.")
                return self._stop("aborted")
            case Acked():
                return self._on_acked(event, now_ms)
            case _:
                return self._on_reply(event)

    def _on_start(self, event: Start, now_ms: int) -> list[Effect]:
        if self.state is not FailoverState.NONE:
            raise ProtocolError("ERR FAILOVER already in progress.")
        if event.is_forced and not (event.target and event.timeout_ms > 0):
            raise ProtocolError("ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
        self.state, self._start = FailoverState.WAITING, event
        self._end_ms = now_ms + event.timeout_ms if event.timeout_ms > 0 else None
        return [PauseWrites()]

    def _on_acked(self, event: Acked, now_ms: int) -> list[Effect]:
        """`checkClientPauseTimeoutAndReturnIfPaused`, `failoverCron`: who has everything?"""
        if self.state is not FailoverState.WAITING:
            return []
        start = self._start
        if self._end_ms is not None and now_ms >= self._end_ms:
            if not start.is_forced:
                return self._stop("no replica caught up in time")
            return self._hand_over(start.target)
        names = [start.target] if start.target else sorted(event.offsets)
        ready = [name for name in names if event.offsets.get(name) == event.offset]
        return self._hand_over(ready[0]) if ready else []

    def _hand_over(self, target: str) -> list[Effect]:
        self.state = FailoverState.RUNNING
        return [HandOver(target)]

    def _on_reply(self, event: Reply) -> list[Effect]:
        if self.state is not FailoverState.RUNNING:
            return []
        return self._stop("handed over" if event.is_accepted else "the replica refused", done=event.is_accepted)

    def _stop(self, reason: str, *, done: bool = False) -> list[Effect]:
        takes_back = self.state is FailoverState.RUNNING and not done
        self.state, self._end_ms = FailoverState.NONE, None
        return [*([TakeBack()] if takes_back else []), ResumeWrites(reason)]
