"""Failures: unreachable nodes, from their last message until peers see them healthy again (R51 to R55)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster_core.history.processes import SAME_NS, Restart, Resync
from cluster_core.history.samples import MISSED_POLLS, StateChange
from cluster_core.history.service import last_end
from cluster_core.incidents.grouping import grouped
from cluster_core.incidents.header_claims import ClaimSpan
from cluster_core.incidents.history import History, PfailSpell
from cluster_core.incidents.incident import Incident, Step, milliseconds
from cluster_core.kinds import EventKind, IncidentKind, Source


class Episode(NamedTuple):
    """A continuous period in which at least one observer marked *subject* PFAIL or FAIL.

    *silent_from_ns*: its last message, None if unknown; *back_ns*: its next one; *talked*: it kept sending; *alive_ns*:
    it answered a poll or missed others while they did not reach it.
    """

    subject: str
    spells: tuple[PfailSpell, ...]
    from_ns: int
    to_ns: int | None
    silent_from_ns: int | None
    silent_ref: int
    back_ns: int | None
    back_ref: int
    agreed: bool
    by_most: bool
    talked: bool
    alive_ns: int | None

    @property
    def is_cut_off(self) -> bool:
        """Return whether its process was active while the others did not reach it."""
        return self.talked or self.alive_ns is not None

    @property
    def started_ns(self) -> int:
        """Return the start: the last message, if any."""
        return self.from_ns if self.silent_from_ns is None else min(self.silent_from_ns, self.from_ns)

    @property
    def fail_ns(self) -> int | None:
        """Return when the first observer marked it FAIL."""
        return min((spell.fail_ns for spell in self.spells if spell.fail_ns is not None), default=None)

    def covers(self, ts_ns: int) -> bool:
        """Return whether a time is within the period."""
        return self.started_ns <= ts_ns and (self.to_ns is None or ts_ns <= self.to_ns)


def find_episodes(history: History) -> list[Episode]:
    """Return all such periods in time order."""
    episodes: list[Episode] = []
    for subject, spells in history.pfail_spells.items():
        group: list[PfailSpell] = []
        until: int | None = 0
        for spell in spells:
            if group and until is not None and spell.from_ns > until + history.thresholds.together_ns:
                episodes.append(_episode(history, subject, group))
                group, until = [], 0
            group.append(spell)
            until = None if until is None or spell.to_ns is None else max(until, spell.to_ns)
        episodes.append(_episode(history, subject, group))
    return sorted(episodes, key=lambda episode: (episode.started_ns, episode.subject))


def _episode(history: History, subject: str, spells: list[PfailSpell]) -> Episode:
    from_ns = min(spell.from_ns for spell in spells)
    ends = [spell.to_ns for spell in spells]
    to_ns = last_end(ends)
    last, back = _silence(history, subject, from_ns)
    signs_ns = _answers_around(history, subject, from_ns) if not history.header_claims.get(subject) else (None, None)
    silent_from_ns, back_ns = last.to_ns if last else signs_ns[0], back.from_ns if back else signs_ns[1]
    if back is None and back_ns is not None:  # polls of a silent node are rare
        back_ns = min(back_ns, cleared_ns(history, spells) or back_ns)
    cleared = [earliest_ns(history, spell, spell.to_ns) for spell in spells if spell.to_ns is not None]
    observers = {spell.observer for spell in spells}
    knowing = [
        observer
        for observer in history.observers
        if observer != subject and history.view_at(observer, subject, from_ns)
    ]
    return Episode(
        subject,
        tuple(spells),
        from_ns,
        to_ns,
        silent_from_ns,
        last.last_ref if last else -1,
        back_ns,
        back.first_ref if back else -1,
        agreed=any(spell.fail_ns is not None for spell in spells),
        by_most=2 * len(observers) > len(knowing),
        talked=last is None and _talks(history, subject, from_ns, to_ns),
        alive_ns=_alive_ns(history, subject, from_ns, [back_ns, *cleared]),
    )


def _answers_around(history: History, subject: str, pfail_ns: int) -> tuple[int | None, int | None]:
    """Return the last reply or log line of a node before PFAIL, and the first one after.

    Logs alone do not date the last healthy moment, as a node may have nothing to log.
    """
    polled_ns = history.answered_ns.get(subject, ())
    if not polled_ns or polled_ns[0] > pfail_ns:
        return None, None
    answered_ns = max(ts_ns for ts_ns in polled_ns if ts_ns <= pfail_ns)
    lines = [line.ts_ns for line in history.lines.of_node.get(subject, ()) if line.ts_ns > answered_ns]
    last_ns = max([answered_ns, *(ts_ns for ts_ns in lines if ts_ns <= pfail_ns)])
    downs = [
        (restart.end_min_ns, restart.ready_ns or restart.start_ns)
        for restart in history.restarts
        if restart.node == subject
    ]
    signs = [ts_ns for ts_ns in (*polled_ns, *lines) if ts_ns > pfail_ns]
    signs = [ts_ns for ts_ns in signs if not any(low_ns <= ts_ns < ready_ns for low_ns, ready_ns in downs)]
    next_ns = min(signs, default=None)  # a process that stops or loads logs, but does not answer
    was_silent = next_ns is None or next_ns - last_ns >= MISSED_POLLS * history.poll_pause_ns(subject)
    return (last_ns, next_ns) if was_silent else (None, None)


def earliest_ns(history: History, spell: PfailSpell, ts_ns: int) -> int:
    """Return the earliest time an observer can have set or cleared its mark at *ts_ns*; a reply shows it later."""
    view = history.view_at(spell.observer, spell.subject, ts_ns)
    if view is None or view.evidence is not Source.POLL or view.valid_from_min_ns is None:
        return ts_ns
    return view.valid_from_min_ns


def cleared_ns(history: History, spells: Iterable[PfailSpell]) -> int | None:
    """Return when the first observer cleared PFAIL or FAIL; None if none did."""
    return min(
        (
            spell.to_ns
            for spell in spells
            if spell.to_ns is not None and history.view_at(spell.observer, spell.subject, spell.to_ns) is not None
        ),
        default=None,
    )


def _alive_ns(history: History, subject: str, from_ns: int, ends: Sequence[int | None]) -> int | None:
    """Return when a node, marked PFAIL, first answered or logged that it missed others; None if it was restarted.

    Signs near the first of *ends* prove nothing: a stopped process writes and answers at once when it is continued.
    Other log lines prove nothing, either: they may be earlier, by a clock that is ahead.
    """
    end_ns = min((end for end in ends if end is not None), default=history.last_ns)
    if any(restart.node == subject and restart.is_within(from_ns, end_ns) for restart in history.restarts):
        return None
    last_ns = end_ns - history.thresholds.silence_ns
    signs = [line.ts_ns for line in history.lines.between(subject, from_ns, last_ns, *MISSED_OTHERS)]
    signs += [ts_ns for ts_ns in history.answered_ns.get(subject, ()) if from_ns <= ts_ns <= last_ns]
    return min(signs, default=None)


def _talks(history: History, subject: str, from_ns: int, to_ns: int | None) -> bool:
    """Return whether a node sent messages from before PFAIL until its end, or for a node timeout."""
    until_ns = from_ns + history.thresholds.timeout_ns
    until_ns = until_ns if to_ns is None else min(to_ns, until_ns)
    at_ns = from_ns
    for span in history.header_claims.get(subject, []):
        if span.from_ns <= at_ns + history.thresholds.silence_ns and span.to_ns > at_ns:
            at_ns = span.to_ns
    before = history.header_claim_at(subject, from_ns)
    return before is not None and at_ns + history.thresholds.silence_ns >= until_ns and at_ns > from_ns


def _silence(history: History, subject: str, pfail_ns: int) -> tuple[ClaimSpan | None, ClaimSpan | None]:
    """Return the spans before and after the silence behind PFAIL; None, None if it kept sending."""
    spans = history.header_claims.get(subject, [])
    for at, span in enumerate(spans):
        back = spans[at + 1] if at + 1 < len(spans) else None
        if span.silent_after and span.to_ns <= pfail_ns and (back is None or back.from_ns > pfail_ns):
            return span, back
    return None, None


def is_failure(history: History, episode: Episode) -> bool:
    """Return whether FAIL was decided, or most nodes had PFAIL for longer than a decision takes."""
    if episode.agreed:
        return True
    end_ns = history.last_ns if episode.to_ns is None else episode.to_ns
    return episode.by_most and end_ns - episode.from_ns > 2 * history.thresholds.timeout_ns


def failure_of(history: History, episode: Episode, more: Iterable[Step], figures: Mapping[str, Any]) -> Incident:
    """Return a failure; *more* holds obstacles and other lost nodes, *figures* the service interruption."""
    steps = [*failure_steps(history, episode), *more]
    variant = "agreed" if episode.agreed else "not agreed"
    return Incident(
        kind=IncidentKind.FAILURE,
        variant=variant,
        subject=episode.subject,
        started_ns=min(step.ts_ns for step in steps),
        ended_ns=episode.to_ns,
        nodes=tuple(dict.fromkeys(spell.observer for spell in episode.spells)),
        silence_to_pfail_ms=milliseconds(episode.silent_from_ns, episode.from_ns),
        silence_to_fail_ms=milliseconds(episode.silent_from_ns, episode.fail_ns),
        steps=in_story_order(steps),
        **figures,
    )


def failure_steps(history: History, episode: Episode) -> list[Step]:
    """Return last message, first PFAIL per observer, reports, FAIL decisions, return (R51 to R55b)."""
    subject = episode.subject
    steps: list[Step] = []
    if episode.silent_from_ns is not None:
        steps.append(Step(episode.silent_from_ns, EventKind.LAST_SIGN, subject, subject, ref=episode.silent_ref))
    for observer, spell in _first_by_observer(episode.spells).items():
        if spell.fail_ns is None or spell.from_ns < spell.fail_ns:
            steps.append(Step(spell.from_ns, EventKind.PFAIL, observer, subject, ref=spell.ref, detail=spell.cause))
    steps += _process_steps(history, episode)
    steps += _report_steps(history, episode)
    steps += _verdict_steps(history, episode)
    if episode.back_ns is not None:
        steps.append(Step(episode.back_ns, EventKind.BACK, subject, subject, ref=episode.back_ref))
    for spell in episode.spells:
        if spell.to_ns is not None:
            after = history.view_at(spell.observer, subject, spell.to_ns)
            ref = after.ref if after is not None else -1
            kind = EventKind.TRUSTED if after is not None else EventKind.FORGOTTEN
            steps.append(Step(spell.to_ns, kind, spell.observer, subject, ref=ref))
    return steps


MISSED_OTHERS: Final = (EventKind.STATE_FAIL, EventKind.PFAIL, EventKind.FAIL_DECIDED)
"""Log lines of a node that others are out of its reach (R53, R54, R108)."""
UNSERVED: Final = (EventKind.UNSERVED, EventKind.UNREACHED, EventKind.REFUSED, EventKind.CLUSTER_UNSERVED)
"""Steps on slots without service."""


def _process_steps(history: History, episode: Episode) -> list[Step]:
    """Return the reason for the silence, from connections or its log."""
    steps = [
        Step(event.ts_ns, event.kind, episode.subject, episode.subject, ref=event.ref)
        for event in history.process_events.get(episode.subject, ())
        if episode.covers(event.ts_ns)
    ]
    for restart in history.restarts:
        if restart.node != episode.subject or not restart.is_within(episode.started_ns, episode.to_ns):
            continue
        if not any(
            abs(step.ts_ns - restart.start_ns) <= SAME_NS and step.kind == EventKind.PROCESS_STARTED for step in steps
        ):
            steps += restart_steps(restart)
    if episode.alive_ns is not None:
        steps.append(Step(episode.alive_ns, EventKind.CUT_OFF, episode.subject, episode.subject))
    return steps


def restart_steps(restart: Restart) -> list[Step]:
    """Return the end of a process, if known, and the start of the next one."""
    steps = []
    if restart.how or restart.end_min_ns == restart.end_max_ns:
        steps.append(Step(restart.end_max_ns, EventKind.PROCESS_ENDED, restart.node, restart.node, detail=restart.how))
    steps.append(Step(restart.start_ns, EventKind.PROCESS_STARTED, restart.node, restart.node, amount=restart.loaded))
    return steps


def resync_steps(resync: Resync) -> list[Step]:
    """Return the steps of a resynchronization: failed attempts, and the success."""
    node, master, detail = resync.node, resync.master, "flushed" if resync.flushed else ""
    steps = []
    if resync.failed:
        steps.append(Step(resync.first_ns, EventKind.RESYNC_ASKED, node, master, amount=resync.failed))
    if resync.done:
        kind = EventKind.FULL_RESYNC if resync.full else EventKind.MASTER_LINK_UP
        steps.append(Step(resync.from_ns, kind, node, master, amount=resync.keys, detail=detail, until_ns=resync.to_ns))
    return steps


def has_ended(history: History, episode: Episode) -> bool:
    """Return whether its process ended, as its start shows, too; this excludes a network partition."""
    shown = (EventKind.PROCESS_ENDED, EventKind.PROCESS_STARTED)
    return any(step.kind in shown for step in _process_steps(history, episode))


def state_steps(history: History, from_ns: int, to_ns: int) -> list[Step]:
    """Return the number of nodes with cluster state FAIL, and of those that recovered (R107).

    A process starts in FAIL in any case (R106).
    """
    down: dict[str, StateChange] = {}
    up: dict[str, StateChange] = {}
    for node, changes in history.states.items():
        for change in changes:
            if not from_ns <= change.max_ns <= to_ns or change.is_start:
                continue
            if not change.is_up:
                down.setdefault(node, change)
            elif node in down:
                up[node] = change
    steps = []
    for kind, changes_of_kind in ((EventKind.STATE_FAIL, down), (EventKind.STATE_OK, up)):
        if changes_of_kind:
            ordered = sorted(changes_of_kind, key=lambda node: (changes_of_kind[node].max_ns, node))
            first_ns, last_ns = changes_of_kind[ordered[0]].max_ns, changes_of_kind[ordered[-1]].max_ns
            steps.append(Step(first_ns, kind, ordered[0], "", amount=len(changes_of_kind), until_ns=last_ns))
    return steps


def _first_by_observer(spells: tuple[PfailSpell, ...]) -> dict[str, PfailSpell]:
    first: dict[str, PfailSpell] = {}
    for spell in spells:
        first.setdefault(spell.observer, spell)
    return first


def _report_steps(history: History, episode: Episode) -> list[Step]:
    """Return the first report per reporter, and the number of observers it reached before FAIL."""
    by_reporter: dict[str, list[tuple[int, str, int]]] = {}
    before_ns = episode.fail_ns or episode.to_ns or history.last_ns
    for row in history.reports_of.get(episode.subject, []):
        if episode.covers(row.valid_from_ns):
            by_reporter.setdefault(row.reporter, []).append((row.valid_from_ns, row.observer, row.ref))
    steps = []
    for reporter, reports in by_reporter.items():
        from_ns, _, ref = reports[0]
        if from_ns <= before_ns:
            first = {observer: ts_ns for ts_ns, observer, _ in reversed(reports) if ts_ns <= before_ns}
            until_ns = max(first.values())
            steps.append(
                Step(
                    from_ns, EventKind.REPORT, reporter, episode.subject, amount=len(first), ref=ref, until_ns=until_ns
                )
            )
    return steps


def _verdict_steps(history: History, episode: Episode) -> list[Step]:
    """Return the FAIL decision and its receivers; an earlier log line or poll replaces the message."""
    steps: list[Step] = []
    for event in history.events_of(EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED):
        if event.subject != episode.subject or not episode.covers(event.ts_ns):
            continue
        reporter_count = None
        if event.kind == EventKind.FAIL_DECIDED:
            reporter_count = len(history.reports_at(event.observer, event.subject, event.ts_ns, event.ts_ns))
            reporter_count = (
                None if not reporter_count and event.ref < 0 else reporter_count
            )  # logs show reports at level verbose only
        steps.append(Step(event.ts_ns, event.kind, event.observer, event.subject, amount=reporter_count, ref=event.ref))
    markers = {step.actor for step in steps}
    for spell in episode.spells:
        if spell.fail_ns is not None and spell.observer not in markers:
            markers.add(spell.observer)
            steps.append(
                Step(spell.fail_ns, EventKind.FAIL_LEARNED, spell.observer, episode.subject, ref=spell.fail_ref)
            )
    return steps


STEP_ORDER = (
    EventKind.LAST_SIGN, EventKind.PROCESS_ENDED, *UNSERVED, EventKind.PROCESS_IDLE, "pfail", EventKind.CUT_OFF, EventKind.VOTER_GONE, "report", EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED, EventKind.NO_REPLICA, "barred", EventKind.STATE_FAIL, EventKind.MANUAL_FAILOVER_REQUESTED,
    EventKind.MANUAL_FAILOVER_MFSTART, "paused", EventKind.MANUAL_FAILOVER_PAUSED, EventKind.ELECTION_SCHEDULED, EventKind.ELECTION_STALLED, EventKind.ELECTION_STARTED,
    "vote", EventKind.NO_VOTE, EventKind.VOTE_REFUSED, "won", EventKind.TOOK_OVER, "adopted", "follows", EventKind.PROCESS_STARTED, "back", "demoted", "trusted", EventKind.STATE_OK,
)  # fmt: skip
"""Order of steps at one instant: causes first."""


def in_story_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps of an incident in order, with similar ones merged."""
    return tuple(sorted(grouped(sorted(steps, key=step_order)), key=step_order))


def step_order(step: Step) -> tuple[int, int, str, str]:
    """Return the sort key of steps."""
    rank = STEP_ORDER.index(step.kind) if step.kind in STEP_ORDER else len(STEP_ORDER)
    return step.ts_ns, rank, step.actor, step.subject
