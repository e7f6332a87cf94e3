"""The fast path makes the run that the plain machine makes: message by message, and down to what each generator draws next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from cluster_core.gossip.flags import FAIL
from cluster_core.gossip.profile import PROFILES
from cluster_core.node.settings import NodeSettings
from cluster_core.sim.experiment.runs import Trial, TrialError, check_trial, run_trial
from cluster_core.sim.fast import gossip_fields as fields
from cluster_core.sim.fast.fast_path import ArrayWorld, begin_steady, can_go, end_steady
from cluster_core.sim.fast.gossip_chance import WORDS, draw, place_of
from cluster_core.sim.layouts import Layout, places_of
from cluster_core.sim.network_paths import Path
from cluster_core.sim.scenario.stage import Stage

S = 1_000_000
PEER = [
    "id",
    "flags",
    "ctime_ms",
    "ip",
    "port",
    "cport",
    "pport",
    "config_epoch",
    "slots",
    "replicaof",
    "inbound",
    "outbound",
    "ping_sent_ms",
    "pong_received_ms",
    "data_received_ms",
    "fail_time_ms",
    "voted_time_ms",
    "repl_offset",
    "reports",
    "orphaned_ms",
    "inbound_lost_ms",
    "meet_sent_ms",
    "shard_id",
    "tried_ms",
]
STATE = [
    "iteration",
    "doubts",
    "sent",
    "received",
    "sent_bytes",
    "received_bytes",
    "next_link",
    "offset",
    "replicating",
    "election",
]
VIEW = ["version", "current_epoch", "last_vote_epoch", "ok", "state_stale", "minority_ms", "size_shown", "unclaimed"]
Script = list[tuple[int, Callable[[Stage], Any] | None]]


def host(stage: Stage, number: int) -> Any:
    return stage.world.hosts[number % len(stage.world.hosts)]


def crash(number: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.crash(host(stage, number))


def power(number: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.switch_off(host(stage, number))


def restart(number: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.restart(host(stage, number))


def stop(number: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.stop(host(stage, number))


def resume(number: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.resume(host(stage, number))


def jump(number: int, by_us: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.jump(host(stage, number), by_us)


def cut(count: int) -> Callable[[Stage], Any]:
    return lambda stage: stage.faults.cut(stage.world.hosts[:count], stage.world.hosts[count:])


def heal(stage: Stage) -> None:
    stage.faults.heal()


class Run:
    """One run of a script; *listens* keeps every message with its sender, link and time."""

    def __init__(
        self,
        profile: str,
        shards: int,
        replicas: int,
        seed: int,
        path: Path,
        *,
        fast: bool,
        listens: bool,
        **other: Any,
    ) -> None:
        settings = NodeSettings(profile=PROFILES[profile], node_timeout_ms=2000)
        places = places_of(Layout(shards, replicas), lambda name: settings, Random(seed))
        self.stage = Stage(Random, seed, places, path=path, keep_configs=other.get("keeps", False), is_told=False)
        self.messages: list[tuple[int, str, int, Any]] = []
        if listens:
            self.stage.world.senders.append(
                lambda who, effect: self.messages.append(
                    (self.stage.world.now_us, who.name, effect.link, effect.message)
                )
            )
        if fast:
            assert begin_steady(self.stage.world)

    def play(self, script: Script) -> Run:
        for at_us, act in script:
            self.stage.world.run_to(at_us)
            if act is not None:
                act(self.stage)
        return self

    def end(self) -> dict[str, Any]:
        """Everything that there is at the end, off the fast path."""
        world = self.stage.world
        end_steady(world)
        network = world.network
        found: dict[str, Any] = {
            "world": (world.now_us, world.sequence, network.messages, network.bytes, network.connections),
            "chance of the network": network.rng.getstate(),
            "planned": sorted((entry[0], entry[1]) for entry in world.heap),
            "violations": [str(violation) for violation in self.stage.checks.violations],
        }
        for one in world.hosts:
            view, state = one.node.view, one.node.state
            found[f"{one.name} state"] = [getattr(state, name) for name in STATE]
            found[f"{one.name} view"] = [getattr(view, name) for name in VIEW]
            found[f"{one.name} links"] = sorted(
                (number, link.node, link.inbound) for number, link in view.links.items()
            )
            found[f"{one.name} chance"] = state.rng.getstate()
            found[f"{one.name} fits"] = state.fit_version == view.version
            for peer in view.nodes.values():
                found[f"{one.name} on {world.name_of(peer.id)}"] = {name: getattr(peer, name) for name in PEER}
        return found


def assert_equal_runs(
    profile: str, shards: int, replicas: int, seed: int, path: Path, script: Script, **other: Any
) -> None:
    plain = Run(profile, shards, replicas, seed, path, fast=False, listens=True, **other).play(script)
    fast = Run(profile, shards, replicas, seed, path, fast=True, listens=True, **other).play(script)
    quiet = Run(profile, shards, replicas, seed, path, fast=True, listens=False, **other).play(script)

    assert len(plain.messages) == len(fast.messages)
    assert all(one == other for one, other in zip(plain.messages, fast.messages, strict=True))
    assert fast.end() == plain.end()
    assert quiet.end() == plain.end()


@pytest.mark.long
@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize(
    "script",
    [
        [(6 * S, crash(0)), (16 * S, None)],
        [(6 * S, power(1)), (15 * S, restart(1)), (22 * S, None)],
        [(6 * S, stop(1)), (12 * S, resume(1)), (18 * S, None)],
    ],
    ids=["crash", "power", "stop"],
)
def test_a_failure_takes_the_same_course_on_the_fast_path(profile, script):
    """R32 to R55, R83 to R96: pings, doubts, reports, verdicts, elections and votes are the same messages at the same times."""
    assert_equal_runs(profile, 3, 1, 7, Path(), script)


@pytest.mark.long
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 2)) for seed in range(6)])
def test_runs_by_chance_are_the_same_on_the_fast_path(seed):
    """Any cluster of 4 to 12 nodes, any profile, any delay and loss, faults one after the other: the same messages, the same end."""
    rng = Random(f"fast path {seed}")
    replicas = rng.randrange(3)
    shards = rng.randrange(3, 5) if replicas else rng.randrange(4, 9)
    path = Path(rng.choice((1, 250, 5000)), rng.choice((1, 50, 900)), loss=rng.choice((0.0, 0.0, 0.03)))
    acts = [
        crash,
        power,
        stop,
        restart,
        resume,
        lambda n: jump(n, rng.choice((-3 * S, 4 * S))),
        lambda n: cut(1 + n % 3),
    ]
    script: Script = [(at * S, rng.choice(acts)(rng.randrange(12))) for at in (5, 8, 11)]
    script += [(14 * S, heal), (20 * S, None)]

    assert_equal_runs(rng.choice(list(PROFILES)), shards, replicas, seed, path, script, keeps=bool(seed % 2))


@pytest.mark.slow
def test_a_larger_cluster_connects_and_settles_in_the_same_way():
    """Thousands of connections at once, messages that wait for them, tables that are not fit yet: equal to the last draw."""
    script: Script = [(25 * S, None)]
    plain = Run("valkey-9.1", 30, 1, 1, Path(), fast=False, listens=False).play(script)
    fast = Run("valkey-9.1", 30, 1, 1, Path(), fast=True, listens=False).play(script)

    assert fast.end() == plain.end()


@pytest.mark.long
def test_a_world_goes_on_as_it_would_have_when_it_leaves_the_fast_path():
    """What was in the arrays, and in the loop's heap, is back in its objects; and it can enter again in the middle."""
    script: Script = [(5 * S, crash(1)), (7 * S + 123, None)]
    plain = Run("valkey-9.1", 4, 1, 3, Path(), fast=False, listens=False).play(
        [*script, (12 * S, None), (15 * S, None)]
    )
    moved = Run("valkey-9.1", 4, 1, 3, Path(), fast=True, listens=False).play(script)
    end_steady(moved.stage.world)
    moved.play([(12 * S, None)])
    assert begin_steady(moved.stage.world)
    moved.play([(15 * S, None)])

    assert moved.end() == plain.end()


