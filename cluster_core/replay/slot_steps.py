"""Slots that an operator moved one by one: what happened between two headers, and where slots went that a node gave
away.

CLUSTER SETSLOT NODE takes one slot at a time and sends no message to say so (R124).  The node's next header shows the
sum of all commands since the last one.  A server would have answered with every state in between, so the replay lays
the commands evenly over that time, in the order of the slots, which is how tools go.  To whom a slot was given is
known when its new owner claims it: seconds later where a tool moves slot by slot, minutes later where it tells one node
of all slots before it tells the next.  `NewOwnerFinder` looks ahead for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster_core.gossip.flags import MASTER, ROLES
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.replay.evidence import Evidence, MessageSeen
from cluster_core.wire.bus import Header

STEPS_MAX: Final = 1000
"""More slots than this that came from nobody, or went to nobody, between two headers were moved by one command."""
GIVEN_MAX: Final = 10_000
"""Bound of the losses whose winner is looked for."""

CLAIM_NS: Final = 15_000_000_000
"""Slots that somebody claims within this time after a loss went to that node."""
BULK_NS: Final = 120_000_000_000
"""So long after its last loss nobody is expected to claim the slots of a bulk any more."""

PASS_NS: Final = 100_000_000
"""A header that leaves in the pass of a command does not know yet that the command took the cluster down."""
DROPPED_NS: Final = 1_200_000_000
"""A node that drops slots and says within this time that the cluster is down has deleted them (CLUSTER DELSLOTS)."""
OUTDATED_NS: Final = 150_000_000
"""So long after a change headers from before it may still leave."""
NOBODY: Final = ""

NewOwners = dict[int, list[tuple[int, str]]]
"""By the own header that shows a change: which slots (bits) went to which node, or came from `NOBODY` with one command."""


class HeaderOrder:
    """Recognizes headers of one node that left after newer ones.

    A node builds one header for many links, and a link that is slow sends it after the next one was built.
    """

    def __init__(self) -> None:
        self._claims: tuple[object, ...] = ()
        self._replaced_ns: dict[tuple[object, ...], int] = {}

    def is_outdated(self, header: Header, ts_ns: int) -> bool:
        """Whether a newer header replaced the claims of *header* less than `OUTDATED_NS` ago."""
        claims = (header.sender, header.config_epoch, header.replicaof, header.flags & ROLES, header.myslots)
        if claims == self._claims:
            return False
        if ts_ns - self._replaced_ns.get(claims, -OUTDATED_NS) < OUTDATED_NS:
            return True
        recent = {old: at_ns for old, at_ns in self._replaced_ns.items() if ts_ns - at_ns < OUTDATED_NS}
        self._replaced_ns = recent | {self._claims: ts_ns}
        self._claims = claims
        return False


@dataclass(slots=True)
class Loss:
    """Slots (bits) that an own header has lost and nobody has claimed yet; *ref* and *ts_ns* are the header's."""

    ref: int
    ts_ns: int
    slots: int


