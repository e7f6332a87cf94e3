"""Outages: unserved slots by shard and for the cluster, with ranges of start and end (R106, R107).

A shard is a sequence of masters. It is out of service while its master is down, replies CLUSTERDOWN or is unreachable.
The next master serves from its promotion on unless it refuses; an old master that returns earlier also serves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.gossip.failure_detection import REJOIN_DELAY_MS_MAX
from cluster_core.history.processes import Restart
from cluster_core.history.promotions import HOLE, master_followed
from cluster_core.history.samples import CLOCK_NS, MISSED_POLLS, StateChange, silences
from cluster_core.history.service import (
    BRIEF_NS,
    NEVER,
    InterruptionReason,
    Interval,
    common,
    contiguous,
    joined,
    last_end,
    narrowed,
    union,
)
from cluster_core.history.statements import LINE_NS, TICK_NS, is_role
from cluster_core.incidents.finders.failovers import Promotion
from cluster_core.incidents.finders.failures import Episode, cleared_ns, earliest_ns, in_story_order
from cluster_core.incidents.history import History, PfailSpell
from cluster_core.incidents.incident import Incident, Step
from cluster_core.kinds import EventKind, IncidentKind, Source
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import slot_bits, slots_text

JOIN_NS: Final = 1_000_000_000
"""Maximum gap between outages of several shards in one incident."""
LINK_NS: Final = 150_000_000
"""Maximum time until a replica notices the end of its master's process."""
LEAVES: Final = (EventKind.ELECTION_WON, EventKind.TAKEOVER, EventKind.BECAME_REPLICA, EventKind.ADDRESS_UPDATED)
"""Events after which a replica closes the link to its master itself."""
UP_NS: Final = 150_000_000
"""Maximum time until a new master reports cluster state OK, if all other slots are served."""
FAIL_TIMEOUTS_MAX: Final = 3
"""Maximum node timeouts, plus a second, until a dead node is marked FAIL."""
UNCERTAIN_NS: Final = 500_000_000
"""A last sign of life later than the rule allows by more shows that a node has a shorter timeout, or another clock."""
REJOIN_NS: Final = (REJOIN_DELAY_MS_MAX + 1_000) * 1_000_000
"""Maximum time a returned master refuses, if nothing shows its cluster state (R106, R110)."""
STEP_KINDS: Final = {
    InterruptionReason.DOWN: EventKind.UNSERVED,
    InterruptionReason.REFUSED: EventKind.REFUSED,
    InterruptionReason.UNREACHED: EventKind.UNREACHED,
}


class Outage(NamedTuple):
    """The slots *bits* (None: unknown) of one shard were unserved; *shard* is its number."""

    shard: int
    interval: Interval
    bits: int | None


class Service(NamedTuple):
    """All outages of *shards* shards, and periods without any served shard."""

    outages: list[Outage]
    whole: list[Interval]

    def of(self, nodes: Iterable[str], from_ns: int, to_ns: int) -> list[Outage]:
        """Return outages of the shards of *nodes* within a period."""
        held = set(nodes)
        return [
            outage
            for outage in self.outages
            if outage.interval.node in held
            and outage.interval.near_ns <= to_ns
            and (outage.interval.to_max_ns is None or outage.interval.to_max_ns >= from_ns)
        ]


class _Tenure(NamedTuple):
    """*node* was master of a shard from one promotion to the next, None for the ends of the evidence."""

    node: str
    begin: Promotion | None
    end: Promotion | None


SHARDS_MIN: Final = 2
"""Minimum shards of a cluster outage: with one shard, others may be missing from the evidence."""


# -- shards -----------------------------------------------------------------------------------------------------------


def find_service(history: History, episodes: Sequence[Episode], promotions: Sequence[Promotion]) -> Service:
    """Return all outages in time order."""
    all_outages: list[Outage] = []
    shards = _shards(history, promotions)
    for number, tenures in enumerate(shards):
        parts = [part for tenure in tenures for part in _of_tenure(history, tenure, episodes)]
        for group in contiguous(interval for interval, _ in parts):
            begins = {gap[:4] for gap in group}
            known = [bits for gap, bits in parts if bits is not None and gap[:4] in begins]
            all_outages.append(Outage(number, union(group), max(known, key=int.bit_count) if known else None))
    whole: list[Interval] = []
    for group in joined(outage.interval for outage in all_outages):
        ts_ns = max(gap.from_max_ns for gap in group)
        serving = [at for at, tenures in enumerate(shards) if _serves(history, tenures, ts_ns)]
        out = [[outage for outage in all_outages if outage.shard == at and outage.interval in group] for at in serving]
        slots = reduce(or_, (outage.bits or 0 for outages in out for outage in outages), 0)
        if len(serving) >= SHARDS_MIN or slots.bit_count() == SLOT_COUNT:
            shared = common([[outage.interval for outage in outages] for outages in out])
            whole += [spell for spell in shared if spell.longest_ns is None or spell.longest_ns >= BRIEF_NS]
    return Service(sorted(all_outages, key=lambda outage: (outage.interval.from_max_ns, outage.shard)), whole)


