"""Slot changes other than by failover: resharding, assigned and dropped slots (R123 to R127).

Only masters' own claims count. A claim of a slot last claimed by another master is a takeover. It is an assignment if
nobody claimed the slot, or its last owner dropped it with cluster state FAIL as result. With SETSLOT NODE the old
owner's claim may end long before the new one starts, or after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

from cluster_core.history.open_slots import OpenSlot
from cluster_core.incidents.finders.failovers import Promotion
from cluster_core.incidents.finders.failures import Episode
from cluster_core.incidents.finders.memberships import is_follower
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.history import UNKNOWN_SLOTS, History, slots_text
from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.speech import Speech
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.slots.key_slot import SLOT_COUNT

WON_NS: Final = 10_000_000_000
"""Maximum time until a shard's slots appear at its new master."""


DOWN_NS: Final = 1_500_000_000
"""Dropped slots cause FAIL at once; moved slots have no owner for less than this."""


class Move(NamedTuple):
    """*bits* moved from *source* to *target* (either may be empty): handed over at *from_ns*, claimed at *ts_ns* in
    header *ref*.
    """

    from_ns: int
    ts_ns: int
    source: str
    target: str
    bits: int
    epoch: int
    ref: int


@dataclass(slots=True)
class SlotMoves:
    """Moves between masters, slots taken and dropped, and when masters became replicas after giving away their last
    slot.
    """

    moved: list[Move] = field(default_factory=list)
    taken: list[Move] = field(default_factory=list)
    given_up: list[Move] = field(default_factory=list)
    emptied: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Ledger:
    """Current and last claims of slots, dropped slots, and times of hand-overs."""

    claims: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    handed: dict[str, dict[int, int]] = field(default_factory=dict)

    def owners_of(self, bits: int, taker: str) -> list[tuple[str, int]]:
        """Split *bits* by their last other owner; empty for none."""
        parts = []
        for node, held in self.last.items():
            if bits & held and node != taker:
                parts.append((node, bits & held))
                bits &= ~held
        if bits:
            parts.append(("", bits))
        return parts

    def take(self, node: str, bits: int) -> None:
        """Record *node* as the last owner of *bits*."""
        for other in self.last:
            self.last[other] &= ~bits
        self.last[node] = self.last.get(node, 0) | bits
        self.dropped &= ~bits

    def others(self, node: str) -> int:
        """Return slots currently claimed by other masters."""
        bits = 0
        for other, held in self.claims.items():
            bits |= held if other != node else 0
        return bits

    def hand_over(self, node: str, bits: int, ts_ns: int) -> None:
        """Record that *node* ended its claim on *bits*."""
        mine = self.handed.setdefault(node, {})
        for slot in _numbers(bits):
            mine.setdefault(slot, ts_ns)

    def handed_ns(self, node: str, bits: int, ts_ns: int) -> int:
        """Return when *node* started to hand over *bits*, *ts_ns* if still claimed."""
        mine = self.handed.get(node, {})
        return min([at_ns for slot in _numbers(bits) if (at_ns := mine.pop(slot, None)) is not None], default=ts_ns)


