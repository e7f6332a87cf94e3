"""What follows from a reply to INFO: new replicas, changed roles, and who must be put right (S14, S15)."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.directory import add_replica
from cluster_core.sentinel.failover import is_reachable, promotion_seen, send_replicaof
from cluster_core.sentinel.failover_states import FailoverState
from cluster_core.sentinel.info import InfoReport, read_info
from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sentinel.state import SentinelState

CONVERT_PERIODS: Final = 4
"""So many hello periods a replica may say that it is a master before it is made one again (S15)."""


def take_info(state: SentinelState, instance: Instance, text: str) -> None:
    """Note what an instance says of itself, and act on it unless in TILT (sentinelRefreshInstanceInfo)."""
    instance.info = text
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
    """What the reply says, without a judgement."""
    now_ms = state.now_ms
    instance.master_link_down_ms = report.link_down_ms
    if report.runid is not None and report.runid != instance.runid:
        if instance.runid:
            state.tell_of("*", "+reboot", instance)
            if instance.flags & Flag.MASTER and instance.reboot_down_after_ms:
                instance.flags |= Flag.MASTER_REBOOT
                instance.reboot_since_ms = now_ms
        instance.runid = report.runid
    if instance.flags & Flag.MASTER:
        for host, port in report.replicas:
            replica = add_replica(state, instance, host, port)
            if replica is not None:
                state.tell_of("*", "+slave", replica)
                state.save()
    if report.master_host is not None and report.master_host.lower() != instance.master_host.lower():
        instance.master_host, instance.conf_changed_ms = report.master_host, now_ms
    if report.master_port is not None and report.master_port != instance.master_port:
        instance.master_port, instance.conf_changed_ms = report.master_port, now_ms
    for name in ("is_master_link_up", "priority", "offset", "is_announced"):
        if getattr(report, name) is not None:
            setattr(instance, name, getattr(report, name))
    instance.info_ms = now_ms


def _note_role(state: SentinelState, instance: Instance, role: int) -> None:
    """The role has changed since we last heard: with ``+`` if it is the one that it should have."""
    instance.role_reported_ms, instance.role_reported = state.now_ms, role
    if role == Flag.REPLICA:
        instance.conf_changed_ms = state.now_ms
    channel = "+role-change" if instance.flags & (Flag.MASTER | Flag.REPLICA) == role else "-role-change"
    state.tell_of("-", channel, instance, f"new reported role is {'master' if role == Flag.MASTER else 'slave'}")


def looks_sane(state: SentinelState, master: Instance) -> bool:
    """Whether *master* is one, says so, is up, and was heard lately (sentinelMasterLooksSane)."""
    return (
        master.role_reported == Flag.MASTER
        and not master.flags & (Flag.S_DOWN | Flag.O_DOWN)
        and state.now_ms - master.info_ms < state.periods.info_ms * 2
    )


def was_up_for(instance: Instance, now_ms: int, wanted_ms: int) -> bool:
    """Whether *instance* became down *wanted_ms* ago or longer, or never (sentinelRedisInstanceNoDownFor)."""
    last_ms = max(instance.s_down_since_ms, instance.o_down_since_ms)
    return not last_ms or now_ms - last_ms > wanted_ms


def _replica_is_master(state: SentinelState, replica: Instance) -> None:
    """Our promoted replica has arrived; any other, such as an old master that is back, is made a replica again."""
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
    """A replica of somebody else is sent to our master, after a time in which a newer configuration would have come."""
    master = replica.master
    assert master is not None
    if Address(replica.master_host, replica.master_port) != master.address:
        _put_right(state, replica, replica.conf_changed_ms, master.failover_timeout_ms, "+fix-slave-config")


def _put_right(state: SentinelState, replica: Instance, since_ms: int, wait_ms: int, channel: str) -> None:
    """Send a replica that has been wrong *since_ms* to its master, if both have been well for long enough (S15)."""
    master = replica.master
    if (
        master is not None
        and looks_sane(state, master)
        and was_up_for(replica, state.now_ms, wait_ms)
        and state.now_ms - since_ms > wait_ms
        and is_reachable(replica)
    ):
        send_replicaof(state, replica, master.address)
        state.tell_of("*", channel, replica)


def _follow_reconfiguration(state: SentinelState, replica: Instance) -> None:
    """`RECONF_SENT`, `RECONF_INPROG` as soon as it names the new master, `RECONF_DONE` when it is in sync."""
    promoted = replica.master.promoted if replica.master is not None else None
    follows = promoted is not None and Address(replica.master_host, replica.master_port) == promoted.address
    if replica.flags & Flag.RECONF_SENT and follows:
        replica.flags = replica.flags & ~Flag.RECONF_SENT | Flag.RECONF_INPROG
        state.tell_of("*", "+slave-reconf-inprog", replica)
    if replica.flags & Flag.RECONF_INPROG and replica.is_master_link_up:
        replica.flags = replica.flags & ~Flag.RECONF_INPROG | Flag.RECONF_DONE
        state.tell_of("*", "+slave-reconf-done", replica)
