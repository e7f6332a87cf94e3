"""What a plan means for clients, targets, other tools, and clusters of another size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.rebalance.consequences import (
    batch_peaks,
    lopsided_slots,
    moves_by_slot_count,
    other_counts,
    slots_reply,
)
from cluster_core.rebalance.goal.problem import Master
from cluster_core.rebalance.ordering import Batch, Job
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.reader import read_topology
from tests.builders.cluster_sights import SeenCluster, stored_plan, thirds

A, B = "a" * 40, "b" * 40


def planned():
    """Three masters with a third of the slots each, 10 bytes a slot."""
    names = [letter * 40 for letter in "abc"]
    return stored_plan(SeenCluster(thirds(names), names), ())


@pytest.mark.long
def test_a_client_is_sent_one_entry_a_range_so_that_shreds_cost_bytes():
    stored = planned()
    whole = stored.problem.owners
    shredded = [stored.nodes[slot % 2].id for slot in range(SLOT_COUNT)]

    few, many = len(slots_reply(stored, whole)), len(slots_reply(stored, shredded))

    name = b"$40\r\n" + b"a" * 40 + b"\r\n"
    entry = len(b"*3\r\n:16383\r\n:16383\r\n*4\r\n" + name + b":1\r\n" + name + b"*0\r\n")
    assert 2 * entry < few <= 3 * entry + 20
    assert many / SLOT_COUNT == pytest.approx(entry, rel=0.02)


@pytest.mark.parametrize(
    ("counts", "moved"),
    [((8192, 8192), 0), ((8300, 8084), 0), ((9000, 7384), 808), ((16384, 0), 0), ((4293 + 8192, 8192 - 4293), 4293)],
)
def test_a_tool_that_counts_slots_moves_what_is_over_the_mean_and_nothing_within_two_per_cent(counts, moved):
    """The figures are those of redis-cli 7.0.15 itself."""
    owners = [name for name, count in zip((A, B), counts, strict=True) for _ in range(count)]

    found = moves_by_slot_count(owners, (A, B))

    assert found.slots == moved


def test_while_a_batch_runs_its_targets_hold_what_arrives_beside_all_they_had():
    """The second batch begins with what the first left behind."""
    stored = planned()
    first, second = stored.nodes[0].id, stored.nodes[1].id
    batches = (Batch(1, (Job(first, second, (0, 1), (20.0,)),)), Batch(2, (Job(second, first, (0,), (10.0,)),)))
    masters = [
        replace(m, capacity={"serialized_bytes": 200_000} if m.id == second else {}) for m in stored.problem.masters
    ]
    held = {n: 10.0 * stored.problem.owners.count(n) for n in (first, second)}

    peaks = batch_peaks(replace(stored, problem=replace(stored.problem, masters=masters), batches=batches))

    assert [(one.batch, one.target, one.held, one.arrives, one.capacity) for one in peaks] == [
        (1, second, held[second], 20.0, 200_000.0),
        (2, first, held[first] - 20.0, 10.0, None),
    ]
    assert peaks[0].peak == held[second] + 20.0


def test_one_master_more_takes_an_even_share_and_one_fewer_gives_all_it_has():
    stored = planned()
    masters = len(stored.nodes)

    more, fewer = other_counts(stored)

    total = 10.0 * SLOT_COUNT
    assert (more.masters, more.fair["serialized_bytes"]) == (masters + 1, total / (masters + 1))
    assert more.least == pytest.approx(total / (masters + 1), rel=0.1)
    assert more.least <= total / (masters + 1)
    assert (fewer.masters, fewer.fair["serialized_bytes"]) == (masters - 1, total / (masters - 1))
    held = {node.id: 10.0 * stored.plan.owners_after.count(node.id) for node in stored.nodes}
    assert fewer.least == held[fewer.leaves] == min(held.values())


def test_a_resource_that_those_left_could_not_hold_is_named():
    stored = planned()
    masters = [
        replace(m, capacity={"serialized_bytes": 1.2 * 10 * SLOT_COUNT / len(stored.nodes)})
        for m in stored.problem.masters
    ]

    more, fewer = other_counts(replace(stored, problem=replace(stored.problem, masters=masters)))

    assert more.short == ()
    assert fewer.short == ("serialized_bytes",)
    assert fewer.least is None


def test_of_two_masters_none_is_said_to_leave():
    stored = planned()
    two = stored.nodes[:2]
    owners = [two[slot % 2].id for slot in range(SLOT_COUNT)]
    problem = replace(stored.problem, owners=owners, masters=[Master(node.id) for node in two])

    found = other_counts(
        replace(stored, problem=problem, plan=replace(stored.plan, owners_after=tuple(owners)), nodes=two)
    )

    assert [one.masters for one in found] == [3]


def test_the_reply_that_is_counted_is_one_that_clients_read():
    """Its entries name the owners that were given."""
    stored = planned()

    topology = read_topology(slots_reply(stored, stored.problem.owners))

    assert topology.slot_map().owners() == list(stored.problem.owners)


def test_a_slot_is_lopsided_that_weighs_much_in_one_resource_and_little_in_another():
    stored = planned()
    sizes, keys = [10] * SLOT_COUNT, [1] * SLOT_COUNT
    sizes[5], sizes[6], keys[6] = 40_000, 40_000, 4_000
    loads = {"serialized_bytes": sizes, "keys": keys}

    found = lopsided_slots(replace(stored, problem=replace(stored.problem, loads=loads)))

    assert [(one.slot, one.resource, one.other) for one in found] == [(5, "serialized_bytes", "keys")]
    assert found[0].share == pytest.approx(40_000 / (sum(sizes) / 3))
    assert found[0].beside == pytest.approx(1 / (sum(keys) / 3))
