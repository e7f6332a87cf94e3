"""Apply a node's own header to its view: role, master, config epoch and slots (R3) after commands and elections."""

from __future__ import annotations

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed, Effect
from cluster_core.gossip.flags import MASTER, NOFAILOVER, REPLICA
from cluster_core.gossip.roles import attach, detach
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.wire.bus import Header


def adopt_header(view: View, header: Header) -> list[Effect]:
    """Update our entry and our master's from our header; the effects are the differences."""
    myself = view.myself
    effects = _adopt_role(view, header)
    if header.current_epoch > view.current_epoch:
        view.current_epoch = header.current_epoch
    if (myself.flags ^ header.flags) & NOFAILOVER:
        myself.flags ^= NOFAILOVER
        effects.append(Changed(myself.id, Field.NOFAILOVER, Cause.OWN_HEADER))
    holder = myself if myself.flags & MASTER else view.master_of(myself)
    if holder is None:
        return effects
    if holder.config_epoch != header.config_epoch:
        holder.config_epoch = header.config_epoch
        effects.append(Changed(holder.id, Field.CONFIG_EPOCH, Cause.OWN_HEADER))
    claimed = slot_bits(header.myslots)
    if holder.slots != claimed:
        effects += assign_slots(view, holder, claimed)
    return effects


def assign_slots(view: View, holder: Peer, bits: int) -> list[Effect]:
    """Assign exactly *bits* to *holder*, taking slots from other owners (R68)."""
    effects: list[Effect] = []
    gained = bits & ~holder.slots
    for peer in view.nodes.values():
        if peer is not holder and peer.slots & gained:
            peer.slots &= ~gained
            effects.append(Changed(peer.id, Field.SLOTS, Cause.OWN_HEADER))
    holder.slots = bits
    view.unclaimed &= view.assigned() & ~gained
    view.state_stale = True
    effects.append(Changed(holder.id, Field.SLOTS, Cause.OWN_HEADER))
    return effects


def _adopt_role(view: View, header: Header) -> list[Effect]:
    myself = view.myself
    effects: list[Effect] = []
    if not header.replicaof:
        if not myself.flags & MASTER:
            detach(view, myself)
            view.set_role(myself, MASTER)
            effects.append(Changed(myself.id, Field.ROLE, Cause.OWN_HEADER))
        return effects
    if myself.flags & MASTER:
        view.set_role(myself, REPLICA)
        effects.append(Changed(myself.id, Field.ROLE, Cause.OWN_HEADER))
        if myself.slots:
            myself.slots = 0
            effects.append(Changed(myself.id, Field.SLOTS, Cause.OWN_HEADER))
    master = view.nodes.get(header.replicaof)
    if master is None:
        myself.replicaof = header.replicaof
    elif myself.replicaof != master.id:
        effects += attach(view, myself, master, Cause.OWN_HEADER)
    return effects
