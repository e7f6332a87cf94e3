"""Membership and replica changes other than by failover (R56 to R61, R82, R103)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause
from cluster_core.incidents.finders.failovers import Promotion
from cluster_core.incidents.grouping import grouped, runs
from cluster_core.incidents.history import RENAMED, History
from cluster_core.incidents.incident import Incident, Step
from cluster_core.kinds import EventKind, IncidentKind

MET: Final = (Cause.HANDSHAKE_ANSWERED, Cause.MEET, Cause.NODE_GOSSIPED)
"""Causes of a new node, as opposed to one known before the capture (R46, R56, R57)."""
REPLACED_NS: Final = 600_000_000_000
"""Maximum time between a node's FORGET and its replacement joining the shard."""
HANDSHAKES: Final = (Cause.HANDSHAKE_ANSWERED, Cause.MEET)
"""Causes that also count at an observer older than the capture; gossip introduces nodes at any time."""
KNOWN_AGAIN: Final = (*MET, Cause.OWN_GOSSIP, Cause.OWN_LINK, Cause.POLL)
"""Causes of an unknown node becoming known."""


def find_memberships(history: History, promotions: list[Promotion], emptied: dict[str, int]) -> list[Incident]:
    """Return nodes joined, forgotten and replaced, reset ids, and attached or moved replicas; unordered.

    *emptied*: when nodes gave away their last slot; their new master is part of that incident.
    """
    resets = history.resets
    joins, forgotten = _joins(history), _forgotten(history, resets)
    attachments = _attachments(history, promotions, emptied) + _joined_as_replicas(history, joins)
    replaced = _replacements(history, promotions, joins, attachments, forgotten)
    parts = {
        id(part) for membership in replaced for part in (membership.join, membership.attachment, membership.forgotten)
    }
    return [
        *_bursts(history, "joined", [step for step in joins if id(step) not in parts]),
        *[membership for membership in forgotten if id(membership) not in parts],
        *[_renamed(history, old, new, ts_ns) for old, new, ts_ns in resets],
        *_bursts(history, "replicas changed", [step for step in attachments if id(step) not in parts]),
        *[_replaced(membership) for membership in replaced],
    ]


def _bursts(history: History, variant: str, steps: list[Step]) -> list[Incident]:
    """Return one incident per burst of changes."""
    ordered = sorted(steps, key=lambda step: (step.ts_ns, step.actor, step.subject))
    groups = runs(
        ordered, history.thresholds.pause_ns, lambda step: step.ts_ns, lambda step: step.until_ns or step.ts_ns
    )
    return [_burst(variant, group) for group in groups]


def _burst(variant: str, steps: list[Step]) -> Incident:
    nodes = tuple(dict.fromkeys(step.actor for step in steps))
    return Incident(
        kind=IncidentKind.MEMBERSHIP,
        variant=variant,
        subject=nodes[0] if len(nodes) == 1 else "",
        started_ns=steps[0].ts_ns,
        ended_ns=max(step.until_ns or step.ts_ns for step in steps),
        nodes=nodes,
        steps=tuple(grouped(steps)),
    )


# -- joined and forgotten --------------------------------------------------------------------------------------------


def _joins(history: History) -> list[Step]:
    """Return nodes that completed a handshake, unless most nodes knew them already."""
    steps: list[Step] = []
    for node in history.nodes:
        seen = [
            (rows[0].valid_from_ns, observer, rows[0].cause, rows[0].ref)
            for observer in history.observers
            if observer != node and (rows := history.views.get((observer, node)))
        ]
        is_met = any(
            cause in HANDSHAKES or (cause in MET and _was_new(history, witness)) for _, witness, cause, _ in seen
        )
        seen.sort()
        if not is_met and not (
            seen and all(_is_fresh(history, witness, cause, ts_ns, seen[0][0]) for ts_ns, witness, cause, _ in seen)
        ):
            continue
        first_ns, introducer, _, ref = seen[0]
        until_ns, count = first_ns, 0
        for ts_ns, *_ in seen:  # a node that joins later learns all at once
            if ts_ns - until_ns > history.thresholds.pause_ns:
                break
            until_ns, count = ts_ns, count + 1
        steps.append(Step(first_ns, EventKind.MET, node, introducer, amount=count, ref=ref, until_ns=until_ns))
    return steps


