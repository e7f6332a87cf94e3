"""A master of a plan fails while its slots move, and a replica is promoted: the next run goes on, or rolls back, with the replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.key_slot import key_slot
from jobs import main as program
from slotscope.runtime.failure import BAD_INPUT, OK, PAUSED, PROMISE_BROKEN
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.live_runs import slotscope, start
from tests.benches.moving_cluster import fill, owners_of, store_moves
from tests.benches.servers import Server, installed, redis_binary, valkey_binary, wait_for

SERVERS = {"redis": redis_binary, "valkey": valkey_binary}
NODE_TIMEOUT_MS = 1500
SLOTS, KEYS_A_SLOT = 20, 600
BEGIN_S_MAX = 90.0
"""Time for a run to start and reach the moment of the failover; a busy machine takes far more than an idle one."""
ORDERS_MAX, GIVEN_UP_S = 3, 6.0
"""A slow server gives a failover up after 5 s (`CLUSTER_MF_TIMEOUT`), and needs another order."""


@dataclass(slots=True)
class Bench:
    """A cluster, a plan that moves slots from its first master to its second, and its keys."""

    cluster: Cluster
    stored: StoredPlan
    keys: int
    root: Path
    path: str

    @property
    def living(self) -> list[Server]:
        """The servers that run."""
        return [node for node in self.cluster.nodes if node.process.poll() is None]

    @property
    def asked(self) -> tuple[str, str]:
        """A node for the command line: one that stays."""
        return "--cluster", f"127.0.0.1:{self.cluster.masters[2].port}"

    def run(self, *more: object) -> int:
        """Carry the plan out in this process."""
        return slotscope(self.root, self.cluster, *self.asked, "--apply", "--path", self.path, *more)


@contextmanager
def bench(server: str, path: str, root: Path) -> Iterator[Bench]:
    """Three masters with a replica each; the keys of some slots of the first take some seconds to move."""
    with running_cluster(
        installed(SERVERS[server]()), masters=3, replicas=3, cluster_node_timeout=NODE_TIMEOUT_MS
    ) as cluster:
        first, last = cluster.slots_of(0)
        tags = [n for n in range(20_000) if first <= key_slot(b"%d" % n) <= last][:SLOTS]
        fill(cluster, [(f"{{{tag}}}{n}", b"x" * 1000) for tag in tags for n in range(KEYS_A_SLOT)])
        slots = sorted({key_slot(b"%d" % tag) for tag in tags})
        for replica in cluster.replicas:
            wait_for(lambda replica=replica: is_in_step(cluster, replica), "the replicas to hold all keys")
        stored = store_moves(root, cluster, [(slot, 0, 1) for slot in slots])
        yield Bench(cluster, stored, SLOTS * KEYS_A_SLOT, root, path)


def is_in_step(cluster: Cluster, replica: Server) -> bool:
    """Whether a replica holds what its master holds."""
    master = cluster.masters[cluster.replicas.index(replica)]
    return bool(replica.call("DBSIZE") == master.call("DBSIZE"))


def is_inside_a_group(bench: Bench) -> bool:
    """Whether a slot is open with some of its keys moved."""
    source, target = bench.cluster.masters[:2]
    opened = topology_of(target).nodes
    slots = [slot for node in opened for slot in node.importing]
    return any(target.call("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots[-1:]) and any(
        source.call("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots[-1:]
    )


def is_between_groups(bench: Bench) -> bool:
    """Whether some slots have moved, and none is open."""
    topology = topology_of(bench.cluster.masters[1])
    moved = {move.slot for move in bench.stored.plan.moves} & set(topology.by_id[topology.my_id or ""].slots)
    return bool(moved) and not any(node.importing or node.migrating for node in topology.nodes)


MOMENTS = {"inside a group": is_inside_a_group, "between groups": is_between_groups}


def interrupt(bench: Bench, moment: str, victim: Server, *more: object) -> tuple[int, str]:
    """Begin to carry the plan out, kill *victim* at the *moment*; return how the run ended."""
    pace = () if moment == "inside a group" else ("--bytes-per-s-max", 2_000_000)
    process = start(bench.root, bench.cluster, *bench.asked, "--path", bench.path, *pace, *more)
    try:
        wait_for(lambda: MOMENTS[moment](bench) or process.poll() is not None, moment, BEGIN_S_MAX)
        assert process.poll() is None, process.messages(5)
        victim.kill()
        errors = process.messages(60)
    finally:
        process.kill()
    return process.returncode, errors


def await_promotion(bench: Bench, replica: Server) -> None:
    """Wait until every server that runs knows *replica* as a master."""
    me = replica.call("CLUSTER", "MYID").decode()
    wait_for(
        lambda: all(
            topology_of(node).by_id[me].is_master and topology_of(node).by_id[me].slots for node in bench.living
        ),
        "the promotion",
    )


def assert_sound(bench: Bench, moved: bool) -> None:
    """Every server that runs says ok and that no slot is open; slots are where they should be; every key is there, once."""
    cluster = bench.cluster
    wait_for(
        lambda: all(b"cluster_state:ok" in node.call("CLUSTER", "INFO") for node in bench.living), "all to be ok", 5
    )
    ports = {port_of(node, slot) for node in bench.living for slot in (move.slot for move in bench.stored.plan.moves)}
    assert ports == {holder(cluster, 1 if moved else 0).port}
    assert not any(entry.migrating or entry.importing for node in bench.living for entry in topology_of(node).nodes)
    masters = [node for node in bench.living if b"role:master" in node.call("INFO", "replication")]
    keys = [key for node in masters for key in node.call("KEYS", "*")]
    assert len(keys) == len(set(keys)) == bench.keys


def holder(cluster: Cluster, number: int) -> Server:
    """The server that is master in place *number* now."""
    pair = (cluster.masters[number], cluster.replicas[number])
    return next(n for n in pair if n.process.poll() is None and b"role:master" in n.call("INFO", "replication"))


def port_of(node: Server, slot: int) -> int:
    """The port of the owner of *slot*, as *node* has it."""
    owner = topology_of(node).owner_of(slot)
    return owner.port if owner else 0


@pytest.mark.slow
@pytest.mark.parametrize("then", [(), ("--rollback",)])
@pytest.mark.parametrize("moment", list(MOMENTS))
@pytest.mark.parametrize(("server", "path"), [("redis", "setslot"), ("valkey", "migrateslots"), ("valkey", "setslot")])
def test_a_source_that_is_killed_is_replaced_by_its_replica(server, path, moment, then, tmp_path):
    """The run gives up before the promotion and leaves slots open; afterwards a run, or a rollback, closes them and ends with 0."""
    if path == "migrateslots" and moment == "inside a group":
        moment = "between groups"  # the servers' own migrations leave no slot open
    with bench(server, path, tmp_path) as there:
        code, output = interrupt(there, moment, there.cluster.masters[0], "--patience", 0.5)
        assert code == PAUSED, output
        await_promotion(there, there.cluster.replicas[0])

        assert there.run(*then) == OK
        assert_sound(there, moved=not then)


@pytest.mark.slow
@pytest.mark.parametrize("then", [(), ("--rollback",)])
def test_a_target_that_is_killed_is_replaced_by_its_replica(then, tmp_path):
    """Keys that have arrived are at the replica, which does not import: the open slots are finished there."""
    with bench("redis", "setslot", tmp_path) as there:
        code, output = interrupt(there, "inside a group", there.cluster.masters[1], "--patience", 0.5)
        assert code == PAUSED, output
        await_promotion(there, there.cluster.replicas[1])

        assert there.run(*then) == OK
        assert_sound(there, moved=not then)


@pytest.mark.slow
@pytest.mark.parametrize("then", [["--apply"], ["--apply", "--rollback"], ["--new", "--apply"]])
def test_a_killed_source_that_comes_back_as_a_replica_does_not_shut_the_commands_out(then, tmp_path, capsys):
    """`slotscope rebalance` resumes or rolls back; `--new` names the command that closes the open slots, and works after it."""
    with bench("redis", "setslot", tmp_path) as there:
        source, replica = there.cluster.masters[0], there.cluster.replicas[0]
        code, output = interrupt(there, "inside a group", source, "--patience", 0.5)
        assert code == PAUSED, output
        await_promotion(there, replica)
        source.start_again()
        wait_for(lambda: b"master_link_status:up" in source.call("INFO", "replication"), "the old master to follow")

        if "--new" in then:
            assert rebalance(there, then) == BAD_INPUT
            assert "slotscope rebalance" in capsys.readouterr().err.splitlines()[-1]
            assert rebalance(there, ["--apply"]) in (OK, PROMISE_BROKEN)
            assert_sound(there, moved=True)
            assert rebalance(there, then) in (OK, PROMISE_BROKEN)
            owners = owners_of(there.cluster.masters[1])
            assert all(owners_of(node) == owners for node in there.living)
        else:
            assert rebalance(there, then) in (OK, PROMISE_BROKEN)  # the moves balance nothing, which the audit reports
            assert_sound(there, moved="--rollback" not in then)


def rebalance(there: Bench, arguments: Sequence[str]) -> int:
    """The command that measures, plans, and resumes."""
    return program.run(["rebalance", there.asked[1], "--root", str(there.root), "--path", there.path, *arguments])


@pytest.mark.slow
@pytest.mark.parametrize("server", list(SERVERS))
@pytest.mark.parametrize("end", [0, 1])
def test_a_manual_failover_in_the_middle_pauses_and_the_next_run_resumes(server, end, tmp_path):
    """Nothing stays open, no key is lost, and no failback is needed; the former master may take its place again, too."""
    with bench(server, "setslot", tmp_path) as there:
        old, new = there.cluster.masters[end], there.cluster.replicas[end]
        process = start(there.root, there.cluster, *there.asked, "--path", "setslot", "--bytes-per-s-max", 2_000_000)
        wait_for(lambda: is_between_groups(there) or process.poll() is not None, "some slots to move")
        promote(there, new)
        errors = process.messages(60)

        assert process.returncode == PAUSED, errors
        assert "was promoted in place of" in errors.splitlines()[-1]
        assert there.run("--pause-after", 1, "--bytes-per-s-max", 10_000_000) == OK
        assert_sound(there, moved=True)
        promote(there, old)
        assert there.run("--rollback") == OK
        assert_sound(there, moved=False)


def promote(there: Bench, node: Server) -> None:
    """A failover by hand; return when every node knows of it."""
    wait_for(lambda: b"master_link_status:up" in node.call("INFO", "replication"), "the replica to be in step")
    for _ in range(ORDERS_MAX):
        node.call("CLUSTER", "FAILOVER")
        with suppress(TimeoutError):
            wait_for(lambda: b"role:master" in node.call("INFO", "replication"), "the replica to be master", GIVEN_UP_S)
            break
    await_promotion(there, node)
