"""Records as replies show them: SENTINEL MASTER, REPLICAS, SENTINELS, INFO-CACHE, and INFO (addReplySentinelRedisInstance)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from cluster_core.sentinel.instance import Flag, Instance, flag_text
from cluster_core.sentinel.state import SentinelState
from cluster_core.wire.resp import RespMap

VERSIONS: Final = {"redis-7.0": "redis_version:7.0.15", "valkey-9.1": "redis_version:7.2.4\r\nvalkey_version:9.1.2"}
SECTIONS: Final = ("server", "sentinel")
"""What INFO has to tell here; the server's other sections are about its process."""


def encoded(text: str) -> bytes:
    """*text* as it came from a peer."""
    return text.encode("utf-8", "surrogateescape")


def instance_reply(instance: Instance, now_ms: int) -> RespMap:
    """Names and values of one record; numbers are texts, as in the server."""
    fields = [*_common(instance, now_ms)]
    for kind, describe in ((Flag.MASTER, _of_master), (Flag.REPLICA, _of_replica), (Flag.SENTINEL, _of_sentinel)):
        if instance.flags & kind:
            fields += describe(instance, now_ms)
    return RespMap(tuple((name.encode(), encoded(str(value))) for name, value in fields))


def _common(instance: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    link = instance.link
    yield "name", instance.name
    yield "ip", instance.address.ip
    yield "port", instance.address.port
    yield "runid", instance.runid
    yield "flags", flag_text(instance.shown_flags)
    yield "link-pending-commands", link.pending_commands
    yield "link-refcount", link.refcount
    if instance.flags & Flag.FAILOVER_IN_PROGRESS:
        yield "failover-state", instance.failover_state.word
    yield "last-ping-sent", now_ms - link.pending_ping_ms if link.pending_ping_ms else 0
    yield "last-ok-ping-reply", now_ms - link.available_ms
    yield "last-ping-reply", now_ms - link.last_pong_ms
    if instance.flags & Flag.S_DOWN:
        yield "s-down-time", now_ms - instance.s_down_since_ms
    if instance.flags & Flag.O_DOWN:
        yield "o-down-time", now_ms - instance.o_down_since_ms
    yield "down-after-milliseconds", instance.down_after_ms
    if instance.flags & (Flag.MASTER | Flag.REPLICA):
        yield "info-refresh", now_ms - instance.info_ms if instance.info_ms else 0
        yield "role-reported", "master" if instance.role_reported == Flag.MASTER else "slave"
        yield "role-reported-time", now_ms - instance.role_reported_ms


def _of_master(master: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "config-epoch", master.config_epoch
    yield "num-slaves", len(master.replicas)
    yield "num-other-sentinels", len(master.sentinels)
    yield "quorum", master.quorum
    yield "failover-timeout", master.failover_timeout_ms
    yield "parallel-syncs", master.parallel_syncs
    if master.notification_script:
        yield "notification-script", master.notification_script
    if master.reconfig_script:
        yield "client-reconfig-script", master.reconfig_script


def _of_replica(replica: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "master-link-down-time", replica.master_link_down_ms
    yield "master-link-status", "ok" if replica.is_master_link_up else "err"
    yield "master-host", replica.master_host or "?"
    yield "master-port", replica.master_port
    yield "slave-priority", replica.priority
    yield "slave-repl-offset", replica.offset
    yield "replica-announced", int(replica.is_announced)


def _of_sentinel(sentinel: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "last-hello-message", now_ms - sentinel.hello_ms
    yield "voted-leader", sentinel.leader or "?"
    yield "voted-leader-epoch", sentinel.leader_epoch


def instances_reply(instances: Iterable[Instance], now_ms: int) -> list[Any]:
    """Several records; replicas that want to be unknown are left out (addReplyDictOfRedisInstances)."""
    return [instance_reply(each, now_ms) for each in instances if each.is_announced or not each.flags & Flag.REPLICA]


def info_cache_reply(masters: Iterable[Instance], now_ms: int) -> list[Any]:
    """The last INFO of masters and their replicas, each with its age (SENTINEL INFO-CACHE)."""
    reply: list[Any] = []
    for master in masters:
        cached: list[Any] = []
        for each in (master, *master.replicas.values()):
            cached.append([now_ms - each.info_ms if each.info_ms else 0, encoded(each.info) if each.info else None])
        reply += [encoded(master.name), cached]
    return reply


def info_text(state: SentinelState, wanted: Iterable[str]) -> str:
    """INFO of the sections *wanted*, all that there are for ``all``, ``default``, ``everything`` or none."""
    asked = {section.lower() for section in wanted} or {"all"}
    if asked & {"all", "default", "everything"}:
        asked = set(SECTIONS)
    parts = []
    if "server" in asked:
        lines = ("# Server", VERSIONS[state.settings.dialect], "redis_mode:sentinel", f"run_id:{state.my_id}")
        parts.append("\r\n".join((*lines, f"tcp_port:{state.settings.port}", "")))
    if "sentinel" in asked:
        parts.append("\r\n".join((*_sentinel_lines(state), "")))
    return "\r\n".join(parts)


def _sentinel_lines(state: SentinelState) -> Iterator[str]:
    """The section of sentinels (sentinelInfoCommand)."""
    since_s = (state.now_ms - state.tilt_since_ms) // 1000 if state.tilt else -1
    failures = sum(bit for name, bit in FAILURE_BITS.items() if name in state.fails_after)
    yield "# Sentinel"
    yield f"sentinel_masters:{len(state.masters)}"
    yield f"sentinel_tilt:{int(state.tilt)}"
    yield f"sentinel_tilt_since_seconds:{since_s}"
    if state.settings.dialect.startswith("valkey"):
        yield f"sentinel_total_tilt:{state.tilts}"
    yield "sentinel_running_scripts:0"
    yield "sentinel_scripts_queue_length:0"
    yield f"sentinel_simulate_failure_flags:{failures}"
    for number, master in enumerate(state.masters.values()):
        status = "odown" if master.flags & Flag.O_DOWN else "sdown" if master.flags & Flag.S_DOWN else "ok"
        yield (
            f"master{number}:name={master.name},status={status},address={master.address.ip}:{master.address.port},"
            f"slaves={len(master.replicas)},sentinels={len(master.sentinels) + 1}"
        )


FAILURE_BITS: Final = {"crash-after-election": 1, "crash-after-promotion": 2}
"""Simulated failures and their bits in INFO."""
