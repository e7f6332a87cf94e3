"""Correct a replayed view by the observer's own output: gossip flags, UPDATEs, forgotten nodes (R9, R40, R61, R77)."""

from __future__ import annotations

from collections.abc import Container

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed, Effect, NodeAdded
from cluster_core.gossip.failure_detection import down_reason
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MYSELF, NOADDR, NOFAILOVER, PFAIL, REPLICA, ROLES
from cluster_core.gossip.gossip_section import is_node_id
from cluster_core.gossip.handshake import remove_node
from cluster_core.gossip.own_claims import assign_slots
from cluster_core.gossip.roles import become_master, detach
from cluster_core.gossip.view import Peer, View, coverage_of, slot_bits
from cluster_core.replay.evidence import NodePoll, PolledNode
from cluster_core.replay.recorder import Correction
from cluster_core.wire.bus import GossipEntry, Update


def health_word(flags: int) -> str:
    """Return a node's health as text."""
    return "fail" if flags & FAIL else "fail?" if flags & PFAIL else "ok"


def role_word(flags: int) -> str:
    """Return a node's role as text."""
    return "slave" if flags & REPLICA else "master"


def differs(peer: Peer, entry: GossipEntry) -> bool:
    """Return whether a sent gossip entry has another role or health than the view."""
    return bool((peer.flags ^ entry.flags) & (ROLES | FAILURES))


def follow_entry(view: View, peer: Peer, entry: GossipEntry, now_ms: int) -> tuple[list[Effect], list[Correction]]:
    """Set role and health of *peer* from the observer's gossip."""
    effects: list[Effect] = []
    corrections: list[Correction] = []
    if (peer.flags ^ entry.flags) & FAILURES:
        corrections.append(Correction(peer.id, Field.HEALTH, health_word(peer.flags), health_word(entry.flags)))
        effects += set_health(view, peer, entry.flags & FAILURES, now_ms, Cause.OWN_GOSSIP)
    if (peer.flags ^ entry.flags) & ROLES and entry.flags & ROLES:
        corrections.append(Correction(peer.id, Field.ROLE, role_word(peer.flags), role_word(entry.flags)))
        if entry.flags & REPLICA:
            view.set_role(peer, REPLICA)
            effects.append(Changed(peer.id, Field.ROLE, Cause.OWN_GOSSIP))
        else:
            effects += become_master(view, peer, Cause.OWN_GOSSIP)
    return effects, corrections


def set_health(view: View, peer: Peer, bits: int, now_ms: int, cause: Cause) -> list[Effect]:
    """Set the PFAIL and FAIL bits of *peer*."""
    if peer.flags & FAILURES == bits or peer is view.myself:
        return []
    if bits & FAIL and not peer.flags & FAIL:
        peer.fail_time_ms = now_ms
    peer.flags = peer.flags & ~FAILURES | bits
    view.state_stale = True
    return [Changed(peer.id, Field.HEALTH, cause)]


def meet_by_gossip(view: View, entry: GossipEntry, now_ms: int) -> tuple[list[Effect], list[Correction]]:
    """Add a node that the observer gossips and the view lacks."""
    if not is_node_id(entry.node):
        return [], []
    view.blacklist.pop(entry.node, None)
    peer = add_peer(view, entry.node, entry.flags & ~(MYSELF | HANDSHAKE), now_ms)
    peer.ip, peer.port, peer.cport, peer.pport = entry.ip, entry.port, entry.cport, entry.pport
    return [NodeAdded(peer.id, Cause.OWN_GOSSIP)], [Correction(peer.id, Field.KNOWN, "no", "yes")]


def add_peer(view: View, node_id: str, flags: int, now_ms: int) -> Peer:
    """Add a node to the table on evidence outside the machine's rules."""
    peer = Peer(node_id, flags, now_ms)
    view.nodes[node_id] = peer
    view.state_stale = True
    return peer


def follow_update(view: View, update: Update, moved: int = 0) -> tuple[list[Effect], list[Correction]]:
    """Apply an UPDATE of the observer as its view of the owner (R77).

    *moved*: slots the owner got at about its last header; if the UPDATE omits them, the header came after the move.
    """
    owner = view.nodes.get(update.node)
    if owner is None:
        return [], []
    effects: list[Effect] = []
    corrections: list[Correction] = []
    if owner.config_epoch != update.config_epoch:
        corrections.append(Correction(owner.id, Field.CONFIG_EPOCH, str(owner.config_epoch), str(update.config_epoch)))
        owner.config_epoch = update.config_epoch
        effects.append(Changed(owner.id, Field.CONFIG_EPOCH, Cause.OWN_UPDATE))
    listed = slot_bits(update.myslots)
    view.unclaimed |= owner.slots & moved & ~listed
    if owner.slots & ~view.unclaimed != listed:
        corrections.append(
            Correction(owner.id, Field.SLOTS, f"{owner.slots.bit_count()} slots", f"{listed.bit_count()} slots")
        )
        effects += assign_slots(view, owner, listed | owner.slots & view.unclaimed)
    return effects, corrections


