"""Puts a world on the fast path where it can go, and takes it off again (docs/simulator.md, "The fast path")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip.events import LinkAccepted, Tick
from cluster_core.node.events import ClientCommand, LinkOpened
from cluster_core.sim.checkers import Checks
from cluster_core.sim.experiment.outcomes import OutcomeWatch
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.connections import Greeting
from cluster_core.sim.fast.driver import do_sleep, run_to
from cluster_core.sim.fast.stand_ins import Reports
from cluster_core.sim.fast.steady import Steady
from cluster_core.sim.network import Network
from cluster_core.sim.world import World
from cluster_core.wire.bus import MessageType

if TYPE_CHECKING:
    from cluster_core.node.events import Event
    from cluster_core.sim.host import Host, Stream
    from cluster_core.wire.bus import Message

CARRIED: Final = (int(MessageType.PING), int(MessageType.PONG), int(MessageType.FAIL))
SHORT_SIGHTED: Final = (Checks, OutcomeWatch)
"""Observers that need not be told of reports, doubts and verdicts that only repeat another's."""


class ReportBook:
    """What `Checks` has noted of reports: in the arrays, the reports themselves."""

    def __init__(self, steady: Steady) -> None:
        self._steady = steady

    def __getitem__(self, index: int) -> HostReports:
        return HostReports(self._steady, self._steady.row_of[index])

    def pop(self, index: int, default: object = None) -> None:
        """A process started again: its reports went with it."""


class HostReports:
    """The reports of one host, by subject."""

    def __init__(self, steady: Steady, row: int) -> None:
        self._steady, self._row = steady, row

    def get(self, subject: str, default: Mapping[str, int]) -> Reports | Mapping[str, int]:
        """The reports about *subject*."""
        number = self._steady.index_of.get(subject)
        return default if number is None else Reports(self._steady, self._row * self._steady.nodes + number)

    def setdefault(self, subject: str, default: dict[str, None]) -> dict[str, None]:
        """A report is noted: the arrays have it."""
        return default


class Book:
    """What the fast path must know of those who watch."""

    def __init__(self, world: World) -> None:
        self.checks = [observer for observer in world.observers if isinstance(observer, Checks)]
        self.listeners = [check._on_send for check in self.checks]


class ArrayNetwork(Network):
    """A network whose connections are known to the compiled loop; FAILs go through it, too."""

    steady: Steady

    def open(self, host: Host, link: int, ip: str, cport: int) -> None:
        """Begin to connect."""
        super().open(host, link, ip, cport)
        stream = host.streams.get(link)
        if stream is not None:
            self.steady.connections.waits(stream)

    def _establish(self, stream: Stream, _: Any = None) -> None:
        greeting = Greeting.PLAIN_WORLD
        if stream.source.streams.get(stream.link) is stream and stream.source.inbox is None:
            greeting = self.steady.connections.establish(stream)
        if greeting is Greeting.PLAIN_WORLD:
            self.steady.connections.unwait(stream)
            super()._establish(stream)
        elif greeting is Greeting.PLAIN_NODE:
            self.steady.world.tell(stream.source, LinkOpened(stream.link))
        elif greeting is Greeting.STATE:
            do_sleep(self.steady)

    def _lose(self, stream: Stream, _: Any = None) -> None:
        self.steady.connections.unwait(stream)
        super()._lose(stream)

    def close(self, host: Host, link: int) -> None:
        """*host* closes a link."""
        stream = host.streams.get(link)
        if stream is not None and stream.waiting is not None:
            self.steady.connections.unwait(stream)
        super().close(host, link)

    def send(self, host: Host, link: int, message: Message) -> None:
        """Put *message* on a link of *host*, behind what waits there."""
        if message.header.type not in CARRIED or not self.steady.connections.carry(host, link, message):
            super().send(host, link, message)


class ArrayWorld(World):
    """A world on the fast path."""

    steady: Steady

    def run_to(self, end_us: int) -> None:
        """Let time pass until *end_us*."""
        if self._goes_on():
            run_to(self.steady, end_us)
        else:
            self.run_to(end_us)

    def run_while(self, goes_on: Callable[[], bool], look_us: int, end_us: int) -> None:
        """Let time pass until *end_us*, or until *goes_on* says no; only before the first look something was done from outside."""
        if self.now_us < end_us and goes_on():
            self.run_to(min(self.now_us + look_us, end_us))
        while isinstance(self, ArrayWorld) and self.now_us < end_us and goes_on() and self._goes_on():
            run_to(self.steady, min(self.now_us + look_us, end_us), is_first=False)
        World.run_while(self, goes_on, look_us, end_us)

    def _goes_on(self) -> bool:
        """Whether the world is on the fast path still: with other hosts, or a host of another id, it has to begin anew."""
        steady = self.steady
        if len(self.hosts) == steady.nodes and [host.id for host in steady.hosts] == steady.ids:
            return True
        end_steady(self)
        return begin_steady(self)

    def tell(self, host: Host, event: Event) -> None:
        """Hand an event to a node."""
        row = self.steady.row_of.get(host.index)
        if type(event) is ClientCommand and row is not None:
            self.steady.count(row)
        elif type(event) is Tick and row is not None:
            host.node.state.agenda_nodes = 0
        super().tell(host, event)
        if row is not None and type(event) is not LinkAccepted:
            self.steady.touched[host.index] = None


def can_go(world: World) -> bool:
    """Whether nothing in *world* needs the plain machine for everything: a recorder, a trace, names of nodes."""
    if world.recorder is not None or len(world.hosts) < 2 or type(world) is not World:
        return False
    if any(not isinstance(observer, SHORT_SIGHTED) for observer in world.observers):
        return False
    if len({host.id for host in world.hosts}) != len(world.hosts):
        return False
    return (
        not any(
            peer.hostname or peer.nodename or any(peer.client_ips)
            for host in world.hosts
            for peer in host.node.view.nodes.values()
        )
        and len(world.hosts) * 4 < at.ADDRESSES_MAX
    )


def begin_steady(world: World) -> bool:
    """Put *world* on the fast path; false if it cannot go there."""
    if not can_go(world):
        return False
    book = Book(world)
    steady = Steady(world, book)
    world.__class__ = ArrayWorld
    world.network.__class__ = ArrayNetwork
    world.steady = world.network.steady = steady  # type: ignore[attr-defined]  # of their new classes
    for check in book.checks:
        check._reports = ReportBook(steady)  # type: ignore[assignment]
    return True


def end_steady(world: World) -> None:
    """Take *world* off the fast path; it goes on as it would have done without."""
    if not isinstance(world, ArrayWorld):
        return
    steady = world.steady
    steady.end()
    world.__class__ = World  # type: ignore[assignment]
    world.network.__class__ = Network
    del world.__dict__["steady"], world.network.__dict__["steady"]
    network = world.network
    world.heap[:] = [
        (
            at_us,
            order,
            getattr(network, action.__name__) if getattr(action, "__self__", None) is network else action,
            a,
            b,
        )
        for at_us, order, action, a, b in world.heap
    ]
    for check in steady.book.checks:
        check._reports = reports_of(world)


def reports_of(world: World) -> defaultdict[int, dict[str, dict[str, None]]]:
    """What a `Checks` would have noted: the reports of all nodes."""
    noted: defaultdict[int, dict[str, dict[str, None]]] = defaultdict(dict)
    for host in world.hosts:
        for peer in host.node.view.nodes.values():
            if peer.reports:
                noted[host.index][peer.id] = dict.fromkeys(peer.reports)
    return noted
