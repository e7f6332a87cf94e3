"""Carrying a plan out on a simulated cluster: finished, paused, killed anywhere, resumed, rolled back."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster_core.node.events import Change
from cluster_core.rebalance.execution.cluster_now import ClusterSight, MigrationPath
from cluster_core.rebalance.execution.effects import Ask, Migrate, Refused
from cluster_core.rebalance.execution.machine import Execution, Outcome, Verdict
from cluster_core.rebalance.execution.run_state import CALM_S
from cluster_core.rebalance.execution.situation import Settings
from cluster_core.sim.layouts import Place
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet
from tests.benches.node_commands import take_over
from tests.benches.simulated_cluster import KilledError, SimulatedCluster
from tests.builders.cluster_sights import stored_plan, thirds
from tests.examples import examples

A, B, C, D, Z = IDS = tuple(letter * 40 for letter in "abcdf")
PROFILE_OF = {
    MigrationPath.LEGACY: "redis-7.0",
    MigrationPath.VALKEY_JOBS: "valkey-9.1",
    MigrationPath.REDIS_IMPORT: "redis-8",
}
PATHS = list(PROFILE_OF)
RUNS_MAX = 20
"""A plan that is still paused after so many runs never ends."""
QUICK = Settings(patience_s=30, settle_s=30, job_timeout_s=60, group=2, groups_a_row=2)


def cluster_of(path: MigrationPath, seed: int = 0, **how) -> SimulatedCluster:
    """Three masters with a third of the slots each, and an empty one."""
    return SimulatedCluster(thirds((A, B, C)), (A, B, C, D), seed, profile=PROFILE_OF[path], **how)


def scene(path: MigrationPath, seed: int = 0):
    """Such a cluster, and a plan: twelve hot slots and their neighbours change hands in every direction."""
    cluster = cluster_of(path, seed)
    owners = cluster.owners()
    wanted = {slot for hot in cluster.hot for slot in (hot, (hot + 1) % SLOT_COUNT)}
    chosen = sorted(cluster.chance.sample(sorted(wanted), 12))
    moves = [(slot, owners[slot], cluster.chance.choice(sorted({A, B, C, D} - {owners[slot]}))) for slot in chosen]
    return cluster, stored_plan(cluster, moves, slots_max=4)


def again(cluster: SimulatedCluster, stored, **more) -> Outcome:
    """Another process with the journal that the others left."""
    given = replace(QUICK, **more)
    return cluster.drive(Execution(stored, list(cluster.journal), None, given))


def assert_all_right(cluster: SimulatedCluster, owners) -> None:
    """Every node knows the same owners, nothing is open, no promised write is missing, no key lies where it does not belong."""
    cluster.settle()
    for name, node in cluster.look(cluster.names).nodes.items():
        assert ClusterSight({name: node}).owner_list() == list(owners)
        assert not node.migrating
        assert not node.importing
    assert cluster.lost_writes() == []
    assert cluster.strays() == []


@pytest.mark.parametrize("path", PATHS)
def test_a_plan_is_carried_out_while_clients_write(path):
    cluster, stored = scene(path)

    outcome = again(cluster, stored)

    assert outcome.verdict is Verdict.FINISHED
    assert_all_right(cluster, stored.plan.owners_after)
    assert cluster.spoken_to == {A, B, C, D}
    assert [step.step for step in cluster.journal if step.step in ("started", "finished")] == ["started", "finished"]

    rows = len(cluster.journal)
    assert again(cluster, stored) == Outcome(Verdict.IN_PLACE, ("already in place",))
    assert len(cluster.journal) == rows


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=examples(12))
@given(seed=st.integers(0, 10**6), kills=st.lists(st.integers(0, 120), min_size=1, max_size=4), back=st.booleans())
def test_killed_anywhere_it_resumes_or_rolls_back(path, seed, kills, back):
    """The executor dies after any command or journal row, several times; then it ends right, and no write is lost."""
    cluster, stored = scene(path, seed)
    before = cluster.owners()
    for kill in kills:
        cluster.events, cluster.kill_after = 0, kill
        try:
            again(cluster, stored)
        except KilledError:
            continue
    cluster.kill_after = None

    outcome = again(cluster, stored, rollback=back)

    assert outcome.verdict in (Verdict.ROLLED_BACK, Verdict.IN_PLACE) if back else (Verdict.FINISHED, Verdict.IN_PLACE)
    assert_all_right(cluster, before if back else stored.plan.owners_after)
    moved = {move.slot for move in stored.plan.moves}
    assert back or slots_done(cluster) == moved
    assert cluster.journal == [] or back or cluster.journal[-1].step == "finished"


def slots_done(cluster: SimulatedCluster) -> set[int]:
    """Slots with a recorded arrival: an audit adds up moved slots from these rows."""
    return {slot for step in cluster.journal if step.step == "done" for slot in SlotSet.parse(step.slots)}


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 10**6), after=st.integers(0, 60), node=st.sampled_from((A, B, C, D)))
@example(seed=9771, after=5, node=B)  # the target forgets its import, the source keeps a failed half of it
def test_an_absent_node_is_waited_for(path, seed, after, node):
    """A target or a source restarts in the middle; keys that MIGRATE may or may not have sent are sent again."""
    cluster, stored = scene(path, seed)
    cluster.trouble = 0.2
    fall(cluster, node, after)

    runs = (again(cluster, stored) for _ in range(RUNS_MAX))
    outcome = next(dropwhile(lambda outcome: outcome.verdict is Verdict.PAUSED, runs), None)

    assert outcome is not None, f"still paused after {RUNS_MAX} runs"
    assert outcome.verdict in (Verdict.FINISHED, Verdict.IN_PLACE), outcome
    assert_all_right(cluster, stored.plan.owners_after)


def fall(cluster: SimulatedCluster, name: str, after: int) -> None:
    """*name* crashes so many events later, and is started again with its data two seconds after that."""
    host = cluster.hosts[name]

    def count() -> None:
        if cluster.events == after + 1:
            cluster.faults.crash(host)
            cluster.world.call_at(cluster.world.now_us + 2_000_000, lambda *_: cluster.faults.restart(host))

    cluster.on_event = count


@pytest.mark.parametrize("refused", ["MIGRATE", "NODE"])
def test_a_forbidden_command_leaves_no_slot_open_without_moved_keys(refused):
    """Slots with moved keys can only continue: the sentence names them. Allowed again, the plan ends."""
    cluster, stored = scene(MigrationPath.LEGACY)
    usual = cluster.call

    def call(command):
        forbidden = (
            isinstance(command, Migrate) if refused == "MIGRATE" else "NODE" in getattr(command, "arguments", ())
        )
        return Refused("NOPERM this user has no permissions") if forbidden else usual(command)

    cluster.call = call  # type: ignore[method-assign]
    outcome = again(cluster, stored)
    sight = cluster.look((A, B, C, D))
    left = sight.open_slots()
    cluster.call = usual  # type: ignore[method-assign]

    assert outcome.verdict is Verdict.PAUSED
    (sentence,) = outcome.sentences
    assert "NOPERM" in sentence
    assert all(sight.nodes[target].open_keys[slot] for slot, (_, target) in left.items())
    assert bool(left) or refused == "MIGRATE"
    left_open = f"slots {SlotSet(left)} are left open; " if left else ""
    assert sentence.endswith(f"0 of 12 slots are in place; {left_open}run again to resume, --rollback to undo")
    assert cluster.owners() == list(stored.problem.owners)
    assert again(cluster, stored).verdict is Verdict.FINISHED
    assert_all_right(cluster, stored.plan.owners_after)


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("at", range(1, 90, 17))
def test_a_stop_at_any_moment_leaves_nothing_open(path, at):
    cluster, stored = scene(path)
    execution = Execution(stored, [], None, QUICK)

    def count() -> None:
        execution.stop |= cluster.events == at

    cluster.on_event = count
    outcome = cluster.drive(execution)
    sight = cluster.look((A, B, C, D))

    assert outcome.verdict in (Verdict.PAUSED, Verdict.FINISHED)
    assert sight.open_slots() == {}
    assert sight.active_jobs() == []
    assert again(cluster, stored).verdict in (Verdict.FINISHED, Verdict.IN_PLACE)
    assert_all_right(cluster, stored.plan.owners_after)


@pytest.mark.parametrize("path", [MigrationPath.VALKEY_JOBS, MigrationPath.REDIS_IMPORT])
def test_a_failed_job_is_retried_before_a_pause(path):
    """Three attempts; the source keeps the slots of a migration that failed.  Redis 8.4 tries again by itself, until it is cancelled."""
    cluster, stored = scene(path)
    cluster.fail_jobs = 2

    assert again(cluster, stored).verdict is Verdict.FINISHED

    cluster, stored = scene(path)
    cluster.fail_jobs = 99
    outcome = again(cluster, stored)

    assert outcome.verdict is Verdict.PAUSED
    assert outcome.sentences[0].startswith("paused: ")
    assert "Connection lost" in outcome.sentences[0]
    assert cluster.look((A, B, C, D)).active_jobs() == []
    assert outcome.sentences[0].endswith("run again to resume, --rollback to undo")
    assert cluster.owners() == list(stored.problem.owners)


@pytest.mark.long
def test_a_drained_master_that_became_a_replica_is_reset_by_hand_before_a_rollback():
    """redis 4592, 9223: without slots it follows the receiver; the plan is still in place."""
    owners = [C if slot >= 16380 else (A, B)[slot // 8192] for slot in range(SLOT_COUNT)]
    for path in PATHS:
        cluster = SimulatedCluster(owners, (A, B, C), profile=PROFILE_OF[path])
        stored = stored_plan(cluster, [(slot, C, (A, B)[slot % 2]) for slot in range(16380, SLOT_COUNT)])

        assert again(cluster, stored).verdict is Verdict.FINISHED
        assert not cluster.sight(cluster.hosts[C]).is_master
        assert_all_right(cluster, stored.plan.owners_after)
        assert again(cluster, stored).verdict is Verdict.IN_PLACE
        (sentence,) = {*again(cluster, stored, rollback=True).sentences}
        assert f"{cluster.called(C)} is a replica now" in sentence

        assert cluster.ask(cluster.hosts[C], "CLUSTER", "RESET", "SOFT") == "OK"
        assert cluster.ask(cluster.hosts[A], "CLUSTER", "MEET", "127.0.0.1", cluster.hosts[C].settings.port) == "OK"
        while not cluster.sight(cluster.hosts[C]).cluster_ok:
            cluster.settle()
        assert again(cluster, stored, rollback=True).verdict is Verdict.ROLLED_BACK
        assert_all_right(cluster, owners)


def taken(cluster: SimulatedCluster, slots, owner: str) -> None:
    """Somebody else gives *slots* away, and every node knows it."""
    cluster.world.tell(cluster.hosts[owner], Change(lambda state: take_over(state, sum(1 << slot for slot in slots))))
    cluster.settle()


def half_way(path: MigrationPath):
    """A plan of six slots from a to b and six from a to c; --pause-after, or a first Ctrl-C, ends it after the first batch."""
    cluster = cluster_of(path, keys=0)
    stored = stored_plan(cluster, [(slot, A, (B, C)[slot // 6]) for slot in range(12)], slots_max=3)
    before = cluster.owners()
    outcome = again(cluster, stored, pause_after=1)
    done = sorted(slots_done(cluster))
    so_far = f"{len(done)} of 12 slots are in place; run again to resume, --rollback to undo"
    assert outcome == Outcome(Verdict.PAUSED, (f"paused after batch 1 of {len(stored.batches)}; {so_far}",))
    assert 0 < len(done) < 12
    assert cluster.journal[-1].step == "paused"
    return cluster, stored, before, done, sorted(set(range(12)) - set(done))


@pytest.mark.parametrize("path", PATHS)
def test_a_rollback_needs_only_the_moved_slots(path):
    """Others took slots that the plan moved, has not touched, and does not know, left one open, added a master: nothing is in the way."""
    cluster, stored, before, done, left = half_way(path)
    taken(cluster, [left[0], 9000], C)
    taken(cluster, done[:2], D)
    beside = replace(cluster.hosts[A].settings, port=7999, cport=17999)
    cluster.hosts[Z] = cluster.world.add(Place(Z, "127.0.0.1", "Z1", beside, Z, Z))
    assert cluster.ask(cluster.hosts[A], "CLUSTER", "MEET", "127.0.0.1", 7999) == "OK"
    cluster.settle()
    assert len(cluster.sight(cluster.hosts[A]).addresses) == 5
    assert cluster.ask(cluster.hosts[B], "CLUSTER", "SETSLOT", 9001, "MIGRATING", C) == "OK"
    assert cluster.ask(cluster.hosts[C], "CLUSTER", "SETSLOT", 9001, "IMPORTING", B) == "OK"

    resumed = again(cluster, stored)
    assert resumed.verdict is Verdict.REFUSED
    outcome = again(cluster, stored, rollback=True)

    assert outcome.verdict is Verdict.ROLLED_BACK, outcome
    assert set(outcome.sentences[1:]) == {
        f"slots {SlotSet(slots)} stay with {cluster.called(owner)}: this plan did not move them there"
        for slots, owner in ((left[:1], C), (done[:2], D))
    }
    expected = dict(enumerate(before)) | dict.fromkeys(done[:2], D) | {left[0]: C, 9000: C}
    assert cluster.owners() == list(expected.values())
    assert again(cluster, stored, rollback=True).sentences[0].startswith("nothing to roll back: ")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("back", [True, False])
def test_a_silent_master_outside_the_plan_delays_nothing(path, back):
    """It owns no slot either; the note names it."""
    cluster, stored, before, _, _ = half_way(path)
    cluster.faults.crash(cluster.hosts[D])

    outcome = again(cluster, stored, rollback=back)

    assert outcome.verdict is (Verdict.ROLLED_BACK if back else Verdict.FINISHED)
    assert f"{cluster.called(D)} does not answer; no slot moves from or to it" in "; ".join(
        (*outcome.sentences, *cluster.progress)
    )
    assert cluster.owners() == (before if back else list(stored.plan.owners_after))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("node", [A, B])
def test_no_wait_is_longer_than_the_patience(path, node):
    """A node that never returns: the run pauses after its patience, which is no constant of the program."""
    cluster = cluster_of(path, keys=0)
    stored = stored_plan(cluster, [(slot, A, B) for slot in range(12)])
    limits = []
    usual = cluster.perform

    def perform(effect):
        limits.append(getattr(effect, "within_s", getattr(effect, "seconds", 0.0)))
        if isinstance(effect, Ask):
            limits.append(effect.migrate_ms / 1000)
            cluster.faults.crash(cluster.hosts[node])
        return usual(effect)

    cluster.perform = perform  # type: ignore[method-assign]
    begun_s = cluster.now_s
    outcome = cluster.drive(Execution(stored, [], None, replace(QUICK, patience_s=3)))

    assert outcome.verdict is Verdict.PAUSED
    assert f"{cluster.called(node)} does not answer" in outcome.sentences[0]
    assert max(limits[1:]) < 3.001  # the first is the look before it begins
    assert cluster.now_s - begun_s < 3 * 3


def test_a_slot_goes_back_to_a_master_that_knows_the_epoch_of_its_owner():
    """Of two masters with one config epoch the smaller id gets a higher one: its claim takes the slot, and deletes its keys there."""
    cluster = cluster_of(MigrationPath.LEGACY, keys=0)
    slots = [slot for slot in range(12_000, 12_100) if slot not in cluster.hot][:6]
    stored = stored_plan(cluster, [(slot, C, B) for slot in slots])
    owners = cluster.owners()
    cluster.faults.cut([cluster.hosts[name] for name in (A, B, D)], [cluster.hosts[C]], both_ways=False)
    assert again(cluster, stored).verdict is Verdict.FINISHED
    cluster.world.call_at(cluster.world.now_us + 2_000_000, lambda *_: cluster.faults.heal())

    def arrive_late(command):
        if command.node == B and command.arguments[-2:] == ("NODE", C):
            cluster.pass_time(3_000_000)

    cluster.on_command = arrive_late
    outcome = again(cluster, stored, rollback=True)

    assert outcome.verdict is Verdict.ROLLED_BACK, outcome
    assert_all_right(cluster, owners)


@pytest.mark.parametrize("back", [True, False])
def test_a_slot_that_both_ends_gave_away_is_claimed_by_the_next_run(back):
    cluster, stored, before, done, _ = half_way(MigrationPath.LEGACY)
    slot, source, target = next((slot, A, (B, C)[slot // 6]) for slot in done)
    assert cluster.ask(cluster.hosts[target], "CLUSTER", "SETSLOT", slot, "NODE", source) == "OK"
    cluster.settle()
    assert cluster.owners()[slot] == ""

    outcome = again(cluster, stored, rollback=back)

    assert outcome.verdict is (Verdict.ROLLED_BACK if back else Verdict.FINISHED), outcome
    assert_all_right(cluster, before if back else stored.plan.owners_after)


def latency_of(cluster: SimulatedCluster, beside_ms: float, alone_ms: float) -> None:
    """Let clients of *cluster* wait *beside_ms* until three seconds after a command, and *alone_ms* else."""
    last_s = [-100.0]
    cluster.on_command = lambda command: last_s.__setitem__(0, cluster.now_s)
    cluster.latency_ms = lambda: beside_ms if cluster.now_s - last_s[0] < 3 else alone_ms


def moving(path: MigrationPath, **limits):
    """A simulated cluster on which a plan of 24 slots was carried out under *limits*; the seconds that took."""
    cluster = cluster_of(path, keys=0)
    latency_of(cluster, limits.pop("latency_ms", 0.0), 0.5)
    stored = stored_plan(cluster, [(slot, A, B if slot % 2 else C) for slot in range(24)])
    begun_s = cluster.now_s
    outcome = again(cluster, stored, **limits)
    assert outcome.verdict is Verdict.FINISHED
    assert cluster.owners() == list(stored.plan.owners_after)
    return cluster, cluster.now_s - begun_s


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS[:2])
def test_no_more_bytes_move_in_a_second_than_are_allowed(path):
    """240 bytes at 12 a second take 20 s, and little more than that; the journal shows that they came in pieces."""
    _, free_s = moving(path)
    cluster, slow_s = moving(path, bytes_per_s_max=12)

    assert free_s < 20 <= slow_s < 20 + 2 * free_s + 5
    assert sum(step.step == "done" for step in cluster.journal) > 1


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS[:2])
def test_slow_clients_are_given_time(path):
    """While each look shows too long a latency, pieces shrink and rests grow; healthy clients slow nothing, and the figure is shown."""
    _, free_s = moving(path)
    pace, well_s = moving(path, latency_ms_max=5, latency_ms=1.5)
    _, slow_s = moving(path, latency_ms_max=5, latency_ms=50)

    assert well_s < free_s + CALM_S + 1
    assert slow_s > free_s + CALM_S + 0.05
    assert any("client latency 1.5 ms (p99)" in line for line in pace.progress)


@pytest.mark.long
@pytest.mark.parametrize("path", PATHS[:2])
def test_slow_clients_before_any_move_stop_the_run_with_a_message(path):
    """From the beginning: the run ends after its patience.  From the middle: it goes on when they are well again."""
    cluster = cluster_of(path, keys=0)
    stored = stored_plan(cluster, [(slot, A, B) for slot in range(24)])
    latency_of(cluster, 50, 20)
    never = again(cluster, stored, latency_ms_max=5)

    assert never.verdict is Verdict.PAUSED
    assert "client latency is 20.0 ms (p99) while nothing moves: no pace keeps it within 5 ms" in never.sentences[0]
    assert cluster.owners() == thirds((A, B, C))

    calm_s = cluster.now_s + 10
    cluster.latency_ms = lambda: 20.0 if cluster.now_s < calm_s else 1.0
    later = again(cluster, stored, latency_ms_max=5)

    assert later.verdict is Verdict.FINISHED
    assert cluster.now_s > calm_s
    assert any("nothing moves until client latency is within 5 ms" in line for line in cluster.progress)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"unreachable": ("q", "r")}, "{b} does not reach r:1 (r)"),
        ({"replicas_online": 1}, "1 of 2 replicas have lost their master (INFO replication)"),
        ({"cluster_ok": False}, "{b} says that the cluster is not ok (cluster_state)"),
        ({"used_memory": 96, "memory_max": 100}, "{b} uses more than 95% of its maxmemory of 100 bytes"),
    ],
)
def test_a_run_waits_for_new_problems(changed, text):
    """A node that fails in the middle: reported, waited for, ended; nothing begins meanwhile. Known problems delay nothing."""
    cluster = cluster_of(MigrationPath.LEGACY, keys=0)
    stored = stored_plan(cluster, [(slot, A, B) for slot in range(200)])
    look, moved, begun_s = cluster.look, [], cluster.now_s
    usual = {"replicas_online": 2, "unreachable": ("q",), "addresses": {"q": "q:1", "r": "r:1"}}

    def seen(names):
        sight, is_bad = look(names), 5 < cluster.now_s - begun_s < 15
        moved.extend([sum(owner == B for owner in sight.owner_list())] if is_bad else [])
        facts = {A: {"memory_max": 100, "used_memory": 96}, B: usual | (changed if is_bad else {})}
        return ClusterSight({name: replace(node, **facts.get(name, {})) for name, node in sight.nodes.items()})

    cluster.look = seen
    outcome = again(cluster, stored)

    assert outcome.verdict is Verdict.FINISHED
    assert len(set(moved)) == 1
    waits = [line for line in cluster.progress if line.startswith("waiting: ")]
    assert waits
    assert all(text.format(b=cluster.called(B)) in line for line in waits)
    assert "going on: the cluster is healthy again" in cluster.progress
    assert cluster.now_s > begun_s + 15
