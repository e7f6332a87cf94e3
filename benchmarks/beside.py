"""What a client waits beside `slotscope rebalance`: its dry run, and the moves themselves, against the same client alone.

What the machine does besides changes from minute to minute, so beside and alone take turns.  The dry run is stopped (SIGSTOP) and goes on
every two seconds, and while it is stopped the client is alone.  Moves cannot be stopped in between: slots that are half moved send clients
from one server to the other.  They run forwards and back, each between two stretches alone; under a limit of latency for a time.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from slotscope.runtime.failure import INTERRUPTED, PAUSED
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.servers import redis_binary, valkey_binary
from tests.benches.skewed_load import load_skewed
from tests.benches.steady_client import SteadyClient, steady_client

MASTERS = 6
RATIO_MAX = 1.05
TURN_S = 2.0
TURNS_MAX = 20
"""After so many the dry run goes on to its end."""
DRAWS_S = 40.0
"""How long keys are drawn: twice the default, since it is stopped for half of them."""
MOVES_S = 70.0
"""No further moves are begun so long after the first."""
PAIRS = 2
"""There and back."""
RESAMPLES = 1000
LATENCY_MS_MAX = 2.0
DRY_RUN, MOVES, PACED_MOVES = "dry run", "moves", f"moves, --latency-ms-max {LATENCY_MS_MAX:g}"


class Pair(NamedTuple):
    """What the client waited (microseconds) beside Slotscope, and alone before or after that."""

    beside: Sequence[int]
    alone: Sequence[int]


class Ratio(NamedTuple):
    """p99 beside over p99 alone, of all pairs together; *least* and *most* enclose it in 95 of 100 samples of pairs."""

    value: float
    least: float
    most: float

    @property
    def interval(self) -> str:
        return f"{self.least:.2f} to {self.most:.2f}"


def run(options: Options) -> Result:
    """Measure with the servers that are installed."""
    keys, draws_s, moves_s = (20_000, 20.0, 0.0) if options.quick else (1_000_000, DRAWS_S, MOVES_S)
    found = Result(
        "beside",
        "A client beside a rebalance",
        f"{MASTERS} masters and {keys:,} keys, skewed, on this machine, which the client and the servers share with Slotscope. A client writes and "
        f"reads one key after another, with half a millisecond between. The dry run is stopped and goes on every {TURN_S:g} s; moves, with "
        "--apply and its audit, go forwards and back, each between two stretches alone; those with --latency-ms-max for a time. A ratio is p99 of all waits beside over p99 of all waits "
        f"alone; its interval is that of 95 of 100 of {RESAMPLES:,} samples, drawn with replacement from the pairs of beside and alone.",
        tables=[],
    )
    for name, binary in {"Valkey": valkey_binary(), "Redis": redis_binary()}.items():
        if binary is None:
            found.skipped.append(f"{name}: the server is not installed")
            continue
        with (
            tempfile.TemporaryDirectory(prefix="slotscope-beside-") as root,
            running_cluster(binary, masters=MASTERS) as cluster,
        ):
            load_skewed(cluster, keys)
            with steady_client(cluster.masters[0].port) as client:
                time.sleep(TURN_S)  # until it knows the slots
                pairs = dict(_phases(Path(root), cluster, client, draws_s, moves_s))
                ended = client.end()
        note = f"{ended['written']:,} keys written, {len(ended['lost'])} lost, {client.errors} commands failed."
        found.tables.append(Table(name, _rows(pairs), note))
        for what, those in pairs.items():
            ratio = compare(those)
            if what == DRY_RUN:
                promise = f"{name}: p99 beside the {what} (95 of 100 between {ratio.interval})"
                found.bars.append(Bar(promise, RATIO_MAX, ratio.value, "×"))
            if what == PACED_MOVES:
                waits_us = np.concatenate([pair.beside for pair in those])
                found.bars.append(Bar(f"{name}: p99 beside the {what}", LATENCY_MS_MAX, p99(waits_us) / 1000, "ms"))
    return found


def _phases(
    root: Path, cluster: Cluster, client: SteadyClient, draws_s: float, moves_s: float
) -> Iterator[tuple[str, list[Pair]]]:
    """The pairs of the dry run, of the moves, and of the moves at the pace of a limit."""
    address = f"127.0.0.1:{cluster.masters[0].port}"
    with _slotscope(root, address, "--seconds", f"{draws_s:g}") as process:
        yield DRY_RUN, list(_in_turns(process, client))
    yield MOVES, _there_and_back(root, address, client, moves_s)
    yield PACED_MOVES, [_for_a_time(root, address, client, moves_s)]


def _for_a_time(root: Path, address: str, client: SteadyClient, moves_s: float) -> Pair:
    """Move under the limit of latency until it is done, or for *moves_s*: the moves begun then are ended, and others wait."""
    before = _alone(client)
    words = ["--plan", "latest", "--apply", "--latency-ms-max", f"{LATENCY_MS_MAX:g}"]
    with _slotscope(root, address, *words) as process:
        try:
            process.wait(max(moves_s, TURN_S))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
        beside = client.waits_us()
    return Pair(beside, [*before, *_alone(client)])


def _there_and_back(root: Path, address: str, client: SteadyClient, moves_s: float) -> list[Pair]:
    """Move forwards and back, an even number of times, until *moves_s* are over."""
    pairs: list[Pair] = []
    begun_s = time.monotonic()
    before = _alone(client)
    while len(pairs) % PAIRS or not pairs or time.monotonic() - begun_s < moves_s:
        words = ["--plan", "latest", "--apply", *(["--rollback"] if len(pairs) % PAIRS else [])]
        with _slotscope(root, address, *words) as process:
            process.wait()
            beside = client.waits_us()
        after = _alone(client)
        pairs.append(Pair(beside, [*before, *after]))
        before = after
    return pairs


def _in_turns(process: subprocess.Popen[str], client: SteadyClient) -> Iterator[Pair]:
    """Let *process* go on and stop it in turns, until it has ended or there were enough."""
    client.waits_us()
    turns = 0
    while process.poll() is None and turns < TURNS_MAX:
        turns += 1
        try:
            process.wait(TURN_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGSTOP)
        beside = client.waits_us()
        pair = Pair(beside, _alone(client))
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
        yield pair


def _alone(client: SteadyClient) -> list[int]:
    time.sleep(TURN_S)
    return client.waits_us()


@contextmanager
def _slotscope(root: Path, address: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command; a promise that clients have broken meanwhile is no failure, nor is a pause."""
    words = [sys.executable, "-m", "jobs.main", "rebalance", address, "--root", str(root), *more]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said, text=True) as process,
    ):
        try:
            yield process
            process.wait()
        finally:
            process.kill()
        if process.returncode not in (0, 11, PAUSED, INTERRUPTED):
            said.seek(0)
            raise RuntimeError(said.read())