@pytest.mark.long
@pytest.mark.parametrize("profile", ["redis-7.0", "valkey-9.1"])
def test_trials_have_the_same_outcome_on_both_engines(profile):
    """The engine says how, never what."""
    trial = Trial(
        seed=5, profile=profile, node_timeout_ms=2000, shards=8, fault="power", hit="2", clients=2, limit_s=30.0
    )

    assert run_trial(replace(trial, engine="fast"), Random) == run_trial(replace(trial, engine="plain"), Random)


def test_most_of_steady_gossip_never_reaches_the_plain_machine():
    """What the fast path is for: once the cluster stands, the machine is not asked for messages."""
    run = Run("valkey-9.1", 4, 1, 3, Path(), fast=True, listens=False).play([(5 * S, None)])
    for one in run.stage.world.hosts:
        one.node.handle = None  # type: ignore[method-assign]
    before = run.stage.world.network.messages

    run.play([(9 * S, None)])

    assert run.stage.world.network.messages > before + 200


def test_a_place_is_drawn_from_as_many_bits_as_decide_it():
    """The upper 27 bits are nearly always enough; for sizes where they seldom are it is what `random` gives, too."""
    for size in (3, 1000, 50_000_017):
        rng = Random(size)
        own, draws = np.array(rng.getstate()[1], np.uint32), np.zeros(WORDS // 2, np.uint32)
        assert draw(own, draws) == rng.random()

        drawn = [place_of(own, draws, at, size) for at in range(2, WORDS, 2)]

        assert drawn == [int(rng.random() * size) for _ in drawn]


def test_what_is_on_its_way_says_what_held_when_it_was_sent():
    """The flags that a message of a well node tells are the node's own, until the node changes its mind."""
    world: Any = Run("valkey-9.1", 4, 1, 3, Path(5000, 900), fast=True, listens=False).play([(5 * S, None)]).stage.world
    store, slots = world.steady.store, list[int]()
    while not slots and world.now_us < 9 * S:
        world.run_to(world.now_us + 1000)
        slots = [what for _, _, what in store.planned() if what >= 0 and not store.message(what)[fields.M_MARKED]]
    message = store.message(slots[0])
    sender = message[fields.M_ACCEPTOR if message[fields.M_BACK] else fields.M_OPENER]
    nodes = store.g.told[slots[0], fields.NODES, : message[fields.M_COUNT]].tolist()
    told = store.g.flags[sender, nodes].tolist()

    world.steady.views[sender].nodes[world.steady.ids[nodes[0]]].flags |= FAIL

    assert store.g.flags[sender, nodes].tolist() != told
    assert [entry[-1] for entry in store.entries_of(slots[0], len(nodes))] == told


def test_who_listens_to_everything_keeps_a_world_off_the_fast_path():
    """A trace must be told of each doubt and report: it needs the plain machine."""
    settings = NodeSettings()
    stage = Stage(Random, 1, places_of(Layout(3, 1), lambda name: settings, Random(1)))

    assert not can_go(stage.world)
    assert not begin_steady(stage.world)
    assert not isinstance(stage.world, ArrayWorld)


def test_a_world_that_is_looked_at_goes_on_where_the_fast_path_ends():
    """A host of another name came, and somebody listens to everything: the plain machine does the rest."""
    settings = NodeSettings(profile=PROFILES["valkey-9.1"])
    places = places_of(Layout(3, 0), lambda name: settings, Random(1))
    stage = Stage(Random, 1, places[:2], is_told=False)
    world, looks = stage.world, []
    assert begin_steady(world)
    world.add(places[2])
    world.recorder = type("Ears", (), dict.fromkeys(("connected", "delivered", "closed"), lambda *_: None))()

    world.run_while(lambda: looks.append(world.now_us) or len(looks) < 4, S, 10 * S)

    assert not isinstance(world, ArrayWorld)
    assert world.now_us == 3 * S


def test_an_engine_that_is_none_is_refused():
    """The text says what there is."""
    with pytest.raises(TrialError, match="no engine 'warp'; there are auto, fast, plain"):
        check_trial(Trial(engine="warp"))
