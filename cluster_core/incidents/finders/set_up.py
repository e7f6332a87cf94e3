"""Creation of a cluster: new processes meet, take slots and follow masters. It is not an incident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cluster_core.gossip.causes import Cause
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident, SetUp
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.replay.rows import NodeViewRow

NEW_PROCESS: Final = "No cluster configuration found"
"""Start of the log of a process without a cluster."""
HANDSHAKES: Final = (Cause.MEET, Cause.HANDSHAKE_ANSWERED)
"""Causes of a node without a cluster learning of another node."""
SETTLE_NS: Final = 10_000_000_000
"""Maximum time for replicas to attach after the cluster is complete."""
PARTS: Final = {IncidentKind.MEMBERSHIP: ("joined", "replicas changed"), IncidentKind.SLOTS_ASSIGNED: ("taken",)}
"""Kinds and variants of incidents that form a set-up."""


def split_set_up(history: History, incidents: Sequence[Incident]) -> tuple[SetUp | None, list[Incident]]:
    """Return the set-up, None if not covered or if the processes stayed alone, and the other *incidents*."""
    fresh = _fresh_nodes(history)
    if 2 * len(fresh) <= len(history.nodes):
        return None, list(incidents)
    from_ns = to_ns = max(history.first_ns, min(fresh.values()))
    for ts_ns in sorted(fresh.values()):
        to_ns = ts_ns if ts_ns <= to_ns + SETTLE_NS else to_ns
    up_ns = [change.max_ns for node in fresh for change in history.states.get(node, ()) if change.is_up]
    to_ns = min(up_ns, default=to_ns)
    parts: list[Incident] = []
    remaining: list[Incident] = []
    for incident in sorted(incidents, key=lambda incident: incident.started_ns):
        is_back = incident.kind == IncidentKind.SLOTS_ASSIGNED and any(
            other.variant == "given up" for other in remaining
        )
        if incident.started_ns <= to_ns + SETTLE_NS and _is_part(history, incident, fresh) and not is_back:
            parts.append(incident)
            to_ns = max(to_ns, incident.ended_ns or incident.started_ns)
        else:
            remaining.append(incident)
    if not up_ns and not parts:
        return None, remaining
    met = {node for node, ts_ns in fresh.items() if ts_ns <= to_ns + SETTLE_NS}
    met |= {node for part in parts if part.variant == "joined" for node in part.nodes}
    return _set_up(from_ns, to_ns, len(met), parts), remaining


def _fresh_nodes(history: History) -> dict[str, int]:
    """Return nodes without a cluster at their start, and the time."""
    started_ns = {
        line.observer: line.ts_ns
        for line in reversed(history.lines.of_kind.get(EventKind.IDENTITY, []))
        if NEW_PROCESS in line.text
    }
    for node in history.observers:
        own = history.views.get((node, node), [])
        if own and own[0].cause == Cause.ASSUMED_NEW:
            started_ns.setdefault(node, own[0].valid_from_ns)
    first: dict[str, NodeViewRow] = {}
    for (observer, other), rows in history.views.items():
        if other != observer and (observer not in first or rows[0].valid_from_ns < first[observer].valid_from_ns):
            first[observer] = rows[0]
    for node, row in first.items():
        if row.cause in HANDSHAKES:  # it knew no node, though its first header is missing
            started_ns.setdefault(node, row.valid_from_ns)
    return started_ns


def _is_part(history: History, incident: Incident, fresh: dict[str, int]) -> bool:
    if incident.kind == IncidentKind.OUTAGE:  # no slot had been served before
        return all(_never_served(history, node, incident.started_ns) for node in incident.nodes)
    if incident.kind == IncidentKind.RESYNC:
        return incident.subject in fresh and not any(
            step.detail == "flushed" and step.amount for step in incident.steps
        )
    is_move = any(step.kind == EventKind.REPLICA_MOVED for step in incident.steps)
    are_fresh = 2 * sum(node in fresh for node in incident.nodes) > len(
        incident.nodes
    )  # the start of some may be missing
    return incident.variant in PARTS.get(incident.kind, ()) and not is_move and are_fresh


def _never_served(history: History, node: str, ts_ns: int) -> bool:
    """Return whether a new node never had cluster state OK until then."""
    return not any(change.is_up and change.min_ns < ts_ns for change in history.states.get(node, ()))


def _set_up(from_ns: int, to_ns: int, nodes: int, parts: Sequence[Incident]) -> SetUp:
    attached = sum(step.actors for part in parts for step in part.steps if step.kind == EventKind.REPLICA_ATTACHED)
    slots = sum(part.slot_count or 0 for part in parts if part.kind == IncidentKind.SLOTS_ASSIGNED)
    return SetUp(from_ns, to_ns, nodes, slots, attached)
