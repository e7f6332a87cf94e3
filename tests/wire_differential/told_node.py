"""What no message tells, taken from what the real node says of itself: orders, offsets, extensions, chance."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.gossip.cluster_state import WRITABLE_DELAY_MS
from cluster_core.gossip.failure_detection import mark_failed
from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, MEET
from cluster_core.gossip.gossip_section import is_node_id
from cluster_core.gossip.handshake import reset
from cluster_core.gossip.own_claims import adopt_header
from cluster_core.gossip.view import slot_bits
from cluster_core.node.events import (
    ClientCommand,
    ReplicationOffset,
)
from cluster_core.node.headers import message_flags
from cluster_core.node.pings import broadcast_pong, extensions_for
from cluster_core.node.publishing import publish
from cluster_core.node.reactions import react
from cluster_core.replay.corrections import follow_state
from cluster_core.replay.evidence import MessageSeen
from cluster_core.wire.bus import (
    LIGHT_TYPES,
    Gossip,
    Header,
    Message,
    MessageFlag,
    MessageType,
    Publish,
    Update,
)
from cluster_core.wire.bus_extensions import HOSTNAME, HUMAN_NODENAME, SHARD_ID
from tests.wire_differential.orders import explain
from tests.wire_differential.shadow_node import ShadowNode
from tests.wire_differential.wire_score import Marks, key_of


class ToldNode(ShadowNode):
    """A shadow that can be told; each of these comes after the comparison."""

    def _adopt(self, header: Header) -> None:
        node = self._the_node()
        if header.sender == node.view.myself.id:
            before = node.view.assigned()
            adopt_header(node.view, header)
            self._give_away(before & ~node.view.assigned(), header)
            node.view.current_epoch = header.current_epoch
            node.view.myself.flags = node.view.myself.flags & ~0xFFFF | header.flags
            node.state.changed()
            self._handle_events()
            self._note_facts()

    def _give_away(self, lost: int, header: Header) -> None:
        """Slots that left us while the cluster stays whole have an owner: whoever claims them (R124)."""
        view = self._the_node().view
        masters = (peer for peer in view.peers() if peer.flags & MASTER and peer.slots and peer.id != header.replicaof)
        keeper = next(masters, None)
        if lost and not header.state and keeper is not None:
            keeper.slots |= lost
            view.unclaimed |= lost

    def _believe_failed(self, node_id: str) -> None:
        node = self._the_node()
        peer = node.view.nodes.get(node_id)
        if peer is not None and not peer.flags & FAIL:
            node.state.out = []
            react(node.state, mark_failed(node.view, peer, self._now_ns // 1_000_000, "R55"), None)
            node.state.changed()

    def _rename(self, header: Header) -> None:
        """The process has another id now: it was reset (R82)."""
        node = self._the_node()
        if header.sender == node.view.myself.id or not is_node_id(header.sender):
            return
        self.comparison.score.told["-", "RESET"] += 1
        node.state.out = []
        react(node.state, reset(node.view, header.sender), None)
        self._carry_out()
        node.state.changed()
        self._note_facts()

    def _tell_header(self, header: Header, seen: MessageSeen) -> str:
        """What our header should say and does not: is there an order that explains it?"""
        while self.comparison.differing(header, self._now_ns):
            if not self._read_one():
                break
        else:
            return ""
        self._tick_in_step()
        if not self.comparison.differing(header, self._now_ns):
            return ""
        name, commands = explain(self._the_node(), header)
        name = name or self._tell_state(header)
        if not name:
            return ""
        for words in commands:
            self._handle(ClientCommand(0, words))
        if self.comparison.differing(header, self._now_ns):
            self._adopt(header)
        if name == "MIGRATESLOTS":
            broadcast_pong(self._the_node().state)
            self._carry_out()
        if (
            self._read_last is not None
            and self._read_last.link == self._link_of.get(seen.connection)
            and not seen.outbound
        ):
            self._is_reading_again = True  # the order came before the PING that is being answered
            self._handle(self._read_last)
            self._is_reading_again = False
        return name

    def _tell_state(self, header: Header) -> str:
        """Slots deleted here that others own show in the cluster's state alone, and so does when the process began (R106)."""
        node = self._the_node()
        view = node.view
        if header.state and view.ok and view.unclaimed:
            follow_state(view)
            node.state.changed()
            self._handle(ReplicationOffset(node.state.offset))
            return "DELSLOTS"
        now_ms = self._now_ns // 1_000_000
        if now_ms - self._begun_ms > WRITABLE_DELAY_MS or bool(header.state) != view.ok:
            return ""
        view.first_state_ms = self._begun_ms if header.state else now_ms - WRITABLE_DELAY_MS
        view.ok, view.minority_ms = view.ok and not header.state, 0
        view.state_stale = True
        self._handle(ReplicationOffset(node.state.offset))
        return "start"

    def _tell_message(self, seen: MessageSeen) -> str:
        """A message that ours did not send: did its cron not run yet, did chance or an order decide?"""
        node, message = self._the_node(), seen.message
        header, body, view = message.header, message.body, self._the_node().view
        key = key_of(seen.connection, message, outbound=seen.outbound)
        if isinstance(body, Publish) and header.type in LIGHT_TYPES:
            node.state.out = []
            publish(node.state, body.channel, body.message, sharded=header.type == MessageType.PUBLISHSHARD)
            self._carry_out()
            return "PUBLISH"
        if isinstance(body, Update):
            return self._tell_update(body)
        if header.type == MessageType.MFSTART:
            self._handle(ClientCommand(0, (b"CLUSTER", b"FAILOVER")))
            return "FAILOVER"
        if header.type == MessageType.AUTH_REQUEST and isinstance(header, Header):
            return self._keep_election(header)
        if header.type in (MessageType.FAIL, MessageType.PONG) and seen.outbound:
            self._tick_in_step()
        if header.type == MessageType.MEET and not self.comparison.has_twin(key):
            link = view.links.get(self._link_of.get(seen.connection, -1))
            peer = view.nodes.get(link.node or "") if link is not None else None
            if peer is not None and peer.flags & HANDSHAKE and not peer.flags & MEET:
                return ""
        return ""

    def _tell_update(self, update: Update) -> str:
        """An UPDATE about slots that were given away here: to whom, only the UPDATE tells (R124)."""
        node = self._the_node()
        view = node.view
        owner = view.nodes.get(update.node)
        given = slot_bits(update.myslots) & (~view.assigned() | view.unclaimed)
        if owner is None or not given:
            return ""
        for peer in view.nodes.values():
            peer.slots &= ~given
        owner.slots |= given
        view.unclaimed &= ~given
        node.state.changed()
        return "SETSLOT"

    def _keep_election(self, header: Header) -> str:
        """The real node asks for votes: the delay, which is chance, is over for ours too (R86)."""
        node = self._the_node()
        view, election = node.view, node.state.election
        if view.myself.flags & MASTER:
            return ""
        told = ""
        master = view.master_of(view.myself)
        if header.mflags[0] & MessageFlag.FORCEACK and not view.mf_end_ms and master and not master.flags & FAIL:
            self._handle(ClientCommand(0, (b"CLUSTER", b"FAILOVER", b"FORCE")))
            told = "FAILOVER FORCE"
        if not election.is_sent and election.time_ms > node.state.now_ms:
            election.time_ms = self._now_ns // 1_000_000
        self._tick()
        return told

    def _marks(self, seen: MessageSeen) -> Marks:
        """What a PING of ours would have beside its header's facts (R6, R16)."""
        node = self._the_node()
        link = node.view.links.get(self._link_of.get(seen.connection, -1))
        peer = node.view.nodes.get(link.node or "") if link is not None else None
        extensions, _ = extensions_for(node.state, MessageType.PING, peer)
        flags = message_flags(node.state, MessageType.PING, len(extensions), force=False)
        return bool(flags & MessageFlag.EXT_DATA), bool(extensions)

    def _follow_ping(self, seen: MessageSeen) -> None:
        """The real node's PING is pending from now on (R33)."""
        if seen.message.header.type != MessageType.PING or not seen.outbound:
            return
        node = self._the_node()
        link = node.view.links.get(self._link_of.get(seen.connection, -1))
        peer = node.view.nodes.get(link.node or "") if link is not None else None
        if peer is not None and not peer.ping_sent_ms:
            node.view.note_ping(peer, self._now_ns // 1_000_000)

    def _follow_extensions(self, message: Message) -> str:
        """What the process is configured to be called, and its shard."""
        body, node = message.body, self._the_node()
        if not isinstance(body, Gossip):
            return ""
        state, settings = node.state, node.state.settings
        for extension in body.extensions:
            value = extension.value
            if not isinstance(value, str):
                continue
            if extension.type == SHARD_ID:
                node.view.myself.shard_id = value
            elif extension.type == HOSTNAME:
                settings = replace(settings, hostname=value)
            elif extension.type == HUMAN_NODENAME:
                settings = replace(settings, nodename=value)
        if settings != state.settings:
            state.settings, state.extensions_of = settings, ""
            return "CONFIG SET"
        return ""
