"""Failovers: promotions by election, manual order or force (R83 to R102), and the writes that they lost (P5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster_core.gossip.causes import Refusal
from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.history.promotions import Promoted, Sighting, merge_sightings, seen_in_logs, seen_in_views
from cluster_core.history.statements import TICK_NS
from cluster_core.incidents.finders.failures import Episode, failure_steps, in_story_order, state_steps
from cluster_core.incidents.finders.successors import missing_voters
from cluster_core.incidents.header_claims import ClaimSpan
from cluster_core.incidents.history import PROMOTIONS, History
from cluster_core.incidents.incident import NOTHING_KNOWN, Incident, Loss, Step, milliseconds
from cluster_core.incidents.thresholds import MANUAL_FAILOVER_NS
from cluster_core.kinds import EventKind, IncidentKind, Source
from cluster_core.replay.rows import EpochRow, EventRow, NodeViewRow
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import slot_bits, slots_text

FORCED: Final = "FORCEACK"
ORDERS: Final = (
    EventKind.MANUAL_FAILOVER_REQUESTED,
    EventKind.MANUAL_FAILOVER_MFSTART,
    EventKind.PAUSED,
    EventKind.MANUAL_FAILOVER_FORCED,
)
"""Events of an ordered failover, on the bus or in a log (R97, R98)."""


class Promotion(NamedTuple):
    """*winner* replaced *old* (empty if unknown) between *min_ns* and *ts_ns*."""

    winner: str
    old: str
    epoch: int
    ts_ns: int
    ref: int
    variant: str
    election: EventRow | None
    offset: int
    min_ns: int
    slots: str
    sources: tuple[Source, ...]
    skew_ns: int
    header_ns: int


def find_promotions(history: History) -> list[Promotion]:
    """Return all promotions in any evidence, in time order."""
    sightings = [
        *(_on_the_bus(history, row) for row in history.epochs if row.mechanism in PROMOTIONS),
        *seen_in_views(history.views, history.polled_ns),
        *seen_in_logs(history.lines),
    ]
    return [_promotion(history, promoted) for promoted in merge_sightings(sightings)]


def _on_the_bus(history: History, row: EpochRow) -> Sighting:
    """Return the promotion shown by a header with a new epoch; it happened after the last header as a replica."""
    election = _election(history, row.node_id, row.epoch, row.ts_ns)
    before = history.view_at(row.node_id, row.node_id, row.ts_ns - 1)
    old = (before.master_id if before is not None else "") or (election.subject if election is not None else "")
    claim = history.header_claim_at(row.node_id, row.ts_ns - 1)
    # A header may be sent a tick after it was built, so the replica's last one may follow the promotion.
    last_ns = min(claim.to_ns, row.ts_ns) - TICK_NS if claim is not None else 0
    min_ns = max(election.ts_ns if election is not None else 0, last_ns) or row.ts_ns
    no_gap = claim is not None and row.ts_ns - claim.to_ns <= history.thresholds.silence_ns
    order = "takeover" if election is None and no_gap else ""
    return Sighting(row.node_id, old, row.epoch, "", min_ns, row.ts_ns, Source.CAPTURE, True, row.ref, order)


def _election(history: History, winner: str, epoch: int, ts_ns: int) -> EventRow | None:
    """Return the winner's vote request."""
    return next(
        (
            event
            for event in reversed(history.events_of(EventKind.ELECTION_STARTED))
            if event.observer == winner and event.epoch == epoch and event.ts_ns <= ts_ns
        ),
        None,
    )


def _promotion(history: History, promoted: Promoted) -> Promotion:
    election = _election(history, promoted.winner, promoted.epoch, promoted.max_ns)
    span = history.header_claim_at(promoted.winner, promoted.header_ns)
    variant = _variant(history, promoted, election)
    return Promotion(
        promoted.winner, promoted.old, promoted.epoch, promoted.max_ns, promoted.ref, variant, election, span.first_offset if span else 0,
        promoted.min_ns, promoted.slots, promoted.sources, promoted.skew_ns, promoted.header_ns,
    )  # fmt: skip


