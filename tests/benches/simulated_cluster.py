"""A cluster in plain Python: nodes that believe what they were told, gossip when chance lets it, clients that write all the while.

It follows the servers' rules for SETSLOT (R123, R124), MIGRATE, CLUSTER MIGRATESLOTS and CLUSTER MIGRATION as far as moving slots needs them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster_core.rebalance.execution.cluster_now import ClusterSight, JobSight, NodeSight
from cluster_core.rebalance.execution.effects import Answered, Ask, Clock, Look, Lost, Note, Reply, Tell, Wait
from cluster_core.rebalance.execution.journal import Step
from cluster_core.rebalance.execution.machine import Execution, Outcome
from cluster_core.rebalance.execution.reshard import Migrate, Refused, Send
from cluster_core.rebalance.execution.staleness import hash_state
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.ordering import Room, TimeModel, order_moves
from cluster_core.rebalance.plan import Move, Plan, count_ranges
from cluster_core.rebalance.record import PlannedNode, StoredPlan
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet

LOOKS_OF_A_JOB = 3


class KilledError(Exception):
    """The executor's process is gone."""


@dataclass(slots=True)
class SimulatedNode:
    """One server: its own view, its marks, its keys by slot."""

    id: str
    epoch: int
    view: list[str]
    is_master: bool = True
    migrating: dict[int, str] = field(default_factory=dict)
    importing: dict[int, str] = field(default_factory=dict)
    keys: dict[int, dict[bytes, int]] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    down: int = 0
    alone: bool = False
    count: int = 0
    base: dict[str, SlotSet] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    """Slots whose owner changed on any node: all that has to be looked at again."""

    def believe(self, slot: int, owner: str) -> None:
        self.count += (owner == self.id) - (self.view[slot] == self.id)
        self.view[slot] = owner
        self.touched.add(slot)

    def sees(self) -> dict[str, SlotSet]:
        """The slots of every node."""
        changed: dict[str, list[int]] = {}
        for slot in self.touched:
            changed.setdefault(self.view[slot], []).append(slot)
        rest = ~SlotSet(self.touched)
        found = {
            name: self.base.get(name, SlotSet()) & rest | SlotSet(changed.get(name, ()))
            for name in (*self.base, *changed)
        }
        return {name: slots for name, slots in found.items() if slots}


