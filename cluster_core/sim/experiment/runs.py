"""Experiments: single runs with their outcome, and grids of runs.

A shard is *recovered* when a running replica won its election, and *settled* when every running host knows. The outcome
depends only on the trial, a plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

from cluster_core.errors import ClusterCoreError
from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Field, Refusal
from cluster_core.gossip.flags import FAIL, MASTER
from cluster_core.gossip.profile import PROFILES, VALKEY_9_1
from cluster_core.node import events as ev
from cluster_core.node.state import NodeSettings
from cluster_core.sim.clock import US_PER_S, collector_at_rest
from cluster_core.sim.experiment.table_rows import Outcome, ShardOutcome
from cluster_core.sim.host import Host, NetworkPath
from cluster_core.sim.layouts import Layout, Place, check_layout, names_of, places_of
from cluster_core.sim.stage import Stage
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from random import Random


class OutcomeObserver:
    """Measures the consequences of a fault: `begin` at the fault, `is_over` while the world runs."""

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
        """Start measuring a fault of these hosts."""
        self.fault_us = self.world.now_us
        self.was_ok = all(host.node.view.ok for host in self.world.running())
        for host in hit:
            self.hit[host.name] = None
            if host.node.view.myself.flags & MASTER and host.node.view.myself.slots:
                self.victims[host.id] = host.name

    def on_note(self, text: str) -> None:
        """Ignore notes."""

    def on_effect(self, host: Host, effect: Any) -> None:
        """Record FAIL decisions, vote requests, votes and wins."""
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
        """Return the running hosts that were not hit."""
        return [host for host in self.world.running() if host.name not in self.hit]

    def electable(self) -> list[str]:
        """Return the failed masters with a remaining replica."""
        running = {host.name for host in self.left()}
        return [name for name in self.victims.values() if any(other in running for other in self.shards.get(name, ()))]

    def is_over(self) -> bool:
        """Return whether every recoverable shard has a new master known to all."""
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
        """Return one outcome per shard that lost its master."""
        running = {host.name: host for host in self.left()}
        outcomes = []
        for name in self.victims.values():
            replicas = [running[other] for other in self.shards.get(name, ()) if other in running]
            outcomes.append(
                ShardOutcome(
                    name,
                    len(replicas),
                    self._since_ms(self.detected_us.get(name)),
                    self._since_ms(self.won_us.get(name)),
                    self.attempts.get(name, 0),
                    "" if name in self.won_us else self._hindrance(name, replicas),
                )
            )
        return tuple(outcomes)

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
        """Return ms until the last shard was detected, elected and settled; None if never."""
        names = list(self.victims.values())
        times: list[float | None] = []
        for known in (self.detected_us, self.won_us):
            whole = names and all(name in known for name in names)
            times.append(self._since_ms(max(known[name] for name in names)) if whole else None)
        whole = names and all(name in self.won_us for name in names)
        return times[0], times[1], self._since_ms(self.converged_us) if whole else None


LOOK_US: Final = 100_000
REST_US: Final = 2 * US_PER_S
"""Time that clients continue after the cluster has settled, before writes are checked."""
FAULTS: Final[dict[str, str]] = {
    "crash": "the processes of some masters are killed",
    "power": "the machines of some masters lose power",
    "freeze": "the processes of some masters are stopped",
    "zone": "a whole zone loses power",
    "partition": "a whole zone is cut off",
    "none": "nothing happens",
}


class TrialError(ClusterCoreError, ValueError):
    """An invalid trial."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Parameters of one run. *hit*: number of masters, or zone, that the fault hits (empty: a random one)."""

    seed: int = 1
    profile: str = VALKEY_9_1.name
    node_timeout_ms: int = 15_000
    shards: int = 3
    replicas: int = 1
    zones: int = 3
    validity_factor: int = 10
    migration_barrier: int = 1
    fault: str = "crash"
    hit: str = "1"
    clients: int = 0
    rate: float = 10.0
    delay_ms: float = 0.25
    limit_s: float = 160.0
    """Maximum seconds after the fault."""