def _shards(history: History, promotions: Sequence[Promotion]) -> list[list[_Tenure]]:
    """Return the masters of each shard in order."""
    ordered = sorted(promotions, key=lambda promotion: promotion.ts_ns)
    first: dict[str, bool] = {}
    for promotion in ordered:
        first.setdefault(promotion.old, True)
        first.setdefault(promotion.winner, False)
    begins: list[tuple[str, Promotion | None]] = [
        (node, None) for node in history.nodes if first.get(node, _was_master(history, node))
    ]
    begins += [(promotion.winner, promotion) for promotion in ordered if not promotion.old]
    shards = []
    for node, begin in begins:
        tenures: list[_Tenure] = []
        while node:
            after = 0 if begin is None else begin.ts_ns
            end = next((promotion for promotion in ordered if promotion.old == node and promotion.ts_ns > after), None)
            tenures.append(_Tenure(node, begin, end))
            node, begin = (end.winner, end) if end is not None else ("", None)
        shards.append(tenures)
    return shards


def _was_master(history: History, node: str) -> bool:
    own = history.views.get((node, node))
    views = own or [row for observer in history.observers for row in history.views.get((observer, node), ())]
    return any(is_role(row, "master") for row in views)


def _serves(history: History, tenures: Sequence[_Tenure], ts_ns: int) -> bool:
    """Return whether a shard has slots then, as far as known."""
    tenure = next((held for held in tenures if held.end is None or ts_ns <= held.end.ts_ns), tenures[-1])
    bits = _slots(history, tenure, ts_ns)
    is_owner = tenure.begin or tenure.end or tenure.node in history.known_owners
    return bool(is_owner if bits is None else bits)


def _of_tenure(history: History, tenure: _Tenure, episodes: Sequence[Episode]) -> Iterator[tuple[Interval, int | None]]:
    """Yield the outages of a master, each with its slots (None: unknown)."""
    begin, end = tenure.begin, tenure.end
    for lack in _lacks(history, tenure.node, episodes):
        if begin is not None:
            has_ended = lack.to_max_ns is not None and lack.to_max_ns <= begin.min_ns
            if has_ended or (
                lack.lack is not InterruptionReason.REFUSED and lack.from_max_ns < begin.min_ns
            ):  # voters reached it
                continue
            lack = lack.started_after(begin.min_ns, begin.ts_ns)
        if end is not None:
            is_ordered = end.variant in ("manual", "unknown")
            if lack.from_min_ns >= end.ts_ns or (is_ordered and lack.from_max_ns > end.min_ns):
                continue
            if lack.to_max_ns is None or lack.to_max_ns > end.ts_ns:
                lack = lack._replace(to_min_ns=end.min_ns, to_max_ns=end.ts_ns + _unseen_ns(history, end.winner))
            lack = lack._replace(from_max_ns=min(lack.from_max_ns, end.ts_ns))
        lack = lack._replace(
            to_min_ns=max(lack.to_min_ns, lack.from_min_ns), from_max_ns=max(lack.from_max_ns, lack.from_min_ns)
        )
        bits = _slots(history, tenure, lack.from_max_ns)
        least_ns = LINE_NS if lack.shortest_ns else TICK_NS
        if bits != 0 and (lack.longest_ns is None or lack.longest_ns > least_ns):
            yield lack, bits


def _unseen_ns(history: History, winner: str) -> int:
    """Return the maximum time a new master may refuse, if no log or header shows cluster state OK."""
    return 0 if history.lines.of_node.get(winner) or history.header_claims.get(winner) else UP_NS


