"""Scenario files: a cluster, faults, expectations and the trace of the last run (format: docs/design/simulator.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import Any, Final, NamedTuple

from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, PFAIL
from cluster_core.gossip.profile import PROFILES
from cluster_core.node.state import NodeSettings
from cluster_core.sim.checkers import Violation
from cluster_core.sim.clients import LossReason
from cluster_core.sim.host import Host, NetworkPath
from cluster_core.sim.layouts import Layout, Place, names_of, places_of
from cluster_core.sim.servers.store import WRITE_BYTES
from cluster_core.sim.stage import Faults, Stage
from cluster_core.wire.bus import TYPE_NAMES
from cluster_core.wire.resp import RespError
from tests.benches.scenario_trace import Log, Trace
from tests.benches.simulated_servers import Servers

LOOK_US: Final = 20_000
"""Interval of checks of a pending or lasting condition, and time between two commands of a tool."""
UNIT_US: Final = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000}
RULE: Final = "\n---\n"


def time_us(text: str) -> int:
    """Read ``250ms``, ``1.5s`` or ``-2m``."""
    number, unit = re.fullmatch(r"([+-]?[\d.]+)(us|ms|s|m)", text).groups()
    return round(float(number) * UNIT_US[unit])


def range_of(text: str) -> range:
    """Read ``3``, ``1..4`` or ``2..``."""
    least, dots, most = text.partition("..")
    return range(int(least), (int(most or 10**15) if dots else int(least)) + 1)


def _ms(text: str) -> int:
    return time_us(text) // 1000


def _yes(text: str) -> bool:
    return text == "yes"


SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "profile": ("profile", PROFILES.__getitem__),
    "node-timeout": ("node_timeout_ms", _ms),
    "validity-factor": ("validity_factor", int),
    "migration-barrier": ("migration_barrier", int),
    "replica-migration": ("allow_replica_migration", _yes),
    "full-coverage": ("require_full_coverage", _yes),
    "no-failover": ("no_failover", _yes),
    "manual-failover-timeout": ("manual_failover_ms", _ms),
    "blacklist-ttl": ("blacklist_ms", _ms),
    "repl-ping-period": ("repl_ping_period_s", int),
    "hostname": ("hostname", str),
    "nodename": ("nodename", str),
    "delay": ("delay_us", time_us),
    "jitter": ("jitter_us", time_us),
    "loss": ("loss", float),
    **{name: (name, int) for name in ("masters", "replicas", "zones", "spares")},
}
"""Headings of the form NAME=VALUE: field of `NodeSettings`, `NetworkPath` or `Layout`, and its reader."""


class Step(NamedTuple):
    """One line: *when* is ``at``, ``by``, ``until`` or ``then``; *values* are those of *form*."""

    when: str
    time_us: int
    form: str
    values: tuple[Any, ...]
    text: str


@dataclass(slots=True)
class Scenario:
    layout: Layout = field(default_factory=Layout)
    settings: NodeSettings = field(default_factory=lambda: NodeSettings(node_timeout_ms=2000))
    special: dict[str, dict[str, Any]] = field(default_factory=dict)
    path: NetworkPath = field(default_factory=NetworkPath)
    seed: int = 1
    hidden: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    end_us: int = 0
    converges: bool = True
    breaks: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()


def read_scenario(text: str) -> Scenario:
    body, _, trace = text.partition(RULE)
    scenario = Scenario(trace=tuple(trace.splitlines()))
    now_us = 0
    for line in body.splitlines():
        fields = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', re.split(r"(?:^|\s)#", line)[0])]
        if not fields or _heading(scenario, fields[0], fields[1:]):
            continue
        sentence = " ".join(f'"{word}"' if " " in word else word for word in fields)
        when, *rest = fields
        if when in ("at", "by", "until"):
            now_us = time_us(rest.pop(0))
        elif when == "expect":
            when, rest, now_us = "at", fields, scenario.end_us
        forms = CONDITIONS if rest[0] == "expect" else ACTIONS
        form, values = _match(forms, rest[rest[0] == "expect" :], names_of(scenario.layout))
        scenario.steps.append(Step(when, now_us, form, values, sentence))
    return scenario


def _heading(scenario: Scenario, head: str, fields: list[str]) -> bool:
    names: tuple[str, ...] = ()
    if fields[:1] == ["for"]:
        names, fields = _nodes(fields[1], names_of(scenario.layout)), fields[2:]
    if head in ("cluster", "settings", "network"):
        pairs = (word.split("=", 1) for word in fields)
        values = {SETTINGS[name][0]: SETTINGS[name][1](value) for name, value in pairs}
    match head:
        case "title" | "rules":
            pass
        case "cluster":
            scenario.layout = replace(scenario.layout, **values)
        case "settings" if names:
            for name in names:
                scenario.special.setdefault(name, {}).update(values)
        case "settings":
            scenario.settings = replace(scenario.settings, **values)
        case "network":
            scenario.path = NetworkPath(**values)
        case "seed":
            scenario.seed = int(fields[0])
        case "hide":
            scenario.hidden += fields
        case "converges":
            scenario.converges = _yes(fields[0])
        case "breaks":
            scenario.breaks = tuple(fields)
        case "end":
            scenario.end_us = time_us(fields[0])
        case _:
            return False
    return True


def _nodes(word: str, names: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in word.split(",") for name in names[part]))


def _match(
    forms: Mapping[str, Any], fields: list[str], names: dict[str, tuple[str, ...]]
) -> tuple[str, tuple[Any, ...]]:
    """Return the form of a line and its values: small letters are literals (``a/b``: either), capitals are values."""
    for form in forms:
        kinds = form.split()
        if len(fields) != len(kinds) and (kinds[-1] != "WORDS" or len(fields) < len(kinds)):
            continue
        given = [*fields[: len(kinds) - 1], fields[len(kinds) - 1 :]] if kinds[-1] == "WORDS" else fields
        if all(kind.isupper() or word in re.split("[/|]", kind) for kind, word in zip(kinds, given, strict=True)):
            values: list[Any] = []
            for kind, word in zip(kinds, given, strict=True):
                if kind in ("NODE", "NODES"):
                    before = [name for value in values if isinstance(value, tuple) for name in value]
                    matched = [name for name in _nodes(word, names) if word != "others" or name not in before]
                    values.append(matched[0] if kind == "NODE" else tuple(matched))
                elif kind.isupper():
                    values.append(VALUES[kind](word))
                elif "|" in kind:
                    values.append(word)
            return form, tuple(values)
    raise ValueError(f"no form of {' '.join(fields)}")


VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "TIME": time_us, "RANGE": range_of, "NUMBER": float, "COUNT": int, "TEXT": str, "WORDS": tuple,
}  # fmt: skip


def with_trace(text: str, lines: tuple[str, ...]) -> str:
    return "\n".join((text.partition(RULE)[0].rstrip("\n"), "---", *lines, ""))


class Scene(Stage):
    """A stage with a trace, a log, and operators that give commands."""

    world: Servers

    def __init__(self, world: Servers, places: Sequence[Place]) -> None:
        super().__init__(world, places)
        self.trace, self.log = Trace(self.world), Log()
        self.world.observers += [self.trace, self.log]

    def hosts(self, names: tuple[str, ...]) -> list[Host]:
        """Return the hosts with these names, in world order."""
        return [host for host in self.world.hosts if host.name in names]

    def host(self, name: str) -> Host:
        return self.hosts((name,))[0]

    def violations(self, *, converges: bool) -> list[Violation]:
        """Return all violations; with *converges* also differing views."""
        violations = list(self.checks.violations)
        for ack, way in self.missing().lost:
            if way is LossReason.NO_EXCUSE:
                text = f"{ack.key.decode()} acknowledged by {self.world.hosts[ack.host].name}"
                violations.append(Violation("lost write", ack.time_us, text))
        return violations + (self.agreement() if converges else [])

    def agreement(self) -> list[Violation]:
        """Return differences between running members in peace: views, verdicts, replicas (R166, R168)."""
        differences: list[tuple[str, str]] = []
        views: dict[tuple[Any, ...], list[str]] = {}
        running = {host.id: host for host in self.world.running()}
        for host in running.values():
            view = host.node.view
            if len(view.nodes) <= 1:
                continue
            views.setdefault(_picture(host), []).append(host.name)
            failing = [node_id for node_id, peer in view.nodes.items() if peer.flags & FAILURES and node_id in running]
            differences += [("converge", f"{host.name} sees {running[node_id].name} fail") for node_id in failing]
            master = view.master_of(view.myself)
            upstream = running.get(master.id) if master is not None else None
            if upstream is not None and upstream.node.view.myself.slots != master.slots:
                differences.append(("R168", f"{host.name} does not know the slots of its master {upstream.name}"))
            if upstream is not None and not upstream.node.view.myself.flags & MASTER:
                differences.append(("R168", f"{host.name} follows {upstream.name}, which is a replica"))
        if len(views) > 1:
            differences.append(("converge", " | ".join(",".join(names) for names in views.values())))
        return [Violation(rule, self.world.now_us, text) for rule, text in differences]

    def digest(self) -> str:
        network = self.world.network
        text = "\n".join((*self.trace.lines(), f"{network.messages} {network.bytes} {self.world.sequence}"))
        return sha256(text.encode()).hexdigest()

    # -- operators -----------------------------------------------------------------------------------------------

    def command(self, host: Host, *arguments: str) -> str:
        """Return the reply of *host*; ``@M1`` stands for the id of M1. Empty without a reply."""
        named = (re.sub(r"@(\w+)", lambda name: self.host(name[1]).id, word) for word in arguments)
        reply = self.world.ask(host, tuple(word.encode() for word in named))
        self.world.names[host.id] = host.name
        return reply.text if isinstance(reply, RespError) else "" if reply is None else str(reply)

    def announce(self, names: tuple[str, ...], arguments: tuple[str, ...]) -> None:
        """Give a command to hosts and note replies other than OK."""
        for host in self.hosts(names):
            answer = self.command(host, *arguments)
            if answer != "OK":
                self.world.note(f"{host.name} answers {answer[:100]!r}")

    def move_slot(self, slot: int, source: Host, target: Host) -> None:
        """Move one slot as redis-cli does (R123, R124); a refused step ends it."""
        if source is target or not source.answers or not source.node.view.myself.slots >> slot & 1:
            return
        self._go_on(
            [
                lambda: self._set_slot(target, slot, "IMPORTING", source),
                lambda: self._set_slot(source, slot, "MIGRATING", target),
                lambda: self.migrate_keys(slot, source, target),
                lambda: self._set_slot(target, slot, "NODE", target),
                lambda: self._set_slot(source, slot, "NODE", target),
            ]
        )

    def _set_slot(self, host: Host, slot: int, action: str, other: Host) -> bool:
        return self.command(host, "CLUSTER", "SETSLOT", str(slot), action, f"@{other.name}") == "OK"

    def _go_on(self, steps: list[Callable[[], bool]], _: Any = None) -> None:
        if steps and steps[0]():
            self.world.call_at(self.world.now_us + LOOK_US, self._go_on, steps[1:])

    def migrate_keys(self, slot: int, source: Host, target: Host) -> bool:
        """MIGRATE all keys of a slot; False if an end is down or must not write."""
        if not source.answers or not target.answers:
            return False
        if not source.node.view.myself.flags & target.node.view.myself.flags & MASTER:
            return False
        for key, value in list(source.store.held.get(slot, {}).items()):
            self.world.replication.write(target, key, value, WRITE_BYTES)
            self.world.replication.write(source, key, None, WRITE_BYTES)
        self.losses.moved(slot, target)
        return True


def _picture(host: Host) -> tuple[Any, ...]:
    """Return a node's view of members, roles, slots and epochs, comparable between nodes."""
    view = host.node.view
    members = [peer for peer in view.nodes.values() if not peer.flags & HANDSHAKE]
    return tuple(sorted((p.id, p.flags & MASTER, p.replicaof, p.slots, view.epoch_shown(p)) for p in members))


