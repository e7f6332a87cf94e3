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
from cluster_core.history.service import last_end
from cluster_core.incidents.finders.failovers import Promotion
from cluster_core.incidents.finders.failures import Episode
from cluster_core.incidents.finders.memberships import is_follower
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.header_claims import ClaimSpan
from cluster_core.incidents.history import UNKNOWN_SLOTS, History
from cluster_core.incidents.incident import Incident, Step
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import slots_text

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

    def claimed_by_others(self, node: str) -> int:
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
    slot_moves, ledger = SlotMoves(), _Ledger()
    deposed = {(promotion.old, promotion.winner) for promotion in promotions}
    before: dict[str, ClaimSpan] = {}
    spans = (span for spans in history.claims.values() for span in spans if span.slots != UNKNOWN_SLOTS)
    for span in sorted(spans, key=lambda span: (span.from_ns, span.first_ref)):
        old = before.get(span.node)
        before[span.node] = span
        mine = history.own_slots(span)
        if old is not None and old.is_master and span.is_master:
            _note(history, slot_moves, ledger, old, span, mine)
            continue
        if old is not None and old.is_master and ledger.last.get(span.node) is not None:
            gave = span.node in ledger.handed or ledger.claims.get(span.node, 0) & ledger.claimed_by_others(span.node)
            if gave and (span.node, span.replicaof) not in deposed:
                slot_moves.emptied.setdefault(span.node, span.from_ns)
        ledger.claims[span.node] = mine
        if mine:
            ledger.take(span.node, mine)
    logged = _logged_moves(history, slot_moves.moved)
    slot_moves.moved += [move for move in logged if not _is_late(move, promotions)]
    slot_moves.moved.sort(key=lambda move: move.ts_ns)
    won = {(promotion.old, promotion.winner): promotion.ts_ns for promotion in promotions}
    slot_moves.moved = [move for move in slot_moves.moved if not _is_won(move, won)]
    return slot_moves


def _logged_moves(history: History, known: list[Move]) -> list[Move]:
    """Return moves in logs of masters (replicas also log late news) that claims do not show."""
    pause_ns = history.thresholds.resharding_pause_ns
    moved_ns = {(move.source, move.target, slot): move.ts_ns for move in known for slot in _numbers(move.bits)}
    logged: list[Move] = []
    importing: dict[tuple[str, str], str] = {}
    kinds = (EventKind.SLOTS_MOVED, EventKind.SLOT_IMPORTING, EventKind.SLOT_ASSIGNED)
    for line in history.lines.of_kinds(0, 1 << 62, *kinds):
        source, target = line.peer, line.subject
        if line.kind == EventKind.SLOT_IMPORTING:  # CLUSTER SETSLOT IMPORTING, then NODE, at the target (R123)
            importing[line.observer, line.detail] = line.subject
            continue
        if line.kind == EventKind.SLOT_ASSIGNED:
            source = importing.pop((line.observer, line.detail), "") if line.subject == line.observer else ""
        numbers = [int(word) for word in line.detail.split(", ") if word.isdigit()]
        if line.role != "M" or not numbers or not (source and target) or numbers[-1] >= SLOT_COUNT:
            continue
        bits = 0
        for slot in range(numbers[0], numbers[-1] + 1):
            known_ns = moved_ns.get((source, target, slot))
            if known_ns is None or abs(known_ns - line.ts_ns) > pause_ns:
                moved_ns[source, target, slot] = line.ts_ns
                bits |= 1 << slot
        if bits:
            logged.append(Move(line.ts_ns, line.ts_ns, source, target, bits, 0, -1))
    return logged


def _is_late(move: Move, promotions: list[Promotion]) -> bool:
    """Return whether a master that was replaced before logs where its former slots are now."""
    turns = [turn for turn in promotions if move.source in (turn.old, turn.winner) and turn.ts_ns < move.ts_ns]
    return bool(turns) and max(turns, key=lambda turn: turn.ts_ns).old == move.source


def _is_won(move: Move, won: Mapping[tuple[str, str], int]) -> bool:
    """Return whether slots came with a promotion: a reply may show the new master before its slots."""
    won_ns = won.get((move.source, move.target))
    return won_ns is not None and move.from_ns - WON_NS <= won_ns <= move.ts_ns + WON_NS


