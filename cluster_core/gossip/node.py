"""State machine of one cluster node: messages, links and time in, effects out.

`ClusterNode.handle` is the only entry. It has no clock, sockets or randomness, and no input makes it raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from cluster_core.gossip import events as ev
from cluster_core.gossip import handshake
from cluster_core.gossip.causes import Cause, Field, IgnoredReason, PauseMark
from cluster_core.gossip.epochs import learn_epochs, settle_collision, vote_refusal
from cluster_core.gossip.events import (
    AckHeard,
    Changed,
    Effect,
    Event,
    Ignored,
    ManualFailoverMarked,
    ReplyPong,
    VoteAsked,
)
from cluster_core.gossip.failure_detection import clear_by_pong, mark_failed, mark_silent, update_state
from cluster_core.gossip.flags import (
    EXTENSIONS_SUPPORTED,
    FAIL,
    HANDSHAKE,
    MASTER,
    MEET,
    MYSELF,
    NOFAILOVER,
    REPLICA,
)
from cluster_core.gossip.gossip_section import hear_extensions, hear_gossip, is_node_id
from cluster_core.gossip.own_claims import adopt_header
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.roles import learn_role
from cluster_core.gossip.slot_claims import read_claims, read_update
from cluster_core.gossip.view import Link, Peer, View
from cluster_core.wire.bus import (
    Fail,
    Gossip,
    Header,
    LightHeader,
    Message,
    MessageFlag,
    MessageType,
    Update,
    drop_reason,
)

LINKS_MAX: Final = 100_000
"""Maximum links; a node in a cluster of 1000 has 2000."""
PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
MEET_TYPE: Final = int(MessageType.MEET)
EXT_DATA: Final = int(MessageFlag.EXT_DATA)
KNOWN_TYPES: Final = len(MessageType)
NOTHING_HOLDS: Final = -1
SILENT: Final = (ReplyPong, Ignored)
"""Effects that do not change the view."""
ORDERS: Final = (ev.Restarted, ev.ResetOrdered, ev.ForgetOrdered, ev.MeetOrdered, ev.HeaderSent)


class ClusterNode:
    """One node's view of the cluster."""

    def __init__(
        self, my_id: str, profile: Profile, node_timeout_ms: int, now_ms: int = 0, *, verdicts_observed: bool = False
    ) -> None:
        self.build_pong: Callable[[int], Message] | None = None
        self.view = View(my_id, profile, node_timeout_ms, now_ms)
        self.view.verdicts_observed = verdicts_observed

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms* and return the effects in order."""
        view = self.view
        view.entries_version = NOTHING_HOLDS  # flags may change without an effect, before and after a PONG is built
        unclaimed = view.unclaimed
        effects = self._follow(event, now_ms)
        view.entries_version = NOTHING_HOLDS
        if (
            unclaimed != view.unclaimed
            or type(event) in ORDERS
            or any(type(effect) not in SILENT for effect in effects)
        ):
            view.version += 1
        return effects + update_state(view, now_ms) if view.state_stale else effects

    def answer(self, link: int) -> ReplyPong:
        """Return the PONG for a PING or MEET on *link* with the current state (R41)."""
        return ReplyPong(link, self.build_pong(link) if self.build_pong is not None else None)

    def _follow(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case ev.MessageReceived():
                return self._on_message(event, now_ms)
            case ev.Tick():
                return self._on_tick(now_ms)
            case ev.PingSent():
                return self._on_ping_sent(event, now_ms)
            case ev.LinkAccepted():
                return self._on_accepted(event, now_ms)
            case ev.LinkConnected():
                return self._on_connected(event, now_ms)
            case ev.LinkClosed():
                return handshake.drop_link(self.view, event.link)
            case ev.HeaderSent():
                return adopt_header(self.view, event.header)
            case ev.FailSent():
                return self._on_fail_sent(event, now_ms)
            case ev.MeetOrdered():
                return handshake.start_handshake(self.view, event.ip, event.port, event.cport, MEET, now_ms)[1]
            case ev.ForgetOrdered():
                return handshake.forget(self.view, event.node, handshake.BLACKLIST_MS, now_ms)
            case ev.ResetOrdered():
                return handshake.reset(self.view, event.new_id)
            case ev.Restarted():
                return handshake.restart(self.view, now_ms)
            case _:
                assert_never(event)

    # -- links ---------------------------------------------------------------------------------------------------

    def _on_accepted(self, event: ev.LinkAccepted, now_ms: int) -> list[Effect]:
        if len(self.view.links) >= LINKS_MAX:
            return [Ignored(IgnoredReason.TOO_MANY_LINKS)]
        self.view.links[event.link] = Link(None, inbound=True, made_ms=now_ms, local_ip=event.local_ip)
        return []

    def _on_connected(self, event: ev.LinkConnected, now_ms: int) -> list[Effect]:
        peer = self.view.nodes.get(event.node)
        if peer is None or len(self.view.links) >= LINKS_MAX:
            return [Ignored(IgnoredReason.LINK_TO_UNKNOWN)]
        link = self.view.links[event.link] = Link(peer.id, inbound=False)
        return handshake.bind_link(self.view, event.link, link, peer)

    # -- messages ------------------------------------------------------------------------------------------------

    def _on_message(self, event: ev.MessageReceived, now_ms: int) -> list[Effect]:
        view, message = self.view, event.message
        header = message.header
        link = view.links.get(event.link)
        if link is None:
            link = view.links[event.link] = Link(None, inbound=True)
        reason = drop_reason(message)
        if reason is not None:
            return [Ignored(IgnoredReason.INVALID_MESSAGE)]
        bound = view.nodes.get(link.node) if link.node is not None else None
        if isinstance(header, LightHeader):
            return self._on_light(event.link, bound, now_ms)
        if not isinstance(header, Header):
            return [Ignored(IgnoredReason.NO_WHOLE_HEADER)]
        if bound is not None and not bound.flags & HANDSHAKE:
            sender: Peer | None = bound
        else:
            sender = view.nodes.get(header.sender)
        if sender is view.myself:
            return [Ignored(IgnoredReason.OUR_OWN_NAME)]
        effects: list[Effect] = []
        if sender is not None:
            effects = self._note_sender(event.link, link, sender, header, now_ms)
        match header.type:
            case MessageType.PING | MessageType.PONG | MessageType.MEET:
                return effects + self._on_gossip(event, link, sender, now_ms)
            case MessageType.FAIL:
                return effects + self._on_fail(event, sender, now_ms)
            case MessageType.UPDATE:
                return effects + self._on_update(event, sender)
            case MessageType.AUTH_REQUEST:
                return effects + self._on_request(event, sender, now_ms)
            case MessageType.AUTH_ACK:
                return effects + self._on_ack(event, sender)
            case MessageType.MFSTART:
                return effects + self._on_mfstart(sender, now_ms)
            case MessageType.PUBLISH | MessageType.MODULE | MessageType.PUBLISHSHARD:
                return effects if sender is not None else [*effects, Ignored(IgnoredReason.PUBLISH_FROM_UNKNOWN)]
            case _:
                return [
                    *effects,
                    Ignored(
                        IgnoredReason.UNKNOWN_TYPE if header.type >= KNOWN_TYPES else IgnoredReason.NOTHING_TO_FOLLOW
                    ),
                ]

    def _on_light(self, link: int, bound: Peer | None, now_ms: int) -> list[Effect]:
        """Process a light message: its sender is alive; close links without a known sender (R7, R8, R37)."""
        if bound is None or bound.flags & HANDSHAKE:
            return [ev.CloseLink(link), Ignored(IgnoredReason.LIGHT_FROM_UNKNOWN)]
        bound.data_received_ms = now_ms
        return []

    def _note_sender(self, link_id: int, link: Link, sender: Peer, header: Header, now_ms: int) -> list[Effect]:
        """Update a known sender from any message (R26, R37, R48)."""
        effects: list[Effect] = []
        if link.node is None and link.inbound:
            effects += handshake.bind_link(self.view, link_id, link, sender)
        sender.data_received_ms = now_ms
        if sender.flags & HANDSHAKE:
            return effects
        profile = self.view.profile
        flags = sender.flags & ~profile.copied_flags | header.flags & profile.copied_flags
        if profile.extensions_learned and header.mflags[0] & EXT_DATA:
            flags |= EXTENSIONS_SUPPORTED
        if flags != sender.flags:
            sender.flags = flags
        effects += learn_epochs(self.view, sender, header)
        sender.repl_offset = header.offset
        if header.mflags[0] & 1:
            effects += hear_pause(self.view, sender, header)
        return effects

    def _on_gossip(self, event: ev.MessageReceived, link: Link, sender: Peer | None, now_ms: int) -> list[Effect]:
        """Process PING, PONG and MEET in the order of R49 and R50."""
        view, header, body = self.view, event.message.header, event.message.body
        if not isinstance(header, Header):
            return [Ignored(IgnoredReason.NO_FULL_HEADER)]
        effects: list[Effect] = []
        if header.type != PONG:
            if header.type == MEET_TYPE and sender is None:
                effects += self._meet(event, link, header, now_ms)
            effects.append(self.answer(event.link))
        if not link.inbound and link.node is not None:
            node = view.nodes.get(link.node)
            if node is not None:
                stop = self._settle_identity(event, node, sender, header, now_ms, effects)
                if stop:
                    return effects
                if header.type == PONG:
                    view.note_pong(node, now_ms)
                    effects += clear_by_pong(view, node, now_ms)
        if sender is None:
            return effects
        if sender.flags & MEET and view.profile.meet_until_contact:
            sender.flags &= ~MEET
        if (sender.flags ^ header.flags) & NOFAILOVER:
            sender.flags ^= NOFAILOVER
            effects.append(Changed(sender.id, Field.NOFAILOVER, Cause.FLAG_OF_HEADER))
        if header.type == PING and link.inbound:
            effects += handshake.move_address(view, sender, event.peer_ip, header)
        was_replica = bool(sender.flags & REPLICA)
        changes, stale = learn_role(view, sender, header)
        effects += changes
        if stale:
            return [*effects, Ignored(IgnoredReason.STALE_ROLE)]
        effects += read_claims(view, sender, header, was_replica=was_replica)
        effects += settle_collision(view, sender, header)
        if isinstance(body, Gossip):
            effects += hear_gossip(view, sender, body.entries, now_ms)
            effects += hear_extensions(view, sender, body, now_ms)
        return effects

    def _meet(self, event: ev.MessageReceived, link: Link, header: Header, now_ms: int) -> list[Effect]:
        """Answer a MEET of an unknown node with a handshake of our own (R56)."""
        ip = header.myip or event.peer_ip
        peer, effects = handshake.start_handshake(self.view, ip, header.port, header.cport, 0, now_ms)
        if peer is not None and header.mflags[0] & EXT_DATA and self.view.profile.forgets_spread:
            peer.flags |= EXTENSIONS_SUPPORTED
        if peer is not None and self.view.profile.meet_binds_link and link.node is None:
            effects += handshake.bind_link(self.view, event.link, link, peer)
            if isinstance(event.message.body, Gossip):  # the link now has a trusted node
                effects += hear_gossip(self.view, peer, event.message.body.entries, now_ms)
        return effects

    def _settle_identity(
        self,
        event: ev.MessageReceived,
        node: Peer,
        sender: Peer | None,
        header: Header,
        now_ms: int,
        effects: list[Effect],
    ) -> bool:
        """Complete a handshake, or detect another node at the address (R57, R58); True ends processing."""
        if node.flags & HANDSHAKE:
            if not is_node_id(header.sender):
                effects.append(Ignored(IgnoredReason.ODD_ID_OF_HANDSHAKE))
                return True
            known = sender is not None or header.sender == self.view.myself.id
            effects += handshake.complete_handshake(self.view, node, sender, event.link, header)
            return known
        if header.sender != node.id:
            effects += handshake.refuse_impostor(self.view, node, event.link, now_ms)
            return True
        return False

    def _on_fail(self, event: ev.MessageReceived, sender: Peer | None, now_ms: int) -> list[Effect]:
        """Process FAIL decided by a known node (R55)."""
        body = event.message.body
        if sender is None:
            return [Ignored(IgnoredReason.FAIL_FROM_UNKNOWN)]
        target = self.view.nodes.get(body.node) if isinstance(body, Fail) else None
        if target is None or target.flags & (FAIL | MYSELF):
            return [Ignored(IgnoredReason.FAIL_CHANGES_NOTHING)]
        return mark_failed(self.view, target, now_ms, Cause.FAIL_MESSAGE)

    def _on_update(self, event: ev.MessageReceived, sender: Peer | None) -> list[Effect]:
        """Process an UPDATE about a node's slots (R78)."""
        body = event.message.body
        if sender is None or not isinstance(body, Update):
            return [Ignored(IgnoredReason.UPDATE_FROM_UNKNOWN)]
        return read_update(self.view, body)

    def _on_request(self, event: ev.MessageReceived, sender: Peer | None, now_ms: int) -> list[Effect]:
        """Evaluate a replica's vote request (R90); `cluster_core.node` casts votes."""
        header = event.message.header
        if sender is None or not isinstance(header, Header):
            return [Ignored(IgnoredReason.VOTE_REQUEST_FROM_UNKNOWN)]
        return [VoteAsked(sender.id, header.current_epoch, vote_refusal(self.view, sender, header, now_ms))]

    def _on_ack(self, event: ev.MessageReceived, sender: Peer | None) -> list[Effect]:
        """Process a vote for us (R92)."""
        header = event.message.header
        if sender is None or not isinstance(header, Header):
            return [Ignored(IgnoredReason.VOTE_FROM_UNKNOWN)]
        return [AckHeard(sender.id, header.current_epoch, sender.votes)]

    def _on_mfstart(self, sender: Peer | None, now_ms: int) -> list[Effect]:
        """Start a manual failover at our replica's request (R98)."""
        if sender is None:
            return [Ignored(IgnoredReason.MFSTART_FROM_UNKNOWN)]
        return hear_mfstart(self.view, sender, now_ms)

    # -- time and orders -----------------------------------------------------------------------------------------

    def _on_tick(self, now_ms: int) -> list[Effect]:
        effects = handshake.expire_handshakes(self.view, now_ms) + mark_silent(self.view, now_ms)
        if self.view.mf_end_ms:
            effects += expire_manual_failover(self.view, now_ms)
        if not self.view.ok:
            self.view.state_stale = True
        return effects

    def _on_ping_sent(self, event: ev.PingSent, now_ms: int) -> list[Effect]:
        peer = self.view.nodes.get(event.node)
        if peer is None:
            return [Ignored(IgnoredReason.PING_TO_UNKNOWN)]
        if not peer.ping_sent_ms or not event.reconnected:
            self.view.note_ping(peer, now_ms)
        if peer.flags & MEET and not self.view.profile.meet_until_contact:
            peer.flags &= ~MEET
        return []

    def _on_fail_sent(self, event: ev.FailSent, now_ms: int) -> list[Effect]:
        peer = self.view.nodes.get(event.node)
        return (
            [Ignored(IgnoredReason.FAIL_OF_UNKNOWN)]
            if peer is None
            else mark_failed(self.view, peer, now_ms, Cause.QUORUM)
        )


