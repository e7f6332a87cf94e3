"""What a failure cost: time to detect, to elect, to converge, writes, bytes; measured while a simulation runs.

`OutcomeWatch` is an observer that knows which hosts were hit.  A shard is *recovered* when a running replica of it has won
an election, and *settled* when every running host knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Field, Refusal
from cluster_core.gossip.flags import FAIL, MASTER
from cluster_core.node import events as ev
from cluster_core.sim.experiment.table_rows import ShardOutcome
from cluster_core.sim.host import Host
from cluster_core.sim.world import World


class OutcomeWatch:
    """Times what comes of a fault; call `begin` when it happens, `is_over` while the world runs."""

    def __init__(self, world: World, shards: dict[str, tuple[str, ...]]) -> None:
        self.world = world
        self.shards = shards
        self.fault_us = -1
        self.hit: dict[str, None] = {}
        self.victims: dict[str, str] = {}
        self.detected_us: dict[str, int] = {}
        self.won_us: dict[str, int] = {}
        self.attempts: dict[str, int] = {}
        self.converged_us: int | None = None
        self.was_ok = False
        self.elections = self.votes = self.refusals = 0
        self.falsely: dict[str, None] = {}
        self._shard_of = {name: master for master, names in shards.items() for name in names}
        world.observers.append(self)

    def begin(self, hit: Sequence[Host]) -> None:
        """The fault happens now and hits these hosts."""
        self.fault_us = self.world.now_us
        self.was_ok = all(host.node.view.ok for host in self.world.running())
        for host in hit:
            self.hit[host.name] = None
            if host.node.view.myself.flags & MASTER and host.node.view.myself.slots:
                self.victims[host.id] = host.name

    def on_note(self, text: str) -> None:
        """Nothing to time."""

    def on_effect(self, host: Host, effect: Any) -> None:
        """Note verdicts, requests, votes and wins."""
        kind = type(effect)
        if kind is belief.Changed:
            if effect.what is Field.FAIL:
                self._verdict(host, effect.node)
        elif kind is ev.ElectionStep:
            self._election(host, effect.step)
        elif kind is ev.VoteCast:
            if effect.refusal:
                self.refusals += effect.refusal is not Refusal.NOT_A_VOTER
            else:
                self.votes += 1

    def _verdict(self, host: Host, node_id: str) -> None:
        peer = host.node.view.nodes.get(node_id)
        if peer is None or not peer.flags & FAIL or self.fault_us < 0:
            return
        if node_id in self.victims:
            self.detected_us.setdefault(self.victims[node_id], self.world.now_us)
        other = self.world.find(self.world.name_of(node_id))
        if other is not None and other.answers and other.name not in self.hit:
            self.falsely[other.name] = None

    def _election(self, host: Host, step: str) -> None:
        shard = self._shard_of.get(host.name, host.name)
        if step == "started":
            self.elections += 1
            self.attempts[shard] = self.attempts.get(shard, 0) + 1
        elif step == "won":
            self.won_us.setdefault(shard, self.world.now_us)

    # -- the end -------------------------------------------------------------------------------------------------

    def left(self) -> list[Host]:
        """The hosts that run and were not hit."""
        return [host for host in self.world.running() if host.name not in self.hit]

    def electable(self) -> list[str]:
        """The failed masters of which a replica is left."""
        running = {host.name for host in self.left()}
        return [name for name in self.victims.values() if any(other in running for other in self.shards.get(name, ()))]

    def is_over(self) -> bool:
        """Whether nothing more is to come: every shard that can has a new master, and everybody knows."""
        if self.converged_us is not None:
            return True
        wanted = self.electable()
        if any(name not in self.won_us for name in wanted):
            return False
        replaced = [node_id for node_id, name in self.victims.items() if name in self.won_us]
        coverable = self.was_ok and len(replaced) == len(self.victims)
        for host in self.left():
            view = host.node.view
            if (coverable and not view.ok) or any(
                (peer := view.nodes.get(node_id)) is not None and peer.slots for node_id in replaced
            ):
                return False
        self.converged_us = self.world.now_us
        return True

    def shard_outcomes(self) -> tuple[ShardOutcome, ...]:
        """One line for each shard that lost its master."""
        running = {host.name: host for host in self.left()}
        found = []
        for name in self.victims.values():
            replicas = [running[other] for other in self.shards.get(name, ()) if other in running]
            found.append(
                ShardOutcome(
                    name,
                    len(replicas),
                    self._since_ms(self.detected_us.get(name)),
                    self._since_ms(self.won_us.get(name)),
                    self.attempts.get(name, 0),
                    "" if name in self.won_us else self._hindrance(name, replicas),
                )
            )
        return tuple(found)

    def _hindrance(self, name: str, replicas: list[Host]) -> str:
        if not replicas:
            return "no replica is left"
        if name not in self.detected_us:
            return "no majority holds it for failed"
        causes = [host.node.state.election.cause for host in replicas]
        return next((cause for cause in causes if cause), "no replica stood for election")

    def _since_ms(self, at_us: int | None) -> float | None:
        return None if at_us is None else (at_us - self.fault_us) / 1000

    def times_ms(self) -> tuple[float | None, float | None, float | None]:
        """Until the last shard was detected, elected, and everybody knew; None if one never was."""
        names = list(self.victims.values())
        times: list[float | None] = []
        for known in (self.detected_us, self.won_us):
            whole = names and all(name in known for name in names)
            times.append(self._since_ms(max(known[name] for name in names)) if whole else None)
        whole = names and all(name in self.won_us for name in names)
        return times[0], times[1], self._since_ms(self.converged_us) if whole else None
