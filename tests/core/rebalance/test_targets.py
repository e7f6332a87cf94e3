"""Limits, floors and hosts of slots that no tolerance can hide."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rebalance.goal.problem import Master, validate
from cluster_core.rebalance.goal.targets import find_targets
from tests.builders.rebalance_problems import problem
from tests.examples import examples


def test_one_heavy_slot_sets_the_floor_and_gets_a_master_of_its_own():
    """Slot 0 holds 60 of 100: no placement on four masters has less than 2.4 fair shares on one."""
    targets = find_targets(validate(problem([60] + [5] * 8, "aaabbbccd", "abcd")))

    assert targets.floors[0].ratio == Fraction(60, 25)
    assert [(h.slot, h.ratio, h.pieces) for h in targets.heavy] == [(0, Fraction(12, 5), 3)]
    assert targets.hosts == ((0, 0),)
    assert targets.caps[0] == (60,)


def test_even_slots_that_do_not_divide_evenly_relax_the_limit_for_all():
    """16384 even slots on 1000 masters: one holds 17, that is 1.0376 fair shares."""
    names = [f"n{n}" for n in range(1000)]
    targets = find_targets(
        validate(problem([1] * 16384, [names[s * 1000 // 16384] for s in range(16384)], [Master(n) for n in names]))
    )

    assert targets.relaxed == (Fraction(17000, 16384),)
    assert {cap for (cap,) in targets.caps} == {17}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=7), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_no_placement_is_below_the_floor(loads, weights):
    """The floor against every placement there is."""
    masters = [Master(str(n), weight=w) for n, w in enumerate(weights)]
    targets = find_targets(validate(problem(loads, ["0"] * len(loads), masters)))
    total = sum(loads)
    best = min(
        max(
            Fraction(sum(v for v, n in zip(loads, placed, strict=True) if n == m) * sum(weights), w * total)
            for m, w in enumerate(weights)
        )
        for placed in product(range(len(weights)), repeat=len(loads))
    ) if total else Fraction(1)  # fmt: skip

    assert targets.floors[0].ratio <= max(best, 1)


def test_a_zone_share_that_cannot_be_is_relaxed_to_the_smallest_that_can():
    """Two zones cannot both hold at most 40 %: 50 % is the least."""
    masters = [Master("a", zone="x"), Master("b", zone="x"), Master("c", zone="y"), Master("d", zone="y")]
    targets = find_targets(validate(problem([1] * 8, "aabbccdd", masters, zone_share_max=Fraction(2, 5))))

    assert targets.zone_share == Fraction(1, 2)
    assert targets.zone_relaxed


def test_what_excluded_masters_hold_counts_for_their_zone():
    """Half of the data stays in zone x: no plan brings it below a half."""
    masters = [
        Master("a", zone="x", excluded=True),
        Master("b", zone="x"),
        Master("c", zone="y"),
        Master("d", zone="y"),
    ]
    targets = find_targets(validate(problem([1] * 8, "aaaabbcd", masters, zone_share_max=Fraction(2, 5), tolerance=1)))

    assert (targets.zone_share, targets.zone_relaxed) == (Fraction(1, 2), True)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=6),
    st.lists(st.sampled_from("xyz"), min_size=2, max_size=3),
    st.sampled_from([Fraction(1, 10), Fraction(2, 5), Fraction(3, 5)]),
)
def test_no_placement_keeps_a_zone_share_below_the_relaxed_one(loads, zones, asked):
    """Every placement within the limits: the largest zone holds at least what a relaxed share says."""
    masters = [Master(str(n), zone=zone) for n, zone in enumerate(zones)]
    cluster = problem(loads, ["0"] * len(loads), masters, zone_share_max=asked, tolerance=1)
    targets = find_targets(validate(cluster))
    shares = []
    for placed in product(range(len(zones)), repeat=len(loads)):
        held = [sum(v for v, n in zip(loads, placed, strict=True) if n == m) for m in range(len(zones))]
        if all(load <= cap for load, (cap,) in zip(held, targets.caps, strict=True)):
            shares.append(max(sum(h for h, z in zip(held, zones, strict=True) if z == zone) for zone in set(zones)))

    assert targets.zone_share >= asked
    if targets.zone_relaxed and shares and not targets.heavy:
        assert targets.zone_share <= Fraction(min(shares), sum(loads))


def test_limits_are_what_whole_slots_can_add_up_to():
    """Twelve slots of 1000 on three masters, 30 % above the share: five slots, not 5200."""
    targets = find_targets(validate(problem([1000] * 12, "a" * 12, "abc", tolerance=Fraction(3, 10))))

    assert targets.caps == ((5000,),) * 3