def follow_state(view: View, unclaimed: int) -> tuple[list[Effect], list[Correction]]:
    """Apply cluster state FAIL despite healthy owners: the *unclaimed* slots were deleted here (CLUSTER DELSLOTS; R71, R107)."""
    down = down_reason(coverage_of(view), full_coverage_required=view.full_coverage_required)
    if down or not unclaimed:
        return [], []
    effects: list[Effect] = []
    corrections: list[Correction] = []
    for peer in view.peers():
        lost = peer.slots & unclaimed
        if lost:
            peer.slots ^= lost
            effects.append(Changed(peer.id, Field.SLOTS, Cause.OWN_STATE))
            corrections.append(Correction(peer.id, Field.SLOTS, f"{lost.bit_count()} unclaimed", "none of them"))
    view.unclaimed = 0
    view.state_stale = True
    return effects, corrections


def follow_poll(
    view: View, poll: NodePoll, now_ms: int, fresh: Container[str] = ()
) -> tuple[list[Effect], list[Correction]]:
    """Set the view to a CLUSTER NODES reply, which may be older than changes of *fresh* nodes."""
    effects: list[Effect] = []
    corrections: list[Correction] = []
    polled = {node.node_id: node for node in poll.nodes if not node.flags & HANDSHAKE and node.node_id not in fresh}
    for node_id, node in polled.items():
        if node_id not in view.nodes:
            add_peer(view, node_id, node.flags & ~MYSELF, now_ms)
            corrections.append(Correction(node_id, Field.KNOWN, "no", "yes"))
            effects.append(NodeAdded(node_id, Cause.POLL))
    for peer in list(view.nodes.values()):
        known = {node.node_id for node in poll.nodes}
        if peer.id not in known and peer is not view.myself and not peer.flags & HANDSHAKE and peer.id not in fresh:
            corrections.append(Correction(peer.id, Field.KNOWN, "yes", "no"))
            effects += remove_node(view, peer, Cause.POLL)
    for node in polled.values():
        _follow_line(view, view.nodes[node.node_id], node, now_ms, effects, corrections)
    for node in polled.values():
        peer = view.nodes[node.node_id]
        if peer.slots != node.slots:
            corrections.append(
                Correction(peer.id, Field.SLOTS, str(peer.slots.bit_count()), str(node.slots.bit_count()))
            )
            effects += assign_slots(view, peer, node.slots)
    return effects, corrections


def _follow_line(
    view: View, peer: Peer, node: PolledNode, now_ms: int, effects: list[Effect], corrections: list[Correction]
) -> None:
    if (peer.flags ^ node.flags) & FAILURES:
        corrections.append(Correction(peer.id, Field.HEALTH, health_word(peer.flags), health_word(node.flags)))
        effects += set_health(view, peer, node.flags & FAILURES, now_ms, Cause.POLL)
    if (peer.flags ^ node.flags) & (ROLES | NOADDR):
        corrections.append(Correction(peer.id, Field.ROLE, role_word(peer.flags), role_word(node.flags)))
        peer.flags = peer.flags & ~(ROLES | NOADDR) | node.flags & (ROLES | NOADDR)
        effects.append(Changed(peer.id, Field.ROLE, Cause.POLL))
    if (peer.flags ^ node.flags) & NOFAILOVER:
        peer.flags ^= NOFAILOVER
        effects.append(Changed(peer.id, Field.NOFAILOVER, Cause.POLL))
    if peer.replicaof != node.master_id:
        corrections.append(Correction(peer.id, Field.MASTER, peer.replicaof, node.master_id))
        detach(view, peer)
        peer.replicaof = node.master_id
        effects.append(Changed(peer.id, Field.MASTER, Cause.POLL))
    if not node.flags & REPLICA and peer.config_epoch != node.config_epoch:
        corrections.append(Correction(peer.id, Field.CONFIG_EPOCH, str(peer.config_epoch), str(node.config_epoch)))
        peer.config_epoch = node.config_epoch
        effects.append(Changed(peer.id, Field.CONFIG_EPOCH, Cause.POLL))
    if node.ip and (peer.ip, peer.port, peer.cport) != (node.ip, node.port, node.cport):
        peer.ip, peer.port, peer.cport = node.ip, node.port, node.cport
        effects.append(Changed(peer.id, Field.ADDRESS, Cause.POLL))
    if peer.hostname != node.hostname:
        peer.hostname = node.hostname
        effects.append(Changed(peer.id, Field.HOSTNAME, Cause.POLL))
