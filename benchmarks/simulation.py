"""Simulated clusters: how fast a run is, how it grows with the cluster, and what a mass failure costs under old and new rules."""

from __future__ import annotations

import heapq
import sys
import time
from random import Random

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.node.state import NodeSettings
from cluster_core.sim.experiment.runs import Trial, run_trial
from cluster_core.sim.layouts import Layout, places_of
from cluster_core.sim.stage import Stage
from cluster_core.sim.world import World

NAME = "simulation"
MESSAGES_BAR = 60_000
HEAP_EVENTS = 200_000
MERGES = 50_000
HEAP = "bare heapq loop (events)"
MERGE = "ping-and-merge-only loop"
GROWTH = (50, 100, 300)
TIMEOUTS_MS = (2_000, 15_000)
"""With the shorter one a tick sends twelve messages, with the longer one not even one: then ticks are half of the work."""
SETTLED_US = 31_000_000
"""Two node timeouts of 15 s."""
GROWN_US = 15_000_000
ROUND_US = 5_000_000
MASS = (("redis-7.0", "old rules"), ("valkey-8.1", "failed masters ranked"))
MASS_DELAY_MS = 10.0
"""One way; the events of a busy server take about as long, which is what makes elections meet."""


def run(options: Options | None = None) -> Result:
    """Measure speed and growth, then kill half of the masters of a cluster again and again."""
    quick = options is not None and options.quick
    result = Result(
        NAME,
        "Simulation",
        "Whole nodes on a virtual clock, in one process, in plain Python; `core s` is processor time, which other work on the machine "
        "does not stretch much. Half of the nodes are masters, ticks are 100.5 ms, the node timeout is 15 s unless it stands there, messages "
        "are counted when they are sent.",
        [],
    )
    speed = _speed_table(20 if quick else 100, 2 if quick else 8)
    result.tables.append(speed)
    grown = [_growth_row(nodes) for nodes in ((20, 50) if quick else GROWTH)]
    result.tables.append(Table(f"Growth with the cluster ({VALKEY_9_1.name})", grown))
    whole = [row["messages a core s"] for row in speed.rows if row["profile"] and row["nodes"] == 100]
    best = max((rate for rate in whole if isinstance(rate, int)), default=None)
    result.bars.append(Bar("messages of 100 nodes, plain Python", MESSAGES_BAR, best, "messages/s", at_most=False))
    result.tables.append(_failovers(20 if quick else 200))
    shards, killed, runs = (8, 3, 2) if quick else (32, 15, 20)
    result.tables.append(_mass_failure(shards, killed, runs))
    return result


