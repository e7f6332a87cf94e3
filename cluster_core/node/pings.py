"""PING, PONG and MEET: gossip, extensions and receivers (R16, R33, R38 to R41, clusterSendPing)."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Final

from cluster_core.gossip.flags import (
    EXTENSIONS_SUPPORTED,
    HANDSHAKE,
    MASTER,
    MYSELF,
    NOADDR,
    PFAIL,
)
from cluster_core.gossip.profile import ExtensionFlag, ExtensionReaders, ShardIds
from cluster_core.gossip.view import Peer, View
from cluster_core.node.state import NodeState
from cluster_core.wire.bus import (
    GOSSIP_BYTES,
    GOSSIP_TYPES,
    HEADER_BYTES,
    NODE_ID_BYTES,
    SLOT_BITMAP_BYTES,
    Empty,
    Extension,
    Fail,
    Gossip,
    GossipEntry,
    Header,
    Message,
    MessageFlag,
    MessageType,
    Update,
)
from cluster_core.wire.bus_message import (
    HOSTNAME,
    HUMAN_NODENAME,
    RECORD_HEADER_BYTES,
    forgotten_node_extension,
    shard_id_extension,
    text_extension,
)

FLAG_BITS: Final = 0xFFFF
UPDATE_BYTES: Final = 8 + NODE_ID_BYTES + SLOT_BITMAP_BYTES


def header_of(
    state: NodeState, kind: int, body_bytes: int = 0, count: int = 0, extensions: int = 0, *, force: bool = False
) -> Header:
    """Return our current header for a body of *body_bytes* (R3); *force* requests votes against a healthy master (R6)."""
    view = state.view
    myself = view.myself
    holder = myself if myself.flags & MASTER else view.nodes.get(myself.replicaof, myself)
    facts = (
        view.current_epoch,
        holder.config_epoch,
        state.offset,
        myself.flags,
        myself.replicaof,
        view.ok,
        view.mf_end_ms,
        myself.id,
    )
    if facts != state.header_facts or holder.slots is not state.slots_seen:
        if holder.slots is not state.slots_seen:
            state.slots_seen = holder.slots
            state.slots_raw = holder.slots.to_bytes(SLOT_BITMAP_BYTES, "little")
        state.header_facts = facts
        state.headers.clear()
    key = (kind, body_bytes, count, extensions, force)
    header = state.headers.get(key)
    if header is None:
        header = state.headers[key] = _build(state, holder, kind, body_bytes, count, extensions, force=force)
    return header


def _build(
    state: NodeState, holder: Peer, kind: int, body_bytes: int, count: int, extensions: int, *, force: bool
) -> Header:
    view, settings = state.view, state.settings
    myself = view.myself
    return Header(
        totlen=HEADER_BYTES + body_bytes,
        port=settings.port,
        type=int(kind),
        count=count,
        current_epoch=view.current_epoch,
        config_epoch=holder.config_epoch,
        offset=state.offset,
        sender=myself.id,
        myslots=state.slots_raw,
        replicaof="" if myself.flags & MASTER else myself.replicaof,
        extensions=extensions,
        cport=settings.bus_port,
        flags=myself.flags & FLAG_BITS,
        state=0 if view.ok else 1,
        mflags=bytes((message_flags(state, kind, extensions, force=force), 0, 0)),
    )


def message_flags(state: NodeState, kind: int, extensions: int, *, force: bool) -> int:
    """Return mflags[0]: PAUSED in a manual failover, FORCEACK, and EXT_DATA by profile (R6)."""
    flags = int(MessageFlag.FORCEACK) if force else 0
    if state.view.mf_end_ms and state.view.myself.flags & MASTER:
        flags |= MessageFlag.PAUSED
    when = state.view.profile.extension_flag
    if extensions or when is ExtensionFlag.ALWAYS or (when is ExtensionFlag.GOSSIP and kind in GOSSIP_TYPES):
        flags |= MessageFlag.EXT_DATA
    return int(flags)


def bare_message(state: NodeState, kind: int, *, force: bool = False) -> Message:
    """Return an AUTH_REQUEST, AUTH_ACK or MFSTART (R13)."""
    return Message(header_of(state, kind, force=force), Empty())


def fail_message(state: NodeState, node_id: str) -> Message:
    """Return a FAIL message about a node (R10)."""
    return Message(header_of(state, MessageType.FAIL, NODE_ID_BYTES), Fail(node_id))


def update_message(state: NodeState, owner: Peer) -> Message:
    """Return an UPDATE about *owner* with the slots it still claims (R77)."""
    slots = (owner.slots & ~state.view.unclaimed).to_bytes(SLOT_BITMAP_BYTES, "little")
    return Message(header_of(state, MessageType.UPDATE, UPDATE_BYTES), Update(owner.config_epoch, owner.id, slots))


GOSSIP_MIN: Final = 3
WANTED_CACHED: Final = 4096
SPARE_DRAWS: Final = 3
"""Draws made at once beyond the wanted entries; usually no more are needed."""
PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
MEET: Final = int(MessageType.MEET)
_UNFIT: Final = HANDSHAKE | NOADDR
_new_tuple: Final = tuple.__new__
"""Creates an entry in a third of the constructor's time."""


