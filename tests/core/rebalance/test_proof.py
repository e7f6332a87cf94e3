"""The proof of the bound in figures: it adds up, and no set of slots that a master could give away is lighter."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from cluster_core.rebalance.bound.certificates import add_up, needs
from cluster_core.rebalance.bound.proof import Argument, explain_bound
from cluster_core.rebalance.goal.problem import Master, Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.planner import plan
from tests.builders.rebalance_problems import problem, random_problem


def explained(request: Problem) -> list[Argument]:
    """The arguments of the plan for *request*."""
    return explain_bound(request, plan(request))


@pytest.mark.parametrize("seed", range(6))
def test_what_the_prices_prove_is_what_is_claimed_or_less_by_a_search(seed: int) -> None:
    """price x excess less the rebate, rounded up to whole units, is the figure; only a search may prove more."""
    told = explained(random_problem(seed, 3, 60, skew=0.7, iterations=200))
    assert told
    for one in told:
        proven = -(-(one.priced - one.rebate) // 1)

        assert one.priced == sum((one.over[name] * one.prices[name] for name in one.over), Fraction(0))
        assert one.least == proven if one.kind == "prices" else one.least >= proven


@pytest.mark.parametrize("seed", range(4))
def test_no_slots_that_cover_the_excess_are_lighter(seed: int) -> None:
    """All subsets of a master with few slots, by brute force."""
    request = random_problem(seed, 2, 18, skew=0.6, iterations=100)
    scaled = validate(request)
    targets = find_targets(scaled)
    found = explained(request)

    assert found
    for one in found:
        n = [master.id for master in request.masters].index(one.node)
        slots = [slot for slot, owner in enumerate(scaled.owner) if owner == n]
        need = needs(scaled, targets, n, slots)
        lightest = min(
            sum(scaled.loads[scaled.cost][slot] for slot in taken)
            for size in range(len(slots) + 1)
            for taken in combinations(slots, size)
            if all(sum(load[slot] for slot in taken) >= e for load, e in zip(scaled.loads, need, strict=True))
        )
        assert one.least <= lightest


def test_the_figures_add_up_to_the_bound_of_the_plan() -> None:
    """Different masters give away different slots."""
    request = random_problem(5, 4, 80, skew=0.7, iterations=200)
    made = plan(request)

    assert add_up(made.certificates, made.hosts_max) == made.bound
    if not made.hosts_max:
        assert sum(one.least for one in explain_bound(request, made)) * made.unit == made.bound


def test_a_drained_master_gives_away_all_it_has() -> None:
    """No prices are needed."""
    request = problem([5, 7, 1, 1], "aabb", [Master("a", drained=True), Master("b"), Master("c")], iterations=100)
    one = next(one for one in explained(request) if one.node == "a")

    assert (one.kind, one.least, one.prices) == ("drained", 12, {"serialized_bytes": 0})


def test_fractions_of_loads_are_told_in_the_units_of_the_loads() -> None:
    """Loads that are not whole are counted in smaller units inside; nobody should see those."""
    whole = problem([8, 8, 8, 8, 1, 1], "aaaabb", "ab", iterations=100)
    halved = problem({"serialized_bytes": [4.0, 4.0, 4.0, 4.0, 0.5, 0.5]}, "aaaabb", "ab", iterations=100)

    assert [2 * one.least for one in explained(halved)] == [one.least for one in explained(whole)]
