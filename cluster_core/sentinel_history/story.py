"""Incidents of sentinels in plain words: one sentence for each, and one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.story import name_of, plural, seconds

Names = Mapping[str, str]

OBSTACLES: Final[dict[str, str]] = {
    "quorum": "too few sentinels agreed that it was down",
    "delayed": "a failover had been tried, or voted for, less than two failover timeouts before",
    "not started": "no sentinel tried one",
    "not elected": "no sentinel was elected",
    "no replica": "no replica could be promoted",
    "not finished": "it was not finished",
}


def name_sentinels(addresses: Mapping[str, str], sentinels: list[str]) -> dict[str, str]:
    """Names of sentinels: the first digits of the id and the address; servers go by their address."""
    length = 8
    while length < 40 and len({one[:length] for one in sentinels}) < len(set(sentinels)):
        length += 4
    return {one: f"{one[:length]} ({addresses[one]})" if addresses.get(one) else one[:length] for one in sentinels}


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
    "not-elected": "its sentinel was not elected",
    "no-replica": "no replica could be promoted",
    "replica-timed-out": "the replica was not promoted in time",
    "master-timed-out": "the master did not hand over in time",
}


def _failure(one: Incident, names: Names) -> str:
    reason = next((step for step in reversed(one.steps) if step.kind == "no-failover"), None)
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
    "failover": _failover,
    "failure": _failure,
    "tilt": _tilt,
}

_STEPS: Final[dict[str, str]] = {
    "last-sign": "{actor} answers a sentinel for the last time",
    "s-down": "{actor} holds {subject} for down (S_DOWN){silence}",
    "s-down-cleared": "{actor} holds {subject} for up again",
    "agrees": "{actor} tells {subject} that it holds the master for down, too",
    "disagrees": "{actor} tells {subject} that the master is not down",
    "o-down": "{actor} sees the quorum agree that {subject} is down (O_DOWN): {detail}",
    "o-down-cleared": "{actor} sees the quorum agree no longer",
    "election-started": "{actor} starts a failover of {subject} in epoch {epoch}",
    "vote": "{actor} votes for {subject} in epoch {epoch}",
    "no-vote": "{actor} does not vote for {subject} in epoch {epoch}{had}",
    "won": "{actor} leads the failover",
    "chosen": "{actor} chooses {subject}: {detail}",
    "none-chosen": "{actor} finds no replica: {detail}",
    "promotion-ordered": "{actor} orders {subject} to be a master",
    "promoted": "{actor} sees that {subject} is a master: the new configuration has epoch {epoch}",
    "reconfiguring": "{actor} sends {subject} to the new master",
    "reconfigured": "{actor} sees {subject} in sync with the new master",
    "reconfiguring-timed-out": "{actor} waits no longer for {subject}",
    "failover-done": "{actor} has finished the failover",
    "failover-timed-out": "{actor} ends the failover, because its time is up",
    "not-elected": "{actor} gives up: it was not elected in time",
    "no-replica": "{actor} gives up: no replica can be promoted",
    "replica-timed-out": "{actor} gives up: the replica was not promoted in time",
    "master-timed-out": "{actor} gives up: the master did not hand over in time",
    "told-of-switch": "{actor} hears of the new configuration from {subject}",
    "switched": "{actor} holds {subject} for the master",
    "delayed": "{actor} may not try a failover before {detail}",
    "converted": "{actor} makes {subject} a replica again",
    "sent-to-master": "{actor} sends {subject} to the right master",
    "rebooted": "{actor} sees that {subject} was restarted",
    "role-changed": "{actor} hears from {subject} that it is a {role}",
    "reset": "{actor} forgets all that it knew of {subject}",
    "monitored": "{actor} begins to watch {subject}",
    "removed": "{actor} watches {subject} no longer",
    "tilt": "{actor} notices that its timer stood still: it only watches from now on",
    "tilt-ended": "{actor} acts again",
    "no-failover": "nobody took over: {obstacle}",
}
ROLES: Final = {"master": "master", "slave": "replica"}


def step_text(step: Step, names: Names) -> str:
    """One step in plain words; a kind that is not known is shown as it is."""
    pattern = _STEPS.get(step.kind)
    actor, subject = _name(step.actor, names), _name(step.subject, names) if step.subject else ""
    if pattern is None:
        return f"{actor} {step.kind} {subject}".rstrip()
    had = ""
    if step.kind == "no-vote" and " " in step.detail:
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