def _note(history: History, slot_moves: SlotMoves, ledger: _Ledger, old: ClaimSpan, new: ClaimSpan, mine: int) -> None:
    """Record changed claims of a master."""
    node, held, ts_ns = new.node, ledger.claims.get(new.node, 0), new.from_ns
    ledger.claims[node] = mine
    gained, lost = mine & ~held, held & ~mine & ~ledger.claimed_by_others(node)
    if lost and new.state and not old.state:
        ledger.dropped |= lost
        slot_moves.given_up.append(Move(ts_ns, ts_ns, node, "", lost, new.config_epoch, new.first_ref))
    elif lost:
        ledger.hand_over(node, lost, old.to_ns)
    for owner, bits in ledger.owners_of(gained, node) if gained else ():
        fresh = bits & (ledger.dropped if owner else -1)
        moved = bits & ~fresh
        from_ns = ledger.handed_ns(owner, moved, ts_ns)
        if moved and not new.messages and _gave_up(history, owner, from_ns, ts_ns):
            slot_moves.given_up.append(Move(from_ns, from_ns, owner, "", moved, old.config_epoch, -1))
            moved, fresh = 0, bits
        if moved:
            slot_moves.moved.append(Move(from_ns, ts_ns, owner, node, moved, new.config_epoch, new.first_ref))
        if fresh:
            from_ns = ledger.handed_ns(node, fresh, ts_ns)
            if from_ns < ts_ns and not new.messages:
                slot_moves.given_up.append(Move(from_ns, from_ns, node, "", fresh, old.config_epoch, -1))
            slot_moves.taken.append(Move(ts_ns, ts_ns, "", node, fresh, new.config_epoch, new.first_ref))
    if gained:
        ledger.take(node, gained)


def _gave_up(history: History, node: str, from_ns: int, to_ns: int) -> bool:
    """Return whether slots had no owner in a period: *node* had cluster state FAIL throughout."""
    changes = history.states.get(node, ())
    return to_ns - from_ns > DOWN_NS and any(
        not change.is_up and not change.is_start and abs(change.max_ns - from_ns) <= DOWN_NS for change in changes
    )


def slot_incidents(history: History, slot_moves: SlotMoves, failures: list[Episode]) -> list[Incident]:
    """Return one resharding per sequence of moves without a failure of their nodes, and one incident per group of taken
    or dropped slots.
    """
    thresholds = history.thresholds
    incidents = [
        _with_emptied(history, _resharding(part, failure), slot_moves.emptied)
        for group in runs(slot_moves.moved, thresholds.resharding_pause_ns, lambda move: move.ts_ns)
        for part, failure in _until_failures(group, failures, thresholds.together_ns)
    ]
    incidents = _with_open_slots(history, incidents, failures)
    for variant, moves in (("taken", slot_moves.taken), ("given up", slot_moves.given_up)):
        incidents += [
            _incident(IncidentKind.SLOTS_ASSIGNED, variant, group)
            for group in runs(moves, thresholds.pause_ns, lambda move: move.ts_ns)
        ]
    return incidents


def _with_open_slots(history: History, incidents: list[Incident], failures: list[Episode]) -> list[Incident]:
    """Add slots left open to their resharding; other pairs of nodes get an incident of their own."""
    merged = list(incidents)
    by_pair: dict[tuple[str, str], list[OpenSlot]] = {}
    for open_slot in history.open_slots:
        if _stayed_open(history, open_slot, failures):
            by_pair.setdefault((open_slot.source, open_slot.target), []).append(open_slot)
    for (source, target), group in by_pair.items():
        steps = _open_steps(group)
        begin_ns = steps[0].ts_ns
        at = next((at for at, known in enumerate(merged) if _is_of(known, source, target, begin_ns, history)), None)
        if at is None:
            bits = sum(1 << slot for slot in {open_slot.slot for open_slot in group})
            merged.append(
                Incident(
                    kind=IncidentKind.RESHARDING,
                    variant="slot open",
                    subject=source,
                    winner=target,
                    started_ns=begin_ns,
                    ended_ns=last_end(step.until_ns for step in steps),
                    nodes=(source, target),
                    slots=slots_text(bits),
                    slot_count=bits.bit_count(),
                    steps=tuple(steps),
                )
            )
        else:
            merged[at] = replace(merged[at], steps=(*merged[at].steps, *steps))
    return merged


