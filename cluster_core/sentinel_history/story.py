"""Incidents of sentinels in plain words: one sentence for each, and one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.story import name_of, plural, seconds
from cluster_core.kinds import EventKind, IncidentKind

Names = Mapping[str, str]

OBSTACLES: Final[dict[str, str]] = {
    "quorum": "too few sentinels agreed that it was down",
    EventKind.DELAYED: "a failover had been tried, or voted for, less than two failover timeouts before",
    "not started": "no sentinel tried one",
    "not elected": "no sentinel was elected",
    "no replica": "no replica could be promoted",
    "not finished": "it was not finished",
}


def _name(node: str, names: Names) -> str:
    return node if ":" in node else name_of(node, names)


def summary_of(one: Incident, names: Names) -> str:
    """The whole incident in one sentence."""
    return _SUMMARIES[one.kind](one, names)


def _failover(one: Incident, names: Names) -> str:
    if one.variant == "given up":
        why = next((step.kind for step in reversed(one.steps) if step.kind in _WHY_GIVEN_UP), "")
        return f"a failover of {one.subject} was ordered and given up: {_WHY_GIVEN_UP.get(why, 'its time ran out')}"
    leader = next((step.actor for step in reversed(one.steps) if step.kind in ("promoted", "won")), "")
    by = f" by sentinel {_name(leader, names)}" if leader else ""
    if one.variant == "manual":
        text = f"{one.winner} took over by order from {one.subject}{by}, with epoch {one.epoch}"
        return f"{text}; every sentinel knew it {seconds(one.adoption_ms)} later"
    text = f"{one.winner} was promoted in place of {one.subject}{by}, with epoch {one.epoch}"
    if one.outage_ms is not None:
        text += f", {seconds(one.outage_ms)} after its last sign of life"
    if one.votes is not None:
        text += f", with {plural(one.votes, 'vote')}"
    return text


_WHY_GIVEN_UP: Final[dict[str, str]] = {
    EventKind.NOT_ELECTED: "its sentinel was not elected",
    EventKind.NO_REPLICA: "no replica could be promoted",
    EventKind.REPLICA_TIMED_OUT: "the replica was not promoted in time",
    EventKind.MASTER_TIMED_OUT: "the master did not hand over in time",
}


def _failure(one: Incident, names: Names) -> str:
    reason = next((step for step in reversed(one.steps) if step.kind == EventKind.NO_FAILOVER), None)
    text = f"{one.subject} was held for down by {plural(len(one.nodes), 'sentinel')}"
    if reason is not None:
        text += f", and no failover came of it: {OBSTACLES[reason.detail]}"
    if one.ended_ns is None:
        return f"{text}; it was still down at the end"
    return f"{text}; back after {seconds((one.ended_ns - one.started_ns) // 1_000_000)}"


def _tilt(one: Incident, names: Names) -> str:
    length = "" if one.ended_ns is None else f" for {seconds((one.ended_ns - one.started_ns) // 1_000_000)}"
    return f"sentinel {_name(one.subject, names)} only watched{length} (TILT): its timer had stood still"


_SUMMARIES: Final[dict[str, Callable[[Incident, Names], str]]] = {
    IncidentKind.FAILOVER: _failover,
    IncidentKind.FAILURE: _failure,
    IncidentKind.TILT: _tilt,
}

_STEPS: Final[dict[str, str]] = {
    EventKind.LAST_SIGN: "{actor} answers a sentinel for the last time",
    EventKind.S_DOWN: "{actor} holds {subject} for down (S_DOWN){silence}",
    EventKind.S_DOWN_CLEARED: "{actor} holds {subject} for up again",
    EventKind.AGREES: "{actor} tells {subject} that it holds the master for down, too",
    EventKind.DISAGREES: "{actor} tells {subject} that the master is not down",
    EventKind.O_DOWN: "{actor} sees the quorum agree that {subject} is down (O_DOWN): {detail}",
    EventKind.O_DOWN_CLEARED: "{actor} sees the quorum agree no longer",
    EventKind.ELECTION_STARTED: "{actor} starts a failover of {subject} in epoch {epoch}",
    EventKind.VOTE: "{actor} votes for {subject} in epoch {epoch}",
    EventKind.NO_VOTE: "{actor} does not vote for {subject} in epoch {epoch}{had}",
    EventKind.WON: "{actor} leads the failover",
    EventKind.CHOSEN: "{actor} chooses {subject}: {detail}",
    EventKind.NONE_CHOSEN: "{actor} finds no replica: {detail}",
    EventKind.PROMOTION_ORDERED: "{actor} orders {subject} to be a master",
    EventKind.PROMOTED: "{actor} sees that {subject} is a master: the new configuration has epoch {epoch}",
    EventKind.RECONFIGURING: "{actor} sends {subject} to the new master",
    EventKind.RECONFIGURED: "{actor} sees {subject} in sync with the new master",
    EventKind.RECONFIGURING_TIMED_OUT: "{actor} waits no longer for {subject}",
    EventKind.FAILOVER_DONE: "{actor} has finished the failover",
    EventKind.FAILOVER_TIMED_OUT: "{actor} ends the failover, because its time is up",
    EventKind.NOT_ELECTED: "{actor} gives up: it was not elected in time",
    EventKind.NO_REPLICA: "{actor} gives up: no replica can be promoted",
    EventKind.REPLICA_TIMED_OUT: "{actor} gives up: the replica was not promoted in time",
    EventKind.MASTER_TIMED_OUT: "{actor} gives up: the master did not hand over in time",
    EventKind.TOLD_OF_SWITCH: "{actor} hears of the new configuration from {subject}",
    EventKind.SWITCHED: "{actor} holds {subject} for the master",
    EventKind.DELAYED: "{actor} may not try a failover before {detail}",
    EventKind.CONVERTED: "{actor} makes {subject} a replica again",
    EventKind.SENT_TO_MASTER: "{actor} sends {subject} to the right master",
    EventKind.REBOOTED: "{actor} sees that {subject} was restarted",
    EventKind.ROLE_CHANGED: "{actor} hears from {subject} that it is a {role}",
    EventKind.RESET: "{actor} forgets all that it knew of {subject}",
    EventKind.MONITORED: "{actor} begins to watch {subject}",
    EventKind.REMOVED: "{actor} watches {subject} no longer",
    EventKind.TILT: "{actor} notices that its timer stood still: it only watches from now on",
    EventKind.TILT_ENDED: "{actor} acts again",
    EventKind.NO_FAILOVER: "nobody took over: {obstacle}",
}
ROLES: Final = {"master": "master", "slave": "replica"}


def step_text(step: Step, names: Names) -> str:
    """One step in plain words; a kind that is not known is shown as it is."""
    pattern = _STEPS.get(step.kind)
    actor, subject = _name(step.actor, names), _name(step.subject, names) if step.subject else ""
    if pattern is None:
        return f"{actor} {step.kind} {subject}".rstrip()
    had = ""
    if step.kind == EventKind.NO_VOTE and " " in step.detail:
        voted, _, epoch = step.detail.partition(" ")
        had = f": it has voted for {_name(voted, names)} in epoch {epoch}"
    return pattern.format(
        actor=actor,
        subject=subject,
        epoch="?" if step.epoch is None else step.epoch,
        detail=step.detail,
        silence="" if step.amount is None else f": it had not answered for {seconds(step.amount)}",
        role=ROLES.get(step.detail, step.detail),
        obstacle=OBSTACLES.get(step.detail, step.detail),
        had=had,
    )
