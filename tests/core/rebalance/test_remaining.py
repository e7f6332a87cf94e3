"""What is left of a plan, and which of it may run at the same time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster_core.rebalance.execution.journal import Journal, Step, StepKind, read_journal
from cluster_core.rebalance.execution.remaining import Path, remaining, seconds_of, waves
from cluster_core.rebalance.ordering import Job
from cluster_core.slots.key_slot import SLOT_COUNT
from tests.builders.cluster_sights import SeenCluster, stored_plan

JOBS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"))
    .filter(lambda ends: ends[0] != ends[1])
    .map(lambda ends: Job(*ends, (1,), (1.0,))),
    max_size=12,
)


@given(jobs=JOBS, once=st.booleans())
def test_no_master_gives_and_takes_at_the_same_time(jobs, once):
    """A receiver's new config epoch would make its old claim on what it gives away win; Redis 8.4 has one task a server."""
    groups = waves(jobs, once=once)

    assert sorted(job for group in groups for job in group) == sorted(jobs)
    for group in groups:
        givers, takers = [job.source for job in group], [job.target for job in group]
        assert not set(givers) & set(takers)
        assert not once or len({*givers, *takers}) == 2 * len(group)


def moved(slots: str) -> Journal:
    """Slots that arrived at b, and 3, of whose way to c no end is written."""
    return read_journal([Step(StepKind.DONE, 1, "a", "b", slots), Step(StepKind.INTENT, 2, "a", "c", "3")])


def plan_of_three():
    """Two batches: a to b, then a to c."""
    cluster = SeenCluster(["abc"[slot * 3 // SLOT_COUNT] for slot in range(SLOT_COUNT)], "abc")
    return stored_plan(cluster, [(1, "a", "b"), (2, "a", "b"), (3, "a", "c")])


def test_what_sources_own_is_left_forwards_and_what_targets_own_backwards():
    """The batch keeps its number; loads are those of the slots that are left."""
    stored = plan_of_three()
    owners = list(stored.problem.owners)
    owners[1] = "b"

    forward, backward = remaining(stored, owners), remaining(stored, owners, back=moved("1"))

    assert [(b.number, [(j.source, j.target, j.slots, j.loads) for j in b.jobs]) for b in forward] in (
        [(1, [("a", "b", (2,), (10.0,))]), (2, [("a", "c", (3,), (10.0,))])],
        [(1, [("a", "c", (3,), (10.0,))]), (2, [("a", "b", (2,), (10.0,))])],
    )
    assert [[(j.source, j.target, j.slots) for j in b.jobs] for b in backward] == [[("b", "a", (1,))]]
    assert remaining(stored, stored.plan.owners_after) == []
    assert remaining(stored, owners, back=moved("2")) == []  # it came there by somebody else


def test_backwards_the_last_batch_comes_first():
    """So that every state on the way is one that was there before."""
    stored = plan_of_three()

    assert [batch.number for batch in remaining(stored, stored.plan.owners_after, back=moved("1-2"))] == [2, 1]


def test_the_time_follows_the_path():
    """Key by key costs by slot, the servers' own migrations by job."""
    stored = plan_of_three()
    by_job = seconds_of(stored, stored.batches, Path.VALKEY_JOBS)

    assert [round(seconds, 2) for seconds in by_job] == [0.21, 0.21]
    assert seconds_of(stored, stored.batches, Path.LEGACY) != by_job
