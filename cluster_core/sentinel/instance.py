"""One monitored master, replica or sentinel (S1; sentinelRedisInstance, instanceLink), and the failover states.

Times are ms of this sentinel's wall clock; 0 means never.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class FailoverState(IntEnum):
    """Failover states in order (SENTINEL_FAILOVER_STATE_*)."""

    NONE = 0
    WAIT_START = 1
    """Asks for votes until elected leader."""
    SELECT_SLAVE = 2
    SEND_SLAVEOF_NOONE = 3
    WAIT_PROMOTION = 4
    """Waits until INFO of the chosen replica reports the master role."""
    RECONF_SLAVES = 5
    """Points the other replicas to the new master, `parallel-syncs` at a time."""
    UPDATE_CONFIG = 6

    @property
    def word(self) -> str:
        """Return the state's name in replies (sentinelFailoverStateStr)."""
        return self.name.lower()


STATE_BY_WORD: Final[Mapping[str, FailoverState]] = MappingProxyType({state.word: state for state in FailoverState})


class Trigger(Enum):
    """Causes of a failover transition."""

    STARTED = "started"
    ELECTED = "elected"
    REPLICA_CHOSEN = "replica chosen"
    NO_REPLICA = "no replica"
    ORDER_SENT = "order sent"
    PROMOTED = "promoted"
    ALL_RECONFIGURED = "all reconfigured"
    TIMED_OUT = "timed out"
    MASTER_TIMED_OUT = "master timed out"
    """FAILOVER could not be sent to the master in time (Valkey 9)."""
    SWITCHED = "switched"


class Announcement(NamedTuple):
    """An event of a transition: its channel, its subject (master or chosen replica) and its log level."""

    channel: str
    of_replica: bool = False
    level: str = "#"


class Transition(NamedTuple):
    """Next state, and events to announce in order."""

    after: FailoverState
    announced: tuple[Announcement, ...]


_S, _T = FailoverState, Trigger
TRANSITIONS: Final[Mapping[tuple[FailoverState, Trigger], Transition]] = MappingProxyType(
    {
        (_S.NONE, _T.STARTED): Transition(_S.WAIT_START, (Announcement("+try-failover"),)),
        (_S.WAIT_START, _T.ELECTED): Transition(
            _S.SELECT_SLAVE, (Announcement("+elected-leader"), Announcement("+failover-state-select-slave"))
        ),
        (_S.WAIT_START, _T.TIMED_OUT): Transition(_S.NONE, (Announcement("-failover-abort-not-elected"),)),
        (_S.SELECT_SLAVE, _T.REPLICA_CHOSEN): Transition(
            _S.SEND_SLAVEOF_NOONE,
            (
                Announcement("+selected-slave", of_replica=True),
                Announcement("+failover-state-send-slaveof-noone", of_replica=True, level="*"),
            ),
        ),
        (_S.SELECT_SLAVE, _T.NO_REPLICA): Transition(_S.NONE, (Announcement("-failover-abort-no-good-slave"),)),
        (_S.SEND_SLAVEOF_NOONE, _T.ORDER_SENT): Transition(
            _S.WAIT_PROMOTION, (Announcement("+failover-state-wait-promotion", of_replica=True, level="*"),)
        ),
        (_S.SEND_SLAVEOF_NOONE, _T.TIMED_OUT): Transition(_S.NONE, (Announcement("-failover-abort-slave-timeout"),)),
        (_S.SEND_SLAVEOF_NOONE, _T.MASTER_TIMED_OUT): Transition(
            _S.NONE, (Announcement("-failover-abort-master-timeout"),)
        ),
        (_S.WAIT_PROMOTION, _T.PROMOTED): Transition(
            _S.RECONF_SLAVES,
            (Announcement("+promoted-slave", of_replica=True), Announcement("+failover-state-reconf-slaves")),
        ),
        (_S.WAIT_PROMOTION, _T.TIMED_OUT): Transition(_S.NONE, (Announcement("-failover-abort-slave-timeout"),)),
        (_S.RECONF_SLAVES, _T.ALL_RECONFIGURED): Transition(_S.UPDATE_CONFIG, (Announcement("+failover-end"),)),
        (_S.RECONF_SLAVES, _T.TIMED_OUT): Transition(
            _S.UPDATE_CONFIG, (Announcement("+failover-end-for-timeout"), Announcement("+failover-end"))
        ),
        (_S.UPDATE_CONFIG, _T.SWITCHED): Transition(_S.NONE, ()),
    }
)
"""Every failover transition. Leaving UPDATE_CONFIG announces ``+switch-master`` with both addresses."""


