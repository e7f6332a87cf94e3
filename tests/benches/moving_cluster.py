"""A small live cluster with skewed data, a plan for it in the tables, clients that write all the while, and what must hold at the end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import redis
from redis.cluster import RedisCluster

from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.plan import MasterRoom, Move, order_moves
from cluster_core.rebalance.stored_plan import PlannedNode, StoredPlan, identify, slot_rows, write_document
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from cluster_core.topology.node import Topology
from slotscope.pipelines.rebalance.plan import make_plan
from slotscope.pipelines.rebalance.rows import write_plan
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.servers import Server, installed

WRITTEN_KEYS = 400
"""Keys that clients overwrite all the while, with values of one length."""
COLD_TAGS = 1_000
"""Planning takes time by the slots that have keys."""


@contextmanager
def hot_cluster(
    binary: str | None, masters: int, keys: int, *, replicas: int = 0, **settings: str
) -> Iterator[Cluster]:  # fmt: skip
    """A cluster with *keys* keys and hot tags on the first third of its masters; skips the test without the server."""
    with running_cluster(installed(binary), masters=masters, replicas=replicas, **settings) as cluster:
        load_hot_tags(cluster, keys)
        yield cluster


def load_hot_tags(cluster: Cluster, keys: int, *, hot_slots: int = 60, seed: int = 5) -> None:
    """Fill the cluster: a share of the keys under tags of hot slots, with four times longer values."""
    chance = random.Random(seed)
    hot_masters = max(1, len(cluster.masters) // 3)
    limit = SLOT_COUNT * hot_masters // len(cluster.masters)
    tags: list[str] = []
    number = 0
    while len(tags) < hot_slots:
        number += 1
        if key_slot(b"%d" % number) < limit:
            tags.append(str(number))
    hot = keys * 18 // 100
    names = [f"{{{tags[n % len(tags)]}}}:{n}" for n in range(hot)] + [
        f"{{user{n % COLD_TAGS}}}:{n}" for n in range(keys - hot)
    ]
    rows = [
        (name, chance.randbytes(chance.randrange(200, 400) * (4 if n < hot else 1))) for n, name in enumerate(names)
    ]
    rows += [(writer_key(n), b"%012d" % 0) for n in range(WRITTEN_KEYS)]
    fill(cluster, rows)


def writer_key(number: int) -> str:
    """A key that clients write: one in four under a tag of its own with others."""
    return f"{{w{number // 8}}}:{number}" if number % 4 else f"written:{number}"


def fill(cluster: Cluster, rows: Sequence[tuple[str, bytes]]) -> None:
    """Set every key at the master that owns its slot."""
    owners = owners_of(cluster.masters[0])
    by_id = {node.call("CLUSTER", "MYID").decode(): node for node in cluster.masters}
    commands: dict[str, list[tuple[str, str, bytes]]] = {}
    for key, value in rows:
        commands.setdefault(owners[key_slot(key.encode())], []).append(("SET", key, value))
    for owner, pending in commands.items():
        by_id[owner].ask(pending)


def owners_of(node: Server) -> list[str]:
    return [owner or "" for owner in topology_of(node).slot_map().owners()]


@dataclass(slots=True)
class Weights:
    """Keys and bytes a slot."""

    keys: list[int] = field(default_factory=lambda: [0] * SLOT_COUNT)
    bytes: list[int] = field(default_factory=lambda: [0] * SLOT_COUNT)

    def max_over_mean(self, owners: Sequence[str], masters: Sequence[str]) -> dict[str, Fraction]:
        ratios = {}
        for name, load in (("keys", self.keys), ("bytes", self.bytes)):
            sums = dict.fromkeys(masters, 0)
            for slot, owner in enumerate(owners):
                sums[owner] += load[slot]
            ratios[name] = Fraction(max(sums.values()) * len(sums), sum(sums.values()))
        return ratios


def measure(cluster: Cluster) -> Weights:
    """Ask every master for its keys and MEMORY USAGE of each."""
    weights = Weights()
    for node in cluster.masters:
        names = node.call("KEYS", "*")
        for key, size in zip(names, node.ask([("MEMORY", "USAGE", key) for key in names]), strict=True):
            weights.keys[key_slot(key)] += 1
            weights.bytes[key_slot(key)] += size or 0
    return weights


def planned_nodes(topology: Topology) -> list[PlannedNode]:
    masters = sorted(topology.masters(), key=lambda node: node.port)
    return [PlannedNode(node.id, node.address, "", node.config_epoch) for node in masters]


def store_balance(root: Path, cluster: Cluster, *, tolerance: float = 0.02) -> StoredPlan:
    """Plan a balance in keys and bytes as the cluster is now, and write it as rebalance does."""
    weights = measure(cluster)
    nodes = planned_nodes(topology_of(cluster.masters[0]))
    loads = {"memory_bytes": weights.bytes, "keys": weights.keys}
    masters = [Master(node.id) for node in nodes]
    problem = Problem(loads, owners_of(cluster.masters[0]), masters, cost="memory_bytes", tolerance=tolerance)
    made = make_plan(problem, nodes, snapshot_id="live", created_at_ms=time.time_ns() // 10**6)
    write_plan(str(root), made, bad_records=0, parts={}, memory_error=0.0)
    return made.stored


def store_moves(root: Path, cluster: Cluster, moves: Sequence[tuple[int, int, int]]) -> StoredPlan:
    """Write a plan of exactly these moves: slot, number of the source, number of the target."""
    weights = measure(cluster)
    nodes = planned_nodes(topology_of(cluster.masters[0]))
    ids = [master.call("CLUSTER", "MYID").decode() for master in cluster.masters]
    owners = owners_of(cluster.masters[0])
    after = list(owners)
    for slot, source, target in moves:
        assert owners[slot] == ids[source]
        after[slot] = ids[target]
    loads, masters = {"memory_bytes": weights.bytes, "keys": weights.keys}, [Master(node.id) for node in nodes]
    problem = Problem(loads, owners, masters, cost="memory_bytes", tolerance=len(masters))  # nothing to search for
    made = make_plan(problem, nodes, snapshot_id="live", created_at_ms=0)
    rows = tuple(Move(s, ids[a], ids[b], (weights.bytes[s], weights.keys[s])) for s, a, b in sorted(moves))
    plan = replace(
        made.stored.plan, verdict="move", moves=rows, owners_after=tuple(after), moved=sum(m.loads[0] for m in rows)
    )
    rooms = {name: MasterRoom((0.0, 0.0), {}, owners.count(name), stays=name in after) for name in ids}
    batches = tuple(order_moves(rows, rooms).batches)
    document = write_document(problem, plan, batches, nodes)
    slots = slot_rows(problem, plan)
    stored = replace(
        made.stored, plan=plan, batches=batches, plan_id=identify(document + made.stored.state_hash, slots)
    )
    write_plan(str(root), replace(made, stored=stored, document=document, slots=slots), bad_records=0, parts={})
    return stored


def slowly(stored: StoredPlan, seconds: float) -> tuple[str, str]:
    """The option with which the moves of *stored* take *seconds*."""
    return "--bytes-per-s-max", f"{stored.plan.moved / stored.plan.unit / seconds:.0f}"


class Writers:
    """Clients that overwrite keys until the block ends; a write counts once it was acknowledged."""

    def __init__(self, node: Server, threads: int = 2) -> None:
        self.port = node.port
        self.acknowledged: dict[str, int] = {}
        self.uncertain: dict[str, set[int]] = {}
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n, threads), daemon=True) for n in range(threads)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all writing."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _write(self, mine: int, of: int) -> None:
        client = RedisCluster(host="127.0.0.1", port=self.port, socket_timeout=20)
        chance = random.Random(mine)
        number = 0
        while not self._stop.is_set():
            number += 1
            key = writer_key(chance.randrange(WRITTEN_KEYS // of) * of + mine)
            try:
                client.set(key, f"{number:012d}")
            except (redis.RedisError, OSError, AttributeError) as error:  # the last: sent to a node not known yet
                self.uncertain.setdefault(key, set()).add(number)
                self.errors.append(str(error))
                time.sleep(0.05)
                continue
            self.acknowledged[key] = number
            self.uncertain.pop(key, None)
            time.sleep(0.001)
        client.close()

    def lost(self, cluster: Cluster) -> list[tuple[str, int, bytes | None]]:
        """Keys that do not hold the last value that was acknowledged, or one that may have been written after it."""
        client = RedisCluster(host="127.0.0.1", port=cluster.masters[0].port)
        wrong = []
        for key, number in self.acknowledged.items():
            held = client.get(key)
            allowed = {number} | self.uncertain.get(key, set())
            if held is None or int(held) not in allowed:
                wrong.append((key, number, held))
        client.close()
        return wrong


def assert_in_place(cluster: Cluster, owners: Sequence[str], keys: int) -> None:
    """Every node's CLUSTER NODES shows these owners, no slot is open, every key is there and where it belongs."""
    for node in cluster.nodes:
        assert owners_of(node) == list(owners)
        assert not any(entry.migrating or entry.importing for entry in topology_of(node).nodes)
    masters = [node for node in cluster.masters if b"role:master" in node.call("INFO", "replication")]
    assert sum(node.call("DBSIZE") for node in masters) == keys
    for node in masters:
        me = node.call("CLUSTER", "MYID").decode()
        assert {owners[key_slot(key)] for key in node.call("KEYS", "*")} <= {me}


def count_keys(cluster: Cluster) -> int:
    return sum(node.call("DBSIZE") for node in cluster.masters)
