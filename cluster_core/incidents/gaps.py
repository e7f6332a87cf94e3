"""Mark conclusions that depend on bytes missing from the capture.

Messages, and conclusions of several nodes, are certain. A single node's conclusion from a lack of messages is uncertain
during a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause
from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.kinds import EventKind


class GapSeen(NamedTuple):
    """Bytes from *source* to *target* missing from the capture (addresses if an id is unknown)."""

    source: str
    target: str
    from_ns: int
    to_ns: int


CONCLUDED: Final = (
    EventKind.LAST_SIGN, EventKind.PFAIL, EventKind.DOUBTED, EventKind.FORGOTTEN, EventKind.KNOWN_AGAIN,
    EventKind.TOOK_OVER,
)  # fmt: skip
"""Kinds of steps that may depend on missing messages."""


def marked(incidents: Iterable[Incident], gaps: Sequence[GapSeen], thresholds: Thresholds) -> list[Incident]:
    """Mark steps that depend on a gap, and incidents without other evidence."""
    if not gaps:
        return list(incidents)
    by_node: dict[str, list[GapSeen]] = {}
    for gap in gaps:
        for node in {gap.source, gap.target}:
            by_node.setdefault(node, []).append(gap)
    marked_incidents = []
    for incident in incidents:
        steps = tuple(
            step._replace(rests_on_gap=_rests(step, by_node.get(step.actor, ()), thresholds)) for step in incident.steps
        )
        marked_incidents.append(replace(incident, steps=steps, rests_on_gap=_has_nothing_else(steps)))
    return marked_incidents


def _rests(step: Step, gaps: Iterable[GapSeen], thresholds: Thresholds) -> bool:
    if step.kind not in CONCLUDED or step.actors > 1 or (step.kind == EventKind.PFAIL and step.detail != Cause.SILENCE):
        return False
    before_ns, after_ns = step.ts_ns - 2 * thresholds.timeout_ns, step.ts_ns
    if step.kind in (EventKind.LAST_SIGN, EventKind.FORGOTTEN, EventKind.KNOWN_AGAIN):
        after_ns += 2 * thresholds.timeout_ns
    if step.kind == EventKind.LAST_SIGN:
        before_ns = step.ts_ns
    for gap in gaps:
        if gap.to_ns < before_ns or gap.from_ns > after_ns:
            continue
        if step.kind in (EventKind.LAST_SIGN, EventKind.TOOK_OVER):
            concerns = gap.source == step.actor
        elif step.kind in (EventKind.PFAIL, EventKind.DOUBTED):
            concerns = (gap.source, gap.target) == (step.subject, step.actor)
        else:
            concerns = True
        if concerns:
            return True
    return False


def _has_nothing_else(steps: Sequence[Step]) -> bool:
    """Return whether an incident depends on gaps only: no FAIL decision, vote or win in a message, log or poll."""
    kinds = {step.kind for step in steps}
    if EventKind.TOOK_OVER in kinds:
        return all(step.rests_on_gap for step in steps if step.kind == EventKind.TOOK_OVER)
    if EventKind.FAIL_DECIDED in kinds or "won" in kinds:
        return False
    concluded = [step for step in steps if step.kind in CONCLUDED]
    return bool(concluded) and all(step.rests_on_gap for step in concluded)