def _each(fault: Callable[..., None], **options: bool) -> Callable[..., None]:
    """Apply a fault to each node."""

    def act(scene: Scene, names: tuple[str, ...], *values: int) -> None:
        for host in scene.hosts(names):
            fault(scene.faults, host, *values, **options)

    return act


def _between(fault: Callable[..., None], **options: bool) -> Callable[..., None]:
    """Apply a fault of the network to two groups."""
    return lambda scene, left, other: fault(scene.faults, scene.hosts(left), scene.hosts(other), **options)


ACTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "crash NODES": _each(Faults.crash),
    "switch-off NODES": _each(Faults.switch_off),
    "restart NODES": _each(Faults.restart),
    "restart NODES without-config": _each(Faults.restart, config=False),
    "stop NODES": _each(Faults.stop),
    "resume NODES": _each(Faults.resume),
    "slow NODES TIME": _each(Faults.slow),
    "jump NODES TIME": _each(Faults.jump),
    "cut NODES from NODES": _between(Faults.cut),
    "cut NODES from NODES one-way": _between(Faults.cut, both_ways=False),
    "flap NODES from NODES every TIME for TIME": lambda scene, left, other, every_us, for_us: scene.faults.flap(
        scene.hosts(left), scene.hosts(other), every_us, scene.world.now_us + for_us
    ),
    "delay NODES from NODES by TIME": lambda scene, left, other, by_us: scene.faults.change_paths(
        scene.hosts(left), scene.hosts(other), delay_us=scene.world.network.usual.delay_us + by_us
    ),
    "lose NUMBER between NODES and NODES": lambda scene, share, left, other: scene.faults.change_paths(
        scene.hosts(left), scene.hosts(other), loss=share
    ),
    "heal": lambda scene: scene.faults.heal(),
    "clients COUNT rate NUMBER": lambda scene, count, rate: scene.add_clients(count, rate=rate),
    "clients COUNT rate NUMBER wait COUNT": lambda scene, count, rate, wait: scene.add_clients(
        count, rate=rate, wait=wait
    ),
    "clients COUNT rate NUMBER zone TEXT": lambda scene, count, rate, zone: scene.add_clients(
        count, rate=rate, zone=zone
    ),
    "stop-clients": lambda scene: scene.stop_clients(),
    "command NODES WORDS": Scene.announce,
    "meet NODE NODE": lambda scene, name, other: scene.command(
        scene.host(name), "CLUSTER", "MEET", scene.host(other).ip, str(scene.host(other).settings.port)
    ),
    "move-slot COUNT from NODE to NODE": lambda scene, slot, source, target: scene.move_slot(
        slot, scene.host(source), scene.host(target)
    ),
    "migrate-keys COUNT from NODE to NODE": lambda scene, slot, source, target: scene.migrate_keys(
        slot, scene.host(source), scene.host(target)
    ),
}


