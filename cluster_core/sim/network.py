"""Network between hosts: TCP links that open, carry messages in order, and break (R27 to R30)."""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Any, Final, Protocol

from cluster_core.gossip.events import LinkAccepted, LinkClosed, MessageReceived
from cluster_core.node.events import Event, LinkOpened
from cluster_core.sim.clock import Clock
from cluster_core.sim.host import CONNECT_ATTEMPTS_MAX, CONNECT_RETRY_US, Host, NetworkPath, Stream, retry_after_us
from cluster_core.wire.bus import Message

if TYPE_CHECKING:
    from random import Random

FIN: Final = None
"""End marker of a stream."""


class Listener(Protocol):
    """Passive observer of arrivals."""

    def connected(self, stream: Stream) -> None:
        """Handle an accepted connection; *stream* is the opener's."""

    def delivered(self, stream: Stream, message: Message) -> None:
        """Handle an arrived message."""

    def closed(self, stream: Stream) -> None:
        """Handle the arrived end of *stream*."""


class Driver(Clock):
    """Clock and driver of the nodes: passes events and executes effects."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder: Listener | None = None

    def wall_ms(self, host: Host) -> int:
        """Return the time of *host*'s clock."""
        return (self.now_us + host.shift_us) // 1000

    def tell(self, host: Host, event: Event) -> None:
        """Hand an event to a node."""
        raise NotImplementedError

    def carry_out(self, host: Host, wanted: list[Any]) -> None:
        """Execute effects of a node."""
        raise NotImplementedError


