"""Merge similar steps of many nodes, repeated log lines, and findings on many nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from cluster_core.history.service import NEVER
from cluster_core.incidents.incident import Finding, Step, short
from cluster_core.kinds import EventKind

T = TypeVar("T")
Key = tuple[object, ...]

MANY: Final = 8
"""Number of similar steps to merge; smaller clusters show each."""
ALIKE: Final = (
    EventKind.VOTE, EventKind.VOTER_GONE, EventKind.FORGOTTEN, EventKind.KNOWN_AGAIN, EventKind.MET,
    EventKind.REPLICA_ATTACHED,
)  # fmt: skip
"""Steps of many nodes merged if their details are equal."""
MIXED: Final = (
    EventKind.PFAIL, EventKind.REPORT, EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED, EventKind.TRUSTED,
    EventKind.ADOPTED, EventKind.FOLLOWS, EventKind.NO_VOTE, EventKind.VOTE_REFUSED, EventKind.LAST_SIGN,
    EventKind.BACK, EventKind.PROCESS_ENDED, EventKind.PROCESS_IDLE, EventKind.CUT_OFF, EventKind.PROCESS_STARTED, EventKind.UNSERVED,
    EventKind.UNREACHED, EventKind.NO_REPLICA, EventKind.BARRED, EventKind.ELECTION_SCHEDULED,
    EventKind.ELECTION_STALLED, EventKind.ELECTION_RESET, EventKind.DEMOTED, EventKind.REFUSED,
)  # fmt: skip
"""Steps of many nodes merged with different details."""
ANY_SUBJECT: Final = (
    EventKind.MET, EventKind.REPLICA_ATTACHED, EventKind.LAST_SIGN, EventKind.BARRED, EventKind.FOLLOWS,
    EventKind.DEMOTED,
)  # fmt: skip
"""Of these, steps with different subjects."""
SUMMED: Final = (EventKind.UNSERVED, EventKind.UNREACHED, EventKind.REFUSED)
"""Steps with amounts that add up, such as slots of different nodes."""
REPEATED: Final = (
    EventKind.ELECTION_STALLED,
    EventKind.ELECTION_SCHEDULED,
    EventKind.ELECTION_RESET,
    EventKind.VOTE_REFUSED,
)
"""Steps that a node logs repeatedly."""
NAMED_MAX: Final = 5
REFS_MAX: Final = 100


def runs(
    items: Iterable[T], gap_ns: int, begins: Callable[[T], int], ends: Callable[[T], int] | None = None
) -> list[list[T]]:
    """Group *items* in runs: each starts at most *gap_ns* after the latest end before it."""
    groups: list[list[T]] = []
    until_ns = 0
    for item in items:
        if groups and begins(item) - until_ns <= gap_ns:
            groups[-1].append(item)
        else:
            groups.append([item])
            until_ns = 0
        until_ns = max(until_ns, (ends or begins)(item))
    return groups


def grouped(steps: Iterable[Step]) -> list[Step]:
    """Merge similar steps; *steps* and groups are in time order."""
    once = _merged_by(steps, _by_actor, 1)
    return _merged_by(once, _by_nodes, MANY)


def _merged_by(steps: Iterable[Step], key_of: Callable[[Step], Key | None], least: int) -> list[Step]:
    """Merge steps with the same key by at least *least* nodes; steps without key stay."""
    groups: dict[Key, list[Step]] = {}
    for place, step in enumerate(steps):
        groups.setdefault(key_of(step) or (place,), []).append(step)
    merged: list[Step] = []
    for group in groups.values():
        is_summed = group[0].kind in SUMMED  # each node counts once: not those of two outages
        for part in runs(group, 0, lambda step: step.ts_ns, _end) if is_summed else [group]:
            merged += [_joined(part)] if len({step.actor for step in part}) >= least else part
    return merged


def _end(step: Step) -> int:
    return NEVER if step.until_ns is None else step.until_ns


def _by_actor(step: Step) -> Key | None:
    return (step.kind, step.actor, step.subject, step.detail) if step.kind in REPEATED else None


def _by_nodes(step: Step) -> Key | None:
    if step.kind not in ALIKE and step.kind not in MIXED:
        return None
    subject = "" if step.kind in ANY_SUBJECT else step.subject
    return step.kind, subject, step.epoch, "" if step.kind in MIXED else step.detail, step.rests_on_gap


def _joined(group: list[Step]) -> Step:
    """Return one step with the start of the first and the end of the last."""
    first = group[0]
    if len(group) == 1:
        return first
    until_ns = max(step.until_ns or step.ts_ns for step in group)
    actors = len({step.actor for step in group})
    amount = _sum(group) if first.kind in SUMMED else first.amount
    return first._replace(
        subject=_only(step.subject for step in group),
        detail=_only(step.detail for step in group),
        amount=amount,
        until_ns=until_ns if until_ns > first.ts_ns else None,
        actors=actors,
    )


def _sum(group: Iterable[Step]) -> int | None:
    """Return the sum of the largest amounts of the nodes; None if one is unknown."""
    amounts: dict[str, int] = {}
    for step in group:
        if step.amount is None:
            return None
        amounts[step.actor] = max(step.amount, amounts.get(step.actor, 0))
    return sum(amounts.values())


def _only(texts: Iterable[str]) -> str:
    """Return the common value, or nothing."""
    distinct = set(texts)
    return distinct.pop() if len(distinct) == 1 else ""


def grouped_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings that differ in their nodes only."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.code), []).append(finding)
    merged: list[Finding] = []
    for group in groups.values():
        nodes = list(dict.fromkeys(finding.node for finding in group))
        merged += [_finding(group, nodes)] if len(nodes) >= MANY else group
    return merged


def _finding(group: list[Finding], nodes: list[str]) -> Finding:
    worst = max(group, key=lambda finding: finding.amount or 0)
    other_nodes = [short(node) for node in nodes if node != worst.node]
    named = ", ".join(other_nodes[:NAMED_MAX]) + (" …" if len(other_nodes) > NAMED_MAX else "")
    return worst._replace(
        node="",
        other="",
        first_ns=min((finding.first_ns for finding in group if finding.first_ns is not None), default=None),
        last_ns=max((finding.last_ns for finding in group if finding.last_ns is not None), default=None),
        times=sum(finding.times for finding in group),
        text=f"{worst.text}; the same of {len(other_nodes)} more nodes, less or as much: {named}",
        refs=tuple(ref for finding in group for ref in finding.refs[:1])[:REFS_MAX],
    )