@lru_cache(maxsize=WANTED_CACHED)
def entries_wanted(nodes: int) -> int:
    """Return the gossip entries of a message for a table of *nodes* nodes (R38).

    >>> entries_wanted(6), entries_wanted(120), entries_wanted(2)
    (3, 12, 0)
    """
    return max(0, min(max(nodes // 10, GOSSIP_MIN), nodes - 2))


def build_ping(state: NodeState, kind: int, receiver: Peer | None) -> Message:
    """Return a PING, PONG or MEET to *receiver* (None: unknown) (R16, R38 to R41, R172)."""
    entries = choose_entries(state, receiver)
    if state.pfail_count:
        entries += pfail_entries(state)
    count = len(entries)
    extensions, size = extensions_for(state, kind, receiver)
    header = header_of(state, kind, size + count * GOSSIP_BYTES, count, len(extensions))
    return Message(header, Gossip(tuple(entries), extensions))


def choose_entries(state: NodeState, receiver: Peer | None) -> list[GossipEntry]:
    """Draw healthy nodes for gossip with replacement, so there may be fewer than wanted (R38, R39)."""
    table = state.peers()
    view = state.view
    count = len(table)
    wanted = entries_wanted(count)
    skipped = view.myself.place
    also_skipped = receiver.place if receiver is not None and not view.profile.receiver_gossiped else skipped
    draws = view.profile.gossip_draws * wanted
    if view.entries_version != view.version:
        view.entries, view.entries_version = [None] * count, view.version
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
    entries = view.entries
    return [entries[place] or cached_entry(view, table[place]) for place in islice(places, wanted)]


def _choose_fit(state: NodeState, wanted: int, draws: int, seen: set[int]) -> list[GossipEntry]:
    """Draw if some nodes are excluded; each excluded draw shortens the search, as in the server."""
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
            chosen.append(view.entries[place] or cached_entry(view, peer))
    return chosen


def note_fitness(state: NodeState) -> None:
    """Record whether all nodes are eligible for gossip while the view is unchanged (R39)."""
    view = state.view
    unfit = HANDSHAKE | NOADDR | PFAIL
    for peer in state.peers():
        if peer.flags & unfit or (peer.outbound is None and not peer.slots and peer is not view.myself):
            state.fit_version = -1
            return
    state.fit_version = view.version


def pfail_entries(state: NodeState) -> list[GossipEntry]:
    """Return every PFAIL node, up to the number counted by the last cron (R40)."""
    chosen: list[GossipEntry] = []
    for peer in state.peers():
        if peer.flags & PFAIL and not peer.flags & _UNFIT:
            chosen.append(entry_of(peer))
            if len(chosen) >= state.pfail_count:
                break
    return chosen


def cached_entry(view: View, peer: Peer) -> GossipEntry:
    """Return the cached `entry_of`."""
    entry = view.entries[peer.place] = entry_of(peer)
    return entry


def entry_of(peer: Peer) -> GossipEntry:
    """Return a gossip entry: times in whole seconds, current flags (R9, clusterSetGossipEntry)."""
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
    """Return the extensions for a supporting receiver, and their bytes, by profile (R15, R16, writePingExt)."""
    view, settings = state.view, state.settings
    profile = view.profile
    if profile.shard_ids is ShardIds.NONE:
        has_name = settings.hostname and profile.host_names
        return _sized((text_extension(HOSTNAME, settings.hostname),) if has_name else ())
    reads = receiver is not None and receiver.flags & EXTENSIONS_SUPPORTED
    if not reads and not reaches_unknown(profile.extension_readers, kind):
        return (), 0
    if not view.blacklist and state.extensions_of == view.myself.shard_id:
        return state.extensions
    made: list[Extension] = []
    if settings.hostname:
        made.append(text_extension(HOSTNAME, settings.hostname))
    if settings.nodename:
        made.append(text_extension(HUMAN_NODENAME, settings.nodename))
    for node, until_ms in view.blacklist.items():
        if until_ms > state.now_ms:
            made.append(forgotten_node_extension(node, (until_ms - state.now_ms) // 1000))
    made.append(shard_id_extension(view.myself.shard_id))
    state.extensions, state.extensions_of = _sized(tuple(made)), "" if view.blacklist else view.myself.shard_id
    return state.extensions


def reaches_unknown(readers: ExtensionReaders, kind: int) -> bool:
    """Return whether a message of *kind* has extensions for an unknown receiver (R16)."""
    return readers is ExtensionReaders.EVERYBODY or (readers is ExtensionReaders.KNOWN_AND_ASKERS and kind == PONG)


def _sized(extensions: tuple[Extension, ...]) -> tuple[tuple[Extension, ...], int]:
    return extensions, sum(RECORD_HEADER_BYTES + len(extension.data) for extension in extensions)


def send_ping(state: NodeState, peer: Peer, kind: int = PING) -> None:
    """Send a PING or MEET on our link to *peer* and mark a PING as pending (R33)."""
    link = peer.outbound
    if link is None:
        return
    if kind == PING:
        state.view.note_ping(peer, state.now_ms)
    elif kind == MEET:
        peer.meet_sent_ms = state.now_ms
    state.send(link, build_ping(state, kind, peer))


def send_on_link(state: NodeState, link_id: int, kind: int) -> None:
    """Send a PING or PONG on any link (R41, R98)."""
    link = state.view.links.get(link_id)
    if link is None:
        return
    peer = state.view.nodes.get(link.node) if link.node is not None else None
    if kind == PING and not link.inbound and peer is not None:
        state.view.note_ping(peer, state.now_ms)
    state.send(link_id, build_ping(state, kind, peer))


def broadcast_pong(state: NodeState, *, siblings: bool = False) -> None:
    """Broadcast our state to all nodes, or to our master's other replicas (R41, clusterBroadcastPong)."""
    master = state.view.myself.replicaof
    for peer in state.peers():
        if peer.outbound is None or peer.flags & (MYSELF | HANDSHAKE):
            continue
        if siblings and (peer.flags & MASTER or not master or peer.replicaof != master):
            continue
        state.send(peer.outbound, build_ping(state, PONG, peer))


def broadcast(state: NodeState, message: Message) -> None:
    """Send a message to every node with a link and an id (clusterBroadcastMessage)."""
    for peer in state.peers():
        if peer.outbound is not None and not peer.flags & (MYSELF | HANDSHAKE):
            state.send(peer.outbound, message)