class SimulatedCluster:
    """Nodes, chance, and what clients were promised."""

    def __init__(
        self, owners: Sequence[str], names: Sequence[str], seed: int = 0, *, product: str = "redis 7.0", keys: int = 200
    ) -> None:
        self.chance = random.Random(seed)
        base = {name: SlotSet(s for s, owner in enumerate(owners) if owner == name) for name in dict.fromkeys(owners)}
        touched: set[int] = set()
        self.nodes = {
            name: SimulatedNode(
                name, number + 1, list(owners), count=len(base.get(name, ())), base=base, touched=touched
            )
            for number, name in enumerate(names)
        }
        self.touched = touched
        self.product, _, version = product.partition(" ")
        self.version = tuple(int(part) for part in version.split("."))
        self.gossip_chance = 0.5
        self.trouble = 0.0
        """Chance that MIGRATE answers IOERR, half of the time after the keys have arrived."""
        self.promised: dict[bytes, tuple[int, int]] = {}
        self.hot: list[int] = sorted(self.chance.sample(range(SLOT_COUNT), 50))
        self.journal: list[Step] = []
        self.told: list[str] = []
        self.spoken_to: set[str] = set()
        self.now_s = 0.0
        self.writes = 0
        self.kill_after: int | None = None
        self.events = 0
        self.fail_jobs = 0
        for _ in range(keys):
            self.write()

    # clients

    def write(self) -> None:
        """One client writes one key, following MOVED, ASK and what else; a promise only if somebody took it."""
        self.writes += 1
        slot = self.chance.choice(self.hot)
        key = b"%d:%d" % (slot, self.chance.randrange(40))
        owner = max((n for n in self.nodes.values() if n.view[slot] == n.id), key=lambda n: n.epoch, default=None)
        if owner is None or owner.down:
            return
        if slot in owner.migrating and key not in owner.keys.get(slot, {}):
            owner = self.nodes[owner.migrating[slot]]
            if slot not in owner.importing or owner.down:
                return
        owner.keys.setdefault(slot, {})[key] = self.writes
        self.promised[key] = (slot, self.writes)

    def lost_writes(self) -> list[bytes]:
        """Keys whose last promised value no owner holds."""
        lost = []
        for key, (slot, value) in self.promised.items():
            owner = next(n for n in self.nodes.values() if n.view[slot] == n.id)
            if owner.keys.get(slot, {}).get(key) != value:
                lost.append(key)
        return lost

    def strays(self) -> list[tuple[str, int]]:
        """Nodes that hold keys of slots that they do not own."""
        return [(n.id, s) for n in self.nodes.values() for s, held in n.keys.items() if held and n.view[s] != n.id]

    # gossip

    def gossip(self) -> None:
        """Every node hears of every owner: the higher config epoch counts (R71)."""
        for slot in sorted(self.touched):
            claims = [n for n in self.nodes.values() if n.view[slot] == n.id and not n.down]
            if not claims:
                continue
            owner = max(claims, key=lambda n: n.epoch)
            for node in self.nodes.values():
                if node.down or node.alone or node.view[slot] == owner.id:
                    continue
                before = node.view[slot]
                node.believe(slot, owner.id)
                if before == node.id and not node.count:
                    self.demote(node)

    def demote(self, node: SimulatedNode) -> None:
        node.is_master = False
        node.keys = {}
        node.migrating, node.importing = {}, {}

    def bump(self, node: SimulatedNode) -> None:
        top = max(n.epoch for n in self.nodes.values())
        if node.epoch != top:
            node.epoch = top + 1

    # commands

    def call(self, command: Send | Migrate) -> Reply:
        name = command.node if isinstance(command, Send) else command.source
        self.spoken_to.add(name)
        node = self.nodes[name]
        if node.down:
            return Lost("connection refused")
        if isinstance(command, Migrate):
            return self.migrate(node, self.nodes[command.target], command)
        words = [word.decode() if isinstance(word, bytes) else word for word in command.words]
        if words[1] == "GETKEYSINSLOT":
            held = sorted(node.keys.get(int(words[2]), {}))
            return Answered(held[: int(words[3])][:7])
        if words[1] == "SETSLOT":
            return self.setslot(node, int(words[2]), words[3], words[4] if len(words) > 4 else "")
        if words[1] == "RESET":
            return self.reset(node)
        if words[1] == "MEET":
            return self.meet(words[2])
        if words[1] == "MIGRATESLOTS":
            return self.migrateslots(node, words[2:])
        if words[1] == "CANCELSLOTMIGRATIONS":
            return self.cancel(node)
        if words[1:3] == ["MIGRATION", "IMPORT"]:
            return self.import_slots(node, [int(word) for word in words[3:]])
        if words[1:3] == ["MIGRATION", "CANCEL"]:
            return self.cancel(node)
        raise AssertionError(words)

    def reset(self, node: SimulatedNode) -> Reply:
        """CLUSTER RESET SOFT: a master that knows nobody."""
        if node.keys and node.is_master:
            return Refused("ERR CLUSTER RESET can't be called with master nodes containing keys")
        node.is_master, node.alone, node.keys = True, True, {}
        return Answered("OK")

    def meet(self, host: str) -> Reply:
        self.nodes[host].alone = False
        return Answered("OK")

    def setslot(self, node: SimulatedNode, slot: int, what: str, other: str) -> Reply:
        if not node.is_master:
            return Refused("ERR Please use SETSLOT only with masters.")
        if other and not self.nodes[other].is_master:
            return Refused(f"ERR Target node is not a master: {other}")
        if what == "MIGRATING":
            if node.view[slot] != node.id:
                return Refused(f"ERR I'm not the owner of hash slot {slot}")
            node.migrating[slot] = other
        elif what == "IMPORTING":
            if node.view[slot] == node.id:
                return Refused(f"ERR I'm already the owner of hash slot {slot}")
            node.importing[slot] = other
        elif what == "STABLE":
            node.migrating.pop(slot, None)
            node.importing.pop(slot, None)
        else:
            return self.setslot_node(node, slot, other)
        return Answered("OK")

    def setslot_node(self, node: SimulatedNode, slot: int, other: str) -> Reply:
        if node.view[slot] == node.id and other != node.id and node.keys.get(slot):
            return Refused(
                f"ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
            )
        if not node.keys.get(slot):
            node.migrating.pop(slot, None)
        before = node.view[slot]
        node.believe(slot, other)
        if other == node.id and slot in node.importing:
            self.bump(node)
            del node.importing[slot]
        if before == node.id != other and not node.count:
            self.demote(node)
        return Answered("OK")

    def migrate(self, source: SimulatedNode, target: SimulatedNode, command: Migrate) -> Reply:
        if target.down:
            return Refused("IOERR error or timeout reading to target instance")
        slots = [slot for slot, held in source.keys.items() if any(key in held for key in command.keys)]
        trouble = self.chance.random() < self.trouble
        arrived = self.chance.random() < 0.5
        busy = False
        for slot in slots:
            there = target.keys.setdefault(slot, {})
            for key in command.keys:
                if key not in source.keys[slot] or (trouble and not arrived):
                    continue
                if key in there and not command.replace:
                    busy = True
                    continue
                there[key] = source.keys[slot][key]
                if not trouble:
                    del source.keys[slot][key]
        if trouble:
            return Refused("IOERR error or timeout reading to target instance")
        return (
            Refused("ERR Target instance replied with error: BUSYKEY Target key name already exists.")
            if busy
            else Answered("OK")
        )

    def migrateslots(self, node: SimulatedNode, words: list[str]) -> Reply:
        jobs, bounds = [], []
        for word in words:
            if word == "SLOTSRANGE":
                bounds = []
            elif word == "NODE":
                continue
            elif word.isdigit():
                bounds.append(int(word))
            else:
                jobs.append((word, SlotSet.from_ranges(zip(bounds[::2], bounds[1::2], strict=True))))
        for _, slots in jobs:
            if any(node.view[slot] != node.id for slot in slots):
                return Refused("ERR Requested slots span multiple shards")
        for target, slots in jobs:
            self.begin_job(node.id, target, slots)
        return Answered("OK")

    def import_slots(self, node: SimulatedNode, bounds: list[int]) -> Reply:
        slots = SlotSet.from_ranges(zip(bounds[::2], bounds[1::2], strict=True))
        sources = {node.view[slot] for slot in slots}
        if len(sources) != 1:
            return Refused("ERR slots belong to different source nodes")
        if any(job["active"] for end in (node.id, *sources) for job in self.nodes[end].jobs):
            return Refused("ERR another ASM task is already in progress")
        return Answered(self.begin_job(sources.pop(), node.id, slots).encode())

    def begin_job(self, source: str, target: str, slots: SlotSet) -> str:
        self.events += 1
        name = f"{self.chance.getrandbits(160):040x}"
        job = {
            "name": name,
            "source": source,
            "target": target,
            "slots": slots,
            "state": "snapshotting",
            "active": True,
        }
        job["looks"] = 0
        self.nodes[source].jobs.insert(0, job)
        self.nodes[target].jobs.insert(0, job)
        return name

    def cancel(self, node: SimulatedNode) -> Reply:
        active = [job for job in node.jobs if job["active"]]
        for job in active:
            job.update(active=False, state="cancelled" if self.product == "valkey" else "canceled")
        return Answered(len(active)) if active else Refused("ERR No migrations ongoing")

    def work_on_jobs(self) -> None:
        """Jobs of one source run one after another."""
        for node in self.nodes.values():
            job = next((job for job in reversed(node.jobs) if job["active"] and job["source"] == node.id), None)
            if job is None:
                continue
            target = self.nodes[job["target"]]
            job["looks"] += 1
            if node.down or target.down or not target.is_master:
                job.update(active=False, state="failed", message="Connection lost")
            elif job["looks"] >= LOOKS_OF_A_JOB:
                if self.fail_jobs:
                    self.fail_jobs -= 1
                    self.fail(job)
                    continue
                self.take_over(job, node, target)

    def fail(self, job: dict[str, Any]) -> None:
        """A migration of Valkey ends; an import of Redis 8.4 tries again until it is cancelled."""
        job.update(active=self.product == "redis", state="failed", message="no luck", retries=job.get("retries", 0) + 1)

    def take_over(self, job: dict[str, Any], source: SimulatedNode, target: SimulatedNode) -> None:
        for slot in job["slots"]:
            target.believe(slot, target.id)
            source.believe(slot, target.id)
            target.keys[slot] = source.keys.pop(slot, {})
        self.bump(target)
        if not source.count:
            self.demote(source)
        job.update(active=False, state="success" if self.product == "valkey" else "completed")

    # what it looks like

    def look(self, names: Sequence[str]) -> ClusterSight:
        self.spoken_to |= set(names)
        lost = {name: "connection refused" for name in names if self.nodes[name].down}
        return ClusterSight({name: self.sight(self.nodes[name]) for name in names if name not in lost}, lost)

    def sight(self, node: SimulatedNode) -> NodeSight:
        return NodeSight(
            node.id, f"{node.id}:1", node.is_master, node.epoch, self.product, self.version,
            owners={} if node.alone else node.sees(),
            cluster_ok=not node.alone, slots_ok=0 if node.alone else SLOT_COUNT,
            epochs={n.id: n.epoch for n in self.nodes.values() if n.is_master and not n.alone} | {node.id: node.epoch},
            addresses={n.id: f"{n.id}:1" for n in self.nodes.values()},
            migrating=dict(node.migrating), importing=dict(node.importing),
            open_keys={s: len(node.keys.get(s, {})) for s in (*node.migrating, *node.importing)},
            jobs=tuple(
                JobSight(j["name"], j["source"] == node.id, j["source"], j["target"], j["slots"], j["state"], j.get("message", ""),
                         j.get("retries", 0) if self.product == "redis" else 0)
                for j in node.jobs
            ),
        )  # fmt: skip

    def owners(self) -> list[str]:
        return self.look(list(self.nodes)).owner_list()

    # the executor

    def count(self) -> None:
        """Something happened; the executor may be killed right here."""
        self.events += 1
        if self.kill_after is not None and self.events > self.kill_after:
            self.kill_after = None
            raise KilledError

    def drive(self, execution: Execution) -> Outcome:
        """Do what *execution* asks until it ends; raises KilledError where that was arranged."""
        steps, answer = execution.run(), None
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as end:
                return end.value
            answer = self.perform(effect)

    def perform(self, effect: Any) -> Any:
        for node in self.nodes.values():
            node.down = max(0, node.down - 1)
        if self.chance.random() < self.gossip_chance:
            self.gossip()
        if isinstance(effect, Look):
            self.work_on_jobs()
            return self.look(effect.nodes)
        if isinstance(effect, Ask):
            replies = []
            for command in effect.commands:
                self.count()
                self.write()
                replies.append(self.call(command))
            self.count()
            return replies
        if isinstance(effect, Note):
            self.count()
            self.journal += effect.steps
            self.count()
        elif isinstance(effect, Wait):
            self.now_s += effect.seconds
            self.gossip()
        elif isinstance(effect, Clock):
            self.now_s += 0.01
            return self.now_s
        else:
            assert isinstance(effect, Tell)
            self.told.append(effect.line)
        return None


