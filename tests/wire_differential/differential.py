"""A whole node beside a real one: fed with what one process of a capture received, does it send what that process sent?

The real node's messages are compared before anything is taken from them.  What no message can tell (an operator's
order, replication offsets, when a PING or an election's delay fell) is then taken from them, and orders are counted as
told.  Gossip and the times of PINGs are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.gossip.events import LinkClosed, Tick
from cluster_core.gossip.flags import HANDSHAKE, NOADDR
from cluster_core.gossip.gossip_section import is_node_id
from cluster_core.gossip.own_claims import adopt_header
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.profile_signs import ProfileSigns
from cluster_core.node.events import (
    ClientCommand,
    ReplicationOffset,
)
from cluster_core.node.machine import Node
from cluster_core.node.settings import NodeSettings
from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, MessageSeen
from cluster_core.replay.pacing import Paced, Pacer
from cluster_core.wire.bus import (
    Fail,
    Header,
    MessageType,
)
from tests.wire_differential.shadow_node import (
    BEGUN_MS,
    BUS_PORT_STEP,
    CAUSED,
    EPOCHS,
    TICK_NS,
    TICKS_BEHIND_MAX,
    UNREAD_NS,
)
from tests.wire_differential.told_node import ToldNode
from tests.wire_differential.wire_score import WireScore, key_of

if TYPE_CHECKING:
    from random import Random


class Differential(ToldNode):
    """Feed it one process's evidence in time order, then `finish`; `score` has the counts.

    *address* is where the process listens; *node_timeout_ms* as configured; *profile* is read from the first header if
    not given; *rng* is the chance of our node, for what is not compared.
    """

    def __init__(self, address: Endpoint, rng: Random, *, node_timeout_ms: int, profile: Profile | None = None) -> None:
        super().__init__(address, rng, node_timeout_ms=node_timeout_ms, profile=profile)
        self._pacer = Pacer()

    @property
    def score(self) -> WireScore:
        """The counts so far."""
        return self.comparison.score

    def feed(self, evidence: Evidence) -> None:
        """Add evidence."""
        for batch in self._pacer.feed(evidence):
            self._run(batch)

    def finish(self) -> WireScore:
        """The evidence ends."""
        for batch in self._pacer.finish():
            self._run(batch)
        self._read_late(self._now_ns)
        self.comparison.finish(self._now_ns)
        return self.score

    def _run(self, batch: list[Paced]) -> None:
        if self.node is None and not self._begin(batch):
            return
        last = batch[-1].evidence
        header = last.message.header if isinstance(last, MessageSeen) and last.sent else None
        for ts_ns, evidence, resumed in batch:
            if resumed and ts_ns > self._next_tick_ns:
                self._next_tick_ns = ts_ns
            self._advance(ts_ns)
            if isinstance(evidence, LinkSeen):
                self._on_link(evidence)
            elif isinstance(evidence, MessageSeen) and not evidence.sent:
                self._on_received(evidence)
            elif isinstance(evidence, MessageSeen):
                self._on_sent(evidence)
            if isinstance(header, Header) and self._is_alone(evidence):
                self._rename(header)

    def _begin(self, batch: list[Paced]) -> bool:
        """The process's first header says who it is."""
        sent = (e.evidence for e in batch if isinstance(e.evidence, MessageSeen) and e.evidence.sent)
        message = next((seen.message for seen in sent), None)
        header = message.header if message is not None else None
        if message is None or not isinstance(header, Header) or not is_node_id(header.sender):
            return False
        begun_ns = batch[0].ts_ns
        signs = ProfileSigns()
        signs.note(message)
        self._profile = self._profile or signs.profile
        settings = NodeSettings(
            self._profile,
            self._timeout_ms,
            header.port or self.address.port - BUS_PORT_STEP,
            self.address.port,
            header.myip,
        )
        self.node = Node(settings, self._rng, begun_ns // 1_000_000 - BEGUN_MS, my_id=header.sender)
        self._now_ns = begun_ns - BEGUN_MS * 1_000_000
        self._handle(Tick())
        self._now_ns = self._next_tick_ns = begun_ns
        self._begun_ms = begun_ns // 1_000_000
        self._follow_extensions(message)
        adopt_header(self.node.view, header)
        self.node.state.changed()
        if header.config_epoch:
            self.comparison.score.told["-", "SET-CONFIG-EPOCH"] += 1
        self._handle(Tick())
        return True

    def _advance(self, ts_ns: int) -> None:
        self._next_tick_ns = max(self._next_tick_ns, ts_ns - TICKS_BEHIND_MAX * TICK_NS)
        while self._next_tick_ns <= ts_ns and not self._is_down:
            self._give_up(self._next_tick_ns)
            self._now_ns = max(self._now_ns, self._next_tick_ns)
            self._read_late(self._now_ns - UNREAD_NS)
            self._tick()
        self._give_up(ts_ns)
        self._read_late(ts_ns - UNREAD_NS)
        self._now_ns = max(self._now_ns, ts_ns)
        self._settle()

    def _settle(self) -> None:
        """What stays different is believed, so that one difference is not counted again and again."""
        for judged in self.comparison.settle_headers(self._now_ns):
            if isinstance(judged.message.header, Header):
                self._adopt(judged.message.header)
        for judged in self.comparison.settle(self._now_ns):
            body = judged.message.body
            if isinstance(body, Fail):
                self._believe_failed(body.node)

    def _on_link(self, seen: LinkSeen) -> None:
        if seen.what == "gap":
            return
        if seen.what == "refused":
            if seen.outbound:
                self._tick_in_step()
                self._refuse(seen)
            else:
                self._is_down = self._is_down or seen.by_us
            return
        if seen.what == "opened":
            if self._is_down:
                self._restart()
            if not seen.outbound:
                self._accept(seen.connection)
                return
            self._held[seen.connection] = seen.peer
            self._tick_in_step()
            if seen.connection in self._held:
                self._take(seen.connection, seen.peer)
            return
        self._held.pop(seen.connection, None)
        for _, late in self._unread.pop(seen.connection, ()):
            self._read(late)
        self.comparison.forget(seen.connection, self._now_ns - 2 * TICK_NS)
        link = self._link_of.get(seen.connection)
        if link is None:
            return
        bound = self._the_node().view.links.get(link)
        peer = self._the_node().view.nodes.get(bound.node or "") if bound is not None else None
        self._unbind(link)
        if seen.what == "dropped" and peer is not None and not peer.flags & (HANDSHAKE | NOADDR):
            self.comparison.score.told["-", "FORGET"] += 1
            self._handle(ClientCommand(0, (b"CLUSTER", b"FORGET", peer.id.encode("latin-1"))))
        self._handle(LinkClosed(link))

    def _on_sent(self, seen: MessageSeen) -> None:
        if self._is_down:
            self._restart()
        node, message, header = self._the_node(), seen.message, seen.message.header
        if isinstance(header, Header):
            self._rename(header)
        if seen.connection not in self._link_of:
            if seen.outbound:
                self._force(seen)
            else:
                self._accept(seen.connection)
        kind = header.type
        if not seen.outbound and kind == MessageType.PONG:
            self._read_answered(seen.connection)
        if seen.outbound and kind == MessageType.PING:
            self._tick_in_step()
        told = ""
        if isinstance(header, Header):
            node.state.offset = node.view.myself.repl_offset
            if header.offset != node.state.offset:
                self._handle(ReplicationOffset(header.offset))
            told = self._tell_header(header, seen)
        key = key_of(seen.connection, message, outbound=seen.outbound)
        while kind in CAUSED and not self.comparison.has_twin(key) and self._read_one():
            pass
        if not self.comparison.has_twin(key):
            told = told or self._tell_message(seen)
        told = self._follow_extensions(message) or told
        marks = self._marks(seen) if kind == MessageType.PING else (False, False)
        judged = self.comparison.note_real(key, seen.ref, message, self._now_ns, marks=marks, told=told)
        if isinstance(header, Header) and not told and EPOCHS & judged.wrong.keys():
            judged.facts = None  # no tick will bring it about: this is a difference
            self._adopt(header)
        self._follow_ping(seen)

    def _restart(self) -> None:
        """A process that refused connections is back, with the nodes.conf that ours would have written (R129)."""
        self._is_down = False
        old = self._the_node()
        self.comparison.score.told["-", "restart"] += 1
        now_ms = self._now_ns // 1_000_000
        self._begun_ms = now_ms
        self.node = Node(old.state.settings, self._rng, now_ms, config=old.config_text())
        self.node.view.myself.shard_id = old.view.myself.shard_id
        for table in (
            self._link_of,
            self._connection_of,
            self._wanted,
            self._wanted_ns,
            self._held,
            self._parked,
            self._unread,
        ):
            table.clear()
        self._events.clear()
        self._tick()

    def _is_alone(self, evidence: Evidence) -> bool:
        """Whether the process has just closed the last of its own connections."""
        if not isinstance(evidence, LinkSeen) or not evidence.by_us or not evidence.outbound:
            return False
        return evidence.what in ("closed", "dropped") and not any(link % 2 == 0 for link in self._connection_of)