def _is_fresh(history: History, observer: str, cause: Cause, ts_ns: int, first_ns: int) -> bool:
    """Return whether a reply shows a node that the previous reply did not, or the first reply came after *first_ns*."""
    answered_ns = history.answered_ns.get(observer, [])
    return cause == Cause.POLL and bool(answered_ns) and (answered_ns[0] < ts_ns or first_ns < answered_ns[0])


def _was_new(history: History, observer: str) -> bool:
    """Return whether a process was observed from its start, without known nodes."""
    own = history.views.get((observer, observer), [])
    return bool(own) and own[0].cause in ("assumed new", *RENAMED)


def _forgotten(history: History, resets: list[tuple[str, str, int]]) -> list[Incident]:
    """Return live nodes that live observers dropped (R61), and observers that dropped all others at once: CLUSTER RESET (R82)."""
    reset_ns = {old: ts_ns for old, _, ts_ns in resets}
    by_node: dict[str, list[Step]] = {}
    at_once: dict[tuple[str, int], list[Step]] = {}
    for (observer, node), rows in history.views.items():
        for at, row in enumerate(rows):
            end_ns = row.valid_to_ns
            after = rows[at + 1] if at + 1 < len(rows) else None
            following = after.valid_from_ns if after is not None else None
            if end_ns is None or following == end_ns or observer == node:
                continue
            if after is not None and after.cause not in KNOWN_AGAIN:
                continue  # only an earlier-dated change of slots
            if reset_ns.get(observer, end_ns + 1) <= end_ns:
                continue  # the observer forgot all nodes with its own id
            at_once.setdefault((observer, end_ns), []).append(Step(end_ns, EventKind.FORGOTTEN, observer, node))
            if after is not None:
                again = Step(after.valid_from_ns, EventKind.KNOWN_AGAIN, observer, node, ref=after.ref)
                by_node.setdefault(node, []).append(again)
    incidents = []
    for (observer, ts_ns), steps in at_once.items():
        knows = (history.view_at(observer, node, ts_ns) for node in history.nodes if node != observer)
        if len(steps) > 1 and not any(knows):
            incidents.append(_reset(observer, "", ts_ns, (observer,), steps))
            continue
        for step in steps:
            by_node.setdefault(step.subject, []).append(step)
    for node, steps in by_node.items():
        if all(step.kind == EventKind.KNOWN_AGAIN for step in steps):
            continue  # met again by an observer that was reset
        steps.sort(key=lambda change: (change.ts_ns, change.actor))
        observers = tuple(dict.fromkeys(step.actor for step in steps if step.kind == EventKind.FORGOTTEN))
        incidents.append(
            Incident(
                kind=IncidentKind.MEMBERSHIP,
                variant="forgotten",
                subject=node,
                started_ns=steps[0].ts_ns,
                ended_ns=steps[-1].ts_ns,
                nodes=observers,
                steps=tuple(grouped(steps)),
            )
        )
    return incidents


class _Replacement(NamedTuple):
    """A node that joined the shard of a forgotten one."""

    join: Step
    attachment: Step
    forgotten: Incident


def _replacements(
    history: History, promotions: list[Promotion], joins: list[Step], attachments: list[Step], forgotten: list[Incident]
) -> list[_Replacement]:
    """Pair each forgotten node with one that joined its shard at about the same time."""
    attached = {step.actor: step for step in attachments if step.kind == EventKind.REPLICA_ATTACHED}
    left = {gone.subject for gone in forgotten}
    free = [step for step in joins if step.actor in attached and step.actor not in left]
    replacements = []
    for gone in forgotten:
        shard = _shard_of(history, promotions, gone.subject, gone.started_ns)
        fits = [
            step
            for step in free
            if attached[step.actor].subject in shard and abs(step.ts_ns - gone.started_ns) <= REPLACED_NS
        ]
        if fits:
            join = min(fits, key=lambda step: abs(step.ts_ns - gone.started_ns))
            free.remove(join)
            replacements.append(_Replacement(join, attached[join.actor], gone))
    return replacements


