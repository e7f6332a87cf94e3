"""Connections to instances: open, close, share between records of one sentinel, and periodic commands (S1, S2)."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.events import HELLO_CHANNEL, CloseLink, Hello, OpenLink, format_hello
from cluster_core.sentinel.instance import Address, FailoverState, Flag, Instance, InstanceLink
from cluster_core.sentinel.state import PENDING_COMMANDS_MAX, Connection, ReplyPurpose, SentinelState

FAST_INFO_MS: Final = 1000


def send_ping(state: SentinelState, instance: Instance) -> None:
    """Send PING and record the time of the oldest unanswered one (sentinelSendPing)."""
    state.send(instance, ReplyPurpose.PING, "PING")
    link = instance.link
    link.last_ping_ms = state.now_ms
    if not link.pending_ping_ms:
        link.pending_ping_ms = state.now_ms


def info_period_ms(instance: Instance, usual_ms: int) -> int:
    """Return the INFO period of *instance*: 1 s during a failover or while its master link is down (S2)."""
    master = instance.master
    if instance.flags & Flag.REPLICA and master is not None:
        fails = master.flags & (Flag.O_DOWN | Flag.FAILOVER_IN_PROGRESS)
        if fails or instance.master_link_down_ms:
            return FAST_INFO_MS
    return usual_ms


def send_periodic(state: SentinelState, instance: Instance) -> None:
    """Send the commands that are due to *instance* (sentinelSendPeriodicCommands)."""
    link, now_ms, periods = instance.link, state.now_ms, state.periods
    if link.disconnected or link.pending_commands >= PENDING_COMMANDS_MAX * link.refcount:
        return
    if not instance.flags & Flag.SENTINEL and (
        not instance.info_ms or now_ms - instance.info_ms > info_period_ms(instance, periods.info_ms)
    ):
        state.send(instance, ReplyPurpose.INFO, "INFO")
    ping_ms = min(instance.down_after_ms, periods.ping_ms)
    if now_ms - link.last_pong_ms > ping_ms and now_ms - link.last_ping_ms > ping_ms // 2:
        send_ping(state, instance)
    if now_ms - instance.published_ms > periods.publish_ms:
        send_hello(state, instance)


def current_address(master: Instance) -> Address:
    """Return the master's address for clients: after the promotion the replica's (sentinelGetCurrentMasterAddress)."""
    if (
        master.flags & Flag.FAILOVER_IN_PROGRESS
        and master.promoted is not None
        and master.failover_state >= FailoverState.RECONF_SLAVES
    ):
        return master.promoted.address
    return master.address


def send_hello(state: SentinelState, instance: Instance) -> None:
    """Publish a hello message on *instance*, or send it if *instance* is a sentinel (S3, sentinelSendHello)."""
    link = instance.link
    ip = link.local_ip
    if link.disconnected or not ip:
        return
    master = instance.master or instance
    address = current_address(master)
    hello = Hello(
        ip,
        state.settings.port,
        state.my_id,
        state.current_epoch,
        master.name,
        address.ip,
        address.port,
        master.config_epoch,
    )
    state.send(instance, ReplyPurpose.PUBLISH, "PUBLISH", HELLO_CHANNEL, format_hello(hello))


def force_hello(state: SentinelState, master: Instance) -> None:
    """Make hello messages on *master* due at the next timer (sentinelForceHelloUpdateForMaster)."""
    past_ms = state.periods.publish_ms + 1
    for instance in (master, *master.sentinels.values(), *master.replicas.values()):
        instance.published_ms = max(instance.published_ms - past_ms, 0)


CLIENT_NAME_CHARS: Final = 8
"""Characters of the sentinel's id in CLIENT SETNAME."""


def reconnect(state: SentinelState, instance: Instance) -> None:
    """Open missing connections, at most once per ping period (sentinelReconnectInstance)."""
    link, now_ms = instance.link, state.now_ms
    if not link.disconnected or instance.address.port == 0:
        return
    if now_ms - link.reconnected_ms < state.periods.ping_ms:
        return
    link.reconnected_ms = now_ms
    if not link.command:
        link.pending_commands = 0
        link.command_since_ms = now_ms
        link.local_ip = ""
        link.command = _open(state, instance, is_pubsub=False)
        _introduce(state, link.command, instance, "cmd")
        send_ping(state, instance)
    if instance.flags & (Flag.MASTER | Flag.REPLICA) and not link.pubsub:
        link.pubsub_since_ms = now_ms
        link.pubsub = _open(state, instance, is_pubsub=True)
        _introduce(state, link.pubsub, instance, "pubsub")
        state.subscribe(link.pubsub, HELLO_CHANNEL)
    link.disconnected = False


def _open(state: SentinelState, instance: Instance, *, is_pubsub: bool) -> int:
    number = state.next_link
    state.next_link += 1
    state.connections[number] = Connection(instance.link, instance, is_pubsub)
    state.out.append(OpenLink(number, instance.address.ip, instance.address.port))
    return number


def _introduce(state: SentinelState, number: int, instance: Instance, kind: str) -> None:
    """Send CLIENT SETNAME (sentinelSetClientName)."""
    state.send_first(number, instance, "CLIENT", "SETNAME", f"sentinel-{state.my_id[:CLIENT_NAME_CHARS]}-{kind}")


def link_opened(state: SentinelState, number: int, local_ip: str) -> None:
    """Mark a connection as established and keep its local address for hello messages."""
    connection = state.connections.get(number)
    if connection is not None and not connection.is_pubsub:
        connection.link.local_ip = local_ip


def link_lost(state: SentinelState, number: int) -> None:
    """Handle a connection closed by the peer or the network (instanceLinkConnectionError)."""
    connection = state.connections.pop(number, None)
    if connection is None:
        return
    if connection.is_pubsub:
        connection.link.pubsub = 0
    else:
        connection.link.command = 0
    connection.link.disconnected = True


def close_command(state: SentinelState, link: InstanceLink) -> None:
    """Close the command connection, if open (instanceLinkCloseConnection)."""
    if link.command:
        _close(state, link.command)
        link.command = link.pending_commands = 0
        link.disconnected = True


def close_pubsub(state: SentinelState, link: InstanceLink) -> None:
    """Close the Pub/Sub connection, if open."""
    if link.pubsub:
        _close(state, link.pubsub)
        link.pubsub = 0
        link.disconnected = True


def close_both(state: SentinelState, link: InstanceLink) -> None:
    """Close both connections."""
    close_command(state, link)
    close_pubsub(state, link)


def _close(state: SentinelState, number: int) -> None:
    state.connections.pop(number, None)
    state.out.append(CloseLink(number))


def release(state: SentinelState, instance: Instance) -> None:
    """Drop *instance*; close its link with the last record that shares it (releaseInstanceLink)."""
    instance.is_gone = True
    instance.link.refcount -= 1
    if not instance.link.refcount:
        close_both(state, instance.link)
    for other in (*instance.replicas.values(), *instance.sentinels.values()):
        release(state, other)
    if instance.master is not None and instance.master.promoted is instance:
        instance.master.promoted = None


def share_link(state: SentinelState, sentinel: Instance) -> None:
    """Share the link that another master's record of this sentinel uses (sentinelTryConnectionSharing)."""
    if not sentinel.runid or sentinel.link.refcount > 1:
        return
    for master in state.masters.values():
        if master is sentinel.master:
            continue
        for match in master.sentinels.values():
            if match.runid == sentinel.runid and match is not sentinel:
                close_both(state, sentinel.link)
                sentinel.link = match.link
                match.link.refcount += 1
                return
