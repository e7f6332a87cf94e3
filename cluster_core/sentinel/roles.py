"""Replies of instances: INFO, PING, hello messages and SENTINEL IS-MASTER-DOWN-BY-ADDR, and role corrections (S15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster_core.sentinel.directory import add_replica, take_hello
from cluster_core.sentinel.failover import is_reachable, promotion_seen, send_replicaof
from cluster_core.sentinel.instance import Address, FailoverState, Flag, Instance, leading_number
from cluster_core.sentinel.state import Connection, ReplyPurpose, SentinelState, text_of
from cluster_core.wire.resp import RespError

RUNID_CHARS: Final = 40


class InfoReport(NamedTuple):
    """Fields of an INFO reply; None if missing. *role* is `MASTER`, `REPLICA` or 0."""

    role: int = 0
    runid: str | None = None
    replicas: tuple[tuple[str, int], ...] = ()
    """Addresses of a master's replicas."""
    link_down_ms: int = 0
    master_host: str | None = None
    master_port: int | None = None
    is_master_link_up: bool | None = None
    priority: int | None = None
    offset: int | None = None
    is_announced: bool | None = None


def read_info(text: str) -> InfoReport:
    """Parse an INFO reply, replica fields after ``role:slave`` only; malformed lines are skipped, as in the server."""
    fields: dict[str, object] = {}
    replicas: list[tuple[str, int]] = []
    role = 0
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if not colon:
            continue
        if name == "run_id" and len(value) >= RUNID_CHARS:
            fields["runid"] = value[:RUNID_CHARS]
        elif name == "role":
            role = Flag.MASTER if value.startswith("master") else Flag.REPLICA if value.startswith("slave") else role
        elif name == "master_link_down_since_seconds":
            fields["link_down_ms"] = _bounded(value) * 1000
        elif name.startswith("slave") and name[5:6].isdigit():
            replicas += _replica(value)
        elif role == Flag.REPLICA and name in _OF_REPLICAS:
            field, read = _OF_REPLICAS[name]
            fields[field] = read(value)
    return InfoReport(role=role, replicas=tuple(replicas), **fields)  # type: ignore[arg-type]  # fields by their readers


def _replica(value: str) -> list[tuple[str, int]]:
    """Parse ``ip=1.2.3.4,port=6379,…`` or, of old servers, ``1.2.3.4,6379,online``."""
    parts = value.split(",")
    if "ip=" in value:
        fields = dict(word.partition("=")[::2] for word in parts)
        return [(fields["ip"], leading_number(fields["port"]))] if {"ip", "port"} <= fields.keys() else []
    return [(parts[0], leading_number(parts[1]))] if len(parts) > 2 else []


def _bounded(value: str) -> int:
    """Parse seconds with an upper bound; -1 (never connected) is kept."""
    return max(-1, min(leading_number(value), 10**9))


_OF_REPLICAS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "master_host": ("master_host", str),
    "master_port": ("master_port", leading_number),
    "master_link_status": ("is_master_link_up", lambda value: value.lower() == "up"),
    "slave_priority": ("priority", leading_number),
    "slave_repl_offset": ("offset", lambda value: max(leading_number(value), 0)),
    "replica_announced": ("is_announced", lambda value: leading_number(value) != 0),
}


CONVERT_PERIODS: Final = 4
"""Hello periods before a replica that reports the master role is reconfigured (S15)."""


def take_info(state: SentinelState, instance: Instance, text: str) -> None:
    """Store an INFO reply, and act on it outside TILT (sentinelRefreshInstanceInfo)."""
    report = read_info(text)
    _note(state, instance, report)
    if report.role != instance.role_reported:
        _note_role(state, instance, report.role)
    if state.tilt or instance.is_gone:
        return
    if instance.flags & Flag.REPLICA and report.role == Flag.MASTER:
        _replica_is_master(state, instance)
    elif instance.flags & Flag.REPLICA and report.role == Flag.REPLICA:
        _fix_master(state, instance)
        _follow_reconfiguration(state, instance)


