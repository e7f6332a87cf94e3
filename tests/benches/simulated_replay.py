"""Replay a simulation while it runs, to compare the nodes' beliefs with the replayed ones."""

from __future__ import annotations

from typing import Any

from benchmarks.fidelity import Sample, SampleRow, Verdict, compare_views, sample_row_of
from cluster_core.gossip.events import Changed, NodeAdded, NodeRemoved, NodeRenamed
from cluster_core.replay.evidence import Endpoint, LinkSeen, MessageSeen
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.rows import NodeViewRow, ReplayRow
from cluster_core.replay.view_log import CauseSeen, ViewLog
from cluster_core.sim.clock import START_US
from cluster_core.sim.host import Host, Stream
from cluster_core.sim.stage import Stage
from cluster_core.sim.world import World
from cluster_core.wire.bus import Message
from tests.benches.scenario import play, read_scenario


class Beliefs:
    """An observer of a world that keeps what each node believed, from when to when."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: list[NodeViewRow] = []
        self._logs: dict[str, ViewLog] = {}
        world.call_at(1, self._begin)

    def on_effect(self, host: Host, effect: Any) -> None:
        """Look at the whole view whenever something in it changed."""
        if isinstance(effect, Changed | NodeAdded | NodeRemoved | NodeRenamed):
            self._look(host)

    def on_note(self, text: str) -> None:
        """Not a belief."""

    def finish(self) -> list[NodeViewRow]:
        for host in self.world.running():
            self.rows += self._logs[host.name].close(None)
        for log in self._logs.values():
            self.rows += log.close(self._now_ns)
        return self.rows

    @property
    def _now_ns(self) -> int:
        return (START_US + self.world.now_us) * 1000

    def _begin(self, *_: Any) -> None:
        for host in self.world.hosts:
            self._look(host)

    def _look(self, host: Host) -> None:
        log, view = self._logs.setdefault(host.name, ViewLog(host.id)), host.node.view
        for node_id in {**view.nodes, **log.open}:
            self.rows += log.note(view, node_id, self._now_ns, CauseSeen("", -1))


class Replaying:
    """Listener of a world that replays the evidence of both ends of a connection at once."""

    def __init__(self, world: World, node_timeout_ms: int) -> None:
        self.world = world
        self.rows: list[ReplayRow] = []
        self._ref = 0
        self._timeout_ms = node_timeout_ms
        self._replays: dict[str, ObserverReplay] = {}

    def delivered(self, stream: Stream, message: Message) -> None:
        self._ref += 1
        for host, peer, outbound, sent in _ends(stream):
            seen = MessageSeen(self._now_ns, self._ref, stream.connection, outbound, sent, peer, message)
            self.rows += self._replay(host).feed(seen)

    def connected(self, stream: Stream) -> None:
        for host, peer, outbound, sent in _ends(stream):
            seen = LinkSeen(self._now_ns, -1, stream.connection, outbound, "opened", not sent, peer)
            self.rows += self._replay(host).feed(seen)

    def closed(self, stream: Stream) -> None:
        for host, peer, outbound, sent in _ends(stream):
            seen = LinkSeen(self._now_ns, -1, stream.connection, outbound, "closed", sent, peer)
            self.rows += self._replay(host).feed(seen)

    def finish(self) -> list[NodeViewRow]:
        for replay in self._replays.values():
            self.rows += replay.finish()
        return [row for row in self.rows if isinstance(row, NodeViewRow)]

    @property
    def _now_ns(self) -> int:
        return (START_US + self.world.now_us) * 1000

    def _replay(self, host: Host) -> ObserverReplay:
        replay = self._replays.get(host.name)
        if replay is None:
            address = Endpoint(host.ip, host.settings.bus_port)
            replay = self._replays[host.name] = ObserverReplay(address, node_timeout_ms=self._timeout_ms)
        return replay


def _ends(stream: Stream) -> list[tuple[Host, Endpoint, bool, bool]]:
    """Both hosts of a stream: the other's endpoint, whether it opened the connection, whether it sends."""
    source, target = stream.source, stream.target
    to_target = Endpoint(target.ip, target.settings.bus_port)
    to_source = Endpoint(source.ip, source.settings.bus_port)
    return [(source, to_target, stream.is_ours, True), (target, to_source, not stream.is_ours, False)]


def replayed_simulation(text: str, every_ms: int = 500, begin_ms: int = 1000) -> list[Verdict]:
    """Play the scenario *text*, replay it, and judge every row of every running node's view at many times."""
    scenario = read_scenario(text)
    watched: list[tuple[Beliefs, Replaying]] = []

    def prepare(stage: Stage) -> None:
        recorder = Replaying(stage.world, scenario.settings.node_timeout_ms)
        watched.append((Beliefs(stage.world), recorder))
        stage.world.recorder = recorder
        stage.world.observers.append(watched[0][0])

    played = play(scenario, prepare=prepare)
    running = {host.id for host in played.stage.world.running()}
    truth = [row for row in watched[0][0].finish() if row.observer in running]
    begin_ns, end_ns = ((START_US + us) * 1000 for us in (begin_ms * 1000, scenario.end_us))
    samples = samples_of(truth, range(begin_ns, end_ns, every_ms * 1_000_000))
    return compare_views(watched[0][1].finish(), samples)


def samples_of(truth: list[NodeViewRow], times_ns: range) -> list[Sample]:
    """What each observer would have answered to CLUSTER NODES at each time."""
    held: dict[tuple[str, int], list[SampleRow]] = {}
    for row in truth:
        first = -(-(row.valid_from_ns - times_ns.start) // times_ns.step)
        last = len(times_ns) if row.valid_to_ns is None else -(-(row.valid_to_ns - times_ns.start) // times_ns.step)
        for at_ns in times_ns[max(first, 0) : max(last, 0)]:
            held.setdefault((row.observer, at_ns), []).append(sample_row_of(row))
    return [Sample(observer, at_ns, at_ns, tuple(rows)) for (observer, at_ns), rows in held.items()]
