"""Compare an observer's sent messages with its machine: own headers, gossip, UPDATEs, FAILs, extensions.

`CutHeaders` takes messages truncated after the sender (R3): only type, sender and epochs are known."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

from cluster_core.gossip import events as ev
from cluster_core.gossip.causes import Cause, Field, Mechanism, Refusal
from cluster_core.gossip.epochs import note_vote
from cluster_core.gossip.events import Changed
from cluster_core.gossip.flags import FAIL, FAILURES, MASTER, NOFAILOVER, PFAIL, ROLES
from cluster_core.gossip.own_claims import assign_slots
from cluster_core.gossip.view import Peer, slot_bits
from cluster_core.kinds import EventKind
from cluster_core.replay.corrections import (
    differs,
    follow_entry,
    follow_poll,
    follow_state,
    follow_update,
    meet_by_gossip,
    set_health,
)
from cluster_core.replay.evidence import MessageSeen, NodePoll
from cluster_core.replay.recorder import Correction, Recorder
from cluster_core.replay.rows import DisagreementRow, EpochRow, EventRow, ReplayRow, VoteRow
from cluster_core.replay.slot_steps import (
    NOBODY,
    STEPS_MAX,
    HeaderOrder,
    NewOwners,
    each_bit,
    is_stepwise,
    move_slot,
    step_times_ns,
)
from cluster_core.replay.view_log import CauseSeen
from cluster_core.wire.bus import Fail, Gossip, Header, MessageType, PartialHeader, Update
from cluster_core.wire.bus_message import FORGOTTEN_NODE, ForgottenNode

GRACE_NS: Final = 150_000_000
"""Messages built before a change may be sent this long after it, so contradictions within it are ignored."""
CRON_NS: Final = 100_000_000
"""Cron period: messages have the counts of the last cron."""
TICK_LATE_NS: Final = 20_000_000
"""Usual delay of a cron beyond 100 ms."""
SECONDS_MIN: Final = 6
"""A missing random PING counts only if this many neighbouring seconds have theirs."""
GOSSIP_NS: Final = 1_100_000_000
"""Maximum time until a PFAIL node is gossiped: some PING is sent each second (R31, R40)."""


class MovedSlots(NamedTuple):
    """Slots that a node got at about its last header, which arrived at *header_ms*."""

    header_ms: int
    slots: int


class SentMessages:
    """Takes the observer's sent messages and corrects the recorder's view."""

    def __init__(self, recorder: Recorder, new_owners: NewOwners) -> None:
        self._recorder = recorder
        self._new_owners = new_owners
        self._key: tuple[object, ...] = ()
        self._epoch = 0
        self._header: Header | None = None
        self._order = HeaderOrder()
        self._seen_ns = 0
        self._master_seen_ns = 0
        self._pings_ns: deque[int] = deque()
        self._denied_ns: dict[str, int] = {}
        self._listed_ns: dict[str, int] = {}
        self._moved: dict[str, MovedSlots] = {}
        self._unclaimed = 0
        """Slots that their owner stopped claiming, for servers that do not record this (R71)."""

    def forget_header(self) -> None:
        """Drop the last header after a restart or reset."""
        self._key, self._epoch, self._header = (), 0, None

    def on_sent(self, seen: MessageSeen, receiver: str) -> None:
        """Compare the body of one sent message; `on_header` takes its header."""
        recorder, body = self._recorder, seen.message.body
        if isinstance(body, Gossip):
            self._check_gossip(seen, body)
        elif isinstance(body, Fail):
            recorder.apply(ev.FailSent(body.node), CauseSeen(Cause.FAIL_SENT, seen.ref))
        elif isinstance(body, Update):
            recorder.correct(
                follow_update(recorder.view, body, self._moved_about_header(body.node)), Cause.OWN_UPDATE, seen.ref
            )
        elif seen.message.header.type == MessageType.AUTH_ACK and receiver in recorder.view.nodes:
            note_vote(recorder.view, recorder.view.nodes[receiver], recorder.now_ms)

    def _forget_pings(self) -> None:
        pings_ns, kept_ns = self._pings_ns, self._recorder.view.node_timeout_ms * 1_000_000 + SECONDS_MIN * GOSSIP_NS
        while pings_ns and pings_ns[-1] - pings_ns[0] > kept_ns:
            pings_ns.popleft()

    def on_header(self, header: Header, ref: int) -> None:
        """Compare the observer's header with the machine, unless it was built before a known change."""
        if header.current_epoch >= self._epoch and not self._order.is_outdated(header, self._recorder.now_ns):
            self._epoch = header.current_epoch
            self._adopt(header, ref)
            self._header = header
            self._seen_ns = self._recorder.header_ns = self._recorder.now_ns

    def _adopt(self, header: Header, ref: int) -> None:
        recorder = self._recorder
        key = (header.config_epoch, header.replicaof, header.flags & (ROLES | NOFAILOVER), header.myslots)
        old = self._header
        self._follow_state(header, ref)
        if key == self._key:
            changed_ns = recorder.own_changed_ns
            if not changed_ns or recorder.now_ns - changed_ns < GRACE_NS:
                return
        if old is not None:
            self._step_own(old, header, ref)
        self._key = key
        effects = recorder.apply(ev.HeaderSent(header), CauseSeen(Cause.OWN_HEADER, ref))
        recorder.own_changed_ns = 0
        observer, now_ns = recorder.view.myself.id, recorder.now_ns
        for effect in effects:
            if isinstance(effect, Changed):
                recorder.rows.append(
                    DisagreementRow(observer, effect.node, now_ns, effect.what, "", Cause.OWN_HEADER, "", ref)
                )

    def on_received(self, received: object, ref: int) -> None:
        """Handle slots possibly dropped by others while the observer has state FAIL."""
        view = self._recorder.view
        if not view.profile.unclaimed_noted and isinstance(received, Header) and received.sender in view.nodes:
            claimed = slot_bits(received.myslots) if received.flags & MASTER else 0
            self._unclaimed = (self._unclaimed | view.nodes[received.sender].slots) & ~claimed
        if (view.unclaimed or self._unclaimed) and self._header is not None:
            self._follow_state(self._header, ref)

    def _follow_state(self, header: Header, ref: int) -> None:
        view, unclaimed = self._recorder.view, self._recorder.view.unclaimed | self._unclaimed
        if header.state and unclaimed:
            self._recorder.correct(follow_state(view, unclaimed), Cause.OWN_HEADER, ref)

    def on_poll(self, poll: NodePoll) -> None:
        """Compare a poll reply; its own slots may have moved since its last header."""
        recorder = self._recorder
        view = recorder.view
        polled = {node.node_id: node for node in poll.nodes}
        has_packets = bool(recorder.header_ns)
        fresh = {
            node for node, ts_ns in recorder.touched_ns.items() if has_packets and recorder.now_ns - ts_ns < GRACE_NS
        }
        holder = view.myself if view.myself.is_master else view.master_of(view.myself)
        mine = polled.get(view.myself.id)
        polled_view = polled.get(holder.id) if holder is not None else None
        if holder is not None and mine is not None and polled_view is not None and holder.id not in fresh:
            moved = holder.slots ^ polled_view.slots
            same = mine.master_id == view.myself.replicaof and polled_view.config_epoch == holder.config_epoch
            if same and 0 < moved.bit_count() <= STEPS_MAX:
                owners = [(node.slots, node.node_id) for node in poll.nodes]
                since_ns = max(self._seen_ns, self._master_seen_ns)
                self._step(holder, moved, since_ns, CauseSeen(Cause.POLL, -1), owners)
        recorder.correct(follow_poll(view, poll, recorder.now_ms, fresh), Cause.POLL, -1)
        for node in poll.nodes:
            if node.flags & PFAIL:
                recorder.confirm_pfail(node.node_id, self._denied_ns.get(node.node_id, 0))
            elif not node.flags & FAILURES:
                self._denied_ns[node.node_id] = recorder.now_ns
        self._seen_ns, recorder.polled_ns = recorder.now_ns, poll.asked_ns or poll.ts_ns

    # -- slot by slot moves ----------------------------------------------------------------------------------------

    def _step_own(self, old: Header, new: Header, ref: int) -> None:
        """Apply changed slots of the own header without a message: one by one (R124), or together to or from no owner."""
        view, recorder = self._recorder.view, self._recorder
        holder = view.myself if view.myself.is_master else view.master_of(view.myself)
        if holder is None or not holder.slots or old.myslots == new.myslots:  # first slots are added as ranges
            return
        moved = (slot_bits(old.myslots) ^ slot_bits(new.myslots)) & (holder.slots ^ slot_bits(new.myslots))
        given = taken = 0
        for slots, node in self._new_owners.get(ref, ()):
            given, taken = (given, taken | slots) if node == NOBODY else (given | slots, taken)
        if moved & taken and holder is view.myself:
            self._take_deleted(holder, moved & taken, CauseSeen(Cause.OWN_HEADER, ref))
            moved &= ~taken
        if not is_stepwise(old, new, moved.bit_count()):
            return
        correction = Correction(
            holder.id, Field.SLOTS, f"{holder.slots.bit_count()} slots", f"{moved.bit_count()} moved"
        )
        recorder.correct(([], [correction]), Cause.OWN_HEADER, ref)
        alone = moved & ~view.assigned() | moved & holder.slots & ~given
        if alone.bit_count() > STEPS_MAX:
            moved &= ~alone
        self._step(holder, moved, self._seen_ns, CauseSeen(Cause.OWN_HEADER, ref))

    def _take_deleted(self, holder: Peer, slots: int, cause: CauseSeen) -> None:
        """Apply slots deleted by their owner and taken by one command since the last own header (R107)."""
        recorder = self._recorder
        halfway_ns = (self._seen_ns + recorder.now_ns) // 2
        for effect in assign_slots(recorder.view, holder, holder.slots | slots):
            if isinstance(effect, Changed):
                recorder.look(effect.node, halfway_ns, cause)

    def step_master(self, header: Header, ref: int) -> None:
        """Apply our master's new slots one by one if SETSLOT is replicated (R125)."""
        recorder = self._recorder
        master = recorder.view.nodes.get(header.sender)
        since_ns, self._master_seen_ns = max(self._master_seen_ns, self._seen_ns), recorder.now_ns
        if master is None or header.replicaof or master.config_epoch != header.config_epoch:
            return
        gained = slot_bits(header.myslots) & ~master.slots
        if recorder.view.profile.setslot_replicated and 0 < gained.bit_count() <= STEPS_MAX:
            self._step(master, gained, since_ns, CauseSeen(Cause.MESSAGE, ref))

    def _step(
        self, holder: Peer, moved: int, since_ns: int, cause: CauseSeen, owners: list[tuple[int, str]] | None = None
    ) -> None:
        recorder = self._recorder
        new_owners = self._new_owners.get(cause.ref, []) if owners is None else owners
        bits = each_bit(moved)
        inferred = cause if owners is not None else CauseSeen(Cause.INFERRED, cause.ref)
        for ts_ns, bit in zip(step_times_ns(since_ns, recorder.now_ns, len(bits)), bits, strict=True):
            target = next((node for slots, node in new_owners if slots & bit), "")
            self._note_moved(target, bit, since_ns)
            for node_id in move_slot(recorder.view, holder, bit, target):
                recorder.look(node_id, ts_ns, inferred if node_id == target else cause)

    def _note_moved(self, target: str, bit: int, since_ns: int) -> None:
        """Record a slot that *target* got after *since_ns*, if a header of *target* arrived after that too."""
        peer = self._recorder.view.nodes.get(target)
        if peer is not None and peer.data_received_ms >= since_ns // 1_000_000:
            slots = self._moved_about_header(target)
            self._moved[target] = MovedSlots(peer.data_received_ms, slots | bit)

    def _moved_about_header(self, node_id: str) -> int:
        """Return slots that *node_id* got at about its last header; the order is unknown."""
        peer, moved = self._recorder.view.nodes.get(node_id), self._moved.get(node_id)
        return moved.slots if peer is not None and moved is not None and moved.header_ms == peer.data_received_ms else 0

    # -- gossip ----------------------------------------------------------------------------------------------------

    def _check_gossip(self, seen: MessageSeen, body: Gossip) -> None:
        """Compare the observer's gossip with the machine (R9, R40, R61)."""
        recorder = self._recorder
        nodes, now_ns, touched_ns = recorder.view.nodes, recorder.now_ns, recorder.touched_ns
        for entry in body.entries:
            peer = nodes.get(entry.node)
            if peer is not None and not differs(peer, entry):
                continue
            if now_ns - touched_ns.get(entry.node, 0) <= GRACE_NS:
                continue
            if peer is None:
                effects = meet_by_gossip(recorder.view, entry, recorder.now_ms)
            else:
                effects = follow_entry(recorder.view, peer, entry, recorder.now_ms)
            if peer is not None and peer.flags & PFAIL and not peer.flags & FAIL and peer.outbound is None:
                recorder.now_ns = self._unseen_pfail_ns() or now_ns
            recorder.correct(effects, Cause.OWN_GOSSIP, seen.ref)
            recorder.now_ns = now_ns
        header = seen.message.header
        if recorder.pfail_ns and isinstance(header, Header) and header.count == len(body.entries):
            self._check_pfail(body, seen.ref)
        for extension in body.extensions:
            value = extension.value if extension.type == FORGOTTEN_NODE else None
            if isinstance(value, ForgottenNode) and value.node in nodes:
                recorder.apply(ev.ForgetOrdered(value.node), CauseSeen(Cause.OWN_EXTENSION, seen.ref))
        if seen.outbound and header.type == MessageType.PING:
            self._pings_ns.append(now_ns)
            self._forget_pings()

    def _unseen_pfail_ns(self) -> int:
        """Return since when a node is PFAIL after an unobserved random PING of a second (R31); 0 if none.

        Captures lack PINGs on links that do not come up. PFAIL follows seconds later, in a cron with another random PING.
        """
        timeout_ns = self._recorder.view.node_timeout_ms * 1_000_000
        pings_ns = [*self._pings_ns]
        for start_ns in reversed(pings_ns):
            if self._recorder.now_ns - start_ns > GOSSIP_NS:
                break
            at_ns, seconds = _run_before(pings_ns, start_ns)
            missing_ns = at_ns - 10 * CRON_NS - TICK_LATE_NS // 4
            if not 0 < start_ns - missing_ns - timeout_ns <= CRON_NS + TICK_LATE_NS:
                continue
            earlier_ns = _second_before(pings_ns, at_ns, 2)
            if earlier_ns and seconds + _run_before(pings_ns, earlier_ns)[1] >= SECONDS_MIN:
                return start_ns
        return 0

    def before_verdict(self, node_id: str, ref: int) -> None:
        """Handle a FAIL of another node: the observer may have had PFAIL unobserved."""
        recorder = self._recorder
        peer = recorder.view.nodes.get(node_id)
        since_ns = 0 if peer is None or peer.flags & FAILURES or peer.outbound is not None else self._unseen_pfail_ns()
        if peer is not None and since_ns > recorder.touched_ns.get(node_id, 0):
            now_ns, recorder.now_ns = recorder.now_ns, since_ns
            recorder.note(
                set_health(recorder.view, peer, PFAIL, recorder.now_ms, Cause.INFERRED), CauseSeen(Cause.INFERRED, ref)
            )
            recorder.now_ns = now_ns

    def _check_pfail(self, body: Gossip, ref: int) -> None:
        """Compare PFAIL nodes with gossip, which lists all that the last cron counted, old or new (R40)."""
        recorder = self._recorder
        now_ns, unsure = recorder.now_ns, recorder.log.unsure
        listed = {entry.node for entry in body.entries if entry.flags & PFAIL}
        for node_id in [node for node in listed if node in unsure]:
            peer = recorder.view.nodes.get(node_id)
            since_ns = self._unseen_pfail_ns() if peer is not None and peer.outbound is None else 0
            recorder.confirm_pfail(node_id, self._denied_ns.get(node_id, 0), since_ns or now_ns)
        self._listed_ns = {node: self._listed_ns.get(node, now_ns) for node in listed}
        is_short = any(now_ns - since_ns < 2 * GRACE_NS for since_ns in self._listed_ns.values())
        for node_id, since_ns in list(recorder.pfail_ns.items()):
            peer = recorder.view.nodes.get(node_id)
            if is_short or node_id in listed or peer is None:
                continue
            if node_id in unsure:
                self._denied_ns[node_id] = now_ns - CRON_NS
            if now_ns - since_ns < 2 * GRACE_NS:
                continue
            effects = set_health(recorder.view, peer, 0, recorder.now_ms, Cause.OWN_GOSSIP)
            recorder.correct((effects, [Correction(node_id, Field.HEALTH, "fail?", "ok")]), Cause.OWN_GOSSIP, ref)