def _variant(history: History, promoted: Promoted, election: EventRow | None) -> str:
    """Return the variant (R97): "manual" by an order the old master received, "forced" by one it did not.

    "unknown" if only polls or metrics show it and the old master was healthy. FORCEACK alone is no evidence: Valkey 9.1
    also sets it in automatic elections with the old master in FAIL (R134), which some node must have marked.
    """
    if promoted.order == "takeover":
        return "takeover"
    lately = [
        event
        for event in history.events_of(*ORDERS)
        if -MANUAL_FAILOVER_NS
        <= promoted.max_ns - event.ts_ns
        <= MANUAL_FAILOVER_NS + (promoted.max_ns - promoted.min_ns)
        and event.ts_ns <= promoted.max_ns
    ]
    if any(event.kind == EventKind.MANUAL_FAILOVER_FORCED and event.observer == promoted.winner for event in lately):
        return "forced"
    heard = {
        (promoted.winner, EventKind.MANUAL_FAILOVER_REQUESTED),
        (promoted.old, EventKind.MANUAL_FAILOVER_MFSTART),
        (promoted.old, EventKind.PAUSED),
    }
    if any((event.observer, event.kind) in heard for event in lately):
        return "manual"
    if election is None:
        return promoted.order or _variant_unseen(history, promoted)
    spells = history.pfail_spells.get(promoted.old, ())
    failed = any(
        spell.fail_ns is not None and spell.fail_ns <= election.ts_ns <= (spell.to_ns or election.ts_ns)
        for spell in spells
    )
    span = history.header_claim_at(promoted.winner, election.ts_ns)
    may_force = span is not None and bool(span.flags & NodeFlags.LIGHT_HEADER_MODULE)
    return "forced" if election.detail == FORCED and not (failed and may_force) else "automatic"


def _variant_unseen(history: History, promoted: Promoted) -> str:
    """Return the variant if no election was observed."""
    if any(promoted.winner == vote.candidate and promoted.epoch == vote.epoch for vote in history.votes):
        return "automatic"
    is_failing = any(
        spell.from_ns <= promoted.max_ns and (spell.to_ns is None or spell.to_ns > promoted.min_ns)
        for spell in history.pfail_spells.get(promoted.old, [])
    )
    known = (history.voting_masters_at(observer, promoted.min_ns) for observer in (promoted.winner, *history.observers))
    voters = next(filter(None, known), [])
    failing = [node for node in voters if history.is_failing(node, promoted.min_ns)]
    has_majority = not voters or len(voters) - len(failing) >= quorum_of(len(voters))
    return "automatic" if is_failing and has_majority else "unknown"


def failover_of(
    history: History,
    promotion: Promotion,
    episode: Episode | None,
    unserved: Sequence[Step],
    figures: Mapping[str, Any],
) -> Incident:
    """Return a failover incident with the preceding failure, if any, and the service interruption."""
    winner, old = promotion.winner, promotion.old
    steps = failure_steps(history, episode) if episode is not None else []
    started_ns = min([promotion.ts_ns] + [step.ts_ns for step in steps])
    election = promotion.election
    if episode is not None:
        steps += missing_voters(history, episode)
    else:
        started_ns = election.ts_ns if election is not None else promotion.ts_ns
        manual = [*_manual_steps(history, promotion), *_last_signs(history, promotion)]
        started_ns = min([started_ns] + [step.ts_ns for step in manual])
        steps += manual
    adoptions = _adoptions(history, promotion)
    contest = contest_steps(history, old, started_ns, promotion.ts_ns)
    steps += contest + adoptions + _old_master_steps(history, promotion)
    offset = promotion.offset or None
    epoch = promotion.epoch or None
    kind = EventKind.TOOK_OVER if promotion.variant == "takeover" else EventKind.WON
    won = Step(promotion.ts_ns, kind, winner, old, epoch, offset, ref=promotion.ref)
    steps.append(won)
    adopted_ns = max([promotion.ts_ns] + [step.ts_ns for step in adoptions])
    steps += state_steps(history, started_ns, adopted_ns + 2 * history.thresholds.timeout_ns)
    silent_ns = next((step.ts_ns for step in steps if step.kind == EventKind.LAST_SIGN and step.actor == old), None)
    fail_ns = episode.fail_ns if episode is not None else None
    first = min((step.ts_ns for step in contest if step.kind == EventKind.ELECTION_STARTED), default=None)
    mine = [step for step in contest if step.subject == winner and step.epoch == promotion.epoch]
    bits = history.own_slots(history.header_claim_at(winner, promotion.header_ns)) or slot_bits(promotion.slots)
    steps += unserved
    return Incident(
        kind=IncidentKind.FAILOVER,
        variant=promotion.variant,
        subject=old,
        winner=winner,
        epoch=epoch,
        started_ns=started_ns,
        ended_ns=adopted_ns,
        nodes=tuple(step.actor for step in adoptions),
        slots=slots_text(bits),
        slot_count=bits.bit_count() or None,
        silence_to_pfail_ms=milliseconds(silent_ns, episode.from_ns if episode else None),
        silence_to_fail_ms=milliseconds(silent_ns, fail_ns),
        fail_to_election_ms=milliseconds(fail_ns, first) if fail_ns is not None and first is not None else None,
        election_ms=milliseconds(election.ts_ns, promotion.ts_ns) if election is not None else None,
        **figures,
        adoption_ms=milliseconds(promotion.ts_ns, adopted_ns) if adoptions else None,
        loss=loss_of(history, old, promotion.ts_ns, promotion.epoch, promotion.offset),
        votes=sum(step.kind == EventKind.VOTE for step in mine),
        refusals=sum(step.kind == EventKind.NO_VOTE for step in mine),
        steps=in_story_order(steps),
        promoted_min_ns=promotion.min_ns,
        promoted_max_ns=promotion.ts_ns,
        sources=promotion.sources,
        skew_ns=promotion.skew_ns,
    )


