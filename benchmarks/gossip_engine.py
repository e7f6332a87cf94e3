"""The fast path of the simulator: how much faster than real time a large cluster runs, and what a mass failure of it costs.

Everything is processor time of one process on one core; ratios are taken within one run.
"""

from __future__ import annotations

import heapq
import resource
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.gossip.profile import PROFILES, Profile
from cluster_core.kernels.compiled import njit
from cluster_core.node.settings import NodeSettings
from cluster_core.sim.experiment.runs import Trial, run_trial
from cluster_core.sim.layouts import Layout, places_of
from cluster_core.sim.scenario.stage import Stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME: Final = "gossip_engine"
TIMES_REAL_BAR: Final = 10
SETTLED_US: Final = 31_000_000
"""Two node timeouts."""
SPAN_US: Final = 15_000_000
HEAP_EVENTS: Final = 200_000
OLD_SHARDS_MAX: Final = 128
"""Redis 7.0 reconnects to every dead node at every cron: more of that costs hours."""
PLAIN_NODES_MAX: Final = 100
"""More nodes take the plain machine too long to start."""


def run(options: Options | None = None) -> Result:
    """Measure steady gossip on both engines beside loops that do next to nothing, then kill half of the masters."""
    quick = options is not None and options.quick
    result = Result(
        NAME,
        "The simulator's fast path",
        "Half of the nodes are masters, T = 15 s, `core s` is processor time. The fast path is compiled by numba; the runs are the same, "
        "message by message.",
        [],
    )
    _steady_row(20, PROFILES["valkey-9.1"], fast=True)  # compiles
    rows = [
        _steady_row(nodes, PROFILES[profile], fast=fast)
        for nodes in ((20, 40) if quick else (100, 300, 1000))
        for profile in ("redis-7.0", "valkey-9.1")
        for fast in (True, False)
        if (fast or nodes <= PLAIN_NODES_MAX) and (nodes < 1000 or profile == "valkey-9.1")
    ]
    result.tables.append(Table("Steady gossip, a quarter of a virtual minute after it has settled", rows))
    result.tables.append(Table("Loops that do next to nothing", _loops(100 if quick else 1000)))
    largest = [row["times real time"] for row in rows if row["nodes"] == 1000]
    slowest = min((value for value in largest if isinstance(value, float)), default=None)
    result.bars.append(
        Bar("1000 nodes, T = 15 s, fast path", TIMES_REAL_BAR, slowest, "times real time", at_most=False)
    )
    result.tables.append(_mass_failures([(20, 9)] if quick else [(128, 63), (250, 124)]))
    return result


def _steady_row(nodes: int, profile: Profile, *, fast: bool) -> dict[str, Cell]:
    settings = NodeSettings(profile=profile)
    began = time.process_time()
    places = places_of(Layout(nodes // 2, 1), lambda name: settings, Random(1))
    stage = Stage(Random, 1, places, keep_configs=False, is_told=False)
    if fast:
        from cluster_core.sim.fast.fast_path import begin_steady

        begin_steady(stage.world)
    stage.world.run_to(SETTLED_US)
    start_s = time.process_time() - began
    sent, began = stage.world.network.messages, time.process_time()
    stage.world.run_to(SETTLED_US + SPAN_US)
    core_s = time.process_time() - began
    messages = stage.world.network.messages - sent
    engine = "fast" if fast else "plain"
    print(
        f"  {nodes} nodes, {profile.name}, {engine}: {messages / core_s:,.0f} messages/s", file=sys.stderr, flush=True
    )
    return {
        "nodes": nodes,
        "profile": profile.name,
        "engine": engine,
        "messages a core s": round(messages / core_s),
        "messages a virtual s": round(messages * 1e6 / SPAN_US),
        "times real time": round(SPAN_US / 1e6 / core_s, 1),
        "core s to start, connect and settle": round(start_s, 1),
    }


def _loops(nodes: int) -> list[dict[str, Cell]]:
    """A heap that holds as many events as a cluster and does nothing; pings that are drawn and merged and nothing else."""
    heap = [(number, number) for number in range(5 * nodes)]
    began = time.process_time()
    for number in range(HEAP_EVENTS):
        at, _ = heapq.heappop(heap)
        heapq.heappush(heap, (at + 5000, number))
    heap_s = time.process_time() - began
    pongs, draws = np.zeros((nodes, nodes), np.int64), np.array(Random(1).sample(range(1 << 30), 4096), np.int64)
    merge_pings(pongs, draws, 10)
    began = time.process_time()
    merge_pings(pongs, draws, HEAP_EVENTS)
    merge_s = time.process_time() - began
    return [
        {"loop": "bare heapq, plain Python", "a core s": round(HEAP_EVENTS / heap_s)},
        {"loop": f"ping and merge only, numba, {nodes} nodes", "a core s": round(HEAP_EVENTS / merge_s)},
    ]


@njit()
def merge_pings(pongs: NDArray[np.int64], draws: NDArray[np.int64], count: int) -> None:
    """Tell a tenth of one node's table to another, *count* times: what no simulation of gossip can do without."""
    nodes, at = pongs.shape[0], 0
    for number in range(count):
        sender, receiver = number % nodes, draws[number % draws.size] % nodes
        for _ in range(nodes // 10):
            at = at + 1 if at + 1 < draws.size else 0
            h = draws[at] % nodes
            pongs[receiver, h] = max(pongs[receiver, h], pongs[sender, h])
        pongs[receiver, sender] = number


def _mass_failures(cases: list[tuple[int, int]]) -> Table:
    """Nearly half of the masters lose power at once."""
    rows: list[dict[str, Cell]] = []
    for shards, hit in cases:
        for profile in ("redis-7.0", "valkey-8.1", "valkey-9.1") if shards <= OLD_SHARDS_MAX else ("valkey-8.1",):
            trial = Trial(
                profile=profile, shards=shards, zones=1, fault="power", hit=str(hit), delay_ms=5.0, engine="fast"
            )
            began = time.process_time()
            outcome = run_trial(trial, Random)
            core_s = time.process_time() - began
            rows.append(
                {
                    "nodes": 2 * shards,
                    "masters that fail": hit,
                    "profile": profile,
                    "detected s": _seconds(outcome.detected_ms),
                    "promoted": sum(shard.elected_ms is not None for shard in outcome.failed_shards),
                    "last one s": _seconds(outcome.elected_ms),
                    "messages": outcome.messages,
                    "virtual s": round(outcome.simulated_s),
                    "core s": round(core_s, 1),
                    "peak MB so far": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                }
            )
            print(f"  {2 * shards} nodes, {profile}: {core_s:.0f} core s", file=sys.stderr, flush=True)
    return Table(
        "A mass failure on the fast path",
        rows,
        "Loss of power, 5 ms one way, one replica each; a run ends 160 s after it.",
    )


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms / 1000, 1)
