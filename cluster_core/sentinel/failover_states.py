"""The states of a failover as a table: what leads from one to the next, and what is told then (S14).

`TRANSITIONS` is all of it; `cluster_core.sentinel.failover` only decides which trigger holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class FailoverState(IntEnum):
    """The states in their order (SENTINEL_FAILOVER_STATE_*); `word` is the name in replies."""

    NONE = 0
    WAIT_START = 1
    """Asks for votes until it is the leader."""
    SELECT_SLAVE = 2
    SEND_SLAVEOF_NOONE = 3
    WAIT_PROMOTION = 4
    """Waits until the chosen replica says that it is a master."""
    RECONF_SLAVES = 5
    """Sends the other replicas to the new master, `parallel-syncs` at a time."""
    UPDATE_CONFIG = 6

    @property
    def word(self) -> str:
        """The name in replies (sentinelFailoverStateStr)."""
        return self.name.lower()


STATE_BY_WORD: Final[Mapping[str, FailoverState]] = MappingProxyType({state.word: state for state in FailoverState})


class Trigger(Enum):
    """What may happen to a failover."""

    STARTED = "started"
    ELECTED = "elected"
    REPLICA_CHOSEN = "replica chosen"
    NO_REPLICA = "no replica"
    ORDER_SENT = "order sent"
    PROMOTED = "promoted"
    ALL_RECONFIGURED = "all reconfigured"
    TIMED_OUT = "timed out"
    MASTER_TIMED_OUT = "master timed out"
    """A master that should hand over by itself could not be told (Valkey 9)."""
    SWITCHED = "switched"


class Told(NamedTuple):
    """An event that a transition announces: its channel, whether of the master or of the chosen replica, its log level."""

    channel: str
    of_replica: bool = False
    level: str = "#"


class Transition(NamedTuple):
    """Where a trigger leads, and what is told, in order."""

    after: FailoverState
    told: tuple[Told, ...]


_S, _T = FailoverState, Trigger
TRANSITIONS: Final[Mapping[tuple[FailoverState, Trigger], Transition]] = MappingProxyType(
    {
        (_S.NONE, _T.STARTED): Transition(_S.WAIT_START, (Told("+try-failover"),)),
        (_S.WAIT_START, _T.ELECTED): Transition(
            _S.SELECT_SLAVE, (Told("+elected-leader"), Told("+failover-state-select-slave"))
        ),
        (_S.WAIT_START, _T.TIMED_OUT): Transition(_S.NONE, (Told("-failover-abort-not-elected"),)),
        (_S.SELECT_SLAVE, _T.REPLICA_CHOSEN): Transition(
            _S.SEND_SLAVEOF_NOONE,
            (
                Told("+selected-slave", of_replica=True),
                Told("+failover-state-send-slaveof-noone", of_replica=True, level="*"),
            ),
        ),
        (_S.SELECT_SLAVE, _T.NO_REPLICA): Transition(_S.NONE, (Told("-failover-abort-no-good-slave"),)),
        (_S.SEND_SLAVEOF_NOONE, _T.ORDER_SENT): Transition(
            _S.WAIT_PROMOTION, (Told("+failover-state-wait-promotion", of_replica=True, level="*"),)
        ),
        (_S.SEND_SLAVEOF_NOONE, _T.TIMED_OUT): Transition(_S.NONE, (Told("-failover-abort-slave-timeout"),)),
        (_S.SEND_SLAVEOF_NOONE, _T.MASTER_TIMED_OUT): Transition(_S.NONE, (Told("-failover-abort-master-timeout"),)),
        (_S.WAIT_PROMOTION, _T.PROMOTED): Transition(
            _S.RECONF_SLAVES, (Told("+promoted-slave", of_replica=True), Told("+failover-state-reconf-slaves"))
        ),
        (_S.WAIT_PROMOTION, _T.TIMED_OUT): Transition(_S.NONE, (Told("-failover-abort-slave-timeout"),)),
        (_S.RECONF_SLAVES, _T.ALL_RECONFIGURED): Transition(_S.UPDATE_CONFIG, (Told("+failover-end"),)),
        (_S.RECONF_SLAVES, _T.TIMED_OUT): Transition(
            _S.UPDATE_CONFIG, (Told("+failover-end-for-timeout"), Told("+failover-end"))
        ),
        (_S.UPDATE_CONFIG, _T.SWITCHED): Transition(_S.NONE, ()),
    }
)
"""Every step that a failover may take.  A step from UPDATE_CONFIG tells ``+switch-master``, with both addresses."""
