"""A plan as a document and back."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from cluster_core.errors import PlanError
from cluster_core.rebalance.check import check_plan
from cluster_core.rebalance.plan import Batch, Job, MasterRoom, order_moves
from cluster_core.rebalance.planner import make_plan
from cluster_core.rebalance.stored_plan import PlannedNode, identify, read_document, slot_rows, write_document
from tests.builders.rebalance_problems import random_problem

MASTERS = 4
PROBLEM = replace(
    random_problem(7, MASTERS, 300, skew=0.9), pinned=(3, 5), tolerance={"serialized_bytes": 0.02, "keys": 0.05, "ops": Fraction(1, 3)},
    slot_cost=Fraction(1, 7), headroom=0.25,
)  # fmt: skip
NODES = [PlannedNode(master.id, f"h:{n}", "z", n) for n, master in enumerate(PROBLEM.masters)]


@cache
def planned():
    return make_plan(PROBLEM)


def read(document, rows):
    return read_document(document, rows, plan_id="4f2a", snapshot_id="s", state_hash="h", created_at_ms=5)


@pytest.mark.long
def test_a_plan_comes_back_as_it_was():
    rooms = {master.id: MasterRoom((0.0,) * 3, {}, 300) for master in PROBLEM.masters}
    batches = order_moves(planned().moves, rooms).batches
    document, rows = write_document(PROBLEM, planned(), batches, NODES), slot_rows(PROBLEM, planned())
    back = read(document, rows)

    assert back.plan == planned()
    assert (len(back.plan.moves) > 0, back.has_headroom) == (True, True)
    assert back.batches == tuple(batches)
    assert (back.nodes, back.created_at_ms) == (tuple(NODES), 5)
    assert check_plan(back.problem, back.plan) == []
    assert write_document(back.problem, back.plan, back.batches, back.nodes) == document
    assert identify(document, slot_rows(back.problem, back.plan)) == identify(document, rows)


@pytest.mark.long
def test_another_load_or_owner_is_another_plan():
    document, rows = write_document(PROBLEM, planned(), [], NODES), slot_rows(PROBLEM, planned())
    other = [rows[0]._replace(loads={**rows[0].loads, "keys": rows[0].loads["keys"] + 1}), *rows[1:]]
    moved = [rows[0]._replace(owner=rows[-1].owner), *rows[1:]]

    made = [(document, rows), (document, other), (document, moved), (document + " ", rows)]
    assert len({identify(*document) for document in made}) == 4


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("plan"),
        lambda document: document["plan"].update(bogus=1),
        lambda document: document["plan"].update(reach=[["x"]]),
        lambda document: document["problem"].update(tolerance="1/0"),
        lambda document: document.update(batches=[[["a", "b", [[0, 999]]]]]),
        lambda document: document.update(resources=["nothing"]),
    ],
)
def test_a_damaged_document_is_refused(spoil):
    document = json.loads(write_document(PROBLEM, planned(), [Batch(1, (Job("a", "b", (1,), (1.0,)),))], NODES))
    spoil(document)

    with pytest.raises(PlanError, match="plan 4f2a"):
        read(json.dumps(document), slot_rows(PROBLEM, planned()))


@pytest.mark.parametrize(("version", "age"), [(2, "an earlier"), (99, "a later")])
def test_a_plan_of_another_version_is_refused_with_advice(version, age):
    with pytest.raises(PlanError) as refused:
        read(json.dumps({"version": version, "plan": {}}), [])

    assert str(refused.value) == (
        f"plan 4f2a was made by {age} version and cannot be read: make a new plan "
        "(slotscope rebalance HOST:PORT --new, or slotscope plan make)"
    )
