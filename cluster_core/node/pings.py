"""PING, PONG and MEET: what they say of others, and to whom they go (R16, R33, R38 to R41, clusterSendPing)."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Final

from cluster_core.gossip.flags import EXTENSIONS_SUPPORTED, HANDSHAKE, MASTER, MYSELF, NOADDR, PFAIL
from cluster_core.gossip.profile import ExtensionReaders, ShardIds
from cluster_core.gossip.view import Peer, View
from cluster_core.node.headers import FLAG_BITS, header_of
from cluster_core.node.state import NodeState
from cluster_core.wire.bus import GOSSIP_BYTES, Extension, Gossip, GossipEntry, Message, MessageType
from cluster_core.wire.bus_extensions import (
    CLIENT_IPV4,
    CLIENT_IPV6,
    HOSTNAME,
    HUMAN_NODENAME,
    RECORD_HEADER_BYTES,
    forgotten_node_extension,
    shard_id_extension,
    text_extension,
)

GOSSIP_MIN: Final = 3
WANTED_CACHED: Final = 4096
SPARE_DRAWS: Final = 3
"""Draws that are made at once beyond those that are wanted: most often no more are needed."""
PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
MEET: Final = int(MessageType.MEET)
_UNFIT: Final = HANDSHAKE | NOADDR
_new_tuple: Final = tuple.__new__
"""Makes an entry in a third of the time that its class takes to name the fields."""


@lru_cache(maxsize=WANTED_CACHED)
def entries_wanted(nodes: int, percent: int = 10) -> int:
    """How many nodes to gossip about in a table of *nodes* entries (R38).

    >>> entries_wanted(6), entries_wanted(120), entries_wanted(2)
    (3, 12, 0)
    """
    return max(0, min(max(nodes * percent // 100, GOSSIP_MIN), nodes - 2))


def build_ping(state: NodeState, kind: int, receiver: Peer | None) -> Message:
    """A PING, PONG or MEET to *receiver*, None if it is not known who that is (R16, R38 to R41)."""
    entries = choose_entries(state, receiver)
    if state.doubts:
        entries += doubted_entries(state)
    count = len(entries)
    extensions, size = extensions_for(state, kind, receiver)
    header = header_of(state, kind, size + count * GOSSIP_BYTES, count, len(extensions))
    return Message(header, Gossip(tuple(entries), extensions))


def choose_entries(state: NodeState, receiver: Peer | None) -> list[GossipEntry]:
    """Draw healthy nodes to gossip about (R38, R39): with replacement, so now and then there are fewer than wanted."""
    table = state.peers()
    view = state.view
    count = len(table)
    wanted = entries_wanted(count, state.settings.gossip_percent)
    skipped = view.myself.place
    also_skipped = receiver.place if receiver is not None and not view.profile.receiver_gossiped else skipped
    draws = view.profile.gossip_draws * wanted
    if view.said_version != view.version:
        view.said, view.said_version = [None] * count, view.version
    if state.fit_version != view.version:
        return _choose_fit(state, wanted, draws, {skipped, also_skipped})
    draw = state.rng.random
    drawn = min(wanted + SPARE_DRAWS, draws)
    places = dict.fromkeys([int(draw() * count) for _ in range(drawn)])
    places.pop(skipped, None)
    places.pop(also_skipped, None)
    while len(places) < wanted and drawn < draws:
        drawn += 1
        place = int(draw() * count)
        if place != skipped and place != also_skipped:
            places[place] = None
    said = view.said
    return [said[place] or say(view, table[place]) for place in islice(places, wanted)]


def _choose_fit(state: NodeState, wanted: int, draws: int, seen: set[int]) -> list[GossipEntry]:
    """The same where some nodes must be passed over, as in the servers each of them makes the search end earlier."""
    table, view, draw = state.table, state.view, state.rng.random
    count = len(table)
    fresh = count - 2
    chosen: list[GossipEntry] = []
    for _ in range(draws):
        if fresh <= 0 or len(chosen) >= wanted:
            break
        place = int(draw() * count)
        peer = table[place]
        if place in seen or peer.flags & PFAIL:
            continue
        fresh -= 1
        if not peer.flags & _UNFIT and (peer.outbound is not None or peer.slots):
            seen.add(place)
            chosen.append(view.said[place] or say(view, peer))
    return chosen


def note_fitness(state: NodeState) -> None:
    """See whether all nodes can be gossiped about: as long as the view stays as it is, nobody has to be looked at (R39)."""
    view = state.view
    doubtful = HANDSHAKE | NOADDR | PFAIL
    for peer in state.peers():
        if peer.flags & doubtful or (peer.outbound is None and not peer.slots and peer is not view.myself):
            state.fit_version = -1
            return
    state.fit_version = view.version


def doubted_entries(state: NodeState) -> list[GossipEntry]:
    """Every node that we doubt, as many as the last cron counted (R40)."""
    chosen: list[GossipEntry] = []
    for peer in state.peers():
        if peer.flags & PFAIL and not peer.flags & _UNFIT:
            chosen.append(entry_of(peer))
            if len(chosen) >= state.doubts:
                break
    return chosen


def say(view: View, peer: Peer) -> GossipEntry:
    """`entry_of`, kept as long as it holds."""
    entry = view.said[peer.place] = entry_of(peer)
    return entry


def entry_of(peer: Peer) -> GossipEntry:
    """What we say about a node: times in whole seconds, flags as they are (R9, clusterSetGossipEntry)."""
    return _new_tuple(
        GossipEntry,
        (
            peer.id,
            peer.ping_sent_ms // 1000,
            peer.pong_received_ms // 1000,
            peer.ip,
            peer.port,
            peer.cport,
            peer.flags & FLAG_BITS,
            peer.pport,
            0,
        ),
    )


def extensions_for(state: NodeState, kind: int, receiver: Peer | None) -> tuple[tuple[Extension, ...], int]:
    """What is said behind the gossip, and its bytes (R15, R16, writePingExt): to those who read it, by the profile; Redis 7.0
    tells its host name to anyone.
    """
    view, settings = state.view, state.settings
    profile = view.profile
    if profile.shard_ids is ShardIds.NONE:
        has_name = settings.hostname and profile.host_names
        return _sized((text_extension(HOSTNAME, settings.hostname),) if has_name else ())
    reads = receiver is not None and receiver.flags & EXTENSIONS_SUPPORTED
    if not reads and not is_told_anyway(profile.extension_readers, kind):
        return (), 0
    if not view.blacklist and state.extensions_of == view.myself.shard_id:
        return state.extensions
    made: list[Extension] = []
    if settings.hostname:
        made.append(text_extension(HOSTNAME, settings.hostname))
    if settings.nodename:
        made.append(text_extension(HUMAN_NODENAME, settings.nodename))
    if profile.client_addresses:
        told = zip((CLIENT_IPV4, CLIENT_IPV6), (settings.client_ipv4, settings.client_ipv6), strict=True)
        made += [text_extension(kind, ip) for kind, ip in told if ip]
    for node, until_ms in view.blacklist.items():
        if until_ms > state.now_ms:
            made.append(forgotten_node_extension(node, (until_ms - state.now_ms) // 1000))
    made.append(shard_id_extension(view.myself.shard_id))
    state.extensions, state.extensions_of = _sized(tuple(made)), "" if view.blacklist else view.myself.shard_id
    return state.extensions


def is_told_anyway(readers: ExtensionReaders, kind: int) -> bool:
    """Whether a message of *kind* has extensions for a receiver of which nothing is known (R16)."""
    return readers is ExtensionReaders.EVERYBODY or (readers is ExtensionReaders.KNOWN_AND_ASKERS and kind == PONG)


def _sized(extensions: tuple[Extension, ...]) -> tuple[tuple[Extension, ...], int]:
    return extensions, sum(RECORD_HEADER_BYTES + len(extension.data) for extension in extensions)


def send_ping(state: NodeState, peer: Peer, kind: int = PING) -> None:
    """Send a PING or MEET on our own link to *peer*; a PING is pending from now on (R33)."""
    link = peer.outbound
    if link is None:
        return
    if kind == PING:
        state.view.note_ping(peer, state.now_ms)
    elif kind == MEET:
        peer.meet_sent_ms = state.now_ms
    state.send(link, build_ping(state, kind, peer))


def send_on_link(state: NodeState, link_id: int, kind: int) -> None:
    """Send a PING or PONG on any link, bound or not (R41, R98)."""
    link = state.view.links.get(link_id)
    if link is None:
        return
    peer = state.view.nodes.get(link.node) if link.node is not None else None
    if kind == PING and not link.inbound and peer is not None:
        state.view.note_ping(peer, state.now_ms)
    state.send(link_id, build_ping(state, kind, peer))


def broadcast_pong(state: NodeState, *, siblings: bool = False) -> None:
    """Tell everybody, or the other replicas of our master, what we are now (R41, clusterBroadcastPong)."""
    master = state.view.myself.replicaof
    for peer in state.peers():
        if peer.outbound is None or peer.flags & (MYSELF | HANDSHAKE):
            continue
        if siblings and (peer.flags & MASTER or not master or peer.replicaof != master):
            continue
        state.send(peer.outbound, build_ping(state, PONG, peer))


def broadcast(state: NodeState, message: Message) -> None:
    """Send one message to every node that has a link and a name (clusterBroadcastMessage)."""
    for peer in state.peers():
        if peer.outbound is not None and not peer.flags & (MYSELF | HANDSHAKE):
            state.send(peer.outbound, message)
