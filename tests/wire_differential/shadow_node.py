"""A node that lives in a capture: its links are connections of the real node, its clock is the capture's."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from cluster_core.gossip.events import CloseLink, LinkAccepted, LinkClosed, MessageReceived, Tick
from cluster_core.gossip.flags import HANDSHAKE, MEET
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.view import Peer
from cluster_core.node.election import DELAY_MS
from cluster_core.node.events import (
    ClientCommand,
    ElectionStep,
    Event,
    LinkOpened,
    OpenLink,
    ReplicationUp,
    SendMessage,
    StartReplication,
)
from cluster_core.node.links import open_link
from cluster_core.node.machine import Node
from cluster_core.replay.evidence import Endpoint, LinkSeen, MessageSeen
from cluster_core.wire.bus import (
    Header,
    Message,
    MessageType,
)
from tests.wire_differential.wire_score import Comparison, facts_of

if TYPE_CHECKING:
    from random import Random

TICK_NS: Final = 100_000_000
"""The cron of a server (R28)."""
TICK_APART_NS: Final = 30_000_000
"""The real node's cron shows in its PINGs and connections: ours runs then, unless it just did."""
CONNECT_NS: Final = 2_000_000
"""How long connecting takes: a connection that comes later makes ours ask again."""
UNREAD_NS: Final = 100_000_000
"""A PING that is not answered for so long was read without an answer."""
CAUSED: Final = (MessageType.PONG, MessageType.FAIL, MessageType.AUTH_ACK, MessageType.UPDATE)
EPOCHS: Final = frozenset(("current_epoch", "config_epoch"))
ANSWERED: Final = (MessageType.PING, MessageType.MEET)
TICKS_BEHIND_MAX: Final = 600
BEGUN_MS: Final = 1000
"""A process is taken to have run so long before it first spoke."""
BUS_PORT_STEP: Final = 10_000


