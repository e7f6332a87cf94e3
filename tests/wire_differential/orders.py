"""What an operator must have ordered, read off what a node says of itself: no message tells of a command.

Each function looks at a header that the real node sent and that ours would not have sent, and names the command that
explains it, if one does; `obey` gives it to our node.
"""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.flags import MASTER, ROLES
from cluster_core.gossip.view import View, slot_bits
from cluster_core.node.machine import Node
from cluster_core.replay.slot_steps import each_bit
from cluster_core.wire.bus import Header

Words = tuple[bytes, ...]
ADOPT: Final[Words] = ()
"""No command: the header is taken over as it is."""


def explain(node: Node, header: Header) -> tuple[str, list[Words]]:
    """The order that explains why *header* is not ours, and its commands (R67, R79, R81, R97, R122 to R124).

    No name if no order does; a name without commands if the header itself tells all that is to be done.
    """
    view = node.view
    myself = view.myself
    was_master, is_master = bool(myself.flags & MASTER), not header.replicaof
    if not is_master and header.replicaof != (myself.replicaof if not was_master else ""):
        return _explain_following(view, header, was_master=was_master)
    if is_master and not was_master:
        return _explain_promotion(node, header)
    if (myself.flags ^ header.flags) & ROLES:
        return "", []
    holder = myself if was_master else view.nodes.get(myself.replicaof, myself)
    claimed = slot_bits(header.myslots)
    if holder.slots != claimed:
        return _explain_slots(view, header, holder.slots, claimed)
    if was_master and header.config_epoch > myself.config_epoch:
        return _explain_epoch(view, header)
    return "", []


def _explain_following(view: View, header: Header, *, was_master: bool) -> tuple[str, list[Words]]:
    if was_master and view.myself.slots:
        return "SETSLOT", []  # R124: its last slot was given away
    return "REPLICATE", [(b"CLUSTER", b"REPLICATE", header.replicaof.encode("latin-1"))]


def _explain_promotion(node: Node, header: Header) -> tuple[str, list[Words]]:
    view = node.view
    master = view.master_of(view.myself)
    if master is None or node.state.election.is_sent:
        return "", []
    claimed = slot_bits(header.myslots)
    if claimed and claimed == master.slots and header.config_epoch > master.config_epoch:
        return "TAKEOVER", [(b"CLUSTER", b"FAILOVER", b"TAKEOVER")]
    return ("RESET", []) if not claimed else ("", [])


def _explain_slots(view: View, header: Header, held: int, claimed: int) -> tuple[str, list[Words]]:
    myself = view.myself
    gained = claimed & ~held
    if not myself.flags & MASTER:
        return ("SETSLOT", []) if view.profile.setslot_replicated else ("", [])
    moved = gained & view.assigned()
    if moved.bit_count() > 1 and header.config_epoch > myself.config_epoch:
        return "MIGRATESLOTS", []
    if moved.bit_count() != 1 or not header.config_epoch >= myself.config_epoch:
        return ("ADDSLOTS" if gained else "DELSLOTS" if header.state else "SETSLOT"), []
    slot = moved.bit_length() - 1
    owner = view.owner_of(slot)
    if owner is not None:
        view.importing[slot] = owner.id  # SETSLOT IMPORTING came before
    return "SETSLOT", [
        (b"CLUSTER", b"SETSLOT", str(each.bit_length() - 1).encode(), b"NODE", myself.id.encode("latin-1"))
        for each in each_bit(moved)
    ]


def _explain_epoch(view: View, header: Header) -> tuple[str, list[Words]]:
    myself = view.myself
    if any(peer.config_epoch == myself.config_epoch and peer.flags & MASTER for peer in view.peers()):
        if myself.config_epoch or len(view.nodes) > 2:
            return "", []  # R80 would have settled that: no order
        return "SET-CONFIG-EPOCH", []
    if header.config_epoch == header.current_epoch and header.config_epoch > view.max_epoch():
        return "BUMPEPOCH", [(b"CLUSTER", b"BUMPEPOCH")]
    return ("SET-CONFIG-EPOCH", []) if not myself.config_epoch else ("", [])
