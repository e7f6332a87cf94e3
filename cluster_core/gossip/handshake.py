"""Membership: MEET, handshakes, introductions, FORGET, RESET (R24, R46, R56 to R62, R82)."""

from __future__ import annotations

from sys import intern
from typing import Final

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed, CloseLink, Effect, NodeAdded, NodeRemoved, NodeRenamed
from cluster_core.gossip.failure_detection import mark_failed
from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, MYSELF, NOADDR, PFAIL, ROLES
from cluster_core.gossip.profile import ShardIds
from cluster_core.gossip.view import NODES_MAX, Link, Peer, View
from cluster_core.wire.bus import GossipEntry, Header

HANDSHAKE_FLOOR_MS: Final = 1000
"""Minimum handshake timeout in ms; otherwise the node timeout (R59)."""
BLACKLIST_MS: Final = 60_000
"""Blacklist time of a forgotten node in ms (R61)."""
BLACKLIST_MAX: Final = NODES_MAX


def handshake_timeout_ms(node_timeout_ms: int) -> int:
    """Return the handshake timeout (R59)."""
    return max(node_timeout_ms, HANDSHAKE_FLOOR_MS)


def start_handshake(
    view: View, ip: str, port: int, cport: int, flags: int, now_ms: int
) -> tuple[Peer | None, list[Effect]]:
    """Add a node with unknown id (R56, clusterStartHandshake); None if its address is already in handshake."""
    for peer in view.nodes.values():
        if peer.flags & HANDSHAKE and (peer.ip, peer.port, peer.cport) == (ip, port, cport):
            return None, []
    if len(view.nodes) >= NODES_MAX:
        return None, []
    view.handshakes += 1
    name = view.name_handshake() if view.name_handshake is not None else f"handshake-{view.handshakes:030d}"
    peer = Peer(name, HANDSHAKE | flags, now_ms)
    peer.ip, peer.port, peer.cport = ip, port, cport
    view.nodes[peer.id] = peer
    view.members += 1
    return peer, [NodeAdded(peer.id, Cause.MEET)]


def introduce(view: View, entry: GossipEntry, now_ms: int) -> list[Effect]:
    """Start a handshake with an unknown node gossiped by a known sender (R46)."""
    if entry.flags & NOADDR or is_blacklisted(view, entry.node, now_ms) or len(view.nodes) >= NODES_MAX:
        return []
    peer = Peer(entry.node, entry.flags & ~(MYSELF | HANDSHAKE), now_ms)
    peer.ip, peer.port, peer.cport, peer.pport = entry.ip, entry.port, entry.cport, entry.pport
    _assume_shard(view, peer)
    view.nodes[peer.id] = peer
    view.members += 1
    view.state_stale = True
    return [NodeAdded(peer.id, Cause.NODE_GOSSIPED)]


def _assume_shard(view: View, peer: Peer) -> None:
    """Put a node without known shard id in its own shard, named by its node id (R46)."""
    if view.profile.shard_ids is not ShardIds.NONE:
        peer.shard_id = peer.id


def complete_handshake(view: View, peer: Peer, sender: Peer | None, link: int, header: Header) -> list[Effect]:
    """Complete a handshake: the node gets its id, or is a known node (R57)."""
    if sender is not None or header.sender == view.myself.id:
        effects: list[Effect] = [] if sender is None else move_address(view, sender, peer.ip, header)
        return [*effects, *remove_node(view, peer, Cause.HANDSHAKE_ANSWERED), CloseLink(link)]
    old = peer.id
    peer.id = intern(header.sender)
    view.nodes = {(peer.id if k == old else k): v for k, v in view.nodes.items()}
    view.members += 1
    peer.flags = peer.flags & ~(HANDSHAKE | ROLES) | (header.flags & ROLES or MASTER)
    _assume_shard(view, peer)
    for bound in view.links.values():
        if bound.node == old:
            bound.node = peer.id
    view.state_stale = True
    return [NodeRenamed(old, peer.id)]


def refuse_impostor(view: View, peer: Peer, link: int, now_ms: int) -> list[Effect]:
    """Handle another id at a node's address: the node's address becomes unknown (R58)."""
    peer.flags |= NOADDR
    peer.ip, peer.port, peer.cport, peer.pport = "", 0, 0, 0
    effects: list[Effect] = [Changed(peer.id, Field.ADDRESS, Cause.OTHER_ID_ANSWERS), CloseLink(link)]
    if view.profile.mismatch_is_fail:
        effects += mark_failed(view, peer, now_ms, Cause.OTHER_ID_ANSWERS)
    return effects + drop_link(view, link)


def move_address(view: View, peer: Peer, socket_ip: str, header: Header) -> list[Effect]:
    """Update a node's address from a PING that came on another link (R62, nodeUpdateAddressIfNeeded)."""
    ip = header.myip or socket_ip or peer.ip
    if (peer.ip, peer.port, peer.cport, peer.pport) == (ip, header.port, header.cport, header.pport):
        return []
    return _readdress(view, peer, (ip, header.port, header.cport, header.pport), Cause.ADDRESS_OF_PING)


def move_address_by_gossip(view: View, peer: Peer, entry: GossipEntry) -> list[Effect]:
    """Take the gossiped new address of a node that fails for us but is healthy for the sender (R45)."""
    new = (entry.ip, entry.port, entry.cport, entry.pport)
    if entry.flags & NOADDR or not entry.ip or (peer.ip, peer.port, peer.cport, peer.pport) == new:
        return []
    return _readdress(view, peer, new, Cause.ADDRESS_GOSSIPED)


