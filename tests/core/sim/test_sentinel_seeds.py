"""Sentinels by chance: scenarios from their numbers, the same run from the same seed, elections that are split."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from cluster_core.sim.scenario.play import Played, play
from cluster_core.sim.scenario.text import read_scenario
from cluster_core.sim.sentinels.fuzz import random_sentinel_scenario
from cluster_core.sim.sentinels.stage import MIXED

FOLDER = Path(__file__).parents[2] / "scenarios"
SEEDS = 4
SEEDS_SLOW = 200
ELECTIONS = 20


def by_chance(seed: int) -> Played:
    return play(read_scenario(random_sentinel_scenario(Random(f"sentinels/{seed}"), seed)), Random)


def command(seed: int) -> str:
    return f"python -m cluster_core.sim --random {seed} --sentinels --text"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_breaks_by_chance(seed):
    """S17 holds all the time, and after peace all agree."""
    result = by_chance(seed)

    assert result.failures == (), command(seed)
    assert result.violations == (), command(seed)


@pytest.mark.slow
def test_nothing_breaks_by_chance_in_many_runs():
    """The same with more numbers."""
    wrong = []
    for seed in range(SEEDS, SEEDS_SLOW):
        result = by_chance(seed)
        if result.failures or any(violation.rule != MIXED for violation in result.violations):
            wrong.append(command(seed))

    assert wrong == []


@pytest.mark.long
def test_the_same_seed_gives_the_same_run():
    """Nothing but the seed decides."""
    first, second = by_chance(3), by_chance(3)

    assert first.trace == second.trace
    assert first.stage.digest() == second.stage.digest()
    assert first.stage.digest() != by_chance(4).stage.digest()


@pytest.mark.processes
def test_hash_seeds_do_not_matter():
    """The order of hashes is not in it: byte by byte the same trace."""
    outputs = [
        subprocess.run(
            [sys.executable, "-m", "cluster_core.sim", str(FOLDER / "sentinel-minority.txt")],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=FOLDER.parents[1],
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4711")
    ]

    assert outputs[0].count(b"\n") > 20
    assert outputs[0] == outputs[1]


def test_a_capture_of_the_bus_is_not_to_be_had():
    """Sentinels have no bus."""
    done = subprocess.run(
        [sys.executable, "-m", "cluster_core.sim", str(FOLDER / "sentinel-minority.txt"), "--messages", "x"],
        cwd=FOLDER.parents[1],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert b"sentinels have none" in done.stderr


@pytest.mark.long
def test_lines_are_counted_over_seeds():
    """What came of so many runs of one scenario."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "cluster_core.sim",
            str(FOLDER / "sentinel-failover.txt"),
            "--seeds",
            "3",
            "--count",
            "+elected",
        ],
        cwd=FOLDER.parents[1],
        capture_output=True,
        check=True,
    )

    assert done.stdout == b"1 lines: 3 runs\n"


def failed_rounds(result: Played) -> int:
    """How many epochs went by without a leader."""
    epochs = {text for _, _, channel, text in result.stage.trace.announced if channel == "+new-epoch"}
    return len(epochs) - 1


@pytest.mark.slow
def test_seventeen_sentinels_split_their_votes_and_try_again_until_one_wins():
    """Redis #4334: far apart, quorum nine, several stand at once; most first rounds have no leader, some round has one."""
    scenario = read_scenario((FOLDER / "sentinel-split-votes.txt").read_text())
    rounds = []
    for seed in range(ELECTIONS):
        result = play(scenario, Random, seed=seed)
        assert result.is_fine, seed
        rounds.append(failed_rounds(result))

    assert sum(count > 0 for count in rounds) >= ELECTIONS // 2
    assert max(rounds) <= 3
