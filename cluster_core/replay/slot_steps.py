"""Slots that an operator moved one by one: what happened between two headers, and where slots went that a node gave
away.

CLUSTER SETSLOT NODE takes one slot at a time and sends no message to say so (R124).  The node's next header shows the
sum of all commands since the last one.  A server would have answered with every state in between, so the replay lays
the commands evenly over that time, in the order of the slots, which is how tools go.  To whom a slot was given is
known when its new owner claims it, which may be seconds later: `FateFinder` looks ahead for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster_core.gossip.flags import MASTER, ROLES
from cluster_core.gossip.view import Peer, View, slot_bits
from cluster_core.replay.evidence import Evidence, MessageSeen
from cluster_core.wire.bus import Header

STEPS_MAX: Final = 1000
"""More slots than this between two headers were moved by one command or one election, not one by one."""
GIVEN_MAX: Final = 10_000
"""Bound of the losses whose winner is looked for."""

FATE_NS: Final = 15_000_000_000
"""A loss whose winner does not claim the slots within this time has no winner that we know."""

Fates = dict[int, list[tuple[int, str]]]
"""By the message that shows a loss: which slots (bits) went to which node."""


@dataclass(slots=True)
class Loss:
    """Slots (bits) that an own header has lost and nobody has claimed yet; *ref* and *ts_ns* are the header's."""

    ref: int
    ts_ns: int
    slots: int


class FateFinder:
    """Feed it one observer's evidence; `fates` says, for each own header that lost slots while the cluster stayed
    whole, who claimed those slots within `FATE_NS`.

    The newest `GIVEN_MAX` fates are kept.
    """

    def __init__(self) -> None:
        self.fates: Fates = {}
        self._given: list[Loss] = []
        self._own: Header | None = None
        self._claims: dict[str, bytes] = {}

    @property
    def waits_for(self) -> int:
        """The oldest own header whose losses may still find their winner, -1 if there is none."""
        return self._given[0].ref if self._given else -1

    def note(self, seen: Evidence) -> None:
        """Take in one piece of evidence."""
        while self._given and seen.ts_ns - self._given[0].ts_ns > FATE_NS:
            self._given.pop(0)
        header = seen.message.header if isinstance(seen, MessageSeen) else None
        if not isinstance(seen, MessageSeen) or not isinstance(header, Header):
            return
        if seen.sent:
            if self._own is not None and self._own.myslots != header.myslots:
                self._note_own(self._own, header, seen)
            self._own = header
        elif header.flags & MASTER and self._claims.get(header.sender) != header.myslots:
            gained = slot_bits(header.myslots) & ~slot_bits(self._claims.get(header.sender, b""))
            self._claims[header.sender] = header.myslots
            if gained and self._given:
                self._settle(gained, header.sender)

    def _note_own(self, old: Header, new: Header, seen: MessageSeen) -> None:
        before, after = slot_bits(old.myslots), slot_bits(new.myslots)
        if new.replicaof and new.replicaof != old.replicaof:  # its last slot gone, a node follows the winner (R124)
            self._settle(after, new.replicaof)
            return
        gained = after & ~before
        for loss in self._given if gained else ():
            loss.slots &= ~gained
        self._given = [loss for loss in self._given if loss.slots]
        lost = before & ~after
        if lost and is_stepwise(old, new, lost.bit_count()) and not new.state and len(self._given) < GIVEN_MAX:
            self._given.append(Loss(seen.ref, seen.ts_ns, lost))

    def _settle(self, gained: int, winner: str) -> None:
        for loss in self._given:
            hit = loss.slots & gained
            if hit:
                self.fates.setdefault(loss.ref, []).append((hit, winner))
                loss.slots ^= hit
        self._given = [loss for loss in self._given if loss.slots]
        while len(self.fates) > GIVEN_MAX:
            del self.fates[next(iter(self.fates))]


def find_fates(stream: Iterable[Evidence]) -> Fates:
    """The fates of all losses in a whole stream, as `FateFinder` finds them."""
    finder = FateFinder()
    for seen in stream:
        finder.note(seen)
    return finder.fates


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