def _last_signs(history: History, promotion: Promotion) -> list[Step]:
    """Return the last message of an old master that was silent, but not yet marked PFAIL, at the promotion."""
    last = history.header_claim_at(promotion.old, promotion.ts_ns)
    if last is None or not last.silent_after or last.to_ns >= promotion.ts_ns:
        return []
    return [Step(last.to_ns, EventKind.LAST_SIGN, promotion.old, promotion.old, ref=last.last_ref)]


def _manual_steps(history: History, promotion: Promotion) -> list[Step]:
    """Return steps of an ordered failover on the bus (R97, R98, R102)."""
    kinds = (
        EventKind.MANUAL_FAILOVER_REQUESTED,
        EventKind.MANUAL_FAILOVER_MFSTART,
        EventKind.PAUSED,
        EventKind.MANUAL_FAILOVER_PAUSED,
    )
    steps = []
    for event in history.events_of(*kinds):
        if event.observer not in (promotion.winner, promotion.old):
            continue
        if 0 <= promotion.ts_ns - event.ts_ns <= MANUAL_FAILOVER_NS and not (
            event.kind == EventKind.PAUSED and event.observer == promotion.winner
        ):
            amount = int(event.detail) if event.detail.isdigit() else None
            steps.append(
                Step(event.ts_ns, event.kind, event.observer, event.subject, event.epoch or None, amount, ref=event.ref)
            )
    return steps


ATTEMPTS: Final = (
    EventKind.ELECTION_SCHEDULED,
    EventKind.ELECTION_STALLED,
    EventKind.ELECTION_RESET,
    EventKind.MANUAL_FAILOVER_TIMED_OUT,
)
"""Election steps in logs only: scheduled time and obstacles (R86, R94, R160)."""


def contest_steps(history: History, old: str, from_ns: int, to_ns: int) -> list[Step]:
    """Return elections to replace *old* within a period, with votes and refusals (R86 to R93).

    Logs add the scheduled time, delays, and reasons for refusals.
    """
    steps: list[Step] = []
    elections: dict[tuple[str, int], None] = {}
    for event in history.events_of(EventKind.ELECTION_STARTED):
        if event.subject == old and from_ns <= event.ts_ns <= to_ns:
            elections[event.observer, event.epoch] = None
            steps.append(_of_event(event, event.subject, event.epoch))
    for vote in history.votes:
        if (vote.candidate, vote.epoch) in elections and vote.reason != Refusal.NOT_A_VOTER:
            kind = EventKind.VOTE if vote.granted else EventKind.NO_VOTE
            ts_ns = vote.asked_ns if vote.answered_ns is None else vote.answered_ns
            steps.append(Step(ts_ns, kind, vote.voter, vote.candidate, vote.epoch, detail=vote.reason, ref=vote.ref))
    candidates = {candidate for candidate, _ in elections}
    for event in history.events_of(*ATTEMPTS):
        if from_ns <= event.ts_ns <= to_ns:
            claim = history.header_claim_at(event.observer, event.ts_ns)
            if event.observer in candidates or (claim is not None and claim.replicaof == old):
                steps.append(_of_event(event, old, event.epoch or None))
    for event in history.events_of(EventKind.VOTE_REFUSED):
        if event.subject in candidates and from_ns <= event.ts_ns <= to_ns:
            steps.append(_of_event(event, event.subject, event.epoch or None))
    return steps


def _of_event(event: EventRow, subject: str, epoch: int | None) -> Step:
    return Step(event.ts_ns, event.kind, event.observer, subject, epoch, detail=event.detail, ref=event.ref)


def adopts(row: NodeViewRow, epoch: int) -> bool:
    """Return whether a view shows the winner as a master with this epoch."""
    return "master" in row.flags.split(",") and row.config_epoch >= epoch


def _adoptions(history: History, promotion: Promotion) -> list[Step]:
    """Return when each live observer adopted the winner as master."""
    steps = []
    for observer in history.observers:
        if observer == promotion.winner:
            continue
        rows = history.views.get((observer, promotion.winner), [])
        after = [row for row in rows if row.valid_to_ns is None or row.valid_to_ns > promotion.ts_ns]
        row = next((row for row in after if adopts(row, promotion.epoch)), None)
        if row is not None and history.view_at(observer, promotion.winner, promotion.ts_ns) is not None:
            ts_ns, epoch = max(row.valid_from_ns, promotion.ts_ns), promotion.epoch or None
            step = Step(ts_ns, EventKind.ADOPTED, observer, promotion.winner, epoch, detail=row.cause, ref=row.ref)
            steps.append(step)
    return steps