class ShadowNode:
    """Our node, its links paired with those of the real one, and the comparison of what both send."""

    def __init__(self, address: Endpoint, rng: Random, *, node_timeout_ms: int, profile: Profile | None = None) -> None:
        self.address = address
        self._rng = rng
        self.node: Node | None = None
        self.comparison = Comparison()
        self._timeout_ms = node_timeout_ms
        self._profile = profile
        self._now_ns = self._next_tick_ns = self._last_tick_ns = 0
        self._begun_ms = 0
        self._read_last: MessageReceived | None = None
        self._is_reading_again = False
        self._is_down = False
        self._accepted = 1
        self._link_of: dict[int, int] = {}
        self._connection_of: dict[int, int] = {}
        self._wanted: dict[int, OpenLink] = {}
        self._wanted_ns: dict[int, int] = {}
        self._held: dict[int, Endpoint] = {}
        self._unread: dict[int, deque[tuple[int, MessageSeen]]] = {}
        self._events: deque[Event] = deque()
        self._parked: dict[int, list[Message]] = {}

    def _tick(self) -> None:
        self._last_tick_ns, self._next_tick_ns = self._now_ns, self._now_ns + TICK_NS
        self._handle(Tick())

    def _tick_in_step(self) -> None:
        """The real node's cron ran now."""
        if self._now_ns - self._last_tick_ns > TICK_APART_NS:
            self._tick()

    def _give_up(self, now_ns: int) -> None:
        """Connections that ours asked for and the real node did not get were refused: that is in no capture of a host
        with several nodes, where a connection without a message has no owner.
        """
        while self._wanted_ns:
            link, asked_ns = next(iter(self._wanted_ns.items()))
            if now_ns - asked_ns <= CONNECT_NS:
                return
            del self._wanted_ns[link]
            if link in self._wanted:
                self._unbind(link)
                self._handle(LinkClosed(link))

    def _the_node(self) -> Node:
        node = self.node
        if node is None:
            raise LookupError("no header yet")
        return node

    def _handle(self, event: Event) -> None:
        self._events.append(event)
        self._handle_events()

    def _handle_events(self) -> None:
        node = self._the_node()
        while self._events:
            event = self._events.popleft()
            for effect in node.handle(event, self._now_ns // 1_000_000):
                kind = type(effect)
                if kind is SendMessage:
                    self._on_send(effect, event)  # type: ignore[arg-type]
                elif kind is OpenLink:
                    self._on_open(effect)  # type: ignore[arg-type]
                elif kind is CloseLink:
                    self._unbind(effect.link)  # type: ignore[union-attr]
                elif kind is StartReplication:
                    self._events.append(ReplicationUp())
                elif kind is ElectionStep and effect.step == "scheduled":  # type: ignore[union-attr]
                    election = node.state.election
                    if election.time_ms > node.state.now_ms:  # chance: as late as may be, see `_keep_election`
                        election.time_ms += DELAY_MS
            self._note_facts()

    def _carry_out(self) -> None:
        """Send what was done outside an event."""
        state = self._the_node().state
        for effect in state.out:
            if isinstance(effect, SendMessage):
                self._on_send(effect, Tick())
        state.out = []

    def _note_facts(self) -> None:
        self.comparison.note_facts(facts_of(self._the_node().view), self._now_ns)

    def _on_send(self, effect: SendMessage, event: Event) -> None:
        node, message = self._the_node(), effect.message
        connection = self._connection_of.get(effect.link)
        if self._is_reading_again and message.header.type == MessageType.PONG:
            return
        if connection is None:
            if effect.link in self._wanted:
                self._parked.setdefault(effect.link, []).append(message)
            return
        if message.header.type == MessageType.PING and type(event) is Tick:
            link = node.view.links.get(effect.link)
            peer = node.view.nodes.get(link.node or "") if link is not None else None
            if peer is not None:
                age_ms = node.state.now_ms - peer.pong_received_ms
                if age_ms <= node.state.settings.ping_due_ms:  # a random PING that nobody will answer
                    peer.ping_sent_ms = 0
        self.comparison.note_ours(connection, message, self._now_ns, outbound=not effect.link % 2)

    def _on_open(self, effect: OpenLink) -> None:
        self._wanted[effect.link] = effect
        self._wanted_ns[effect.link] = self._now_ns
        here = Endpoint(effect.ip, effect.cport)
        connection = next((held for held, peer in self._held.items() if peer == here), None)
        if connection is not None:
            self._bind(connection, effect.link)

    def _bind(self, connection: int, link: int) -> None:
        """A connection of the real node is the one that ours asked for."""
        self._held.pop(connection, None)
        self._wanted.pop(link, None)
        self._link_of[connection], self._connection_of[link] = link, connection
        for message in self._parked.pop(link, ()):
            self.comparison.note_ours(connection, message, self._now_ns, outbound=not link % 2)
        self._events.append(LinkOpened(link))

    def _unbind(self, link: int) -> None:
        self._wanted.pop(link, None)
        self._parked.pop(link, None)
        connection = self._connection_of.pop(link, None)
        if connection is not None:
            self._link_of.pop(connection, None)

    def _accept(self, connection: int) -> None:
        link = self._accepted
        self._accepted += 2
        self._link_of[connection], self._connection_of[link] = link, connection
        self._handle(LinkAccepted(link, self.address.ip))

    def _take(self, connection: int, peer: Endpoint) -> None:
        link = next((link for link, open_ in self._wanted.items() if (open_.ip, open_.cport) == peer), None)
        if link is not None:
            self._bind(connection, link)
            self._handle_events()

    def _refuse(self, seen: LinkSeen) -> None:
        link = next((link for link, open_ in self._wanted.items() if (open_.ip, open_.cport) == seen.peer), None)
        if link is not None:
            self._unbind(link)
            self._handle(LinkClosed(link))

    def _force(self, seen: MessageSeen) -> None:
        """The real node uses a connection of its own that ours did not ask for: to whom is it?"""
        node = self._the_node()
        self._held.setdefault(seen.connection, seen.peer)
        header = seen.message.header
        if header.type == MessageType.MEET and seen.sent:
            waiting = [
                p for p in node.view.nodes.values() if p.cport == seen.peer.port and p.flags & (MEET | HANDSHAKE)
            ]
            if not waiting:
                words = [b"CLUSTER", b"MEET", seen.peer.ip.encode(), str(seen.peer.port - BUS_PORT_STEP).encode()]
                self._handle(ClientCommand(0, (*words, str(seen.peer.port).encode())))
                self.comparison.score.told["-", "MEET"] += 1
        self._tick()
        if seen.connection not in self._held:
            return
        peers = node.view.at_address(seen.peer.ip, seen.peer.port)
        if not seen.sent and isinstance(header, Header):
            peers = [peer for peer in peers if peer.id == header.sender] or peers
        if peers:
            self._open(peers[0])

    def _open(self, peer: Peer) -> None:
        node = self._the_node()
        if peer.outbound is not None:
            old = peer.outbound
            self._unbind(old)
            self._handle(LinkClosed(old))
        if peer.outbound is None:
            open_link(node.state, peer)
            self._on_open(OpenLink(peer.outbound or 0, peer.id, peer.ip, peer.cport))
            self._handle_events()

    def _on_received(self, seen: MessageSeen) -> None:
        """A PING is read when it is answered, and what came behind it on its connection after that."""
        waiting = self._unread.get(seen.connection)
        if waiting or (not seen.outbound and seen.message.header.type in ANSWERED):
            self._unread.setdefault(seen.connection, deque()).append((self._now_ns, seen))
        else:
            self._read(seen)

    def _read_answered(self, connection: int) -> None:
        """The real node answers on *connection*: it has read the oldest PING there."""
        waiting = self._unread.get(connection)
        while waiting and waiting[0][1].message.header.type not in ANSWERED:
            self._read(waiting.popleft()[1])
        if waiting:
            self._read(waiting.popleft()[1])
        if not waiting:
            self._unread.pop(connection, None)

    def _read_one(self) -> bool:
        """Read the message that has waited the longest, if there is any."""
        if not self._unread:
            return False
        connection = min(self._unread, key=lambda each: self._unread[each][0][0])
        waiting = self._unread[connection]
        seen = waiting.popleft()[1]
        if not waiting:
            del self._unread[connection]
        self._read(seen)
        return True

    def _read_late(self, until_ns: int) -> None:
        """What has waited for an answer for too long is read without one."""
        for connection, waiting in list(self._unread.items()):
            while waiting and waiting[0][0] <= until_ns:
                self._read(waiting.popleft()[1])
            if not waiting:
                del self._unread[connection]

    def _read(self, seen: MessageSeen) -> None:
        if self._is_down:
            return
        if seen.connection not in self._link_of:
            if seen.outbound:
                self._force(seen)
            else:
                self._accept(seen.connection)
        link = self._link_of.get(seen.connection)
        if link is not None:
            self._read_last = MessageReceived(link, seen.message, seen.peer.ip)
            self._handle(self._read_last)
