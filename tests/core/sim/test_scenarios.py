"""Every scenario file: its expectations hold, no invariant breaks, and its trace is the one below the line of ---.

``pytest tests/core/sim --rewrite`` writes the traces anew; read the diff before you keep it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benches.scenario import Played, play, read_scenario, with_trace

FOLDER = Path(__file__).parents[2] / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))
LONG = {
    "data-too-old", "manual-failover", "minority-partition", "power-cut", "several-masters-die", "several-masters-die-redis-7.0", "writes-without-wait",
}  # fmt: skip


def played(path: Path, seed: int | None = None) -> Played:
    return play(read_scenario(path.read_text()), seed=seed)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.long) if path.stem in LONG else path for path in FILES],
    ids=lambda path: path.stem,
)
def test_a_scenario_meets_its_expectations(path, request):
    """The servers' own suites, one scenario after the other; every process has another seed of hashes."""
    result = played(path)

    assert result.failures == ()
    assert result.violations == ()
    text = path.read_text()
    if request.config.getoption("--rewrite", default=False):
        path.write_text(with_trace(text, result.trace))
        return
    assert result.trace == read_scenario(text).trace


@pytest.mark.long
def test_the_same_seed_gives_the_same_run():
    """R174: nothing but the seed decides."""
    path = FOLDER / "several-masters-die.txt"

    first, second, third = played(path), played(path), played(path, seed=99)

    assert first.stage.digest() == second.stage.digest()
    assert first.stage.digest() != third.stage.digest()