def _second_before(pings_ns: list[int], at_ns: int, seconds: int) -> int:
    """Return the time of the PING *seconds* seconds (of ten crons) before *at_ns*; 0 if none."""
    from_ns, to_ns = (at_ns - seconds * 10 * CRON_NS - late_ns for late_ns in (2 * TICK_LATE_NS, -TICK_LATE_NS // 2))
    place = bisect_left(pings_ns, from_ns)
    return pings_ns[place] if place < len(pings_ns) and pings_ns[place] <= to_ns else 0


def _run_before(pings_ns: list[int], at_ns: int) -> tuple[int, int]:
    """Return the first of the PINGs sent every second up to *at_ns*, and the number of seconds."""
    seconds = 0
    while before_ns := _second_before(pings_ns, at_ns, 1):
        at_ns, seconds = before_ns, seconds + 1
    return at_ns, seconds


CONNECTIONS_MAX = 10_000


class CutHeaders:
    """Takes one process's sent and received messages; returns events, votes and epochs."""

    def __init__(self) -> None:
        self._ends: dict[int, str] = {}
        self._election_epoch = 0
        self._won_epoch = 0

    def note(self, seen: MessageSeen) -> list[ReplayRow]:
        """Add one message with a truncated header."""
        header = seen.message.header
        if not isinstance(header, PartialHeader) or not header.sender:
            return []
        sender, epoch = header.sender, header.current_epoch or 0
        if not seen.sent:
            if len(self._ends) < CONNECTIONS_MAX:
                self._ends[seen.connection] = sender
            return []
        rows: list[ReplayRow] = []
        if header.type == MessageType.AUTH_REQUEST and epoch != self._election_epoch:
            self._election_epoch = epoch
            rows.append(EventRow(sender, seen.ts_ns, EventKind.ELECTION_STARTED, "", epoch, "", seen.ref))
        elif header.type == MessageType.AUTH_ACK:
            candidate = self._ends.get(seen.connection, "")
            rows.append(EventRow(sender, seen.ts_ns, EventKind.VOTE, candidate, epoch, "", seen.ref))
            rows.append(VoteRow(sender, candidate, epoch, seen.ts_ns, seen.ts_ns, True, Refusal.NONE, seen.ref))
        if self._election_epoch and header.config_epoch == self._election_epoch != self._won_epoch:
            self._won_epoch = self._election_epoch
            detail = str(header.offset or 0)
            rows.append(EventRow(sender, seen.ts_ns, EventKind.ELECTION_WON, sender, self._won_epoch, detail, seen.ref))
            rows.append(EpochRow(sender, self._won_epoch, seen.ts_ns, Mechanism.ELECTION, seen.ref))
        return rows