def _slots(history: History, tenure: _Tenure, ts_ns: int) -> int | None:
    """Return a master's slots; 0 for none, None if unknown."""
    if tenure.begin is not None:
        ts_ns = max(ts_ns, tenure.begin.header_ns)  # its headers show them only later
    if tenure.end is not None:
        ts_ns = min(ts_ns, tenure.end.min_ns - 1)
    row = history.view_at(tenure.node, tenure.node, ts_ns)
    promoted = slot_bits(tenure.begin.slots) if tenure.begin is not None else 0
    if row is not None and is_role(row, "slave"):
        return promoted
    bits = history.slots_owned(tenure.node, ts_ns) or promoted
    if bits or history.header_claim_at(tenure.node, ts_ns) is not None:
        return bits
    views = (history.view_at(observer, tenure.node, ts_ns) for observer in history.observers)
    is_known = any(view is not None and view.evidence in (Source.POLL, Source.CAPTURE, Source.RULE) for view in views)
    return 0 if is_known else None


# -- one master --------------------------------------------------------------------------------------------------------


def _lacks(history: History, node: str, episodes: Sequence[Episode]) -> list[Interval]:
    """Return the periods in which *node* did not serve, whatever its slots."""
    restarts = [ended for ended in history.restarts if ended.node == node]
    lacks = [down_of(history, ended) for ended in restarts]
    cut_off: list[Interval] = []  # not limited by its own answers
    for episode in episodes:
        if (
            episode.subject == node
            and not episode.talked
            and (episode.agreed or (episode.by_most and episode.back_ns is not None))
        ):
            if episode.alive_ns is None:
                _add(lacks, _silence(history, episode))
            else:
                cut_off.append(_silence(history, episode))
    for lack in silences(history.samples, node, history.alive_ns(node)):
        if not any(restart.is_within(lack.from_min_ns, lack.to_max_ns) for restart in restarts):
            _add(lacks, lack)
    served = [
        sample
        for source in Source
        for sample in history.samples.get((node, source), ())
        if sample.cluster_ok is not None
    ]
    if not (served or history.lines.of_node.get(node) or history.header_claims.get(node)):
        lacks = [
            lack if lack.to_max_ns is None else lack._replace(to_max_ns=lack.to_max_ns + REJOIN_NS) for lack in lacks
        ]
    limited = (_limited(lack, served) for lack in lacks)
    ordered = (_since_order(lack, restarts) for lack in limited)
    return [*ordered, *cut_off, *_refusals(history, node), *_lost_id(history, node)]


def _lost_id(history: History, node: str) -> Iterator[Interval]:
    """Yield the outage since a process has a new id: the slots of the old one stay unserved until another node takes them."""
    for old, _, ts_ns in history.resets:
        if old == node:
            bits = history.slots_owned(node, ts_ns - 1)
            owners = [other for other in history.nodes if bits & history.slots_owned(other, history.last_ns)]
            is_open = bool(bits) and set(owners) <= {node}
            end_ns = None if is_open else max(ts_ns, history.last_ns)
            yield Interval(node, InterruptionReason.DOWN, ts_ns, ts_ns, ts_ns, end_ns)


def _add(intervals: list[Interval], silence: Interval) -> None:
    """Add a silence; a known outage is only narrowed."""
    for at, interval in enumerate(intervals):
        begins_before_end = interval.to_max_ns is None or silence.from_max_ns <= interval.to_max_ns
        ends_after_begin = silence.to_max_ns is None or interval.from_max_ns <= silence.to_max_ns
        if begins_before_end and ends_after_begin:
            intervals[at] = narrowed(interval, silence)
            return
    intervals.append(silence)


def _since_order(interval: Interval, restarts: Sequence[Restart]) -> Interval:
    """Return an outage from the logged order to stop on: the process answers, but waits for replicas and saves."""
    orders = (
        restart.end_min_ns
        for restart in restarts
        if restart.how == "stopped"
        and restart.end_min_ns <= interval.from_max_ns
        and interval.from_min_ns <= restart.end_max_ns
    )
    return interval._replace(from_min_ns=min([interval.from_min_ns, *orders]))


def _limited(interval: Interval, samples: Sequence[MetricSample]) -> Interval:
    """Narrow an outage by the node's replies: with state OK, it started later or had ended."""
    for sample in samples:
        if not sample.cluster_ok:
            continue
        if interval.from_min_ns < sample.ts_min_ns and sample.ts_ns <= interval.from_max_ns:
            interval = interval._replace(from_min_ns=sample.ts_min_ns)
        if sample.ts_min_ns >= max(interval.from_max_ns, interval.to_min_ns) and (
            interval.to_max_ns is None or sample.ts_ns < interval.to_max_ns
        ):
            interval = interval._replace(to_max_ns=sample.ts_ns)
    return interval


