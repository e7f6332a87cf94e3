"""How a replica introduces itself: the states from the connection to PSYNC, what it says in each, and what replies mean.

`repl_state` and `syncWithMaster` of the servers.  AUTH and the REPLCONFs are sent together, their replies read in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from cluster_core.replication.profile import ReplicationProfile


class ReplicaState(Enum):
    """Where a replica is with its master (`REPL_STATE_*`)."""

    CONNECT = "connect"
    CONNECTING = "connecting"
    PING = "ping"
    AUTH = "auth"
    LISTENING_PORT = "listening-port"
    IP_ADDRESS = "ip-address"
    CAPABILITIES = "capa"
    VERSION = "version"
    PSYNC = "psync"
    DUMP_CHANNEL = "rdb-channel"
    """Everything comes over two channels: the one for the dump introduces itself (Valkey)."""
    CLIENT_ID = "set-rdb-client-id"
    """The main channel tells which dump it belongs to."""
    TRANSFER = "transfer"
    LOADING = "loading"
    ONLINE = "online"


class Verdict(Enum):
    """What a reply means for the handshake."""

    GO_ON = "go on"
    GO_ON_WITHOUT = "go on without it"
    """An old master does not know the option: not critical."""
    GIVE_UP = "give up"


NEXT: Final[dict[ReplicaState, ReplicaState]] = {
    ReplicaState.CONNECT: ReplicaState.CONNECTING,
    ReplicaState.CONNECTING: ReplicaState.PING,
    ReplicaState.PING: ReplicaState.AUTH,
    ReplicaState.AUTH: ReplicaState.LISTENING_PORT,
    ReplicaState.LISTENING_PORT: ReplicaState.IP_ADDRESS,
    ReplicaState.IP_ADDRESS: ReplicaState.CAPABILITIES,
    ReplicaState.CAPABILITIES: ReplicaState.VERSION,
    ReplicaState.VERSION: ReplicaState.PSYNC,
    ReplicaState.PSYNC: ReplicaState.TRANSFER,
    ReplicaState.DUMP_CHANNEL: ReplicaState.CLIENT_ID,
    ReplicaState.CLIENT_ID: ReplicaState.PSYNC,
    ReplicaState.TRANSFER: ReplicaState.LOADING,
    ReplicaState.LOADING: ReplicaState.ONLINE,
}
"""What follows each state when all goes well; states that have nothing to say are passed over."""

_PING_ERRORS: Final = ("NOAUTH", "NOPERM", "ERR operation not permitted")
"""Errors to PING that say no more than that AUTH must come first."""


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """How a replica presents itself; *password* None: no AUTH, *user* empty: the old form of AUTH."""

    listening_port: int
    announced_ip: str = ""
    user: str = ""
    password: str | None = None
    version: str = ""
    dual_channel: bool = False


def introduce(settings: ReplicaSettings, profile: ReplicationProfile) -> list[tuple[ReplicaState, tuple[str, ...]]]:
    """Return what is said after PING, each with the state in which its reply is awaited."""
    said: list[tuple[ReplicaState, tuple[str, ...]]] = []
    if settings.password is not None:
        names = (settings.user, settings.password) if settings.user else (settings.password,)
        said.append((ReplicaState.AUTH, ("AUTH", *names)))
    said.append((ReplicaState.LISTENING_PORT, ("REPLCONF", "listening-port", str(settings.listening_port))))
    if settings.announced_ip:
        said.append((ReplicaState.IP_ADDRESS, ("REPLCONF", "ip-address", settings.announced_ip)))
    dual = ("capa", "dual-channel") if settings.dual_channel and profile.dual_channel else ()
    said.append((ReplicaState.CAPABILITIES, ("REPLCONF", "capa", "eof", "capa", "psync2", *dual)))
    if profile.tells_version:
        said.append((ReplicaState.VERSION, ("REPLCONF", "version", settings.version)))
    return said


def introduce_channel(settings: ReplicaSettings) -> tuple[str, ...]:
    """What the connection for the dump says before SYNC (dual channel)."""
    port = ("listening-port", str(settings.listening_port))
    ip = ("ip-address", settings.announced_ip) if settings.announced_ip else ()
    return ("REPLCONF", "capa", "eof", "rdb-only", "1", "rdb-channel", "1", *ip, *port, "version", settings.version)


def judge_reply(state: ReplicaState, text: str, *, is_error: bool) -> Verdict:
    """What the reply *text* means in *state* (`syncWithMaster`)."""
    if not is_error:
        return Verdict.GO_ON
    match state:
        case ReplicaState.PING:
            return Verdict.GO_ON if text.startswith(_PING_ERRORS) else Verdict.GIVE_UP
        case ReplicaState.AUTH | ReplicaState.DUMP_CHANNEL | ReplicaState.CLIENT_ID:
            return Verdict.GIVE_UP
        case _:
            return Verdict.GO_ON_WITHOUT
