"""Reasons to refuse a plan now, answers of nodes, and failovers between runs: successors, and the plan with current ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cluster_core.errors import DecodeError
from cluster_core.rebalance.execution.cluster_now import (
    ClusterSight,
    JobSight,
    MigrationPath,
    NodeSight,
    read_jobs,
    read_node,
)
from cluster_core.rebalance.execution.effects import (
    AppendToJournal,
    Ask,
    Lost,
    ReadState,
    Refused,
    Send,
    Step,
    StepKind,
    Steps,
    read_journal,
)
from cluster_core.rebalance.execution.machine import Execution, Verdict
from cluster_core.rebalance.execution.situation import (
    CurrentState,
    Settings,
    choose_path,
    forecast_run,
    migrate_ms,
    seconds_of,
    see,
    successors,
)
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from tests.builders.cluster_sights import SeenCluster, slots_by_owner, stored_plan, thirds

NOTHING = read_journal([])


def plan_for(cluster: SeenCluster):
    """Slots 1 to 4 from a to b, one to c."""
    return stored_plan(cluster, [(1, "a", "b"), (2, "a", "b"), (3, "a", "b"), (4, "a", "b"), (9, "a", "c")])


def reasons(
    *, product: str = "valkey 9.1", path: MigrationPath | None = None, steps=(), held=None, c=None, **changed
) -> list[str]:
    """The sentences for the plan where b, and c, say what is *changed*, and slots of *held* have other owners."""
    cluster = SeenCluster(product=product)
    plan = plan_for(cluster)
    cluster.held = [(held or {}).get(slot, owner) for slot, owner in enumerate(cluster.held)]
    cluster.changed = {"b": changed, "c": c or {}}
    return list(forecast_run(plan, cluster.look("abc"), read_journal(steps), path).refusals)


def intent(target: str, slots: str) -> list[Step]:
    """An intent of the plan for slots of a."""
    return [Step(StepKind.INTENT, 1, "a", target, slots)]


@pytest.mark.parametrize("product", ["valkey 9.1", "redis 7.0"])
def test_an_unchanged_cluster_has_no_refusal_and_no_warning(product):
    """No server reports its node timeout here: that is no news before a slot moves."""
    cluster = SeenCluster(product=product)
    prospect = forecast_run(plan_for(cluster), cluster.look("abc"), NOTHING, None)

    assert (prospect.refusals, prospect.notes) == ((), ())


FOREIGN = JobSight("x", False, "c", "b", SlotSet([16000]), "snapshotting")
OWN = replace(FOREIGN, source="a", slots=SlotSet([1, 2]))
MOVED = {"held": {1: "b", 2: "b"}, "config_epoch": 9, "steps": intent("b", "1-2")}
"""The plan moved two slots; config epochs may rise, as in a failover and back."""
MISLED = {**slots_by_owner(thirds()), "a": slots_by_owner(thirds())["a"] - SlotSet([1, 2])}
WAITING = {"cluster_ok": False, "owners": MISLED, "importing": {1: "a", 2: "a"}, "steps": intent("b", "1-2")}
"""After a failover a target waits for the owner of the slots that the plan left open there: they are closed first."""


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"cluster_ok": False}, "b:1 (b) says that the cluster is not ok (cluster_state)"),
        ({"slots_ok": SLOT_COUNT - 3}, "b:1 (b) says that 3 slots are not ok"),
        ({"unreachable": ("c",)}, "b:1 (b) does not reach c:1 (c)"),
        ({"config_epoch": 1}, "the plan is stale, make a new one: config epoch of b fell to 1, from 2 in the plan"),
        ({"is_master": False}, "b:1 (b) is a replica now: a master that gives away its last slot becomes one"),
        ({"importing": {4000: "a"}}, "slot 4000 is open from a:1 (a) to b:1 (b), and this plan did not open it"),
        ({"importing": {1: "a"}}, "slot 1 is open from a:1 (a) to b:1 (b), and this plan did not open it"),
        ({"importing": {1: "a"}, "steps": intent("b", "1-4")}, ""),
        ({"importing": {1: "c"}, "steps": intent("b", "1-4")}, "slot 1 is open from c:1 (c)"),
        ({"importing": {1: "a"}, "steps": intent("c", "1")}, "slot 1 is open from a:1 (a)"),
        (MOVED, ""),
        ({**MOVED, "c": {"config_epoch": 12}}, ""),
        ({"held": {1: "b", 2: "b"}}, "the plan is stale, make a new one: slots 1-2: owner is b, in the plan a"),
        (
            {"c": {"owners": slots_by_owner([*thirds()[:20], "b", *thirds()[21:]])}},
            "the masters do not agree on the owner of slots 20",
        ),
        ({**WAITING, "slots_ok": SLOT_COUNT - 2}, ""),
        ({**WAITING, "slots_ok": SLOT_COUNT - 3}, "b:1 (b) says that the cluster is not ok (cluster_state)"),
        ({"jobs": (FOREIGN,)}, "c:1 (c) is moving slots 16000 to b:1 (b), which this plan did not begin: wait for it"),
        ({"jobs": (replace(FOREIGN, state="success"),)}, ""),
        ({"jobs": (OWN,)}, "a:1 (a) is moving slots 1-2 to b:1 (b)"),
        ({"jobs": (OWN,), "steps": intent("b", "1-4")}, ""),
        ({"used_memory": 900, "memory_max": 1000}, ""),
        (
            {"used_memory": 911, "memory_max": 1000},
            "b:1 (b) would need 951 bytes in batch 2 and may use 95% of its maxmemory of 1,000",
        ),
        ({"databases": (0, 3), "path": MigrationPath.LEGACY}, "b:1 (b) holds keys in database 3"),
        ({"databases": (0, 3), "path": MigrationPath.VALKEY_JOBS}, ""),
        ({"databases": (0,), "path": MigrationPath.LEGACY}, ""),
    ],
)
def test_each_reason_is_a_sentence(changed, sentence):
    """What an intent of the plan names is the plan's own; MIGRATE moves database 0 alone; a target holds both copies."""
    given = reasons(**changed)

    assert any(reason.startswith(sentence) for reason in given) if sentence else given == []