def down_of(history: History, restart: Restart) -> Interval:
    """Return the outage from the end of a process until the next one accepts connections."""
    low, high = restart.end_min_ns, restart.end_max_ns
    claim = history.header_claim_at(restart.node, high)
    if claim is not None and claim.to_ns <= high:
        low = max(low, claim.to_ns) if low < high else min(low, claim.to_ns)
    answered = history.polled_ns.get(restart.node, ())
    at = bisect_left(answered, high - CLOCK_NS) if restart.source is Source.LOG else 0
    low = max(low, answered[at - 1]) if at else low
    low, high = _by_replicas(history, restart.node, low, high)
    precision = LINE_NS if restart.source is Source.LOG else 0
    ready_ns = restart.ready_ns or restart.start_ns
    return Interval(restart.node, InterruptionReason.DOWN, low, high, restart.earliest_ready_ns, ready_ns + precision)


def _by_replicas(history: History, node: str, low_ns: int, high_ns: int) -> tuple[int, int]:
    """Narrow the end of a process by replicas that lost their connection."""
    lost = [
        line.ts_ns
        for line in history.lines.of_kinds(low_ns, high_ns + LINK_NS, EventKind.MASTER_LINK_LOST)
        if line.observer != node
        and not history.is_failing(node, line.ts_ns)  # a replica that hung notices late
        and master_followed(history.lines, line.observer, line.ts_ns) == node
        and not history.lines.between(line.observer, line.ts_ns - LINK_NS, line.ts_ns + LINK_NS, *LEAVES)
    ]
    if not lost:
        return low_ns, high_ns
    first = next(ts_ns for ts_ns in lost if ts_ns >= lost[-1] - LINK_NS)
    return max(low_ns, lost[-1] - LINK_NS), min(high_ns, first + LINE_NS)


def _silence(history: History, episode: Episode) -> Interval:
    """Return the outage of an unresponsive node: a node timeout before the first PFAIL."""
    node, timeout_ns = episode.subject, history.thresholds.timeout_ns if history.thresholds.is_known else 0
    ended = [
        event
        for event in history.events_of(EventKind.PROCESS_ENDED, EventKind.PROCESS_IDLE)
        if event.observer == node and episode.covers(event.ts_ns)
    ]
    high = min(spell.from_ns + (TICK_NS if _is_by_rule(history, spell) else 0) for spell in episode.spells) - timeout_ns
    high = min([high] + [row.ts_ns for row in ended if row.kind == EventKind.PROCESS_ENDED])
    low = episode.silent_from_ns
    if low is None:
        own = [line.ts_ns for line in history.lines.of_node.get(node, ()) if line.ts_ns <= high]
        low = max([history.first_ns, *own[-1:]])
        if timeout_ns:
            low = max(low, episode.from_ns - FAIL_TIMEOUTS_MAX * timeout_ns - 1_000_000_000)
    if low > high + UNCERTAIN_NS:
        high = max(low, episode.from_ns)
    high = min(high, _missed_poll_ns(history, node, low) or high)
    low, high = _by_replicas(history, node, min(low, high), max(low, high))
    back_ns = cleared_ns(history, episode.spells) if episode.back_ns is None else episode.back_ns
    has_headers = bool(history.header_claims.get(node))
    marked = [
        earliest_ns(history, spell, spell.from_ns)
        for spell in episode.spells
        if spell.fail_ns is None or spell.from_ns < spell.fail_ns
    ]
    decided = [row.ts_ns for row in history.events_of(EventKind.FAIL_DECIDED) if row.subject == node]
    down_ns = max([high, *marked, *(ts_ns for ts_ns in decided if episode.covers(ts_ns))])
    back_min_ns = max(high, (back_ns or 0) - TICK_NS) if has_headers else min(down_ns, back_ns or down_ns)
    to_min_ns = down_ns if back_ns is None else back_min_ns
    is_polled = not has_headers and bool(history.answered_ns.get(node))
    is_dead = bool(ended) or (is_polled and episode.alive_ns is None)
    return Interval(
        node,
        InterruptionReason.DOWN if is_dead else InterruptionReason.UNREACHED,
        low,
        high,
        max(to_min_ns, high),
        back_ns,
    )


def _is_by_rule(history: History, spell: PfailSpell) -> bool:
    """Return whether only a rule dates an observer's mark: its timer may run a tick later."""
    view = history.view_at(spell.observer, spell.subject, spell.from_ns)
    marked = history.lines.between(spell.observer, spell.from_ns - TICK_NS, spell.from_ns + TICK_NS, EventKind.PFAIL)
    return view is not None and view.evidence is Source.RULE and all(other.subject != spell.subject for other in marked)


