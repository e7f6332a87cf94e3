"""The order of moves: room for both copies, no master through zero slots, one job a pair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import PlanError
from cluster_core.rebalance.execution.cluster_now import MigrationPath
from cluster_core.rebalance.execution.effects import Journal, Send, Step, StepKind, read_journal
from cluster_core.rebalance.execution.situation import commands_of, remaining, waves
from cluster_core.rebalance.plan import Batch, Job, MasterRoom, Move, order_moves
from tests.builders.cluster_sights import SeenCluster, stored_plan

MOVES = [Move(slot, "a", "b", (10,)) for slot in (1, 2, 3, 7)] + [Move(20, "c", "b", (5,)), Move(30, "a", "d", (1,))]


def rooms(**limits: float) -> dict[str, MasterRoom]:
    """Four masters of ten slots and a load of 50 each."""
    return {name: MasterRoom((50.0,), {0: limits[name]} if name in limits else {}, 10) for name in "abcd"}


def test_one_job_a_pair_carries_all_its_ranges():
    """MIGRATESLOTS costs a fixed time a job, not a range; one job a source and a target at a time."""
    batches = order_moves(MOVES, rooms()).batches

    assert [[(job.source, job.target, job.slots) for job in batch.jobs] for batch in batches] == [
        [("a", "d", (30,)), ("c", "b", (20,))],
        [("a", "b", (1, 2, 3, 7))],
    ]
    assert batches[1].jobs[0].ranges == [(1, 3), (7, 7)]


SOME_MOVES = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from("abcd"), st.sampled_from("abcd"), st.integers(0, 30))
    .filter(lambda move: move[1] != move[2])
    .map(lambda move: Move(*move[:3], (move[3],))),
    unique_by=lambda move: move.slot,
    max_size=30,
)


@given(moves=SOME_MOVES, limit=st.integers(40, 90))
def test_batches_leave_room_for_both_copies_and_no_master_gives_and_takes(moves, limit):
    """b has *limit*; a master that gives and takes would revive its claim on slots that it gave; masters keep a slot."""
    order = order_moves(moves, rooms(b=limit))
    held, slots = dict.fromkeys("abcd", 50.0), dict.fromkeys("abcd", 10)
    for batch in order.batches:
        givers, takers = [job.source for job in batch.jobs], [job.target for job in batch.jobs]
        assert len({*givers, *takers}) == 2 * len(batch.jobs)
        for source, target, taken, loads in batch.jobs:
            assert target != "b" or held["b"] + loads[0] <= limit
            held[source], held[target] = held[source] - loads[0], held[target] + loads[0]
            slots[source], slots[target] = slots[source] - len(taken), slots[target] + len(taken)
        assert min(slots.values()) > 0

    done = [slot for batch in order.batches for job in batch.jobs for slot in job.slots]
    assert sorted([*done, *(move.slot for move in order.left)]) == sorted(move.slot for move in moves)


def test_moves_without_room_for_a_second_copy_are_left_out():
    """Two full masters cannot exchange slots; their moves do not block others."""
    order = order_moves([*MOVES[:1], MOVES[-1]], rooms(b=55))

    assert order.left == MOVES[:1]
    assert [job.slots for batch in order.batches for job in batch.jobs] == [(30,)]


def test_a_master_above_its_capacity_gives_away_first_and_gets_nothing_before():
    """Its jobs come before those of masters that are further above their fair share; a slot for it waits until it has room."""
    moves = [Move(1, "d", "a", (9,)), Move(2, "a", "b", (20,)), Move(3, "c", "b", (5,))]
    full = {
        **rooms(),
        "a": MasterRoom((50.0,), {0: 40.0}, 10, excess=0.1),
        "c": MasterRoom((50.0,), {}, 10, excess=3.0),
    }
    order = order_moves(moves, full)

    assert order.left == []
    assert [[job.slots for job in batch.jobs] for batch in order.batches] == [[(2,)], [(3,), (1,)]]


def test_a_master_that_stays_keeps_a_slot_until_it_gets_another():
    """An emptied master becomes a replica; a drained one may."""
    swap = [Move(1, "a", "b", (1,)), Move(2, "b", "a", (1,))]
    room = {"a": MasterRoom((1.0,), {}, 1), "b": MasterRoom((9.0,), {}, 9)}
    batches = order_moves(swap, room).batches

    assert [[job.source for job in batch.jobs] for batch in batches] == [["b"], ["a"]]
    assert order_moves(swap[:1], room).left == swap[:1]
    assert len(order_moves(swap[:1], room | {"a": MasterRoom((1.0,), {}, 1, stays=False)}).batches) == 1


def test_a_move_between_unknown_nodes_is_refused():
    """The plan and the topology must be of one cluster."""
    with pytest.raises(PlanError, match="not there: z"):
        order_moves([Move(1, "a", "z", (1,))], rooms())


BATCH = Batch(1, (Job("a", "b", (1, 2, 3, 7), (40.0,)), Job("a", "c", (9,), (1.0,))))


@pytest.mark.parametrize(
    ("path", "commands"),
    [
        (
            MigrationPath.VALKEY_JOBS,  # one a source: SLOTSRANGE first last … NODE id, repeated for each target
            [("a", "CLUSTER MIGRATESLOTS SLOTSRANGE 1 3 7 7 NODE b SLOTSRANGE 9 9 NODE c")],
        ),
        (
            MigrationPath.REDIS_IMPORT,
            [("b", "CLUSTER MIGRATION IMPORT 1 3 7 7"), ("c", "CLUSTER MIGRATION IMPORT 9 9")],
        ),
    ],
)
def test_server_side_migrations_take_few_commands(path, commands):
    assert commands_of(BATCH, path) == [Send(node, tuple(command.split())) for node, command in commands]


@given(moves=SOME_MOVES)
def test_no_master_gives_and_takes_at_the_same_time(moves):
    """A receiver's new config epoch would make its old claim on its given slots win."""
    jobs = [Job(move.source, move.target, (move.slot,), (1.0,)) for move in moves]
    groups = waves(jobs)

    assert sorted(job for group in groups for job in group) == sorted(jobs)
    for group in groups:
        givers, takers = [job.source for job in group], [job.target for job in group]
        assert not set(givers) & set(takers)


def test_slots_of_sources_are_left_forwards_and_slots_of_targets_backwards():
    """The batch keeps its number; loads are those of the slots that are left."""
    stored = stored_plan(SeenCluster(), [(1, "a", "b"), (2, "a", "b"), (3, "a", "c")])
    owners = ["b" if slot == 1 else owner for slot, owner in enumerate(stored.problem.owners)]

    def journal(slots: str) -> Journal:
        """These slots arrived at b; the move of slot 3 to c has no recorded end."""
        return read_journal([Step(StepKind.DONE, 1, "a", "b", slots), Step(StepKind.INTENT, 2, "a", "c", "3")])

    forward, backward = remaining(stored, owners), remaining(stored, owners, back=journal("1"))

    assert [(b.number, [tuple(j) for j in b.jobs]) for b in forward] == [
        (1, [("a", "c", (3,), (10.0,))]),
        (2, [("a", "b", (2,), (10.0,))]),
    ]
    assert [[j[:3] for j in b.jobs] for b in backward] == [[("b", "a", (1,))]]
    assert remaining(stored, stored.plan.owners_after) == []
    assert remaining(stored, owners, back=journal("2")) == []  # another operator moved it
