"""Redirections of a cluster node (R112 to R121, `getNodeByQuery`); ``str()`` of a decision is the error reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from cluster_core.routing.key_positions import NOT_KEY, CommandInfo, CommandTable, key_positions, table_of
from cluster_core.slots.key_slot import key_slot
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.topology.node import Topology


class Endpoint(NamedTuple):
    """Addresses that a redirection can show; see `cluster-preferred-endpoint-type`."""

    ip: str
    port: int
    hostname: str = ""


class EndpointType(Enum):
    """Values of ``cluster-preferred-endpoint-type``."""

    IP = "ip"
    HOSTNAME = "hostname"
    UNKNOWN = "unknown-endpoint"


class Dialect(NamedTuple):
    """Version-dependent routing rules (R115, R116, R119).

    *cross_slot_first*: CROSSSLOT is checked before all else. *marks_of_masters*: open slots count only on a master or for a
    READONLY client, and a replica uses its master's marks. *pubsub_inside_exec*: shard channels count inside a transaction.
    *keys_at_exec*: keys of an open slot are looked up at EXEC, not when a command is queued.
    """

    name: str
    cross_slot_first: bool
    marks_of_masters: bool
    pubsub_inside_exec: bool
    keys_at_exec: bool


REDIS_7_0: Final = Dialect(
    "redis-7.0", cross_slot_first=False, marks_of_masters=False, pubsub_inside_exec=False, keys_at_exec=False
)
VALKEY_9_1: Final = Dialect(
    "valkey-9.1", cross_slot_first=True, marks_of_masters=True, pubsub_inside_exec=True, keys_at_exec=True
)
DIALECTS: Final = {dialect.name: dialect for dialect in (REDIS_7_0, VALKEY_9_1)}


@dataclass(frozen=True, slots=True)
class Settings:
    """Node settings that change routing; the values are the servers' defaults."""

    allow_reads_when_down: bool = False
    allow_pubsubshard_when_down: bool = True
    endpoint_type: EndpointType = EndpointType.IP


@dataclass(frozen=True, slots=True)
class RoutingView:
    """Routing state of the node *myself*, a replica of *master_id* or, if that is empty, a master.

    *owners* maps assigned slots to node ids; *migrating* and *importing* map open slots to the other node.
    """

    myself: str
    owners: Mapping[int, str]
    nodes: Mapping[str, Endpoint]
    master_id: str = ""
    cluster_ok: bool = True
    migrating: Mapping[int, str] = field(default_factory=dict)
    importing: Mapping[int, str] = field(default_factory=dict)
    dialect: Dialect = VALKEY_9_1
    settings: Settings = Settings()

    @property
    def serving(self) -> str:
        """Return the node id that serves the slots here: this node or its master."""
        return self.master_id or self.myself

    def address(self, node_id: str) -> str:
        """Return a node's address in redirections: ``ip:port``, ``host:port``, ``?:port``, ``:port`` (`getPreferredEndpoint`)."""
        node = self.nodes.get(node_id, Endpoint("", 0))
        if self.settings.endpoint_type is EndpointType.IP:
            return f"{node.ip}:{node.port}"
        if self.settings.endpoint_type is EndpointType.HOSTNAME:
            return f"{node.hostname or '?'}:{node.port}"
        return f":{node.port}"


def view_of(
    topology: Topology,
    *,
    cluster_ok: bool = True,
    dialect: Dialect = VALKEY_9_1,
    settings: Settings = Settings(),
) -> RoutingView:
    """Return the view of the ``myself`` node of *topology* (R128), without cluster state; ValueError without one."""
    me = topology.by_id.get(topology.my_id or "")
    if me is None:
        raise ValueError("no node is marked myself")
    owners: dict[int, str] = {}
    for node in topology.nodes:
        for slot in node.slots:
            owners.setdefault(slot, node.id)
    return RoutingView(
        me.id,
        owners,
        {node.id: Endpoint(node.ip, node.port, node.hostname) for node in topology.nodes},
        "" if NodeFlags.MASTER in me.flags else me.master_id or "",
        cluster_ok,
        me.migrating,
        me.importing,
        dialect,
        settings,
    )


