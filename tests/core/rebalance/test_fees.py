"""The bound by fees: whoever takes in a slot that fits nowhere gives others away, and no placement is cheaper than what is proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rebalance.bound.certificates import ProofKind, add_up, make_cover
from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.bound.cover import CASES_MAX, least
from cluster_core.rebalance.bound.fees import prove_fees
from cluster_core.rebalance.goal.problem import Master, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.outcome import certify_masters
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.fees import FeeSearch
from tests.builders.rebalance_problems import problem, random_problem
from tests.examples import examples


def searched(cluster):
    """The problem as the search takes it, and what it found."""
    scaled = validate(cluster)
    targets = find_targets(scaled)
    return scaled, targets, FeeSearch(scaled, targets)


def optimum(cluster):
    """The least that moves, by trying every placement within the limits; None where there is none."""
    scaled = validate(cluster)
    room = [list(row) for row in find_targets(scaled).caps]
    takers = [n for n, m in enumerate(scaled.masters) if not m.drained and not m.excluded]
    loads, cost = list(zip(*scaled.loads, strict=True)), scaled.loads[scaled.cost]

    def best_from(s):
        if s == len(loads):
            return 0
        found = []
        for n in [scaled.owner[s]] if s in scaled.fixed else takers:
            if all(load <= left for load, left in zip(loads[s], room[n], strict=True)):
                room[n] = [left - load for load, left in zip(loads[s], room[n], strict=True)]
                rest = best_from(s + 1)
                room[n] = [left + load for load, left in zip(loads[s], room[n], strict=True)]
                if rest is not None:
                    found.append(rest + (cost[s] if n != scaled.owner[s] else 0))
        return min(found, default=None)

    return best_from(0)


@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=7),
    st.sampled_from([0.1, 0.3, 0.6, 1.0]),
    st.data(),
)
def test_no_placement_within_the_limits_moves_less_than_the_fees_prove(loads, tolerance, data):
    """Every placement there is; a master may be drained, a slot pinned."""
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(loads), max_size=len(loads)))
    drained = data.draw(st.booleans())
    free = [s for s, n in enumerate(owners) if n != 2 or not drained]
    cluster = problem(
        {"serialized_bytes": [b for b, _ in loads], "keys": [k for _, k in loads]},
        [str(n) for n in owners],
        [Master(str(n), drained=drained and n == 2) for n in range(3)],
        tolerance=tolerance,
        pinned=data.draw(st.lists(st.sampled_from(free), max_size=1)) if free else [],
    )
    scaled, targets, search = searched(cluster)
    best = optimum(cluster)

    if search.proof is None:
        assert search.bulky == [] or targets.heavy
    else:
        assert prove_fees(scaled, targets, search.proof)
        assert best is None or search.proof.value <= best


CROWDED = problem([60, 30, 28, 22, 20, 18, 16, 21, 22, 23], "aaabbbbccc", "abc", tolerance=0.05, iterations=2000)
"""Master a must give its heaviest slot away, or two others; nobody has room for either."""


def test_what_must_make_room_for_a_slot_is_counted():
    """The certificates let slots leave into thin air; the fees do not, and reach the optimum of every placement there is."""
    scaled, targets, search = searched(CROWDED)
    alone = add_up(certify_masters(scaled, targets)[0], 0)

    assert prove_fees(scaled, targets, search.proof)
    assert alone < search.proof.value <= optimum(CROWDED)


def test_two_slots_on_one_host_may_share_what_they_displace():
    """One slot of 50 makes room for two of 25: the bound does not count it twice."""
    cluster = problem(
        {"serialized_bytes": [25, 26, 50, 75, 50, 50, 50, 24], "keys": [1, 1, 1, 1, 1, 1, 1, 1]},
        "aaabcdde",
        "abcde",
        tolerance={"serialized_bytes": 0.08, "keys": 3},
    )
    scaled, targets, search = searched(cluster)
    best = optimum(cluster)

    assert best is not None
    assert search.proof is None or (prove_fees(scaled, targets, search.proof) and search.proof.value <= best)


def test_a_proof_that_says_more_or_leaves_out_a_master_is_found_out():
    """Value, fees and certificates each matter."""
    scaled, targets, search = searched(CROWDED)
    proof = search.proof
    first, *others = proof.certificates

    assert prove_fees(scaled, targets, proof)
    assert not prove_fees(scaled, targets, replace(proof, value=proof.value + 1))
    assert not prove_fees(scaled, targets, replace(proof, certificates=tuple(others)))
    assert not prove_fees(scaled, targets, replace(proof, certificates=(*proof.certificates, first)))
    assert not prove_fees(
        scaled, targets, replace(proof, certificates=(replace(first, value=first.value + 1), *others))
    )
    assert not prove_fees(scaled, targets, replace(proof, fees=(*proof.fees, proof.fees[0])))
    assert not prove_fees(scaled, targets, replace(proof, fees=((99, 1),)))
    assert not prove_fees(scaled, targets, replace(proof, fees=tuple((s, -fee - 1) for s, fee in proof.fees)))


def test_slots_heavier_than_a_limit_have_no_proof_by_fees():
    """Their hosts may hold more than the common limit."""
    cluster = problem([90, 5, 5, 5, 5, 10], "aaabbc", "abc", tolerance=0.05)
    scaled, targets, search = searched(cluster)

    assert targets.heavy
    assert search.proof is None
    assert not prove_fees(scaled, targets, searched(CROWDED)[2].proof)


@pytest.mark.parametrize(
    "tree", [(), (0,), (0, -1), (0, -1, -1, -1), (0, 0, -1, -1, -1), (7, -1, -1), (-2,), (-1,) * (CASES_MAX + 1)]
)
def test_a_tree_that_leaves_out_a_case_or_names_what_is_not_there_proves_nothing(tree):
    """Every case is closed once, by a list that there is."""
    scaled = validate(CROWDED)
    cover = make_cover(scaled, [0, 1, 2], [10])

    assert least(cover, [(1 << 60,)], (0, -1, -1)) is not None
    assert least(cover, [(1 << 60,)], tree) is None
    assert least(cover, [(-1,)], (-1,)) is None
    assert least(cover, [(1, 1)], (-1,)) is None


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_plan_carries_its_proof_by_fees_and_is_checked_with_it(seed):
    """Many masters of some slots each, a few of them too heavy for any room."""
    cluster = random_problem(seed, 12, 900, skew=0.75, tolerance=0.05, iterations=400_000)
    found = plan(cluster)

    assert check_plan(cluster, found) == []
    assert found.fees is not None
    assert found.bound == found.fees.value > add_up(found.certificates, found.hosts_max)
    assert {certificate.kind for certificate in found.certificates} & {ProofKind.CASES, ProofKind.PRICES}
    raised = replace(found, fees=replace(found.fees, value=found.fees.value + found.fees.value // 50))
    assert check_plan(cluster, raised) != []