def _is_replica(scene: Scene, names: tuple[str, ...], master: str = "") -> bool:
    return all(
        host.alive
        and not host.node.view.myself.flags & MASTER
        and (not master or host.node.view.myself.replicaof == scene.host(master).id)
        for host in scene.hosts(names)
    )


def _sees(scene: Scene, names: tuple[str, ...], targets: tuple[str, ...], word: str) -> bool:
    ids = [host.id for host in scene.hosts(targets)]
    return all(_health(host, node_id) == word for host in scene.hosts(names) for node_id in ids if node_id != host.id)


def _health(host: Host, node_id: str) -> str:
    peer = host.node.view.nodes.get(node_id)
    if peer is None:
        return "gone"
    return "fail" if peer.flags & FAIL else "pfail" if peer.flags & PFAIL else "fine"


def _state(scene: Scene, word: str, names: tuple[str, ...] = ()) -> bool:
    hosts = scene.hosts(names) if names else scene.world.running()
    return all(host.node.view.ok == (word == "ok") for host in hosts if len(host.node.view.nodes) > 1)


def _owns(scene: Scene, name: str, slot: int) -> bool:
    owners = [host.node.view.owner_of(slot) for host in scene.world.running() if len(host.node.view.nodes) > 1]
    return all(owner is not None and owner.id == scene.host(name).id for owner in owners)