class Network:
    """Bus connections between the hosts of *world*; *rng* draws delays and losses."""

    def __init__(self, world: Driver, rng: Random, path: NetworkPath) -> None:
        self.world = world
        self.rng, self.random = rng, rng.random
        self.usual = path
        self.paths: dict[tuple[int, int], NetworkPath] = {}
        self.by_address: dict[tuple[str, int], Host] = {}
        self.connections = 0
        self.messages = 0
        self.bytes = 0

    # -- paths ---------------------------------------------------------------------------------------------------

    def path(self, source: Host, target: Host) -> NetworkPath:
        """Return the path from one host to another."""
        return self.paths.get((source.index, target.index), self.usual) if self.paths else self.usual

    def change(self, source: Host, target: Host, **changes: Any) -> None:
        """Change one direction; see `NetworkPath.copy`. Open streams use the new path, held messages continue."""
        old = self.path(source, target)
        new = self.paths[source.index, target.index] = old.copy(**changes)
        for stream in source.streams.values():
            if stream.target is target:
                stream.path = new
                if old.is_blocked and not new.is_blocked and stream.held is not None:
                    wait_us = retry_after_us(self.world.now_us - stream.held_us)
                    self.world.call_at(self.world.now_us + wait_us, self._retry, stream)
        if old.is_blocked and not new.is_blocked:
            self.connect_again(source, target)
            self.connect_again(target, source)

    def _retry(self, stream: Stream, _: Any = None) -> None:
        """Retry held messages."""
        if stream.held is None or stream.path.is_blocked:
            return
        held, stream.held = stream.held, None
        for message in held:
            self._carry(stream, message)

    # -- connections ---------------------------------------------------------------------------------------------

    def open(self, host: Host, link: int, ip: str, cport: int) -> None:
        """Start connecting (R29)."""
        target = self.by_address.get((ip, cport))
        if target is None or target is host:
            self.world.call_at(self.world.now_us + 2 * self.usual.delay_us, self._refuse, host, link)
            return
        self.connections += 1
        path = self.path(host, target)
        stream = host.streams[link] = Stream(host, link, target, path, is_ours=True, connection=self.connections)
        self._syn(stream, 0)

    def _refuse(self, host: Host, link: int) -> None:
        """Refuse: no machine, or a reset."""
        self.world.tell(host, LinkClosed(link))

    def _syn(self, stream: Stream, attempt: int) -> None:
        source, target = stream.source, stream.target
        if source.streams.get(stream.link) is not stream or stream.is_open:
            return
        if attempt == CONNECT_ATTEMPTS_MAX:
            self._lose(stream)
            return
        now_us, back = self.world.now_us, self.path(target, source)
        if stream.path.is_blocked or back.is_blocked or target.is_off:
            lost = stream.unanswered = attempt, now_us
            left_us = (CONNECT_RETRY_US << CONNECT_ATTEMPTS_MAX) - (CONNECT_RETRY_US << attempt)
            self.world.call_at(now_us + left_us, self._give_up, stream, lost)
        elif not target.alive:
            round_us = stream.path.travel_us(self.rng) + back.delay_us
            self.world.call_at(now_us + round_us, self._lose, stream)
        else:
            self.world.call_at(now_us + stream.path.travel_us(self.rng), self._accept, stream)

    def connect_again(self, source: Host, target: Host) -> None:
        """Resume lost SYNs from *source* to *target* at their next retransmission."""
        for stream in source.streams.values():
            if stream.target is target and stream.unanswered is not None:
                (attempt, at_us), stream.unanswered = stream.unanswered, None
                while attempt < CONNECT_ATTEMPTS_MAX and at_us <= self.world.now_us:
                    at_us += CONNECT_RETRY_US << attempt
                    attempt += 1
                self.world.call_at(at_us, self._syn, stream, attempt)

    def _give_up(self, stream: Stream, lost: tuple[int, int]) -> None:
        """Give up unless an answer became possible meanwhile."""
        if stream.unanswered is lost:
            self._lose(stream)

    def _accept(self, stream: Stream, _: Any = None) -> None:
        """Handle an arrived SYN: the kernel answers, even for a stopped process."""
        source, target = stream.source, stream.target
        if source.streams.get(stream.link) is not stream:
            return
        now_us = self.world.now_us
        back = self.path(target, source)
        if target.is_off:
            self._syn(stream, 0)
            return
        if not target.alive:
            self.world.call_at(now_us + back.travel_us(self.rng), self._lose, stream)
            return
        link = target.next_accepted
        target.next_accepted += 2
        reverse = target.streams[link] = Stream(target, link, source, back, is_ours=False, connection=stream.connection)
        reverse.reverse, stream.reverse = stream, reverse
        reverse.target_link, stream.target_link = stream.link, link
        reverse.is_open, reverse.waiting = True, None
        if self.world.recorder is not None:
            self.world.recorder.connected(stream)
        self.world.tell(target, LinkAccepted(link, target.ip))
        self.world.call_at(now_us + back.travel_us(self.rng), self._establish, stream)

    def _establish(self, stream: Stream, _: Any = None) -> None:
        source = stream.source
        if source.streams.get(stream.link) is not stream:
            return
        stream.is_open = True
        waiting, stream.waiting = stream.waiting or [], None
        for message in waiting:
            self.send(source, stream.link, message)
        self.world.tell(source, LinkOpened(stream.link))

    def _lose(self, stream: Stream, _: Any = None) -> None:
        """Fail the attempt."""
        if stream.source.streams.get(stream.link) is stream:
            del stream.source.streams[stream.link]
            self.world.tell(stream.source, LinkClosed(stream.link))

    def close(self, host: Host, link: int) -> None:
        """Close a link of *host*: sent messages still arrive, incoming ones do not."""
        stream = host.streams.pop(link, None)
        if stream is None or stream.reverse is None:
            return
        stream.reverse.is_open = False
        stream.is_open = True
        for message in stream.waiting or ():
            self._carry(stream, message)
        stream.waiting = None
        self._carry(stream, FIN)

    def crash(self, host: Host) -> None:
        """End the process: its kernel closes every link."""
        for link in list(host.streams):
            self.close(host, link)

    def switch_off(self, host: Host) -> None:
        """Power off: no connection is closed and no message delivered."""
        for stream in host.streams.values():
            stream.is_open = False
            if stream.reverse is not None:
                stream.reverse.is_open = False
                host.orphans.append(stream.reverse)
        host.streams.clear()

    def reset_orphans(self, host: Host) -> None:
        """Reset old connections at a restarted machine when their peers send."""
        orphans, host.orphans = host.orphans, []
        for stream in orphans:
            if stream.source.streams.get(stream.link) is stream:
                self.world.call_at(self.world.now_us + 2 * stream.path.delay_us, self._lose, stream)

    # -- messages ------------------------------------------------------------------------------------------------

    def send(self, host: Host, link: int, message: Message) -> None:
        """Queue *message* on a link of *host*."""
        stream = host.streams.get(link)
        if stream is None:
            return
        if stream.waiting is not None:
            stream.waiting.append(message)
            return
        self.messages += 1
        self.bytes += message.header.totlen  # type: ignore[union-attr]  # nodes send whole messages
        path = stream.path
        if path.plain and stream.held is None:  # fast path of `_carry` for most messages
            world = self.world
            at_us = world.now_us + path.delay_us + int(self.random() * path.jitter_us)
            if at_us < stream.arrival_us:
                at_us = stream.arrival_us
            stream.arrival_us = at_us
            world.sequence += 1
            heappush(world.heap, (at_us, world.sequence, self._deliver, stream, message))
        else:
            self._carry(stream, message)

    def _carry(self, stream: Stream, message: Message | None) -> None:
        world, path = self.world, stream.path
        if stream.held is not None or path.is_blocked:
            self._hold(stream, message)
            return
        if path.plain:
            at_us = world.now_us + path.delay_us + int(self.rng.random() * path.jitter_us)
        else:
            at_us = world.now_us + path.travel_us(self.rng)
        stream.arrival_us = at_us = max(at_us, stream.arrival_us)
        world.sequence += 1
        heappush(world.heap, (at_us, world.sequence, self._deliver, stream, message))

    def _hold(self, stream: Stream, message: Message | None) -> None:
        if stream.held is None:
            stream.held, stream.held_us = [], self.world.now_us
        stream.held.append(message)

    def _deliver(self, stream: Stream, message: Message | None) -> None:
        if not stream.is_open:
            return
        target, world = stream.target, self.world
        if message is not None:
            if world.recorder is not None:
                world.recorder.delivered(stream, message)
            world.tell(target, MessageReceived(stream.target_link, message, stream.source.ip))
            return
        stream.is_open = False
        if target.streams.pop(stream.target_link, None) is not None:
            if world.recorder is not None:
                world.recorder.closed(stream)
            world.tell(target, LinkClosed(stream.target_link))
