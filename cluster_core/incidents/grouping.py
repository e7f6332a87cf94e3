"""Many alike told as one: steps of many nodes, a wait that is told again and again, findings about many nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from cluster_core.incidents.incident import Finding, Step, short
from cluster_core.kinds import EventKind, FindingCode

T = TypeVar("T")
MANY: Final = 8
"""So many alike are one: as many as a small cluster has nodes are told one by one."""
BY_NODES: Final = (
    EventKind.PFAIL, EventKind.REPORT, EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED, EventKind.ADOPTED, EventKind.TRUSTED, EventKind.FORGOTTEN, EventKind.KNOWN_AGAIN, EventKind.VOTE, EventKind.NO_VOTE,
    EventKind.VOTER_GONE, EventKind.MET, EventKind.REPLICA_ATTACHED,
)  # fmt: skip
"""Steps that differ by their actor alone; of a few the subject may differ, too."""
ANY_SUBJECT: Final = (EventKind.MET, EventKind.REPLICA_ATTACHED)
REPEATED: Final = (
    EventKind.ELECTION_STALLED,
    EventKind.ELECTION_SCHEDULED,
    EventKind.ELECTION_RESET,
    EventKind.VOTE_REFUSED,
)
"""What logs of one node tell again and again."""
MIXED: Final = (EventKind.PFAIL, EventKind.ADOPTED)
"""Steps whose causes may differ within a group."""
SEPARATE: Final = (FindingCode.GOSSIP_COST,)
"""Findings that are a table of their own."""
NAMED_MAX: Final = 5
REFS_MAX: Final = 100


def runs(
    items: Iterable[T], gap_ns: int, begins: Callable[[T], int], ends: Callable[[T], int] | None = None
) -> list[list[T]]:
    """Put *items* that follow one another together: each begins *gap_ns* after the latest end before it at most."""
    found: list[list[T]] = []
    until_ns = 0
    for item in items:
        if found and begins(item) - until_ns <= gap_ns:
            found[-1].append(item)
        else:
            found.append([item])
            until_ns = 0
        until_ns = max(until_ns, (ends or begins)(item))
    return found


def grouped(steps: Iterable[Step]) -> list[Step]:
    """Join steps that are alike; *steps* are in order of time, and so are the groups by their first ones."""
    groups: dict[tuple[object, ...], list[Step]] = {}
    for place, step in enumerate(steps):
        groups.setdefault(_key(step, place), []).append(step)
    told: list[Step] = []
    for group in groups.values():
        if group[0].kind in REPEATED or len({step.actor for step in group}) >= MANY:
            told.append(_joined(group))
        else:
            told += group
    return told


def _key(step: Step, place: int) -> tuple[object, ...]:
    if step.kind in BY_NODES:
        detail = "" if step.kind in MIXED else step.detail
        return step.kind, "" if step.kind in ANY_SUBJECT else step.subject, step.epoch, detail
    if step.kind in REPEATED:
        return step.kind, step.actor, step.subject, step.detail
    return (place,)


def _joined(group: list[Step]) -> Step:
    """One step for all: the first one's, until the last one."""
    first = group[0]
    if len(group) == 1:
        return first
    until_ns = max(step.until_ns or step.ts_ns for step in group)
    causes = {step.detail for step in group}
    return first._replace(
        subject=first.subject if len({step.subject for step in group}) == 1 else "",
        detail=first.detail if len(causes) == 1 else "",
        until_ns=until_ns if until_ns > first.ts_ns else None,
        actors=len({step.actor for step in group}),
    )


def grouped_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings of one code and severity that differ by their nodes alone."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.severity, one.code), []).append(one)
    told: list[Finding] = []
    for (_, code), group in groups.items():
        nodes = list(dict.fromkeys(one.node for one in group))
        told += [_finding(group, nodes)] if code not in SEPARATE and len(nodes) >= MANY else group
    return told


def _finding(group: list[Finding], nodes: list[str]) -> Finding:
    worst = max(group, key=lambda one: one.amount or 0)
    others = [short(node) for node in nodes if node != worst.node]
    named = ", ".join(others[:NAMED_MAX]) + (" …" if len(others) > NAMED_MAX else "")
    return worst._replace(
        node="",
        other="",
        first_ns=min((one.first_ns for one in group if one.first_ns is not None), default=None),
        last_ns=max((one.last_ns for one in group if one.last_ns is not None), default=None),
        times=sum(one.times for one in group),
        text=f"{worst.text}; the same of {len(others)} more nodes, less or as much: {named}",
        refs=tuple(ref for one in group for ref in one.refs[:1])[:REFS_MAX],
    )
