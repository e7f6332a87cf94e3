"""Incidents in plain words: one sentence for each, and one for each step.

Nodes are named by the beginning of their id, or by what *names* gives for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster_core.incidents.incident import Incident, Step, short

Names = Mapping[str, str]

CAUSES: Final[dict[str, str]] = {
    "R53": "it had not answered for the node timeout",
    "R54": "enough masters reported it",
    "own gossip": "it says so in its gossip",
    "poll": "it answered so when it was asked",
    "log": "its log says so",
}


def name_of(node: str, names: Names) -> str:
    """A node as the story names it."""
    return names.get(node) or short(node)


def name_all(nodes: list[str], address_of: Mapping[str, str]) -> dict[str, str]:
    """Names of nodes: the first digits of the id that tell all apart, and the address."""
    length = 8
    while length < 40 and len({node[:length] for node in nodes}) < len(set(nodes)):
        length += 4
    return {node: f"{node[:length]} ({address_of[node]})" if address_of.get(node) else node[:length] for node in nodes}


def seconds(milliseconds: int | None) -> str:
    """A duration as people say it.

    >>> seconds(5), seconds(3026), seconds(None)
    ('5 ms', '3.03 s', 'an unknown time')
    """
    if milliseconds is None:
        return "an unknown time"
    if abs(milliseconds) < 1000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1000:.2f} s" if abs(milliseconds) < 60_000 else f"{milliseconds / 1000:.0f} s"


def plural(count: int | None, word: str) -> str:
    """``1 slot``, ``2 slots``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def summary_of(incident: Incident, names: Names) -> str:
    """The whole incident in one sentence."""
    return _SUMMARIES[incident.kind](incident, names)


def _membership(one: Incident, names: Names) -> str:
    who = name_of(one.subject, names) if one.subject else plural(len(one.nodes), "node")
    if one.variant == "joined":
        return f"{who} met the cluster"
    if one.variant == "forgotten":
        return f"{who} was forgotten by {plural(len(one.nodes), 'node')}"
    if one.variant == "reset":
        return f"{who} was reset and is {name_of(one.winner, names)} now"
    moves = [step for step in one.steps if step.kind in ("replica-moved", "replica-attached")]
    if len(moves) == 1:
        step = moves[0]
        orphan = ", which had no replica left" if step.detail == "orphaned" else ""
        verb = "moved to" if step.kind == "replica-moved" else "became a replica of"
        return f"{name_of(step.actor, names)} {verb} {name_of(step.subject, names)}{orphan}"
    return f"{who} became replicas of other masters"


def _assigned(one: Incident, names: Names) -> str:
    slots = plural(one.slot_count, "slot")
    who = name_of(one.subject, names) if one.subject else plural(len(one.nodes), "node")
    if one.variant == "given up":
        return f"{who} gave up {slots} that nobody else took"
    return f"{who} took {slots} that nobody owned"


def _collision(one: Incident, names: Names) -> str:
    drawn = sum(step.kind == "epoch-raised" for step in one.steps)
    what = (
        "new masters drew their first config epochs"
        if one.variant == "first epochs"
        else "masters had one config epoch"
    )
    return f"{len(one.nodes)} {what}: {plural(drawn, 'new epoch')}, up to {one.epoch}"


def _partition(one: Incident, names: Names) -> str:
    who = name_of(one.subject, names) if one.subject else plural(len(one.nodes), "node")
    if one.variant == "still talking":
        return f"{who} could not be reached by most others but kept talking"
    return f"{who} fell silent together and came back together after {seconds(one.outage_ms)}"


def _failure(one: Incident, names: Names) -> str:
    who = name_of(one.subject, names)
    found = f"{plural(len(one.nodes), 'node')} doubted it"
    if one.variant == "not agreed":
        return f"{who} was out of reach: {found}, but no quorum agreed on FAIL"
    after = (
        f" {seconds(one.silence_to_fail_ms)} after its last sign of life" if one.silence_to_fail_ms is not None else ""
    )
    back = f", back after {seconds(one.outage_ms)}" if one.outage_ms is not None else ""
    return f"{who} failed: FAIL was agreed{after}{back}"


def _failover(one: Incident, names: Names) -> str:
    old = name_of(one.subject, names) if one.subject else "an unknown master"
    how = {"automatic": "won the election for", "manual": "took over by order from", "takeover": "seized the place of"}
    text = f"{name_of(one.winner, names)} {how[one.variant]} {old} with epoch {one.epoch}"
    if one.outage_ms is not None:
        text += f", {seconds(one.outage_ms)} after its last sign of life"
    if one.offset_gap_bytes is not None:
        text += f"; at most {plural(one.offset_gap_bytes, 'byte')} of writes lost"
    return text


