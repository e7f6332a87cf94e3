"""Commands that other sentinels send, and SENTINEL FAILOVER, with the server's reply texts (sentinelcmds)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.sentinel.directory import (
    find_master_at,
    take_hello,
)
from cluster_core.sentinel.down import ask_others
from cluster_core.sentinel.events import HELLO_CHANNEL, Reply
from cluster_core.sentinel.failover import choose_replica, start_failover, vote
from cluster_core.sentinel.instance import Flag, Instance
from cluster_core.sentinel.links import current_address
from cluster_core.sentinel.state import SentinelState, text_of
from cluster_core.sentinel.text import whole_number
from cluster_core.wire.resp import RespError


def encoded(text: str) -> bytes:
    """Encode text that came from a peer, restoring the peer's bytes."""
    return text.encode("utf-8", "surrogateescape")


FAILOVER_STATE: Final = "master_failover_state:"
"""INFO line of servers that support FAILOVER."""

Words = list[str]


def sentinel_reply(state: SentinelState, words: tuple[bytes, ...]) -> Any:
    """Execute a SENTINEL subcommand and return its reply; raises ProtocolError."""
    name = text_of(words[1]).lower()
    valkey = state.settings.dialect.startswith("valkey")
    found = (_VALKEY_COMMANDS if valkey else _COMMANDS).get(name)
    if found is None:
        raise ProtocolError(f"ERR unknown subcommand '{text_of(words[1])[:128]}'. Try SENTINEL HELP.")
    arity, command = found
    if len(words) != arity if arity > 0 else len(words) < -arity:
        raise ProtocolError(f"ERR wrong number of arguments for 'sentinel|{name}' command")
    return command(state, [text_of(word) for word in words[2:]])


def named_master(state: SentinelState, name: str) -> Instance:
    """Return the master called *name*; raises ProtocolError if there is none."""
    master = state.masters.get(name)
    if master is None:
        raise ProtocolError("ERR No such master with that name")
    return master


def _integer(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise ProtocolError("ERR value is not an integer or out of range")
    return number


def _address(state: SentinelState, words: Words) -> Any:
    master = state.masters.get(words[0])
    if master is None:
        return None
    address = current_address(master)
    return [encoded(address.ip), str(address.port).encode()]


def _is_down(state: SentinelState, words: Words) -> Any:
    """Return SDOWN of a master, and this sentinel's vote if one is requested; never down in TILT (S8, S9, S16)."""
    host, port_text, epoch_text, runid = words
    port, epoch = _integer(port_text), _integer(epoch_text)
    master = find_master_at(state, host, port)
    is_down = master is not None and bool(master.flags & Flag.S_DOWN) and not state.tilt
    leader, leader_epoch = "", 0
    if master is not None and runid != "*" and epoch >= 0:
        leader, leader_epoch = vote(state, master, epoch, runid)
    return [int(is_down), encoded(leader or "*"), leader_epoch]


def _failover(state: SentinelState, words: Words) -> Any:
    """Start a failover on request, without quorum and election (S12).

    COORDINATED (Valkey 9): with an election; the old master hands over with FAILOVER.
    """
    if len(words) > 1 and words[1].lower() != "coordinated":
        raise ProtocolError("ERR Unknown failover option specified")
    is_coordinated = len(words) > 1
    master = named_master(state, words[0])
    if master.flags & Flag.FAILOVER_IN_PROGRESS:
        raise ProtocolError("INPROG Failover already in progress")
    if is_coordinated and FAILOVER_STATE not in master.info:
        raise ProtocolError("NOGOODPRIMARY Primary does not support FAILOVER command")
    if choose_replica(master, state.periods, state.now_ms) is None:
        raise ProtocolError("NOGOODSLAVE No suitable replica to promote")
    level = "*" if state.settings.dialect.startswith("valkey") else "#"
    state.log(level, f"Executing user requested FAILOVER of '{master.name}'")
    start_failover(state, master)
    master.flags |= Flag.COORDINATED_FAILOVER if is_coordinated else Flag.FORCE_FAILOVER
    if is_coordinated:
        master.flags |= Flag.S_DOWN  # only a sentinel in SDOWN asks for votes; the next timer clears the flag
        ask_others(state, master, forced=True)
    return "OK"


_COMMANDS: Final[dict[str, tuple[int, Callable[[SentinelState, Words], Any]]]] = {
    "get-master-addr-by-name": (3, _address),
    "is-master-down-by-addr": (6, _is_down),
    "failover": (3, _failover),
    "myid": (2, lambda state, words: state.my_id.encode()),
}
"""Arity (negative: minimum), counting SENTINEL and the subcommand, and the handler."""
_VALKEY_COMMANDS: Final = {
    **_COMMANDS,
    "failover": (-3, _failover),
    "get-primary-addr-by-name": _COMMANDS["get-master-addr-by-name"],
    "is-primary-down-by-addr": _COMMANDS["is-master-down-by-addr"],
}
"""Valkey's new command names; the old ones still work."""


ECHOED_CHARS_MAX: Final = 128
"""Characters of an unknown command name that an error repeats."""
RawWords = tuple[bytes, ...]


def serve_client(state: SentinelState, client: int, words: RawWords) -> None:
    """Answer one client command; the reply is added to the effects."""
    if not words:
        return
    name = text_of(words[0]).lower()
    arity, command = _CLIENT_COMMANDS.get(name, (0, None))
    if command is None:
        shown = "".join(f"'{text_of(word)}' " for word in words[1:])[:ECHOED_CHARS_MAX]
        reply: Any = RespError(
            f"ERR unknown command '{text_of(words[0])[:ECHOED_CHARS_MAX]}', with args beginning with: {shown}"
        )
    elif len(words) != arity if arity > 0 else len(words) < -arity:
        reply = RespError(f"ERR wrong number of arguments for '{name}' command")
    else:
        try:
            reply = command(state, client, words)
        except ProtocolError as error:
            reply = RespError(str(error))
    if isinstance(reply, RespError):
        reply = RespError(reply.text.replace("\r", " ").replace("\n", " "))
    state.out.append(Reply(client, reply))


# -- commands ----------------------------------------------------------------------------------------------------------


def _ping(state: SentinelState, client: int, words: RawWords) -> Any:
    if len(words) > 2:
        raise ProtocolError("ERR wrong number of arguments for 'ping' command")
    return words[1] if len(words) > 1 else "PONG"


def _publish(state: SentinelState, client: int, words: RawWords) -> Any:
    """Accept hello messages of other sentinels; refuse other channels (sentinelPublishCommand)."""
    if words[1] != HELLO_CHANNEL.encode():
        raise ProtocolError("ERR Only HELLO messages are accepted by Sentinel instances.")
    take_hello(state, text_of(words[2]))
    return 1


_CLIENT_COMMANDS: Final[dict[str, tuple[int, Callable[[SentinelState, int, RawWords], Any]]]] = {
    "ping": (-1, _ping),
    "sentinel": (-2, lambda state, client, words: sentinel_reply(state, words)),
    "publish": (3, _publish),
    "client": (-2, lambda state, client, words: "OK"),
}
"""Arity (negative: minimum) and the handler."""
