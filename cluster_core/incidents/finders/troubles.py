"""Incidents of several nodes or repeated events: partitions, epoch collisions, flapping nodes."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.causes import Mechanism
from cluster_core.history.service import last_end
from cluster_core.incidents.finders.failures import Episode, failure_steps, has_ended, in_story_order
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.thresholds import FLAPS_MIN
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.replay.rows import EpochRow

# -- partitions --------------------------------------------------------------------------------------------------------


PART_STEPS: Final = (
    EventKind.LAST_SIGN,
    EventKind.PROCESS_IDLE,
    EventKind.CUT_OFF,
    EventKind.FAIL_DECIDED,
    EventKind.BACK,
)
"""Steps of each failure that a partition includes."""


def find_partitions(history: History, episodes: list[Episode]) -> list[Incident]:
    """Return nodes that were alive but unreachable for most others.

    Either they were active, or several stopped and resumed together, as in a network partition or a stalled host. A
    master with its replicas alone is one failure. Two nodes may have lost only the link between them.
    """
    groups: list[list[Episode]] = []
    cut = (member for member in episodes if member.by_most and (member.is_cut_off or member.back_ns is not None))
    for episode in (member for member in cut if not has_ended(history, member)):
        group = next((group for group in groups if _together(history, group[0], episode)), None)
        if group is None:
            groups.append([episode])
        else:
            group.append(episode)
    partitions = [
        _partition(history, group)
        for group in groups
        if group[0].is_cut_off or len({_shard(history, member) for member in group}) > 1
    ]
    return partitions + _lost_links(history, episodes)


def _lost_links(history: History, episodes: list[Episode]) -> list[Incident]:
    """Return pairs of nodes that marked each other PFAIL while nobody else did: neither is marked FAIL (R54)."""
    pairs: dict[frozenset[str], list[Episode]] = {}
    for episode in episodes:
        ends = frozenset((episode.subject, *(spell.observer for spell in episode.spells)))
        if len(ends) == 2 and not episode.by_most and not episode.agreed:
            pairs.setdefault(ends, []).append(episode)
    incidents = []
    for ends, marks in pairs.items():
        for group in runs(marks, 0, lambda mark: mark.from_ns, lambda mark: mark.to_ns or history.last_ns):
            if {mark.subject for mark in group} == ends:
                incidents.append(_lost_link(history, sorted(ends), group))
    return incidents


def _lost_link(history: History, ends: list[str], marks: list[Episode]) -> Incident:
    steps = [step for mark in marks for step in failure_steps(history, mark) if step.actor in ends]
    return Incident(
        kind=IncidentKind.PARTITION,
        variant="one link",
        subject="",
        started_ns=min(mark.from_ns for mark in marks),
        ended_ns=last_end(mark.to_ns for mark in marks),
        nodes=tuple(ends),
        steps=in_story_order(steps),
    )


def _shard(history: History, episode: Episode) -> str:
    claim = history.claim_at(episode.subject, episode.started_ns)
    return episode.subject if claim is None else claim.replicaof or episode.subject


def _together(history: History, first: Episode, other: Episode) -> bool:
    slack_ns = history.thresholds.together_ns
    if first.is_cut_off != other.is_cut_off or first.subject == other.subject:
        return False
    if first.is_cut_off:
        return abs(first.from_ns - other.from_ns) <= slack_ns
    backs = abs((first.back_ns or 0) - (other.back_ns or 0))
    return abs(first.started_ns - other.started_ns) <= slack_ns and backs <= slack_ns


def _partition(history: History, group: list[Episode]) -> Incident:
    group = sorted(group, key=lambda member: member.subject)
    cut = {member.subject for member in group}
    started_ns = min(member.started_ns for member in group)
    back_ns = max((member.back_ns for member in group if member.back_ns is not None), default=None)
    steps: list[Step] = []
    for member in group:
        steps += [step for step in failure_steps(history, member) if step.kind in PART_STEPS]
    for reachable in (node for node in history.observers if node not in cut):
        voters = history.voting_masters_at(reachable, started_ns)
        if not voters:  # outside of the cluster
            continue
        kept = sum(node not in cut for node in voters)
        majority = "" if 2 * kept > len(voters) else ", no majority"
        detail = f"of {len(voters)} voting masters{majority}"
        steps.append(Step(started_ns, EventKind.QUORUM_SIDE, reachable, "", amount=kept, detail=detail))
        break
    ended_ns = last_end(member.to_ns for member in group)
    return Incident(
        kind=IncidentKind.PARTITION,
        variant="cut off" if group[0].is_cut_off else "silent together",
        subject=group[0].subject if len(group) == 1 else "",
        started_ns=started_ns,
        ended_ns=ended_ns if back_ns is None or ended_ns is None else max(back_ns, ended_ns),
        nodes=tuple(member.subject for member in group),
        steps=in_story_order(steps),
    )


# -- epochs ------------------------------------------------------------------------------------------------------------


def find_collisions(history: History) -> list[Incident]:
    """Return collisions of config epochs with their new epochs (R80), one incident per burst.

    Masters of a new cluster all start with epoch 0, which is not an incident.
    """
    rows = [row for row in history.epochs if row.mechanism is Mechanism.COLLISION]
    bursts = runs(rows, history.thresholds.pause_ns, lambda row: row.ts_ns)
    return [_collision(history, burst) for burst in bursts if all(_epoch_before(history, row) for row in burst)]


def _epoch_before(history: History, row: EpochRow) -> int:
    """Return the config epoch that a master had before; 0 if it is new."""
    claim = history.header_claim_at(row.node_id, row.ts_ns - 1)
    return 0 if claim is None else claim.config_epoch


def _collision(history: History, group: list[EpochRow]) -> Incident:
    steps = [
        Step(
            row.ts_ns, EventKind.EPOCH_RAISED, row.node_id, "", row.epoch, detail=str(_epoch_before(history, row)),
            ref=row.ref,
        )
        for row in group
    ]  # fmt: skip
    return Incident(
        kind=IncidentKind.EPOCH_COLLISION,
        variant="collision",
        subject=group[0].node_id if len(group) == 1 else "",
        started_ns=group[0].ts_ns,
        ended_ns=group[-1].ts_ns,
        nodes=tuple(dict.fromkeys(row.node_id for row in group)),
        epoch=max(row.epoch for row in group),
        steps=tuple(steps),
    )


# -- flapping ----------------------------------------------------------------------------------------------------------


def find_flapping(history: History, episodes: list[Episode]) -> list[Incident]:
    """Return nodes that were marked PFAIL repeatedly while their process ran, by nodes that were not cut off themselves."""
    by_node: dict[str, list[Episode]] = {}
    cut_off = [episode for episode in episodes if episode.by_most and episode.is_cut_off]
    for episode in episodes:
        observers = {spell.observer for spell in episode.spells}
        lost = {other.subject for other in cut_off if other.covers(episode.from_ns)}
        if not observers <= lost and not has_ended(history, episode):
            by_node.setdefault(episode.subject, []).append(episode)
    incidents = []
    for subject, spells in by_node.items():
        groups = runs(spells, history.thresholds.flap_window_ns, lambda spell: spell.from_ns)
        incidents += [_flapping(subject, group) for group in groups if len(group) >= FLAPS_MIN]
    return incidents


def _flapping(subject: str, run: list[Episode]) -> Incident:
    steps = tuple(
        Step(
            episode.from_ns,
            EventKind.DOUBTED,
            episode.spells[0].observer,
            subject,
            amount=len({spell.observer for spell in episode.spells}),
            detail="FAIL" if episode.agreed else "PFAIL",
            ref=episode.spells[0].ref,
            until_ns=episode.to_ns,
        )
        for episode in run
    )
    return Incident(
        kind=IncidentKind.FLAPPING,
        variant="with FAIL" if any(episode.agreed for episode in run) else "PFAIL only",
        subject=subject,
        started_ns=run[0].started_ns,
        ended_ns=run[-1].to_ns,
        nodes=tuple(dict.fromkeys(spell.observer for episode in run for spell in episode.spells)),
        steps=steps,
    )
