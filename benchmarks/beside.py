"""What a client waits beside `slotscope rebalance`: its dry run, and the moves themselves, against the same client alone.

Rounds: alone, beside a dry run, alone, beside the moves; then the slots go back, and the next round.  What the machine does besides
changes from minute to minute, so each figure is compared with the two stretches alone around it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.servers import redis_binary, valkey_binary
from tests.benches.skewed_load import load_skewed
from tests.benches.steady_client import SteadyClient, steady_client

MASTERS = 6
RATIO_MAX = 1.05
SECONDS_MAX = 900
ALONE = "alone"
PHASES = ("dry run", "moves")


class Stretch(NamedTuple):
    """What the client waited while something ran, or nothing did, for *seconds*."""

    what: str
    seconds: float
    told: Mapping[str, Any]

    @property
    def p99_ms(self) -> float:
        return float(self.told["p99_ms"])


def run(options: Options) -> Result:
    """Measure with the servers that are installed."""
    keys, rounds, alone_s = (20_000, 1, 3.0) if options.quick else (1_000_000, 5, 20.0)
    found = Result(
        "beside",
        "A client beside a rebalance",
        f"{MASTERS} masters and {keys:,} keys, skewed, on this machine, which the client and the servers share with Slotscope. A client writes and "
        f"reads one key after another, with half a millisecond between, and each of {rounds} rounds goes alone, beside the dry run, alone, "
        "beside the moves with --apply and its audit. A ratio is p99 beside over the mean p99 of the stretches alone before and after it.",
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
                client.stretch()
                stretches = list(_rounds(Path(root), cluster, client, rounds, alone_s))
                ended = client.end()
        found.tables.append(Table(name, _rows(stretches), _note(stretches, ended)))
        for what in PHASES:
            ratio = statistics.median(_ratios(stretches, what))
            found.bars.append(Bar(f"{name}: p99 beside the {what}, median of {rounds}", RATIO_MAX, ratio, "×"))
    return found


def _rounds(root: Path, cluster: Cluster, client: SteadyClient, rounds: int, alone_s: float) -> Iterator[Stretch]:
    """Stretches of all rounds; each begins and ends alone."""
    address = f"127.0.0.1:{cluster.masters[0].port}"

    def stretch(what: str, *more: str) -> Stretch:
        client.stretch()
        begun_s = time.monotonic()
        if what == ALONE:
            time.sleep(alone_s)
        else:
            _slotscope(root, address, *more)
        return Stretch(what, time.monotonic() - begun_s, client.stretch())

    for _ in range(rounds):
        yield stretch(ALONE)
        yield stretch(PHASES[0], "--new")
        yield stretch(ALONE)
        yield stretch(PHASES[1], "--plan", "latest", "--apply")
        yield stretch(ALONE)
        _slotscope(root, address, "--apply", "--rollback")


def _slotscope(root: Path, address: str, *more: str) -> None:
    """Run the command; a promise that clients have broken meanwhile is no failure."""
    words = [sys.executable, "-m", "jobs.main", "rebalance", address, "--root", str(root), *more]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    if ended.returncode not in (0, 11):
        raise RuntimeError(ended.stderr)


def _ratios(stretches: list[Stretch], what: str) -> list[float]:
    """p99 of each stretch *what* over the mean of those alone on both sides of it; one alone is compared with those next to it in its round."""
    away = 2 if what == ALONE else 1
    return [
        one.p99_ms / ((before.p99_ms + after.p99_ms) / 2)
        for before, one, after in zip(stretches, stretches[away:], stretches[2 * away :], strict=False)
        if (before.what, one.what, after.what) == (ALONE, what, ALONE)
    ]


def _rows(stretches: list[Stretch]) -> list[Mapping[str, Cell]]:
    rows: list[Mapping[str, Cell]] = []
    for what in (ALONE, *PHASES):
        mine = [one for one in stretches if one.what == what]
        ratios = _ratios(stretches, what)
        rows.append(
            {
                "client": what if what == ALONE else f"beside the {what}",
                "s each": statistics.median(one.seconds for one in mine),
                "questions": sum(one.told["questions"] for one in mine),
                "p50 ms": statistics.median(one.told["p50_ms"] for one in mine),
                "p99 ms": statistics.median(one.p99_ms for one in mine),
                "p99 least": min(one.p99_ms for one in mine),
                "p99 most": max(one.p99_ms for one in mine),
                "longest ms": max(one.told["max_ms"] for one in mine),
                "ratio": statistics.median(ratios),
                "ratios": f"{min(ratios):.2f} to {max(ratios):.2f}",
            }
        )
    return rows


def _note(stretches: list[Stretch], ended: Mapping[str, Any]) -> str:
    errors = sum(one.told["errors"] for one in stretches)
    return (
        f"Medians over the rounds, with the least and the most. {ended['written']:,} keys written, {len(ended['lost'])} lost, "
        f"{errors} commands failed. The ratio alone, of the stretch in the middle of a round to its first and last, is what the machine does."
    )
