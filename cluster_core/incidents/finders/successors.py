"""Why nobody took the place of a master that failed: what kept each replica, and which voters were gone (R54, R84 to R93)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.incidents.finders.failures import Episode
from cluster_core.incidents.history import History, slots_text
from cluster_core.incidents.incident import Step
from cluster_core.kinds import EventKind
from cluster_core.slots.node_flags import NodeFlags

DELAY_NS: Final = 1_500_000_000
"""An election is due so long after FAIL, and a second more for each replica that is ahead (R86)."""
OLD_DATA: Final = "Disconnected from "
"""How the log of a replica says that its data is too old (R85): "Disconnected from master for longer than allowed"."""


class Bar(StrEnum):
    """What keeps a replica from taking over."""

    DEAD = "it was out of reach itself"
    NOFAILOVER = "it may not be elected (NOFAILOVER)"
    OLD_DATA = "its data is too old (cluster-replica-validity-factor)"
    NO_VERDICT = "it never held its master for failed (FAIL)"
    NO_MAJORITY = "too few masters voted for it"
    NO_TIME = "no time was left for an election"
    UNKNOWN = "it never asked for votes, and nothing given says why"


def slots_of_failed(history: History, episode: Episode) -> int:
    """The slots that the node that failed held as a master, bit s for slot s."""
    return history.own_slots(history.said_at(episode.subject, episode.started_ns))


def successor_steps(history: History, episode: Episode) -> list[Step]:
    """What kept each replica, or that there was none, at the time of the verdict or, without one, of the first doubt."""
    at_ns = episode.from_ns if episode.fail_ns is None else episode.fail_ns
    master, replicas = episode.subject, replicas_at(history, episode.subject, episode.started_ns)
    steps = [Step(at_ns, EventKind.BARRED, one, master, detail=_bar(history, episode, one, at_ns)) for one in replicas]
    if not replicas:
        steps.append(Step(at_ns, EventKind.NO_REPLICA, master, master))
    return steps


def replicas_at(history: History, master: str, ts_ns: int) -> list[str]:
    """The replicas of *master*, as they say themselves, or where one was not heard, as most observers believe."""
    found = []
    for node in history.nodes:
        said = history.said_at(node, ts_ns)
        if said is not None:
            of_it = said.replicaof == master
        else:
            views = [row for one in history.observers if (row := history.view_at(one, node, ts_ns)) is not None]
            of_it = 2 * sum(row.master_id == master for row in views) > len(views)
        if of_it:
            found.append(node)
    return found


def is_heard(history: History, node: str, ts_ns: int) -> bool:
    """Whether a node was talking at that time."""
    said = history.said_at(node, ts_ns)
    return said is not None and not (said.silent_after and said.to_ns < ts_ns)


def _bar(history: History, episode: Episode, replica: str, at_ns: int) -> Bar:
    end_ns = min(one for one in (episode.back_ns, episode.to_ns, history.last_ns) if one is not None)
    said = history.said_at(replica, at_ns)
    if not is_heard(history, replica, at_ns):
        return Bar.DEAD
    if said is not None and said.flags & NodeFlags.NOFAILOVER:
        return Bar.NOFAILOVER
    told = [
        event
        for event in history.events_of(EventKind.ELECTION_STALLED)
        if event.observer == replica and at_ns <= event.ts_ns <= end_ns
    ]
    if any(OLD_DATA in event.detail for event in told):
        return Bar.OLD_DATA
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
    """If too few masters were left for a majority when the doubt began: one step for each that was gone (R54, R93)."""
    at_ns = episode.from_ns
    witnesses = [one for one in history.observers if one != episode.subject and is_heard(history, one, at_ns)]
    if not witnesses:
        return []
    voters = history.voting_masters_at(witnesses[0], episode.started_ns)
    gone = [one for one in voters if one == episode.subject or not is_heard(history, one, at_ns)]
    needed = quorum_of(len(voters))
    if len(voters) - len(gone) >= needed:
        return []
    detail = f"{needed} of {len(voters)} are needed"
    return [Step(at_ns, EventKind.VOTER_GONE, one, "", amount=len(voters) - len(gone), detail=detail) for one in gone]


def unserved_step(history: History, subject: str, bits: int, from_ns: int, back_ns: int | None, holder: str) -> Step:
    """That slots had no master for a while: from the end of the process, where that was seen, or the last sign of life.

    A master whose process was not seen to end or stand still may have served its clients while nobody else reached it.

    *holder* has them from *back_ns* on, and serves them when its own state is ok (R106, R107).
    """
    until_ns = None if back_ns is None else _served_ns(history, holder, bits, back_ns)
    before_ns = history.last_ns + 1 if back_ns is None else back_ns
    seen = [
        e
        for e in history.events_of(EventKind.PROCESS_ENDED, EventKind.PROCESS_IDLE)
        if e.observer == subject and from_ns <= e.ts_ns < before_ns
    ]
    ended_ns = next((event.ts_ns for event in seen if event.kind == EventKind.PROCESS_ENDED), from_ns)
    kind = EventKind.UNSERVED if seen else EventKind.UNREACHED
    return Step(ended_ns, kind, subject, "", amount=bits.bit_count(), detail=slots_text(bits), until_ns=until_ns)


def _served_ns(history: History, holder: str, bits: int, from_ns: int) -> int | None:
    return next(
        (
            max(span.from_ns, from_ns)
            for span in history.speech.get(holder, [])
            if span.to_ns >= from_ns and not span.state and history.own_slots(span) & bits
        ),
        None,
    )
