"""Indexed rows of a replay: views of observers over time, and nodes' own claims."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.gossip.causes import Cause, Mechanism
from cluster_core.history.open_slots import OpenMark, OpenSlot, open_slots
from cluster_core.history.processes import Restart, Resync, restarts_of, resyncs_of
from cluster_core.history.samples import Samples, StateChange, sampled_restarts, state_changes, without_refuted
from cluster_core.history.statements import TICK_NS, Lines
from cluster_core.incidents.gaps import GapSeen
from cluster_core.incidents.header_claims import ClaimSpan, without_flips
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import slot_bits

PROMOTIONS = (Mechanism.ELECTION, Mechanism.TAKEOVER)
"""Mechanisms of promotion (R93, R97)."""
UNKNOWN_SLOTS = -1
"""Number that stands for unknown slots in `History.slots_of`."""
PROCESS = (EventKind.PROCESS_ENDED, EventKind.PROCESS_IDLE, EventKind.PROCESS_STARTED)
"""Events of a process, from connections."""
RENAMED = (Cause.RESET, Cause.RESET_DONE)
"""Causes of a process changing its id (R82)."""


class PfailSpell(NamedTuple):
    """*observer* marked *subject* PFAIL from *from_ns*, and FAIL from *fail_ns* if ever."""

    observer: str
    subject: str
    from_ns: int
    to_ns: int | None
    fail_ns: int | None
    cause: Cause
    ref: int
    fail_ref: int


class OffsetSeen(NamedTuple):
    """*node*'s replication offset at *ts_ns*, from another source than the bus.

    *is_last*: the end of its stream as a master; a deposed master requests the bytes after it (P6).
    """

    node: str
    ts_ns: int
    offset: int
    is_last: bool = False


class History:
    """All rows of one replay.

    *slots_of*: slots (bit s for slot s) by number in *header_claims*. *offsets*: replication offsets from other sources than
    the bus. *gaps*: missing bytes of captures. *lines*: server logs. *samples*: INFO
    and CLUSTER INFO from polls and metrics. *open_marks*: open slots in poll replies.
    """

    def __init__(
        self,
        rows: Iterable[ReplayRow],
        header_claims: Iterable[ClaimSpan],
        slots_of: Mapping[int, int],
        *,
        node_timeout_ms: int,
        knows_timeout: bool = True,
        first_ns: int,
        last_ns: int,
        offsets: Iterable[OffsetSeen] = (),
        gaps: Iterable[GapSeen] = (),
        lines: Lines | None = None,
        samples: Samples | None = None,
        open_marks: Iterable[OpenMark] = (),
    ) -> None:
        self._open_marks = tuple(open_marks)
        self.samples = without_refuted(samples or {})
        self.lines = lines or Lines(())
        polls = {node: mine for (node, source), mine in self.samples.items() if source is Source.POLL}
        self.polled_ns = {node: [poll.ts_min_ns for poll in mine] for node, mine in polls.items()}
        self.answered_ns = {node: [poll.ts_ns for poll in mine] for node, mine in polls.items()}
        self.thresholds = Thresholds(node_timeout_ms * 1_000_000, knows_timeout)
        self.first_ns, self.last_ns = first_ns, last_ns
        self.slots_of = dict(slots_of)
        self._numbers: dict[int, int] = {}
        self.gaps = tuple(gaps)
        self.views: dict[tuple[str, str], list[NodeViewRow]] = {}
        self.events: list[EventRow] = []
        self.votes: list[VoteRow] = []
        self.epochs: list[EpochRow] = []
        self.reports: list[FailureReportRow] = []
        for row in rows:
            if isinstance(row, NodeViewRow):
                self.views.setdefault((row.observer, row.node_id), []).append(row)
            elif isinstance(row, EventRow):
                self.events.append(row)
            elif isinstance(row, VoteRow):
                self.votes.append(row)
            elif isinstance(row, EpochRow):
                self.epochs.append(row)
            elif isinstance(row, FailureReportRow):
                self.reports.append(row)
        self.views = {pair: sorted(self.views[pair], key=lambda row: row.valid_from_ns) for pair in sorted(self.views)}
        self.events.sort(key=lambda row: (row.ts_ns, row.observer, row.kind, row.subject))
        self.votes.sort(key=lambda row: (row.asked_ns, row.voter, row.candidate))
        self.epochs.sort(key=lambda row: (row.ts_ns, row.node_id, row.epoch))
        self.reports.sort(key=lambda row: (row.valid_from_ns, row.observer, row.reporter, row.subject))
        spans: dict[str, list[ClaimSpan]] = {}
        for span in sorted(header_claims, key=lambda span: (span.node, span.first_ref)):
            spans.setdefault(span.node, []).append(span)
        self.offsets: dict[str, list[OffsetSeen]] = {}
        for seen in sorted(offsets, key=lambda seen: seen.ts_ns):
            self.offsets.setdefault(seen.node, []).append(seen)
        self.header_claims = {node: without_flips(claims) for node, claims in spans.items()}
        for _, node, born_ns in self.resets:  # metrics name an address, which had another id before
            own = self.views.get((node, node), ())
            self.views[node, node] = [row for row in own if row.valid_to_ns is None or row.valid_to_ns > born_ns]
            mine = self.samples.get((node, Source.METRICS), ())
            self.samples[node, Source.METRICS] = [sample for sample in mine if sample.ts_min_ns >= born_ns]

    @cached_property
    def observers(self) -> list[str]:
        """Return nodes with known views."""
        return list(dict.fromkeys(observer for observer, _ in self.views))

    @cached_property
    def nodes(self) -> list[str]:
        """Return nodes in any view."""
        return sorted({node for _, node in self.views} | set(self.header_claims))

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Return the last address of each node, ``ip:port``."""
        last: dict[str, tuple[int, str]] = {}
        for (_, node), rows in self.views.items():
            for row in rows:
                if row.ip and row.valid_from_ns >= last.get(node, (-1, ""))[0]:
                    last[node] = (row.valid_from_ns, f"{row.ip}:{row.port}")
        return {node: address for node, (_, address) in last.items()}

    def view_at(self, observer: str, node: str, ts_ns: int) -> NodeViewRow | None:
        """Return *observer*'s view of *node* at that time; None if unknown."""
        rows = self.views.get((observer, node), [])
        at = bisect_right(rows, ts_ns, key=lambda row: row.valid_from_ns) - 1
        if at < 0 or _over(rows[at].valid_to_ns, ts_ns):
            return None
        return rows[at]

    def header_claim_at(self, node: str, ts_ns: int) -> ClaimSpan | None:
        """Return the span of *node* at that time, or the last one before."""
        spans = self.header_claims.get(node, [])
        at = bisect_right(spans, ts_ns, key=lambda span: span.from_ns) - 1
        return spans[at] if at >= 0 else None

    def own_slots(self, span: ClaimSpan | None) -> int:
        """Return the slots claimed for the node itself: those of a replica are its master's (R3)."""
        return self.slots_of.get(span.slots, 0) if span is not None and span.is_master else 0

    @cached_property
    def resets(self) -> list[tuple[str, str, int]]:
        """Return old ids, new ids and times of CLUSTER RESET HARD (R82) and of processes without their nodes.conf."""
        found: dict[str, tuple[str, str, int]] = {}
        before: dict[tuple[str, int], str] = {}
        for line in self.lines.of_kinds(0, 1 << 62, EventKind.STARTED, EventKind.IDENTITY):
            old = before.get((line.ip, line.port), "")
            if line.ip and old and line.kind == EventKind.IDENTITY and line.observer not in (old, *found):
                found[line.observer] = (old, line.observer, line.ts_ns)
            before[line.ip, line.port] = line.observer
        for node in self.observers:
            renamed = next((row for row in self.views.get((node, node), ()) if row.cause in RENAMED), None)
            if renamed is None:
                continue
            for old in self.observers:
                own = self.views.get((old, old), ())
                if (
                    old != node
                    and own
                    and own[-1].valid_to_ns == renamed.valid_from_ns
                    and (own[-1].ip, own[-1].port) == (renamed.ip, renamed.port)
                ):
                    found.setdefault(node, (old, node, renamed.valid_from_ns))
        return list(found.values())

    def poll_pause_ns(self, node: str) -> int:
        """Return the median pause between a node's replies to polls; 0 if unknown."""
        pauses = sorted(second - first for first, second in pairwise(self.answered_ns.get(node, ())))
        return pauses[len(pauses) // 2] if pauses else 0

    @cached_property
    def restarts(self) -> list[Restart]:
        """Return all restarts in time order."""
        return restarts_of(self.lines, self.events, sampled_restarts(self.samples))

    @cached_property
    def states(self) -> dict[str, list[StateChange]]:
        """Return changes of the cluster state by node; a process starts in FAIL (R106)."""
        started = {(event.observer, event.ts_ns) for event in self.events_of(EventKind.PROCESS_STARTED)}
        logged: dict[str, list[StateChange]] = {}
        for event in self.events_of(EventKind.STATE_FAIL, EventKind.STATE_OK):
            if (event.observer, event.ts_ns) not in started:
                # A header shows the new state; it may have changed since the previous header.
                claim = self.header_claim_at(event.observer, event.ts_ns - 1) if event.ref >= 0 else None
                min_ns = event.ts_ns if claim is None else min(claim.to_ns, event.ts_ns) - TICK_NS
                change = StateChange(min_ns, event.ts_ns, event.kind == EventKind.STATE_OK)
                logged.setdefault(event.observer, []).append(change)
        sampled: dict[str, list[MetricSample]] = {}
        for (node, _), mine in self.samples.items():
            sampled.setdefault(node, []).extend(mine)
        restarts: dict[str, list[Restart]] = {}
        for restart in self.restarts:
            restarts.setdefault(restart.node, []).append(restart)
        return {
            node: state_changes(logged.get(node, ()), sampled.get(node, ()), restarts.get(node, ()), self.first_ns)
            for node in sorted({*logged, *sampled, *restarts})
        }

    @cached_property
    def resyncs(self) -> list[Resync]:
        """Return all resynchronizations in logs, in time order."""
        return resyncs_of(self.lines)

    @cached_property
    def open_slots(self) -> list[OpenSlot]:
        """Return all periods of open slots from polls or logs."""
        return open_slots(self._open_marks, self.answered_ns, self.lines)

    @cached_property
    def known_owners(self) -> set[str]:
        """Return nodes that had unknown slots: they voted, lost a shard, or refused."""
        kinds = (EventKind.STATE_FAIL, EventKind.MANUAL_FAILOVER_MFSTART)
        owners = {event.observer for event in self.events_of(*kinds)} | {vote.voter for vote in self.votes}
        return owners | {event.subject for event in self.events_of(EventKind.ELECTION_STARTED)}

    @cached_property
    def claims(self) -> dict[str, list[ClaimSpan]]:
        """Return each node's claims: by its headers, else its own replies and log, else another node's view."""
        claims_of = dict(self.header_claims)
        for node in self.nodes:
            if node not in claims_of:
                views = (self.views.get((observer, node)) for observer in (node, *self.observers))
                rows = next((rows for rows in views if rows), [])
                first_ns = min(self.answered_ns.get(rows[0].observer, ()), default=0) if rows else 0
                claims_of[node] = [
                    self._claimed(row)
                    for row in rows
                    if row.evidence in (Source.POLL, Source.LOG, Source.METRICS)
                    and "handshake" not in row.flags
                    and (row.valid_to_ns is None or row.valid_to_ns > first_ns)
                ]
        return claims_of

    def _claimed(self, row: NodeViewRow) -> ClaimSpan:
        """Return a view in the form of a header; slots may be unknown."""
        flags_printed = row.flags.split(",")
        flags = (
            NodeFlags.REPLICA
            if "slave" in flags_printed
            else NodeFlags.MASTER
            if "master" in flags_printed
            else NodeFlags(0)
        )
        if "nofailover" in flags_printed:
            flags |= NodeFlags.NOFAILOVER
        slots = self._number_of(slot_bits(row.slots)) if row.evidence is Source.POLL else UNKNOWN_SLOTS
        end_ns = self.last_ns if row.valid_to_ns is None else row.valid_to_ns
        return ClaimSpan(
            row.node_id, row.valid_from_ns, end_ns, row.ref, row.ref, 0, int(flags), row.master_id, row.config_epoch,
            row.config_epoch, slots, 0, 0, 0,
        )  # fmt: skip

    def _number_of(self, bits: int) -> int:
        """Return a number for *bits* in `slots_of`."""
        if bits not in self._numbers:
            self._numbers[bits] = -2 - len(self._numbers)
            self.slots_of[self._numbers[bits]] = bits
        return self._numbers[bits]

    def claim_at(self, node: str, ts_ns: int) -> ClaimSpan | None:
        """Return the claim of *node* then, or the last one before."""
        spans = self.claims.get(node, [])
        at = bisect_right(spans, ts_ns, key=lambda span: span.from_ns) - 1
        return spans[at] if at >= 0 else None

    def alive_ns(self, node: str) -> list[int]:
        """Return times at which log lines or headers of *node* show activity; a header may be built a tick before."""
        lines = [line.ts_ns for line in self.lines.of_node.get(node, ())]
        spans = self.header_claims.get(node, ())
        return sorted([*lines, *(ts_ns - TICK_NS for span in spans for ts_ns in (span.from_ns, span.to_ns))])

    def slots_owned(self, node: str, ts_ns: int) -> int:
        """Return the slots of *node* as a master, by headers, its own view, or another's; 0 if unknown."""
        claim = self.header_claim_at(node, ts_ns)
        if claim is not None:
            return self.own_slots(claim)
        own = self.view_at(node, node, ts_ns)
        if own is not None and (own.slots or own.evidence is not Source.LOG):
            return slot_bits(own.slots)
        views = (self.view_at(observer, node, ts_ns) for observer in self.observers)
        return next((slot_bits(row.slots) for row in views if row is not None and row.slots), 0)

    def is_failing(self, node: str, ts_ns: int) -> bool:
        """Return whether any observer marked *node* PFAIL or FAIL then."""
        spells = self.pfail_spells.get(node, ())
        return any(spell.from_ns <= ts_ns and (spell.to_ns is None or ts_ns < spell.to_ns) for spell in spells)

    def events_of(self, *kinds: str) -> list[EventRow]:
        """Return events of these kinds in time order."""
        if len(kinds) == 1:
            return self._events_by_kind.get(kinds[0], [])
        selected = [event for kind in kinds for event in self._events_by_kind.get(kind, [])]
        return sorted(selected, key=lambda event: (event.ts_ns, event.observer, event.kind, event.subject))

    @cached_property
    def process_events(self) -> dict[str, list[EventRow]]:
        """Return ends, hangs and starts of processes by node, in time order."""
        by_node: dict[str, list[EventRow]] = {}
        for event in self.events_of(*PROCESS):
            by_node.setdefault(event.observer, []).append(event)
        return by_node

    @cached_property
    def _events_by_kind(self) -> dict[str, list[EventRow]]:
        by_kind: dict[str, list[EventRow]] = {}
        for event in self.events:
            by_kind.setdefault(event.kind, []).append(event)
        return by_kind

    def voting_masters_at(self, observer: str, ts_ns: int) -> list[str]:
        """Return masters with slots in *observer*'s view, the base of the quorum."""
        known = (self.view_at(observer, node, ts_ns) for node in self.nodes)
        return [row.node_id for row in known if row is not None and "master" in row.flags and row.slots]

    def reports_at(self, observer: str, subject: str, from_ns: int, to_ns: int) -> list[FailureReportRow]:
        """Return failure reports on *subject* valid at *observer* in a period (R51)."""
        rows = self._reports_by_pair.get((observer, subject), [])
        return [row for row in rows if row.valid_from_ns <= to_ns and not _over(row.valid_to_ns, from_ns)]

    @cached_property
    def _reports_by_pair(self) -> dict[tuple[str, str], list[FailureReportRow]]:
        by_pair: dict[tuple[str, str], list[FailureReportRow]] = {}
        for row in self.reports:
            by_pair.setdefault((row.observer, row.subject), []).append(row)
        return by_pair

    @cached_property
    def reports_of(self) -> dict[str, list[FailureReportRow]]:
        """Return failure reports by subject, in time order."""
        by_subject: dict[str, list[FailureReportRow]] = {}
        for row in self.reports:
            by_subject.setdefault(row.subject, []).append(row)
        return by_subject

    @cached_property
    def pfail_spells(self) -> dict[str, list[PfailSpell]]:
        """Return periods of PFAIL and FAIL by subject, in time order."""
        by_subject: dict[str, list[PfailSpell]] = {}
        for (observer, subject), rows in self.views.items():
            if observer != subject:
                by_subject.setdefault(subject, []).extend(_pfail_spells(observer, subject, rows))
        return {
            subject: sorted(spells, key=lambda spell: (spell.from_ns, spell.observer))
            for subject, spells in sorted(by_subject.items())
            if spells
        }


def _over(to_ns: int | None, ts_ns: int) -> bool:
    return to_ns is not None and to_ns <= ts_ns


def _pfail_spells(observer: str, subject: str, rows: list[NodeViewRow]) -> list[PfailSpell]:
    spells: list[PfailSpell] = []
    current: PfailSpell | None = None
    for row in rows:
        flags_printed = row.flags.split(",")
        failed = "fail" in flags_printed
        if not failed and "fail?" not in flags_printed:
            current = None
            continue
        if current is None or current.to_ns != row.valid_from_ns:
            current = PfailSpell(observer, subject, row.valid_from_ns, row.valid_to_ns, None, row.cause, row.ref, -1)
            spells.append(current)
        fail_ns, fail_ref = current.fail_ns, current.fail_ref
        if failed and fail_ns is None:
            fail_ns, fail_ref = row.valid_from_ns, row.ref
        current = spells[-1] = current._replace(to_ns=row.valid_to_ns, fail_ns=fail_ns, fail_ref=fail_ref)
    return spells
