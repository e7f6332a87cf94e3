"""Content of a report on a cluster's history as plain values: filled from the tables, drawn on a terminal and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cluster_core.incidents.rows import FindingRow
from cluster_core.incidents.story import SENTENCE, seconds
from cluster_core.kinds import NAMES_NO_SLOTS, IncidentKind
from cluster_core.replay.rows import NodeViewRow
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.caveats import Caveat, Code
from schemas.history import SENTINEL_PROFILE
from slotscope.runtime import text

ROLES = {"slave": "replica", "master": "master"}
KIND_LABELS: dict[str, tuple[str, str]] = {
    IncidentKind.MEMBERSHIP: ("change of membership", "changes of membership"),
    IncidentKind.SLOTS_ASSIGNED: ("assignment of slots", "assignments of slots"),
    IncidentKind.EPOCH_COLLISION: ("collision of epochs", "collisions of epochs"),
    IncidentKind.FLAPPING: ("flapping node", "flapping nodes"),
    IncidentKind.RESYNC: ("full resynchronisation", "full resynchronisations"),
    IncidentKind.DATA_LOSS: ("loss of data", "losses of data"),
}
"""Nouns of kinds with a name that cannot be counted."""


@dataclass(frozen=True, slots=True)
class HistoryNode:
    """A node that anybody knew; *name* is as short as tells all apart."""

    node_id: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of an incident, as text; *offset_ms* since the incident began."""

    at_ns: int
    until_ns: int | None
    offset_ms: int
    kind: str
    text: str
    message_id: int | None
    actor: str = ""
    subject: str | None = None

    @property
    def nodes(self) -> list[str]:
        """Who did it, and to whom."""
        return [node for node in dict.fromkeys((self.actor, self.subject)) if node]


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """One row of gold/incidents with its steps; unknown values are None."""

    number: int
    kind: str
    variant: str
    subject: str | None
    winner: str | None
    nodes: Sequence[str]
    epoch: int | None
    slot_count: int | None
    started_ns: int
    ended_ns: int | None
    duration_ms: int | None
    figures: dict[str, int | None]
    summary: str
    step_count: int
    steps: Sequence[StepLine] = ()
    subject_address: str | None = None
    winner_address: str | None = None

    @property
    def known_figures(self) -> dict[str, int]:
        """The figures that are known; a loss of at least 0 bytes is unknown unless all writes were seen."""
        is_vague = self.figures.get("offset_gap_bytes") == 0 and self.figures.get("unheard_ms") != 0
        left_out = ("offset_gap_bytes",) if is_vague else ()
        return {name: value for name, value in self.figures.items() if value is not None and name not in left_out}


@dataclass(frozen=True, slots=True)
class RoleSpan:
    """A time in which a node held itself for the same: *slot_count* is how many slots it had at the end; None is unknown."""

    from_ns: int
    to_ns: int
    role: str
    master_id: str
    epoch: int | None
    slot_count: int | None


@dataclass(frozen=True, slots=True)
class HealthSpan:
    """A time with a number of other nodes that marked it PFAIL or FAIL."""

    from_ns: int
    to_ns: int
    health: str
    observers: int


@dataclass(frozen=True, slots=True)
class Lane:
    """The history of one node: its roles, and its health as others saw it."""

    node: HistoryNode
    roles: Sequence[RoleSpan]
    healths: Sequence[HealthSpan]


GRAVITY = (
    IncidentKind.FAILOVER, IncidentKind.FAILURE, IncidentKind.PARTITION, IncidentKind.OUTAGE, IncidentKind.RESTART,
    IncidentKind.RESHARDING, IncidentKind.FLAPPING, IncidentKind.RESYNC,
)  # fmt: skip
"""Of incidents that took as much service the first of these is the gravest."""


CAUSE_SHARE = 0.8
"""Share of the time of an outage from which its failover is the headline."""


