"""Trace of a run as text: view changes, elections, roles, state, external actions.

Equal events at several hosts within `TOGETHER_US` share a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Field, Refusal
from cluster_core.gossip.flags import FAIL, MASTER, PFAIL
from cluster_core.gossip.view import Peer
from cluster_core.node import events as ev
from cluster_core.node.events import Effect
from cluster_core.sim.host import Host
from cluster_core.sim.world import World
from tests.benches.node_commands import FlushKeys

TOGETHER_US: Final = 2_000_000
AGAIN_US: Final = 100_000
"""Repeated events of a host within this time are omitted: role and master change together."""
HOSTS_NAMED_MAX: Final = 12
"""More hosts are counted, not named."""


class Entry(NamedTuple):
    """An event at *host* (empty for external actions)."""

    time_us: int
    host: str
    text: str


class Trace:
    """Observer that collects events; `lines` formats them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: list[Entry] = []
        self._last: dict[tuple[str, str], int] = {}

    def on_effect(self, host: Host, effect: Effect) -> None:
        describe = _WORDS.get(type(effect))
        text = describe(self.world, host, effect) if describe is not None else ""
        if not text:
            return
        last = self._last.get((host.name, text), -AGAIN_US)
        self._last[host.name, text] = self.world.now_us
        if self.world.now_us - last >= AGAIN_US:
            self.entries.append(Entry(self.world.now_us, host.name, text))

    def on_note(self, text: str) -> None:
        self.entries.append(Entry(self.world.now_us, "", text))

    def lines(self) -> list[str]:
        """Return one line per event, merged over hosts."""
        groups: list[tuple[int, str, list[str]]] = []
        open_groups: dict[str, int] = {}
        for time_us, host, text in self.entries:
            at = open_groups.get(text)
            if host and at is not None and time_us - groups[at][0] <= TOGETHER_US and host not in groups[at][2]:
                groups[at][2].append(host)
                continue
            open_groups[text] = len(groups)
            groups.append((time_us, text, [host] if host else []))
        return [_line(time_us, text, hosts) for time_us, text, hosts in groups]


class Log:
    """Observer that collects server log lines with host names."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def on_effect(self, host: Host, effect: Effect) -> None:
        if type(effect) is ev.LogLine:
            self.lines.append((host.name, effect.text))

    def on_note(self, text: str) -> None:
        """Ignore external actions."""


def _line(time_us: int, text: str, hosts: list[str]) -> str:
    names = ",".join(sorted(hosts)) if len(hosts) <= HOSTS_NAMED_MAX else f"{len(hosts)} nodes"
    return f"{time_us / 1e6:10.3f}  {names + ': ' if hosts else '-- '}{text}"


def _changed(world: World, host: Host, effect: belief.Changed) -> str:
    view = host.node.view
    peer = view.nodes.get(effect.node)
    if peer is None:
        return ""
    name = "myself" if peer is view.myself else world.name_of(peer.id)
    what = _STATES.get(effect.what)
    return what(world, peer, name) if what is not None else ""


def _health(world: World, peer: Peer, name: str) -> str:
    word = "FAIL" if peer.flags & FAIL else "PFAIL" if peer.flags & PFAIL else "fine"
    return f"{name} is {word}"


def _role(world: World, peer: Peer, name: str) -> str:
    if peer.flags & MASTER:
        return f"{name} is a master"
    return f"{name} follows {world.name_of(peer.replicaof) if peer.replicaof else 'nobody'}"


def _slots(world: World, peer: Peer, name: str) -> str:
    return f"{name} has {peer.slots.bit_count()} slots"


def _epoch(world: World, peer: Peer, name: str) -> str:
    return f"{name} has config epoch {peer.config_epoch}"


_STATES: Final[dict[Field, Callable[[World, Peer, str], str]]] = {
    Field.PFAIL: _health,
    Field.FAIL: _health,
    Field.ROLE: _role,
    Field.MASTER: _role,
    Field.SLOTS: _slots,
    Field.CONFIG_EPOCH: _epoch,
}


def _election(world: World, host: Host, effect: ev.ElectionStep) -> str:
    detail = effect.detail
    if effect.step == "vote":
        detail = world.name_of(detail)
    elif effect.step == "reset":
        detail = " ".join(world.name_of(word) if len(word) == 40 else word for word in detail.split())
    return f"election {effect.step} in epoch {effect.epoch}" + (f": {detail}" if detail else "")


def _vote(world: World, host: Host, effect: ev.VoteCast) -> str:
    name = world.name_of(effect.candidate)
    if not effect.refusal:
        return f"votes for {name} in epoch {effect.epoch}"
    if effect.refusal is Refusal.NOT_A_VOTER:
        return ""
    return f"refuses {name} in epoch {effect.epoch}: {effect.refusal}"


def _log(world: World, host: Host, effect: ev.LogLine) -> str:
    if UPDATE_MARK in effect.text:
        stale, owner = (world.name_of(word[:40]) for word in effect.text.split() if len(word) >= 40)
        return f"sends {stale} an UPDATE about {owner}"
    return next((events for begins, events in _LOGGED if effect.text.startswith(begins)), "")


UPDATE_MARK: Final = "sending an UPDATE message about"


_LOGGED: Final = (
    ("Manual failover timed out", "manual failover timed out"),
    ("All ", "caught up with the paused master"),
    ("Migrating to orphaned", "migrates to an orphaned master"),
    ("Sending MEET packet", "sends MEET again"),
    ("configEpoch collision", "config epoch collides"),
    ("WARNING: configEpoch collision", "config epoch collides"),
)
"""Log lines without another effect."""

_WORDS: Final[dict[type, Callable[[World, Host, Any], str]]] = {
    belief.Changed: _changed,
    belief.StateChanged: lambda world, host, effect: f"cluster state {'ok' if effect.ok else 'fail'}",
    belief.EpochBumped: lambda world, host, effect: f"takes epoch {effect.epoch} without consensus",
    belief.SlotsLost: lambda world, host, effect: (
        f"lost {effect.slots.bit_count()} slots to {world.name_of(effect.winner)}"
    ),
    belief.BecameReplica: lambda world, host, effect: f"becomes replica of {world.name_of(effect.master)}",
    belief.NodeAdded: lambda world, host, effect: (
        f"knows {world.name_of(effect.node)}" if effect.node in world.names else ""
    ),
    belief.NodeRenamed: lambda world, host, effect: f"knows {world.name_of(effect.new)}",
    belief.NodeRemoved: lambda world, host, effect: (
        f"forgets {world.name_of(effect.node)}" if effect.node in world.names else ""
    ),
    belief.ManualFailoverMarked: lambda world, host, effect: f"pauses for {world.name_of(effect.node)}",
    ev.ElectionStep: _election,
    ev.VoteCast: _vote,
    ev.PromoteMyself: lambda world, host, effect: "is promoted",
    ev.StartReplication: lambda world, host, effect: (
        f"replicates {world.name_of(effect.node)}" + (" from scratch" if effect.full_sync else "")
    ),
    ev.PauseClients: lambda world, host, effect: "lets writes wait",
    ev.ResumeClients: lambda world, host, effect: "lets writes through",
    FlushKeys: lambda world, host, effect: "deletes all keys",
    ev.LogLine: _log,
}