MANUAL_FAILOVER_MS: Final = 5000
"""Timeout of a manual failover in ms (R97, R98)."""


def hear_mfstart(view: View, sender: Peer, now_ms: int) -> list[Effect]:
    """Pause at our replica's request for a manual failover (R98)."""
    if not view.myself.flags & MASTER or sender.replicaof != view.myself.id:
        return []
    view.mf_end_ms = now_ms + MANUAL_FAILOVER_MS
    view.mf_replica = sender.id
    return [ManualFailoverMarked(sender.id, PauseMark.MFSTART, sender.repl_offset)]


def hear_pause(view: View, sender: Peer, header: Header) -> list[Effect]:
    """Record the offset to reach when our master is paused (R48, R99)."""
    if not header.mflags[0] & MessageFlag.PAUSED or view.myself.replicaof != sender.id:
        return []
    if view.mf_master_offset != -1:
        return []
    view.mf_master_offset = header.offset
    return [ManualFailoverMarked(sender.id, PauseMark.PAUSED, header.offset)]


def expire_manual_failover(view: View, now_ms: int) -> list[Effect]:
    """Abort a timed-out manual failover (R100)."""
    if view.mf_end_ms and now_ms > view.mf_end_ms:
        view.mf_end_ms, view.mf_replica, view.mf_master_offset = 0, "", -1
    return []