def _shard_of(history: History, promotions: list[Promotion], node: str, ts_ns: int) -> set[str]:
    """Return *node*, its master, and successors, before or after *ts_ns*."""
    claim = history.claim_at(node, ts_ns)
    shard = {node, claim.replicaof} if claim is not None and claim.replicaof else {node}
    for promotion in sorted(promotions, key=lambda turn: turn.ts_ns):
        if promotion.old in shard:
            shard.add(promotion.winner)
    return shard


def _replaced(replacement: _Replacement) -> Incident:
    steps = sorted(
        (replacement.join, replacement.attachment, *replacement.forgotten.steps), key=lambda step: step.ts_ns
    )
    return Incident(
        kind=IncidentKind.MEMBERSHIP,
        variant="replaced",
        subject=replacement.forgotten.subject,
        winner=replacement.join.actor,
        started_ns=steps[0].ts_ns,
        ended_ns=max(step.until_ns or step.ts_ns for step in steps),
        nodes=(replacement.forgotten.subject, replacement.join.actor),
        steps=tuple(steps),
    )


def _renamed(history: History, old: str, new: str, ts_ns: int) -> Incident:
    step = Step(ts_ns, EventKind.NEW_ID, old, new, ref=history.views[new, new][0].ref)
    return _reset(old, new, ts_ns, (new,), [step])


def _reset(node: str, new: str, ts_ns: int, nodes: tuple[str, ...], steps: list[Step]) -> Incident:
    """Return CLUSTER RESET of *node*, which has the id *new* now; empty for the same id."""
    return Incident(
        kind=IncidentKind.MEMBERSHIP,
        variant="reset",
        subject=node,
        winner=new,
        started_ns=ts_ns,
        ended_ns=ts_ns,
        nodes=nodes,
        steps=tuple(steps),
    )


# -- replicas --------------------------------------------------------------------------------------------------------


def _attachments(history: History, promotions: list[Promotion], emptied: dict[str, int]) -> list[Step]:
    """Return nodes with a new master other than by failover: by command, or migration (R103 to R105)."""
    steps: list[Step] = []
    for node, spans in history.claims.items():
        for before, after in pairwise(spans):
            if not after.replicaof or after.replicaof == before.replicaof:
                continue
            old, new, ts_ns = before.replicaof, after.replicaof, after.from_ns
            if _follows_winner(promotions, node, old, new, ts_ns):
                continue
            if emptied.get(node) == ts_ns or is_follower(history, emptied, old, new, ts_ns):
                continue
            kind = EventKind.REPLICA_MOVED if old else EventKind.REPLICA_ATTACHED
            steps.append(Step(ts_ns, kind, node, new, after.config_epoch, ref=after.first_ref))
    return steps


def _joined_as_replicas(history: History, joins: list[Step]) -> list[Step]:
    """Return nodes that are replicas when first seen."""
    steps = []
    for join in joins:
        first = next(iter(history.claims.get(join.actor, [])), None)
        if first is not None and first.replicaof:
            ts_ns = max(first.from_ns, join.ts_ns)
            step = Step(
                ts_ns, EventKind.REPLICA_ATTACHED, join.actor, first.replicaof, first.config_epoch, ref=first.first_ref
            )
            steps.append(step)
    return steps


def _follows_winner(promotions: list[Promotion], node: str, old: str, new: str, ts_ns: int) -> bool:
    """Return whether a failover explains a change of master: the old master or its replicas follow the winner."""
    masters = {old or node}
    for promotion in sorted(promotions, key=lambda turn: turn.ts_ns):
        if promotion.ts_ns <= ts_ns and promotion.old in masters:
            masters.add(promotion.winner)
            if promotion.winner == new:
                return True
    return False


def is_follower(history: History, emptied: dict[str, int], old: str, new: str, ts_ns: int) -> bool:
    """Return whether a replica follows its master, which gave away its last slot, to the new owner (R66)."""
    at_ns = emptied.get(old)
    if at_ns is None or not 0 <= ts_ns - at_ns <= history.thresholds.pause_ns:
        return False
    claim = history.claim_at(old, ts_ns)
    return claim is not None and claim.replicaof == new