def _stayed_open(history: History, open_slot: OpenSlot, failures: list[Episode]) -> bool:
    """Return whether a slot was left open: a node failed or restarted meanwhile, or it is open at the end."""
    pause_ns = history.thresholds.resharding_pause_ns
    end_ns = history.last_ns if open_slot.to_ns is None else open_slot.to_ns
    if end_ns - open_slot.from_ns <= pause_ns // 2:
        return False
    pair = (open_slot.source, open_slot.target)
    broken = [failure.from_ns for failure in failures if failure.subject in pair]
    broken += [restart.end_max_ns for restart in history.restarts if restart.node in pair]
    return any(open_slot.from_ns <= ts_ns <= end_ns for ts_ns in broken) or (
        open_slot.to_ns is None and end_ns - open_slot.from_ns > pause_ns
    )


def _open_steps(group: list[OpenSlot]) -> list[Step]:
    """Return one step per slot, shown open by one node or both."""
    by_slot: dict[int, list[OpenSlot]] = {}
    for open_slot in group:
        by_slot.setdefault(open_slot.slot, []).append(open_slot)
    steps = []
    for slot, parts in by_slot.items():
        until_ns = last_end(part.to_ns for part in parts)
        first = parts[0]
        from_ns = min(part.from_ns for part in parts)
        steps.append(
            Step(
                from_ns, EventKind.SLOT_OPEN, first.target, first.source, amount=1, detail=str(slot), until_ns=until_ns
            )
        )
    return sorted(steps, key=lambda step: (step.ts_ns, step.detail))


def _is_of(incident: Incident, source: str, target: str, ts_ns: int, history: History) -> bool:
    """Return whether a slot opened at *ts_ns* belongs to the resharding *incident*."""
    pause_ns = history.thresholds.resharding_pause_ns
    pairs = {(step.subject, step.actor) for step in incident.steps if step.kind == EventKind.MOVED}
    return (source, target) in pairs and incident.started_ns - pause_ns <= ts_ns <= (
        incident.ended_ns or ts_ns
    ) + pause_ns


def _until_failures(
    moves: list[Move], failures: list[Episode], together_ns: int
) -> Iterator[tuple[list[Move], Episode | None]]:
    """Split *moves* at failures of their nodes: yield each part with the failure that ended it.

    Moves before the first PFAIL precede the failure.
    """
    for failure in sorted(failures, key=lambda episode: episode.started_ns):
        before = [move for move in moves if move.ts_ns <= failure.from_ns]
        after = moves[len(before) :]
        is_theirs = any(failure.subject in (move.source, move.target) for move in before)
        if is_theirs and (after or failure.started_ns - before[-1].ts_ns <= together_ns):
            yield before, failure
            moves = after
    if moves:
        yield moves, None


def _resharding(moves: list[Move], failure: Episode | None) -> Incident:
    incident = _incident(IncidentKind.RESHARDING, "moved", moves)
    if failure is None:
        return incident
    last = Step(failure.started_ns, EventKind.LAST_SIGN, failure.subject, failure.subject, ref=failure.silent_ref)
    return replace(incident, variant="cut short", steps=(*incident.steps, last), ended_ns=failure.started_ns)


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
        moved = Step(
            from_ns, STEP_KINDS[variant], actor, subject, parts[-1].epoch, bits.bit_count(), slots_text(bits), parts[0].ref,
            until_ns=until_ns if until_ns > from_ns else None,
        )  # fmt: skip
        steps.append(moved)
    steps.sort(key=lambda row: (row.ts_ns, row.actor, row.subject))
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


def _with_emptied(history: History, incident: Incident, emptied: dict[str, int]) -> Incident:
    """Add that a master without slots follows the new owner, with its replicas (R66, R73, R124)."""
    sources = {step.subject for step in incident.steps}
    end_ns = incident.ended_ns if incident.ended_ns is not None else incident.started_ns
    steps = list(incident.steps)
    for node, ts_ns in emptied.items():
        if node not in sources or not incident.started_ns <= ts_ns <= end_ns + history.thresholds.pause_ns:
            continue
        claim = history.claim_at(node, ts_ns)
        if claim is not None:
            steps.append(Step(ts_ns, EventKind.EMPTIED, node, claim.replicaof, claim.config_epoch, ref=claim.first_ref))
        for replica, spans in history.claims.items():
            for before, after in pairwise(spans):
                ts_ns, new, epoch = after.from_ns, after.replicaof, after.config_epoch
                if before.replicaof == node and is_follower(history, emptied, node, new, ts_ns):
                    steps.append(Step(ts_ns, EventKind.FOLLOWS, replica, new, epoch, ref=after.first_ref))
    steps.sort(key=lambda step: (step.ts_ns, step.actor, step.subject))
    return replace(incident, steps=tuple(steps), ended_ns=max([end_ns] + [step.ts_ns for step in steps]))
