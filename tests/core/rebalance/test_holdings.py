"""Heavy slots among many masters go where each master, as a whole, has room for them; and what that proves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.rebalance import Case, hot_tags, zipf_problem
from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.bound.fees import FEES_MAX, prove_fees
from cluster_core.rebalance.goal.problem import Master, Problem, Scaled, validate
from cluster_core.rebalance.goal.targets import Targets, find_targets
from cluster_core.rebalance.plan import Plan, PlanVerdict
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.holdings import Holdings
from cluster_core.rebalance.search.layout import Layout
from cluster_core.rebalance.search.slot_fees import SlotFees
from tests.builders.rebalance_problems import random_problem

WHOLE = 10_000
RESOURCES = ("serialized_bytes", "keys", "ops")


def laid_out(cluster: Problem) -> tuple[Scaled, Targets, Layout]:
    scaled = validate(cluster)
    targets = find_targets(scaled)
    return scaled, targets, Layout(ProblemArrays(scaled, targets))


def crowded(seed: int, masters: int = 6, heavy: int = 14, light: int = 30) -> Problem:
    """Heavy slots of a tenth to half a master each, on masters of many light ones."""
    chance = random.Random(seed)
    rows = [[chance.randrange(20, 60) for _ in RESOURCES] for _ in range(masters * light)]
    for s in chance.sample(range(len(rows)), heavy):
        rows[s] = [int(40 * light * chance.uniform(0.1, 0.5)) for _ in RESOURCES]
    names = [f"n{k}" for k in range(masters)]
    loads = {name: [row[r] for row in rows] for r, name in enumerate(RESOURCES)}
    return Problem(loads, [names[s // light] for s in range(len(rows))], [Master(n) for n in names], tolerance=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_no_plan_moves_less_than_the_fees_of_all_slots_prove_and_every_change_of_the_proof_is_found_out(
    seed: int,
) -> None:
    cluster = crowded(seed)
    scaled, targets, layout = laid_out(cluster)
    proof = Holdings(layout).fees()
    found = plan(cluster)

    assert proof is not None
    assert prove_fees(scaled, targets, proof)
    assert found.verdict is PlanVerdict.MOVE
    assert 0 < proof.value <= found.moved
    assert not prove_fees(scaled, targets, replace(proof, value=proof.value + 1))
    assert not prove_fees(scaled, targets, replace(proof, prices=proof.prices[1:]))
    assert not prove_fees(scaled, targets, replace(proof, prices=(-1, *proof.prices[1:])))
    assert not prove_fees(scaled, targets, replace(proof, certificates=proof.certificates[1:]))
    assert not prove_fees(scaled, targets, replace(proof, fees=tuple((s, 1) for s in range(FEES_MAX + 1))))


@pytest.mark.parametrize("seed", range(4))
def test_fees_of_all_slots_prove_no_less_than_the_prices_that_they_come_from(seed: int) -> None:
    """But for what bundles of light slots, as one master sees them, hide: a hundredth."""
    _, _, layout = laid_out(random_problem(seed, 8, 1_600, skew=0.9, tolerance=0.02))
    search = Holdings(layout)
    joint, fees = search.proof(), search.fees()

    assert joint is not None
    assert fees is not None
    assert fees.value >= 0.99 * joint.value


@pytest.mark.long
def test_prices_that_suit_the_placement_prove_more_than_those_where_heavy_slots_are_divided() -> None:
    _, _, layout = laid_out(hot_tags(30, 60, 2))
    search = Holdings(layout)
    divided = SlotFees(layout, search.lists, search.root, search.heavy)
    divided.search()
    fees = search.fees()

    assert fees is not None
    assert fees.value > 1.01 * divided.proof().value


def test_heavy_slots_that_only_fit_in_pairs_are_paired() -> None:
    """Each of 20 masters holds two slots of the same size; only a light one with a heavy one keeps the limits."""
    masters, light = 20, 60
    hot = [600] * (masters // 2) + [400] * (masters // 2)
    rows = [(40, hot[k]) for k in range(masters) for _ in range(2)]
    owners = [k for k in range(masters) for _ in range(2)] + [k for k in range(masters) for _ in range(light)]
    loads = {"serialized_bytes": [row[0] for row in rows] + [50] * (masters * light)}
    loads["ops"] = [row[1] for row in rows] + [10] * (masters * light)
    nodes = [Master(f"n{k:02}") for k in range(masters)]
    _, _, layout = laid_out(Problem(loads, [nodes[n].id for n in owners], nodes, tolerance=0.02))
    decided = Holdings(layout).decided()

    held = [0] * masters
    for s, n in decided.items():
        held[n] += loads["ops"][layout.slots[s]]
    assert len(decided) == 2 * masters
    assert max(held) == 1_000
    assert sum(1 for s, n in decided.items() if layout.home[s] != n) <= masters + 4


def test_where_no_slot_is_heavy_prices_alone_are_proven_and_light_slots_are_placed() -> None:
    _, _, layout = laid_out(random_problem(3, 4, 2_000, skew=0.1, empty=1))
    search = Holdings(layout)

    assert search.heavy == []
    assert search.decided() == {}
    assert search.fees() is None
    assert search.proof() is not None
    assert search.parts().sum(1) == pytest.approx(1.0)


def near(cluster: Problem, most: float) -> Plan:
    """Its plan, which keeps all limits, holds in its check, and moves at most that part more than is proven before any budget is spent."""
    found = plan(replace(cluster, bytes_budget=0))
    assert found.verdict is not PlanVerdict.CLOSER
    assert check_plan(replace(cluster, bytes_budget=0), found) == []
    assert found.gap is not None
    assert found.gap <= most
    return found


@pytest.mark.long
def test_hot_tags_on_many_masters_move_little_more_than_is_proven() -> None:
    assert near(hot_tags(20, 40, 1), 0.08).fees is not None


@pytest.mark.long
@pytest.mark.parametrize("masters", [16, *(pytest.param(m, marks=pytest.mark.slow) for m in (13, 20, 30))])
def test_slots_above_a_limit_displace_little_more_than_is_proven(masters: int) -> None:
    case = Case("", masters, 1.0, 0.0, 0.02, 5, 10)
    cluster = zipf_problem(case, 2)
    two = {name: cluster.loads[name] for name in ("serialized_bytes", "keys")}

    assert near(replace(cluster, loads=two), 0.05).heavy


@pytest.mark.long
def test_limits_that_heavy_slots_fill_almost_wholly_are_kept() -> None:
    """Masters that could each hold six slots of `WHOLE` in every resource, all slots shuffled over them; and light ones."""
    chance, masters, heavy, light = random.Random(2), 4, 6, 450
    rows = [(2, 2, 2)] * (masters * light)
    for _ in range(masters):
        cuts = [[0, *sorted(chance.sample(range(1, WHOLE), heavy - 1)), WHOLE] for _ in RESOURCES]
        rows += [tuple(cut[k + 1] - cut[k] for cut in cuts) for k in range(heavy)]  # type: ignore[misc]
    chance.shuffle(rows)
    names = [f"n{k}" for k in range(masters)]
    loads = {name: [row[r] for row in rows] for r, name in enumerate(RESOURCES)}
    owners = [names[s * masters // len(rows)] for s in range(len(rows))]
    cluster = Problem(loads, owners, [Master(n) for n in names], tolerance=0.01, bytes_budget=0, iterations=200_000)
    found = plan(cluster)

    assert found.verdict == PlanVerdict.MOVE
    assert check_plan(cluster, found) == []
