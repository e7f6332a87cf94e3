"""Failure reports, votes, epochs and events of one observer, from the machine's effects and its messages."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause, Mechanism, Refusal, ReportEnd
from cluster_core.gossip.events import (
    Changed,
    Effect,
    EpochBumped,
    ManualFailoverMarked,
    NodeRemoved,
    ReportAdded,
    ReportRemoved,
    VoteAsked,
)
from cluster_core.gossip.flags import MASTER, NOADDR
from cluster_core.gossip.view import Peer
from cluster_core.kinds import EventKind
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, ReplayRow, VoteRow
from cluster_core.wire.bus import Fail, Header, Message, MessageFlag, MessageType

ANSWER_NS_MAX: Final = 1_000_000_000
"""A vote is sent in the pass that read the request; after this time there is none."""
CROSSING_NS: Final = 50_000_000
"""A FAIL decision sent this soon after another's arrival was made independently."""


class Request(NamedTuple):
    """A vote request to the observer."""

    asked_ns: int
    refusal: Refusal
    ref: int


class Ledger:
    """Tracks open requests and reports of one observer; returns rows when they are settled."""

    def __init__(self, observer: str) -> None:
        self.observer = observer
        self._reports: dict[tuple[str, str], tuple[int, int]] = {}
        self._requests: dict[tuple[str, int], Request] = {}
        self._last: Header | None = None
        self._election_epoch = 0
        self._bumped: dict[int, Cause] = {}
        self._failed: dict[str, int] = {}
        self._is_mismatch = False
        self._learned: dict[str, EventRow] = {}
        self._promoted: tuple[str, int] = ("", -1)
        self._raised: tuple[str, int] = ("", 0)

    def note_effects(self, effects: list[Effect], ts_ns: int, ref: int) -> list[ReplayRow]:
        """Add effects of the machine."""
        rows: list[ReplayRow] = []
        for effect in effects:
            if isinstance(effect, ReportAdded):
                self._reports.setdefault((effect.reporter, effect.subject), (ts_ns, ref))
            elif isinstance(effect, ReportRemoved):
                self._end_report((effect.reporter, effect.subject), ts_ns, effect.reason, rows)
            elif isinstance(effect, NodeRemoved):
                for pair in [pair for pair in self._reports if effect.node in pair]:
                    self._end_report(pair, ts_ns, ReportEnd.NODE_REMOVED, rows)
            elif isinstance(effect, VoteAsked):
                self._requests[effect.candidate, effect.epoch] = Request(ts_ns, effect.refusal, ref)
            elif isinstance(effect, EpochBumped):
                self._bumped[effect.epoch] = effect.cause
            elif isinstance(effect, ManualFailoverMarked):
                rows.append(
                    self._event(
                        ts_ns, EventKind(f"manual-failover-{effect.mark}"), effect.node, 0, str(effect.offset), ref
                    )
                )
            elif isinstance(effect, Changed) and effect.cause is Cause.FAIL_MESSAGE:
                self._learned[effect.node] = self._event(ts_ns, EventKind.FAIL_LEARNED, effect.node, 0, "", ref)
        return rows

    def note_verdict(self, peer: Peer | None) -> None:
        """Handle a FAIL of *peer* without address, or forgotten: another id at its address caused it, no quorum (R58)."""
        self._is_mismatch = peer is None or bool(peer.flags & NOADDR)

    def note_sent(self, message: Message, receiver: str, ts_ns: int, ref: int) -> list[ReplayRow]:
        """Add a message that the observer sent to *receiver*."""
        header = message.header
        rows: list[ReplayRow] = []
        if not isinstance(header, Header):
            return rows
        kind = header.type
        if kind == MessageType.FAIL and isinstance(message.body, Fail):
            self._learned.pop(message.body.node, None)  # decided before reading the other FAIL
            if ts_ns - self._failed.get(message.body.node, -ANSWER_NS_MAX) >= ANSWER_NS_MAX:
                what = EventKind.FAIL_MISMATCH if self._is_mismatch else EventKind.FAIL_DECIDED
                rows.append(self._event(ts_ns, what, message.body.node, header.current_epoch, "", ref))
            self._failed[message.body.node] = ts_ns
        elif kind == MessageType.AUTH_REQUEST and header.current_epoch != self._election_epoch:
            self._election_epoch = header.current_epoch
            forced = "FORCEACK" if header.mflags[0] & MessageFlag.FORCEACK else ""
            rows.append(
                self._event(ts_ns, EventKind.ELECTION_STARTED, header.replicaof, header.current_epoch, forced, ref)
            )
        elif kind == MessageType.AUTH_ACK:
            rows.append(self._event(ts_ns, EventKind.VOTE, receiver, header.current_epoch, "", ref))
            request = self._requests.pop((receiver, header.current_epoch), Request(ts_ns, Refusal.NONE, ref))
            rows.append(self._vote(receiver, header.current_epoch, request, ts_ns))
        elif kind == MessageType.MFSTART:
            rows.append(
                self._event(ts_ns, EventKind.MANUAL_FAILOVER_REQUESTED, receiver, header.current_epoch, "", ref)
            )
        self._note_header(header, ts_ns, ref, rows)
        return rows

    @property
    def is_busy(self) -> bool:
        """Return whether an event awaits a timeout."""
        return bool(self._requests or self._learned)

    def settle(self, now_ns: int) -> list[ReplayRow]:
        """Turn timed-out vote requests into refusals."""
        rows: list[ReplayRow] = []
        for node in [n for n, row in self._learned.items() if now_ns - row.ts_ns > CROSSING_NS]:
            rows.append(self._learned.pop(node))
        for key in [k for k, r in self._requests.items() if now_ns - r.asked_ns > ANSWER_NS_MAX]:
            rows.append(self._vote(*key, self._requests.pop(key), None))
        return rows

    def finish(self) -> list[ReplayRow]:
        """End the replay and return all open rows."""
        rows: list[ReplayRow] = [self._vote(*key, request, None) for key, request in self._requests.items()]
        for (reporter, subject), (from_ns, ref) in self._reports.items():
            rows.append(FailureReportRow(self.observer, reporter, subject, from_ns, None, ReportEnd.NONE, ref))
        rows += self._learned.values()
        self._requests, self._reports, self._learned = {}, {}, {}
        return rows

    def _note_header(self, header: Header, ts_ns: int, ref: int, rows: list[ReplayRow]) -> None:
        last, self._last = self._last, header
        if last is not None and header.current_epoch < last.current_epoch and header.sender == last.sender:
            self._last = last
            return
        if last is not None and last.sender == header.sender:
            if header.state != last.state:
                rows.append(
                    self._event(
                        ts_ns, EventKind.STATE_FAIL if header.state else EventKind.STATE_OK, header.sender, 0, "", ref
                    )
                )
            if header.mflags != last.mflags and header.mflags[0] & ~last.mflags[0] & MessageFlag.PAUSED:
                rows.append(
                    self._event(ts_ns, EventKind.PAUSED, header.sender, header.current_epoch, str(header.offset), ref)
                )
        if header.flags & MASTER:
            self._note_master(last, header, ts_ns, ref, rows)

    def _note_master(self, last: Header | None, header: Header, ts_ns: int, ref: int, rows: list[ReplayRow]) -> None:
        """Record a promotion and an increased config epoch once: headers may arrive out of order (R161)."""
        known = last is not None and last.sender == header.sender
        promoted = last is not None and known and not last.flags & MASTER
        claim = (header.sender, header.config_epoch)
        if promoted and claim != self._promoted:
            self._promoted = claim
            rows.append(self._promotion(header, ts_ns, ref))
        noted = self._raised[1] if self._raised[0] == header.sender else 0
        if header.config_epoch > noted:
            self._raised = claim
            mechanism = self._mechanism(last, header, promoted=promoted)
            rows.append(EpochRow(header.sender, header.config_epoch, ts_ns, mechanism, ref))

    def _promotion(self, header: Header, ts_ns: int, ref: int) -> EventRow:
        won = bool(self._election_epoch) and header.config_epoch == self._election_epoch
        kind = EventKind.ELECTION_WON if won else EventKind.PROMOTED
        return self._event(ts_ns, kind, header.sender, header.config_epoch, str(header.offset), ref)

    def _mechanism(self, last: Header | None, header: Header, *, promoted: bool) -> Mechanism:
        """Return how an epoch was increased (R79, R80, R81, R93, R97)."""
        if promoted:
            return Mechanism.ELECTION if header.config_epoch == self._election_epoch else Mechanism.TAKEOVER
        if last is None or last.sender != header.sender:
            return Mechanism.SET_CONFIG_EPOCH
        if self._bumped.pop(header.config_epoch, None) is Cause.EPOCH_COLLISION:
            return Mechanism.COLLISION
        return Mechanism.SLOT_IMPORT if last.myslots != header.myslots else Mechanism.BUMP

    def _end_report(self, pair: tuple[str, str], ts_ns: int, end: ReportEnd, rows: list[ReplayRow]) -> None:
        opened = self._reports.pop(pair, None)
        if opened is not None:
            rows.append(FailureReportRow(self.observer, *pair, opened[0], ts_ns, end, opened[1]))

    def _vote(self, candidate: str, epoch: int, request: Request, answered_ns: int | None) -> VoteRow:
        granted = answered_ns is not None
        reason = Refusal.NONE if granted else request.refusal or Refusal.NOT_ANSWERED
        return VoteRow(self.observer, candidate, epoch, request.asked_ns, answered_ns, granted, reason, request.ref)

    def _event(self, ts_ns: int, kind: EventKind, subject: str, epoch: int, detail: str, ref: int) -> EventRow:
        return EventRow(self.observer, ts_ns, kind, subject, epoch, detail, ref)