def _missed_poll_ns(history: History, node: str, last_ns: int) -> int | None:
    """Return when the first missed poll after *last_ns* was due; None if none is known."""
    answers, pause_ns = history.answered_ns.get(node, ()), history.poll_pause_ns(node)
    at = bisect_right(answers, last_ns)
    if not pause_ns or not at or (at < len(answers) and answers[at] - last_ns < MISSED_POLLS * pause_ns):
        return None
    return answers[at - 1] + int(HOLE * pause_ns)


def _refusals(history: History, node: str) -> Iterator[Interval]:
    """Yield periods in which a node had cluster state FAIL."""
    down: StateChange | None = None
    for change in history.states.get(node, ()):
        if not change.is_up:
            down = down or change
        elif down is not None:
            yield Interval(node, InterruptionReason.REFUSED, down.min_ns, down.max_ns, change.min_ns, change.max_ns)
            down = None
    if down is not None:
        refused = (
            sample.ts_min_ns
            for source in Source
            for sample in history.samples.get((node, source), ())
            if sample.cluster_ok is False
        )
        yield Interval(node, InterruptionReason.REFUSED, down.min_ns, down.max_ns, max([down.max_ns, *refused]), None)


# -- incidents --------------------------------------------------------------------------------------------------------


def outage_step(outage: Outage) -> Step:
    """Return an outage as a step: slots, and ranges of start and end."""
    interval, bits = outage.interval, outage.bits
    return Step(
        interval.from_max_ns,
        STEP_KINDS[interval.lack],
        interval.node,
        "",
        amount=None if bits is None else bits.bit_count(),
        detail="" if bits is None else slots_text(bits),
        until_ns=interval.to_max_ns,
        min_ns=interval.from_min_ns,
        until_min_ns=interval.to_min_ns,
    )


def lengths(outages: Sequence[Interval]) -> dict[str, Any]:
    """Return the minimum and maximum duration of the longest outage."""
    if not outages:
        return {}
    worst = max(outages, key=lambda outage: NEVER if outage.longest_ns is None else outage.longest_ns)
    longest = worst.longest_ns
    return {
        "outage_min_ms": worst.shortest_ns // 1_000_000,
        "outage_ms": None if longest is None else longest // 1_000_000,
    }


def find_outages(service: Service, incidents: Sequence[Incident]) -> list[Incident]:
    """Return outages of several shards, and those outside other incidents."""
    known = {
        (step.actor, step.ts_ns)
        for incident in incidents
        for step in incident.steps
        if step.kind in STEP_KINDS.values()
    }
    unexplained = []
    for group in joined((outage.interval for outage in service.outages), JOIN_NS):
        outages = [outage for outage in service.outages if outage.interval in group]
        if len({outage.shard for outage in outages}) > 1 or not all(
            (outage.interval.node, outage.interval.from_max_ns) in known for outage in outages
        ):
            unexplained.append(_outage(service, outages))
    return unexplained


def _outage(service: Service, outages: Sequence[Outage]) -> Incident:
    intervals = [outage.interval for outage in outages]
    steps = [outage_step(outage) for outage in outages]
    whole = [
        interval
        for interval in service.whole
        if any(
            other.near_ns <= interval.from_max_ns
            and (other.to_max_ns is None or interval.from_max_ns <= other.to_max_ns)
            for other in intervals
        )
    ]
    bits, is_known = 0, all(outage.bits is not None for outage in outages)
    for outage in outages:
        bits |= outage.bits or 0
    steps += [
        Step(
            spell.from_max_ns, EventKind.CLUSTER_UNSERVED, outages[0].interval.node, "", amount=SLOT_COUNT,
            until_ns=spell.to_max_ns, min_ns=spell.from_min_ns, until_min_ns=spell.to_min_ns,
        )
        for spell in whole
    ]  # fmt: skip
    nodes = tuple(dict.fromkeys(interval.node for interval in intervals))
    return Incident(
        kind=IncidentKind.OUTAGE,
        variant="whole cluster" if whole else "some shards" if len(nodes) > 1 else "one shard",
        subject=nodes[0] if len(nodes) == 1 else "",
        started_ns=min(interval.from_max_ns for interval in intervals),
        ended_ns=last_end(interval.to_max_ns for interval in intervals),
        nodes=nodes,
        slots=slots_text(bits) if is_known else "",
        slot_count=bits.bit_count() if is_known else None,
        steps=in_story_order(steps),
        **lengths(whole or intervals),
    )
