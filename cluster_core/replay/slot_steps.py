"""Slots that an operator moved one by one: what happened between two headers, and where slots went that a node gave
away.

CLUSTER SETSLOT NODE takes one slot at a time and sends no message to say so (R124).  The node's next header shows the
sum of all commands since the last one.  A server would have answered with every state in between, so the replay lays
the commands evenly over that time, in the order of the slots, which is how tools go.  To whom a slot was given is
known when its new owner claims it, which may be seconds later: `find_fates` looks ahead for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cluster_core.gossip.flags import MASTER, ROLES
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.replay.evidence import Evidence, MessageSeen
from cluster_core.wire.bus import Header

STEPS_MAX: Final = 1000
"""More slots than this between two headers were moved by one command or one election, not one by one."""
GIVEN_MAX: Final = 10_000
"""Bound of the losses whose winner is looked for."""

Fates = dict[int, list[tuple[int, str]]]
"""By the message that shows a loss: which slots (bits) went to which node."""


def find_fates(stream: Iterable[Evidence]) -> Fates:
    """For each own header that lost slots while the cluster stayed whole: who claimed those slots next."""
    fates: Fates = {}
    given: list[list[int]] = []
    own: Header | None = None
    claims: dict[str, bytes] = {}
    for seen in stream:
        header = seen.message.header if isinstance(seen, MessageSeen) else None
        if not isinstance(seen, MessageSeen) or not isinstance(header, Header):
            continue
        if seen.sent:
            if own is not None and own.myslots != header.myslots:
                _note_own(own, header, seen.ref, given, fates)
            own = header
        elif header.flags & MASTER and claims.get(header.sender) != header.myslots:
            gained = slot_bits(header.myslots) & ~slot_bits(claims.get(header.sender, b""))
            claims[header.sender] = header.myslots
            if gained and given:
                _settle(given, gained, header.sender, fates)
    return fates


def _note_own(old: Header, new: Header, ref: int, given: list[list[int]], fates: Fates) -> None:
    before, after = slot_bits(old.myslots), slot_bits(new.myslots)
    if new.replicaof and new.replicaof != old.replicaof:  # its last slot gone, a node follows the winner (R124)
        _settle(given, after, new.replicaof, fates)
        return
    gained = after & ~before
    for loss in given if gained else ():
        loss[1] &= ~gained
    lost = before & ~after
    if lost and is_stepwise(old, new, lost.bit_count()) and not new.state and len(given) < GIVEN_MAX:
        given.append([ref, lost])


def _settle(given: list[list[int]], gained: int, winner: str, fates: Fates) -> None:
    for loss in given:
        hit = loss[1] & gained
        if hit:
            fates.setdefault(loss[0], []).append((hit, winner))
            loss[1] ^= hit
    given[:] = [loss for loss in given if loss[1]]


def is_stepwise(old: Header, new: Header, count: int) -> bool:
    """Whether a change of *count* slots between two headers of one node can be SETSLOT commands.

    An election or a demotion changes the role, an atomic migration the epoch with many slots at once (R127).
    """
    same_role = old.sender == new.sender and old.replicaof == new.replicaof and not (old.flags ^ new.flags) & ROLES
    return same_role and 0 < count <= STEPS_MAX and (old.config_epoch == new.config_epoch or count == 1)


def step_times_ns(from_ns: int, to_ns: int, count: int) -> list[int]:
    """*count* instants, evenly over the time between two headers.

    >>> step_times_ns(0, 100, 4)
    [20, 40, 60, 80]
    """
    return [from_ns + (to_ns - from_ns) * (i + 1) // (count + 1) for i in range(count)]


def each_bit(bits: int) -> list[int]:
    """The single bits of a number, lowest first."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest)
        bits ^= lowest
    return found


def move_slot(view: View, holder: Peer, bit: int, target: str) -> list[str]:
    """Take one slot from *holder*, or give it one, and return the nodes that this touched."""
    touched = [holder.id]
    if holder.slots & bit:
        holder.slots ^= bit
        other = view.nodes.get(target)
        if other is not None:
            other.slots |= bit
            touched.append(other.id)
    else:
        for peer in view.nodes.values():
            if peer.slots & bit:
                peer.slots ^= bit
                touched.append(peer.id)
        holder.slots |= bit
    view.unclaimed &= ~bit
    view.state_stale = True
    view.version += 1
    return touched