def _note(state: SentinelState, instance: Instance, report: InfoReport) -> None:
    """Store the fields of the reply without acting on them."""
    now_ms = state.now_ms
    instance.master_link_down_ms = report.link_down_ms
    if report.runid is not None and report.runid != instance.runid:
        if instance.runid:
            state.announce_of("*", "+reboot", instance)
        instance.runid = report.runid
    if instance.flags & Flag.MASTER:
        for host, port in report.replicas:
            replica = add_replica(state, instance, host, port)
            if replica is not None:
                state.announce_of("*", "+slave", replica)
    if report.master_host is not None and report.master_host.lower() != instance.master_host.lower():
        instance.master_host, instance.conf_changed_ms = report.master_host, now_ms
    if report.master_port is not None and report.master_port != instance.master_port:
        instance.master_port, instance.conf_changed_ms = report.master_port, now_ms
    for name in ("is_master_link_up", "priority", "offset", "is_announced"):
        if getattr(report, name) is not None:
            setattr(instance, name, getattr(report, name))
    instance.info_ms = now_ms


def _note_role(state: SentinelState, instance: Instance, role: int) -> None:
    """Record a role change: ``+role-change`` if the new role is the expected one, else ``-role-change``."""
    instance.role_reported_ms, instance.role_reported = state.now_ms, role
    if role == Flag.REPLICA:
        instance.conf_changed_ms = state.now_ms
    channel = "+role-change" if instance.flags & (Flag.MASTER | Flag.REPLICA) == role else "-role-change"
    state.announce_of("-", channel, instance, f"new reported role is {'master' if role == Flag.MASTER else 'slave'}")


def looks_sane(state: SentinelState, master: Instance) -> bool:
    """Return whether *master* reports the master role, is up and sent INFO recently (sentinelMasterLooksSane)."""
    return (
        master.role_reported == Flag.MASTER
        and not master.flags & (Flag.S_DOWN | Flag.O_DOWN)
        and state.now_ms - master.info_ms < state.periods.info_ms * 2
    )


def was_up_for(instance: Instance, now_ms: int, wanted_ms: int) -> bool:
    """Return whether *instance* has not gone down within *wanted_ms* (sentinelRedisInstanceNoDownFor)."""
    last_ms = max(instance.s_down_since_ms, instance.o_down_since_ms)
    return not last_ms or now_ms - last_ms > wanted_ms


def _replica_is_master(state: SentinelState, replica: Instance) -> None:
    """Complete the promotion of the chosen replica; turn any other replica with the master role back into a replica."""
    master = replica.master
    assert master is not None
    if (
        replica.flags & Flag.PROMOTED
        and master.flags & Flag.FAILOVER_IN_PROGRESS
        and master.failover_state == FailoverState.WAIT_PROMOTION
    ):
        promotion_seen(state, master)
    elif not replica.flags & Flag.PROMOTED:
        wait_ms = state.periods.publish_ms * CONVERT_PERIODS
        _put_right(state, replica, replica.role_reported_ms, wait_ms, "+convert-to-slave")


def _fix_master(state: SentinelState, replica: Instance) -> None:
    """Repoint a replica of another master, after the time in which a newer configuration would arrive."""
    master = replica.master
    assert master is not None
    if Address(replica.master_host, replica.master_port) != master.address:
        _put_right(state, replica, replica.conf_changed_ms, master.failover_timeout_ms, "+fix-slave-config")


def _put_right(state: SentinelState, replica: Instance, since_ms: int, wait_ms: int, channel: str) -> None:
    """Repoint a replica that has been wrong since *since_ms*, if it and its master were up long enough (S15)."""
    master = replica.master
    if (
        master is not None
        and looks_sane(state, master)
        and was_up_for(replica, state.now_ms, wait_ms)
        and state.now_ms - since_ms > wait_ms
        and is_reachable(replica)
    ):
        send_replicaof(state, replica, master.address)
        state.announce_of("*", channel, replica)


