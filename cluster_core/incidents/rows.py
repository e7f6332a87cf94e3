"""Rows of the gold tables: incidents, steps, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final, NamedTuple

from cluster_core.columns import Instant, InstantAt, MessageRef, Small, Unsigned
from cluster_core.incidents.incident import FIGURES, Finding, Incident, Step
from cluster_core.kinds import EventKind, FindingCode, IncidentKind, Severity
from cluster_core.rules import sentence

MESSAGE_IDS_MAX: Final = 200
"""Maximum message ids per row; the steps have all."""


class IncidentRow(NamedTuple):
    """One incident."""

    incident: Annotated[Small, "number in the snapshot, from 1, by time"]
    incident_id: Annotated[str, "stable name; more captures do not change it"]
    kind: Annotated[IncidentKind, "failure, failover, resharding, epoch-collision, partition, membership, ..."]
    variant: Annotated[str, "automatic, manual, forced, takeover; agreed; joined, forgotten, reset; ..."]
    subject: Annotated[str | None, "subject node: failed or former master, or source"]
    subject_address: Annotated[str | None, "ip:port of that node"]
    winner: Annotated[str | None, "node that took over: new master, target or new id"]
    winner_address: Annotated[str | None, "ip:port of that node"]
    nodes: Annotated[tuple[str, ...], "participants and witnesses"]
    epoch: Annotated[Unsigned | None, "resulting config epoch"]
    slots: Annotated[str | None, "moved or unserved slots, as in CLUSTER NODES"]
    slot_count: Annotated[Small | None, "number of slots"]
    started_ns: Annotated[InstantAt, "first step"]
    ended_ns: Annotated[InstantAt | None, "end; null if the capture ends before"]
    duration_ms: Annotated[int | None, "from start to end"]
    silence_to_pfail_ms: Annotated[int | None, "from the last sign of life to the first PFAIL"]
    silence_to_fail_ms: Annotated[int | None, "from the last sign of life to the first FAIL"]
    fail_to_election_ms: Annotated[int | None, "from the first FAIL to the first election"]
    election_ms: Annotated[int | None, "from the winner's request for votes to its win"]
    outage_min_ms: Annotated[int | None, "time without service of its slots, at least"]
    outage_ms: Annotated[int | None, "time without service of its slots, at most; null while its end is unknown"]
    adoption_ms: Annotated[int | None, "from the win until all observers see the winner as the master"]
    offset_gap_bytes: Annotated[
        int | None, "lost writes, at least: last offset of the old master minus that of the winner"
    ]
    unheard_ms: Annotated[
        int | None, "time in which the old master could write after that; 0: no more lost writes; null: unknown"
    ]
    votes: Annotated[Small | None, "votes for the winner"]
    refusals: Annotated[Small | None, "voting masters that refused the winner"]
    steps: Annotated[Small, "rows in gold/incident_steps"]
    summary: Annotated[str, "summary in one sentence"]
    message_ids: Annotated[tuple[int, ...], "messages with the evidence"]
    rests_on_gap: Annotated[bool | None, "whether it is concluded from silence during a gap alone; null if not checked"]
    promoted_min_ns: Annotated[int | None, "failover: earliest time of the promotion; ns since the epoch"]
    promoted_max_ns: Annotated[int | None, "failover: latest time of the promotion; ns since the epoch"]
    evidence: Annotated[
        tuple[str, ...], "failover: kinds of evidence that show the promotion: capture, log, poll, metrics"
    ]
    clock_skew_ms: Annotated[int | None, "failover: clock skew of that evidence, at least"]


class StepRow(NamedTuple):
    """One step of an incident."""

    incident: Annotated[Small, "number of the incident"]
    step: Annotated[Small, "step number, from 1"]
    at_ns: Annotated[Instant, "time of the step"]
    until_ns: Annotated[int | None, "end of equal actions that are one step; ns since the epoch"]
    at_min_ns: Annotated[int | None, "earliest possible start; null: at_ns is exact"]
    until_min_ns: Annotated[int | None, "earliest possible end; null: until_ns is exact"]
    offset_ms: Annotated[int, "time since the start of the incident"]
    kind: Annotated[EventKind, "last-sign, pfail, report, fail-decided, election-started, vote, won, ..."]
    actor: Annotated[str, "acting node, the first of several"]
    subject: Annotated[str | None, "affected node"]
    epoch: Annotated[Unsigned | None, "epoch of the step"]
    amount: Annotated[
        int | None, "figure of the kind: reports, slots, observers, replication offset; or the number of acting nodes"
    ]
    detail: Annotated[str, "reason or slots; empty if none"]
    ref: Annotated[MessageRef, "message with the evidence; null for time or another source"]
    text: Annotated[str, "sentence on the step"]
    rests_on_gap: Annotated[bool | None, "whether it is concluded from silence during a gap; null if not checked"]


class FindingRow(NamedTuple):
    """A violation or notable fact."""

    finding: Annotated[Small, "number in the snapshot, most severe first"]
    severity: Annotated[Severity, "error, warning or note"]
    code: Annotated[FindingCode, "split-claim, quorum-impossible, replication-lag, ..."]
    rule: Annotated[str, "rule of the protocol, such as R166"]
    rule_text: Annotated[str | None, "sentence of the rule"]
    node_id: Annotated[str | None, "subject node"]
    other: Annotated[str | None, "second subject: node, host or message type"]
    first_ns: Annotated[InstantAt | None, "first occurrence"]
    last_ns: Annotated[InstantAt | None, "last occurrence"]
    times: Annotated[int, "number of messages, intervals or votes"]
    amount: Annotated[int | None, "figure of the code: ms, bytes or votes"]
    text: Annotated[str, "sentence on the finding"]
    message_ids: Annotated[tuple[int, ...], "messages with the evidence"]


def incident_row(
    number: int, incident: Incident, summary: str, addresses: Mapping[str, str | None], *, prefix: str = ""
) -> IncidentRow:
    """Return the row of an incident; *prefix* starts its id, which then has the full subject, and skips gaps."""
    name = f"{prefix}-{incident.kind}-{incident.subject[:60]}-{incident.started_ns}" if prefix else incident.incident_id
    refs = sorted({step.ref for step in incident.steps if step.ref >= 0})
    return IncidentRow(
        incident=number,
        incident_id=name,
        kind=incident.kind,
        variant=incident.variant,
        subject=incident.subject or None,
        subject_address=addresses.get(incident.subject),
        winner=incident.winner or None,
        winner_address=addresses.get(incident.winner),
        nodes=tuple(incident.nodes),
        epoch=incident.epoch,
        slots=incident.slots or None,
        slot_count=incident.slot_count,
        started_ns=incident.started_ns,
        ended_ns=incident.ended_ns,
        duration_ms=None if incident.ended_ns is None else (incident.ended_ns - incident.started_ns) // 1_000_000,
        **{name: getattr(incident, name) for name in FIGURES},
        steps=len(incident.steps),
        summary=summary,
        message_ids=tuple(refs[:MESSAGE_IDS_MAX]),
        rests_on_gap=None if prefix else incident.rests_on_gap,
        promoted_min_ns=incident.promoted_min_ns,
        promoted_max_ns=incident.promoted_max_ns,
        evidence=tuple(str(source) for source in incident.sources),
        clock_skew_ms=incident.skew_ns // 1_000_000 if incident.sources else None,
    )


def step_rows(
    number: int, incident: Incident, tell: Callable[[Step], str], *, sees_gaps: bool = True
) -> Iterator[StepRow]:
    """Yield the rows of an incident's steps; *tell* formats a step."""
    for place, step in enumerate(incident.steps, 1):
        yield StepRow(
            incident=number,
            step=place,
            at_ns=step.ts_ns,
            until_ns=step.until_ns,
            at_min_ns=step.min_ns,
            until_min_ns=step.until_min_ns,
            offset_ms=(step.ts_ns - incident.started_ns) // 1_000_000,
            kind=step.kind,
            actor=step.actor,
            subject=step.subject or None,
            epoch=step.epoch,
            amount=step.actors if step.actors > 1 else step.amount,
            detail=step.detail,
            ref=step.ref,
            text=tell(step),
            rests_on_gap=step.rests_on_gap if sees_gaps else None,
        )


def finding_row(number: int, finding: Finding) -> FindingRow:
    """Return the row of a finding."""
    refs = tuple(ref for ref in finding.refs if ref >= 0)[:MESSAGE_IDS_MAX]
    cells = (
        finding.severity,
        finding.code,
        finding.code.rule,
        sentence(finding.code.rule) or None,
        finding.node or None,
        finding.other or None,
    )
    return FindingRow(
        number, *cells, finding.first_ns, finding.last_ns, finding.times, finding.amount, finding.text, refs
    )
