"""Gossip about third nodes, and extensions of the sender (R15, R42 to R47, R61, R65)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, Field, IgnoredReason
from cluster_core.gossip.events import Changed, Effect, Ignored
from cluster_core.gossip.failure_detection import live_reports, may_report, take_report, withdraw_report
from cluster_core.gossip.flags import FAILURES, HANDSHAKE, MEET
from cluster_core.gossip.handshake import forget, introduce, move_address_by_gossip
from cluster_core.gossip.profile import ShardIds
from cluster_core.gossip.roles import learn_shard_id
from cluster_core.gossip.view import Peer, View
from cluster_core.wire.bus import Gossip, GossipEntry
from cluster_core.wire.bus_message import (
    FORGOTTEN_NODE,
    HOSTNAME,
    HUMAN_NODENAME,
    SHARD_ID,
    ForgottenNode,
)

CLOCK_SLACK_MS: Final = 500
"""Gossiped pong times may be ahead of our clock by this much (R44)."""
NODE: Final = 0
PONG_RECEIVED: Final = 2
FLAGS: Final = 6
"""Index of an entry's fields; access by index is twice as fast as by name."""
FORGET_TTL_S_MAX: Final = 86_400
ID_CHARACTERS: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")
NODE_ID_LENGTH: Final = 40


def is_node_id(text: str) -> bool:
    """Return whether *text* is a valid node id: 40 characters of 0-9 and a-z (R42, verifyGossipSectionNodeIds)."""
    return len(text) == NODE_ID_LENGTH and ID_CHARACTERS.issuperset(text)


def hear_gossip(view: View, sender: Peer, entries: tuple[GossipEntry, ...], now_ms: int) -> list[Effect]:
    """Process the gossip section of a known sender (R42 to R47, clusterProcessGossipSection)."""
    nodes = view.nodes
    unknown = [entry for entry in entries if entry[NODE] not in nodes]
    if view.profile.odd_ids_void_gossip and any(not is_node_id(entry.node) for entry in unknown):
        return [Ignored(IgnoredReason.ODD_ID_IN_SECTION)]
    effects: list[Effect] = []
    trusted = may_report(view, sender)
    anyone = view.profile.anyone_withdraws_reports
    for entry in entries:
        peer = nodes.get(entry[NODE])
        if peer is None:
            if is_node_id(entry.node):
                effects += introduce(view, entry, now_ms)
            else:
                effects.append(Ignored(IgnoredReason.ODD_ID_IN_ENTRY))
        elif peer is not view.myself:
            if entry[FLAGS] & FAILURES:
                if trusted and peer is not sender:
                    effects += take_report(view, sender, peer, now_ms)
            else:
                if peer.reports and (trusted or anyone):
                    effects += withdraw_report(view, sender, peer, now_ms)
                if peer.pong_received_ms < entry[PONG_RECEIVED] * 1000 or peer.flags & FAILURES:
                    effects += _hear_healthy(view, peer, entry, now_ms)
    return effects


def _hear_healthy(view: View, peer: Peer, entry: GossipEntry, now_ms: int) -> list[Effect]:
    """Process gossip about a healthy known node: its pong time (R44) and address (R45)."""
    effects: list[Effect] = []
    clean = not view.profile.gossip_refreshes_clean_only or not peer.flags & (HANDSHAKE | MEET | FAILURES)
    pong_ms = entry.pong_received_s * 1000
    if clean and peer.ping_sent_ms == 0 and peer.pong_received_ms < pong_ms <= now_ms + CLOCK_SLACK_MS:
        count, effects = live_reports(view, peer, now_ms) if peer.reports else (0, effects)
        if not count:
            view.note_rumour(peer, pong_ms, entry)
    if peer.flags & FAILURES:
        effects += move_address_by_gossip(view, peer, entry)
    return effects


def hear_extensions(view: View, sender: Peer, gossip: Gossip, now_ms: int) -> list[Effect]:
    """Process the extensions of a known sender's PING, PONG or MEET (R15, R61, R65)."""
    effects: list[Effect] = []
    hostname = nodename = shard_id = ""
    for extension in gossip.extensions:
        value = extension.value
        if extension.type == HOSTNAME and isinstance(value, str):
            hostname = value
        elif extension.type == HUMAN_NODENAME and isinstance(value, str):
            nodename = value
        elif extension.type == SHARD_ID and isinstance(value, str):
            shard_id = value
        elif extension.type == FORGOTTEN_NODE and isinstance(value, ForgottenNode) and view.profile.forgets_spread:
            effects += forget(view, value.node, min(value.ttl_s, FORGET_TTL_S_MAX) * 1000, now_ms)
    sender.nodename = nodename
    if sender.hostname != hostname:
        sender.hostname = hostname
        effects.append(Changed(sender.id, Field.HOSTNAME, Cause.EXTENSION))
    if view.profile.shard_ids is not ShardIds.NONE:
        learn_shard_id(view, sender, shard_id)
    return effects