def check_trial(trial: Trial) -> None:
    """Raise TrialError or LayoutError for an invalid trial."""
    if trial.profile not in PROFILES:
        raise TrialError(f"no profile {trial.profile!r}; there are {', '.join(PROFILES)}")
    if trial.fault not in FAULTS:
        raise TrialError(f"no fault {trial.fault!r}; there are {', '.join(FAULTS)}")
    if not 100 <= trial.node_timeout_ms <= 600_000 or not 0 < trial.limit_s <= 86_400:
        raise TrialError("the node timeout must be 100 ms to 10 min, the limit of a run up to a day")
    if trial.validity_factor < 0 or trial.migration_barrier < 0 or trial.clients < 0 or trial.rate <= 0:
        raise TrialError("factors, barriers and clients must not be negative, rates be above 0")
    check_layout(layout_of(trial))
    if trial.fault in ("crash", "power", "freeze") and not (trial.hit.isdecimal() and len(trial.hit) < 6):
        raise TrialError(f"{trial.hit!r} is not a number of masters")
    if trial.fault in ("crash", "power", "freeze") and int(trial.hit) > trial.shards:
        raise TrialError(f"{trial.hit} masters cannot fail: there are {trial.shards}")
    if trial.fault in ("zone", "partition") and not trial.hit.isdecimal() and trial.hit:
        zones = {name for name in names_of(layout_of(trial)) if name.startswith("Z")}
        if trial.hit not in zones:
            raise TrialError(f"no zone {trial.hit!r}; there are {', '.join(sorted(zones))}")
    if trial.delay_ms < 0 or trial.delay_ms > 60_000:
        raise TrialError("the delay of the network must be 0 ms to a minute")


def layout_of(trial: Trial) -> Layout:
    """Return the cluster of *trial*; it has at most as many zones as nodes."""
    return Layout(trial.shards, trial.replicas, min(trial.zones, max(1, trial.shards * (1 + trial.replicas))))


def settings_for(trial: Trial) -> NodeSettings:
    """Return the settings of every node."""
    return NodeSettings(
        profile=PROFILES[trial.profile],
        node_timeout_ms=trial.node_timeout_ms,
        validity_factor=trial.validity_factor,
        migration_barrier=trial.migration_barrier,
    )


def run_trial(trial: Trial, make_rng: Callable[[str], Random]) -> Outcome:
    """Run *trial* on a cluster of its own and return its outcome."""
    check_trial(trial)
    with collector_at_rest():
        return _run(trial, make_rng)