def _knows(scene: Scene, names: tuple[str, ...], count: int) -> bool:
    views = [host.node.view for host in scene.hosts(names)]
    return all(sum(not peer.flags & HANDSHAKE for peer in view.nodes.values()) == count for view in views)


CONDITIONS: Final[Mapping[str, Callable[..., bool]]] = {
    "NODES is/are master/masters": lambda scene, names: all(
        host.alive and host.node.view.myself.flags & MASTER for host in scene.hosts(names)
    ),
    "NODES is/are replica/replicas": _is_replica,
    "NODES is/are replica/replicas of NODE": _is_replica,
    "NODES see/sees NODES fail|pfail|fine|gone": _sees,
    "state ok|fail": _state,
    "state ok|fail at NODES": _state,
    "everyone agrees": lambda scene: not scene.agreement(),
    "NODE owns COUNT": _owns,
    "NODE has COUNT slots": lambda scene, name, n: scene.host(name).node.view.myself.slots.bit_count() == n,
    "NODES know/knows COUNT nodes": _knows,
    "NODES answer/answers TEXT to WORDS": lambda scene, names, text, arguments: all(
        text in scene.command(host, *arguments) for host in scene.hosts(names)
    ),
    "NODE epoch RANGE": lambda scene, name, wanted: scene.host(name).node.view.myself.config_epoch in wanted,
    "NODE logged TEXT RANGE": lambda scene, name, text, wanted: (
        sum(host == name and text in line for host, line in scene.log.lines) in wanted
    ),
    "trace TEXT RANGE": lambda scene, text, wanted: sum(text in entry.text for entry in scene.trace.entries) in wanted,
    "sent TEXT RANGE": lambda scene, kind, wanted: (
        sum(host.node.state.sent[TYPE_NAMES.index(kind)] for host in scene.world.hosts) in wanted
    ),
    "lost RANGE": lambda scene, wanted: len(scene.missing().lost) in wanted,
    "unavailable RANGE": lambda scene, wanted: len(scene.missing().unavailable) in wanted,
    "unavailable TIME at most": lambda scene, most_us: all(client.down_us <= most_us for client in scene.clients),
    "acknowledged RANGE": lambda scene, wanted: scene.acknowledged in wanted,
}


