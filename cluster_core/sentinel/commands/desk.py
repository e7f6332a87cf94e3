"""What a client hears: the commands of a sentinel, with the server's texts (sentinelcmds, sentinelCommand)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.sentinel.commands.reports import encoded, info_text
from cluster_core.sentinel.commands.sentinel import sentinel_reply
from cluster_core.sentinel.directory import take_hello
from cluster_core.sentinel.events import HELLO_CHANNEL, Exit, Reply
from cluster_core.sentinel.state import SentinelState, Session, text_of
from cluster_core.wire.resp import Push, RespError, RespMap

NAME_CHARS_MAX: Final = 128
"""So much of an unknown name is repeated in the error."""
SUBSCRIPTIONS_MAX: Final = 1000
"""Channels and patterns of one client."""
LISTENING: Final = frozenset(("subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ping", "quit", "reset"))
"""What a client of RESP2 may say while it listens."""
SENT: Final = object()
"""The reply is among the effects already."""

Words = tuple[bytes, ...]


def serve_client(state: SentinelState, client: int, words: Words) -> None:
    """Answer one command of a client; every reply is an effect."""
    if not words:
        return
    session = state.clients.setdefault(client, Session())
    name = text_of(words[0]).lower()
    arity, command = _COMMANDS.get(name, (0, None))
    if command is None:
        shown = "".join(f"'{text_of(word)}' " for word in words[1:])[:NAME_CHARS_MAX]
        reply: Any = RespError(
            f"ERR unknown command '{text_of(words[0])[:NAME_CHARS_MAX]}', with args beginning with: {shown}"
        )
    elif len(words) != arity if arity > 0 else len(words) < -arity:
        reply = RespError(f"ERR wrong number of arguments for '{name}' command")
    elif session.count and session.protocol == 2 and name not in LISTENING:
        allowed = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        reply = RespError(f"ERR Can't execute '{name}': {allowed}")
    else:
        try:
            reply = command(state, client, words)
        except ProtocolError as error:
            reply = RespError(str(error))
    if isinstance(reply, RespError):
        reply = RespError(reply.text.replace("\r", " ").replace("\n", " "))
    if reply is not SENT:
        state.out.append(Reply(client, reply))


# -- commands ----------------------------------------------------------------------------------------------------------


def _ping(state: SentinelState, client: int, words: Words) -> Any:
    if len(words) > 2:
        raise ProtocolError("ERR wrong number of arguments for 'ping' command")
    session = state.clients[client]
    if session.count and session.protocol == 2:
        return [b"pong", words[1] if len(words) > 1 else b""]
    return words[1] if len(words) > 1 else "PONG"


def _info(state: SentinelState, client: int, words: Words) -> Any:
    return encoded(info_text(state, [text_of(word) for word in words[1:]]))


def _publish(state: SentinelState, client: int, words: Words) -> Any:
    """Only hello messages, which other sentinels send here (sentinelPublishCommand)."""
    if words[1] != HELLO_CHANNEL.encode():
        raise ProtocolError("ERR Only HELLO messages are accepted by Sentinel instances.")
    take_hello(state, text_of(words[2]))
    return 1


def _listen(state: SentinelState, client: int, words: Words) -> Any:
    """SUBSCRIBE and PSUBSCRIBE, UNSUBSCRIBE and PUNSUBSCRIBE: of all if none is named."""
    session, kind = state.clients[client], words[0].lower()
    wanted = session.patterns if kind.startswith(b"p") else session.channels
    begins = not kind.lstrip(b"p").startswith(b"un")
    for name in words[1:] or tuple(wanted) or (None,):
        if begins and name is not None:
            if session.count >= SUBSCRIPTIONS_MAX and name not in wanted:
                raise ProtocolError(f"ERR more than {SUBSCRIPTIONS_MAX} subscriptions of one client")
            wanted[name] = None
        elif name is not None:
            wanted.pop(name, None)
        state.out.append(Reply(client, Push((kind, name, session.count))))
    return SENT


def _hello(state: SentinelState, client: int, words: Words) -> Any:
    """The protocol; the driver encodes replies by `Sentinel.protocol_of`."""
    session = state.clients[client]
    if len(words) > 1:
        if words[1] not in (b"2", b"3"):
            raise ProtocolError("NOPROTO unsupported protocol version")
        session.protocol = int(words[1])
    facts: dict[bytes, Any] = {b"server": state.settings.dialect.partition("-")[0].encode()}
    facts |= {b"version": state.settings.dialect.partition("-")[2].encode(), b"proto": session.protocol}
    facts |= {b"id": client, b"mode": b"sentinel", b"modules": []}
    return RespMap(tuple(facts.items()))


def _client(state: SentinelState, client: int, words: Words) -> Any:
    session, action = state.clients[client], text_of(words[1]).lower()
    if action == "setname" and len(words) == 3:
        session.name = words[2][:NAME_CHARS_MAX]
        return "OK"
    if action == "getname" and len(words) == 2:
        return session.name or None
    if action == "id" and len(words) == 2:
        return client
    if action in ("setinfo", "no-evict", "no-touch"):
        return "OK"
    raise ProtocolError(f"ERR unknown subcommand '{text_of(words[1])[:NAME_CHARS_MAX]}'. Try CLIENT HELP.")


def _auth(state: SentinelState, client: int, words: Words) -> Any:
    raise ProtocolError(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?"
    )


def _shutdown(state: SentinelState, client: int, words: Words) -> Any:
    state.log("#", "User requested shutdown...")
    state.out.append(Exit(0))
    return SENT


def _reset(state: SentinelState, client: int, words: Words) -> Any:
    state.clients[client] = Session()
    return "RESET"


_COMMANDS: Final[dict[str, tuple[int, Callable[[SentinelState, int, Words], Any]]]] = {
    "ping": (-1, _ping),
    "sentinel": (-2, lambda state, client, words: sentinel_reply(state, words)),
    "info": (-1, _info),
    "role": (1, lambda state, client, words: [b"sentinel", [encoded(name) for name in state.masters]]),
    "publish": (3, _publish),
    "subscribe": (-2, _listen),
    "psubscribe": (-2, _listen),
    "unsubscribe": (-1, _listen),
    "punsubscribe": (-1, _listen),
    "hello": (-1, _hello),
    "client": (-2, _client),
    "auth": (-2, _auth),
    "command": (-1, lambda state, client, words: []),
    "shutdown": (-1, _shutdown),
    "reset": (1, _reset),
    "quit": (-1, lambda state, client, words: "OK"),
}
"""Number of words (negative: at least) and what carries the command out."""
