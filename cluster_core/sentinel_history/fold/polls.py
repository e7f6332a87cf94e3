"""What a sentinel answered about its instances holds, all of it: SENTINEL MASTERS, REPLICAS and SENTINELS."""

from __future__ import annotations

from cluster_core.sentinel.directory import add_replica, add_sentinel, move_master, remove_master, remove_sentinel
from cluster_core.sentinel.failover_states import STATE_BY_WORD, FailoverState
from cluster_core.sentinel.instance import Address, Flag, Instance, parse_flags
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel_history.evidence import Polled
from cluster_core.sentinel_history.fold.connections import monitor
from cluster_core.sentinel_history.fold.state import FoldState


def take_poll(fold: FoldState, item: Polled) -> None:
    """What it answered about its instances holds, all of it."""
    for fields in item.masters:
        address = Address(fields.get("ip", ""), leading_number(fields.get("port", "")))
        name = fields.get("name", "")
        master = fold.state.masters.get(name) or monitor(fold, name, address)
        if master.address != address:
            move_master(fold.state, master, address)
        _take_fields(master, fields)
    known = {fields.get("name", "") for fields in item.masters}
    for name in [name for name in fold.state.masters if name not in known]:
        remove_master(fold.state, fold.state.masters[name])
    master_polled = fold.state.masters.get(item.master)
    if master_polled is None:
        return
    if item.replicas is not None:
        _take_replicas(fold, master_polled, item.replicas)
    if item.sentinels is not None:
        _take_sentinels(fold, master_polled, item.sentinels)


def _take_replicas(fold: FoldState, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
    names = {fields.get("name", "") for fields in polled}
    for gone in [one for one in master.replicas.values() if one.name not in names and one.is_announced]:
        del master.replicas[gone.name]
    for fields in polled:
        add_replica(fold.state, master, fields.get("ip", ""), leading_number(fields.get("port", "")))
        replica = master.replicas.get(fields.get("name", ""))
        if replica is not None:
            _take_fields(replica, fields)
            if replica.flags & Flag.PROMOTED:
                master.promoted = replica


def _take_sentinels(fold: FoldState, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
    names = {fields.get("name", "") for fields in polled}
    for gone in [name for name in master.sentinels if name not in names]:
        remove_sentinel(fold.state, master, gone)
    for fields in polled:
        runid = fields.get("name", "")
        add_sentinel(fold.state, master, fields.get("ip", ""), leading_number(fields.get("port", "")), runid)
        if runid in master.sentinels:
            _take_fields(master.sentinels[runid], fields)


def _take_fields(one: Instance, fields: dict[str, str]) -> None:
    words = fields.get("flags", "")
    one.flags = parse_flags(words) & ((1 << 20) - 1) | one.flags & 7
    one.link.disconnected = "disconnected" in words.split(",")
    one.runid = fields.get("runid", one.runid)
    if "role-reported" in fields:
        one.role_reported = Flag.MASTER if fields["role-reported"] == "master" else Flag.REPLICA
    one.failover_state = STATE_BY_WORD.get(fields.get("failover-state", ""), FailoverState.NONE)
    one.config_epoch = leading_number(fields.get("config-epoch", str(one.config_epoch)))
    one.quorum = leading_number(fields.get("quorum", str(one.quorum)))
    one.down_after_ms = leading_number(fields.get("down-after-milliseconds", str(one.down_after_ms)))
    one.failover_timeout_ms = leading_number(fields.get("failover-timeout", str(one.failover_timeout_ms)))
    if "master-host" in fields:
        host = fields["master-host"]
        one.master_host = "" if host == "?" else host
        one.master_port = leading_number(fields.get("master-port", ""))
        one.is_master_link_up = fields.get("master-link-status") == "ok"
    if "voted-leader" in fields:
        one.leader = "" if fields["voted-leader"] == "?" else fields["voted-leader"]
        one.leader_epoch = leading_number(fields.get("voted-leader-epoch", ""))
