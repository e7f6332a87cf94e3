"""One trial: a cluster with given parameters, one fault at a time by chance, and what came of it.

A trial is a value, its outcome depends on nothing else: a thousand of them run anywhere, in any order, on any partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cluster_core.errors import ClusterCoreError
from cluster_core.gossip.profile import PROFILES, VALKEY_9_1
from cluster_core.node.settings import NodeSettings
from cluster_core.sim.clock import US_PER_S, collector_at_rest
from cluster_core.sim.experiment.outcomes import OutcomeWatch
from cluster_core.sim.experiment.table_rows import Outcome
from cluster_core.sim.host import Host
from cluster_core.sim.layouts import Layout, Place, check_layout, places_of
from cluster_core.sim.network_paths import Path
from cluster_core.sim.scenario.stage import Stage

if TYPE_CHECKING:
    from random import Random

LOOK_US: Final = 100_000
REST_US: Final = 2 * US_PER_S
"""Clients go on for so long after the cluster has settled, then the writes are looked for."""
FAULTS: Final[dict[str, str]] = {
    "crash": "the processes of some masters are killed",
    "power": "the machines of some masters lose power",
    "freeze": "the processes of some masters are stopped",
    "zone": "a whole zone loses power",
    "partition": "a whole zone is cut off",
    "none": "nothing happens",
}


class TrialError(ClusterCoreError, ValueError):
    """A trial that cannot be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Parameters of one run.  *hit* is how many masters the fault takes, or which zone (empty: one by chance)."""

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
    """The run ends so long after the fault at the latest."""


def check_trial(trial: Trial) -> None:
    """Raise TrialError, or LayoutError, for a trial that cannot be made."""
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
        raise TrialError(f"{trial.hit!r} is no number of masters")
    if trial.delay_ms < 0 or trial.delay_ms > 60_000:
        raise TrialError("the delay of the network must be 0 ms to a minute")


def layout_of(trial: Trial) -> Layout:
    """The cluster of *trial*; a small one has not more zones than nodes."""
    return Layout(trial.shards, trial.replicas, min(trial.zones, max(1, trial.shards * (1 + trial.replicas))))


def settings_for(trial: Trial) -> NodeSettings:
    """The settings of every node of *trial*."""
    return NodeSettings(
        profile=PROFILES[trial.profile],
        node_timeout_ms=trial.node_timeout_ms,
        validity_factor=trial.validity_factor,
        migration_barrier=trial.migration_barrier,
    )


def run_trial(trial: Trial, make_rng: Callable[[str], Random], places: Sequence[Place] = ()) -> Outcome:
    """Run *trial* on a cluster of its own, or on *places* (a recorded state), and return what came of it."""
    check_trial(trial)
    with collector_at_rest():
        return _run(trial, make_rng, places)


def _run(trial: Trial, make_rng: Callable[[str], Random], places: Sequence[Place]) -> Outcome:
    rng = make_rng(f"{trial.seed}/trial")
    settings = settings_for(trial)
    chosen = tuple(places) or places_of(layout_of(trial), lambda name: settings, make_rng(f"{trial.seed}/places"))
    path = Path(max(1, int(trial.delay_ms * 1000)), max(1, int(trial.delay_ms * 200)))
    stage = Stage(make_rng, trial.seed, chosen, path=path, keep_configs=False, is_told=False)
    world = stage.world
    if trial.clients:
        stage.add_clients(trial.clients, rate=trial.rate)
    watch = OutcomeWatch(world, shards_of(chosen))
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
    """The names of the replicas of each master."""
    shards: dict[str, tuple[str, ...]] = {place.name: () for place in places if not place.master}
    for place in places:
        if place.master:
            shards[place.master] = (*shards.get(place.master, ()), place.name)
    return shards


def choose_victims(trial: Trial, hosts: Sequence[Host], rng: Random) -> list[Host]:
    """The hosts that the fault hits: masters by chance, or everybody in a zone; raises TrialError if there are none."""
    if trial.fault == "none":
        return []
    if trial.fault in ("zone", "partition"):
        zones = list(dict.fromkeys(host.zone for host in hosts))
        zone = trial.hit if not trial.hit.isdecimal() and trial.hit else zones[int(rng.random() * len(zones))]
        if zone not in zones:
            raise TrialError(f"no zone {zone!r}; there are {', '.join(zones)}")
        return [host for host in hosts if host.zone == zone]
    masters = [host for host in hosts if host.node.view.myself.slots and not host.node.view.myself.replicaof]
    if int(trial.hit) > len(masters):
        raise TrialError(f"{trial.hit} masters cannot fail: there are {len(masters)}")
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


def _outcome(stage: Stage, watch: OutcomeWatch) -> Outcome:
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
