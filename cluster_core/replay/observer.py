"""Replay one observer: evidence in, rows of views and events out.

The machine of `cluster_core.gossip` processes received messages; sent messages, polls and logs correct it with a row
each. FAIL decisions are taken from their messages, pings on invisible links from R32 and R34.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from cluster_core.gossip import events as ev
from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import NodeAdded
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, MEET, MYSELF, NOADDR, PFAIL, ROLES
from cluster_core.gossip.gossip_section import is_node_id
from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.profile_signs import ProfileSigns
from cluster_core.gossip.view import Peer, View
from cluster_core.kinds import EventKind
from cluster_core.replay.corrections import add_peer, health_word, set_health
from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, LogSeen, MessageSeen, NodePoll
from cluster_core.replay.pacing import PacedEvidence, Pacer
from cluster_core.replay.recorder import Correction, Recorder
from cluster_core.replay.rows import EventRow, ReplayRow
from cluster_core.replay.sent_messages import CutHeaders, SentMessages
from cluster_core.replay.slot_steps import NewOwnerFinder
from cluster_core.replay.view_log import CauseSeen
from cluster_core.wire.bus import Fail, Header, MessageType, PartialHeader

TICK_NS: Final = 100_000_000
"""Cron period of a server (R28)."""
TICKS_BEHIND_MAX: Final = 600
"""Maximum ticks simulated after a silence, against clock jumps."""
SILENCE_NS: Final = 1_000_000_000
"""A node without peers is silent; commands before its first message are dated this long before its first link."""
UNANSWERED_NS: Final = 500_000_000
"""A process that leaves an accepted connection unanswered for this long hangs."""
BEHIND_MAX: Final = 200_000
"""Maximum evidence waiting for new owners of slots."""
BUS_PORT_OFFSET: Final = 10_000
MESSAGE: Final = Cause.MESSAGE
PING: Final = Cause.PING
TIME: Final = Cause.TIME
"""Cached enum members for the hot path."""
LOG_HEALTH: Final[dict[EventKind, int]] = {
    EventKind.PFAIL: PFAIL,
    EventKind.FAIL_DECIDED: FAIL,
    EventKind.FAIL_LEARNED: FAIL,
    EventKind.FAIL_CLEARED: 0,
}


class ObserverReplay:
    """Replays one process's evidence in time order; returns rows as they end, `finish` the open ones.

    *address*: listening address; *node_timeout_ms*: configured or estimated; *profile*: inferred if not given. Evidence after
    lost slots waits up to `CLAIM_NS` for new owners. State can be saved between calls, and calls may be split anywhere.
    """

    def __init__(
        self, address: Endpoint, *, node_timeout_ms: int, profile: Profile | None = None, start_ns: int | None = None
    ) -> None:
        self.address = address
        self._timeout_ms = node_timeout_ms
        self._profile = profile
        self._start_ns = start_ns
        self._finder = NewOwnerFinder()
        self._behind: deque[Evidence] = deque()
        self._pacer = Pacer()
        self._recorder: Recorder | None = None
        self._next_tick_ns = 0
        self._calm = (0, -1)
        """Time until which ticks have no effect, and the view version for which this is valid."""
        self._unbound: dict[int, None] = {}
        self._alone_ns = 0
        self._down = False
        self._is_mute = False
        self._cut = CutHeaders()
        self._cut_rows: list[ReplayRow] = []
        self._signs = ProfileSigns()
        self._sent_ns = self._closed_ns = self._accepted_ns = self._idle_ns = 0

    @property
    def node(self) -> ClusterNode | None:
        """Return the machine; None before the observer's first header."""
        return self._recorder.node if self._recorder is not None else None

    def feed(self, evidence: Evidence) -> list[ReplayRow]:
        """Add evidence; return completed rows."""
        self._finder.note(evidence)
        if not self._behind and self._finder.waits_for < 0:
            self._pace(evidence)
            return self._drain()
        self._behind.append(evidence)
        loss = self._finder.waits_for
        while self._behind and (len(self._behind) > BEHIND_MAX or not _is_message(self._behind[0], loss)):
            self._pace(self._behind.popleft())
        return self._drain()

    def _pace(self, evidence: Evidence) -> None:
        for batch in self._pacer.feed(evidence):
            self._run(batch)

    def finish(self) -> list[ReplayRow]:
        """End the evidence and return all open rows."""
        while self._behind:
            self._pace(self._behind.popleft())
        for batch in self._pacer.finish():
            self._run(batch)
        if self._recorder is not None:
            self._recorder.finish()
        return self._drain()

    def _drain(self) -> list[ReplayRow]:
        rows, self._cut_rows = self._cut_rows, []
        if self._recorder is not None and self._recorder.rows:
            rows += self._recorder.rows
            self._recorder.rows = []
        return rows

    # -- order and time ------------------------------------------------------------------------------------------

    def _run(self, batch: list[PacedEvidence]) -> None:
        self._note_signs(batch)
        recorder = self._recorder or self._begin(batch)
        if recorder is None:
            for _, evidence, _ in batch:
                if isinstance(evidence, MessageSeen):
                    self._cut_rows += self._cut.note(evidence)
            return
        if self._profile is None and recorder.view.profile.name != self._signs.profile.name:
            recorder.view.profile = self._signs.profile
        renamed = _other_id(batch, recorder.view.myself.id)
        for ts_ns, evidence, resumed in batch:
            if renamed is not None and 0 < self._alone_ns < ts_ns and isinstance(evidence, MessageSeen):
                self._rename(recorder, renamed.sender, evidence.ref)
                renamed = None
            if resumed and ts_ns > self._next_tick_ns:
                self._next_tick_ns = ts_ns
            self._advance(recorder, ts_ns)
            if isinstance(evidence, MessageSeen):
                if evidence.sent:
                    self._follow_cron(recorder, evidence)
                    self._on_sent(recorder, evidence)
                else:
                    self._on_received(recorder, evidence)
            elif isinstance(evidence, LinkSeen):
                self._on_link(recorder, evidence)
            elif isinstance(evidence, NodePoll):
                mine = next((node.node_id for node in evidence.nodes if node.flags & MYSELF), "")
                if is_node_id(mine) and mine != recorder.view.myself.id:
                    self._rename(recorder, mine, -1)
                self._watch.on_poll(evidence)
            else:
                _follow_log(recorder, evidence)

    def _note_signs(self, batch: list[PacedEvidence]) -> None:
        """Infer the profile from sent messages and the log of the start."""
        for _, evidence, _ in batch:
            if isinstance(evidence, MessageSeen):
                if evidence.sent:
                    self._signs.note(evidence.message)
            elif isinstance(evidence, LogSeen) and evidence.kind == EventKind.STARTED:
                self._signs.note_version(evidence.subject)

    def _begin(self, batch: list[PacedEvidence]) -> Recorder | None:
        """Create the machine from the observer's first header, assumed valid since the start."""
        sent = (e.evidence for e in batch if isinstance(e.evidence, MessageSeen) and e.evidence.sent)
        header = next((seen.message.header for seen in sent if isinstance(seen.message.header, Header)), None)
        if header is None and isinstance(batch[-1].evidence, NodePoll):
            return self._begin_by_poll(batch[-1].evidence)
        if not isinstance(header, Header) or not is_node_id(header.sender):
            return None
        begun_ns = batch[0].ts_ns
        start_ns = begun_ns if self._start_ns is None else min(self._start_ns, begun_ns)
        address = self.address if self.address.port else Endpoint("", header.cport)
        recorder = self._record(header.sender, address, header.port, start_ns)
        self._next_tick_ns = begun_ns
        first = batch[0].evidence
        if isinstance(first, LinkSeen) and first.what == "opened":  # it knew no nodes before
            recorder.look(header.sender, start_ns, CauseSeen(Cause.ASSUMED_NEW, -1))
            recorder.now_ns = max(start_ns, begun_ns - SILENCE_NS)
        recorder.apply(ev.HeaderSent(header), CauseSeen(Cause.FIRST_HEADER, -1))
        recorder.look(header.sender, recorder.now_ns, CauseSeen(Cause.FIRST_HEADER, -1))
        return recorder

    def _begin_by_poll(self, poll: NodePoll) -> Recorder | None:
        """Create the machine from a poll that precedes the first message."""
        mine = next((node for node in poll.nodes if node.flags & MYSELF), None)
        if mine is None or not is_node_id(mine.node_id):
            return None
        address = Endpoint(mine.ip or self.address.ip, mine.cport)
        recorder = self._record(mine.node_id, address, mine.port, poll.ts_ns)
        self._next_tick_ns = poll.ts_ns
        self._is_mute = True
        start_ns = poll.ts_ns if self._start_ns is None else min(self._start_ns, poll.ts_ns)
        recorder.look(mine.node_id, start_ns, CauseSeen(Cause.ASSUMED_NEW if len(poll.nodes) == 1 else Cause.POLL, -1))
        return recorder

    def _record(self, node_id: str, address: Endpoint, port: int, start_ns: int) -> Recorder:
        """Create the machine."""
        profile = self._profile or self._signs.profile
        node = ClusterNode(node_id, profile, self._timeout_ms, start_ns // 1_000_000, verdicts_observed=True)
        myself = node.view.myself
        myself.ip, myself.cport, myself.port = address.ip, address.port, port
        recorder = self._recorder = Recorder(node, start_ns)
        self._watch = SentMessages(recorder, self._finder.new_owners)
        return recorder

    def _advance(self, recorder: Recorder, ts_ns: int) -> None:
        """Run ticks up to *ts_ns*; time never goes back."""
        if ts_ns - self._next_tick_ns > TICKS_BEHIND_MAX * TICK_NS:
            self._next_tick_ns = ts_ns - TICKS_BEHIND_MAX * TICK_NS
        if self._is_mute:  # its pings are not captured, so silence means nothing
            self._next_tick_ns = ts_ns
        while self._next_tick_ns <= ts_ns and not self._down and not self._is_mute:
            until_ns, version = self._calm
            if self._next_tick_ns < until_ns and version == recorder.view.version:
                self._next_tick_ns += ((min(ts_ns, until_ns - 1) - self._next_tick_ns) // TICK_NS + 1) * TICK_NS
                continue
            recorder.now_ns = max(recorder.now_ns, self._next_tick_ns)
            self._next_tick_ns += TICK_NS
            self._tick(recorder)
        recorder.now_ns = max(recorder.now_ns, ts_ns)

    def _follow_cron(self, recorder: Recorder, seen: MessageSeen) -> None:
        """Align ticks with the observer's crons: a PING on an open link is sent in one (R28)."""
        if seen.outbound and seen.message.header.type == MessageType.PING and seen.connection in recorder.view.links:
            is_late = self._next_tick_ns - seen.ts_ns < TICK_NS // 2
            self._next_tick_ns = seen.ts_ns if is_late else seen.ts_ns + TICK_NS
            self._advance(recorder, seen.ts_ns)

    def _tick(self, recorder: Recorder) -> None:
        """Run the cron: assumed pings on invisible links (R32, R34), then PFAIL by timeout (R53)."""
        interval_ms, now_ms = self._timeout_ms // 2, recorder.now_ms
        for peer in recorder.view.nodes.values():
            if (
                peer.outbound is None
                and not peer.ping_sent_ms
                and not peer.flags & (MYSELF | NOADDR | HANDSHAKE)
                and now_ms - peer.pong_received_ms > interval_ms
            ):
                peer.ping_sent_ms = now_ms
        if not recorder.apply(ev.Tick(), CauseSeen(TIME, -1)) and not recorder.ledger.is_busy:
            self._calm = (self._calm_until_ns(recorder.view, now_ms), recorder.view.version)
        recorder.rows += recorder.ledger.settle(recorder.now_ns)

    def _calm_until_ns(self, view: View, now_ms: int) -> int:
        """Return until when ticks have no effect unless a link closes or the view changes."""
        if not view.ok or view.state_stale or view.mf_end_ms:
            return 0
        half_ms = self._timeout_ms // 2
        due_ms = now_ms + half_ms
        for peer in view.nodes.values():
            if peer.flags & HANDSHAKE:
                return 0
            if peer.flags & (MYSELF | NOADDR):
                continue
            if peer.ping_sent_ms:
                if not peer.flags & FAILURES:
                    due_ms = min(due_ms, max(peer.ping_sent_ms, peer.data_received_ms) + self._timeout_ms)
            elif peer.outbound is None:
                due_ms = min(due_ms, peer.pong_received_ms + half_ms)
        return due_ms * 1_000_000

    # -- evidence ------------------------------------------------------------------------------------------------

    def _on_link(self, recorder: Recorder, seen: LinkSeen) -> None:
        cause = CauseSeen(Cause.LINK, seen.ref)
        self._calm = (0, -1)
        if seen.what in ("gap", "unread", "read"):
            return
        if seen.what == "refused":
            if not self._down and not seen.outbound and seen.by_us:
                self._down = True
                self._note_process(recorder, EventKind.PROCESS_ENDED, self._closed_ns or seen.ts_ns, -1)
        elif seen.what == "opened":
            if seen.outbound:
                self._unbound[seen.connection] = None
            else:
                self._note_idle(recorder, seen)
                recorder.apply(ev.LinkAccepted(seen.connection), cause)
        else:
            self._unbound.pop(seen.connection, None)
            self._closed_ns = seen.ts_ns if seen.by_us else self._closed_ns
            link = recorder.view.links.get(seen.connection)
            node = link.node if link is not None and seen.what == "dropped" else None
            recorder.apply(ev.LinkClosed(seen.connection), cause)
            if seen.by_us and seen.outbound and all(p.outbound is None for p in recorder.view.nodes.values()):
                self._alone_ns = recorder.now_ns
            peer = recorder.view.nodes.get(node) if node is not None else None
            if peer is not None and not peer.flags & (HANDSHAKE | NOADDR):
                recorder.apply(ev.ForgetOrdered(peer.id), CauseSeen(Cause.LINK_DROPPED, seen.ref))

    def _note_idle(self, recorder: Recorder, seen: LinkSeen) -> None:
        """Record that a silent process leaves an accepted connection unanswered; a partition's end opens some, too."""
        silence_ns = max(self._timeout_ms * 500_000, SILENCE_NS) + 2 * TICK_NS
        if self._down or seen.ts_ns - self._sent_ns <= silence_ns:
            return
        if self._accepted_ns <= self._sent_ns:
            self._accepted_ns = seen.ts_ns
        elif self._idle_ns <= self._sent_ns and seen.ts_ns - self._accepted_ns >= UNANSWERED_NS:
            self._idle_ns = seen.ts_ns
            self._note_process(recorder, EventKind.PROCESS_IDLE, seen.ts_ns, seen.ref)

    def _note_process(self, recorder: Recorder, kind: EventKind, ts_ns: int, ref: int) -> None:
        node_id = recorder.view.myself.id
        recorder.rows.append(EventRow(node_id, ts_ns, kind, node_id, 0, "", ref))

    def _on_received(self, recorder: Recorder, seen: MessageSeen) -> None:
        header = seen.message.header
        if isinstance(header, PartialHeader):
            self._cut_rows += self._cut.note(seen)
        if seen.outbound and seen.connection not in recorder.view.links and isinstance(header, Header):
            self._bind_by_answer(recorder, seen, header)
        replicaof = recorder.view.myself.replicaof
        if replicaof and isinstance(header, Header) and header.sender == replicaof:
            self._watch.step_master(header, seen.ref)
        if isinstance(seen.message.body, Fail):
            self._watch.before_verdict(seen.message.body.node, seen.ref)
        recorder.apply(ev.MessageReceived(seen.connection, seen.message, seen.peer.ip), CauseSeen(MESSAGE, seen.ref))
        self._watch.on_received(header, seen.ref)

    def _on_sent(self, recorder: Recorder, seen: MessageSeen) -> None:
        if self._down:
            self._revive(recorder, seen.ref)
        self._sent_ns, self._closed_ns = seen.ts_ns, 0
        header = seen.message.header
        if isinstance(header, PartialHeader):
            self._cut_rows += self._cut.note(seen)
        if self._is_mute and isinstance(header, Header):
            self._is_mute = False
        link = recorder.view.links.get(seen.connection)
        fresh = seen.outbound and link is None
        if fresh:
            self._bind(recorder, seen)
            link = recorder.view.links.get(seen.connection)
        receiver = (link.node if link is not None else None) or ""
        if isinstance(header, Header):
            if header.sender != recorder.view.myself.id and is_node_id(header.sender):
                self._rename(recorder, header.sender, seen.ref)
            self._watch.on_header(header, seen.ref)
        if seen.outbound and header.type == MessageType.PING and receiver:
            recorder.apply(ev.PingSent(receiver, reconnected=fresh), CauseSeen(PING, seen.ref))
        body = seen.message.body
        if isinstance(body, Fail):
            recorder.ledger.note_verdict(recorder.view.nodes.get(body.node))
        self._watch.on_sent(seen, receiver)
        recorder.rows += recorder.ledger.note_sent(seen.message, receiver, recorder.now_ns, seen.ref)

    def _revive(self, recorder: Recorder, ref: int) -> None:
        """Handle a message of a process that refused connections: it was restarted."""
        self._down = False
        self._next_tick_ns = recorder.now_ns + TICK_NS
        self._watch.forget_header()
        self._note_process(recorder, EventKind.PROCESS_STARTED, recorder.now_ns, ref)
        recorder.apply(ev.Restarted(), CauseSeen(Cause.RESTART, ref))

    def _rename(self, recorder: Recorder, node_id: str, ref: int) -> None:
        """Handle a new id of the observer: CLUSTER RESET (R82) closed all its links."""
        now_ns = recorder.now_ns
        linked = any(peer.outbound is not None for peer in recorder.view.nodes.values())
        recorder.now_ns = now_ns if linked or not self._alone_ns else self._alone_ns
        recorder.rename(node_id, recorder.now_ns)
        self._watch.forget_header()
        recorder.apply(ev.ResetOrdered(node_id), CauseSeen(Cause.RESET, ref))
        recorder.now_ns = now_ns

    # -- links ---------------------------------------------------------------------------------------------------

    def _bind(self, recorder: Recorder, seen: MessageSeen) -> None:
        """Bind the observer's outbound link to a node by its first message (R30)."""
        here = recorder.view.at_address(seen.peer.ip, seen.peer.port)
        free = [peer for peer in here if peer.outbound is None]
        cause = CauseSeen(Cause.LINK, seen.ref)
        if seen.message.header.type == MessageType.MEET:
            chosen = next((p for p in free if p.flags & HANDSHAKE and p.flags & MEET), None)
            chosen = chosen or next((p for p in free if p.flags & MEET), None) or _meet(recorder, seen, cause)
        else:
            chosen = next((p for p in free if not p.flags & HANDSHAKE), None) or next(iter(free), None)
        if chosen is not None:
            self._unbound.pop(seen.connection, None)
            recorder.apply(ev.LinkConnected(seen.connection, chosen.id), cause)

    def _bind_by_answer(self, recorder: Recorder, seen: MessageSeen, header: Header) -> None:
        """Bind a link by the reply of a node, which the observer knows."""
        if not is_node_id(header.sender) or header.sender == recorder.view.myself.id:
            return
        peer = recorder.view.nodes.get(header.sender)
        cause = CauseSeen(Cause.OWN_LINK, seen.ref)
        if peer is None:
            if recorder.view.at_address(seen.peer.ip, seen.peer.port):
                return  # a node with another id is known there (R58)
            peer = add_peer(recorder.view, header.sender, header.flags & ROLES or MASTER, recorder.now_ms)
            peer.ip, peer.port, peer.cport = seen.peer.ip, header.port, header.cport
            recorder.note([NodeAdded(peer.id, Cause.OWN_LINK)], cause)
        if peer.outbound is None:
            self._unbound.pop(seen.connection, None)
            recorder.apply(ev.LinkConnected(seen.connection, peer.id), cause)


def _is_message(evidence: Evidence, ref: int) -> bool:
    return isinstance(evidence, MessageSeen) and evidence.ref == ref


def _other_id(batch: list[PacedEvidence], my_id: str) -> Header | None:
    """Return the observer's last header of the batch if it has a new id."""
    last = batch[-1].evidence
    header = last.message.header if isinstance(last, MessageSeen) and last.sent else None
    if isinstance(header, Header) and header.sender != my_id and is_node_id(header.sender):
        return header
    return None


def _meet(recorder: Recorder, seen: MessageSeen, cause: CauseSeen) -> Peer | None:
    """Handle a MEET to an address of no pending node: CLUSTER MEET (R56)."""
    port = seen.peer.port - BUS_PORT_OFFSET if seen.peer.port > BUS_PORT_OFFSET else 0
    effects = recorder.apply(ev.MeetOrdered(seen.peer.ip, port, seen.peer.port), cause)
    added = next((effect.node for effect in effects if isinstance(effect, NodeAdded)), "")
    return recorder.view.nodes.get(added)


def _follow_log(recorder: Recorder, seen: LogSeen) -> None:
    """Apply a health change in the observer's log (R160)."""
    peer = recorder.view.nodes.get(seen.subject)
    bits = LOG_HEALTH.get(seen.kind)
    if peer is None or bits is None or (bits == PFAIL and peer.flags & FAIL):
        return
    if bits == PFAIL:
        recorder.confirm_pfail(peer.id, recorder.now_ns)
    correction = Correction(peer.id, Field.HEALTH, health_word(peer.flags & FAILURES), seen.kind)
    effects = set_health(recorder.view, peer, bits, recorder.now_ms, Cause.LOG)
    if effects:
        recorder.correct((effects, [correction]), Cause.LOG, -1)