@pytest.mark.parametrize(
    ("product", "path"),
    [
        ("valkey 9.1", MigrationPath.VALKEY_JOBS),
        ("valkey 8.1", MigrationPath.LEGACY),
        ("redis 8.4", MigrationPath.REDIS_IMPORT),
        ("redis 8.2", MigrationPath.LEGACY),
        ("redis 7.0", MigrationPath.LEGACY),
    ],
)
def test_the_fastest_path_supported_by_all_is_taken(product, path):
    """Servers in the middle of an upgrade take the oldest way; a path given by hand that one does not know is refused."""
    cluster = SeenCluster(product=product)

    assert choose_path(cluster.look("abc"), "abc") is path
    mixed = cluster.look("abc")
    mixed = ClusterSight({**mixed.nodes, "b": replace(mixed.nodes["b"], product="redis", version=(7, 0, 15))})
    assert choose_path(mixed, "abc") is MigrationPath.LEGACY
    refusals = reasons(product="redis 7.0.15", path=MigrationPath.VALKEY_JOBS)
    assert "b:1 (b) runs redis 7.0.15, which does not know CLUSTER MIGRATESLOTS: use --path setslot" in refusals


def test_a_node_that_does_not_answer_is_the_only_reason():
    cluster = SeenCluster()
    cluster.lost.add("c")

    refusals = forecast_run(plan_for(cluster), cluster.look("abc"), NOTHING, None).refusals

    assert refusals == (
        "c:1 (c) does not answer: connection refused; start it, or let one of its replicas take over, then run this again",
    )


def test_a_cluster_with_a_master_that_the_plan_does_not_know_is_refused():
    """A failover or a new node since then."""
    cluster = SeenCluster()
    plan = plan_for(cluster)
    sight = cluster.look("abc")
    epochs, addresses = {"a": 1, "b": 2, "c": 3, "z" * 40: 9}, {"z" * 40: "z:1"}
    nodes = {name: replace(node, epochs=epochs, addresses=addresses) for name, node in sight.nodes.items()}

    (refusal,) = forecast_run(plan, ClusterSight(nodes), NOTHING, None).refusals

    assert "z:1 (zzzzzzzz) is a master of the cluster but is not in the plan" in refusal


