"""Outages: masters that refused their slots with CLUSTERDOWN, because they held the cluster for down (R106, R107)."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.incidents.finders.failures import in_story_order
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.history import History, slots_text
from cluster_core.incidents.incident import Incident, Step, milliseconds
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.slots.key_slot import SLOT_COUNT

JOIN_NS: Final = 1_000_000_000
"""Refusals of several nodes that are closer are one outage."""


class Refusal(NamedTuple):
    """*node* refused its slots (*bits*) from *from_ns* to *to_ns*, None if that is not seen; the first can be later than *min_ns*."""

    node: str
    bits: int
    from_ns: int
    to_ns: int | None


def find_outages(history: History) -> list[Incident]:
    """Times in which masters that lived refused all their slots, one after the other; a start of a process is none."""
    refusals = sorted(_refusals(history), key=lambda one: (one.from_ns, one.node))
    end_ns = history.last_ns
    return [
        _outage(history, group)
        for group in runs(
            refusals, JOIN_NS, lambda one: one.from_ns, lambda one: end_ns if one.to_ns is None else one.to_ns
        )
    ]


def _refusals(history: History) -> list[Refusal]:
    started = {(event.observer, event.ts_ns) for event in history.events_of(EventKind.PROCESS_STARTED)}
    found: list[Refusal] = []
    for node in history.nodes:
        down_ns: int | None = None
        for event in history.events_of(EventKind.STATE_FAIL, EventKind.STATE_OK):
            if event.observer != node or (node, event.ts_ns) in started:
                continue
            if event.kind == EventKind.STATE_FAIL:
                down_ns = event.ts_ns if down_ns is None else down_ns
            elif down_ns is not None:
                found += _refusal(history, node, down_ns, event.ts_ns)
                down_ns = None
        if down_ns is not None:
            found += _refusal(history, node, down_ns, None)
    return found


def _refusal(history: History, node: str, from_ns: int, to_ns: int | None) -> list[Refusal]:
    """Nothing for a node that is known to have no slots; a master whose slots are not known refuses an unknown number."""
    bits = history.slots_owned(node, from_ns)
    row = history.view_at(node, node, from_ns)
    is_replica = row is not None and "slave" in row.flags.split(",")
    return [] if is_replica else [Refusal(node, bits, from_ns, to_ns)]


def _outage(history: History, group: list[Refusal]) -> Incident:
    bits = 0
    for one in group:
        bits |= one.bits
    started_ns = group[0].from_ns
    ends = [one.to_ns for one in group]
    ended_ns = None if None in ends else max(end for end in ends if end is not None)
    nodes = tuple(dict.fromkeys(one.node for one in group))
    steps = [Step(one.from_ns, EventKind.REFUSED, one.node, "", amount=one.bits.bit_count() or None) for one in group]
    steps += [Step(one.to_ns, EventKind.SERVED, one.node, "") for one in group if one.to_ns is not None]
    return Incident(
        kind=IncidentKind.OUTAGE,
        variant="whole cluster" if _is_whole(history, nodes, bits, started_ns) else "some masters",
        subject=nodes[0] if len(nodes) == 1 else "",
        started_ns=started_ns,
        ended_ns=ended_ns,
        nodes=nodes,
        slots=slots_text(bits) if bits else "",
        slot_count=bits.bit_count() or None,
        outage_ms=milliseconds(started_ns, history.last_ns if ended_ns is None else ended_ns),
        steps=in_story_order(steps),
    )


def _is_whole(history: History, nodes: tuple[str, ...], bits: int, ts_ns: int) -> bool:
    """Whether no slot was served: every master with slots refused, or was failing."""
    if bits.bit_count() == SLOT_COUNT:
        return True
    owners = [node for node in history.nodes if history.slots_owned(node, ts_ns)]
    return bool(owners) and all(node in nodes or history.is_failing(node, ts_ns) for node in owners)
