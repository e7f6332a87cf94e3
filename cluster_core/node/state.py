"""Everything that a node holds beside its view of the cluster: links to come, counters, its election, what is to be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.view import Peer
from cluster_core.node.events import Effect, LogLine, SendMessage
from cluster_core.node.keyspace import Keyspace
from cluster_core.node.settings import NodeSettings
from cluster_core.routing.redirect import Client
from cluster_core.wire.bus import TYPE_NAMES, Extension, Header, Message

if TYPE_CHECKING:
    from random import Random

TODO_FAILOVER: Final = 1
TODO_MANUAL: Final = 2
TODO_STATE: Final = 4
TODO_SAVE: Final = 8
TODO_FSYNC: Final = 16
TODO_PONG: Final = 32
"""What waits until the event has been read (`clusterDoBeforeSleep`)."""
ID_BITS: Final = 160
NEVER: Final = 1 << 62


@dataclass(slots=True)
class Election:
    """Our own candidacy (R22, R83 to R94): when it starts, the votes so far, whether the request was sent."""

    time_ms: int = 0
    count: int = 0
    is_sent: bool = False
    rank: int = 0
    failed_rank: int = 0
    epoch: int = 0
    hurried: bool = False
    cause: str = ""
    cause_ms: int = 0


class NodeState:
    """The mutable whole of a node; functions of this package take it as their first argument and add to `out`."""

    __slots__ = (
        "aborted",
        "agenda",
        "agenda_nodes",
        "agenda_spans",
        "beliefs",
        "calm_version",
        "client_ip",
        "clients",
        "doubts",
        "election",
        "extensions",
        "extensions_of",
        "fit_version",
        "header_facts",
        "headers",
        "iteration",
        "keyspace",
        "limit_exceeded",
        "mf_can_start",
        "next_link",
        "now_ms",
        "offset",
        "orphans",
        "orphans_version",
        "out",
        "owners",
        "owners_version",
        "paused",
        "pubsub_received_bytes",
        "pubsub_sent_bytes",
        "received",
        "received_bytes",
        "repl_down_ms",
        "repl_heard_ms",
        "repl_up",
        "replicating",
        "rng",
        "sent",
        "sent_bytes",
        "settings",
        "slots_raw",
        "slots_seen",
        "table",
        "table_members",
        "todo",
        "view",
    )

    def __init__(self, beliefs: ClusterNode, settings: NodeSettings, rng: Random, keyspace: Keyspace) -> None:
        self.beliefs = beliefs
        self.view = beliefs.view
        self.settings = settings
        self.rng = rng
        self.keyspace = keyspace
        self.now_ms = 0
        self.out: list[Effect] = []
        self.todo = TODO_STATE
        self.iteration = 0
        self.agenda: dict[int, list[Peer]] = {}
        self.agenda_spans: list[int] = []
        self.agenda_nodes = 0
        self.calm_version = -1
        self.doubts = 0
        self.next_link = 2
        self.table: list[Peer] = []
        self.table_members = self.fit_version = -1
        self.headers: dict[tuple[int, ...], Header] = {}
        self.header_facts: tuple[object, ...] = ()
        self.slots_seen = 0
        self.slots_raw = bytes(2048)
        self.sent_bytes = self.received_bytes = 0
        self.pubsub_sent_bytes = self.pubsub_received_bytes = 0
        self.sent = [0] * len(TYPE_NAMES)
        self.received = [0] * len(TYPE_NAMES)
        self.limit_exceeded = 0
        self.election = Election()
        self.mf_can_start = False
        self.paused = False
        self.offset = 0
        self.repl_up = False
        self.replicating = ""
        self.repl_heard_ms = self.repl_down_ms = 0
        self.orphans: tuple[int, int, int] = (0, 0, 0)
        self.orphans_version = -1
        self.owners: dict[int, str] = {}
        self.owners_version = -1
        self.extensions: tuple[tuple[Extension, ...], int] = ((), 0)
        self.extensions_of = ""
        self.client_ip = ""
        self.clients: dict[int, Client] = {}
        self.aborted: dict[int, None] = {}

    def peers(self) -> list[Peer]:
        """The whole table as a list, for drawing from it and for going over it."""
        view = self.view
        if self.table_members != view.members or len(self.table) != len(view.nodes):
            self.table = list(view.nodes.values())
            self.table_members = view.members
            for place, peer in enumerate(self.table):
                peer.place = place
            view.note_places()
            self.fit_version = -1
        return self.table

    def send(self, link: int, message: Message) -> None:
        """Count a message and put it on a link."""
        header = message.header
        self.sent[header.type] += 1
        self.sent_bytes += header.totlen  # type: ignore[union-attr]  # what we send is whole
        self.out.append(SendMessage(link, message))

    def log(self, level: str, text: str) -> None:
        """Write a line to the server's log."""
        self.out.append(LogLine(level, text))

    def changed(self) -> None:
        """The view was changed by ourselves: nothing that was remembered about quiet messages holds any more."""
        self.view.version += 1


def random_id(rng: Random) -> str:
    """A node or shard id: 40 hexadecimal digits (R174)."""
    return f"{rng.getrandbits(ID_BITS):040x}"


def named(state: NodeState, node_id: str) -> str:
    """How the log names a node: since Redis 7.2 and Valkey with its name behind the id (R160)."""
    profile = state.view.profile
    if not profile.names_logged:
        return node_id
    peer = state.view.nodes.get(node_id)
    name = peer.nodename if peer is not None else ""
    if not name and peer is not None and profile.addresses_logged:
        name = f"{peer.ip}:{peer.port}"
    return f"{node_id} ({name})"
