"""The values of this package: incidents, their steps, findings.  Times are ns since the epoch, *ref* numbers a message
of the capture (-1 where none shows the fact).
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
"""The figures of an incident, as its attributes and the columns of the tables are called."""


class Part(NamedTuple):
    """What one node did of a step that many did: *ref* numbers the message that shows it, -1 where none does."""

    at_ns: int
    actor: str
    detail: str
    ref: int


class Step(NamedTuple):
    """One thing that happened in an incident: *actor* did *kind* to or about *subject*.

    *amount* goes with the kind: votes, slots or bytes; *until_ns* is set where many alike are one step, and *actors* says
    how many nodes did it, *actor* first; *parts* then has each.  *rests_on_gap* if it is concluded from silence while bytes are missing.
    It happened after *min_ns*, and ended after *until_min_ns*, where they are known.
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
    parts: tuple[Part, ...] = ()
    min_ns: int | None = None
    until_min_ns: int | None = None


class Loss(NamedTuple):
    """*seen_bytes* were written and not taken over; None if the old master was not heard.

    Then it could write for *unheard_ms* more (0: all of it was seen; None: unknown).
    """

    seen_bytes: int | None = None
    unheard_ms: int | None = None


NOTHING_KNOWN: Final = Loss()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident.  *subject* is the node that it is about, *winner* the node that took over; *ended_ns* is None where
    the capture ends first.

    Durations in ms: from the last sign of life to the first PFAIL and to FAIL; without service, at least and at most; from FAIL
    to the first election; of the election; from the win until all observers adopted it.  *loss* is the range of the
    writes that were lost, *votes* all that the winner was given.  *rests_on_gap* if nothing in it was seen but what
    follows from silence while bytes are missing from the capture.  A promotion was after *promoted_min_ns* and by *promoted_max_ns*; *sources* show it, with clocks that differ by *skew_ns*.
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
        """The least that was lost."""
        return self.loss.seen_bytes

    @property
    def unheard_ms(self) -> int | None:
        """For how long the old master could write unheard."""
        return self.loss.unheard_ms

    @property
    def incident_id(self) -> str:
        """A name that stays when more is known: kind, node and start."""
        return f"{self.kind}-{self.subject[:8] or 'cluster'}-{self.started_ns}"


class SetUp(NamedTuple):
    """A cluster was set up from *from_ns* to *to_ns*: how many nodes met, slots were assigned and replicas attached, as far as it shows."""

    from_ns: int
    to_ns: int
    nodes: int
    slots: int
    replicas: int


class Finding(NamedTuple):
    """Something that should not be, or that is worth knowing: *times* is how often it was seen, *amount* what goes with
    the code (ms, bytes).
    """

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
    """A node id as people write it."""
    return node[:8] or "-"


def milliseconds(from_ns: int | None, to_ns: int | None) -> int | None:
    """Whole milliseconds between two times; None where one is not known."""
    return None if from_ns is None or to_ns is None else (to_ns - from_ns) // 1_000_000


def in_order(incidents: list[Incident]) -> list[Incident]:
    """Sort incidents: by start, kind, node."""
    return sorted(incidents, key=lambda one: (one.started_ns, INCIDENT_ORDER.index(one.kind), one.subject, one.variant))


def findings_in_order(findings: list[Finding]) -> list[Finding]:
    """Sort findings: the gravest first, then by time, code, nodes."""
    return sorted(
        findings, key=lambda one: (SEVERITY_ORDER.index(one.severity), one.first_ns or 0, one.code, one.node, one.other)
    )