def _run(trial: Trial, make_rng: Callable[[str], Random]) -> Outcome:
    rng = make_rng(f"{trial.seed}/trial")
    settings = settings_for(trial)
    chosen = places_of(layout_of(trial), lambda name: settings, make_rng(f"{trial.seed}/places"))
    path = NetworkPath(max(1, int(trial.delay_ms * 1000)), max(1, int(trial.delay_ms * 200)))
    world = World(make_rng, trial.seed, path=path)
    stage = Stage(world, chosen)
    if trial.clients:
        stage.add_clients(trial.clients, rate=trial.rate)
    watch = OutcomeObserver(world, shards_of(chosen))
    timeout_us = trial.node_timeout_ms * 1000
    world.run_to(3 * US_PER_S + timeout_us + int(rng.random() * timeout_us))
    hit = choose_victims(trial, world.hosts, rng)
    watch.begin(hit)
    _strike(stage, trial.fault, hit)
    end_us = watch.fault_us + int(trial.limit_s * US_PER_S)
    world.run_while(lambda: trial.fault == "none" or not watch.is_over(), LOOK_US, end_us)
    if trial.clients:
        world.run_to(world.now_us + REST_US)
        stage.stop_clients()
        world.run_to(world.now_us + REST_US // 2)
    return _outcome(stage, watch)


def shards_of(places: Sequence[Place]) -> dict[str, tuple[str, ...]]:
    """Return the names of each master's replicas."""
    shards: dict[str, tuple[str, ...]] = {place.name: () for place in places if not place.master}
    for place in places:
        if place.master:
            shards[place.master] = (*shards.get(place.master, ()), place.name)
    return shards


def choose_victims(trial: Trial, hosts: Sequence[Host], rng: Random) -> list[Host]:
    """Return the hosts that the fault hits: random masters, or a zone."""
    if trial.fault == "none":
        return []
    if trial.fault in ("zone", "partition"):
        zones = list(dict.fromkeys(host.zone for host in hosts))
        zone = trial.hit if not trial.hit.isdecimal() and trial.hit else zones[int(rng.random() * len(zones))]
        return [host for host in hosts if host.zone == zone]
    masters = [host for host in hosts if host.node.view.myself.slots and not host.node.view.myself.replicaof]
    chosen: list[Host] = []
    for _ in range(int(trial.hit)):
        chosen.append(masters.pop(int(rng.random() * len(masters))))
    return sorted(chosen, key=lambda host: host.index)


def _strike(stage: Stage, fault: str, hit: Sequence[Host]) -> None:
    faults = stage.faults
    if fault == "partition":
        faults.cut(hit, [host for host in stage.world.hosts if host not in hit])
        return
    acts = {"crash": faults.crash, "power": faults.switch_off, "zone": faults.switch_off, "freeze": faults.stop}
    for host in hit:
        acts[fault](host)


def _outcome(stage: Stage, watch: OutcomeObserver) -> Outcome:
    world = stage.world
    detected_ms, elected_ms, converged_ms = watch.times_ms()
    missing = stage.missing() if stage.clients else None
    shards = watch.shard_outcomes()
    return Outcome(
        detected_ms=detected_ms,
        elected_ms=elected_ms,
        converged_ms=converged_ms,
        shards_hit=len(shards),
        shards_recovered=sum(shard.elected_ms is not None for shard in shards),
        elections=watch.elections,
        votes=watch.votes,
        refusals=watch.refusals,
        false_failures=len(watch.falsely),
        acknowledged=stage.acknowledged if stage.clients else None,
        lost=None if missing is None else len(missing.lost),
        unavailable=None if missing is None else len(missing.unavailable),
        messages=world.network.messages,
        bus_bytes=world.network.bytes,
        simulated_s=world.now_us / US_PER_S,
        violations=len(stage.checks.violations),
        failed_shards=shards,
    )


RUNS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Grid:
    """Values of varied parameters of `Trial`, the last varies fastest; *base* has the other parameters."""

    base: Trial = field(default_factory=Trial)
    seeds: int = 100
    first_seed: int = 1
    axes: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        """Return the number of combinations."""
        return prod(len(values) for values in self.axes.values())

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        return self.cases * self.seeds

    def trial(self, run: int) -> Trial:
        """Return the trial of run number *run*.

        >>> grid = Grid(seeds=2, axes={"shards": (3, 5)})
        >>> [(grid.trial(n).shards, grid.trial(n).seed) for n in range(grid.runs)]
        [(3, 1), (3, 2), (5, 1), (5, 2)]
        """
        case, offset = divmod(run, self.seeds)
        chosen: dict[str, Any] = {}
        for name, values in reversed(self.axes.items()):
            case, at = divmod(case, len(values))
            chosen[name] = values[at]
        return replace(self.base, seed=self.first_seed + offset, **chosen)


def check_grid(grid: Grid) -> None:
    """Raise TrialError or LayoutError for a grid with an invalid trial."""
    if grid.seeds < 1 or grid.runs > RUNS_MAX:
        raise TrialError(f"{grid.runs} runs: there must be 1 to {RUNS_MAX}")
    for case in range(grid.cases):
        check_trial(grid.trial(case * grid.seeds))