def gravest_of(incidents: Sequence[IncidentLine]) -> IncidentLine | None:
    """A loss of data, else the incident that took most service: slots times time; of equal ones the first.

    Where slots are unknown, a shard counts for a third of all, and for the least time that it can have been out of service.
    """

    def gravity(incident: IncidentLine) -> tuple[bool, int, int, int]:
        outage_ms = incident.figures.get("outage_ms") or 0
        kinds = [str(kind) for kind in GRAVITY]
        rank = len(kinds) - kinds.index(incident.kind) if incident.kind in kinds else 0
        slots, least_ms = incident.slot_count, incident.figures.get("outage_min_ms") or 0
        if incident.variant == "whole cluster":
            slots = SLOT_COUNT
        taken = SLOT_COUNT // 3 * least_ms if slots is None else slots * outage_ms
        return incident.kind == IncidentKind.DATA_LOSS, taken, rank, outage_ms

    return max(incidents, key=gravity, default=None)


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """One replay."""

    snapshot_id: str
    first_ns: int
    last_ns: int
    messages: int
    observers: int
    node_timeout_ms: int
    node_timeout_from: str
    profile: str
    bad_records: int
    polls: int = 0
    log_events: int = 0
    poll_interval_ms: int | None = None
    polled_nodes: int = 0
    scraped_servers: int = 0
    warnings: Sequence[Caveat] = ()
    nodes: Sequence[HistoryNode] = ()
    incidents: Sequence[IncidentLine] = ()
    findings: Sequence[FindingRow] = ()
    lanes: Sequence[Lane] = ()

    @property
    def kinds(self) -> list[str]:
        """The number of incidents of each kind, the gravest kind first."""
        order = [str(kind) for kind in GRAVITY]
        by_gravity = sorted(
            self.incidents, key=lambda incident: order.index(incident.kind) if incident.kind in order else len(order)
        )
        counts = Counter(incident.kind for incident in by_gravity)
        return [text.plural(count, *KIND_LABELS.get(kind, (kind,))) for kind, count in counts.items()]

    @property
    def seen_by(self) -> str:
        """The evidence: messages, polls with their interval, log lines, metrics."""
        parts = [text.plural(self.messages, "message")] if self.messages else []
        if self.polls and self.poll_interval_ms:
            every = seconds(self.poll_interval_ms).replace(".00", "")
            parts.append(f"polls each {every} from {self.polled_nodes} of {text.plural(len(self.nodes), 'node')}")
        elif self.polls:
            parts.append(text.plural(self.polls, "poll"))
        parts += [text.plural(self.log_events, "log line")] if self.log_events else []
        parts += [f"metrics of {text.plural(self.scraped_servers, 'server')}"] if self.scraped_servers else []
        return ", ".join(parts)

    @property
    def missing_evidence(self) -> str:
        """Benefits of each missing kind of evidence; a history of sentinels has no other kind."""
        if self.profile == SENTINEL_PROFILE:
            return ""
        missing = []
        if not self.log_events:
            missing.append("Server logs would add causes, elections, resynchronisations and exact times.")
        if not self.polls:
            missing.append("Polls (slotscope collect) would add slots, keys and the state of each node at each poll.")
            if not self.messages:
                missing.append("Nodes that met or were forgotten are unknown without them.")
        if not self.messages:
            missing.append("A capture of the cluster bus would add failure reports, votes and links.")
        return " ".join(missing)

    @property
    def set_up(self) -> str:
        """The set-up of the cluster, which is not an incident, in one sentence; empty if the evidence does not show it."""
        return next((warning.text for warning in self.warnings if warning.code == Code.SET_UP), "")

    @property
    def gravest(self) -> IncidentLine | None:
        """See `gravest_of`."""
        return gravest_of(self.incidents)

    @property
    def longest_outage(self) -> IncidentLine | None:
        """The incident with the longest known loss of service."""
        known = [incident for incident in self.incidents if incident.figures.get("outage_ms") is not None]
        return max(known, key=lambda incident: incident.figures["outage_ms"] or 0, default=None)

    def _failover_within(self, outage: IncidentLine) -> IncidentLine | None:
        """The gravest failover that overlaps *outage*."""
        until_ns = self.last_ns if outage.ended_ns is None else outage.ended_ns
        return gravest_of(
            [
                incident
                for incident in self.incidents
                if incident.kind == IncidentKind.FAILOVER
                and incident.started_ns <= until_ns
                and (incident.ended_ns is None or incident.ended_ns >= outage.started_ns)
            ]
        )

    @property
    def verdict(self) -> tuple[str, str]:
        """The headline and the details of the gravest incident, or of the failover that accounts for most of an outage."""
        length = seconds(max(self.last_ns - self.first_ns, 0) // 1_000_000)
        gravest = self.gravest
        if gravest is None:
            seen_by = f"; {self.seen_by}" if self.seen_by else ""
            if self.set_up:
                return f"{self.set_up}; nothing else was seen in {length}{seen_by}.", ""
            return f"No change of role, slots, health or process was seen in {length}{seen_by}.", ""
        if gravest.kind == IncidentKind.OUTAGE and (failover := self._failover_within(gravest)) is not None:
            of_failover, of_outage = (incident.figures.get("outage_ms") or 0 for incident in (failover, gravest))
            gravest = failover if of_failover >= CAUSE_SHARE * of_outage else gravest
        head, _, rest = gravest.summary.partition(SENTENCE)
        *first, last = self.kinds
        counts = f"{', '.join(first)} and {last}" if first else last
        return f"{counts} in {length}: {head}.", rest and f"{rest}."


def role_spans(views: Iterable[NodeViewRow], last_ns: int) -> list[RoleSpan]:
    """Join a node's views of itself that differ in slots only; logs and metrics name no slots, and not every epoch."""
    spans: list[RoleSpan] = []
    for view in views:
        role = next((name for flag, name in ROLES.items() if flag in view.flags.split(",")), "role unknown")
        names_no_slots = view.evidence in NAMES_NO_SLOTS
        epoch = None if names_no_slots and not view.config_epoch else view.config_epoch
        slots = None if names_no_slots else slot_count(view.slots)
        from_ns, to_ns = view.valid_from_ns, last_ns if view.valid_to_ns is None else view.valid_to_ns
        if spans and (spans[-1].role, spans[-1].master_id, spans[-1].epoch) == (role, view.master_id, epoch):
            from_ns = spans.pop().from_ns
        spans.append(RoleSpan(from_ns, max(to_ns, from_ns), role, view.master_id, epoch, slots))
    return spans


def slot_count(text: str) -> int:
    """How many slots ``0-5460 5500`` are; words that are no ranges count nothing."""
    count = 0
    for word in text.split():
        first, _, last = word.partition("-")
        if first.isdigit() and (last or first).isdigit():
            count += int(last or first) - int(first) + 1
    return count


def health_spans(views: Iterable[NodeViewRow], first_ns: int, last_ns: int) -> list[HealthSpan]:
    """Sum up the views of all observers that show one node as PFAIL or FAIL."""
    changes: list[tuple[int, int, int]] = []
    for view in views:
        failed = int("fail" in view.flags.split(","))
        changes.append((view.valid_from_ns, 1, failed))
        if view.valid_to_ns is not None:
            changes.append((view.valid_to_ns, -1, -failed))
    spans: list[HealthSpan] = []
    at_ns, suspecting, failing = first_ns, 0, 0
    for ts_ns, pfail, fail in [*sorted(changes), (last_ns, 0, 0)]:
        if ts_ns > at_ns:
            health = "failed" if failing else "suspected" if suspecting else "fine"
            if spans and (spans[-1].health, spans[-1].observers) == (health, suspecting):
                at_ns = spans.pop().from_ns
            spans.append(HealthSpan(at_ns, ts_ns, health, suspecting))
            at_ns = ts_ns
        suspecting, failing = suspecting + pfail, failing + fail
    return spans
