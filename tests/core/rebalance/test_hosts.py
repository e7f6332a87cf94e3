"""The bound where one slot is heavier than a limit: proven for whichever master is its host."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rebalance.bound.certificates import add_up
from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.bound.hosts import prove_hosts
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.outcome import certify_masters
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.covers import certify_hosts
from tests.builders.rebalance_problems import applied, problem
from tests.examples import examples


def least_with_any_host(scaled, targets):
    """The least that moves in placements in which one master, whichever, holds the heavy slot and all others keep the common limit."""
    heavy = {h.slot for h in targets.heavy}.pop()
    too_heavy = {h.resource for h in targets.heavy}
    loads, cost = list(zip(*scaled.loads, strict=True)), scaled.loads[scaled.cost]
    takers = range(len(scaled.masters))
    best = None
    for host in takers:
        room = [list(row) for row in targets.common]
        for r, name in enumerate(scaled.resources):
            if name in too_heavy:
                room[host][r] = max(room[host][r], scaled.loads[r][heavy])

        def place(s, moved, host=host, room=room):
            nonlocal best
            if best is not None and moved >= best:
                return
            if s == len(loads):
                best = moved
                return
            for n in [host] if s == heavy else takers:
                if all(load <= left for load, left in zip(loads[s], room[n], strict=True)):
                    room[n] = [left - load for load, left in zip(loads[s], room[n], strict=True)]
                    place(s + 1, moved + (cost[s] if n != scaled.owner[s] else 0))
                    room[n] = [left + load for load, left in zip(loads[s], room[n], strict=True)]

        place(0, 0)
    return best


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=6),
    st.integers(12, 40),
    st.integers(0, 9),
    st.data(),
)
def test_no_placement_with_any_host_moves_less_than_is_proven(loads, size, keys, data):
    """Every host and every placement there is."""
    loads = [(size, keys), *loads]
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(loads), max_size=len(loads)))
    cluster = problem(
        {"serialized_bytes": [b for b, _ in loads], "keys": [k for _, k in loads]},
        [str(n) for n in owners],
        "012",
        tolerance=0.4,
    )
    scaled = validate(cluster)
    targets = find_targets(scaled)
    certificates = certify_masters(scaled, targets)[0]
    proof = certify_hosts(scaled, targets, certificates)

    assert (proof is not None) == (len({h.slot for h in targets.heavy}) == 1)
    if proof is not None:
        best = least_with_any_host(scaled, targets)
        assert prove_hosts(scaled, targets, certificates, proof)
        assert best is None or proof.value <= best


GIANT = problem([600, *[10] * 60], "a" * 21 + "b" * 20 + "c" * 20, "abc", tolerance=0.2, iterations=20_000)
"""One slot of half of all, on a master that must give away all else."""


def test_what_the_host_gives_away_is_in_the_bound_and_checked_with_the_plan():
    """Without a word on the host nothing would have to move: its figure is the largest, and left out."""
    found = plan(GIANT)

    assert add_up(found.certificates, found.hosts_max) == 0
    assert found.bound == found.hosts.value == found.moved == 200
    assert check_plan(GIANT, found) == []


def test_a_slot_of_very_many_keys_goes_where_few_bytes_have_to_make_room_for_it():
    """At home 420 bytes would have to leave; the second master has 8."""
    cluster = problem(
        {"serialized_bytes": [2] + [60] * 7 + [2] * 4 + [69] * 8, "keys": [900] + [10] * 19},
        "aaaaaaaabbbbcccccccc",
        "abc",
        tolerance=0.7,
    )
    found = plan(cluster)

    assert found.owners_after[0] == "b"
    assert found.owners_after.count("b") == 1
    assert found.moved == 2 + 8
    assert check_plan(cluster, found) == []
    assert plan(applied(cluster, found.owners_after)).moves == ()


def test_a_proof_by_hosts_that_says_more_or_leaves_one_out_is_found_out():
    """Value and certificates each matter."""
    found = plan(GIANT)
    first, *others = found.hosts.certificates
    more = replace(first, value=first.value + 10)

    assert check_plan(GIANT, replace(found, hosts=replace(found.hosts, certificates=tuple(others)))) != []
    assert check_plan(GIANT, replace(found, hosts=replace(found.hosts, certificates=(more, *others)))) != []
    assert check_plan(GIANT, replace(found, hosts=replace(found.hosts, value=found.hosts.value + 1))) != []
