"""What instances answer, each kind of answer with what follows from it (the callbacks of sentinel.c)."""

from __future__ import annotations

from typing import Any, Final

from cluster_core.sentinel.discovery import take_hello
from cluster_core.sentinel.instance import Flag, Instance
from cluster_core.sentinel.roles import take_info
from cluster_core.sentinel.state import Awaited, Connection, SentinelState, text_of
from cluster_core.wire.resp import RespError

VALID_PONGS: Final = ("PONG", "LOADING", "MASTERDOWN")
"""How an answer to PING begins that shows life (S5)."""
LEADER_CHARS_MAX: Final = 64


def take_answer(state: SentinelState, number: int, value: Any) -> None:
    """A value came in on a connection; one that nothing waits for, or of a closed one, is dropped."""
    connection = state.connections.get(number)
    if connection is None:
        return
    if connection.is_pubsub and isinstance(value, list):
        _take_message(state, connection, value)
        return
    if not connection.awaited:
        return
    awaited, instance = connection.awaited.popleft()
    connection.link.pending_commands = max(connection.link.pending_commands - 1, 0)
    if instance.is_gone:
        return
    match awaited:
        case Awaited.PING:
            _take_pong(state, instance, value)
        case Awaited.INFO if isinstance(value, bytes):
            take_info(state, instance, text_of(value))
        case Awaited.PUBLISH if not isinstance(value, RespError):
            instance.published_ms = state.now_ms
        case Awaited.ASK:
            _take_opinion(state, instance, value)


def _take_message(state: SentinelState, connection: Connection, value: list[Any]) -> None:
    """Something came over the hello channel: the connection lives; hello messages of others count."""
    connection.link.pubsub_active_ms = state.now_ms
    if len(value) != 3 or not all(isinstance(item, bytes) for item in value) or value[0] != b"message":
        return
    text = text_of(value[2])
    if state.my_id not in text:
        take_hello(state, text)


def _take_pong(state: SentinelState, instance: Instance, value: Any) -> None:
    """S5: what shows life ends the wait; a server that is busy with a script is freed of it once."""
    link = instance.link
    if isinstance(value, str | RespError):
        text = value if isinstance(value, str) else value.text
        if text.startswith(VALID_PONGS):
            link.available_ms = state.now_ms
            link.pending_ping_ms = 0
            if text.startswith("PONG"):
                instance.flags &= ~Flag.MASTER_REBOOT
        elif text.startswith("BUSY") and instance.flags & Flag.S_DOWN and not instance.flags & Flag.SCRIPT_KILL_SENT:
            if link.command:
                state.send(instance, Awaited.DISCARD, "SCRIPT", "KILL")
            instance.flags |= Flag.SCRIPT_KILL_SENT
    link.last_pong_ms = state.now_ms


def _take_opinion(state: SentinelState, sentinel: Instance, value: Any) -> None:
    """Another sentinel says whether it holds the master for down, and for whom it has voted (S8)."""
    if not isinstance(value, list) or len(value) != 3:
        return
    down, leader, epoch = value
    if type(down) is not int or not isinstance(leader, bytes) or type(epoch) is not int:
        return
    sentinel.master_down_reply_ms = state.now_ms
    sentinel.flags = sentinel.flags | Flag.MASTER_DOWN if down == 1 else sentinel.flags & ~Flag.MASTER_DOWN
    if leader == b"*" or len(leader) > LEADER_CHARS_MAX:
        return
    name = text_of(leader)
    if sentinel.leader_epoch != epoch:
        state.log("#", f"{sentinel.name} voted for {name} {epoch}")
    sentinel.leader, sentinel.leader_epoch = name, epoch