def compare(pairs: Sequence[Pair]) -> Ratio:
    """Return the ratio of *pairs* and how sure it is; the same pairs give the same."""
    chance = np.random.default_rng(1)
    drawn = [chance.integers(len(pairs), size=len(pairs)) for _ in range(RESAMPLES)]
    least, most = np.quantile([_ratio([pairs[at] for at in some]) for some in drawn], (0.025, 0.975))
    return Ratio(_ratio(pairs), float(least), float(most))


def _ratio(pairs: Sequence[Pair]) -> float:
    beside, alone = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return p99(beside) / p99(alone)


def p99(waits: Sequence[int] | np.ndarray) -> float:
    """The wait below which 99 of 100 are."""
    return float(np.quantile(waits, 0.99)) if len(waits) else math.nan


def _rows(pairs: Mapping[str, Sequence[Pair]]) -> list[Mapping[str, Cell]]:
    """A row a phase, and one of what the machine does by itself: the two halves of each turn alone."""
    halves = [Pair(one.alone[: len(one.alone) // 2], one.alone[len(one.alone) // 2 :]) for one in pairs[DRY_RUN]]
    rows: list[Mapping[str, Cell]] = []
    for what, those in {
        "alone, first halves over second": halves,
        **{f"beside the {k}": v for k, v in pairs.items()},
    }.items():
        beside, alone = (np.concatenate(side) for side in zip(*those, strict=True))
        ratio = compare(those)
        rows.append(
            {
                "client": what,
                "pairs": len(those),
                "questions": len(beside),
                "alone": len(alone),
                "p50 ms": float(np.median(beside)) / 1000,
                "p50 alone": float(np.median(alone)) / 1000,
                "p99 ms": p99(beside) / 1000,
                "p99 alone": p99(alone) / 1000,
                "longest ms": float(beside.max()) / 1000,
                "longest alone": float(alone.max()) / 1000,
                "p99 ratio": ratio.value,
                "95 of 100": ratio.interval,
            }
        )
    return rows