class NewOwnerFinder:
    """Feed it one observer's evidence; `new_owners` says, for each own header that lost slots while the cluster stayed
    whole, to whom they went.

    That is who claims them within `CLAIM_NS`.  Losses that follow each other are a bulk: an operator tells this node of
    all slots first, and their new owner minutes later.  Whoever then claims the first of them has got all that nobody
    else claims in time.  For own headers that gained slots it says which of them their last owner had deleted.  The
    newest `GIVEN_MAX` new_owners are kept.
    """

    def __init__(self) -> None:
        self.new_owners: NewOwners = {}
        self._given: list[Loss] = []
        self._own: Header | None = None
        self._order = HeaderOrder()
        self._whole_ns = 0
        self._claims: dict[str, Header] = {}
        self._lost_ns = 0
        self._winner = ""
        self._dropped: dict[str, Loss] = {}
        self._deleted = 0

    @property
    def waits_for(self) -> int:
        """The oldest own header whose losses may still find their winner, -1 if there is none."""
        return self._given[0].ref if self._given else -1

    def note(self, seen: Evidence) -> None:
        """Take in one piece of evidence."""
        if self._given and seen.ts_ns - self._given[0].ts_ns > CLAIM_NS:
            self._give_up(seen.ts_ns)
        header = seen.message.header if isinstance(seen, MessageSeen) else None
        if not isinstance(seen, MessageSeen) or not isinstance(header, Header):
            return
        if seen.sent:
            if self._order.is_outdated(header, seen.ts_ns):
                return
            if header.state:  # what was lost in the pass before was not given to anybody
                self._given = [loss for loss in self._given if loss.ts_ns < self._whole_ns - PASS_NS]
            else:
                self._whole_ns = seen.ts_ns
            if self._own is not None and self._own.myslots != header.myslots:
                self._note_own(self._own, header, seen)
            self._own = header
        elif header.flags & MASTER:
            self._note_claim(header, seen)

    def _note_claim(self, header: Header, seen: MessageSeen) -> None:
        """Somebody else says which slots it has."""
        old = self._claims.get(header.sender)
        if old is None or old.myslots != header.myslots:
            self._claims[header.sender] = header
            before, after = slot_bits(old.myslots) if old is not None else 0, slot_bits(header.myslots)
            gained, lost = after & ~before, before & ~after
            self._deleted &= ~gained
            if gained and self._given:
                self._settle(gained, header.sender)
            if lost:
                self._dropped[header.sender] = Loss(seen.ref, seen.ts_ns, lost)
        dropped = self._dropped.get(header.sender) if self._dropped else None
        if dropped is not None and seen.ts_ns - dropped.ts_ns > DROPPED_NS:
            del self._dropped[header.sender]
        elif dropped is not None and header.state:
            self._deleted |= dropped.slots

    def _give_up(self, now_ns: int) -> None:
        """What nobody claimed in time went where the rest of its bulk went, if that is known."""
        while self._given and now_ns - self._given[0].ts_ns > CLAIM_NS:
            if self._winner:
                loss = self._given.pop(0)
                self._keep(loss.ref, loss.slots, self._winner)
            elif now_ns - self._lost_ns > BULK_NS:
                self._given.clear()
            else:
                return

    def _note_own(self, old: Header, new: Header, seen: MessageSeen) -> None:
        before, after = slot_bits(old.myslots), slot_bits(new.myslots)
        if new.replicaof and new.replicaof != old.replicaof:  # its last slot gone, a node follows the winner (R124)
            self._settle(after, new.replicaof)
            return
        gained = after & ~before
        if gained & self._deleted:
            self._keep(seen.ref, gained & self._deleted, NOBODY)
            self._deleted &= ~gained
        for loss in self._given if gained else ():
            loss.slots &= ~gained
        self._given = [loss for loss in self._given if loss.slots]
        lost = before & ~after
        if lost and is_stepwise(old, new, lost.bit_count()) and not new.state and len(self._given) < GIVEN_MAX:
            if seen.ts_ns - self._lost_ns > CLAIM_NS:
                self._winner = ""
            self._lost_ns = seen.ts_ns
            self._given.append(Loss(seen.ref, seen.ts_ns, lost))

    def _settle(self, gained: int, winner: str) -> None:
        for loss in self._given:
            hit = loss.slots & gained
            if hit:
                self._winner = winner
                self._keep(loss.ref, hit, winner)
                loss.slots ^= hit
        self._given = [loss for loss in self._given if loss.slots]

    def _keep(self, ref: int, slots: int, winner: str) -> None:
        self.new_owners.setdefault(ref, []).append((slots, winner))
        while len(self.new_owners) > GIVEN_MAX:
            del self.new_owners[next(iter(self.new_owners))]


def is_stepwise(old: Header, new: Header, count: int) -> bool:
    """Whether a change of *count* slots between two headers of one node can be SETSLOT commands.

    An election or a demotion changes the role, an atomic migration the epoch with many slots at once (R127).
    """
    same_role = old.sender == new.sender and old.replicaof == new.replicaof and not (old.flags ^ new.flags) & ROLES
    return same_role and count > 0 and (old.config_epoch == new.config_epoch or count == 1)


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