def _numbers(bits: int) -> Iterator[int]:
    """Yield the slots of *bits*."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def find_slot_moves(history: History, promotions: list[Promotion]) -> SlotMoves:
    """Process the claims of all masters in time order."""
    found, ledger = SlotMoves(), _Ledger()
    deposed = {(one.old, one.winner) for one in promotions}
    before: dict[str, Speech] = {}
    spans = (span for spans in history.claims.values() for span in spans if span.slots != UNKNOWN_SLOTS)
    for span in sorted(spans, key=lambda span: (span.from_ns, span.first_ref)):
        old = before.get(span.node)
        before[span.node] = span
        mine = history.own_slots(span)
        if old is not None and old.is_master and span.is_master:
            _note(history, found, ledger, old, span, mine)
            continue
        if old is not None and old.is_master and ledger.last.get(span.node) is not None:
            gave = span.node in ledger.handed or ledger.claims.get(span.node, 0) & ledger.others(span.node)
            if gave and (span.node, span.replicaof) not in deposed:
                found.emptied.setdefault(span.node, span.from_ns)
        ledger.claims[span.node] = mine
        if mine:
            ledger.take(span.node, mine)
    found.moved += _logged_moves(history, found.moved)
    found.moved.sort(key=lambda move: move.ts_ns)
    won = {(one.old, one.winner): one.ts_ns for one in promotions}
    found.moved = [move for move in found.moved if not _is_won(move, won)]
    return found


def _logged_moves(history: History, known: list[Move]) -> list[Move]:
    """Return moves in logs (Valkey 8.1 and later) that claims do not show."""
    pause_ns = history.thresholds.resharding_pause_ns
    moved_ns = {(one.source, one.target, slot): one.ts_ns for one in known for slot in _numbers(one.bits)}
    found: list[Move] = []
    for line in history.lines.of_kind.get(EventKind.SLOTS_MOVED, []):
        words = [int(word) for word in line.detail.split(", ") if word.isdigit()]
        if line.role != "M" or not words or not (line.peer and line.subject) or words[-1] >= SLOT_COUNT:
            continue  # replicas also log what they learn late
        bits = 0
        for slot in range(words[0], words[-1] + 1):
            known_ns = moved_ns.get((line.peer, line.subject, slot))
            if known_ns is None or abs(known_ns - line.ts_ns) > pause_ns:
                moved_ns[line.peer, line.subject, slot] = line.ts_ns
                bits |= 1 << slot
        if bits:
            found.append(Move(line.ts_ns, line.ts_ns, line.peer, line.subject, bits, 0, -1))
    return found


def _is_won(move: Move, won: Mapping[tuple[str, str], int]) -> bool:
    """Return whether slots came with a promotion: a reply may show the new master before its slots."""
    won_ns = won.get((move.source, move.target))
    return won_ns is not None and move.from_ns - WON_NS <= won_ns <= move.ts_ns + WON_NS


def _note(history: History, found: SlotMoves, ledger: _Ledger, old: Speech, new: Speech, mine: int) -> None:
    """Record changed claims of a master."""
    node, held, ts_ns = new.node, ledger.claims.get(new.node, 0), new.from_ns
    ledger.claims[node] = mine
    gained, lost = mine & ~held, held & ~mine & ~ledger.others(node)
    if lost and new.state and not old.state:
        ledger.dropped |= lost
        found.given_up.append(Move(ts_ns, ts_ns, node, "", lost, new.config_epoch, new.first_ref))
    elif lost:
        ledger.hand_over(node, lost, old.to_ns)
    for owner, bits in ledger.owners_of(gained, node) if gained else ():
        fresh = bits & (ledger.dropped if owner else -1)
        moved = bits & ~fresh
        from_ns = ledger.handed_ns(owner, moved, ts_ns)
        if moved and not new.messages and _gave_up(history, owner, from_ns, ts_ns):
            found.given_up.append(Move(from_ns, from_ns, owner, "", moved, old.config_epoch, -1))
            moved, fresh = 0, bits
        if moved:
            found.moved.append(Move(from_ns, ts_ns, owner, node, moved, new.config_epoch, new.first_ref))
        if fresh:
            from_ns = ledger.handed_ns(node, fresh, ts_ns)
            if from_ns < ts_ns and not new.messages:
                found.given_up.append(Move(from_ns, from_ns, node, "", fresh, old.config_epoch, -1))
            found.taken.append(Move(ts_ns, ts_ns, "", node, fresh, new.config_epoch, new.first_ref))
    if gained:
        ledger.take(node, gained)


def _gave_up(history: History, node: str, from_ns: int, to_ns: int) -> bool:
    """Return whether slots had no owner in a period: *node* had cluster state FAIL throughout."""
    changes = history.states.get(node, ())
    return to_ns - from_ns > DOWN_NS and any(
        not one.is_up and not one.is_start and abs(one.max_ns - from_ns) <= DOWN_NS for one in changes
    )


def slot_incidents(history: History, found: SlotMoves, failures: list[Episode]) -> list[Incident]:
    """Return one resharding per sequence of moves without a failure of their nodes, and one incident per group of taken
    or dropped slots.
    """
    thresholds = history.thresholds
    incidents = [
        _with_emptied(history, _resharding(part, failure), found.emptied)
        for group in runs(found.moved, thresholds.resharding_pause_ns, lambda move: move.ts_ns)
        for part, failure in _until_failures(group, failures, thresholds.together_ns)
    ]
    incidents = _with_open_slots(history, incidents, failures)
    for variant, moves in (("taken", found.taken), ("given up", found.given_up)):
        incidents += [
            _incident(IncidentKind.SLOTS_ASSIGNED, variant, group)
            for group in runs(moves, thresholds.pause_ns, lambda move: move.ts_ns)
        ]
    return incidents


def _with_open_slots(history: History, incidents: list[Incident], failures: list[Episode]) -> list[Incident]:
    """Add slots left open to their resharding; other pairs of nodes get an incident of their own."""
    found = list(incidents)
    by_pair: dict[tuple[str, str], list[OpenSlot]] = {}
    for one in history.open_slots:
        if _stayed_open(history, one, failures):
            by_pair.setdefault((one.source, one.target), []).append(one)
    for (source, target), group in by_pair.items():
        steps = _open_steps(group)
        begin_ns = steps[0].ts_ns
        at = next((at for at, one in enumerate(found) if _is_of(one, source, target, begin_ns, history)), None)
        if at is None:
            ends = [step.until_ns for step in steps]
            bits = sum(1 << slot for slot in {one.slot for one in group})
            found.append(
                Incident(
                    kind=IncidentKind.RESHARDING,
                    variant="slot open",
                    subject=source,
                    winner=target,
                    started_ns=begin_ns,
                    ended_ns=None if None in ends else max(end for end in ends if end is not None),
                    nodes=(source, target),
                    slots=slots_text(bits),
                    slot_count=bits.bit_count(),
                    steps=tuple(steps),
                )
            )
        else:
            found[at] = replace(found[at], steps=(*found[at].steps, *steps))
    return found


def _stayed_open(history: History, one: OpenSlot, failures: list[Episode]) -> bool:
    """Return whether a slot was left open: a node failed or restarted meanwhile, or it is open at the end."""
    pause_ns = history.thresholds.resharding_pause_ns
    end_ns = history.last_ns if one.to_ns is None else one.to_ns
    if end_ns - one.from_ns <= pause_ns // 2:
        return False
    pair = (one.source, one.target)
    broken = [failure.from_ns for failure in failures if failure.subject in pair]
    broken += [restart.end_max_ns for restart in history.restarts if restart.node in pair]
    return any(one.from_ns <= ts_ns <= end_ns for ts_ns in broken) or (
        one.to_ns is None and end_ns - one.from_ns > pause_ns
    )


def _open_steps(group: list[OpenSlot]) -> list[Step]:
    """Return one step per slot, shown open by one node or both."""
    by_slot: dict[int, list[OpenSlot]] = {}
    for one in group:
        by_slot.setdefault(one.slot, []).append(one)
    steps = []
    for slot, parts in by_slot.items():
        ends = [part.to_ns for part in parts]
        until_ns = None if None in ends else max(end for end in ends if end is not None)
        first = parts[0]
        from_ns = min(part.from_ns for part in parts)
        steps.append(
            Step(
                from_ns, EventKind.SLOT_OPEN, first.target, first.source, amount=1, detail=str(slot), until_ns=until_ns
            )
        )
    return sorted(steps, key=lambda step: (step.ts_ns, step.detail))


def _is_of(one: Incident, source: str, target: str, ts_ns: int, history: History) -> bool:
    """Return whether a slot opened at *ts_ns* belongs to the resharding *one*."""
    pause_ns = history.thresholds.resharding_pause_ns
    pairs = {(step.subject, step.actor) for step in one.steps if step.kind == EventKind.MOVED}
    return (source, target) in pairs and one.started_ns - pause_ns <= ts_ns <= (one.ended_ns or ts_ns) + pause_ns


def _until_failures(
    moves: list[Move], failures: list[Episode], together_ns: int
) -> Iterator[tuple[list[Move], Episode | None]]:
    """Split *moves* at failures of their nodes: yield each part with the failure that ended it.

    Moves before the first PFAIL precede the failure.
    """
    for failure in sorted(failures, key=lambda one: one.started_ns):
        before = [move for move in moves if move.ts_ns <= failure.from_ns]
        after = moves[len(before) :]
        is_theirs = any(failure.subject in (move.source, move.target) for move in before)
        if is_theirs and (after or failure.started_ns - before[-1].ts_ns <= together_ns):
            yield before, failure
            moves = after
    if moves:
        yield moves, None


def _resharding(moves: list[Move], failure: Episode | None) -> Incident:
    one = _incident(IncidentKind.RESHARDING, "moved", moves)
    if failure is None:
        return one
    last = Step(failure.started_ns, EventKind.LAST_SIGN, failure.subject, failure.subject, ref=failure.silent_ref)
    return replace(one, variant="cut short", steps=(*one.steps, last), ended_ns=failure.started_ns)


STEP_KINDS = {"moved": EventKind.MOVED, "taken": EventKind.TAKEN, "given up": EventKind.GIVEN_UP}


def _incident(kind: IncidentKind, variant: str, group: list[Move]) -> Incident:
    """Merge moves by pair of nodes into steps of one incident."""
    pairs: dict[tuple[str, str], list[Move]] = {}
    whole = 0
    for move in group:
        pairs.setdefault((move.source, move.target), []).append(move)
        whole |= move.bits
    steps = []
    for (source, target), parts in pairs.items():
        bits = 0
        for part in parts:
            bits |= part.bits
        from_ns, until_ns = min(part.from_ns for part in parts), parts[-1].ts_ns
        actor, subject = (target, source) if target else (source, "")
        steps.append(
            Step(
                from_ns,
                STEP_KINDS[variant],
                actor,
                subject,
                parts[-1].epoch,
                bits.bit_count(),
                slots_text(bits),
                parts[0].ref,
                until_ns=until_ns if until_ns > from_ns else None,
            )
        )
    steps.sort(key=lambda one: (one.ts_ns, one.actor, one.subject))
    source, target = next(iter(pairs)) if len(pairs) == 1 else ("", "")
    return Incident(
        kind=kind,
        variant=variant,
        subject=source or (target if kind is not IncidentKind.RESHARDING else ""),
        winner=target if kind is IncidentKind.RESHARDING else "",
        started_ns=min(step.ts_ns for step in steps),
        ended_ns=group[-1].ts_ns,
        nodes=tuple(dict.fromkeys(node for step in steps for node in (step.subject, step.actor) if node)),
        slots=slots_text(whole),
        slot_count=whole.bit_count(),
        steps=tuple(steps),
    )


def _with_emptied(history: History, one: Incident, emptied: dict[str, int]) -> Incident:
    """Add that a master without slots follows the new owner, with its replicas (R66, R73, R124)."""
    sources = {step.subject for step in one.steps}
    end_ns = one.ended_ns if one.ended_ns is not None else one.started_ns
    steps = list(one.steps)
    for node, ts_ns in emptied.items():
        if node not in sources or not one.started_ns <= ts_ns <= end_ns + history.thresholds.pause_ns:
            continue
        said = history.claim_at(node, ts_ns)
        if said is not None:
            steps.append(Step(ts_ns, EventKind.EMPTIED, node, said.replicaof, said.config_epoch, ref=said.first_ref))
        for replica, spans in history.claims.items():
            for before, after in pairwise(spans):
                if before.replicaof == node and is_follower(history, emptied, node, after.replicaof, after.from_ns):
                    steps.append(
                        Step(
                            after.from_ns,
                            EventKind.FOLLOWS,
                            replica,
                            after.replicaof,
                            after.config_epoch,
                            ref=after.first_ref,
                        )
                    )
    steps.sort(key=lambda step: (step.ts_ns, step.actor, step.subject))
    return replace(one, steps=tuple(steps), ended_ns=max([end_ns] + [step.ts_ns for step in steps]))