class Flag:
    """Flags of an instance (SRI_*)."""

    MASTER: Final = 1 << 0
    REPLICA: Final = 1 << 1
    SENTINEL: Final = 1 << 2
    S_DOWN: Final = 1 << 3
    O_DOWN: Final = 1 << 4
    MASTER_DOWN: Final = 1 << 5
    """Of a sentinel: it reports the master as down."""
    FAILOVER_IN_PROGRESS: Final = 1 << 6
    PROMOTED: Final = 1 << 7
    RECONF_SENT: Final = 1 << 8
    RECONF_INPROG: Final = 1 << 9
    RECONF_DONE: Final = 1 << 10
    FORCE_FAILOVER: Final = 1 << 11
    SCRIPT_KILL_SENT: Final = 1 << 12
    COORDINATED_FAILOVER: Final = 1 << 14
    """Coordinated failover: the master hands over after an election (Valkey 9)."""
    DISCONNECTED: Final = 1 << 20
    """Not stored by the server: replies show it while the link is disconnected."""


FLAG_NAMES: Final[tuple[tuple[int, str], ...]] = (
    (Flag.S_DOWN, "s_down"),
    (Flag.O_DOWN, "o_down"),
    (Flag.MASTER, "master"),
    (Flag.REPLICA, "slave"),
    (Flag.SENTINEL, "sentinel"),
    (Flag.DISCONNECTED, "disconnected"),
    (Flag.MASTER_DOWN, "master_down"),
    (Flag.FAILOVER_IN_PROGRESS, "failover_in_progress"),
    (Flag.PROMOTED, "promoted"),
    (Flag.RECONF_SENT, "reconf_sent"),
    (Flag.RECONF_INPROG, "reconf_inprog"),
    (Flag.RECONF_DONE, "reconf_done"),
    (Flag.FORCE_FAILOVER, "force_failover"),
    (Flag.SCRIPT_KILL_SENT, "script_kill_sent"),
    (Flag.COORDINATED_FAILOVER, "coordinated_failover"),
)
"""Flags and names, in the order of replies (addReplySentinelRedisInstance)."""
_BITS: Final = {name: bit for bit, name in FLAG_NAMES}

DEFAULT_PRIORITY: Final = 100
DEFAULT_DOWN_AFTER_MS: Final = 30_000
DEFAULT_FAILOVER_TIMEOUT_MS: Final = 180_000
DEFAULT_PARALLEL_SYNCS: Final = 1
TYPES: Final = {Flag.MASTER: "master", Flag.REPLICA: "slave", Flag.SENTINEL: "sentinel"}


def flag_text(flags: int) -> str:
    """Return the names of *flags* as in replies: ``s_down,master,disconnected``."""
    return ",".join(name for bit, name in FLAG_NAMES if flags & bit)


def parse_flags(text: str) -> int:
    """Parse the flags of a reply; unknown names are ignored."""
    return sum({bit: None for word in text.split(",") if (bit := _BITS.get(word, 0))})