def _readdress(view: View, peer: Peer, address: tuple[str, int, int, int], cause: Cause) -> list[Effect]:
    peer.ip, peer.port, peer.cport, peer.pport = address
    peer.flags &= ~NOADDR
    effects: list[Effect] = [Changed(peer.id, Field.ADDRESS, cause)]
    if peer.outbound is not None:
        effects.append(CloseLink(peer.outbound))
        effects += drop_link(view, peer.outbound)
    return effects


def expire_handshakes(view: View, now_ms: int) -> list[Effect]:
    """Drop timed-out handshakes (R29, R59)."""
    limit_ms = handshake_timeout_ms(view.node_timeout_ms)
    late = [p for p in view.nodes.values() if p.flags & HANDSHAKE and now_ms - p.ctime_ms > limit_ms]
    return [effect for peer in late for effect in remove_node(view, peer, Cause.HANDSHAKE_EXPIRED)]


def remove_node(view: View, peer: Peer, cause: Cause) -> list[Effect]:
    """Delete *peer* with its slots, marks, reports and links (R24, clusterDelNode)."""
    if peer is view.myself or view.nodes.get(peer.id) is not peer:
        return []
    del view.nodes[peer.id]
    view.members += 1
    view.unclaimed &= ~peer.slots
    for marks in (view.migrating, view.importing):
        for slot in [slot for slot, node in marks.items() if node == peer.id]:
            del marks[slot]
    effects: list[Effect] = [NodeRemoved(peer.id, cause)]
    for other in view.nodes.values():
        other.reports.pop(peer.id, None)
        if other.replicaof == peer.id:
            other.replicaof = ""
            effects.append(Changed(other.id, Field.MASTER, Cause.MASTER_REMOVED))
    for link in (peer.inbound, peer.outbound):
        if link is not None and view.links.pop(link, None) is not None:
            effects.append(CloseLink(link))
    view.state_stale = True
    return effects


def forget(view: View, node_id: str, ttl_ms: int, now_ms: int) -> list[Effect]:
    """Remove a node and blacklist it for *ttl_ms*; never ourselves or our master (R61)."""
    peer = view.nodes.get(node_id)
    if peer is None or peer is view.myself or view.myself.replicaof == node_id:
        return []
    if len(view.blacklist) < BLACKLIST_MAX:
        view.blacklist[node_id] = now_ms + ttl_ms
    return remove_node(view, peer, Cause.FORGOTTEN)


def is_blacklisted(view: View, node_id: str, now_ms: int) -> bool:
    """Return whether a forgotten node is blacklisted (R61)."""
    until_ms = view.blacklist.get(node_id)
    if until_ms is None:
        return False
    if until_ms > now_ms:
        return True
    del view.blacklist[node_id]
    return False


def reset(view: View, new_id: str) -> list[Effect]:
    """Drop all nodes and slots; with a new id also all epochs (R82)."""
    effects: list[Effect] = []
    for peer in [peer for peer in view.nodes.values() if peer is not view.myself]:
        effects += remove_node(view, peer, Cause.RESET_DONE)
    myself = view.myself
    myself.slots, myself.replicaof, view.unclaimed = 0, "", 0
    view.set_role(myself, MASTER)
    view.blacklist.clear()
    view.migrating.clear()
    view.importing.clear()
    if new_id:
        view.current_epoch = view.last_vote_epoch = myself.config_epoch = 0
        effects.append(NodeRenamed(myself.id, new_id))
        myself.id = new_id
        view.nodes = {new_id: myself}
    return [*effects, Changed(myself.id, Field.ROLE, Cause.RESET_DONE)]


def restart(view: View, now_ms: int) -> list[Effect]:
    """Restart from nodes.conf: drop links, pings, reports and PFAIL; FAIL counts from now (R129)."""
    effects: list[Effect] = []
    view.links.clear()
    view.blacklist.clear()
    view.unclaimed = 0
    for peer in [p for p in view.nodes.values() if p.flags & HANDSHAKE]:
        effects += expire_handshakes(view, peer.ctime_ms + (1 << 62))
    for peer in view.nodes.values():
        peer.inbound = peer.outbound = None
        peer.ping_sent_ms = peer.pong_received_ms = peer.data_received_ms = 0
        peer.reports.clear()
        if peer.flags & PFAIL:
            peer.flags &= ~PFAIL
            effects.append(Changed(peer.id, Field.PFAIL, Cause.SAVED_FLAG))
        if peer.flags & FAIL:
            peer.fail_time_ms = now_ms
    view.first_state_ms, view.ok, view.state_stale = None, False, True
    return effects


def bind_link(view: View, link_id: int, link: Link, peer: Peer) -> list[Effect]:
    """Bind a link to its node, and close the node's previous link in this direction (R26)."""
    link.node = peer.id
    effects: list[Effect] = []
    old = peer.inbound if link.inbound else peer.outbound
    if link.inbound:
        peer.inbound = link_id
    else:
        peer.outbound = link_id
    if old is not None and old != link_id and old in view.links:
        effects.append(CloseLink(old))
        view.links[old].node = None
    return effects


def drop_link(view: View, link_id: int) -> list[Effect]:
    """Remove a closed link."""
    link = view.links.pop(link_id, None)
    peer = view.nodes.get(link.node) if link is not None and link.node else None
    if peer is not None:
        if peer.outbound == link_id:
            peer.outbound = None
        if peer.inbound == link_id:
            peer.inbound = None
    return []