A, B = "a" * 40, "b" * 40
NODES = (
    f"{A} 10.0.0.1:7000@17000 myself,master - 0 0 5 connected 0-8191 [7->-{B}] [9000-<-{B}]\n"
    f"{B} 10.0.0.2:7000@17000 master,fail? - 0 0 6 connected 8192-16383\n"
).encode()
STATE = b"cluster_state:ok\r\ncluster_slots_ok:16384\r\n"
INFO = (
    b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n# Memory\r\nused_memory:1000\r\n"
    b"maxmemory:5000\r\n# Keyspace\r\ndb0:keys=12,expires=0\r\ndb4:keys=3,expires=0\r\n"
)


def test_a_node_is_read_from_three_answers():
    seen = read_node(A, NODES, STATE, INFO)

    assert (seen.product, seen.version, seen.server) == ("valkey", (9, 1, 2), "valkey 9.1.2")
    assert (seen.is_master, seen.config_epoch, seen.cluster_ok, seen.slots_ok) == (True, 5, True, 16384)
    assert (seen.migrating, seen.importing) == ({7: B}, {9000: B})
    assert seen.owners == {A: SlotSet.parse("0-8191"), B: SlotSet.parse("8192-16383")}
    assert (seen.used_memory, seen.memory_max) == (1000, 5000)
    assert (seen.databases, seen.unreachable) == ((0, 4), (B,))
    assert seen.addresses[B] == "10.0.0.2:7000"


def test_jobs_of_valkey_and_tasks_of_redis_are_one_kind_of_value():
    """GETSLOTMIGRATIONS of Valkey 9.1 as recorded; MIGRATION STATUS of Redis 8.4 as its documentation has it."""
    valkey = [b"name", b"j1", b"operation", b"EXPORT", b"slot_ranges", b"0-10 20-30", b"target_node", B.encode(),
              b"source_node", A.encode(), b"create_time", 1, b"state", b"snapshotting", b"message", b""]  # fmt: skip
    redis = [b"id", b"t1", b"slots", b"1-3 7", b"source", A.encode(), b"dest", B.encode(), b"operation", b"import",
             b"state", b"failed", b"last_error", b"no luck", b"retries", 2, b"create_time", 1]  # fmt: skip
    job, task = read_jobs([valkey, redis])

    assert (job.name, job.outgoing, job.source, job.target, str(job.slots)) == ("j1", True, A, B, "0-10 20-30")
    assert (task.name, task.outgoing, task.message, task.retries) == ("t1", False, "no luck", 2)
    assert str(task.slots) == "1-3 7"
    assert job.is_active
    assert task.is_active  # it tries again until it is cancelled


def test_only_the_target_of_a_failed_import_tries_again():
    """asmCron of Redis 8.4: the source's half of it waits for the target's next attempt, which never comes from one that forgot it."""
    half = JobSight("t1", True, A, B, SlotSet([1]), "failed", "Connection lost", 2)
    sight = ClusterSight({A: NodeSight(A, jobs=(half,)), B: NodeSight(B)})

    assert sight.active_jobs() == []

    whole = replace(half, outgoing=False)
    assert ClusterSight({A: sight.nodes[A], B: NodeSight(B, jobs=(whole,))}).active_jobs() == [whole]


@pytest.mark.parametrize("reply", [b"OK", [b"name"], [[b"name"]], [[b"name", b"x", b"slots", b"99999"]]])
def test_another_shape_of_jobs_is_a_decode_error(reply):
    with pytest.raises(DecodeError):
        read_jobs(reply)


