"""Client commands: execute cluster commands, serve or redirect others (R114 to R121).

Replies are values of `cluster_core.wire.resp`; errors have the server's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.gossip.flags import REPLICA
from cluster_core.node.commands.descriptions import REPORT_COMMANDS
from cluster_core.node.commands.membership import MEMBERSHIP_COMMANDS
from cluster_core.node.commands.slots import SLOT_COMMANDS
from cluster_core.node.events import Execute, Reply
from cluster_core.node.state import NodeState
from cluster_core.routing.key_positions import table_of
from cluster_core.routing.redirect import DIALECTS, SERVE, Client, Command, Decision, Endpoint, RoutingView, route
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.wire.resp import RespError

CLUSTER_COMMANDS: Final[dict[str, Callable[[NodeState, list[str]], Any]]] = {
    **REPORT_COMMANDS,
    **SLOT_COMMANDS,
    **MEMBERSHIP_COMMANDS,
}
"""Handlers of CLUSTER subcommands: they return a reply, or raise ProtocolError with the error text."""
OK: Final = "OK"
NAME_CHARS_MAX: Final = 128
"""Characters of an unknown name that an error repeats."""
SESSION_COMMANDS: Final = frozenset((b"asking", b"readonly", b"readwrite"))
IDLE: Final = Client()


class Owners(Mapping[int, str]):
    """Slot owners, read from the view and cached until it changes."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        if state.owners_version != state.view.version:
            state.owners, state.owners_version = {}, state.view.version

    def __getitem__(self, slot: int) -> str:
        known = self._state.owners
        if slot not in known:
            owner = self._state.view.owner_of(slot)
            known[slot] = owner.id if owner is not None else ""
        if not known[slot]:
            raise KeyError(slot)
        return known[slot]

    def __iter__(self) -> Iterator[int]:
        return (slot for slot in range(SLOT_COUNT) if slot in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Endpoints(Mapping[str, Endpoint]):
    """Client addresses of nodes, computed on demand."""

    def __init__(self, state: NodeState) -> None:
        self._nodes = state.view.nodes

    def __getitem__(self, node_id: str) -> Endpoint:
        peer = self._nodes[node_id]
        return Endpoint(peer.ip, peer.port, peer.hostname)

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def routing_view(state: NodeState) -> RoutingView:
    """Return the input of redirection, without copying the table."""
    view = state.view
    return RoutingView(
        view.myself.id,
        Owners(state),
        Endpoints(state),
        view.myself.replicaof if view.myself.flags & REPLICA else "",
        view.ok,
        view.migrating,
        view.importing,
        DIALECTS[view.profile.routing_table],
        state.settings.routing,
    )


def serve_client(state: NodeState, client: int, words: Command) -> None:
    """Answer one client command, or let the driver execute it."""
    if not words:
        return
    words = tuple(words)
    session = state.clients.get(client, IDLE)
    refusal = _malformed(state, words)
    name = words[0].lower()
    decision: Decision = SERVE
    if refusal:
        state.out.append(Reply(client, RespError(refusal)))
    elif name == b"cluster" and session.queued is None:
        state.out.append(Reply(client, cluster_reply(state, words)))
    elif name in SESSION_COMMANDS and session.queued is None:
        state.out.append(Reply(client, OK))
    elif name == b"exec" and client in state.aborted:
        text = "EXECABORT Transaction discarded because of previous errors."
        state.out.append(Reply(client, RespError(text)))
    else:
        decision = _route(state, client, words, session)
    after = session.after(words, decision)
    if after.queued is None:
        state.aborted.pop(client, None)
    elif decision != SERVE or refusal:
        state.aborted[client] = None
    if after == IDLE:
        state.clients.pop(client, None)
    else:
        state.clients[client] = after


def _route(state: NodeState, client: int, words: tuple[bytes, ...], session: Client) -> Decision:
    table = table_of(state.view.profile.routing_table)
    decision = route(routing_view(state), words, client=session, keys_here=state.keyspace.holds, table=table)
    if decision != SERVE:
        state.out.append(Reply(client, RespError(str(decision))))
        return decision
    state.out.append(Execute(client, words))
    return decision


def _malformed(state: NodeState, words: tuple[bytes, ...]) -> str:
    """Return the error for an unknown command or wrong arity; empty if valid."""
    info = table_of(state.view.profile.routing_table).find(words)
    shown = [word[:NAME_CHARS_MAX].decode("utf-8", "surrogateescape") for word in words]
    shown = [word.replace("\r", " ").replace("\n", " ") for word in shown]
    if info is None:
        arguments = "".join(f"'{word}' " for word in shown[1:])[:NAME_CHARS_MAX]
        return f"ERR unknown command '{shown[0]}', with args beginning with: {arguments}"
    if info.name == "cluster" and len(words) > 1:
        return f"ERR unknown subcommand '{shown[1]}'. Try CLUSTER HELP."
    if not info.takes(len(words)):
        return f"ERR wrong number of arguments for '{info.name}' command"
    return ""


def cluster_reply(state: NodeState, words: tuple[bytes, ...]) -> Any:
    """Execute a CLUSTER subcommand and return its reply."""
    name = words[1].decode("latin-1").lower()
    command = CLUSTER_COMMANDS.get(name)
    if command is None:
        return RespError(f"ERR CLUSTER {name.upper()} is not available on this node")
    version = state.view.version
    try:
        reply = command(state, [word.decode("utf-8", "surrogateescape") for word in words[2:]])
    except ProtocolError as error:
        return RespError(str(error).replace("\r", " ").replace("\n", " "))
    if state.view.version == version and name not in REPORT_COMMANDS and name != "saveconfig":
        state.changed()
    return reply
