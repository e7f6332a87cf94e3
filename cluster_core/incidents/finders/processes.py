"""Incidents of processes and data: restarts, rolling restarts, resynchronizations, masters restarted empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from cluster_core.history.processes import LINKED_NS, SAME_NS, DataLoss, Restart, Resync, data_losses
from cluster_core.history.samples import emptied
from cluster_core.history.statements import is_role
from cluster_core.incidents.finders.failures import in_story_order, restart_steps, resync_steps
from cluster_core.incidents.finders.outages import Service, lengths, outage_step
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.history import History, slots_text
from cluster_core.incidents.incident import Incident, Step
from cluster_core.kinds import EventKind, IncidentKind

ROLLING_MIN: Final = 3
"""Minimum nodes of a restart of several."""
ROLLING_NS: Final = 300_000_000_000
"""Maximum pause between its restarts."""


def find_restarts(history: History, told: Iterable[Incident], service: Service) -> list[Incident]:
    """Return restarts of several nodes, rolling or together, and single ones outside of *told*."""
    covered = [one for one in told if one.kind in (IncidentKind.FAILOVER, IncidentKind.FAILURE)]
    found = []
    for group in runs(
        history.restarts, ROLLING_NS, lambda one: one.end_max_ns, lambda one: one.ready_ns or one.start_ns
    ):
        nodes = list(dict.fromkeys(one.node for one in group))
        if len(nodes) >= ROLLING_MIN:
            found.append(_restart(history, group, "together" if _overlaps(group) else "rolling", service))
        else:
            found += [
                _restart(history, [one], one.how or "cause unknown", service)
                for one in group
                if not _is_told(one, covered)
            ]
    return found


def _overlaps(group: Sequence[Restart]) -> bool:
    """Return whether two of the nodes were down at the same time."""
    by_end = sorted(group, key=lambda one: one.end_max_ns)
    started = accumulate((one.start_ns for one in by_end), max)
    return any(later.end_max_ns < start_ns for start_ns, later in zip(started, by_end[1:], strict=False))


def _is_told(restart: Restart, incidents: Iterable[Incident]) -> bool:
    """Return whether a failover or failure has this restart as a step."""
    return any(
        step.kind == EventKind.PROCESS_STARTED
        and step.actor == restart.node
        and abs(step.ts_ns - restart.start_ns) <= SAME_NS
        for one in incidents
        for step in one.steps
    )


def _restart(history: History, group: Sequence[Restart], variant: str, service: Service) -> Incident:
    steps: list[Step] = []
    for one in group:
        steps += restart_steps(one)
        steps += [step for resync in history.resyncs if _belongs(resync, one) for step in resync_steps(resync)]
    nodes = tuple(dict.fromkeys(one.node for one in group))
    outages = [
        outage
        for one in group
        for outage in service.of((one.node,), one.end_max_ns, one.start_ns)
        if outage.interval.from_max_ns <= one.start_ns
    ]
    steps += [outage_step(one) for one in outages]
    slots = {one.shard: one.bits for one in outages if one.bits is not None}
    ends = [one.ready_ns or one.start_ns for one in group]
    first = min(group, key=lambda one: one.end_max_ns)
    return Incident(
        kind=IncidentKind.RESTART,
        variant=variant,
        subject=nodes[0] if len(nodes) == 1 else "",
        started_ns=min(first.end_max_ns, min(step.ts_ns for step in steps)),
        ended_ns=max(ends),
        nodes=nodes,
        slots=slots_text(sum(slots.values())),
        slot_count=sum(bits.bit_count() for bits in slots.values()) if slots else None,
        steps=in_story_order(steps),
        **lengths([one.interval for one in outages]),
    )


def _belongs(resync: Resync, restart: Restart) -> bool:
    """Return whether a replica synchronized because it or its master restarted."""
    until_ns = (restart.ready_ns or restart.start_ns) + 60_000_000_000
    return restart.node in (resync.node, resync.master) and restart.start_ns <= resync.from_ns <= until_ns


def find_resyncs(history: History, told: Sequence[Incident]) -> list[Incident]:
    """Return full resynchronizations outside other incidents; partial ones lose nothing and are steps only."""
    known = {(step.actor, step.ts_ns) for one in told for step in one.steps if step.kind == EventKind.FULL_RESYNC}
    found = []
    for one in history.resyncs:
        is_first = not any(
            line.ts_ns < one.from_ns and line.kind == EventKind.MASTER_LINK_UP
            for line in history.lines.of_node.get(one.node, ())
        )
        if one.full and not is_first and (one.node, one.from_ns) not in known:
            steps = resync_steps(one)
            found.append(
                Incident(
                    kind=IncidentKind.RESYNC,
                    variant="full",
                    subject=one.node,
                    winner=one.master,
                    started_ns=one.from_ns,
                    ended_ns=one.to_ns,
                    nodes=(one.node,),
                    steps=tuple(steps),
                )
            )
    return found


def find_data_losses(history: History) -> list[Incident]:
    """Return masters that restarted empty, with replicas that copied the empty data set."""
    logged = {one.restart: one for one in data_losses(history.restarts, history.resyncs, history.lines)}
    sampled = {one: loss for one in history.restarts if (loss := _sampled_loss(history, one)) is not None}
    for restart, one in logged.items():
        known = {resync.node for resync in one.wiped}
        more = sampled[restart].wiped if restart in sampled else ()
        sampled[restart] = one._replace(wiped=(*one.wiped, *(other for other in more if other.node not in known)))
    return [_loss(history, sampled[one]) for one in history.restarts if one in sampled]


def _sampled_loss(history: History, restart: Restart) -> DataLoss | None:
    """Return the loss shown by INFO: a master had keys before its restart and none after."""
    node, start_ns = restart.node, restart.start_ns
    until_ns = (restart.ready_ns or start_ns) + LINKED_NS
    gone = emptied(history.samples, node, restart.end_min_ns, until_ns)
    if restart.loaded or gone is None or not _is_master(history, node, gone[1]):
        return None
    wiped = []
    for other in history.nodes:
        view = history.view_at(other, other, restart.end_min_ns)
        followed = view is not None and view.master_id == node
        if followed and (span := emptied(history.samples, other, restart.end_min_ns, until_ns)) is not None:
            wiped.append(Resync(other, node, max(span[0], start_ns), span[1], full=True, flushed=True, keys=0))
    return DataLoss(node, restart, tuple(wiped))


def _is_master(history: History, node: str, ts_ns: int) -> bool:
    view = history.view_at(node, node, ts_ns)
    return view is not None and is_role(view, "master") and bool(history.slots_owned(node, ts_ns))


def _loss(history: History, one: DataLoss) -> Incident:
    steps = restart_steps(one.restart) + [step for resync in one.wiped for step in resync_steps(resync)]
    bits = history.slots_owned(one.master, one.restart.start_ns)
    return Incident(
        kind=IncidentKind.DATA_LOSS,
        variant="empty master",
        subject=one.master,
        started_ns=min(step.ts_ns for step in steps),
        ended_ns=max(
            [one.restart.ready_ns or one.restart.start_ns, *(resync.to_ns or resync.from_ns for resync in one.wiped)]
        ),
        nodes=tuple(dict.fromkeys(resync.node for resync in one.wiped)),
        slots=slots_text(bits) if bits else "",
        slot_count=bits.bit_count() if bits else None,
        steps=in_story_order(steps),
    )