def stored_plan(cluster: SimulatedCluster, moves: Sequence[tuple[int, str, str]], **how: Any) -> StoredPlan:
    """A plan for the cluster as it is, which moves these slots; *how* as `order_moves` has it."""
    owners = cluster.owners()
    loads = {"serialized_bytes": [10] * SLOT_COUNT}
    names = list(cluster.nodes)
    problem = Problem(loads, owners, [Master(name) for name in names])
    after = list(owners)
    for slot, source, target in moves:
        assert after[slot] == source
        after[slot] = target
    rows = tuple(Move(slot, source, target, (10,)) for slot, source, target in sorted(moves))
    held = {name: (10.0 * owners.count(name),) for name in names}
    rooms = {name: Room(held[name], {}, owners.count(name), stays=name in after) for name in names}
    plan = Plan(
        "move", "serialized_bytes", 1, rows, 10 * len(rows), 0, (), 0, (), (), (), None, False,
        count_ranges(owners), count_ranges(after), tuple(after),
    )  # fmt: skip
    epochs = {name: node.epoch for name, node in cluster.nodes.items()}
    return StoredPlan(
        "0123456789ab", "now", problem, plan, tuple(order_moves(rows, rooms, **how).batches),
        tuple(PlannedNode(name, f"{name}:1", "", epochs[name]) for name in names),
        hash_state(owners, epochs), TimeModel(), 0,
    )  # fmt: skip