def _old_master_steps(history: History, promotion: Promotion) -> list[Step]:
    """Return when the old master follows the winner."""
    old = promotion.old
    for span in history.header_claims.get(old, []):
        if span.from_ns <= promotion.ts_ns:
            continue
        if span.is_master and span.config_epoch >= promotion.epoch:
            break  # it is a master again
        if span.replicaof:
            epoch, offset = span.config_epoch, span.first_offset
            return [Step(span.from_ns, EventKind.DEMOTED, old, span.replicaof, epoch, offset, ref=span.first_ref)]
    return []


RESYNC_NS: Final = 60_000_000_000
"""Maximum time until a deposed live master requests a resynchronization."""


PING_BYTES: Final = 14
"""Bytes of a PING in the replication stream (P5)."""
PING_NS: Final = 10_000_000_000
"""Interval of these PINGs (repl-ping-replica-period)."""


def without_pings(behind: int, after_ns: int) -> int:
    """Return *behind*, or 0 if these bytes may be PINGs of the old master until *after_ns* after the win.

    >>> without_pings(14, 0), without_pings(300, 0)
    (0, 300)
    """
    pings, rest = divmod(behind, PING_BYTES)
    return 0 if not rest and pings <= 1 + max(after_ns, 0) // PING_NS else behind


def loss_of(history: History, old: str, won_ns: int, epoch: int, offset: int) -> Loss:
    """Return the loss when *old* was replaced at *won_ns* with *epoch* at *offset*."""
    spans = _as_master(history, old, won_ns, epoch)
    if not spans:
        return NOTHING_KNOWN
    last_ns = max((span.to_ns for span in spans if span.from_ns <= won_ns), default=won_ns)
    since_ns = _process_ns(history, old, EventKind.PROCESS_STARTED, 0, last_ns)[-1:]
    ended_ns = _process_ns(history, old, EventKind.PROCESS_ENDED, min(last_ns, won_ns), history.last_ns)[:1]
    spans = [span for span in spans if span.from_ns >= sum(since_ns)]
    again_ns = _process_ns(history, old, EventKind.PROCESS_STARTED, last_ns, history.last_ns)[:1]
    spans = [span for span in spans if not ended_ns or span.from_ns <= ended_ns[0]]
    spans = [span for span in spans if not again_ns or span.from_ns < again_ns[0]]  # the next process starts at zero
    if not spans:
        return NOTHING_KNOWN
    follows = (span.from_ns for span in history.header_claims[old] if span.from_ns > won_ns and span.replicaof)
    until_ns = ended_ns[0] if ended_ns else next(follows, None)
    heard_ns, best = spans[-1].to_ns, max(span.last_offset for span in spans)
    for seen in history.offsets.get(old, []):
        if seen.is_last:
            if not ended_ns and 0 <= seen.ts_ns - won_ns <= RESYNC_NS and seen.offset >= best:
                return Loss(without_pings(max(0, seen.offset - offset), seen.ts_ns - won_ns), 0)
        elif spans[0].from_ns <= seen.ts_ns <= (until_ns or history.last_ns) and seen.offset >= best:
            heard_ns, best = max(heard_ns, seen.ts_ns), seen.offset
    if _was_paused(history, old, won_ns) and offset >= best:
        return Loss(0, 0)
    unheard_ns = None if until_ns is None else max(0, until_ns - heard_ns)
    behind = without_pings(max(0, best - offset), heard_ns - won_ns)
    return Loss(behind, None if unheard_ns is None else -(-unheard_ns // 1_000_000))


def _as_master(history: History, old: str, won_ns: int, epoch: int) -> list[ClaimSpan]:
    """Return when the old master claimed the master role, also after the win until it learned of it."""
    claims: list[ClaimSpan] = []
    for span in history.header_claims.get(old, []):
        if not span.is_master:
            if span.from_ns > won_ns:
                break
            claims = []
        elif span.config_epoch < epoch:
            claims.append(span)
    return claims


def _process_ns(history: History, node: str, kind: EventKind, from_ns: int, to_ns: int) -> list[int]:
    """Return when a node's process ended or started within a period."""
    events = history.events_of(kind)
    return [event.ts_ns for event in events if event.observer == node and from_ns <= event.ts_ns <= to_ns]


def _was_paused(history: History, old: str, won_ns: int) -> bool:
    """Return whether the old master paused writes for its successor (R98, R99)."""
    return any(
        event.observer == old and 0 <= won_ns - event.ts_ns <= MANUAL_FAILOVER_NS
        for event in history.events_of("paused")
    )
