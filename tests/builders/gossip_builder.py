"""Small clusters for tests of the gossip machine: messages with defaults, and a machine that already knows its peers."""

from __future__ import annotations

from collections.abc import Iterable

from cluster_core.gossip.events import Effect, LinkAccepted, LinkConnected, MessageReceived
from cluster_core.gossip.flags import MASTER, MYSELF, REPLICA
from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.profile import REDIS_7_0, Profile
from cluster_core.gossip.view import Peer
from cluster_core.slots.slot_set import SlotSet, slot_bits
from cluster_core.wire.bus import Fail, Gossip, GossipEntry, Header, Message, MessageType, Update

TIMEOUT_MS = 2000
ME, A, B, C, D = (letter * 40 for letter in "eabcd")
PORTS = {ME: 7000, A: 7001, B: 7002, C: 7003, D: 7004}
START_MS = 1_000_000


def wire(text: str) -> bytes:
    return SlotSet.parse(text).to_wire()


def header(sender: str, kind: int = MessageType.PING, *, slots: str = "", **fields: object) -> Header:
    """A header of *sender*; it is a master unless ``replicaof`` is given."""
    role = REPLICA if fields.get("replicaof") else MASTER
    port = PORTS.get(sender, 7999)
    defaults = {"flags": role | MYSELF, "port": port, "cport": port + 10000, "myslots": wire(slots)}
    return Header(type=int(kind), sender=sender, **{**defaults, **fields})  # type: ignore[arg-type]


def ping(
    sender: str, *entries: GossipEntry, kind: int = MessageType.PING, slots: str = "", **fields: object
) -> Message:
    return Message(header(sender, kind, slots=slots, count=len(entries), **fields), Gossip(tuple(entries)))


def entry(node: str, flags: int = MASTER, pong_received_s: int = 0) -> GossipEntry:
    port = PORTS.get(node, 7999)
    return GossipEntry(node, 0, pong_received_s, "127.0.0.1", port, port + 10000, flags)


def fail(sender: str, about: str) -> Message:
    return Message(header(sender, MessageType.FAIL), Fail(about))


def update(sender: str, about: str, epoch: int, slots: str) -> Message:
    return Message(header(sender, MessageType.UPDATE), Update(epoch, about, wire(slots)))


class Bench:
    """A machine that knows peers with both links up: link 10·i is outbound, 10·i+1 inbound, in the order of the ids."""

    def __init__(
        self,
        peers: Iterable[str] = (A, B, C),
        *,
        profile: Profile = REDIS_7_0,
        slots: dict[str, str] | None = None,
        epochs: dict[str, int] | None = None,
    ) -> None:
        self.now_ms = START_MS
        self.node = ClusterNode(ME, profile, TIMEOUT_MS, START_MS)
        self.view = self.node.view
        self.view.myself.ip, self.view.myself.port, self.view.myself.cport = "127.0.0.1", 7000, 17000
        self.links: dict[str, int] = {}
        for index, peer_id in enumerate(peers, start=1):
            self.links[peer_id] = 10 * index
            peer = self.view.nodes[peer_id] = Peer(peer_id, MASTER, START_MS)
            peer.ip, peer.port, peer.cport = "127.0.0.1", PORTS[peer_id], PORTS[peer_id] + 10000
            peer.pong_received_ms = peer.data_received_ms = START_MS
            self.node.handle(LinkConnected(10 * index, peer_id), START_MS)
            self.node.handle(LinkAccepted(10 * index + 1), START_MS)
            link = self.view.links[10 * index + 1]
            link.node, peer.inbound = peer_id, 10 * index + 1
        for node_id, text in (slots or {}).items():
            self.view.nodes[node_id].slots = slot_bits(text)
        for node_id, epoch in (epochs or {}).items():
            self.view.nodes[node_id].config_epoch = epoch
            self.view.current_epoch = max(self.view.current_epoch, epoch)

    def hear(self, message: Message, *, outbound: bool = False, link: int | None = None) -> list[Effect]:
        """Give the machine a message on the sender's link."""
        sender = message.header.sender if isinstance(message.header, Header) else ""
        number = link if link is not None else self.links.get(sender, 990) + (not outbound)
        return self.node.handle(MessageReceived(number, message, "127.0.0.1"), self.now_ms)

    def pong(self, sender: str, **fields: object) -> list[Effect]:
        return self.hear(ping(sender, kind=MessageType.PONG, **fields), outbound=True)  # type: ignore[arg-type]

    def peer(self, node_id: str) -> Peer:
        return self.view.nodes[node_id]