@dataclass(frozen=True, slots=True)
class Serve:
    """The node executes the command, or replies with an unrelated error."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Moved:
    """The slot belongs to another node."""

    slot: int
    address: str

    def __str__(self) -> str:
        return f"MOVED {self.slot} {self.address}"


@dataclass(frozen=True, slots=True)
class Ask:
    """The slot is migrating and holds none of the command's keys: ask the target once."""

    slot: int
    address: str

    def __str__(self) -> str:
        return f"ASK {self.slot} {self.address}"


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The slot is migrating and holds only some of the command's keys."""

    def __str__(self) -> str:
        return "TRYAGAIN Multiple keys request during rehashing of slot"


@dataclass(frozen=True, slots=True)
class CrossSlot:
    """The command's keys hash to different slots."""

    def __str__(self) -> str:
        return "CROSSSLOT Keys in request don't hash to the same slot"


@dataclass(frozen=True, slots=True)
class ClusterDown:
    """The slot is not served or the cluster is down; *reason* follows the error code."""

    reason: str

    def __str__(self) -> str:
        return f"CLUSTERDOWN {self.reason}"


Decision = Serve | Moved | Ask | TryAgain | CrossSlot | ClusterDown

SERVE: Final = Serve()
NOT_SERVED: Final = ClusterDown("Hash slot not served")
DOWN: Final = ClusterDown("The cluster is down")
DOWN_READ_ONLY: Final = ClusterDown("The cluster is down and only accepts read commands")

Command = Sequence[bytes]
KeyCheck = Callable[[bytes], bool]
"""Returns whether the node holds a key."""

_SHEBANG: Final = re.compile(rb"#!(\S+)([^\n]*)")


@dataclass(frozen=True, slots=True)
class Client:
    """Connection state: READONLY, ASKING just sent, and commands queued since MULTI."""

    readonly: bool = False
    asking: bool = False
    queued: tuple[tuple[bytes, ...], ...] | None = None

    def after(self, command: Command, decision: Decision) -> Client:
        """Return the state after *command* was answered with *decision* (R120, R121).

        ASKING lasts for one command, or from MULTI to EXEC. Failed transactions are not modelled.
        """
        name = command[0].lower() if command else b""
        inside = self.queued is not None
        client = self if inside or name in (b"asking", b"multi") else replace(self, asking=False)
        if name in (b"exec", b"discard", b"reset"):
            client = Client(readonly=self.readonly and name != b"reset")
        elif name == b"multi" and not inside:
            client = replace(client, queued=())
        elif self.queued is not None and decision == SERVE:
            client = replace(client, queued=(*self.queued, tuple(command)))
        elif name == b"asking":
            client = replace(client, asking=True)
        elif name in (b"readonly", b"readwrite"):
            client = replace(client, readonly=name == b"readonly")
        return client


def route(
    view: RoutingView,
    command: Command,
    *,
    client: Client = Client(),
    keys_here: KeyCheck | Collection[bytes] = (),
    table: CommandTable | None = None,
    script_writes: bool | None = None,
) -> Decision:
    """Return the decision of the node of *view* for *command* (arguments, name first).

    *keys_here* tests keys of open slots. *table* defaults to the dialect's. *script_writes*: whether EVALSHA or FCALL may
    write (None: by COMMAND). Unknown commands and arity errors are `Serve`: they are reported before the slot is computed.
    """
    table = table or table_of(view.dialect.name)
    info = table.find(command)
    if info is None or not info.takes(len(command)):
        return SERVE
    if info.name == "exec":
        if client.queued is None:
            return SERVE
        batch = [
            (arguments, command_info)
            for arguments in client.queued
            if (command_info := table.find(arguments)) is not None
        ]
    else:
        batch = [(tuple(command), info)]
    asked = _asked(view, batch, info, client, script_writes)
    if asked is None:
        return SERVE
    is_here = keys_here if callable(keys_here) else keys_here.__contains__
    return _decide(view, asked, client, is_here)


