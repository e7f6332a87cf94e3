"""The values of this package: incidents, their steps, findings.  Times are ns since the epoch, *ref* numbers a message
of the capture (-1 where none shows the fact).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

KINDS: Final = (
    "membership",
    "slots-assigned",
    "epoch-collision",
    "partition",
    "failure",
    "failover",
    "resharding",
    "flapping",
)
"""Kinds of incidents; of two that start together the one that stands first comes first."""
SEVERITIES: Final = ("error", "warning", "note")


class Step(NamedTuple):
    """One thing that happened in an incident: *actor* did *kind* to or about *subject*.

    *amount* goes with the kind: votes, slots or bytes; *until_ns* is set where many alike are one step.
    """

    ts_ns: int
    kind: str
    actor: str
    subject: str
    epoch: int | None
    amount: int | None
    detail: str
    ref: int
    until_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident.  *subject* is the node that it is about, *winner* the node that took over; *ended_ns* is None where
    the capture ends first.

    Durations in ms: from the last sign of life to the first PFAIL, to FAIL and to the winner (*outage_ms*); from FAIL
    to the first election; of the election; from the win until all observers adopted it.  *offset_gap_bytes* bounds the
    writes that were lost.
    """

    kind: str
    variant: str
    subject: str
    started_ns: int
    ended_ns: int | None
    nodes: tuple[str, ...] = ()
    winner: str = ""
    epoch: int | None = None
    slots: str = ""
    slot_count: int | None = None
    silence_to_pfail_ms: int | None = None
    silence_to_fail_ms: int | None = None
    fail_to_election_ms: int | None = None
    election_ms: int | None = None
    outage_ms: int | None = None
    adoption_ms: int | None = None
    offset_gap_bytes: int | None = None
    votes: int | None = None
    refusals: int | None = None
    steps: tuple[Step, ...] = ()

    @property
    def incident_id(self) -> str:
        """A name that stays when more is known: kind, node and start."""
        return f"{self.kind}-{self.subject[:8] or 'cluster'}-{self.started_ns}"


class Finding(NamedTuple):
    """Something that should not be, or that is worth knowing: *rule* is that of the cluster rules, *times* how often it
    was seen, *amount* what goes with the code (ms, bytes).
    """

    severity: str
    code: str
    rule: str
    node: str
    other: str
    first_ns: int | None
    last_ns: int | None
    times: int
    amount: int | None
    text: str
    refs: tuple[int, ...] = ()


def short(node: str) -> str:
    """A node id as people write it."""
    return node[:8] or "-"


def milliseconds(from_ns: int | None, to_ns: int | None) -> int | None:
    """Whole milliseconds between two times; None where one is not known."""
    return None if from_ns is None or to_ns is None else (to_ns - from_ns) // 1_000_000


def in_order(incidents: list[Incident]) -> list[Incident]:
    """Sort incidents: by start, kind, node."""
    return sorted(incidents, key=lambda one: (one.started_ns, KINDS.index(one.kind), one.subject, one.variant))


def findings_in_order(findings: list[Finding]) -> list[Finding]:
    """Sort findings: the gravest first, then by time, code, nodes."""
    return sorted(
        findings, key=lambda one: (SEVERITIES.index(one.severity), one.first_ns or 0, one.code, one.node, one.other)
    )
