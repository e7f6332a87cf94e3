"""Simulated servers with commands: CLUSTER, data, and slot migration jobs.

MIGRATE sends commands to the target node like a client, so it may get MOVED; transfer time is not modelled. A migration
job takes time, then the target has the keys and takes the slots with a new epoch while writes at the source are paused.
Jobs of one source run in sequence. A job fails if an end is down, the target is no master, or the source lost the slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.profile import Profile
from cluster_core.node import events as ev
from cluster_core.node.config_file import SavedConfig, owned_slots
from cluster_core.routing.key_positions import table_of
from cluster_core.sim.host import Host
from cluster_core.sim.servers.replication import KEY_SYNC_US
from cluster_core.sim.servers.store import WRITE_BYTES
from cluster_core.sim.world import World
from cluster_core.slots.slot_set import SlotSet
from cluster_core.wire.resp import RespError
from tests.benches.node_commands import FlushKeys, order, take_over, topology_of

Arguments = tuple[bytes, ...]
KEYS_AT: Final = 6
"""Index of the first option of MIGRATE."""
IOERR: Final = RespError("IOERR error or timeout reading to target instance")
ASKER: Final = 0
"""Client number of `Servers.ask`; writing clients have others."""
SESSION_COMMANDS: Final = (b"asking", b"readonly", b"readwrite")


def server_version(profile: Profile) -> tuple[str, str]:
    """Return product and version of a server with *profile*; for Redis 8 the version with slot migration."""
    product, _, version = profile.name.partition("-")
    return product, f"{version}.0" if "." in version else f"{version}.4.0"


class Servers(World):
    """A world of servers that answer commands and keep their nodes.conf."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.migrations = SlotMigrations(self)
        self.asking: set[int] = set()

    def carry_out(self, host: Host, wanted: list[Any]) -> None:
        """Save nodes.conf before other effects; unsynced data is lost with the machine (R95)."""
        for effect in wanted:
            if type(effect) is ev.SaveConfig:
                topology = topology_of(host.node.state, to_file=True)
                host.config_saved = SavedConfig(host.id, topology, owned_slots(topology))
                if effect.fsync:
                    host.config_synced = host.config_saved
            elif type(effect) is FlushKeys:
                host.store.clear()
        super().carry_out(host, wanted)

    def ask(self, host: Host, arguments: Arguments) -> Any:
        """Return the immediate reply of *host*; None without one."""
        replies: list[Any] = []
        before = self.on_reply.get(ASKER)
        self.on_reply[ASKER] = lambda _, value: replies.append(value)
        if host.answers:
            self.serve(host, ASKER, arguments)
        if before is not None:
            self.on_reply[ASKER] = before
        return replies[-1] if replies else None

    def serve(self, host: Host, client: int, arguments: Arguments) -> None:
        name, asking = arguments[0].lower(), client in self.asking
        self.asking.discard(client)
        reply = self.migrations.execute(host, arguments) if host.answers else None
        if not host.alive:
            return
        if reply is not None:
            self._answer(host, client, reply)
        elif name == b"cluster":
            self.tell(host, order(client, arguments))
        elif name in SESSION_COMMANDS:
            self.asking |= {client} if name == b"asking" else set()
            self._answer(host, client, "OK")
        elif table_of(host.node.view.profile.routing_table).find(arguments) is None:
            self._answer(host, client, RespError(f"ERR unknown command '{name.decode('latin-1')}'"))
        else:
            self.tell(host, ev.ClientCommand(client, arguments, asking))

    def execute(self, host: Host, arguments: Arguments) -> Any:
        """Execute a data command that the node serves and return its reply; other commands return OK."""
        command = _COMMANDS.get(arguments[0].lower())
        return "OK" if command is None else command(self, host, arguments)

    def _get(self, host: Host, arguments: Arguments) -> Any:
        return host.store.value(arguments[1])

    def _mget(self, host: Host, arguments: Arguments) -> Any:
        return [host.store.value(key) for key in arguments[1:]]

    def _del(self, host: Host, arguments: Arguments) -> Any:
        held = [key for key in arguments[1:] if host.store.holds(key)]
        for key in held:
            self.replication.write(host, key, None, WRITE_BYTES)
        return len(held)

    def _restore(self, host: Host, arguments: Arguments) -> Any:
        if host.store.holds(arguments[1]) and arguments[-1].upper() != b"REPLACE":
            return RespError("BUSYKEY Target key name already exists.")
        self.replication.write(host, arguments[1], arguments[3], WRITE_BYTES)
        return "OK"

    def _migrate(self, host: Host, arguments: Arguments) -> Any:
        """MIGRATE host port key|"" db timeout [REPLACE] [KEYS key …]."""
        options = [word.upper() for word in arguments[KEYS_AT:]]
        keys = arguments[KEYS_AT + options.index(b"KEYS") + 1 :] if b"KEYS" in options else arguments[3:4]
        here = [key for key in keys if host.store.holds(key)]
        if not here:
            return "NOKEY"
        target = self.network.by_address.get((arguments[1].decode(), int(arguments[2])))
        if target is None or target is host or not target.answers or self.network.path(host, target).is_blocked:
            return IOERR
        error = None
        for key in here:
            restore = (b"RESTORE-ASKING", key, b"0", host.store.value(key) or b"")
            reply = self.ask(target, (*restore, b"REPLACE") if b"REPLACE" in options else restore)
            if self.network.path(target, host).is_blocked:
                return IOERR
            if isinstance(reply, RespError):
                error = RespError(f"ERR Target instance replied with error: {reply.text}")
            else:
                self.replication.write(host, key, None, WRITE_BYTES)
        return error or "OK"

    def _dbsize(self, host: Host, arguments: Arguments) -> Any:
        return sum(map(len, host.store.held.values()))

    def _info(self, host: Host, arguments: Arguments) -> Any:
        product, version = server_version(host.settings.profile)
        server = [f"server_name:{product}", f"{product}_version:{version}"]
        keys = self._dbsize(host, arguments)
        lines = [
            "# Server",
            *server,
            "# Memory",
            "used_memory:0",
            "# Keyspace",
            *([f"db0:keys={keys},expires=0"] if keys else []),
        ]
        return "".join(f"{line}\r\n" for line in lines).encode()

    def _config(self, host: Host, arguments: Arguments) -> Any:
        """CONFIG GET, for settings of simulated nodes."""
        if arguments[1:] != (b"GET", b"cluster-node-timeout"):
            return []
        return [arguments[2], b"%d" % host.settings.node_timeout_ms]


