"""Incidents, steps and findings.

Times are ns since the epoch; *ref* is a message number of the capture (-1 if none).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster_core.kinds import EventKind, FindingCode, IncidentKind, Severity, Source

INCIDENT_ORDER: Final = tuple(IncidentKind)
SEVERITY_ORDER: Final = tuple(Severity)
FIGURES: Final = (
    "silence_to_pfail_ms", "silence_to_fail_ms", "fail_to_election_ms", "election_ms", "outage_min_ms", "outage_ms", "adoption_ms",
    "offset_gap_bytes", "unheard_ms", "votes", "refusals",
)  # fmt: skip
"""Figures of an incident: attributes and table columns."""


class Step(NamedTuple):
    """One step of an incident: *actor* did *kind* to *subject*.

    *amount* depends on the kind: votes, slots or bytes. Merged steps have *until_ns* and the number *actors*
    (*actor* first). *rests_on_gap*: concluded from silence while bytes are missing. It happened after *min_ns* and
    ended after *until_min_ns*, if known.
    """

    ts_ns: int
    kind: EventKind
    actor: str
    subject: str
    epoch: int | None = None
    amount: int | None = None
    detail: str = ""
    ref: int = -1
    until_ns: int | None = None
    actors: int = 1
    rests_on_gap: bool = False
    min_ns: int | None = None
    until_min_ns: int | None = None


class Loss(NamedTuple):
    """*seen_bytes* were written and not taken over; None if the old master was not heard. It could write for *unheard_ms*
    more (0: all was seen; None: unknown).
    """

    seen_bytes: int | None = None
    unheard_ms: int | None = None


NOTHING_KNOWN: Final = Loss()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident on *subject*; *winner* is its successor; *ended_ns* is None if the capture ends first.

    Durations in ms: last message to first PFAIL and to FAIL; minimum and maximum without service; FAIL to first
    election; the election; win to adoption by all observers. *loss*: range of lost writes; *votes*: votes for the
    winner. *rests_on_gap*: based only on silence while bytes are missing. The promotion was after *promoted_min_ns* and
    by *promoted_max_ns*, in *sources* with clocks *skew_ns* apart.
    """

    kind: IncidentKind
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
    outage_min_ms: int | None = None
    outage_ms: int | None = None
    adoption_ms: int | None = None
    loss: Loss = NOTHING_KNOWN
    votes: int | None = None
    refusals: int | None = None
    steps: tuple[Step, ...] = ()
    rests_on_gap: bool = False
    promoted_min_ns: int | None = None
    promoted_max_ns: int | None = None
    sources: tuple[Source, ...] = ()
    skew_ns: int = 0

    @property
    def offset_gap_bytes(self) -> int | None:
        """Return the minimum loss."""
        return self.loss.seen_bytes

    @property
    def unheard_ms(self) -> int | None:
        """Return how long the old master could write unobserved."""
        return self.loss.unheard_ms

    @property
    def incident_id(self) -> str:
        """Return a stable id: kind, node and start."""
        return f"{self.kind}-{self.subject[:8] or 'cluster'}-{self.started_ns}"


class SetUp(NamedTuple):
    """Creation of a cluster from *from_ns* to *to_ns*: number of nodes, assigned slots and attached replicas."""

    from_ns: int
    to_ns: int
    nodes: int
    slots: int
    replicas: int


class Finding(NamedTuple):
    """A violation or notable fact: *times* is its frequency, *amount* depends on the code (ms, bytes)."""

    severity: Severity
    code: FindingCode
    node: str
    other: str
    first_ns: int | None
    last_ns: int | None
    times: int
    amount: int | None
    text: str
    refs: tuple[int, ...] = ()


def short(node: str) -> str:
    """Return the short form of a node id."""
    return node[:8] or "-"


def milliseconds(from_ns: int | None, to_ns: int | None) -> int | None:
    """Return whole ms between two times; None if one is unknown."""
    return None if from_ns is None or to_ns is None else (to_ns - from_ns) // 1_000_000


def in_order(incidents: list[Incident]) -> list[Incident]:
    """Sort incidents by start, kind, node."""
    return sorted(
        incidents,
        key=lambda incident: (
            incident.started_ns,
            INCIDENT_ORDER.index(incident.kind),
            incident.subject,
            incident.variant,
        ),
    )


def findings_in_order(findings: list[Finding]) -> list[Finding]:
    """Sort findings by severity, time, code, nodes."""
    return sorted(
        findings,
        key=lambda finding: (
            SEVERITY_ORDER.index(finding.severity),
            finding.first_ns or 0,
            finding.code,
            finding.node,
            finding.other,
        ),
    )