class Address(NamedTuple):
    """Address of an instance."""

    ip: str
    port: int

    def __str__(self) -> str:
        """Return ``127.0.0.1:6379`` or ``[::1]:6379`` (announceSentinelAddrAndPort)."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@dataclass(slots=True, eq=False)
class InstanceLink:
    """The two connections to an instance, shared by all records of one sentinel (S1); 0: not connected."""

    refcount: int = 1
    disconnected: bool = True
    pending_commands: int = 0
    command: int = 0
    pubsub: int = 0
    local_ip: str = ""
    """Local address of the command connection, sent in hello messages."""
    command_since_ms: int = 0
    pubsub_since_ms: int = 0
    pubsub_active_ms: int = 0
    available_ms: int = 0
    """Time of the last valid PING reply (S5)."""
    pending_ping_ms: int = 0
    """Time of the oldest unanswered PING; 0 if none."""
    last_ping_ms: int = 0
    last_pong_ms: int = 0
    reconnected_ms: int = 0


@dataclass(slots=True, eq=False)
class Instance:
    """Record of one master, replica or sentinel; fields of a single kind are grouped."""

    flags: int
    name: str
    address: Address
    link: InstanceLink = field(default_factory=InstanceLink)
    runid: str = ""
    config_epoch: int = 0
    is_gone: bool = False
    """Removed from all tables; late replies are ignored."""
    published_ms: int = 0
    s_down_since_ms: int = 0
    o_down_since_ms: int = 0
    down_after_ms: int = DEFAULT_DOWN_AFTER_MS
    info_ms: int = 0
    role_reported: int = 0
    role_reported_ms: int = 0
    master: Instance | None = None
    """Of a replica or sentinel: its master."""

    # masters
    sentinels: dict[str, Instance] = field(default_factory=dict)
    """Other sentinels by id."""
    replicas: dict[str, Instance] = field(default_factory=dict)
    """Replicas by ``ip:port``."""
    quorum: int = 0
    parallel_syncs: int = DEFAULT_PARALLEL_SYNCS
    failover_epoch: int = 0
    failover_state: FailoverState = FailoverState.NONE
    failover_changed_ms: int = 0
    failover_start_ms: int = 0
    failover_timeout_ms: int = DEFAULT_FAILOVER_TIMEOUT_MS
    failover_delay_logged_ms: int = 0
    promoted: Instance | None = None

    # replicas
    master_link_down_ms: int = 0
    priority: int = DEFAULT_PRIORITY
    is_announced: bool = True
    reconf_sent_ms: int = 0
    master_host: str = ""
    master_port: int = 0
    is_master_link_up: bool = False
    offset: int = 0
    conf_changed_ms: int = 0

    # sentinels; *leader* also of masters: this sentinel's vote
    master_down_reply_ms: int = 0
    leader: str = ""
    leader_epoch: int = 0

    @property
    def type_name(self) -> str:
        """``master``, ``slave`` or ``sentinel`` (sentinelRedisInstanceTypeStr)."""
        return TYPES[self.flags & (Flag.MASTER | Flag.REPLICA | Flag.SENTINEL)]

    @property
    def title(self) -> str:
        """Return the name in events: ``slave NAME IP PORT @ MASTER IP PORT`` (sentinelEvent)."""
        own = f"{self.type_name} {self.name} {self.address.ip} {self.address.port}"
        master = self.master
        return own if master is None else f"{own} @ {master.name} {master.address.ip} {master.address.port}"


def replica_name(address: Address) -> str:
    """Return the name of a replica's record (createSentinelRedisInstance)."""
    return str(address)


def new_instance(flags: int, name: str, address: Address, now_ms: int, *, master: Instance | None = None) -> Instance:
    """Create a record without any contact and with a PING pending since *now_ms* (createSentinelRedisInstance)."""
    link = InstanceLink(pending_ping_ms=now_ms, available_ms=now_ms, last_pong_ms=now_ms)
    return Instance(
        flags,
        name,
        address,
        link,
        master=master,
        quorum=master.quorum if master is not None else 0,
        down_after_ms=master.down_after_ms if master is not None else DEFAULT_DOWN_AFTER_MS,
        published_ms=now_ms,
        master_down_reply_ms=now_ms,
        role_reported=flags & (Flag.MASTER | Flag.REPLICA),
        role_reported_ms=now_ms,
        conf_changed_ms=now_ms,
    )


INT64_MAX: Final = 2**63 - 1
_LEADING = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]{1,40})")


def leading_number(text: str) -> int:
    """Return the number at the start of *text*, clamped to 64 bits, or 0 (strtoll, atoi)."""
    match = _LEADING.match(text)
    return max(-INT64_MAX - 1, min(int(match[1]), INT64_MAX)) if match else 0


def whole_number(text: str) -> int | None:
    """Return *text* as a 64-bit number, or None (string2ll)."""
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or (digits[0] == "0" and text != "0"):
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None
