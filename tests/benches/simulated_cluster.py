"""A simulated cluster that plans are carried out on: its nodes are those of `cluster_core.node`, its servers those of `cluster_core.sim`.

The executor's questions and commands are answered by the nodes themselves, clients write all the while, and time passes with
every command: gossip, epochs, replication and jobs of the servers take their own course.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from cluster_core.gossip.profile import PROFILES
from cluster_core.node.state import NodeSettings
from cluster_core.rebalance.execution.cluster_now import JOB_LISTS, ClusterSight, NodeSight, read_jobs, read_node
from cluster_core.rebalance.execution.effects import (
    Answered,
    AppendToJournal,
    Ask,
    Clock,
    Latency,
    Lost,
    Migrate,
    ReadState,
    Refused,
    Reply,
    Send,
    ShowProgress,
    Step,
    Wait,
)
from cluster_core.rebalance.execution.machine import Execution, Outcome
from cluster_core.sim.host import Host
from cluster_core.sim.layouts import Place
from cluster_core.sim.stage import Stage
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from cluster_core.slots.slot_set import SlotSet
from cluster_core.wire.resp import RespError
from tests.benches.resp import Verbatim
from tests.benches.simulated_servers import FAILED, Job, Servers

FIRST_PORT: Final = 7000
COMMAND_US: Final = 5_000
"""What a command takes, with the way there and back."""
SETTLING_US: Final = 3_000_000
KEYS_A_SLOT: Final = 40


class KilledError(Exception):
    """The executor's process is gone."""


@cache
def tags() -> tuple[bytes, ...]:
    """For every slot a text that hashes to it."""
    by_slot: dict[int, bytes] = {}
    number = 0
    while len(by_slot) < SLOT_COUNT:
        by_slot.setdefault(key_slot(b"%d" % number), b"%d" % number)
        number += 1
    return tuple(by_slot[slot] for slot in range(SLOT_COUNT))


