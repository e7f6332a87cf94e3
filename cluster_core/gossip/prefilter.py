"""Fast path for messages without news: repeated headers and known gossip, which advance times and offsets only.

A message is quiet if an equal header had no effect but a PONG, the view has not changed since (`View.version`), and
gossip names only known nodes, healthy in both views or failing in both. All others go to the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from cluster_core.gossip.events import MessageReceived, ReplyPong
from cluster_core.gossip.failure_detection import may_report
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MEET, MYSELF
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS, FLAGS, NODE, PONG_RECEIVED
from cluster_core.wire.bus import Gossip, Header, MessageFlag, MessageType

if TYPE_CHECKING:
    from cluster_core.gossip.events import Effect, Event
    from cluster_core.gossip.node import ClusterNode
    from cluster_core.gossip.view import Peer
    from cluster_core.wire.bus import Extension, GossipEntry

PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
PAUSED: Final = int(MessageFlag.PAUSED)
claims_of: Final = attrgetter(
    "config_epoch", "replicaof", "flags", "mflags", "cport", "port", "pport", "myip", "ver", "myslots"
)
"""Header fields that the machine evaluates; the rest are times, offsets and the current epoch, which may lag."""
SECONDS_CACHED: Final = 256
MS_PER_S: Final = 1000
TABLES_CACHED: Final = 16
UNSEEN: Final = -1
UNSETTLED: Final = FAILURES | HANDSHAKE | MEET | MYSELF


@dataclass(slots=True)
class QuietMessage:
    """The last message of a sender that had no effect; *header* and *before* have equal content."""

    claims: tuple[object, ...]
    header: Header
    before: Header
    extensions: tuple[Extension, ...]
    ip: str

    def is_repeated(self, header: Header, body: Gossip, ip: str) -> bool:
        """Return whether a message from *ip* repeats it, apart from gossip and times."""
        return (
            (header is self.header or header is self.before or claims_of(header) == self.claims)
            and self.ip == ip
            and (body.extensions is self.extensions or body.extensions == self.extensions)
        )


class Prefilter:
    """A cluster node with the fast path; same interface and effects."""

    def __init__(self, node: ClusterNode) -> None:
        self.node = node
        self.view = node.view
        self._version = -1
        """View version for which `_quiet` and `_quiet_until_s` are valid."""
        self._members = -1
        self._places: dict[str, int] = {}
        self._quiet: list[QuietMessage | None] = []
        self._quiet_until_s: list[int] = []
        """Second up to which pongs of a node are no news, by place; UNSEEN before the node's health is checked."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply an event; see `ClusterNode.handle`."""
        if type(event) is not MessageReceived:
            return self.node.handle(event, now_ms)
        effects = self.settle(event, now_ms)
        if effects is None:
            effects = self.node.handle(event, now_ms)
            if not effects or (len(effects) == 1 and type(effects[0]) is ReplyPong):
                self._remember(event)
        return effects

    def settle(self, event: MessageReceived, now_ms: int) -> list[Effect] | None:
        """Apply a quiet message (R37, R44, R50, R51); None leaves it to the machine."""
        message, view = event.message, self.view
        header, body = message.header, message.body
        link = view.links.get(event.link)
        if link is None or type(header) is not Header or type(body) is not Gossip or message.rest is not None:
            return None
        if self._version != view.version or link.node != header.sender:
            return None
        places, nodes = self._places, view.nodes
        quiet = self._quiet[places[header.sender]] if header.sender in places else None
        if quiet is None:
            return None
        kind, peer = header.type, nodes[header.sender]
        if (
            not quiet.is_repeated(header, body, event.peer_ip)
            or header.current_epoch > view.current_epoch
            or peer.flags & UNSETTLED
            or kind > PONG
            or (kind == PING and not link.inbound)
        ):
            return None
        if header is not quiet.header:
            quiet.before, quiet.header = quiet.header, header
        quiet_until_s, limit_s = self._quiet_until_s, (now_ms + CLOCK_SLACK_MS) // MS_PER_S
        younger: list[tuple[int, GossipEntry]] = []
        repeated: list[Peer] = []
        for entry in body.entries:
            place = places.get(entry[NODE])
            if place is None:  # an unknown sender
                return None
            until_s = quiet_until_s[place]
            if until_s < 0 or entry[FLAGS] & FAILURES:
                known = nodes[entry[NODE]]
                if known.flags & FAILURES or entry[FLAGS] & FAILURES:
                    if not self._repeats_failure(peer, known, entry[FLAGS]):
                        return None
                    repeated.append(known)
                    continue
                if known.reports:
                    return None
                until_s = quiet_until_s[place] = 0
            if until_s < entry[PONG_RECEIVED] <= limit_s:
                younger.append((place, entry))
        effects: list[Effect] = []
        if kind == PING:  # the PONG has the state when the PING came (R41)
            effects.append(self.node.answer(event.link))
        peer.data_received_ms = now_ms
        peer.repl_offset = header.offset
        if kind == PONG and not link.inbound:
            view.note_pong(peer, now_ms)
        if younger:
            self._refresh(younger)
        if repeated and not view.profile.reports_end_at_fail:
            for known in repeated:
                if peer.id in known.reports:
                    known.reports[peer.id] = now_ms
        return effects

    def _repeats_failure(self, peer: Peer, known: Peer, flags: int) -> bool:
        """Return whether *peer* repeats its report of a FAIL node: only the report's time changes (R51)."""
        if not (flags & FAILURES and known.flags & FAIL) or known is peer:
            return False
        view = self.view
        return view.profile.reports_end_at_fail or not may_report(view, peer) or peer.id in known.reports

    def _refresh(self, younger: list[tuple[int, GossipEntry]]) -> None:
        """Apply newer pong times in the order of the entries (R44)."""
        view, quiet_until_s = self.view, self._quiet_until_s
        unclean = MYSELF | (HANDSHAKE | MEET if view.profile.gossip_refreshes_clean_only else 0)
        for place, entry in younger:
            known, pong_ms = view.nodes[entry[NODE]], milliseconds(entry[PONG_RECEIVED])
            if known.pong_received_ms < pong_ms:
                if known.ping_sent_ms or known.flags & unclean:
                    continue
                view.note_rumour(known, pong_ms, entry)
            quiet_until_s[place] = entry[PONG_RECEIVED]

    def _remember(self, event: MessageReceived) -> None:
        """Record a message without effect but a PONG: repetitions are quiet."""
        header, body, view = event.message.header, event.message.body, self.view
        if type(header) is not Header or type(body) is not Gossip or header.type > PONG or header.mflags[0] & PAUSED:
            return
        link = view.links.get(event.link)
        if link is not None and link.node == header.sender and header.sender in view.nodes:
            if self._version != view.version:
                self._begin()
            place = self._places[header.sender]
            self._quiet[place] = QuietMessage(claims_of(header), header, header, body.extensions, event.peer_ip)

    def _begin(self) -> None:
        """Reset after a change of the view."""
        view = self.view
        if self._members != view.members or len(self._places) != len(view.nodes):
            self._places, self._members = places_of(tuple(sorted(view.nodes))), view.members
        self._quiet, self._quiet_until_s = [None] * len(self._places), [UNSEEN] * len(self._places)
        self._version = view.version


@lru_cache(maxsize=SECONDS_CACHED)
def milliseconds(seconds: int) -> int:
    """Return seconds as ms; equal values share one object to save memory."""
    return seconds * MS_PER_S


@lru_cache(maxsize=TABLES_CACHED)
def places_of(names: tuple[str, ...]) -> dict[str, int]:
    """Return a place for each of *names*; simulated nodes with equal names share the table."""
    return {name: place for place, name in enumerate(names)}
