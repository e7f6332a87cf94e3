"""Invariants of the protocol that every run must keep (R161 to R169), from effects and messages."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, NamedTuple

from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, MYSELF, NOADDR, REPLICA
from cluster_core.gossip.view import Peer, View, coverage_of, slot_bits
from cluster_core.node import events as ev
from cluster_core.node.events import SendMessage
from cluster_core.sim.host import Host
from cluster_core.sim.world import World
from cluster_core.wire.bus import Header, MessageType

AUTH_ACK: Final = int(MessageType.AUTH_ACK)
AUTH_REQUEST: Final = int(MessageType.AUTH_REQUEST)
VIOLATIONS_MAX: Final = 1000
NEVER_OWN: Final = FAILURES | HANDSHAKE | NOADDR
"""Flags that never appear in a node's own header (R167)."""


class Violation(NamedTuple):
    """A violated rule with time and description."""

    rule: str
    time_us: int
    text: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.time_us / 1e6:.3f} {self.rule}: {self.text}"


class Checks:
    """Observer and listener that collects violations of R161 to R167 and R169."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self._epochs: dict[str, tuple[int, int]] = {}
        self._last: dict[int, Header] = {}
        self._acked: dict[tuple[str, int], str] = {}
        self._acks: dict[str, dict[tuple[str, int], None]] = {}
        self._winners: dict[int, str] = {}
        self._claims: dict[int, dict[str, int]] = {}
        self._offsets: dict[tuple[str, str], int] = {}
        self._reports: defaultdict[int, dict[str, dict[str, None]]] = defaultdict(dict)
        world.observers.append(self)
        world.senders.append(self._on_send)

    def wrong(self, rule: str, text: str) -> None:
        """Record a violation, up to a limit."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(rule, self.world.now_us, text))

    def on_note(self, text: str) -> None:
        """Ignore notes on faults."""

    def restarted(self, host: Host, *, lost_disk: bool) -> None:
        """Handle a restart; without its disk the process lost its epochs (R161)."""
        self._last.pop(host.index, None)
        self._reports.pop(host.index, None)
        if lost_disk:
            self._epochs.pop(host.id, None)

    # -- messages ------------------------------------------------------------------------------------------------

    def _on_send(self, host: Host, effect: SendMessage) -> None:
        header = effect.message.header
        if type(header) is not Header:
            return
        last = self._last.get(host.index)
        if header is not last:
            self._last[host.index] = header
            self._check_header(host, header)
        if header.type == AUTH_ACK:
            self._check_ack(host, effect.link, header)

    def _check_header(self, host: Host, header: Header) -> None:
        """Check a node's own header (R161, R166, R167, R169)."""
        flags, name = header.flags, host.name
        if header.config_epoch > header.current_epoch:
            self.wrong("R161", f"{name} has config epoch {header.config_epoch} above {header.current_epoch}")
        last = self._epochs.get(header.sender, (0, 0))
        now = (host.node.view.current_epoch, host.node.view.last_vote_epoch)
        if now[0] < last[0] or now[1] < last[1]:
            self.wrong("R161", f"epochs of {name} fell from {last} to {now}")
        self._epochs[header.sender] = now
        role = flags & (MASTER | REPLICA)
        if role not in (MASTER, REPLICA) or (role == REPLICA) != bool(header.replicaof):
            self.wrong("R167", f"{name} says flags {flags:#x}, master {header.replicaof[:8] or 'none'}")
        if not flags & MYSELF or flags & NEVER_OWN:
            self.wrong("R167", f"{name} says flags {flags:#x} of itself")
        if role == MASTER:
            self._check_claim(host, header)
            self._check_offset(host, header)

    def _check_claim(self, host: Host, header: Header) -> None:
        """Check that each slot and config epoch has one owner (R166)."""
        claims = self._claims.setdefault(header.config_epoch, {})
        bits = slot_bits(header.myslots)
        if not header.config_epoch or claims.get(header.sender) == bits:
            return
        for other, theirs in claims.items():
            if other != header.sender and theirs & bits:
                both = f"{self.world.name_of(other)} and {host.name}"
                self.wrong("R166", f"{both} claim {(theirs & bits).bit_count()} slots in epoch {header.config_epoch}")
        claims[header.sender] = bits

    def _check_offset(self, host: Host, header: Header) -> None:
        key = (header.sender, host.store.replid)
        if header.offset < self._offsets.get(key, 0):
            self.wrong("R169", f"offset of {host.name} fell from {self._offsets[key]} to {header.offset}")
        self._offsets[key] = header.offset

    def _check_ack(self, host: Host, link: int, header: Header) -> None:
        """Check that a voter votes once per epoch (R162)."""
        peer = _receiver(host.node.view, link)
        before = self._acked.get((header.sender, header.current_epoch))
        if before is not None:
            self.wrong("R162", f"{host.name} votes twice in epoch {header.current_epoch}")
        if peer is not None:
            self._acked[header.sender, header.current_epoch] = peer.id
            self._acks.setdefault(peer.id, {})[header.sender, header.current_epoch] = None

    # -- effects -------------------------------------------------------------------------------------------------

    def on_effect(self, host: Host, effect: Any) -> None:
        """Check R163, R164 and R165."""
        kind = type(effect)
        if kind is ev.ElectionStep:
            if effect.step == "won":
                self._check_win(host, effect.epoch)
        elif kind is belief.Changed:
            if effect.what is Field.FAIL and effect.cause is Cause.QUORUM:
                self._check_verdict(host, effect.node)
        elif kind is belief.ReportAdded:
            self._reports[host.index].setdefault(effect.subject, {})[effect.reporter] = None
        elif kind is belief.ReportRemoved:
            self._reports[host.index].get(effect.subject, {}).pop(effect.reporter, None)

    def _check_win(self, host: Host, epoch: int) -> None:
        """Check one winner per epoch (R163) with the votes of a majority (R164)."""
        other = self._winners.get(epoch)
        if other is not None and other != host.id:
            self.wrong("R163", f"{self.world.name_of(other)} and {host.name} both won epoch {epoch}")
        self._winners[epoch] = host.id
        voters = {voter: None for voter, at in self._acks.get(host.id, {}) if at >= epoch}
        needed = quorum_of(coverage_of(host.node.view).size)
        if len(voters) < needed:
            self.wrong("R164", f"{host.name} won epoch {epoch} with {len(voters)} voters of {needed}")

    def _check_verdict(self, host: Host, node_id: str) -> None:
        """Check that enough failure reports were valid (R165)."""
        view = host.node.view
        subject = view.nodes.get(node_id)
        if subject is None or not subject.flags & FAIL:
            return
        reports = len(self._reports[host.index].get(node_id, {}))
        myself = view.myself
        own = bool(myself.flags & MASTER and (myself.slots or not view.profile.own_pfail_needs_slots))
        needed = quorum_of(coverage_of(view).size)
        if reports + own < needed:
            self.wrong("R165", f"{host.name} holds {self.world.name_of(node_id)} for FAIL, {reports + own} of {needed}")


def _receiver(view: View, link: int) -> Peer | None:
    bound = view.links.get(link)
    return view.nodes.get(bound.node) if bound is not None and bound.node is not None else None
