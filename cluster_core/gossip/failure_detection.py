"""Failure detection (PFAIL by timeout, FAIL by quorum; R32, R44, R51 to R55) and cluster state (R106 to R109)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Cause, DownReason, Field, ReportEnd
from cluster_core.gossip.events import BroadcastFail, Changed, Effect, ReportAdded, ReportRemoved, StateChanged
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, MYSELF, NOADDR, PFAIL
from cluster_core.gossip.profile import PfailVerdict
from cluster_core.gossip.view import Coverage, Peer, View

REPORT_VALIDITY_FACTOR: Final = 2
"""Validity of a failure report in node timeouts (R52)."""
FAIL_UNDO_FACTOR: Final = 2
"""Node timeouts after which FAIL of a voting master can be cleared (R55b)."""


def quorum_of(size: int) -> int:
    """Return the number of voting masters that must agree.

    >>> quorum_of(3), quorum_of(4)
    (2, 3)
    """
    return size // 2 + 1


def exceeds_timeout(ping_sent_ms: int, data_received_ms: int, now_ms: int, timeout_ms: int) -> bool:
    """Return whether a pending ping and the last received data are older than the node timeout (R53).

    >>> exceeds_timeout(1, 0, 2001, 2000), exceeds_timeout(1, 0, 2002, 2000)
    (False, True)
    """
    return ping_sent_ms != 0 and min(now_ms - ping_sent_ms, now_ms - data_received_ms) > timeout_ms


def fail_may_clear(*, voting_master: bool, fail_age_ms: int, timeout_ms: int) -> bool:
    """Return whether FAIL can be cleared: at once without slots, else after two node timeouts (R55b)."""
    return not voting_master or fail_age_ms > FAIL_UNDO_FACTOR * timeout_ms


def mark_silent(view: View, now_ms: int) -> list[Effect]:
    """Mark every node PFAIL that exceeded the node timeout (R53, clusterCron)."""
    effects: list[Effect] = []
    for peer in view.nodes.values():
        if peer.ping_sent_ms and not peer.flags & (MYSELF | NOADDR | HANDSHAKE | FAILURES):
            effects += mark_pfail_if_silent(view, peer, now_ms)
    return effects


def mark_pfail_if_silent(view: View, peer: Peer, now_ms: int) -> list[Effect]:
    """Mark a healthy node PFAIL if it exceeded the node timeout (R53)."""
    if not exceeds_timeout(peer.ping_sent_ms, peer.data_received_ms, now_ms, view.node_timeout_ms):
        return []
    peer.flags |= PFAIL
    view.forget_entry(peer)
    view.state_stale = True
    effects: list[Effect] = [Changed(peer.id, Field.PFAIL, Cause.SILENCE)]
    return effects + fail_if_agreed(view, peer, now_ms) if _verdict_at_pfail(view) else effects


def _verdict_at_pfail(view: View) -> bool:
    verdict = view.profile.pfail_verdict
    if verdict is PfailVerdict.NOBODY:
        return False
    if verdict is PfailVerdict.EVERY_VOTER:
        return view.myself.votes
    trusted = view.myself.votes if verdict is PfailVerdict.LONE_VOTER else view.myself.is_master
    return trusted and view.size() == 1


def live_reports(view: View, peer: Peer, now_ms: int) -> tuple[int, list[Effect]]:
    """Drop expired failure reports about *peer* and count the others (R52)."""
    oldest = now_ms - REPORT_VALIDITY_FACTOR * view.node_timeout_ms
    expired = [reporter for reporter, at in peer.reports.items() if at < oldest]
    for reporter in expired:
        del peer.reports[reporter]
    return len(peer.reports), [ReportRemoved(reporter, peer.id, ReportEnd.EXPIRED) for reporter in expired]


def fail_if_agreed(view: View, peer: Peer, now_ms: int) -> list[Effect]:
    """Turn PFAIL into FAIL if a quorum of masters agrees (R54, markNodeAsFailingIfNeeded)."""
    if not peer.flags & PFAIL or peer.flags & FAIL or view.verdicts_observed:
        return []
    count, effects = live_reports(view, peer, now_ms)
    myself = view.myself
    count += myself.votes if view.profile.own_pfail_needs_slots else myself.is_master
    if count < quorum_of(view.size()):
        return effects
    return [*effects, *mark_failed(view, peer, now_ms, Cause.QUORUM), BroadcastFail(peer.id)]


def mark_failed(view: View, peer: Peer, now_ms: int, cause: Cause) -> list[Effect]:
    """Set FAIL and clear PFAIL (R54, R55)."""
    if peer.flags & FAIL or peer is view.myself:
        return []
    peer.flags = peer.flags & ~PFAIL | FAIL
    peer.fail_time_ms = now_ms
    view.state_stale = True
    return [Changed(peer.id, Field.FAIL, cause)]


def clear_by_pong(view: View, peer: Peer, now_ms: int) -> list[Effect]:
    """Clear PFAIL at once, and FAIL by R55b, after a PONG on our link (R53, clearNodeFailureIfNeeded)."""
    if not peer.flags & FAILURES:
        return []
    if peer.flags & PFAIL:
        peer.flags &= ~PFAIL
        view.state_stale = True
        return [Changed(peer.id, Field.PFAIL, Cause.SILENCE)]
    age_ms = now_ms - peer.fail_time_ms
    if not fail_may_clear(voting_master=peer.votes, fail_age_ms=age_ms, timeout_ms=view.node_timeout_ms):
        return []
    peer.flags &= ~FAIL
    view.state_stale = True
    return [Changed(peer.id, Field.FAIL, Cause.REACHABLE_AGAIN)]


def may_report(view: View, reporter: Peer) -> bool:
    """Return whether failure reports of *reporter* count (R51)."""
    return bool(reporter.flags & MASTER and (reporter.slots or not view.profile.reporter_needs_slots))


def take_report(view: View, reporter: Peer, subject: Peer, now_ms: int) -> list[Effect]:
    """Record that *reporter* gossips *subject* as PFAIL or FAIL (R51, R54, clusterNodeAddFailureReport)."""
    if view.profile.reports_end_at_fail and subject.flags & FAIL:
        return []
    known = reporter.id in subject.reports
    subject.reports[reporter.id] = now_ms
    added: list[Effect] = [] if known else [ReportAdded(reporter.id, subject.id)]
    return added + fail_if_agreed(view, subject, now_ms)


def withdraw_report(view: View, reporter: Peer, subject: Peer, now_ms: int) -> list[Effect]:
    """Drop the report when *reporter* gossips *subject* as healthy (R52, clusterNodeDelFailureReport)."""
    if reporter.id not in subject.reports:
        return []
    del subject.reports[reporter.id]
    return [ReportRemoved(reporter.id, subject.id, ReportEnd.WITHDRAWN), *live_reports(view, subject, now_ms)[1]]


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
    reason = down_reason(coverage, full_coverage_required=view.full_coverage_required)
    if reason is DownReason.MINORITY:
        view.minority_ms = now_ms
    ok = not reason
    if ok == view.ok:
        return []
    if ok and waits and view.minority_ms and now_ms - view.minority_ms < rejoin_delay_ms(view.node_timeout_ms):
        return []
    view.ok = ok
    return [StateChanged(ok, reason)]
