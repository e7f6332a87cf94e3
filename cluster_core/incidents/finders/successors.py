"""Obstacles to the replacement of a failed master: replicas, and missing voters (R54, R84 to R93)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.incidents.finders.failures import Episode
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Step
from cluster_core.kinds import EventKind
from cluster_core.slots.node_flags import NodeFlags

DELAY_NS: Final = 1_500_000_000
"""Delay of an election after FAIL, and of each better replica (R86)."""
OLD_DATA: Final = "Disconnected from "
"""Log text of a replica with too old data (R85)."""


class Bar(StrEnum):
    """Obstacle of a replica."""

    DEAD = "it was out of reach itself"
    NOFAILOVER = "it may not be elected (NOFAILOVER)"
    OLD_DATA = "its data is too old (cluster-replica-validity-factor)"
    NO_VERDICT = "it never marked its master FAIL"
    NO_MAJORITY = "too few masters voted for it"
    NO_TIME = "no time was left for an election"
    UNKNOWN = "it never asked for votes, and nothing given says why"


def slots_of_failed(history: History, episode: Episode) -> int:
    """Return the failed master's slots, bit s for slot s."""
    return history.own_slots(history.claim_at(episode.subject, episode.started_ns))


def successor_steps(history: History, episode: Episode) -> list[Step]:
    """Return each replica's obstacle, or that there was none, at FAIL or, without it, at the first PFAIL."""
    at_ns = episode.from_ns if episode.fail_ns is None else episode.fail_ns
    master, replicas = episode.subject, replicas_at(history, episode.subject, episode.started_ns)
    steps = [
        Step(at_ns, EventKind.BARRED, barred, master, detail=_bar(history, episode, barred, at_ns))
        for barred in replicas
    ]
    if not replicas:
        steps.append(Step(at_ns, EventKind.NO_REPLICA, master, master))
    return steps


def replicas_at(history: History, master: str, ts_ns: int) -> list[str]:
    """Return the replicas of *master* by their own headers, else in another node's view."""
    replicas = []
    for node in history.nodes:
        claim = history.claim_at(node, ts_ns)
        if claim is not None and claim.replicaof == master:
            replicas.append(node)
    return replicas


def is_alive(history: History, node: str, ts_ns: int) -> bool:
    """Return whether a node was sending then."""
    claim = history.header_claim_at(node, ts_ns)
    if claim is None:
        return not history.header_claims and not history.is_failing(node, ts_ns)
    return not (claim.silent_after and claim.to_ns < ts_ns)


def _bar(history: History, episode: Episode, replica: str, at_ns: int) -> str:
    end_ns = min(bound_ns for bound_ns in (episode.back_ns, episode.to_ns, history.last_ns) if bound_ns is not None)
    claim = history.claim_at(replica, at_ns)
    if not is_alive(history, replica, at_ns):
        return Bar.DEAD
    if claim is not None and claim.flags & NodeFlags.NOFAILOVER:
        return Bar.NOFAILOVER
    votes = [
        event
        for event in history.events_of(EventKind.ELECTION_STALLED)
        if event.observer == replica and at_ns <= event.ts_ns <= end_ns
    ]
    if any(OLD_DATA in event.detail for event in votes):
        return Bar.OLD_DATA
    if votes:
        return votes[-1].detail
    if any(
        event.observer == replica and event.subject == episode.subject and at_ns <= event.ts_ns <= end_ns
        for event in history.events_of(EventKind.ELECTION_STARTED)
    ):
        return Bar.NO_MAJORITY
    verdict_ns = next(
        (spell.fail_ns for spell in episode.spells if spell.observer == replica and spell.fail_ns is not None), None
    )
    if verdict_ns is None:
        return Bar.NO_VERDICT
    return Bar.NO_TIME if end_ns - verdict_ns < DELAY_NS else Bar.UNKNOWN


def missing_voters(history: History, episode: Episode) -> list[Step]:
    """Return one step per missing voter if less than a majority was left at the first PFAIL (R54, R93)."""
    at_ns = episode.from_ns
    witnesses = [
        observer for observer in history.observers if observer != episode.subject and is_alive(history, observer, at_ns)
    ]
    if not witnesses:
        return []
    voters = history.voting_masters_at(witnesses[0], episode.started_ns)
    gone = [node for node in voters if node == episode.subject or not is_alive(history, node, at_ns)]
    needed = quorum_of(len(voters))
    if len(voters) - len(gone) >= needed:
        return []
    detail = f"{needed} of {len(voters)} are needed"
    return [Step(at_ns, EventKind.VOTER_GONE, node, "", amount=len(voters) - len(gone), detail=detail) for node in gone]
