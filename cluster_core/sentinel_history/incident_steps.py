"""The steps of an incident: events of sentinels, votes, opinions and choices of a time, in order and in one form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cluster_core.incidents.incident import Step
from cluster_core.kinds import EventKind
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel_history.announcements import Announcement, read_announcement, read_switch
from cluster_core.sentinel_history.history import SentinelHistory
from cluster_core.sentinel_history.rows import ChoiceRow, EventRow

_KINDS: Final[dict[str, EventKind]] = {
    "+sdown": EventKind.S_DOWN,
    "-sdown": EventKind.S_DOWN_CLEARED,
    "+odown": EventKind.O_DOWN,
    "-odown": EventKind.O_DOWN_CLEARED,
    "+try-failover": EventKind.ELECTION_STARTED,
    "+elected-leader": EventKind.WON,
    "+failover-state-wait-promotion": EventKind.PROMOTION_ORDERED,
    "+promoted-slave": EventKind.PROMOTED,
    "+slave-reconf-sent": EventKind.RECONFIGURING,
    "+slave-reconf-sent-be": EventKind.RECONFIGURING,
    "+slave-reconf-done": EventKind.RECONFIGURED,
    "-slave-reconf-sent-timeout": EventKind.RECONFIGURING_TIMED_OUT,
    "+failover-end": EventKind.FAILOVER_DONE,
    "+failover-end-for-timeout": EventKind.FAILOVER_TIMED_OUT,
    "-failover-abort-not-elected": EventKind.NOT_ELECTED,
    "-failover-abort-no-good-slave": EventKind.NO_REPLICA,
    "-failover-abort-slave-timeout": EventKind.REPLICA_TIMED_OUT,
    "-failover-abort-master-timeout": EventKind.MASTER_TIMED_OUT,
    "+config-update-from": EventKind.TOLD_OF_SWITCH,
    "+convert-to-slave": EventKind.CONVERTED,
    "+fix-slave-config": EventKind.SENT_TO_MASTER,
    "+reboot": EventKind.REBOOTED,
    "-role-change": EventKind.ROLE_CHANGED,
    "+role-change": EventKind.ROLE_CHANGED,
    "+reset-master": EventKind.RESET,
    "+monitor": EventKind.MONITORED,
    "-monitor": EventKind.REMOVED,
}
"""Events that are steps, and the kinds of the steps."""
_OF_OTHERS: Final = frozenset({"+sdown", "-sdown", "-role-change", "+role-change", "+convert-to-slave", "+reboot"})
"""Events that are steps only where they are about a master, old or new."""


def steps_between(
    history: SentinelHistory,
    name: str,
    addresses: set[str],
    from_ns: int,
    to_ns: int,
    last_sign_ns: int | None,
    subject: str,
    *,
    is_failure: bool = False,
) -> tuple[Step, ...]:
    """What the sentinels of master *name* did from *from_ns* to *to_ns*, in order of time.

    *addresses* are those whose state is told, *subject* is the server whose last answer was at *last_sign_ns*; with
    *is_failure* what stood in the way of a failover is told, too.
    """
    steps: list[Step] = []
    if last_sign_ns is not None:
        steps.append(Step(last_sign_ns, EventKind.LAST_SIGN, subject, ""))
    signs = {(row.observer, row.ts_ns): row.last_ns for row in history.signs}
    epochs: dict[str, int] = {}
    forced = {row.observer for row in history.events if row.channel == "+odown"}
    for row in history.events:
        if row.channel == "+new-epoch":
            epochs[row.observer] = leading_number(row.text)
        if from_ns <= row.ts_ns <= to_ns:
            steps += _of_event(row, name, addresses, epochs, signs, forced)
    steps += _others(history, name, from_ns, to_ns)
    if is_failure:
        steps += _obstacles(steps, from_ns, to_ns)
    return tuple(sorted(steps, key=lambda step: step.ts_ns))


def _of_event(
    row: EventRow,
    name: str,
    addresses: set[str],
    epochs: dict[str, int],
    signs: dict[tuple[str, int], int | None],
    agreeing: set[str],
) -> Iterable[Step]:
    if row.channel == "+switch-master":
        switch = read_switch(row.text)
        if switch is not None and switch.master == name:
            yield Step(row.ts_ns, EventKind.SWITCHED, row.observer, str(switch.after), epochs.get(row.observer))
        return
    if row.channel == "failover-delayed":
        yield Step(row.ts_ns, EventKind.DELAYED, row.observer, "", detail=row.text)
        return
    kind = _KINDS.get(row.channel)
    said = read_announcement(row.text)
    address = str(said.address)
    if kind is None or said.master != name or (row.channel in _OF_OTHERS and address not in addresses):
        return
    epoch = (
        epochs.get(row.observer)
        if kind in (EventKind.ELECTION_STARTED, EventKind.WON, EventKind.PROMOTED, EventKind.NOT_ELECTED)
        else None
    )
    detail, amount = _detail(kind, row, said, signs)
    subject = said.name if said.role == "sentinel" else address
    yield Step(row.ts_ns, kind, row.observer, subject, epoch, amount, detail)


def _detail(
    kind: EventKind, row: EventRow, said: Announcement, signs: dict[tuple[str, int], int | None]
) -> tuple[str, int | None]:
    if kind == EventKind.S_DOWN:
        last_ns = signs.get((row.observer, row.ts_ns))
        return "", (row.ts_ns - last_ns) // 1_000_000 if last_ns is not None else None
    if kind == EventKind.O_DOWN:
        quorum = said.rest.removeprefix("#quorum ")
        return f"{quorum.replace('/', ' of ')} needed", leading_number(quorum)
    if kind == EventKind.ROLE_CHANGED:
        return said.rest.rpartition(" is ")[2], None
    return "", None


def _others(history: SentinelHistory, name: str, from_ns: int, to_ns: int) -> Iterable[Step]:
    """Votes, opinions and choices."""
    told: set[tuple[str, str, int]] = set()
    for vote in history.votes:
        if vote.master != name or not from_ns <= vote.ts_ns <= to_ns:
            continue
        key = (vote.voter, vote.candidate, vote.epoch)
        if vote.is_granted and key not in told:
            told.add(key)
            yield Step(vote.ts_ns, EventKind.VOTE, vote.voter, vote.candidate, vote.epoch)
        elif not vote.is_granted and key not in told:
            told.add(key)
            detail = f"{vote.granted_to} {vote.granted_epoch}" if vote.granted_to != "*" else ""
            yield Step(vote.ts_ns, EventKind.NO_VOTE, vote.voter, vote.candidate, vote.epoch, detail=detail)
    for opinion in history.opinions:
        if opinion.master == name and from_ns <= opinion.ts_ns <= to_ns:
            kind = EventKind.AGREES if opinion.says_down else EventKind.DISAGREES
            yield Step(opinion.ts_ns, kind, opinion.sentinel, opinion.observer)
    for choice in history.choices:
        if choice.master == name and from_ns <= choice.ts_ns <= to_ns:
            yield _choice_step(choice)


def _choice_step(choice: ChoiceRow) -> Step:
    detail = choice.why + (f"; not {'; not '.join(choice.against)}" if choice.against else "")
    kind = EventKind.CHOSEN if choice.chosen else EventKind.NONE_CHOSEN
    return Step(choice.ts_ns, kind, choice.observer, choice.chosen, amount=len(choice.against) + 1, detail=detail)


def _obstacles(steps: list[Step], from_ns: int, to_ns: int) -> Iterable[Step]:
    """Why nobody took over: the first thing that was missing."""
    kinds = {step.kind for step in steps}
    if EventKind.O_DOWN not in kinds:
        agreeing = {step.actor for step in steps if step.kind in (EventKind.S_DOWN, "agrees")}
        reason = "quorum"
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", amount=len(agreeing), detail=reason)
    elif EventKind.ELECTION_STARTED not in kinds:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="delayed" if "delayed" in kinds else "not started")
    elif "won" not in kinds:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="not elected")
    elif EventKind.NO_REPLICA in kinds:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="no replica")
    else:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="not finished")