def _follow_reconfiguration(state: SentinelState, replica: Instance) -> None:
    """Move on to `RECONF_INPROG` when it reports the new master, to `RECONF_DONE` when in sync."""
    promoted = replica.master.promoted if replica.master is not None else None
    follows = promoted is not None and Address(replica.master_host, replica.master_port) == promoted.address
    if replica.flags & Flag.RECONF_SENT and follows:
        replica.flags = replica.flags & ~Flag.RECONF_SENT | Flag.RECONF_INPROG
        state.announce_of("*", "+slave-reconf-inprog", replica)
    if replica.flags & Flag.RECONF_INPROG and replica.is_master_link_up:
        replica.flags = replica.flags & ~Flag.RECONF_INPROG | Flag.RECONF_DONE
        state.announce_of("*", "+slave-reconf-done", replica)


VALID_PONGS: Final = ("PONG", "LOADING", "MASTERDOWN")
"""Prefixes of PING replies that count as alive (S5)."""
LEADER_CHARS_MAX: Final = 64


def take_answer(state: SentinelState, number: int, value: Any) -> None:
    """Handle a value from a connection; unexpected ones and those of closed connections are dropped."""
    connection = state.connections.get(number)
    if connection is None:
        return
    if connection.is_pubsub and isinstance(value, list):
        _take_message(state, connection, value)
        return
    if not connection.awaited:
        return
    awaited, instance = connection.awaited.popleft()
    connection.link.pending_commands = max(connection.link.pending_commands - 1, 0)
    if instance.is_gone:
        return
    match awaited:
        case ReplyPurpose.PING:
            _take_pong(state, instance, value)
        case ReplyPurpose.INFO if isinstance(value, bytes):
            take_info(state, instance, text_of(value))
        case ReplyPurpose.PUBLISH if not isinstance(value, RespError):
            instance.published_ms = state.now_ms
        case ReplyPurpose.ASK:
            _take_opinion(state, instance, value)


def _take_message(state: SentinelState, connection: Connection, value: list[Any]) -> None:
    """Handle a Pub/Sub message: the connection is alive; apply hello messages of other sentinels."""
    connection.link.pubsub_active_ms = state.now_ms
    if len(value) != 3 or not all(isinstance(item, bytes) for item in value) or value[0] != b"message":
        return
    text = text_of(value[2])
    if state.my_id not in text:
        take_hello(state, text)


def _take_pong(state: SentinelState, instance: Instance, value: Any) -> None:
    """Handle a PING reply: a valid one ends the wait; a BUSY server in SDOWN gets SCRIPT KILL once (S5)."""
    link = instance.link
    if isinstance(value, str | RespError):
        text = value if isinstance(value, str) else value.text
        if text.startswith(VALID_PONGS):
            link.available_ms = state.now_ms
            link.pending_ping_ms = 0
        elif text.startswith("BUSY") and instance.flags & Flag.S_DOWN and not instance.flags & Flag.SCRIPT_KILL_SENT:
            if link.command:
                state.send(instance, ReplyPurpose.DISCARD, "SCRIPT", "KILL")
            instance.flags |= Flag.SCRIPT_KILL_SENT
    link.last_pong_ms = state.now_ms


def _take_opinion(state: SentinelState, sentinel: Instance, value: Any) -> None:
    """Store another sentinel's opinion on the master, and its vote (S8)."""
    if not isinstance(value, list) or len(value) != 3:
        return
    down, leader, epoch = value
    if type(down) is not int or not isinstance(leader, bytes) or type(epoch) is not int:
        return
    sentinel.master_down_reply_ms = state.now_ms
    sentinel.flags = sentinel.flags | Flag.MASTER_DOWN if down == 1 else sentinel.flags & ~Flag.MASTER_DOWN
    if leader == b"*" or len(leader) > LEADER_CHARS_MAX:
        return
    name = text_of(leader)
    if sentinel.leader_epoch != epoch:
        state.log("#", f"{sentinel.name} voted for {name} {epoch}")
    sentinel.leader, sentinel.leader_epoch = name, epoch
