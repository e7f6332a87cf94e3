"""Watches a run of sentinels: what must never happen (S17), and how they must agree when all is healed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cluster_core.sentinel.events import Announced
from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sentinel.votes import votes_needed
from cluster_core.sim.checkers import VIOLATIONS_MAX, Violation
from cluster_core.sim.sentinels.layout import shard_of
from cluster_core.sim.sentinels.world import is_sentinel, sentinel_of, server_of

if TYPE_CHECKING:
    from cluster_core.sim.host import Host
    from cluster_core.sim.sentinels.world import SentinelWorld

RULE: Final = "S17"
MIXED: Final = "redis-2230"
"""Two leaders that a defect of the server allows, which this model shares."""


class SentinelChecks:
    """An observer that collects violations of S17 as they happen: votes, leaders, configuration epochs.

    A vote or a win is told without its master, so with several masters what is one an epoch is counted for each master.
    """

    def __init__(self, world: SentinelWorld) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.mixed: list[tuple[str, int]] = []
        """Elections that were won with votes of two epochs: the master and the later epoch."""
        self._votes: dict[tuple[str, int, str], str] = {}
        self._leaders: dict[tuple[str, int], str] = {}
        self._epochs: dict[tuple[str, str], tuple[int, int]] = {}
        self._current: dict[str, int] = {}
        world.observers.append(self)

    def wrong(self, text: str, rule: str = RULE) -> None:
        """Note a violation."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(rule, self.world.now_us, text))

    def on_note(self, text: str) -> None:
        """Faults are not our business."""

    def on_effect(self, host: Host, effect: Any) -> None:
        """Look at what a sentinel announces."""
        if type(effect) is not Announced:
            return
        masters = sentinel_of(host).state.masters
        for master in masters.values():
            self._check_epochs(host, master)
        if effect.channel == "+new-epoch":
            self._current[host.id] = int(effect.text)
        elif effect.channel == "+vote-for-leader":
            leader, _, epoch = effect.text.partition(" ")
            for master in masters.values():
                if master.leader == leader and master.leader_epoch == int(epoch):
                    self._check_vote(host, master, leader, int(epoch))
        elif effect.channel == "+elected-leader":
            master = masters[effect.text.split()[1]]
            if not master.flags & Flag.FORCE_FAILOVER:
                self._check_leader(host, master)

    def _check_epochs(self, host: Host, master: Instance) -> None:
        """Epochs of a name only grow, in every sentinel, over restarts."""
        now = (master.config_epoch, master.leader_epoch)
        last = self._epochs.get((host.id, master.name), now)
        if now[0] < last[0] or now[1] < last[1]:
            self.wrong(f"epochs of {master.name} at {host.name} fell from {last} to {now}")
        self._epochs[host.id, master.name] = now

    def _check_vote(self, host: Host, master: Instance, leader: str, epoch: int) -> None:
        """One vote of a sentinel an epoch."""
        before = self._votes.setdefault((master.name, epoch, host.id), leader)
        if before != leader:
            both = f"{self.world.name_of(before)} and {self.world.name_of(leader)}"
            self.wrong(f"{host.name} votes for {both} in epoch {epoch} of {master.name}")

    def _check_leader(self, host: Host, master: Instance) -> None:
        """One leader an epoch, with the votes of a majority and of a quorum, as the server counts them.

        It counts what others have voted in its current epoch, and its own vote in the epoch of the failover.  When another
        master fails meanwhile these are two epochs: nobody has a majority in one of them then, and two leaders are possible
        (sentinelGetLeader; redis #2230).
        """
        name, mine = master.name, master.failover_epoch
        epoch = self._current.get(host.id, sentinel_of(host).state.current_epoch)
        votes = sum(
            whom == host.id and (voted, at) == (name, mine if voter == host.id else epoch)
            for (voted, at, voter), whom in self._votes.items()
        )
        needed = votes_needed(len(master.sentinels) + 1, master.quorum)
        if votes < needed:
            self.wrong(f"{host.name} leads {name} in epoch {epoch} with {votes} votes of {needed}")
        rule = RULE
        if mine != epoch:
            self.mixed.append((name, epoch))
        if (name, epoch) in self.mixed:
            rule = MIXED
        other = self._leaders.setdefault((name, epoch), host.id)
        if other != host.id:
            self.wrong(f"{self.world.name_of(other)} and {host.name} both lead {name} in epoch {epoch}", rule)


def check_agreement(world: SentinelWorld) -> list[Violation]:
    """Once all has healed: every sentinel names the same master, which is one, and all running replicas follow it."""
    found: list[Violation] = []

    def wrong(text: str) -> None:
        found.append(Violation("converge", world.now_us, text))

    running = world.running()
    for place in world.masters:
        name = shard_of(place.name)
        views: dict[tuple[str, int, int], list[str]] = {}
        for host in running:
            master = sentinel_of(host).state.masters.get(name) if is_sentinel(host) else None
            if master is not None:
                views.setdefault((*master.address, master.config_epoch), []).append(host.name)
        if len(views) != 1:
            camps = (
                f"{','.join(who)} hold {world.name_of(f'{ip}:{port}')} in epoch {epoch}"
                for (ip, port, epoch), who in views.items()
            )
            wrong(f"{name}: {' | '.join(camps)}")
            continue
        ip, port, _ = next(iter(views))
        _check_servers(world, name, Address(ip, port), wrong)
    return found


def _check_servers(world: SentinelWorld, name: str, address: Address, wrong: Any) -> None:
    """The servers of one shard do what the sentinels believe."""
    for host in world.running():
        if is_sentinel(host) or shard_of(host.name) != name:
            continue
        server = server_of(host)
        if Address(host.ip, host.settings.port) == address:
            if server.master is not None:
                wrong(
                    f"{name}: {host.name} should be the master and follows {world.name_of(f'{server.master[0]}:{server.master[1]}')}"
                )
        elif server.master != address:
            wrong(f"{name}: {host.name} does not follow {world.name_of(str(address))}")
        elif not server.is_up:
            wrong(f"{name}: {host.name} is not in sync with {world.name_of(str(address))}")