_COMMANDS: Final[dict[bytes, Callable[[Any, Host, Arguments], Any]]] = {
    b"set": World.execute,
    b"get": Servers._get,
    b"mget": Servers._mget,
    b"del": Servers._del,
    b"restore-asking": Servers._restore,
    b"migrate": Servers._migrate,
    b"dbsize": Servers._dbsize,
    b"info": Servers._info,
    b"config": Servers._config,
}


JOB_US: Final = 110_000
"""Minimum duration of a job, measured."""
RETRY_US: Final = 1_000_000
"""Retry interval of a failed import in Redis, until cancelled."""
PAUSE_MS: Final = 20
"""Pause of writes at the source while slots change owner."""
ACTIVE, FAILED, CANCELLED, DONE = range(4)
_SINCE: Final = {"valkey": 9, "redis": 8}
"""First major versions with migration jobs."""
_STATES: Final = {
    "valkey": ("snapshotting", "failed", "cancelled", "success"),
    "redis": ("snapshotting", "failed", "canceled", "completed"),
}


@dataclass(slots=True)
class Job:
    """One migration job; *ends* are source and target, *lives* their processes."""

    name: str
    ends: tuple[Host, Host]
    lives: tuple[int, int]
    slots: SlotSet
    state: int = ACTIVE
    message: str = ""
    tries_again: bool = False
    attempt: int = 0

    def is_known_at(self, host: Host) -> bool:
        """Return whether the process of *host* took part."""
        return any(end is host and life == host.life for end, life in zip(self.ends, self.lives, strict=True))

    @property
    def is_active(self) -> bool:
        """Return whether it may still move slots; failed imports of Redis may while the target knows of them."""
        return self.state == ACTIVE or (self.state == FAILED and self.tries_again and self.is_known_at(self.ends[1]))


