"""Simulated clusters: how fast a run is, how it grows with the cluster, and what a mass failure costs under old and new rules."""

from __future__ import annotations

import heapq
import sys
import time
from math import log2
from random import Random

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.node.settings import NodeSettings
from cluster_core.sim.experiment import Trial, run_trial
from cluster_core.sim.layouts import Layout, places_of
from cluster_core.sim.stage import Stage

NAME = "simulation"
MESSAGES_BAR = 60_000
HEAP_EVENTS = 500_000
MASS = (("redis-7.0", "old rules"), ("valkey-8.1", "failed masters ranked"))
MASS_DELAY_MS = 5.0
"""One way; the events of a busy server take about as long, which is what makes elections meet."""


def run(options: Options | None = None) -> Result:
    """Measure speed and growth, then kill half of the masters of a cluster again and again."""
    quick = options is not None and options.quick
    result = Result(
        NAME,
        "Simulation",
        "Whole nodes on a virtual clock, in one process of plain Python; `core s` is processor time, which other work on the machine "
        "does not stretch much. Half of the nodes are masters, ticks are 100.5 ms, messages are counted when they are sent.",
        [],
    )
    sizes = (20, 50) if quick else (100, 200, 300)
    rows = [_speed_row(nodes, profile) for nodes in sizes for profile in (REDIS_7_0, VALKEY_9_1)]
    rows.append({"nodes": "bare heapq loop", "profile": "", "messages a core s": _heap_rate()})
    result.tables.append(Table("Messages a second of the whole machine and its world", rows))
    result.tables.append(Table("Growth of a virtual minute with the cluster", _growth_rows(rows)))
    at_100 = [row["messages a core s"] for row in rows if row["nodes"] == 100]
    best = max((rate for rate in at_100 if isinstance(rate, int)), default=None)
    result.bars.append(Bar("messages of 100 nodes, plain Python", MESSAGES_BAR, best, "messages/s", at_most=False))
    result.tables.append(_failovers(20 if quick else 200))
    cases = [(8, 3, 2)] if quick else [(32, 15, 20), (128, 63, 3)]
    for shards, killed, runs in cases:
        result.tables.append(_mass_failure(shards, killed, runs))
    return result


def _stage(nodes: int, profile: Profile) -> Stage:
    settings = NodeSettings(profile=profile)
    places = places_of(Layout(nodes // 2, 1), lambda name: settings, Random(1))
    return Stage(Random, 1, places, keep_configs=False, is_told=False)


def _speed_row(nodes: int, profile: Profile) -> dict[str, Cell]:
    """Half a minute of steady gossip at a node timeout of 15 s, after two node timeouts of warming up."""
    stage = _stage(nodes, profile)
    began = time.process_time()
    stage.world.run_to(31_000_000)
    warm_s = time.process_time() - began
    messages, began = stage.world.network.messages, time.process_time()
    stage.world.run_to(61_000_000)
    core_s = time.process_time() - began
    sent = stage.world.network.messages - messages
    print(f"  {nodes} nodes, {profile.name}: {sent / core_s:,.0f} messages/s", file=sys.stderr, flush=True)
    return {
        "nodes": nodes,
        "profile": profile.name,
        "messages a core s": round(sent / core_s),
        "messages a virtual s": round(sent / 30),
        "times real time": round(30 / core_s, 1),
        "core s to connect and warm up": round(warm_s, 1),
    }


def _heap_rate() -> int:
    """Events a second of a heap that holds as many as a cluster does, and does nothing."""
    heap = [(number, number) for number in range(5000)]
    began = time.process_time()
    for number in range(HEAP_EVENTS):
        at, _ = heapq.heappop(heap)
        heapq.heappush(heap, (at + 5000, number))
    return round(HEAP_EVENTS / (time.process_time() - began))


def _growth_rows(rows: list[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """Core seconds of a virtual minute, over those of the smallest cluster, beside N log N and N²."""
    found: list[dict[str, Cell]] = []
    for profile in (REDIS_7_0, VALKEY_9_1):
        own = [row for row in rows if row["profile"] == profile.name]
        first_nodes, first_speed = int(own[0]["nodes"] or 0), float(own[0]["times real time"] or 1)
        for row in own:
            nodes, speed = int(row["nodes"] or 0), float(row["times real time"] or 1)
            found.append(
                {
                    "nodes": nodes,
                    "profile": profile.name,
                    "core s of a virtual minute": round(60 / speed, 1),
                    "grown": round(first_speed / speed, 1),
                    "N log N": round(nodes * log2(nodes) / (first_nodes * log2(first_nodes)), 1),
                    "N²": round((nodes / first_nodes) ** 2, 1),
                }
            )
    return found


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
    for profile, words in MASS:
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
            done = sum(shard.elected_ms is not None for shard in outcomes[-1].shards)
            print(f"  {shards} shards, {profile}, seed {seed}: {done} of {killed}", file=sys.stderr, flush=True)
        recovered = [outcome for outcome in outcomes if outcome.elected_ms is not None]
        promoted = sum(shard.elected_ms is not None for outcome in outcomes for shard in outcome.shards)
        rows.append(
            {
                "profile": f"{profile} ({words})",
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