def _stage(nodes: int, profile: Profile, node_timeout_ms: int = 15_000) -> Stage:
    settings = NodeSettings(profile=profile, node_timeout_ms=node_timeout_ms)
    places = places_of(Layout(nodes // 2, 1), lambda name: settings, Random(1))
    return Stage(World(Random, 1), places)


def _speed_table(nodes: int, rounds: int) -> Table:
    """Steady gossip after it has settled, beside two loops that do next to nothing; all in turns, the best round of each."""
    stages = {
        (p.name, timeout_ms): _stage(nodes, p, timeout_ms)
        for p in (REDIS_7_0, VALKEY_9_1)
        for timeout_ms in TIMEOUTS_MS
    }
    for (_, timeout_ms), stage in stages.items():
        stage.world.run_to(SETTLED_US * timeout_ms // TIMEOUTS_MS[-1])
    merging = Merging(nodes)
    best: dict[tuple[str, int], int] = {}
    for _ in range(rounds):
        rates = {key: _rate_of(stage, ROUND_US * key[1] // TIMEOUTS_MS[-1]) for key, stage in stages.items()}
        rates |= {(HEAP, 0): _heap_rate(), (MERGE, 0): merging.rate()}
        best = {key: max(rate, best.get(key, 0)) for key, rate in rates.items()}
    rows: list[dict[str, Cell]] = [
        {
            "what": "whole machine" if timeout_ms else name,
            "nodes": None if name == HEAP else nodes,
            "profile": name if timeout_ms else "",
            "node timeout s": timeout_ms / 1000 if timeout_ms else None,
            "messages a core s": rate,
            "heap events a message": round(best[HEAP, 0] / rate, 1),
        }
        for (name, timeout_ms), rate in best.items()
    ]
    for row in rows:
        print(f"  {row}", file=sys.stderr, flush=True)
    return Table(
        "Messages a second of the whole machine and its world", rows, f"The best of {rounds} rounds of each, in turns."
    )


def _rate_of(stage: Stage, time_us: int) -> int:
    """Messages a core second during the next *time_us*."""
    messages, began = stage.world.network.messages, time.process_time()
    stage.world.run_to(stage.world.now_us + time_us)
    return round((stage.world.network.messages - messages) / (time.process_time() - began))


def _heap_rate() -> int:
    """Events a second of a heap that holds as many as a cluster does, and does nothing."""
    heap = [(number, number) for number in range(5000)]
    began = time.process_time()
    for number in range(HEAP_EVENTS):
        at, _ = heapq.heappop(heap)
        heapq.heappush(heap, (at + 5000, number))
    return round(HEAP_EVENTS / (time.process_time() - began))


class Merging:
    """The least that a simulator of gossip can do: a heap, and messages that tell a tenth of a table of pong times."""

    def __init__(self, nodes: int) -> None:
        self.tables = [[0] * nodes for _ in range(nodes)]
        self.draw = Random(1).random
        self.heap: list[tuple[int, int, int]] = [(node, node, 0) for node in range(nodes)]

    def rate(self) -> int:
        """Messages a second."""
        tables, draw, heap, nodes = self.tables, self.draw, self.heap, len(self.tables)
        gossiped = max(3, nodes // 10)
        began = time.process_time()
        for _ in range(MERGES):
            at, node, start = heapq.heappop(heap)
            other = int(draw() * nodes)
            ours, theirs = tables[node], tables[other]
            ours[other] = at
            for place in range(start, start + gossiped):
                if theirs[place] < ours[place]:
                    theirs[place] = ours[place]
            heapq.heappush(heap, (at + nodes, node, int(draw() * (nodes - gossiped))))
        return round(MERGES / (time.process_time() - began))


def _growth_row(nodes: int) -> dict[str, Cell]:
    """Steady gossip of a cluster of *nodes*, after two node timeouts."""
    stage = _stage(nodes, VALKEY_9_1)
    began = time.process_time()
    stage.world.run_to(SETTLED_US)
    warm_s = time.process_time() - began
    messages, began = stage.world.network.messages, time.process_time()
    stage.world.run_to(SETTLED_US + GROWN_US)
    core_s = time.process_time() - began
    sent = stage.world.network.messages - messages
    row: dict[str, Cell] = {
        "nodes": nodes,
        "messages a virtual s": round(sent / (GROWN_US / 1e6)),
        "messages a core s": round(sent / core_s),
        "core s of a virtual minute": round(core_s * 60e6 / GROWN_US, 1),
        "times real time": round(GROWN_US / 1e6 / core_s, 2),
        "core s to connect and settle": round(warm_s, 1),
    }
    print(f"  {row}", file=sys.stderr, flush=True)
    return row


def _failovers(runs: int) -> Table:
    """Single failures of six nodes at T = 2 s, one after the other."""
    rows: list[dict[str, Cell]] = []
    for profile in ("redis-7.0", "redis-8", "valkey-8.0", "valkey-8.1", "valkey-9.1"):
        began = time.process_time()
        outcomes = [run_trial(Trial(seed=seed, profile=profile, node_timeout_ms=2000), Random) for seed in range(runs)]
        core_s = time.process_time() - began
        detected = sorted(outcome.detected_ms or 0.0 for outcome in outcomes)
        gaps = sorted((outcome.elected_ms or 0.0) - (outcome.detected_ms or 0.0) for outcome in outcomes)
        rows.append(
            {
                "profile": profile,
                "runs": runs,
                "crash to FAIL, median ms": round(detected[runs // 2]),
                "least": round(detected[0]),
                "most": round(detected[-1]),
                "FAIL to win, median ms": round(gaps[runs // 2]),
                "least ": round(gaps[0]),
                "most ": round(gaps[-1]),
                "core ms a run": round(1000 * core_s / runs, 1),
            }
        )
    return Table("A master of six nodes is killed (T = 2 s)", rows)


def _mass_failure(shards: int, killed: int, runs: int) -> Table:
    """Nearly half of the masters lose power at once: who has new masters within 160 s?"""
    rows: list[dict[str, Cell]] = []
    for profile, description in MASS:
        began = time.process_time()
        outcomes = []
        for seed in range(runs):
            trial = Trial(
                seed=seed,
                profile=profile,
                shards=shards,
                zones=1,
                fault="power",
                hit=str(killed),
                delay_ms=MASS_DELAY_MS,
            )
            outcomes.append(run_trial(trial, Random))
            done = sum(shard.elected_ms is not None for shard in outcomes[-1].failed_shards)
            print(f"  {shards} shards, {profile}, seed {seed}: {done} of {killed}", file=sys.stderr, flush=True)
        recovered = [outcome for outcome in outcomes if outcome.elected_ms is not None]
        promoted = sum(shard.elected_ms is not None for outcome in outcomes for shard in outcome.failed_shards)
        rows.append(
            {
                "profile": f"{profile} ({description})",
                "runs": runs,
                "recovered in 160 s": len(recovered),
                "shards promoted": f"{promoted} of {runs * killed}",
                "slowest s": round(max((outcome.elected_ms or 0.0) for outcome in recovered) / 1000, 1)
                if recovered
                else None,
                "elections a run": round(sum(outcome.elections for outcome in outcomes) / runs),
                "core s a run": round((time.process_time() - began) / runs, 1),
            }
        )
    note = f"Node timeout 15 s, {MASS_DELAY_MS:.0f} ms one way, one replica each; the fault is a loss of power."
    return Table(f"{killed} of {shards} masters fail at once", rows, note)
