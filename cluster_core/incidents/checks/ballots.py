"""Invariants of votes, won elections and FAIL decisions (R162 to R165)."""

from __future__ import annotations

from cluster_core.gossip.causes import Mechanism
from cluster_core.gossip.failure_detection import REPORT_VALIDITY_FACTOR, quorum_of
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, short
from cluster_core.kinds import EventKind, FindingCode, Severity
from cluster_core.replay.rows import EpochRow, EventRow


def check_ballots(history: History) -> list[Finding]:
    """Return all violations."""
    return [*_double_votes(history), *_double_wins(history), *_wins_without_votes(history), *_bare_verdicts(history)]


def _double_votes(history: History) -> list[Finding]:
    """Check R162: one AUTH_ACK per node and epoch."""
    cast: dict[tuple[str, int], list[EventRow]] = {}
    for event in history.events_of("vote"):
        cast.setdefault((event.observer, event.epoch), []).append(event)
    return [
        Finding(
            Severity.ERROR, FindingCode.DOUBLE_VOTE, voter, votes[1].subject, votes[0].ts_ns, votes[-1].ts_ns, len(votes), None,
            f"{short(voter)} voted {len(votes)} times in epoch {epoch}: for"
            f" {', '.join(short(vote.subject) for vote in votes)}",
            tuple(vote.ref for vote in votes),
        )
        for (voter, epoch), votes in cast.items()
        if len(votes) > 1
    ]  # fmt: skip


def _double_wins(history: History) -> list[Finding]:
    """Check R163: one winner per epoch."""
    wins: dict[int, list[EpochRow]] = {}
    for row in history.epochs:
        if row.mechanism is Mechanism.ELECTION:
            wins.setdefault(row.epoch, []).append(row)
    return [
        Finding(
            Severity.ERROR, FindingCode.DOUBLE_WIN, rows[0].node_id, rows[1].node_id, rows[0].ts_ns, rows[-1].ts_ns, len(rows), None,
            f"{', '.join(short(row.node_id) for row in rows)} all won the election of epoch {epoch}",
            tuple(row.ref for row in rows),
        )
        for epoch, rows in wins.items()
        if len(rows) > 1
    ]  # fmt: skip


def _wins_without_votes(history: History) -> list[Finding]:
    """Check R164: a winner has the votes of a quorum of the voting masters it knows."""
    found = []
    for row in history.epochs:
        if row.mechanism is not Mechanism.ELECTION:
            continue
        votes = {
            vote.voter
            for vote in history.votes
            if vote.granted
            and vote.candidate == row.node_id
            and vote.epoch >= row.epoch
            and (vote.answered_ns or row.ts_ns) <= row.ts_ns
        }
        needed = quorum_of(len(history.voting_masters_at(row.node_id, row.ts_ns - 1)))
        if len(votes) < needed:
            text = f"{short(row.node_id)} won epoch {row.epoch} with {len(votes)} votes seen, the quorum is {needed}"
            found.append(
                Finding(Severity.WARNING, FindingCode.WIN_WITHOUT_QUORUM, row.node_id, "", row.ts_ns, row.ts_ns, 1, len(votes),
                        f"{text}: a gap in the capture, or a bug", (row.ref,))
            )  # fmt: skip
    return found


def _bare_verdicts(history: History) -> list[Finding]:
    """Check R165: FAIL requires the decider's own PFAIL and enough reports of the last 2·T."""
    found = []
    window_ns = REPORT_VALIDITY_FACTOR * history.thresholds.timeout_ns
    gone = {old for old, _, _ in history.resets}
    for event in history.events_of(EventKind.FAIL_DECIDED):
        if event.ref < 0:
            continue  # from a log: reports of others show on the bus only
        if event.subject in gone:
            continue  # another id at its address sets FAIL without a quorum (R58)
        voters = history.voting_masters_at(event.observer, event.ts_ns - 1)
        told = history.reports_at(event.observer, event.subject, event.ts_ns - window_ns, event.ts_ns)
        reporters = {row.reporter for row in told}
        doubted = any(
            spell.observer == event.observer
            and spell.from_ns <= event.ts_ns
            and (spell.to_ns is None or spell.to_ns >= event.ts_ns - window_ns)
            for spell in history.doubts.get(event.subject, [])
        )
        held = len(reporters) + (event.observer in voters)
        if not doubted or held < quorum_of(len(voters)):
            why = "did not doubt it itself" if not doubted else f"{held} masters of {len(voters)} doubted it"
            text = f"{short(event.observer)} decided FAIL of {short(event.subject)}, but {why}"
            found.append(
                Finding(Severity.WARNING, FindingCode.VERDICT_WITHOUT_QUORUM, event.observer, event.subject, event.ts_ns,
                        event.ts_ns, 1, held, f"{text}: a gap in the capture, or a bug", (event.ref,))
            )  # fmt: skip
    return found
