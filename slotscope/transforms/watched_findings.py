"""Warnings about resources that a plan did not balance."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.kinds import Severity
from cluster_core.rebalance.goal.watched import Watched
from cluster_core.rebalance.plan import WorstLoad
from schemas.caveats import Caveat, Code
from slotscope.reports.rebalance.words import factor, resource_words

_STAND_IN = ("serialized_bytes", "memory_bytes")
"""The first stands for the second where that is not known; where that is balanced, it is only told."""


def find_not_balanced(watched: Watched | None, balanced: Sequence[str]) -> list[Caveat]:
    """Name each load that was not balanced and ends worse than it was, or above what a balanced one may hold; the worst first."""
    if watched is None:
        return []
    bad = [reach for reach in watched.reach if reach.after > reach.before or reach.after > reach.limit]
    return [_warning(reach, balanced) for reach in sorted(bad, key=lambda reach: -reach.after / reach.limit)]


def _warning(reach: WorstLoad, balanced: Sequence[str]) -> Caveat:
    stand_in, master = _STAND_IN
    is_told = reach.resource == stand_in and master in balanced and reach.after <= reach.before
    change = "worse than before" if reach.after > reach.before else "above its tolerance"
    words = (
        f"{resource_words(reach.resource)} was not balanced and ends {change}: {factor(float(reach.before))} → {factor(float(reach.after))} "
        f"a fair share (limit {factor(float(reach.limit))}); add it with --resources {','.join([*balanced, reach.resource])}"
    )
    return Caveat(Severity.NOTE if is_told else Severity.WARNING, Code.NOT_BALANCED, words, reach.resource)
