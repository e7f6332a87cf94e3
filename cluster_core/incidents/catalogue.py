"""All incidents and findings of one replay."""

from __future__ import annotations

from typing import Any

from cluster_core.incidents.checks import check_claims, check_layout, check_replication
from cluster_core.incidents.finders.failovers import Promotion, contest_steps, failover_of, find_promotions
from cluster_core.incidents.finders.failures import (
    Episode,
    failure_of,
    failure_steps,
    find_episodes,
    is_failure,
    state_steps,
)
from cluster_core.incidents.finders.memberships import find_memberships
from cluster_core.incidents.finders.outages import Service, find_outages, find_service, lengths, outage_step
from cluster_core.incidents.finders.processes import find_data_losses, find_restarts, find_resyncs
from cluster_core.incidents.finders.set_up import split_set_up
from cluster_core.incidents.finders.slot_moves import find_slot_moves, slot_incidents
from cluster_core.incidents.finders.successors import missing_voters, slots_of_failed, successor_steps
from cluster_core.incidents.finders.troubles import find_collisions, find_flapping, find_partitions
from cluster_core.incidents.gaps import marked
from cluster_core.incidents.grouping import grouped_findings
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, Incident, SetUp, Step, findings_in_order, in_order
from cluster_core.incidents.thresholds import MANUAL_FAILOVER_NS
from cluster_core.kinds import EventKind
from cluster_core.slots.slot_set import slots_text


def find_incidents(history: History) -> list[Incident]:
    """Return all incidents in the order of `in_order`."""
    return find_story(history)[1]


def find_story(history: History) -> tuple[SetUp | None, list[Incident]]:
    """Return the set-up of the cluster, if the evidence covers it, and all incidents."""
    episodes = [episode for episode in find_episodes(history) if not _gave_up_its_id(history, episode)]
    promotions = find_promotions(history)
    moves = find_slot_moves(history, promotions)
    service = find_service(history, episodes, promotions)
    failures = [failed for failed in episodes if is_failure(history, failed)]
    incidents = _failures(history, failures, promotions, service)
    incidents += [_failover(history, promotion, _behind(promotion, episodes), service) for promotion in promotions]
    incidents += find_partitions(history, episodes)
    incidents += find_collisions(history)
    incidents += find_flapping(history, episodes)
    incidents += slot_incidents(history, moves, failures)
    incidents += find_memberships(history, promotions, moves.emptied)
    incidents += find_restarts(history, incidents, service)
    incidents += find_outages(service, incidents)
    incidents += find_data_losses(history)
    incidents += find_resyncs(history, incidents)
    set_up, incidents = split_set_up(history, incidents)
    return set_up, marked(in_order(incidents), history.gaps, history.thresholds)


def _failover(history: History, promotion: Promotion, episode: Episode | None, service: Service) -> Incident:
    """Return a failover with its shard's outages since the failure of the old master."""
    from_ns = promotion.min_ns if episode is None else episode.started_ns
    outages = service.of((promotion.old, promotion.winner), from_ns, promotion.ts_ns)
    figures = lengths([outage.interval for outage in outages])
    return failover_of(history, promotion, episode, [outage_step(outage) for outage in outages], figures)


def _failures(
    history: History, episodes: list[Episode], promotions: list[Promotion], service: Service
) -> list[Incident]:
    """Return failures without failover; replicas lost with their master without a successor are part of its incident."""
    alone = [member for member in episodes if not any(_behind(promotion, [member]) for promotion in promotions)]
    masters = {member.subject: member for member in alone if slots_of_failed(history, member)}
    part_of: dict[int, list[Episode]] = {}
    for member in alone:
        claim = history.header_claim_at(member.subject, member.started_ns)
        master = masters.get(claim.replicaof) if claim is not None else None
        if master is not None and abs(master.started_ns - member.started_ns) <= history.thresholds.together_ns:
            part_of.setdefault(id(master), []).append(member)
    parts = {id(member) for group in part_of.values() for member in group}
    return [
        _failure(history, member, part_of.get(id(member), []), service) for member in alone if id(member) not in parts
    ]


def _failure(history: History, episode: Episode, other_episodes: list[Episode], service: Service) -> Incident:
    """Return a failure without failover, with lost elections and the obstacles of replicas."""
    end_ns = history.last_ns if episode.to_ns is None else episode.to_ns
    more = [step for other in other_episodes for step in failure_steps(history, other)]
    more += contest_steps(history, episode.subject, episode.started_ns, end_ns)
    figures: dict[str, Any] = {}
    outages = service.of((episode.subject,), episode.started_ns, end_ns)
    if outages:
        bits = outages[0].bits
        figures = lengths([outage.interval for outage in outages])
        figures |= {"slots": slots_text(bits or 0), "slot_count": None if bits is None else bits.bit_count()}
        more += [outage_step(outage) for outage in outages]
        more += successor_steps(history, episode) + missing_voters(history, episode)
        until_ns = max(
            [end_ns + history.thresholds.timeout_ns] + [outage.interval.to_max_ns or 0 for outage in outages]
        )
        more += state_steps(history, episode.started_ns, until_ns)
    claim = history.claim_at(episode.subject, episode.started_ns)
    orders = (row for row in history.events_of(EventKind.MANUAL_FAILOVER_MFSTART) if row.subject == episode.subject)
    # Its master paused clients for the failover that it asked for.
    was_ordered = any(episode.started_ns - MANUAL_FAILOVER_NS <= row.ts_ns <= end_ns for row in orders)
    if not outages and not was_ordered and claim is not None and claim.replicaof:
        more.append(Step(episode.from_ns, EventKind.REPLICA_DOWN, episode.subject, claim.replicaof))
    return failure_of(history, episode, more, figures)


def _gave_up_its_id(history: History, episode: Episode) -> bool:
    """Return whether the node is gone because its process has a new id: peers mark the old id FAIL (R58)."""
    return any(
        old == episode.subject and ts_ns <= episode.from_ns + history.thresholds.together_ns
        for old, _, ts_ns in history.resets
    )


def _behind(promotion: Promotion, episodes: list[Episode]) -> Episode | None:
    """Return the failure of the old master that was open at the promotion."""
    return next(
        (
            member
            for member in episodes
            if member.subject == promotion.old
            and member.from_ns <= promotion.ts_ns
            and (member.to_ns is None or promotion.ts_ns < member.to_ns)
        ),
        None,
    )


def find_findings(history: History) -> list[Finding]:
    """Return all findings, the most severe first."""
    findings = [*check_claims(history), *check_layout(history), *check_replication(history)]
    return findings_in_order(grouped_findings(findings))
