"""Heavy slots go where windows of neighbouring slots fill the rest."""

from __future__ import annotations

import pytest

from cluster_core.rebalance.goal.problem import Master, Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import count_ranges
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.layout import Layout
from cluster_core.rebalance.search.mixture import mix

SLOTS, HEAVY = 2000, 900
BYTES, KEYS = (300, 700), (1300, 1700)
"""Slots heavy in bytes are all with the first master, those heavy in keys with the second."""


def one_sided(pinned: tuple[int, ...] = ()) -> Problem:
    """Two masters, each with two slots that are nearly half of what it may have of one resource, and a thousand light ones."""
    loads = {
        "serialized_bytes": [HEAVY if s in BYTES else 1 for s in range(SLOTS)],
        "keys": [HEAVY if s in KEYS else 1 for s in range(SLOTS)],
    }
    owners = ["a" if s < SLOTS // 2 else "b" for s in range(SLOTS)]
    return Problem(loads, owners, [Master("a"), Master("b")], tolerance=0.02, pinned=pinned)


@pytest.mark.parametrize("pinned", [(), (5, BYTES[0], KEYS[1])])
def test_one_heavy_slot_of_each_kind_changes_places_so_that_no_light_slot_must_be_picked(
    pinned: tuple[int, ...],
) -> None:
    scaled = validate(one_sided(pinned))
    arrays = ProblemArrays(scaled, find_targets(scaled))
    layout = Layout(arrays)

    placed = mix(layout, float("inf"), 4)

    assert placed is not None
    at = layout.outside(placed)
    assert arrays.judge(at).over < 2  # nothing had to be picked
    assert count_ranges(at) <= 6
    assert len({at[s] for s in BYTES}) == len({at[s] for s in KEYS}) == 2
    assert all(at[s] == scaled.owner[s] for s in pinned)


def test_no_more_moves_than_the_budget_allows_but_for_what_must_be_picked() -> None:
    """With a budget for one heavy slot and little more, it is that slot which moves, and few others."""
    scaled = validate(one_sided())
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))
    budget = 1.05 * HEAVY / float(layout.mean[scaled.cost])

    placed = mix(layout, budget, 4)

    assert placed is not None
    moved = sum(layout.rows[s][scaled.cost] for s, home in enumerate(layout.home) if placed[s] != home)
    assert moved <= budget + 2
