"""Tables of masters, replicas and sentinels: add, find, reset, change address (createSentinelRedisInstance)."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from cluster_core.sentinel.events import Hello, parse_hello
from cluster_core.sentinel.instance import Address, FailoverState, Flag, Instance, new_instance, replica_name
from cluster_core.sentinel.links import close_both, release, share_link
from cluster_core.sentinel.state import EPOCH_MAX, INSTANCES_MAX, SentinelState


def is_place(host: str, port: int) -> bool:
    """Return whether *host* and *port* form a valid address; names are not resolved (createSentinelAddr)."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host and 0 <= port <= 65535


def add_master(state: SentinelState, name: str, address: Address, quorum: int) -> Instance:
    """Start to monitor *address* under the unused name *name*."""
    master = state.masters[name] = new_instance(Flag.MASTER, name, address, state.now_ms)
    master.quorum = quorum
    master.down_after_ms = state.periods.default_down_after_ms
    master.failover_timeout_ms = state.periods.default_failover_timeout_ms
    return master


def add_replica(state: SentinelState, master: Instance, host: str, port: int) -> Instance | None:
    """Add a replica of *master*; return None if it exists, its address is invalid or the table is full."""
    address = Address(host, port)
    name = replica_name(address)
    if not is_place(host, port) or name in master.replicas or len(master.replicas) >= INSTANCES_MAX:
        return None
    replica = master.replicas[name] = new_instance(Flag.REPLICA, name, address, state.now_ms, master=master)
    return replica


def add_sentinel(state: SentinelState, master: Instance, host: str, port: int, runid: str) -> Instance | None:
    """Add a sentinel of *master*, sharing an existing link; return None as in `add_replica`."""
    if not is_place(host, port) or runid in master.sentinels or len(master.sentinels) >= INSTANCES_MAX:
        return None
    address = Address(host, port)
    sentinel = master.sentinels[runid] = new_instance(Flag.SENTINEL, runid, address, state.now_ms, master=master)
    sentinel.runid = runid
    share_link(state, sentinel)
    return sentinel


def find_master_at(state: SentinelState, host: str, port: int) -> Instance | None:
    """Return the master at an address (getSentinelRedisInstanceByAddrAndRunID)."""
    wanted = Address(host, port)
    return next((master for master in state.masters.values() if master.address == wanted), None)


def remove_sentinel(state: SentinelState, master: Instance, runid: str) -> bool:
    """Remove the sentinel with this run id (removeMatchingSentinelFromMaster)."""
    sentinel = master.sentinels.pop(runid, None)
    if sentinel is not None:
        release(state, sentinel)
    return sentinel is not None


def _reset_master(state: SentinelState, master: Instance) -> None:
    """Reset replicas, flags, votes and failover state of *master*; its sentinels stay (sentinelResetMaster)."""
    replicas, master.replicas = master.replicas, {}
    for instance in replicas.values():
        release(state, instance)
    link, now_ms = master.link, state.now_ms
    close_both(state, link)
    master.flags &= Flag.MASTER
    master.leader = ""
    master.failover_state = FailoverState.NONE
    master.failover_changed_ms = master.failover_start_ms = 0
    master.promoted = None
    master.runid = master.master_host = ""
    link.pending_ping_ms = link.available_ms = link.last_pong_ms = now_ms
    link.last_ping_ms = 0
    master.role_reported, master.role_reported_ms = Flag.MASTER, now_ms


def move_master(state: SentinelState, master: Instance, address: Address) -> None:
    """Change the address of *master*; the old address becomes a replica (sentinelResetMasterAndChangeAddress)."""
    replicas = [replica.address for replica in master.replicas.values() if replica.address != address]
    if master.address != address:
        replicas.append(master.address)
    _reset_master(state, master)
    master.address = address
    master.o_down_since_ms = master.s_down_since_ms = 0
    for place in replicas:
        replica = add_replica(state, master, *place)
        if replica is not None:
            state.announce_of("*", "+slave", replica)


_ID: Final = re.compile(r"[0-9A-Za-z_.-]{1,64}")
"""Ids that a configuration file can hold; servers use 40 hexadecimal digits."""


def take_hello(state: SentinelState, text: str) -> None:
    """Apply a hello message; messages on unmonitored masters are ignored (sentinelProcessHelloMessage)."""
    hello = parse_hello(text)
    master = state.masters.get(hello.master_name) if hello is not None else None
    if hello is None or master is None or hello.runid == state.my_id or not _ID.fullmatch(hello.runid):
        return
    if max(hello.current_epoch, hello.master_config_epoch) > EPOCH_MAX:
        return
    sender = master.sentinels.get(hello.runid)
    if sender is None or sender.address != Address(hello.ip, hello.port):
        sender = _meet(state, master, hello)
    if hello.current_epoch > state.current_epoch:
        state.raise_epoch(hello.current_epoch)
    if sender is None:
        return
    if master.config_epoch < hello.master_config_epoch:
        _take_config(state, master, sender, hello)


def _meet(state: SentinelState, master: Instance, hello: Hello) -> Instance | None:
    """Add a new sentinel, or one with a new address; return None if its address is invalid."""
    if not is_place(hello.ip, hello.port):
        return None
    has_moved = remove_sentinel(state, master, hello.runid)
    if has_moved:
        more = f"ip {hello.ip} port {hello.port} for {hello.runid}"
        state.announce_of("*", "+sentinel-address-switch", master, more)
    else:
        _clear_address(state, master, Address(hello.ip, hello.port))
    sentinel = add_sentinel(state, master, hello.ip, hello.port, hello.runid)
    if sentinel is None:
        return None
    if has_moved:
        _move_elsewhere(state, sentinel)
    else:
        state.announce_of("*", "+sentinel", sentinel)
    return sentinel


def _clear_address(state: SentinelState, master: Instance, address: Address) -> None:
    """Remove sentinels with another run id at *address*, for every master."""
    other = next((s for s in master.sentinels.values() if s.address == address), None)
    if other is not None:
        state.announce_of("*", "+sentinel-invalid-addr", other)
        for each in state.masters.values():
            remove_sentinel(state, each, other.runid)


def _move_elsewhere(state: SentinelState, sentinel: Instance) -> None:
    """Update the sentinel's address for every master (sentinelUpdateSentinelAddressInAllMasters)."""
    moved = 0
    for master in state.masters.values():
        match = master.sentinels.get(sentinel.runid)
        if match is None:
            continue
        close_both(state, match.link)
        if match is not sentinel:
            match.address = sentinel.address
            moved += 1
    if moved:
        state.announce_of("*", "+sentinel-address-update", sentinel, f"{moved} additional matching instances")


def _take_config(state: SentinelState, master: Instance, sender: Instance, hello: Hello) -> None:
    """Adopt the configuration with the higher epoch, from any sentinel (S4)."""
    address = Address(hello.master_ip, hello.master_port)
    if not is_place(*address):
        return
    master.config_epoch = hello.master_config_epoch
    if address == master.address:
        return
    state.announce_of("#", "+config-update-from", sender)
    old = master.address
    state.tell("#", "+switch-master", f"{master.name} {old.ip} {old.port} {address.ip} {address.port}")
    move_master(state, master, address)