class _CommandKeys(NamedTuple):
    """Keys of a command or transaction, in order, and its properties."""

    keys: list[bytes]
    writes: bool
    is_channel: bool
    is_migrate: bool
    brings_asking: bool
    is_queued: bool


def _asked(
    view: RoutingView,
    batch: list[tuple[tuple[bytes, ...], CommandInfo]],
    outer: CommandInfo,
    client: Client,
    script_writes: bool | None,
) -> _CommandKeys | None:
    """Collect keys and properties; None without a key."""
    keys = [arguments[position] for arguments, info in batch for position in key_positions(arguments, info)]
    if not keys:
        return None
    inner = [info for _, info in batch] if view.dialect.pubsub_inside_exec else [outer]
    return _CommandKeys(
        keys,
        any(_writes(arguments, info, script_writes) for arguments, info in batch),
        any(NOT_KEY in spec.flags for info in inner for spec in info.key_specs),
        outer.name == "migrate",
        "asking" in outer.flags,
        client.queued is not None and outer.name != "exec",
    )


def _writes(arguments: tuple[bytes, ...], info: CommandInfo, script_writes: bool | None) -> bool:
    """Return whether a command may write; a script's shebang line decides if present (`getCommandFlags`)."""
    if "write" in info.flags:
        return True
    if info.name in ("evalsha", "fcall"):
        return bool(script_writes)
    if info.name == "eval":
        match = _SHEBANG.match(arguments[1]) if len(arguments) > 1 else None
        if match is None:
            return bool(script_writes)
        flags = match[2].partition(b"flags=")[2].split(b" ")[0].split(b",")
        return b"no-writes" not in [flag.strip() for flag in flags]
    return False


def _decide(view: RoutingView, asked: _CommandKeys, client: Client, is_here: KeyCheck) -> Decision:
    """Decide for at least one key, in the order of `getNodeByQuery`."""
    slot = key_slot(asked.keys[0])
    owner = view.owners.get(slot)
    crosses = any(key_slot(key) != slot for key in asked.keys[1:])
    if crosses and view.dialect.cross_slot_first:
        return CrossSlot()
    if owner is None:
        return NOT_SERVED
    if crosses:
        return CrossSlot()
    if not view.cluster_ok:
        refusal = _when_down(view, asked)
        if refusal is not None:
            return refusal
    open_slot = _in_open_slot(view, slot, owner, asked, client, is_here)
    if open_slot is not None:
        return open_slot
    reads_replica = client.readonly or asked.is_channel
    if view.master_id and owner == view.master_id and reads_replica and not asked.writes:
        return SERVE
    return SERVE if owner == view.myself else Moved(slot, view.address(owner))


def _when_down(view: RoutingView, asked: _CommandKeys) -> ClusterDown | None:
    """Return the error while the cluster is down (R118); None if the command is still allowed."""
    if asked.is_channel:
        return None if view.settings.allow_pubsubshard_when_down else DOWN
    if not view.settings.allow_reads_when_down:
        return DOWN
    return DOWN_READ_ONLY if asked.writes else None


def _in_open_slot(
    view: RoutingView, slot: int, owner: str, asked: _CommandKeys, client: Client, is_here: KeyCheck
) -> Decision | None:
    """Decide for a migrating or importing slot (R116, R117, R119); None if its state does not matter."""
    by_mark = view.dialect.marks_of_masters
    if by_mark and view.master_id and not client.readonly:
        return None
    migrating = slot in view.migrating and owner == (view.serving if by_mark else view.myself)
    importing = not migrating and slot in view.importing
    if not migrating and not importing:
        return None
    if asked.is_migrate and not (by_mark and view.master_id):
        return SERVE
    unasked = asked.is_channel or (asked.is_queued and view.dialect.keys_at_exec)
    held = [unasked or is_here(key) for key in asked.keys]
    if migrating and not all(held):
        return TryAgain() if any(held) else Ask(slot, view.address(view.migrating[slot]))
    if importing and (client.asking or asked.brings_asking):
        several = any(key != asked.keys[0] for key in asked.keys)
        return TryAgain() if several and not all(held) else SERVE
    return None