class Played(NamedTuple):
    """Result of a scenario: trace, failed expectations, violated rules, and the final scene."""

    trace: tuple[str, ...]
    failures: tuple[str, ...]
    violations: tuple[Violation, ...]
    stage: Scene


def play(
    scenario: Scenario, *, seed: int | None = None, prepare: Callable[[Scene], None] = lambda scene: None
) -> Played:
    """Play *scenario*, optionally with another *seed*; *prepare* gets the scene before the first event."""
    chosen = scenario.seed if seed is None else seed

    def settings_of(name: str) -> NodeSettings:
        return replace(scenario.settings, **scenario.special.get(name, {}))

    places = places_of(scenario.layout, settings_of, Random(f"{chosen}/places"))
    scene = Scene(Servers(Random, chosen, path=scenario.path), places)
    prepare(scene)
    failures = [step.text for step in scenario.steps if not _take(scene, step)]
    scene.world.run_to(scenario.end_us)
    violations = scene.violations(converges=scenario.converges)
    failures += [f"{rule} was not broken" for rule in scenario.breaks if all(each.rule != rule for each in violations)]
    lines = [line for line in scene.trace.lines() if not any(word in line for word in scenario.hidden)]
    broken = tuple(violation for violation in violations if violation.rule not in scenario.breaks)
    return Played(tuple(lines), tuple(failures), broken, scene)


def _take(scene: Scene, step: Step) -> bool:
    """Act, or return whether the condition is true in time."""
    world = scene.world
    if step.when == "at":
        world.run_to(step.time_us)
    if step.form in ACTIONS:
        world.note(step.text.split(maxsplit=2 if step.when == "at" else 1)[-1])
        ACTIONS[step.form](scene, *step.values)
        return True
    condition = CONDITIONS[step.form]
    while world.now_us < step.time_us:
        world.run_to(min(world.now_us + LOOK_US, step.time_us))
        held = condition(scene, *step.values)
        if held == (step.when == "by"):
            return held
    return step.when == "until" or condition(scene, *step.values)