def test_the_last_claimant_owns_a_slot():
    """A target that has taken a slot has the higher epoch; others may not know it yet."""
    a = NodeSight("a", config_epoch=1, owners={"a": SlotSet([1, 2]), "z": SlotSet([3])})
    b = NodeSight("b", config_epoch=2, owners={"a": SlotSet([1]), "b": SlotSet([2]), "z": SlotSet([3])})
    both = ClusterSight({"a": a, "b": b})

    assert both.owner_list()[:4] == ["", "a", "b", "z"]
    assert both.disputed() == SlotSet([2])


@pytest.mark.parametrize(
    ("timeouts_ms", "patience_s", "expected_ms"),
    [
        ((15000, 2000, 15000), 60, 1000),
        ((60000, 0, 60000), 60, 7500),
        ((600000,) * 3, 600, 60000),
        ((15000,) * 3, 0, 500),
    ],
)
def test_migrate_waits_half_of_the_shortest_node_timeout_and_of_the_patience(timeouts_ms, patience_s, expected_ms):
    """The servers' default stands in for a timeout that a server does not report."""
    changed = {name: {"node_timeout_ms": ms} for name, ms in zip("abc", timeouts_ms, strict=True)}

    assert migrate_ms(SeenCluster(changed=changed).look("abc"), patience_s) == expected_ms


def test_the_dry_run_estimates_the_duration_at_the_allowed_pace():
    cluster = SeenCluster()
    stored = stored_plan(cluster, [(slot, "a", "b") for slot in range(100)])

    assert sum(seconds_of(stored, stored.batches, MigrationPath.LEGACY)) < 5
    assert sum(seconds_of(stored, stored.batches, MigrationPath.LEGACY, 10)) == 100


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
    return stored_plan(SeenCluster(), [(slot, "a", target) for slot in range(1, moves + 1)])


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
        if isinstance(effect, ReadState):
            sight = look()
            nodes = {name: sight.nodes[name] for name in effect.nodes if name in sight.nodes}
            answer = ClusterSight(nodes, {name: "gone" for name in effect.nodes if name not in nodes})
        elif isinstance(effect, AppendToJournal):
            written += effect.steps
        elif isinstance(effect, Ask):
            answer = [*map(reply, effect.commands)]


def seen(stored, journal, sight: ClusterSight) -> CurrentState:
    return drive(see(stored, journal), lambda: sight)[0]


def test_the_node_that_has_a_masters_slots_has_its_place():
    """A master that only we do not reach, or that others emptied, has its own."""
    healthy = SeenCluster().look("abc")
    unreachable = ClusterSight({name: healthy.nodes[name] for name in "bc"}, {"a": "timeout"})
    emptied = SeenCluster(["z" if owner == "a" else owner for owner in thirds()], "abcz").look("abc")

    for sight in (failed_over(a_is_back=True), failed_over(a_is_back=False)):
        assert successors(plan_of(), sight, NOTHING) == {"a": "z"}
    for sight in (healthy, unreachable, emptied):
        assert successors(plan_of(), sight, NOTHING) == {}


def test_a_target_with_only_migrating_slots_is_matched_by_those():
    """It was empty; some of the slots that were announced have arrived, the others are still at their source."""
    stored = stored_plan(SeenCluster(thirds("ab"), "abt"), [(slot, "a", "t") for slot in range(1, 5)])
    held = ["z" if slot in (1, 2) else owner for slot, owner in enumerate(thirds("ab"))]
    sight = ClusterSight(SeenCluster(held, "abz").look("ab").nodes, {"t": "connection refused"})

    assert successors(stored, sight, read_journal([Step(StepKind.INTENT, 1, "a", "t", "1-4")])) == {"t": "z"}


def test_a_drained_master_that_follows_the_replica_of_its_target_has_not_moved_there():
    """The target failed over after it had taken all slots of the drained master."""
    held = ["b" if owner == "a" else owner for owner in thirds()]
    stored = stored_plan(SeenCluster(), [(slot, "a", "b") for slot in range(SLOT_COUNT // 3 + 1)])
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
    prospect = forecast_run(now.stored, now.sight, now.journal, None, Settings(rollback=rollback))

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
    assert forecast_run(now.stored, now.sight, now.journal, None).refusals == ()
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
    healthy = SeenCluster().look("abc")
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