class SimulatedCluster:
    """Masters with the ids *names* and a part of the slots each, chance, and what clients were promised."""

    def __init__(
        self,
        owners: Sequence[str],
        names: Sequence[str],
        seed: int = 0,
        *,
        profile: str = "redis-7.0",
        keys: int = 200,
        ports: Sequence[int] = (),
    ) -> None:
        self.chance = random.Random(seed)
        self.names = tuple(names)
        places = []
        for number, name in enumerate(names):
            port = ports[number] if ports else FIRST_PORT + number
            settings = NodeSettings(PROFILES[profile], 15_000, port, port % 55_000 + 10_000)
            slots = SlotSet(slot for slot, owner in enumerate(owners) if owner == name)
            places.append(Place(name, "127.0.0.1", "Z1", settings, name, f"{number:040x}", slots=slots))
        self.world = Servers(random.Random, seed)
        self.stage = Stage(self.world, places)
        self.faults = self.stage.faults
        self.hosts = {host.id: host for host in self.world.hosts}
        self.trouble = 0.0
        """Chance that the way to or from the target of a MIGRATE fails."""
        self.promised: dict[bytes, bytes] = {}
        self.hot: list[int] = sorted(self.chance.sample(range(SLOT_COUNT), 50))
        self.journal: list[Step] = []
        self.progress: list[str] = []
        self.spoken_to: set[str] = set()
        self.writes = self.events = self.fail_jobs = 0
        self.kill_after: int | None = None
        self.on_event: Callable[[], None] = lambda: None
        """Called whenever something happened."""
        self.latency_ms: Callable[[], float | None] = lambda: None
        self.on_command: Callable[[Send | Migrate], None] = lambda command: None
        self.pass_time(SETTLING_US)
        for _ in range(keys):
            self.write()

    # time

    @property
    def now_s(self) -> float:
        return self.world.now_us / 1e6

    def pass_time(self, us: int) -> None:
        """Let the cluster live on; with *fail_jobs* jobs of servers lose their connection meanwhile."""
        if not self.fail_jobs or not (active := self.active_jobs()):
            self.world.run_to(self.world.now_us + us)
            return
        tried = [job.attempt for job in active]
        for job in active:
            self.faults.cut([job.ends[0]], [job.ends[1]])
        self.world.run_to(self.world.now_us + us)
        self.faults.heal()
        self.fail_jobs -= sum(job.state == FAILED and job.attempt >= n for job, n in zip(active, tried, strict=True))
        self.fail_jobs = max(0, self.fail_jobs)

    def settle(self) -> None:
        """Let the news of everything reach everybody."""
        self.pass_time(SETTLING_US)

    def active_jobs(self) -> list[Job]:
        return [job for job in self.world.migrations.jobs if job.is_active]

    # clients

    def ask(self, host: Host, *arguments: str | bytes | int) -> Any:
        """What a node answers at once."""
        raw = tuple(word if isinstance(word, bytes) else str(word).encode() for word in arguments)
        reply = self.world.ask(host, raw)
        return reply.data if isinstance(reply, Verbatim) else reply

    def write(self) -> None:
        """One client writes one key, following MOVED and ASK; an accepted write is a promise."""
        self.writes += 1
        key = b"{%s}%d" % (tags()[self.chance.choice(self.hot)], self.chance.randrange(KEYS_A_SLOT))
        value = b"%d" % self.writes
        host = self.chance.choice([*self.hosts.values()])
        for _ in range(5):
            reply = self.ask(host, "SET", key, value)
            if reply == "OK":
                self.promised[key] = value
            if not isinstance(reply, RespError) or reply.text.split()[0] not in ("MOVED", "ASK"):
                return
            kind, _, place = reply.text.split()
            ip, _, port = place.rpartition(":")
            host = self.world.network.by_address[ip, int(port)]
            if kind == "ASK":
                self.ask(host, "ASKING")

    def lost_writes(self) -> list[bytes]:
        """Keys without their last promised value at their owner."""
        owners = self.owners()
        return [
            key for key, value in self.promised.items() if self.hosts[owners[key_slot(key)]].store.value(key) != value
        ]

    def strays(self) -> list[tuple[str, int]]:
        """Masters that hold keys of slots that they do not own."""
        masters = [host for host in self.hosts.values() if not host.node.view.myself.replicaof]
        return [
            (h.id, s)
            for h in masters
            for s, held in h.store.held.items()
            if held and not h.node.view.myself.slots >> s & 1
        ]

    # what it looks like

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.hosts[name].settings.port}"

    def called(self, name: str) -> str:
        """How reports call a node."""
        return f"{self.address(name)} ({name[:8]})"

    def epochs(self) -> dict[str, int]:
        return {name: self.hosts[name].node.view.myself.config_epoch for name in self.names}

    def owners(self) -> list[str]:
        return self.look([name for name in self.hosts if self.hosts[name].alive]).owner_list()

    def look(self, names: Sequence[str]) -> ClusterSight:
        self.spoken_to |= set(names)
        lost = {name: "connection refused" for name in names if not self.hosts[name].answers}
        return ClusterSight({name: self.sight(self.hosts[name]) for name in names if name not in lost}, lost)

    def sight(self, host: Host) -> NodeSight:
        texts = (self.ask(host, "CLUSTER", "NODES"), self.ask(host, "CLUSTER", "INFO"), self.ask(host, "INFO"))
        seen = read_node(host.id, *texts)
        question = JOB_LISTS.get(seen.path)
        return replace(
            seen,
            jobs=read_jobs(self.ask(host, *question)) if question else (),
            open_keys={
                slot: self.ask(host, "CLUSTER", "COUNTKEYSINSLOT", slot) for slot in (*seen.migrating, *seen.importing)
            },
            node_timeout_ms=host.settings.node_timeout_ms,
        )

    # the executor

    def count(self) -> None:
        """Something happened; the executor may be killed right here."""
        self.events += 1
        self.on_event()
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
        """Answer one effect of an execution."""
        if isinstance(effect, ReadState):
            self.pass_time(COMMAND_US)
            return self.look(effect.nodes)
        if isinstance(effect, Ask):
            replies = []
            for command in effect.commands:
                self.count()
                self.write()
                replies.append(self.call(command))
                self.pass_time(COMMAND_US)
            self.count()
            return replies
        if isinstance(effect, AppendToJournal):
            self.count()
            self.journal += effect.steps
            self.count()
        elif isinstance(effect, Wait):
            self.pass_time(int(effect.seconds * 1e6))
        elif isinstance(effect, Clock):
            return self.now_s
        elif isinstance(effect, Latency):
            return self.latency_ms()
        else:
            assert isinstance(effect, ShowProgress)
            self.progress.append(effect.line)
        return None

    def call(self, command: Send | Migrate) -> Reply:
        """Send one command and return the reply."""
        self.on_command(command)
        host = self.hosts[command.node if isinstance(command, Send) else command.source]
        self.spoken_to.add(host.id)
        if not host.answers:
            return Lost("connection refused")
        if isinstance(command, Send):
            reply = self.ask(host, *command.arguments)
        else:
            reply = self.migrate(host, self.hosts[command.target], command)
        return Refused(reply.text) if isinstance(reply, RespError) else Answered(reply)

    def migrate(self, source: Host, target: Host, command: Migrate) -> Any:
        """MIGRATE over a way that may fail before the keys arrive, or before their arrival is known."""
        arguments = ["MIGRATE", target.ip, target.settings.port, "", 0, 1000, *(["REPLACE"] if command.replace else [])]
        if self.chance.random() >= self.trouble:
            return self.ask(source, *arguments, "KEYS", *command.keys)
        ends = ([source], [target])
        self.faults.cut(*(ends if self.chance.random() < 0.5 else ends[::-1]), both_ways=False)
        reply = self.ask(source, *arguments, "KEYS", *command.keys)
        self.faults.heal()
        return reply
