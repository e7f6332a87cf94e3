"""What of a story rests on bytes that are not in the capture: silence, doubts and departures that nobody may have meant.

Whatever a message shows is certain, and so is what several nodes conclude.  What one is taken to conclude from the lack
of messages is not where bytes are missing just then.
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
    """Bytes that *source* sent to *target* within a time are not in the capture (addresses where an id is not known)."""

    source: str
    target: str
    from_ns: int
    to_ns: int


CONCLUDED: Final = (
    EventKind.LAST_SIGN,
    EventKind.PFAIL,
    EventKind.DOUBTED,
    EventKind.FORGOTTEN,
    EventKind.KNOWN_AGAIN,
    EventKind.TOOK_OVER,
)
"""Kinds of steps that may rest on what was not seen."""


def marked(incidents: Iterable[Incident], gaps: Sequence[GapSeen], thresholds: Thresholds) -> list[Incident]:
    """The incidents with a mark on what rests on a gap: steps, and incidents that have nothing else to rest on."""
    if not gaps:
        return list(incidents)
    by_node: dict[str, list[GapSeen]] = {}
    for gap in gaps:
        for node in {gap.source, gap.target}:
            by_node.setdefault(node, []).append(gap)
    found = []
    for one in incidents:
        steps = tuple(
            step._replace(rests_on_gap=_rests(step, by_node.get(step.actor, ()), thresholds)) for step in one.steps
        )
        found.append(replace(one, steps=steps, rests_on_gap=_has_nothing_else(steps)))
    return found


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
    """Whether all that makes the incident rests on gaps: no verdict, vote or win that a message, a log or a poll shows."""
    kinds = {step.kind for step in steps}
    if EventKind.TOOK_OVER in kinds:
        return all(step.rests_on_gap for step in steps if step.kind == EventKind.TOOK_OVER)
    if EventKind.FAIL_DECIDED in kinds or "won" in kinds:
        return False
    concluded = [step for step in steps if step.kind in CONCLUDED]
    return bool(concluded) and all(step.rests_on_gap for step in concluded)