def _resharding(one: Incident, names: Names) -> str:
    slots = plural(one.slot_count, "slot")
    if one.subject:
        text = f"{slots} moved from {name_of(one.subject, names)} to {name_of(one.winner, names)}"
    else:
        text = f"{slots} moved between {plural(len(one.nodes), 'master')}"
    gone = [name_of(step.actor, names) for step in one.steps if step.kind == "emptied"]
    return text + (f"; {', '.join(gone)} had none left and became a replica" if gone else "")


def _flapping(one: Incident, names: Names) -> str:
    return f"{name_of(one.subject, names)} was doubted {plural(len(one.steps), 'time')} ({one.variant})"


_SUMMARIES: Final[dict[str, Callable[[Incident, Names], str]]] = {
    "membership": _membership,
    "slots-assigned": _assigned,
    "epoch-collision": _collision,
    "partition": _partition,
    "failure": _failure,
    "failover": _failover,
    "resharding": _resharding,
    "flapping": _flapping,
}

_STEPS: Final[dict[str, str]] = {
    "last-sign": "last message of {actor}",
    "pfail": "{actor} holds {subject} to be failing (PFAIL){cause}",
    "report": "{actor} reports {subject} as failing, to {nodes}",
    "fail-decided": "{actor} decides FAIL of {subject}, with {reports} of others",
    "fail-learned": "{actor} hears FAIL of {subject}",
    "back": "{actor} speaks again",
    "trusted": "{actor} trusts {subject} again",
    "forgotten": "{actor} forgets {subject}",
    "known-again": "{actor} knows {subject} again",
    "met": "{actor} met the cluster, first through {subject}; {nodes} knew it by then",
    "new-id": "{actor} is reset and calls itself {subject}",
    "replica-attached": "{actor} becomes a replica of {subject}",
    "replica-moved": "{actor} moves to {subject}{orphaned}",
    "follows": "{actor} follows to {subject}",
    "emptied": "{actor} has no slots left and becomes a replica of {subject}",
    "moved": "{slots} move from {subject} to {actor}: {detail}",
    "taken": "{actor} takes {slots} without owner: {detail}",
    "given-up": "{actor} gives up {slots}: {detail}",
    "manual-failover-requested": "{actor} asks {subject} for a manual failover",
    "manual-failover-mfstart": "{actor} hears of the manual failover from {subject}",
    "paused": "{actor} stops its writes at offset {amount}",
    "manual-failover-paused": "{actor} learns the offset at which its master stopped: {amount}",
    "election-scheduled": "{actor} schedules an election: {detail}",
    "election-stalled": "{actor} cannot go on with its election: {detail}",
    "election-reset": "{actor} gives up its election: {detail}",
    "manual-failover-timed-out": "{actor} gives up the manual failover: {detail}",
    "vote-refused": "{actor} refuses its vote to {subject}: {detail}",
    "election-started": "{actor} asks for votes in epoch {epoch}{forced}",
    "vote": "{actor} votes for {subject} in epoch {epoch}",
    "no-vote": "{actor} does not vote for {subject} in epoch {epoch}: {detail}",
    "won": "{actor} wins epoch {epoch} and is the master, at offset {amount}",
    "took-over": "{actor} makes itself the master with epoch {epoch}, at offset {amount}",
    "adopted": "{actor} holds {subject} for the master",
    "demoted": "{actor} becomes a replica of {subject}",
    "state-fail": "{nodes} saw the cluster go down, {actor} first",
    "state-ok": "{nodes} saw the cluster come up, {actor} first",
    "epoch-raised": "{actor} raises its config epoch to {epoch}{collided}",
    "quorum-side": "{actor} and those it reached kept {masters}: {detail}",
    "doubted": "{actor} and others, {amount} in all, hold {subject} to be failing ({detail})",
}


def step_text(step: Step, names: Names) -> str:
    """One step in plain words; a kind that is not known is shown as it is."""
    pattern = _STEPS.get(step.kind)
    if pattern is None:
        return f"{name_of(step.actor, names)} {step.kind} {step.subject and name_of(step.subject, names)}".rstrip()
    cause = CAUSES.get(step.detail)
    collided = f", {name_of(step.subject, names)} has the same" if step.subject else ""
    amount = "an unknown number of" if step.amount is None else str(step.amount)
    return pattern.format(
        actor=name_of(step.actor, names),
        subject=name_of(step.subject, names) if step.subject else "nobody",
        epoch=step.epoch,
        amount=amount,
        nodes=plural(step.amount, "node"),
        reports=plural(step.amount, "report"),
        slots=plural(step.amount, "slot"),
        masters=plural(step.amount, "voting master"),
        detail=step.detail if len(step.detail) <= 200 else step.detail[:199] + "…",
        cause=f": {cause}" if cause else "",
        orphaned=", which had no healthy replica" if step.detail == "orphaned" else "",
        forced=", and wants them even if the master is up" if step.detail == "FORCEACK" else "",
        collided=collided,
    )
