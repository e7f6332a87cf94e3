"""What is sent to every instance again and again: PING, INFO, hello messages (S2, S3)."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.failover_states import FailoverState
from cluster_core.sentinel.hello import HELLO_CHANNEL, Hello, format_hello
from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sentinel.settings import PENDING_COMMANDS_MAX
from cluster_core.sentinel.state import Awaited, SentinelState

FAST_INFO_MS: Final = 1000


def send_ping(state: SentinelState, instance: Instance) -> None:
    """PING, and remember since when the oldest unanswered one waits (sentinelSendPing)."""
    state.send(instance, Awaited.PING, "PING")
    link = instance.link
    link.last_ping_ms = state.now_ms
    if not link.pending_ping_ms:
        link.pending_ping_ms = state.now_ms


def info_period_ms(instance: Instance, usual_ms: int) -> int:
    """How often *instance* is asked for INFO: every second while its master fails, or while it has lost it (S2)."""
    master = instance.master
    if instance.flags & Flag.REPLICA and master is not None:
        fails = master.flags & (Flag.O_DOWN | Flag.FAILOVER_IN_PROGRESS)
        if fails or instance.master_link_down_ms:
            return FAST_INFO_MS
    return usual_ms


def send_periodic(state: SentinelState, instance: Instance) -> None:
    """What is due to *instance* now (sentinelSendPeriodicCommands)."""
    link, now_ms, periods = instance.link, state.now_ms, state.periods
    if link.disconnected or link.pending_commands >= PENDING_COMMANDS_MAX * link.refcount:
        return
    if not instance.flags & Flag.SENTINEL and (
        not instance.info_ms or now_ms - instance.info_ms > info_period_ms(instance, periods.info_ms)
    ):
        state.send(instance, Awaited.INFO, "INFO")
    ping_ms = min(instance.down_after_ms, periods.ping_ms)
    if now_ms - link.last_pong_ms > ping_ms and now_ms - link.last_ping_ms > ping_ms // 2:
        send_ping(state, instance)
    if now_ms - instance.published_ms > periods.publish_ms:
        send_hello(state, instance)


def current_address(master: Instance) -> Address:
    """Where clients find the master: the promoted replica as soon as it is one (sentinelGetCurrentMasterAddress)."""
    if (
        master.flags & Flag.FAILOVER_IN_PROGRESS
        and master.promoted is not None
        and master.failover_state >= FailoverState.RECONF_SLAVES
    ):
        return master.promoted.address
    return master.address


def send_hello(state: SentinelState, instance: Instance) -> None:
    """Publish a hello message on *instance*, or send it if that is a sentinel (S3, sentinelSendHello)."""
    link = instance.link
    ip = state.announce_ip or link.local_ip
    if link.disconnected or not ip:
        return
    master = instance.master or instance
    address = current_address(master)
    hello = Hello(
        ip,
        state.announce_port or state.settings.port,
        state.my_id,
        state.current_epoch,
        master.name,
        address.ip,
        address.port,
        master.config_epoch,
    )
    state.send(instance, Awaited.PUBLISH, "PUBLISH", HELLO_CHANNEL, format_hello(hello))


def force_hello(state: SentinelState, master: Instance) -> None:
    """Have hello messages sent to all that belongs to *master* with the next timer (sentinelForceHelloUpdateForMaster)."""
    past_ms = state.periods.publish_ms + 1
    for instance in (master, *master.sentinels.values(), *master.replicas.values()):
        instance.published_ms = max(instance.published_ms - past_ms, 0)
