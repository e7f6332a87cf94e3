"""Every scenario file: what it expects comes true, no invariant breaks, and its trace is the one below its line of ---.

``pytest tests/core/sim --rewrite`` writes the traces anew; read the diff before you keep it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from cluster_core.sim.scenario.play import Played, play
from cluster_core.sim.scenario.text import read_scenario, with_trace

FOLDER = Path(__file__).parents[2] / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))
LONG = {
    "data-too-old", "manual-failover", "minority-partition", "power-cut", "several-masters-die", "several-masters-die-redis-7.0", "writes-without-wait",
}  # fmt: skip


def played(path: Path, seed: int | None = None) -> Played:
    return play(read_scenario(path.read_text(), path.name), Random, seed=seed)


def command(path: Path) -> str:
    return f"python -m cluster_core.sim tests/scenarios/{path.name}"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.long) if path.stem in LONG else path for path in FILES],
    ids=lambda path: path.stem,
)
def test_a_scenario_goes_as_it_should(path, request):
    """The servers' own suites, one scenario after the other."""
    result = played(path)

    assert result.failures == (), command(path)
    assert result.violations == (), command(path)
    text = path.read_text()
    if request.config.getoption("--rewrite", default=False):
        path.write_text(with_trace(text, result.trace))
        return
    assert result.trace == read_scenario(text).trace, command(path)


@pytest.mark.long
def test_the_same_seed_gives_the_same_run():
    """R174: nothing but the seed decides."""
    path = FOLDER / "several-masters-die.txt"

    first, second, third = played(path), played(path), played(path, seed=99)

    assert first.stage.digest() == second.stage.digest()
    assert first.stage.digest() != third.stage.digest()


@pytest.mark.processes
def test_hash_seeds_do_not_matter(tmp_path):
    """The order of hashes is not in it: byte by byte the same trace and the same messages."""
    outputs = []
    for hash_seed in ("0", "4711"):
        messages = tmp_path / f"{hash_seed}.jsonl"
        done = subprocess.run(
            [sys.executable, "-m", "cluster_core.sim", str(FOLDER / "failover.txt"), "--messages", str(messages)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=FOLDER.parents[1],
            capture_output=True,
            check=True,
        )
        outputs.append((done.stdout, messages.read_bytes()))

    assert outputs[0][0].count(b"\n") > 20
    assert outputs[0] == outputs[1]
