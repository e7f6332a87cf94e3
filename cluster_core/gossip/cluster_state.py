"""Cluster state in the view of one node (R106 to R109)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import DownReason
from cluster_core.gossip.events import Effect, StateChanged
from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.gossip.view import Coverage, View

WRITABLE_DELAY_MS: Final = 2000
"""A master stays in FAIL for this many ms after its start (R106)."""
REJOIN_DELAY_MS_MIN: Final = 500
REJOIN_DELAY_MS_MAX: Final = 5000


def down_reason(coverage: Coverage, *, full_coverage_required: bool) -> DownReason:
    """Return the reason for FAIL, or `DownReason.NONE` for OK (R107, R108).

    >>> down_reason(Coverage(False, 3, 1), full_coverage_required=True)
    <DownReason.MINORITY: 'minority'>
    """
    if coverage.reachable < quorum_of(coverage.size):
        return DownReason.MINORITY
    return DownReason.UNCOVERED if full_coverage_required and coverage.uncovered else DownReason.NONE


def rejoin_delay_ms(node_timeout_ms: int) -> int:
    """Return the ms a master waits before it serves again after a minority partition (R109)."""
    return min(max(node_timeout_ms, REJOIN_DELAY_MS_MIN), REJOIN_DELAY_MS_MAX)


def update_state(view: View, now_ms: int) -> list[Effect]:
    """Evaluate the cluster state (R106 to R110, clusterUpdateState)."""
    view.state_stale = False
    if view.first_state_ms is None:
        view.first_state_ms = now_ms
    waits = not view.ok and view.myself.is_master
    if waits and now_ms - view.first_state_ms < WRITABLE_DELAY_MS:
        view.state_stale = True
        return []
    coverage = view.covered()
    view.size_shown = coverage.size
    reason = down_reason(coverage, full_coverage_required=view.full_coverage_required)
    if reason is DownReason.MINORITY:
        view.minority_ms = now_ms
    ok = not reason
    if ok == view.ok:
        return []
    if ok and waits and view.minority_ms and now_ms - view.minority_ms < rejoin_delay_ms(view.node_timeout_ms):
        view.state_stale = True
        return []
    view.ok = ok
    return [StateChanged(ok, reason)]