class SlotMigrations:
    def __init__(self, world: World) -> None:
        self.world, self.network, self.replication = world, world.network, world.replication
        self.jobs: list[Job] = []
        self._free_us: dict[int, int] = {}

    def execute(self, host: Host, arguments: Arguments) -> Any:
        """Return the reply to a CLUSTER command on jobs; None for others."""
        product, version = server_version(host.settings.profile)
        if int(version.partition(".")[0]) < _SINCE[product]:
            return None
        match product, [word.decode("latin-1").upper() for word in arguments]:
            case "valkey", ["CLUSTER", "MIGRATESLOTS", *rest]:
                return self._export(host, rest)
            case "valkey", ["CLUSTER", "CANCELSLOTMIGRATIONS"]:
                return "OK" if self._cancel(host) else RespError("ERR No migrations ongoing")
            case "redis", ["CLUSTER", "MIGRATION", "IMPORT", *rest]:
                return self._import(host, rest)
            case "redis", ["CLUSTER", "MIGRATION", "CANCEL", "ALL"]:
                return self._cancel(host)
            case ("valkey", ["CLUSTER", "GETSLOTMIGRATIONS"]) | ("redis", ["CLUSTER", "MIGRATION", "STATUS", "ALL"]):
                return [self._described(job, host) for job in self._known(host)]
        return None

    # -- commands ------------------------------------------------------------------------------------------------

    def _export(self, host: Host, arguments: list[str]) -> Any:
        """SLOTSRANGE first last … NODE id, repeated per target."""
        wanted: list[tuple[Host, SlotSet]] = []
        bounds: list[str] = []
        for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
            if word.isdigit() and len(word) < 6:
                bounds.append(word)
            elif word == "NODE":
                target, slots = self._by_id(following.lower()), _slots_of(bounds)
                if target is None or slots is None:
                    return RespError(f"ERR Unknown node {following.lower()} or no range of slots")
                wanted.append((target, slots))
                bounds = []
        if not wanted or any(_bits(slots) & ~host.node.view.myself.slots for _, slots in wanted):
            return RespError("ERR Slots are not served by this node")
        for target, slots in wanted:
            self._begin(host, target, slots)
        return "OK"

    def _import(self, host: Host, bounds: list[str]) -> Any:
        slots = _slots_of(bounds)
        owners = {} if slots is None else {host.node.view.owner_of(slot): None for slot in slots}
        owner = next(iter(owners), None)
        source = self._by_id(owner.id) if owner is not None else None
        if slots is None or len(owners) != 1 or source is None or source is host:
            return RespError("ERR slots belong to different source nodes")
        current = [job for job in self.jobs if job.is_active and {host, source} & {*job.ends}]
        if any(job.state == ACTIVE for job in current):
            return RespError("ERR another ASM task is already in progress")
        for job in current:
            job.state = CANCELLED
        return self._begin(source, host, slots).name.encode()

    def _begin(self, source: Host, target: Host, slots: SlotSet) -> Job:
        job = Job(f"{len(self.jobs) + 1:040x}", (source, target), (source.life, target.life), slots)
        job.tries_again = server_version(target.settings.profile)[0] == "redis"
        self.jobs.append(job)
        self._plan(job, 0)
        return job

    def _plan(self, job: Job, wait_us: int) -> None:
        source = job.ends[0]
        begin_us = max(self.world.now_us + wait_us, self._free_us.get(source.index, 0))
        keys = sum(source.store.count(slot) for slot in job.slots)
        self._free_us[source.index] = end_us = begin_us + JOB_US + keys * KEY_SYNC_US
        job.attempt += 1
        self.world.call_at(end_us, self._finish, job, job.attempt)

    def _cancel(self, host: Host) -> int:
        active = [job for job in self._known(host) if job.is_active]
        for job in active:
            job.state = CANCELLED
        return len(active)

    def _known(self, host: Host) -> list[Job]:
        return [job for job in reversed(self.jobs) if job.is_known_at(host)]

    def _by_id(self, node_id: str) -> Host | None:
        return next((host for host in self.network.by_address.values() if host.id == node_id), None)

    def _described(self, job: Job, host: Host) -> list[Any]:
        product, _ = server_version(host.settings.profile)
        is_source, state, slots = job.ends[0] is host, _STATES[product][job.state].encode(), str(job.slots).encode()
        source, target = (end.id.encode() for end in job.ends)
        if product == "valkey":
            operation = b"EXPORT" if is_source else b"IMPORT"
            return [b"name", job.name.encode(), b"operation", operation, b"slot_ranges", slots, b"target_node", target,
                    b"source_node", source, b"state", state, b"message", job.message.encode()]  # fmt: skip
        operation = b"migrate" if is_source else b"import"
        return [b"id", job.name.encode(), b"slots", slots, b"source", source, b"dest", target, b"operation", operation,
                b"state", state, b"last_error", job.message.encode(), b"retries", job.attempt - 1]  # fmt: skip

    # -- the end of a job ----------------------------------------------------------------------------------------

    def _finish(self, job: Job, attempt: int) -> None:
        if not job.is_active or job.attempt != attempt:
            return
        source, target = job.ends
        bits = _bits(job.slots)
        walls = self.network.path(source, target).is_blocked or self.network.path(target, source).is_blocked
        if walls or not all(end.answers and job.is_known_at(end) for end in job.ends):
            self._fail(job, "Connection lost")
        elif not target.node.view.myself.flags & MASTER or bits & ~source.node.view.myself.slots:
            self._fail(job, "Slots are no longer owned by the source, or the target is no master")
        else:
            job.state, job.message = DONE, ""
            for slot in job.slots:
                for key, value in list(source.store.held.get(slot, {}).items()):
                    self.replication.write(target, key, value, WRITE_BYTES)
            self.world.carry_out(source, [ev.PauseClients(self.world.wall_ms(source) + PAUSE_MS)])
            self.world.tell(target, ev.Change(lambda state: take_over(state, bits)))

    def _fail(self, job: Job, why: str) -> None:
        job.state, job.message = FAILED, why
        if job.is_active:
            source, target = job.ends
            job.lives = source.life, target.life  # a restarted source learns of it from its target
            self._plan(job, RETRY_US)


def _slots_of(bounds: list[str]) -> SlotSet | None:
    try:
        return SlotSet.parse(" ".join(f"{a}-{b}" for a, b in zip(bounds[::2], bounds[1::2], strict=True))) or None
    except (ValueError, DecodeError):
        return None


def _bits(slots: SlotSet) -> int:
    return int.from_bytes(slots.to_wire(), "little")
