"""Slots moved one by one: changes between two headers, and new owners of lost slots.

CLUSTER SETSLOT NODE moves one slot without a message (R124). The replay spreads the changes between two headers evenly,
in slot order. `NewOwnerFinder` looks ahead for the new owner's claim, which follows within seconds or minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster_core.gossip.flags import MASTER, ROLES
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.replay.evidence import Evidence, MessageSeen
from cluster_core.wire.bus import Header

STEPS_MAX: Final = 1000
"""More slots gained from or lost to no owner between two headers are one command."""
GIVEN_MAX: Final = 10_000
"""Maximum losses with an unknown new owner."""

CLAIM_NS: Final = 15_000_000_000
"""Slots claimed within this time after a loss moved to the claiming node."""
BULK_NS: Final = 120_000_000_000
"""Time after the last loss of a bulk in which claims are expected."""

PASS_NS: Final = 100_000_000
"""A header sent in the pass of a command may not show the resulting state FAIL."""
DROPPED_NS: Final = 1_200_000_000
"""A node that drops slots and reports state FAIL within this time deleted them (CLUSTER DELSLOTS)."""
OUTDATED_NS: Final = 150_000_000
"""Older headers may be sent until this long after a change."""
NOBODY: Final = ""

NewOwners = dict[int, list[tuple[int, str]]]
"""New owners of slots by the own header with the change; `NOBODY` stands for slots gained by one command."""


class HeaderOrder:
    """Detects headers of one node sent after newer ones: a slow link delays the header built for many links."""

    def __init__(self) -> None:
        self._claims: tuple[object, ...] = ()
        self._replaced_ns: dict[tuple[object, ...], int] = {}

    def is_outdated(self, header: Header, ts_ns: int) -> bool:
        """Return whether a newer header replaced the claims of *header* less than `OUTDATED_NS` ago."""
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
class LostSlots:
    """Slots lost in an own header and not yet claimed; *ref* and *ts_ns* are the header's."""

    ref: int
    ts_ns: int
    slots: int


class NewOwnerFinder:
    """Finds new owners of slots lost in own headers with the cluster state ok, in `new_owners`.

    The new owner claims within `CLAIM_NS`. Consecutive losses form a bulk; the first claimant gets its unclaimed slots.
    For gained slots it reports those deleted by their last owner. The newest `GIVEN_MAX` entries are kept.
    """

    def __init__(self) -> None:
        self.new_owners: NewOwners = {}
        self._given: list[LostSlots] = []
        self._own: Header | None = None
        self._order = HeaderOrder()
        self._whole_ns = 0
        self._claims: dict[str, Header] = {}
        self._lost_ns = 0
        self._winner = ""
        self._dropped: dict[str, LostSlots] = {}
        self._deleted = 0

    @property
    def waits_for(self) -> int:
        """Return the oldest own header with losses that may still be claimed, -1 if none."""
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
            if header.state:  # slots lost in the previous pass were dropped
                self._given = [loss for loss in self._given if loss.ts_ns < self._whole_ns - PASS_NS]
            else:
                self._whole_ns = seen.ts_ns
            if self._own is not None and self._own.myslots != header.myslots:
                self._note_own(self._own, header, seen)
            self._own = header
        elif header.flags & MASTER:
            self._note_claim(header, seen)

    def _note_claim(self, header: Header, seen: MessageSeen) -> None:
        """Handle another node's slot claims."""
        old = self._claims.get(header.sender)
        if old is None or old.myslots != header.myslots:
            self._claims[header.sender] = header
            before, after = slot_bits(old.myslots) if old is not None else 0, slot_bits(header.myslots)
            gained, lost = after & ~before, before & ~after
            self._deleted &= ~gained
            if gained and self._given:
                self._settle(gained, header.sender)
            if lost:
                self._dropped[header.sender] = LostSlots(seen.ref, seen.ts_ns, lost)
        dropped = self._dropped.get(header.sender) if self._dropped else None
        if dropped is not None and seen.ts_ns - dropped.ts_ns > DROPPED_NS:
            del self._dropped[header.sender]
        elif dropped is not None and header.state:
            self._deleted |= dropped.slots

    def _give_up(self, now_ns: int) -> None:
        """Assign unclaimed losses to the owner of their bulk, if known."""
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
        if new.replicaof and new.replicaof != old.replicaof:  # without slots, a node follows the winner (R124)
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
            self._given.append(LostSlots(seen.ref, seen.ts_ns, lost))

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
    """Return whether *count* changed slots can be SETSLOT commands: no new role, no atomic migration (R127)."""
    same_role = old.sender == new.sender and old.replicaof == new.replicaof and not (old.flags ^ new.flags) & ROLES
    return same_role and count > 0 and (old.config_epoch == new.config_epoch or count == 1)


def step_times_ns(from_ns: int, to_ns: int, count: int) -> list[int]:
    """Return *count* evenly spaced instants between two headers.

    >>> step_times_ns(0, 100, 4)
    [20, 40, 60, 80]
    """
    return [from_ns + (to_ns - from_ns) * (i + 1) // (count + 1) for i in range(count)]


def each_bit(bits: int) -> list[int]:
    """Return the single bits of a number, lowest first."""
    slots = []
    while bits:
        lowest = bits & -bits
        slots.append(lowest)
        bits ^= lowest
    return slots


def move_slot(view: View, holder: Peer, bit: int, target: str) -> list[str]:
    """Add or remove one slot of *holder*; return the affected nodes."""
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
