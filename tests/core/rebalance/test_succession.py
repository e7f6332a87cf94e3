"""Failovers between runs of a plan: the successor of each node, and the plan with current ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cluster_core.rebalance.execution.cluster_now import ClusterSight, NodeSight
from cluster_core.rebalance.execution.effects import (
    Ask,
    Look,
    Lost,
    Note,
    Refused,
    Send,
    Step,
    StepKind,
    Steps,
    read_journal,
)
from cluster_core.rebalance.execution.machine import Execution, Verdict
from cluster_core.rebalance.execution.situation import Present, Settings, foresee, see, successors
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from tests.builders.cluster_sights import SeenCluster, slots_by_owner, stored_plan, thirds

NOTHING = read_journal([])
GROUP = [Step(StepKind.INTENT, 1, "a", "b", "1-4")]


def failed_over(*, a_is_back: bool, held: Sequence[str] = (), importing: Sequence[int] = ()) -> ClusterSight:
    """Three masters, z promoted in place of a; b still imports some slots from a."""
    owners = ["z" if owner == "a" else owner for owner in (held or thirds())]
    cluster = SeenCluster(owners, "zbc")
    sight = cluster.look("zbc")
    nodes = dict(sight.nodes)
    if importing:
        gone = SlotSet(importing)
        views = {**nodes["b"].owners, "z": nodes["b"].owners["z"] - gone, "a": gone}
        nodes["b"] = replace(
            nodes["b"], importing=dict.fromkeys(importing, "a"), owners=views, cluster_ok=False,
            slots_ok=SLOT_COUNT - len(gone), epochs={**nodes["b"].epochs, "a": 1}, open_keys=dict.fromkeys(importing, 0),
        )  # fmt: skip
    old = NodeSight("a", "a:1", is_master=False, owners=slots_by_owner(owners))
    return ClusterSight(nodes | ({"a": old} if a_is_back else {}), {} if a_is_back else {"a": "connection refused"})


def plan_of(moves: int = 4, target: str = "b"):
    return stored_plan(SeenCluster(thirds()), [(slot, "a", target) for slot in range(1, moves + 1)])


def drive(steps: Steps, look: Callable[[], ClusterSight], reply: Callable = print) -> tuple:
    """Run *steps* against nodes that show *look* and answer every command with *reply*; return its result and the journal."""
    written: list[Step] = []
    answer = None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as end:
            return end.value, written
        answer = 0.0
        if isinstance(effect, Look):
            sight = look()
            nodes = {name: sight.nodes[name] for name in effect.nodes if name in sight.nodes}
            answer = ClusterSight(nodes, {name: "gone" for name in effect.nodes if name not in nodes})
        elif isinstance(effect, Note):
            written += effect.steps
        elif isinstance(effect, Ask):
            answer = [*map(reply, effect.commands)]


def seen(stored, journal, sight: ClusterSight) -> Present:
    return drive(see(stored, journal), lambda: sight)[0]


@pytest.mark.parametrize("a_is_back", [True, False])
def test_the_node_that_has_a_masters_slots_has_its_place(a_is_back):
    assert successors(plan_of(), failed_over(a_is_back=a_is_back), NOTHING) == {"a": "z"}


def test_a_master_that_answers_or_owns_slots_has_its_own_place():
    """Not answered to us alone, or a master that others emptied."""
    healthy = SeenCluster(thirds()).look("abc")
    unreachable = ClusterSight({name: healthy.nodes[name] for name in "bc"}, {"a": "timeout"})
    emptied = SeenCluster(["z" if owner == "a" else owner for owner in thirds()], "abcz").look("abc")

    assert successors(plan_of(), healthy, NOTHING) == {}
    assert successors(plan_of(), unreachable, NOTHING) == {}
    assert successors(plan_of(), emptied, NOTHING) == {}


def test_a_target_with_only_migrating_slots_is_matched_by_those():
    """It was empty; some of the slots that were announced have arrived, the others are still at their source."""
    stored = stored_plan(SeenCluster(thirds("ab"), "abt"), [(slot, "a", "t") for slot in range(1, 5)])
    held = ["z" if slot in (1, 2) else owner for slot, owner in enumerate(thirds("ab"))]
    sight = ClusterSight(SeenCluster(held, "abz").look("ab").nodes, {"t": "connection refused"})

    assert successors(stored, sight, read_journal([Step(StepKind.INTENT, 1, "a", "t", "1-4")])) == {"t": "z"}


def test_a_drained_master_that_follows_the_replica_of_its_target_has_not_moved_there():
    """The target failed over after it had taken all slots of the drained master."""
    held = ["b" if owner == "a" else owner for owner in thirds()]
    stored = stored_plan(SeenCluster(thirds()), [(slot, "a", "b") for slot in range(SLOT_COUNT // 3 + 1)])
    steps = [Step(kind, 1, "a", "b", f"0-{SLOT_COUNT // 3}") for kind in (StepKind.INTENT, StepKind.DONE)]
    now = SeenCluster(["z" if owner == "b" else owner for owner in held], "acz").look("ac")
    drained = replace(now.nodes["a"], is_master=False)

    successors_ = successors(
        stored, ClusterSight({**now.nodes, "a": drained}, {"b": "connection refused"}), read_journal(steps)
    )

    assert successors_ == {"b": "z"}


@pytest.mark.parametrize("rollback", [True, False])
def test_a_plan_continues_with_the_promoted_replica(rollback):
    """Neither stale nor refused, forwards and back; the remaining moves are from and to the replica."""
    done = [*GROUP, Step(StepKind.DONE, 1, "a", "b", "1-2"), Step(StepKind.CANCELLED, 1, "a", "b", "3-4")]
    held = ["b" if slot in (1, 2) else owner for slot, owner in enumerate(thirds())]

    now = seen(plan_of(), read_journal(done), failed_over(a_is_back=False, held=held))
    prospect = foresee(now.stored, now.sight, now.journal, None, Settings(rollback=rollback))

    assert prospect.refusals == ()
    jobs = [(job.source, job.target, job.slots) for batch in prospect.batches for job in batch.jobs]
    assert jobs == ([("b", "z", (1, 2))] if rollback else [("z", "b", (3, 4))])
    assert now.stored.nodes[0].address == "z:1"


def test_a_target_learns_the_owners_of_its_open_slots_before_they_resume():
    """It serves no client until then, and would refuse the keys."""
    sight = failed_over(a_is_back=False, importing=(3, 4))
    now = seen(plan_of(), read_journal(GROUP), sight)
    sent: list[Send] = []

    def reply(command: Send) -> Refused:
        sent.append(command)
        return Refused("NOPERM")

    outcome, _ = drive(Execution(plan_of(), GROUP, settings=Settings(patience_s=0)).run(), lambda: sight, reply)

    assert outcome.verdict is Verdict.PAUSED
    assert "slots 3-4 are left open" in outcome.sentences[0]
    assert now.sight.open_slots() == {3: ("z", "b"), 4: ("z", "b")}
    assert foresee(now.stored, now.sight, now.journal, None).refusals == ()
    assert sent[:2] == [Send("b", ("CLUSTER", "SETSLOT", str(slot), "NODE", "z")) for slot in (3, 4)]


def test_the_journal_is_written_with_the_ids_of_the_plan():
    """A later run, after another failover, needs no record of who was promoted when."""
    done = [*GROUP, Step(StepKind.DONE, 1, "a", "b", "1-4")]
    held = ["b" if slot in (1, 2, 3, 4) else owner for slot, owner in enumerate(thirds())]
    sight = failed_over(a_is_back=False, held=held)

    execution = Execution(plan_of(), [*done, Step(StepKind.STARTED)], settings=Settings(rollback=True, patience_s=0))
    outcome, written = drive(execution.run(), lambda: sight, lambda _: Refused("NOPERM"))

    assert outcome.verdict is Verdict.PAUSED
    assert {(step.source, step.target) for step in written if step.step == StepKind.INTENT} == {("b", "a")}


def test_a_run_waits_for_the_promotion_and_pauses_with_the_name_of_the_replica():
    """A master is lost with the first command; some looks later its replica owns its slots."""
    healthy = SeenCluster(thirds()).look("abc")
    without_a = ClusterSight({name: healthy.nodes[name] for name in "bc"}, {"a": "gone"})
    sights = [healthy]

    def reply(_: Send) -> Lost:
        if sights == [healthy]:
            sights[:] = [without_a, without_a, without_a, failed_over(a_is_back=False)]
        return Lost("timeout")

    outcome, written = drive(Execution(plan_of()).run(), lambda: sights.pop(0) if len(sights) > 1 else sights[0], reply)

    assert len(sights) == 1
    assert outcome.verdict is Verdict.PAUSED
    assert "paused: z:1 (z) was promoted in place of a:1 (a); 0 of 4 slots are in place" in outcome.sentences[0]
    assert written[-1].step == StepKind.PAUSED
