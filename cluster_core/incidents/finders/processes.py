"""Incidents of processes and data: restarts, rolling restarts, resynchronizations, masters restarted empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from operator import or_
from typing import Final

from cluster_core.history.processes import SAME_NS, DataLoss, Restart, Resync, copies_until_ns, data_losses
from cluster_core.history.samples import emptied
from cluster_core.history.statements import is_role
from cluster_core.incidents.finders.failures import in_story_order, restart_steps, resync_steps
from cluster_core.incidents.finders.outages import Service, down_of, lengths, outage_step
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.slots.slot_set import slots_text

ROLLING_MIN: Final = 3
"""Minimum nodes of a restart of several."""
DOWN_NS_MIN: Final = 1_000_000_000
"""Shortest time in which a killed process is replaced."""
ROLLING_NS: Final = 300_000_000_000
"""Maximum pause between its restarts."""


def find_restarts(history: History, incidents: Iterable[Incident], service: Service) -> list[Incident]:
    """Return restarts of several nodes, rolling or together, and single ones outside of *incidents*."""
    covered = [incident for incident in incidents if incident.kind in (IncidentKind.FAILOVER, IncidentKind.FAILURE)]
    incidents_found = []
    for group in runs(
        history.restarts,
        ROLLING_NS,
        lambda restart: restart.end_max_ns,
        lambda restart: restart.ready_ns or restart.start_ns,
    ):
        nodes = list(dict.fromkeys(restart.node for restart in group))
        if len(nodes) >= ROLLING_MIN:
            variant = "together" if _overlaps(history, group) else "rolling"
            incidents_found.append(_restart(history, group, variant, service))
        else:
            incidents_found += [
                _restart(history, [restart], restart.how or "cause unknown", service)
                for restart in group
                if not _is_covered(restart, covered)
            ]
    return incidents_found


def _overlaps(history: History, group: Sequence[Restart]) -> bool:
    """Return whether two of the nodes were down at the same time; of a killed process only the next start may be known."""
    by_start = sorted(group, key=lambda restart: restart.start_ns)
    if any(not later.how and later.start_ns - start.start_ns < DOWN_NS_MIN for start, later in pairwise(by_start)):
        return True
    downs = sorted((_down_by_ns(history, restart), restart.start_ns) for restart in group)
    started = accumulate((start_ns for _, start_ns in downs), max)
    return any(end_ns < start_ns for start_ns, (end_ns, _) in zip(started, downs[1:], strict=False))


def _down_by_ns(history: History, restart: Restart) -> int:
    """Return the latest end of the process; one that others marked PFAIL had ended before."""
    marks = (spell.from_ns for spell in history.pfail_spells.get(restart.node, ()))
    return min(
        [
            down_of(history, restart).from_max_ns,
            *(ts_ns for ts_ns in marks if restart.end_min_ns <= ts_ns <= restart.start_ns),
        ]
    )


def _is_covered(restart: Restart, incidents: Iterable[Incident]) -> bool:
    """Return whether a failover or failure has this restart as a step."""
    return any(
        step.kind == EventKind.PROCESS_STARTED
        and step.actor == restart.node
        and abs(step.ts_ns - restart.start_ns) <= SAME_NS
        for incident in incidents
        for step in incident.steps
    )


def _restart(history: History, group: Sequence[Restart], variant: str, service: Service) -> Incident:
    steps = [step for restart in group for step in restart_steps(restart)]
    for resync in history.resyncs:
        if any(_belongs(resync, restart) for restart in group):
            steps += resync_steps(resync)
    nodes = tuple(dict.fromkeys(restart.node for restart in group))
    outages = [
        outage
        for restart in group
        for outage in service.of((restart.node,), restart.end_max_ns, restart.start_ns)
        if outage.interval.from_max_ns <= restart.start_ns
    ]
    steps += [outage_step(lost) for lost in outages]
    known = [lost.bits for lost in outages if lost.bits is not None]
    bits = reduce(or_, known, 0)  # slots may have moved between two outages
    ends = [restart.ready_ns or restart.start_ns for restart in group]
    first = min(group, key=lambda restart: restart.end_max_ns)
    return Incident(
        kind=IncidentKind.RESTART,
        variant=variant,
        subject=nodes[0] if len(nodes) == 1 else "",
        started_ns=min(first.end_max_ns, min(step.ts_ns for step in steps)),
        ended_ns=max(ends),
        nodes=nodes,
        slots=slots_text(bits),
        slot_count=bits.bit_count() if known else None,
        steps=in_story_order(steps),
        **lengths([lost.interval for lost in outages]),
    )


def _belongs(resync: Resync, restart: Restart) -> bool:
    """Return whether a replica synchronized because it or its master restarted."""
    until_ns = (restart.ready_ns or restart.start_ns) + 60_000_000_000
    return restart.node in (resync.node, resync.master) and restart.start_ns <= resync.from_ns <= until_ns


def find_resyncs(history: History, incidents: Sequence[Incident]) -> list[Incident]:
    """Return full resynchronizations outside other incidents; partial ones lose nothing and are steps only."""
    known = {
        (step.actor, step.ts_ns)
        for incident in incidents
        for step in incident.steps
        if step.kind in (EventKind.FULL_RESYNC, EventKind.RESYNC_ASKED)
    }
    incidents_found = []
    for resync in history.resyncs:
        is_first = not any(
            line.ts_ns < resync.from_ns and line.kind == EventKind.MASTER_LINK_UP
            for line in history.lines.of_node.get(resync.node, ())
        )
        steps = resync_steps(resync)
        if (resync.full or resync.failed) and not is_first and (resync.node, steps[0].ts_ns) not in known:
            incidents_found.append(
                Incident(
                    kind=IncidentKind.RESYNC,
                    variant="full",
                    subject=resync.node,
                    winner=resync.master,
                    started_ns=resync.first_ns,
                    ended_ns=resync.to_ns,
                    nodes=(resync.node,),
                    steps=tuple(steps),
                )
            )
    return incidents_found


def find_data_losses(history: History) -> list[Incident]:
    """Return masters that restarted empty, with replicas that copied the empty data set."""
    logged = {
        data_loss.restart: data_loss for data_loss in data_losses(history.restarts, history.resyncs, history.lines)
    }
    sampled = {ended: loss for ended in history.restarts if (loss := _sampled_loss(history, ended)) is not None}
    for restart, data_loss in logged.items():
        known = {resync.node for resync in data_loss.wiped}
        more = sampled[restart].wiped if restart in sampled else ()
        sampled[restart] = data_loss._replace(
            wiped=(*data_loss.wiped, *(other for other in more if other.node not in known))
        )
    return [_loss(history, sampled[ended]) for ended in history.restarts if ended in sampled]


def _sampled_loss(history: History, restart: Restart) -> DataLoss | None:
    """Return the loss shown by INFO: a master had keys before its restart and none after."""
    node, start_ns = restart.node, restart.start_ns
    until_ns = copies_until_ns(restart, history.restarts)
    gone = emptied(history.samples, node, restart.end_min_ns, until_ns)
    if restart.loaded or gone is None or not _is_master(history, node, gone[1]):
        return None
    wiped = []
    for other in history.nodes:
        view = history.view_at(other, other, restart.end_min_ns)
        followed = view is not None and view.master_id == node
        if followed and (span := emptied(history.samples, other, restart.end_min_ns, until_ns)) is not None:
            wiped.append(Resync(other, node, max(span[0], start_ns), span[1], True, True, 0, start_ns))
    return DataLoss(node, restart, tuple(wiped))


def _is_master(history: History, node: str, ts_ns: int) -> bool:
    view = history.view_at(node, node, ts_ns)
    return view is not None and is_role(view, "master") and bool(history.slots_owned(node, ts_ns))


def _loss(history: History, data_loss: DataLoss) -> Incident:
    steps = restart_steps(data_loss.restart) + [step for resync in data_loss.wiped for step in resync_steps(resync)]
    bits = history.slots_owned(data_loss.master, data_loss.restart.start_ns)
    return Incident(
        kind=IncidentKind.DATA_LOSS,
        variant="empty master",
        subject=data_loss.master,
        started_ns=min(step.ts_ns for step in steps),
        ended_ns=max(
            [
                data_loss.restart.ready_ns or data_loss.restart.start_ns,
                *(resync.to_ns or resync.from_ns for resync in data_loss.wiped),
            ]
        ),
        nodes=tuple(dict.fromkeys(resync.node for resync in data_loss.wiped)),
        slots=slots_text(bits) if bits else "",
        slot_count=bits.bit_count() if bits else None,
        steps=in_story_order(steps),
    )
